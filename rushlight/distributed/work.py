"""Work: a collective under way, as the program holds it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rushlight.distributed.engine import Task
from rushlight.distributed.errors import DistBackendError
from rushlight.futures import Future

if TYPE_CHECKING:
    from rushlight.distributed.groups import ProcessGroup

__all__ = ["Work"]


class Work:
    """A collective that has been begun. `wait` ends with its values in place, or raises."""

    def __init__(self, task: Task, group: ProcessGroup, result: Any, limit: float) -> None:
        self.task = task
        self.group = group
        self.tensors = result
        self.limit = limit
        self.future: Future | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        seconds = timeout.total_seconds() if timeout else 0.0
        self.group.finish(self.task, seconds or self.limit)
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        if not self.task.done:
            self.group.world.engine.pump()
        return self.task.done

    def is_success(self) -> bool:
        return self.task.done and self.task.problem is None

    def exception(self) -> BaseException | None:
        return self.task.problem

    def result(self) -> Any:
        self.wait()
        return self.tensors

    def source_rank(self) -> int:
        if not isinstance(self.task.answer, int):
            raise DistBackendError("sourceRank() may only be called on a finished irecv")
        return self.task.answer

    def get_future(self) -> Future:
        """A future of the resulting tensors."""
        if self.future is None:
            future = self.future = WorkFuture(self)
            self.task.callbacks.append(future.settle)
            if self.task.done:
                future.settle(self.task)
        return self.future


class WorkFuture(Future):
    """The future of a collective: waiting for it advances it."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work

    def settle(self, task: Task) -> None:
        if self.done():
            return
        if task.problem is not None:
            self.set_exception(task.problem)
        else:
            self.set_result(self.work.tensors)

    def wait(self) -> Any:
        if not self.done():
            self.work.wait()
            self.settle(self.work.task)
        return super().wait()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        following = FollowingFuture(self)
        self.add_done_callback(lambda done: following.follow(callback, done))
        return following


class FollowingFuture(Future):
    """What is computed when a collective has ended; waiting for it advances the collective."""

    def __init__(self, before: Future) -> None:
        super().__init__()
        self.before = before

    def follow(self, callback: Callable[[Future], Any], done: Future) -> None:
        try:
            result = callback(done)
            self.set_result(result)
        except Exception as problem:
            self.set_exception(problem)

    def wait(self) -> Any:
        if not self.done():
            self.before.wait()
        return super().wait()

    then = WorkFuture.then
