"""Passes in an order that constraints ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

__all__ = [
    "PassManager", "inplace_wrapper", "log_hook", "loop_pass",
    "these_before_those_pass_constraint", "this_before_that_pass_constraint",
]  # fmt: skip

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]
logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Pass) -> Pass:
    """A pass that changes its module and returns nothing, as one that returns the module."""

    @wraps(fn)
    def wrapped(gm: Any) -> Any:
        fn(gm)
        return gm

    return wrapped


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """A pass whose result is logged."""

    @wraps(fn)
    def wrapped(gm: Any) -> Any:
        found = fn(gm)
        logger.log(level, "Ran pass %s\\t Return value: %s", fn, found)
        return found

    return wrapped


def loop_pass(
    base_pass: Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None
) -> Pass:
    """A pass run `n_iter` times, or as long as `predicate` holds for what it gives."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter` or `predicate` must be specified.")

    @wraps(base_pass)
    def looped(source: Any) -> Any:
        if n_iter is not None:
            if n_iter <= 0:
                raise AssertionError(f"n_iter must be positive, got {n_iter}")
            for _ in range(n_iter):
                source = base_pass(source)
            return source
        assert predicate is not None
        while predicate(source):
            source = base_pass(source)
        return source

    return looped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Wherever both passes are, `this` stands before `that`."""

    def holds(a: Pass, b: Pass) -> bool:
        return not (a == that and b == this)

    return holds


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """As `this_before_that_pass_constraint`, for every pass made by wrapping these functions."""

    def holds(a: Pass, b: Pass) -> bool:
        return not (unwrap(a) == those and unwrap(b) == these)

    return holds


class PassManager:
    """Runs passes one after another, in an order that keeps the constraints.

    >>> from rushlight.fx.passes.pass_manager import *
    >>> double, add = (lambda x: x * 2), (lambda x: x + 1)
    >>> manager = PassManager([double, add])
    >>> manager.add_constraint(this_before_that_pass_constraint(add, double))
    >>> manager(3)
    8
    """

    def __init__(
        self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None
    ) -> None:
        self.passes: list[Pass] = passes or []
        self.constraints: list[Constraint] = constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        return cls(passes)

    def add_pass(self, _pass: Pass) -> None:
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Take out the passes of these names."""
        self.passes = [each for each in self.passes if each.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Put another pass where one of that name stands."""
        name = _target.__name__
        self.passes = [_replacement if each.__name__ == name else each for each in self.passes]
        self._validated = False

    def may_precede(self, first: Pass, second: Pass) -> bool:
        return all([holds(first, second) for holds in self.constraints])

    def solve_constraints(self) -> None:
        """Put the passes in an order: of those that may come next, the first one given."""
        rest, order = list(self.passes), []
        while rest:
            for candidate in rest:
                others = [each for each in rest if each is not candidate]
                if all([self.may_precede(candidate, each) for each in others]):
                    break
            else:
                raise RuntimeError("the constraints of the passes contradict one another")
            order.append(candidate)
            rest.remove(candidate)
        self.passes = order
        self._validated = True

    def validate(self) -> None:
        """Check that the order keeps the constraints."""
        if self._validated:
            return
        for i, first in enumerate(self.passes):
            for second in self.passes[i + 1 :]:
                if not self.may_precede(first, second):
                    raise RuntimeError(
                        f"pass schedule constraint violated. Expected {first} before {second} but "
                        f"found {first} at index {i} and {second} later"
                    )
        self._validated = True

    def __call__(self, source: Any) -> Any:
        if not self._validated:
            self.solve_constraints()
        for each in self.passes:
            source = each(source)
        return source
