"""`FileBaton`: one process at a time, by a file that exists while one holds it."""

from __future__ import annotations

import os
import time
import warnings

__all__ = ["FileBaton"]


class FileBaton:
    """Held by whoever made the file; the others wait until it is gone."""

    def __init__(
        self,
        lock_file_path: str,
        wait_seconds: float = 0.1,
        warn_after_seconds: float | None = None,
    ) -> None:
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Take the baton if nobody has it."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Wait until nobody has the baton; it is not taken."""
        began, has_warned = time.time(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            limit = self.warn_after_seconds
            if limit is not None and not has_warned and time.time() - began > limit:
                has_warned = True
                warnings.warn(
                    f"waited {limit} s for {self.lock_file_path!r}; if no process holds it, "
                    "remove the file",
                    stacklevel=2,
                )

    def release(self) -> None:
        """Give the baton back."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
