"""Whether compiled functions compile: `torch.compiler.set_stance`. One for the process."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["CURRENT", "STANCES", "Stance", "set_stance"]

STANCES = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile",
    "fail_on_recompile",
)  # fmt: skip


class Rebuilt(Protocol):
    """Something that a change of stance rebuilds."""

    def follow_stance(self) -> None: ...


class Stance:
    """The stance that holds, and whom it concerns."""

    def __init__(self) -> None:
        self.name = "default"
        self.backend: Any = None
        self.followers: weakref.WeakSet[Rebuilt] = weakref.WeakSet()

    def set(self, name: str, backend: Any) -> None:
        must_rebuild = (self.name == "force_eager") is not (name == "force_eager")
        must_rebuild = must_rebuild or backend is not self.backend
        self.name, self.backend = name, backend
        if must_rebuild:
            for follower in list(self.followers):
                follower.follow_stance()


CURRENT = Stance()


class set_stance:
    """Set how compiled functions behave: at once, for a block, or for a function's calls.

    "force_eager" runs everything as it is; "eager_on_recompile" and "fail_on_recompile" make no
    entry beside those that exist; "eager_then_compile" runs the first call as it is.
    `force_backend` takes the place of every backend.
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}', not one of {STANCES}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("force_backend needs the stance 'default'")
        self.stance, self.backend = stance, force_backend
        self.before = CURRENT.name, CURRENT.backend
        CURRENT.set(stance, force_backend)

    def __enter__(self) -> None:
        CURRENT.set(self.stance, self.backend)

    def __exit__(self, *details: object) -> None:
        CURRENT.set(*self.before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        CURRENT.set(*self.before)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance, force_backend=self.backend):
                return function(*args, **kwargs)

        return run
