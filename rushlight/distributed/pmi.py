"""The process manager's side of MPI's start, PMI-1, for processes that no mpirun has started.

Run as a program of its own by rank 0 (`python pmi.py SIZE HOST`), with nothing but the standard
library: it prints its port, lets SIZE processes exchange their addresses, and ends when they have.
MPICH and its kin read PMI_PORT and PMI_ID. All that passes here are addresses, once.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
from typing import Any

PATIENCE = 120.0


def fields(line: str) -> dict[str, str]:
    return dict([part.split("=", 1) for part in line.split() if "=" in part])


class Manager:
    """One exchange of addresses among `size` processes."""

    def __init__(self, size: int) -> None:
        self.size = size
        # MPI names the memory that processes of one machine share after this: programs that run
        # beside one another must differ.
        self.name = f"rushlight_{os.getpid()}_{os.urandom(8).hex()}"
        self.values: dict[str, str] = {}
        self.at_barrier: list[Any] = []

    def answer(self, connection: Any, line: str) -> str:
        """What is said to one line; a barrier answers all when the last has come."""
        said = fields(line)
        command = said.get("cmd", "")
        if command == "barrier_in":
            self.at_barrier.append(connection)
            if len(self.at_barrier) == self.size:
                waiting, self.at_barrier = self.at_barrier, []
                for each in waiting:
                    with contextlib.suppress(OSError):
                        each.sendall(b"cmd=barrier_out rc=0\n")
            return ""
        if command == "put":
            self.values[said["key"]] = line.split("value=", 1)[1]
            return "cmd=put_result rc=0 msg=success\n"
        if command == "get":
            value = self.values.get(said["key"])
            if value is None:
                return "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"
            return f"cmd=get_result rc=0 msg=success value={value}\n"
        if command == "initack":
            return (
                f"cmd=initack rc=0\ncmd=set size={self.size}\ncmd=set rank={said['pmiid']}\n"
                "cmd=set debug=0\n"
            )
        return {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
            "get_appnum": "cmd=appnum appnum=0\n",
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self.name}\n",
            "get_universe_size": f"cmd=universe_size size={self.size}\n",
            "finalize": "cmd=finalize_ack rc=0\n",
        }.get(command, "")


def serve(size: int, host: str) -> None:
    manager = Manager(size)
    listener = socket.create_server((host, 0), backlog=max(16, size))
    print(listener.getsockname()[1], flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    # Ends when rank 0 does.
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    buffers: dict[Any, bytes] = {}
    come, parent = 0, True
    while (parent or buffers) and (come < size or buffers):
        ready = selector.select(PATIENCE)
        if not ready and come < size:
            return
        for key, _ in ready:
            source: Any = key.fileobj
            if source is listener:
                connection, _ = listener.accept()
                selector.register(connection, selectors.EVENT_READ)
                buffers[connection] = b""
                come += 1
                continue
            if source == sys.stdin.fileno():
                selector.unregister(source)
                parent = False
                continue
            try:
                data = source.recv(1 << 16)
                *lines, buffers[source] = (buffers[source] + data).split(b"\n")
                for line in lines:
                    source.sendall(manager.answer(source, line.decode()).encode())
            except OSError:
                data = b""
            if not data:
                selector.unregister(source)
                source.close()
                del buffers[source]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(int(sys.argv[1]), sys.argv[2])
