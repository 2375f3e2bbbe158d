"""Tensors without memory of their own, and those whose class answers for them.

What a program reads of the latter goes to `__torch_dispatch__` as an operator; where that gives
None the tensor's own geometry counts. The class gets the readers, so others cost nothing. The
engine itself goes by the geometry that the tensor was made with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core.device import contiguous_format, cpu, memory_format, strided
from rushlight.core.device import device as device_class
from rushlight.core.dispatch import call_subclass
from rushlight.core.dtype import get_default_dtype
from rushlight.core.extras import Unusual
from rushlight.core.op import find_overload
from rushlight.core.refusals import check_wrapper_class
from rushlight.core.size import unchecked as as_size
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor, recast, shell

if TYPE_CHECKING:
    from rushlight.core.device import layout
    from rushlight.core.dtype import dtype
    from rushlight.core.protocols import DeviceLike, Sizes, Strides
    from rushlight.symbolic.numbers import IntLike

__all__ = ["let_class_answer", "make_wrapper"]


def make_wrapper(
    cls: type,
    size: Sizes,
    strides: Strides | None = None,
    storage_offset: IntLike | None = None,
    memory_format: memory_format | None = None,
    dtype: dtype | None = None,
    layout: layout = strided,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> Any:
    """A tensor of class `cls` with geometry but no memory of its own."""
    check_wrapper_class(cls, size)
    place = cpu if device is None else device_class(device)
    offset = 0 if storage_offset is None else storage_offset
    result = shell(tuple(size), strides, dtype or get_default_dtype(), place, offset)
    assert result._unusual is not None
    result._unusual.layout = layout
    result = recast(result, cls)
    if requires_grad:
        result._requires_grad = True
    if dispatch_sizes_strides_policy is not None or dispatch_device or dispatch_layout:
        let_class_answer(result, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return result


class Asking(Unusual):
    """What sets a tensor apart, and what its class is asked for."""

    __slots__ = ("asked",)

    asked: frozenset[str]


# What a policy for sizes and strides covers.
POLICIES = {"sizes": ("sizes", "strides"), "strides": ("strides",)}


def let_class_answer(
    tensor: Tensor,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> None:
    """Have reads of a new tensor's sizes, strides, device or layout go to its class."""
    policy = dispatch_sizes_strides_policy
    if policy is not None and policy not in POLICIES:
        raise RuntimeError(f"Unknown dispatch_sizes_strides_policy: {policy}")
    asked = set(POLICIES[policy]) if policy is not None else set()
    if dispatch_device:
        asked.add("device")
    if dispatch_layout:
        asked.add("layout")
    if not asked:
        return
    before = tensor._unusual or Unusual()
    unusual = Asking()
    for name in Unusual.__slots__:
        setattr(unusual, name, getattr(before, name))
    unusual.asked = frozenset(asked)
    tensor._unusual = unusual
    cls = type(tensor)
    for name, reader in READERS.items():
        # What the user's class defines itself stays.
        if getattr(cls, name) is getattr(Tensor, name):
            setattr(cls, name, reader)


def answer(tensor: Tensor, what: str, name: str, *args: Any, overload: str = "default") -> Any:
    """What the class says, None where it is not asked or leaves it to the tensor."""
    unusual = tensor._unusual
    if type(unusual) is not Asking or what not in unusual.asked:
        return None
    namespace, _, base = name.rpartition("::")
    op = find_overload(namespace or "aten", base, overload)
    return call_subclass(op, (tensor, *args), LOCAL.state)


def read_shape(self: Tensor) -> Any:
    found = answer(self, "sizes", "sym_size")
    return Tensor.shape.fget(self) if found is None else as_size(found)  # type: ignore[attr-defined]


def read_size(self: Tensor, dim: int | None = None) -> Any:
    sizes = read_shape(self)
    return sizes if dim is None else sizes[dim]


def read_dim(self: Tensor) -> Any:
    found = answer(self, "sizes", "dim")
    return Tensor.dim(self) if found is None else found


def read_numel(self: Tensor) -> Any:
    found = answer(self, "sizes", "sym_numel")
    return Tensor.numel(self) if found is None else found


def read_storage_offset(self: Tensor) -> Any:
    found = answer(self, "sizes", "sym_storage_offset")
    return Tensor.storage_offset(self) if found is None else found


def read_stride(self: Tensor, dim: int | None = None) -> Any:
    found = answer(self, "strides", "sym_stride")
    strides: Strides = Tensor.stride(self) if found is None else tuple(found)
    return strides if dim is None else strides[dim]


def read_is_contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> Any:
    if memory_format is contiguous_format:
        found = answer(self, "strides", "is_contiguous")
    else:
        found = answer(self, "strides", "is_contiguous", memory_format, overload="memory_format")
    return Tensor.is_contiguous(self, memory_format) if found is None else found


def contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> Any:
    if read_is_contiguous(self, memory_format):
        return self
    return Tensor.contiguous(self, memory_format=memory_format)  # type: ignore[attr-defined]


def data_ptr(self: Tensor) -> int:
    # torch: a tensor without elements has no address, so their number is asked for.
    if answer(self, "sizes", "numel") == 0:
        return 0
    found: int = Tensor.data_ptr(self)
    return found


def read_device(self: Tensor) -> Any:
    found = answer(self, "device", "prim::device")
    return Tensor.device.fget(self) if found is None else found  # type: ignore[attr-defined]


def read_layout(self: Tensor) -> Any:
    found = answer(self, "layout", "prim::layout")
    return Tensor.layout.fget(self) if found is None else found  # type: ignore[attr-defined]


READERS: dict[str, Callable[..., Any] | property] = {
    "shape": property(read_shape),
    "size": read_size,
    "dim": read_dim,
    "ndim": property(read_dim),
    "ndimension": read_dim,
    "numel": read_numel,
    "nelement": read_numel,
    "storage_offset": read_storage_offset,
    "stride": read_stride,
    "is_contiguous": read_is_contiguous,
    "contiguous": contiguous,
    "data_ptr": data_ptr,
    "device": property(read_device),
    "layout": property(read_layout),
}
