"""Tables of a store, and the thread that serves one to other processes over TCP.

Every command is answered at once, so that one thread serves all; waiting is the client's. Frames
are a length and JSON: nothing that arrives is ever executed. A second table, the board, keeps the
last report of each rank and which ranks' connections have ended.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Server", "Table", "ask", "is_loopback"]

LENGTH = struct.Struct("!I")
LIMIT = 1 << 30


class Table:
    """Keys and values, and the commands on them. Values are text, one character a byte."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.queues: dict[str, list[str]] = {}
        self.lock = threading.Lock()

    def do(self, command: str, *args: Any) -> Any:
        method: Callable[..., Any] | None = getattr(self, f"do_{command}", None)
        if method is None:
            raise ValueError(f"a store has no command {command!r}")
        with self.lock:
            return method(*args)

    def do_set(self, key: str, value: str) -> None:
        self.values[key] = value

    def do_peek(self, key: str) -> str | None:
        return self.values.get(key)

    def do_add(self, key: str, amount: int) -> int:
        total = int(self.values.get(key, "0")) + amount
        self.values[key] = str(total)
        return total

    def do_compare_set(self, key: str, expected: str, desired: str) -> str | None:
        # torch: an absent key is set where the expected value is empty.
        if self.values.get(key, "") == expected:
            self.values[key] = desired
        return self.values.get(key, expected)

    def do_delete(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def do_count(self) -> int:
        return len(self.values)

    def do_check(self, keys: list[str]) -> bool:
        return all([key in self.values or key in self.queues for key in keys])

    def do_append(self, key: str, value: str) -> None:
        self.values[key] = self.values.get(key, "") + value

    def do_keys(self) -> list[str]:
        return list(self.values)

    def do_push(self, key: str, value: str) -> None:
        self.queues.setdefault(key, []).append(value)

    def do_pop(self, key: str) -> str | None:
        queue = self.queues.get(key)
        value = queue.pop(0) if queue else None
        if queue is not None and not queue:
            del self.queues[key]
        return value

    def do_length(self, key: str) -> int:
        return len(self.queues.get(key, ()))


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


class Server:
    """A table served on a port by a thread of this process."""

    def __init__(self, host: str, port: int, listen_fd: int | None = None) -> None:
        if listen_fd is not None:
            self.listener = socket.socket(fileno=listen_fd)
        else:
            # On other machines' account every address listens; for one machine only its own.
            place = "127.0.0.1" if is_loopback(host) else ""
            self.listener = socket.create_server((place, port), backlog=1024)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.table = Table()
        self.reports: dict[str, Any] = {}
        self.gone: set[str] = set()
        self.ranks: dict[socket.socket, str] = {}
        self.buffers: dict[socket.socket, bytearray] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.stopping, self.stop_end = socket.socketpair()
        self.selector.register(self.stop_end, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.serve, name="rushlight-store", daemon=True)
        self.thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.stopping.send(b"x")
        self.thread.join(5)

    def serve(self) -> None:
        running = True
        while running:
            for key, _ in self.selector.select():
                if key.fileobj is self.stop_end:
                    running = False
                elif key.fileobj is self.listener:
                    with contextlib.suppress(OSError):
                        connection, _ = self.listener.accept()
                        connection.settimeout(10)
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        self.buffers[connection] = bytearray()
                        self.selector.register(connection, selectors.EVENT_READ)
                else:
                    self.read(key.fileobj)
        for connection in [*self.buffers, self.listener, self.stop_end, self.stopping]:
            connection.close()
        self.selector.close()

    def read(self, connection: Any) -> None:
        try:
            data = connection.recv(1 << 16)
            if not data:
                raise ConnectionError
            buffer = self.buffers[connection]
            buffer += data
            while len(buffer) >= LENGTH.size:
                (size,) = LENGTH.unpack_from(buffer)
                if size > LIMIT:
                    raise ConnectionError
                if len(buffer) < LENGTH.size + size:
                    break
                body = bytes(buffer[LENGTH.size : LENGTH.size + size])
                del buffer[: LENGTH.size + size]
                send_frame(connection, self.answer(connection, json.loads(body)))
        except (OSError, ValueError):
            self.drop(connection)

    def answer(self, connection: socket.socket, request: list[Any]) -> Any:
        command, *args = request
        try:
            if command == "report":
                return {"ok": self.report(connection, *args)}
            return {"ok": self.table.do(command, *args)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def report(self, connection: socket.socket, rank: str, report: Any, asking: bool) -> Any:
        """Note what a rank says of itself; where asked, what all have said and who has gone."""
        self.ranks[connection] = rank
        self.gone.discard(rank)
        if report is not None:
            self.reports[rank] = report
        return asking and {"reports": self.reports, "gone": sorted(self.gone)}

    def drop(self, connection: socket.socket) -> None:
        rank = self.ranks.pop(connection, None)
        if rank is not None:
            self.gone.add(rank)
        self.buffers.pop(connection, None)
        self.selector.unregister(connection)
        connection.close()


def send_frame(connection: socket.socket, value: Any) -> None:
    body = json.dumps(value).encode()
    connection.sendall(LENGTH.pack(len(body)) + body)


def receive(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(min(1 << 20, count - len(parts)))
        if not part:
            raise ConnectionError("the store has closed the connection")
        parts += part
    return bytes(parts)


def ask(connection: socket.socket, *request: Any) -> Any:
    """Send one command and read its answer."""
    send_frame(connection, request)
    (size,) = LENGTH.unpack(receive(connection, LENGTH.size))
    answer = json.loads(receive(connection, size))
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["ok"]
