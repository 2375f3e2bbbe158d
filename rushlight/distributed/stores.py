"""Stores: keys and values that all processes of a program see.

A store answers single commands (`do`); waiting for keys is asking again until time is up.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rushlight.distributed.errors import DistNetworkError, DistStoreError, QueueEmptyError
from rushlight.distributed.storeserver import Server, Table, ask

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

DEFAULT = timedelta(seconds=300)


def as_text(value: Any) -> str:
    """Bytes or text as one character a byte."""
    if not isinstance(value, str | bytes | bytearray | memoryview):
        raise TypeError(f"a store keeps str or bytes, got {type(value).__name__}")
    return (value.encode() if isinstance(value, str) else bytes(value)).decode("latin-1")


def as_bytes(value: str) -> bytes:
    return value.encode("latin-1")


class Store:
    """Keys and values that all processes see."""

    def __init__(self) -> None:
        self._timeout = DEFAULT

    def do(self, command: str, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} answers no commands")

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def has_extended_api(self) -> bool:
        return True

    def clone(self) -> Store:
        return self

    def set(self, key: str, value: Any) -> None:
        self.do("set", key, as_text(value))

    def get(self, key: str) -> bytes:
        """The value, once somebody has set it."""
        self.wait([key])
        found = self.do("peek", key)
        if found is None:
            raise DistStoreError(f"the key {key!r} was deleted while it was waited for")
        return as_bytes(found)

    def add(self, key: str, value: int) -> int:
        return int(self.do("add", key, int(value)))

    def append(self, key: str, value: Any) -> None:
        self.do("append", key, as_text(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        found = self.do("compare_set", key, as_text(expected_value), as_text(desired_value))
        return as_bytes(found)

    def delete_key(self, key: str) -> bool:
        return bool(self.do("delete", key))

    def num_keys(self) -> int:
        return int(self.do("count"))

    def list_keys(self) -> list[str]:
        return list(self.do("keys"))

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self.do("check", list(keys)))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        if len(keys) != len(values):
            raise DistStoreError(
                f"multi_set takes as many values as keys, got {len(values)} for {len(keys)}"
            )
        for key, value in zip(keys, values):
            self.set(key, value)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Until all keys are there."""
        limit = (self.timeout if timeout is None else timeout).total_seconds()
        until = time.monotonic() + limit
        pause = 0.0005
        while not self.check(keys):
            if time.monotonic() > until:
                missing = [key for key in keys if not self.check([key])]
                raise DistStoreError(
                    f"wait timeout after {int(limit * 1000)}ms, keys: {', '.join(missing)}"
                )
            time.sleep(pause)
            pause = min(0.02, pause * 1.5)

    def queue_push(self, key: str, value: Any) -> None:
        self.do("push", key, as_text(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        if block:
            until = time.monotonic() + self.timeout.total_seconds()
            while (found := self.do("pop", key)) is None:
                if time.monotonic() > until:
                    raise DistStoreError(f"wait timeout, queue: {key}")
                time.sleep(0.001)
        else:
            found = self.do("pop", key)
            if found is None:
                raise QueueEmptyError(f"queue {key} is empty")
        return as_bytes(found)

    def queue_len(self, key: str) -> int:
        return int(self.do("length", key))


class HashStore(Store):
    """A store for the threads of one process."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()

    def do(self, command: str, *args: Any) -> Any:
        return self.table.do(command, *args)


class FileStore(Store):
    """A store in a file that all processes can lock."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name

    def do(self, command: str, *args: Any) -> Any:
        import fcntl

        with open(self.path, "a+", encoding="utf-8") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            file.seek(0)
            table = Table()
            with contextlib.suppress(ValueError):
                table.values, table.queues = json.loads(file.read() or "[{}, {}]")
            before = (dict(table.values), json.dumps(table.queues))
            answer = table.do(command, *args)
            if before != (table.values, json.dumps(table.queues)):
                file.seek(0)
                file.truncate()
                file.write(json.dumps([table.values, table.queues]))
                file.flush()
            return answer


class PrefixStore(Store):
    """Another store, all keys with a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix = prefix
        self.underlying_store = store

    @property
    def timeout(self) -> timedelta:
        return self.underlying_store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self.underlying_store.set_timeout(timeout)

    def clone(self) -> Store:
        return PrefixStore(self.prefix, self.underlying_store.clone())

    def do(self, command: str, *args: Any) -> Any:
        if command == "keys":
            start = f"{self.prefix}/"
            found = self.underlying_store.do(command)
            return [key.removeprefix(start) for key in found if key.startswith(start)]
        if command == "count":
            return len(self.do("keys"))
        first, *rest = args
        if isinstance(first, list):
            named: Any = [f"{self.prefix}/{key}" for key in first]
        else:
            named = f"{self.prefix}/{first}"
        return self.underlying_store.do(command, named, *rest)


class TCPStore(Store):
    """A store that one process serves to all."""

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout = timeout
        self.host = host_name
        self.owner = os.getpid()
        self.server: Server | None = None
        if is_master:
            try:
                self.server = Server(host_name, port, master_listen_fd)
            except OSError as error:
                raise DistNetworkError(
                    f"The server socket has failed to listen on {host_name}:{port}: "
                    f"{error.strerror or error}"
                ) from error
            port = self.server.port
        self.port = port
        self.lock = threading.Lock()
        self.connection = self.connect()
        if world_size is not None and world_size > 0 and wait_for_workers:
            self.gather(world_size, is_master)

    def gather(self, world_size: int, is_master: bool) -> None:
        """The master waits until all have come."""
        self.do("add", "init/", 1)
        until = time.monotonic() + self.timeout.total_seconds()
        while is_master and (come := int(self.do("peek", "init/"))) < world_size:
            if time.monotonic() > until:
                raise DistStoreError(
                    f"Timed out after {int(self._timeout.total_seconds())} seconds waiting for "
                    f"clients. {come}/{world_size} clients joined."
                )
            time.sleep(0.002)

    def connect(self) -> socket.socket:
        limit = self._timeout.total_seconds()
        until = time.monotonic() + limit
        while True:
            try:
                host = "127.0.0.1" if self.server is not None else self.host
                found = socket.create_connection(
                    (host, self.port), timeout=max(1.0, min(limit, 30))
                )
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return found
            except OSError as error:
                if time.monotonic() > until:
                    raise DistNetworkError(
                        f"The client socket has timed out after {int(limit * 1000)}ms while trying "
                        f"to connect to ({self.host}, {self.port}): {error}"
                    ) from error
            time.sleep(0.02)

    def clone(self) -> TCPStore:
        return TCPStore(self.host, self.port, timeout=self._timeout, wait_for_workers=False)

    def do(self, command: str, *args: Any) -> Any:
        with self.lock:
            if self.owner != os.getpid():
                # A forked child would speak into its parent's conversation.
                self.connection, self.owner, self.server = self.connect(), os.getpid(), None
            try:
                return ask(self.connection, command, *args)
            except (OSError, ValueError) as error:
                raise DistNetworkError(
                    f"the store at {self.host}:{self.port} does not answer ({error}): the process "
                    "that serves it, usually rank 0, has ended or hangs"
                ) from error

    def close(self) -> None:
        self.connection.close()
        if self.server is not None and self.owner == os.getpid():
            self.server.close()
            self.server = None

    def __del__(self) -> None:
        if hasattr(self, "connection"):
            self.close()

    def __repr__(self) -> str:
        return f"<TCPStore {self.host}:{self.port}>"
