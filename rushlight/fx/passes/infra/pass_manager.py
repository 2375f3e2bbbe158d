"""`PassManager`: runs passes in an order that keeps to constraints, again and again if asked to."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.infra.pass_base import PassResult
from rushlight.nn.module import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass) -> Callable[..., PassResult | None]:
    """A function that changes a module, or gives another, as one that gives a PassResult."""

    @wraps(fn)
    def wrapped(gm: Any) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, Module):
            return PassResult(result, True)
        raise AssertionError(
            f"a pass gives None, a module or a PassResult; {named(fn)} gave {type(result)}"
        )

    if not inspect.isfunction(fn):
        wrapped.__name__ = str(type(fn))
    return wrapped


def named(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that no `that` comes before a `this`."""
    return lambda a, b: not (a is that and b is this)


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    for i, first in enumerate(passes):
        for j, second in enumerate(passes[i + 1 :], i + 1):
            if not constraint(first, second):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {named(first)} before "
                    f"{named(second)} but found {named(first)} at index {i} and {named(second)} at "
                    f"index{j} in pass list."
                )


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes in the order they are in, as far as the constraints allow it."""
    rest, ordered = list(passes), []
    while rest:
        for candidate in rest:
            others = [other for other in rest if other is not candidate]
            if all(constraint(candidate, other) for other in others for constraint in constraints):
                ordered.append(candidate)
                rest.remove(candidate)
                break
        else:
            # torch: all passes, as they are.
            raise RuntimeError(
                f"Circular dependency detected within the following passes: {passes}"
            )
    return ordered


class PassManager:
    """Runs passes over a module, `steps` times or until none changes it.

    Constraints are functions of two passes that say whether the first may come before the second.
    """

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Pass] = list(passes or [])
        self.constraints: list[Constraint] = list(constraints or [])
        self.steps = 1 if steps is None else steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Pass) -> None:
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise where passes are not in an allowed order."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes into an allowed order."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[..., Any]) -> None:
        """Have this run on the module: after all passes, or after each."""
        parameters = list(inspect.signature(check).parameters.values())
        if len(parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign]

    def check(self, module: Any) -> None:
        """Raise where a module is not what it should be."""

    def __call__(self, module: Any) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        overall = False
        for _ in range(self.steps):
            modified = False
            for each in self.passes:
                result = self.run_pass(each, module)
                module, modified = result.graph_module, modified or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            overall = overall or modified
            if not modified:
                break
        return PassResult(module, overall)

    def run_pass(self, each: Pass, module: Any) -> PassResult:
        try:
            return self.checked_result(each, each(module), module)
        except Exception as error:
            raise Exception(
                f"An error occurred when running the '{named(each)}' pass after the following "
                f"passes: {[named(other) for other in self.passes[: self.passes.index(each)]]}"
            ) from error

    def checked_result(self, each: Pass, result: Any, module: Any) -> PassResult:
        if isinstance(result, PassResult):
            return result
        if self.suppress_check_failures:
            warnings.warn(f"the pass {named(each)} gave no PassResult", stacklevel=3)
            return PassResult(module, True)
        raise TypeError(
            f"The result of the pass {named(each)} should be type PassResult. Please wrap it with "
            "pass_result_wrapper()"
        )
