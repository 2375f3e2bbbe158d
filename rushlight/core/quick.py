"""`Quick`: how an op does its common case in one expression of arrays, and what elementwise ops
amount to in NumPy's own words. Stubs write their text from this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.binding import default_value
from rushlight.core.tensor import Tensor, wrap

__all__ = [
    "FAST_DTYPES", "Quick", "Step", "single_ufunc", "taken_dtypes", "text_function",
    "ufunc_with_number",
]  # fmt: skip


class Step:
    """One op of the graph that a composite's quick case records: `op(*arguments)`.

    Arguments are texts: the composite's own arguments, results of earlier steps, or constants.
    """

    __slots__ = ("also", "arguments", "array", "op", "result")

    def __init__(
        self, result: str, op: str, arguments: tuple[str, ...], array: str, also: str = ""
    ) -> None:
        self.result = result
        self.op = op
        self.arguments = arguments
        # The text of the result's array, and of a second result's.
        self.array = array
        self.also = also


class Quick:
    """The common case of an op.

    `expression` speaks of arguments in braces: a tensor's array, or the plain value. None as its
    value, or a ValueError, TypeError or IndexError, leaves the call to the general path. `when` is
    a test to be made first; it may also speak of the tensors themselves, by their bare names.
    """

    __slots__ = ("as_op", "expression", "graph", "offset", "result_is_contiguous", "scope", "when")

    def __init__(
        self,
        expression: str,
        *,
        when: str = "",
        result_is_contiguous: bool | None = None,
        scope: dict[str, Any] | None = None,
        offset: str = "",
        as_op: Any = None,
        graph: tuple[Step, ...] = (),
    ) -> None:
        self.expression = expression
        self.when = when
        # None where the result itself must be asked.
        self.result_is_contiguous = result_is_contiguous
        # What the texts mention besides arguments and `np`.
        self.scope = scope or {}
        # A view's place in its storage, where that is not its source's.
        self.offset = offset
        # The view op that a composite is in this case.
        self.as_op = as_op
        # The graph that a composite records, its last step being the result.
        self.graph = graph


# -- elementwise ops -------------------------------------------------------------------------------


class Operand:
    """Stands for an array while a scalar text is looked at."""


class Recorder:
    """A math namespace that finds out whether a scalar text is one ufunc call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.append((name, args))
            return Operand()

        return call


def only_call(op: Any, operands: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]] | None:
    """(ufunc, its arguments) of an elementwise op whose text calls one ufunc and nothing else."""
    from rushlight.arrays.numpy_ import MATH

    recorder = Recorder()
    rest = tuple([a.default for a in op._schema.arguments[len(operands) :]])
    try:
        op.options["scalar"](recorder, *operands, *rest)
    except Exception:
        return None
    if len(recorder.calls) != 1:
        return None
    name, args = recorder.calls[0]
    found = getattr(MATH, name, None)
    return (found, args) if isinstance(found, np.ufunc) else None


def single_ufunc(op: Any, count: int) -> Any:
    """The NumPy ufunc that a scalar text amounts to, or None."""
    operands = tuple([Operand() for _ in range(count)])
    found = only_call(op, operands)
    return found[0] if found is not None and found[1] == operands else None


def ufunc_with_number(op: Any) -> Any:
    """For a unary text such as `m.maximum(0, x)`: (ufunc, {dtype: number as an array}, whether
    the operand comes first); None for any other."""
    operand = Operand()
    found = only_call(op, (operand,))
    if found is None or len(found[1]) != 2 or operand not in found[1]:
        return None
    leads = found[1][0] is operand
    number = found[1][1 if leads else 0]
    if type(number) not in (int, float):
        return None
    # NumPy takes a 0-d array of the right dtype with less ado than a Python number.
    fast = [dtype for dtype in dtypes.ALL if dtype.scalar_fast]
    return found[0], {dtype: np.array(number, dtype.np) for dtype in fast}, leads


def text_function(op: Any, count: int) -> Any:
    """An elementwise op's text as a function of its first `count` operands."""
    from rushlight.arrays.numpy_ import MATH

    scalar = op.rule("kernel")
    rest = tuple([a.default for a in op._schema.arguments[count:]])

    def with_arrays(first: Any, *others: Any) -> Any:
        # A number takes the array's dtype: what NumPy makes of a bare one would be wider.
        dtype = first.dtype
        arrays = [y if type(y) is np.ndarray else np.asarray(y, dtype) for y in others]
        return scalar(MATH, first, *arrays, *rest)

    def with_numbers(first: Any, *others: Any) -> Any:
        return scalar(MATH, first, *others, *rest)

    return with_numbers if op.options.get("weak_numbers") else with_arrays


FAST_DTYPES = frozenset([dtype for dtype in dtypes.ALL if dtype.scalar_fast])


def empty_of(dtype: Any) -> Tensor:
    return wrap(np.empty(0, dtype.np), dtype)


def taken_dtypes(op: Any, checked: bool = False) -> frozenset[Any]:
    """The fast dtypes in which an elementwise op has a value: neither its predicate nor its check
    (which looks at dtypes only where there are no plain values) refuses them. `checked`, the stub
    runs the check itself."""
    admits, check = op.options.get("dtypes"), None if checked else op.options.get("check")
    rest = [default_value(a) for a in op._schema.arguments[len(op.tensor_positions) :]]
    taken = []
    for dtype in FAST_DTYPES:
        if admits is not None and not admits(dtype):
            continue
        if check is not None:
            try:
                check(dtype, (*[empty_of(dtype) for _ in op.tensor_positions], *rest))
            except (RuntimeError, TypeError):
                continue
        taken.append(dtype)
    return frozenset(taken)
