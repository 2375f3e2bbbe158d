# mypy: ignore-errors
"""Functions of `torch` itself as they are compiled: those whose arguments are of several types."""

import rushlight as torch
from rushlight.core.tensor import Tensor

aten = torch.ops.aten


def tensordot(a: Tensor, b: Tensor, dims: int = 2) -> Tensor:
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        first = list(range(-dims, 0))
        second = list(range(dims))
    else:
        first, second = dims[0], dims[1]
    return aten.tensordot(a, b, first, second)


tensordot._jit_overloads = [
    {"dims": "int"},
    {"dims": "list[list[int]]"},
    {"dims": "tuple[list[int], list[int]]"},
]
tensordot._jit_override_qualname = "__torch__.torch.functional.tensordot"


def _assert(condition: bool, message: str) -> None:
    assert condition, message


_assert._jit_overloads = [{"condition": "bool"}, {"condition": "Tensor"}]
_assert._jit_override_qualname = "__torch__.torch._assert"

FUNCTIONS = (_assert, tensordot)
