"""torch.sparse: functions that know sparse tensors, and the switch for checking their parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.opset import functions

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "softmax",
    "spsolve",
    "sum",
]


def mm(mat1: Any, mat2: Any, *reduce: Any) -> Any:
    """The product of a sparse matrix with a dense or sparse one; a sparse factor's gradient has
    its pattern."""
    if reduce:
        raise NotImplementedError("torch.sparse.mm(): the form with `reduce` is not supported")
    return functions._sparse_mm(mat1, mat2)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * mat + alpha * (mat1 @ mat2)`; a sparse mat1's gradient has its pattern."""
    return functions._sparse_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """Sums over all or some dims; the gradient has the pattern of `input`."""
    if dim is None:
        if dtype is None:
            return functions._sparse_sum(input)
        return functions._sparse_sum(input, dtype=dtype)
    dims = [dim] if isinstance(dim, int) else list(dim)
    if dtype is None:
        return functions._sparse_sum(input, dims)
    return functions._sparse_sum(input, dims, dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax over the specified elements along `dim`; the others count as minus infinity."""
    return functions._sparse_softmax(input, dim, dtype=dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return functions._sparse_log_softmax(input, dim, dtype=dtype)


def spsolve(input: Any, other: Any, *, left: bool = True) -> Any:
    raise NotImplementedError(
        "torch.sparse.spsolve(): solving with a sparse matrix is not supported; use to_dense()"
    )


class check_sparse_tensor_invariants:
    """Whether constructors check the parts they are given. Here they always do; the switch is
    kept so that programs that set it run. Use as context manager or decorator."""

    enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        return check_sparse_tensor_invariants.enabled

    @staticmethod
    def enable() -> None:
        check_sparse_tensor_invariants.enabled = True

    @staticmethod
    def disable() -> None:
        check_sparse_tensor_invariants.enabled = False

    def __enter__(self) -> None:
        if self.saved is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.saved = self.is_enabled()
        check_sparse_tensor_invariants.enabled = self.state

    def __exit__(self, *failure: Any) -> None:
        assert self.saved is not None
        check_sparse_tensor_invariants.enabled = self.saved
        self.saved = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return wrapped


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """`gradcheck` for functions of sparse tensors, which it takes as it is."""

    @wraps(gradcheck)
    def checked(fn: Any, inputs: Any, **options: Any) -> Any:
        return gradcheck(fn, inputs, **options)

    return checked
