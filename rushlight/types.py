"""torch.types: names that annotations use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from rushlight.core.device import device, layout
from rushlight.core.dtype import dtype
from rushlight.core.rng import Generator
from rushlight.core.size import Size
from rushlight.core.storage import Storage as UntypedStorage
from rushlight.core.tensor import Tensor
from rushlight.core.typedstorage import TypedStorage
from rushlight.symbolic.numbers import SymBool, SymFloat, SymInt

__all__ = ["Device", "FileLike", "Number", "Storage"]

# torch: the builtin types go by names that tensors' dtypes do not take.
_bool, _complex, _float, _int = bool, complex, float, int
_dtype, _device, _layout, _size = dtype, device, layout, Size | list[int] | tuple[int, ...]
_symint = Sequence[SymInt | int]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Tensor | Sequence[Tensor] | tuple[Any, int]
_dispatchkey: TypeAlias = Any

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = UntypedStorage | TypedStorage
IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType: TypeAlias = SymInt | SymFloat | SymBool
_Generator = Generator
