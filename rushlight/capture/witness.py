"""What a call does beside giving results: learnt from the ops that it comes to on examples."""

from __future__ import annotations

from typing import Any

from rushlight.core.fake import FakeTensorMode
from rushlight.core.op import OpOverload, Tag

__all__ = ["Witness"]


class Witness(FakeTensorMode):
    """A fake mode that keeps account of the ops it runs, from one `begin` to the next."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.begin()

    def begin(self) -> None:
        self.writes = self.draws = self.may_raise = False

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        # Such a form says that an op writes, whatever its schema says. Writes that schemas tell of
        # change the versions of what is written to.
        self.writes |= "functionalized" in op.rules
        self.draws |= Tag.nondeterministic_seeded in op.tags
        may_raise = op.may_raise
        self.may_raise |= may_raise(*args) if callable(may_raise) else may_raise
        return super().process(op, args)
