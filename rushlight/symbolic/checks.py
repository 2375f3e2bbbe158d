"""torch._check and its kin: what must hold, for numbers that may be symbols.

On a plain bool they raise; on a symbolic one they state a fact that is checked when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.symbolic.numbers import BoolLike, IntLike, SymBool, SymInt
from rushlight.symbolic.queries import expect_true

Message = Callable[[], object] | None


def check_with(error: type[Exception], cond: BoolLike, message: Message) -> None:
    """Raises `error` unless `cond` holds."""
    if not isinstance(cond, (bool, SymBool)):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if expect_true(cond):
        return
    if message is None:
        raise error(
            "Expected cond to be True, but got False. (Could this error message be improved? "
            "If so, please report an enhancement request to PyTorch.)"
        )
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def check(cond: BoolLike, message: Message = None) -> None:
    check_with(RuntimeError, cond, message)


def check_index(cond: BoolLike, message: Message = None) -> None:
    check_with(IndexError, cond, message)


def check_value(cond: BoolLike, message: Message = None) -> None:
    check_with(ValueError, cond, message)


def check_type(cond: BoolLike, message: Message = None) -> None:
    check_with(TypeError, cond, message)


def check_not_implemented(cond: BoolLike, message: Message = None) -> None:
    check_with(NotImplementedError, cond, message)


def check_is_size(i: IntLike, message: Message = None, *, max: IntLike | None = None) -> None:
    """States that `i` is a size: not negative, and reasoned about as neither 0 nor 1."""
    check(i >= 0, message)
    if isinstance(i, SymInt):
        expr = i.node.expr
        if expr.is_Symbol and expr in i.node.shape_env.unbacked_symbols:
            i.node.shape_env.constrain_size(expr)
    if max is not None:
        check(i <= max, message)
