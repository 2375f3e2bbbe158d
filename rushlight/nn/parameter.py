"""Parameters and buffers, and those that have no shape yet.

An uninitialized tensor has no shape; `materialize` turns it, in place, into a parameter or buffer,
so that whoever holds it (an optimizer, another module) holds the real one afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Buffer
from rushlight.opset.creation import create

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter",
    "UninitializedTensorMixin", "is_lazy",
]  # fmt: skip

# What may be asked of a tensor that has no values yet.
ALLOWED = frozenset(
    [
        "__hash__",
        "size",
        "copy_",
        "is_complex",
        "is_floating_point",
        "half",
        "float",
        "double",
        "char",
        "short",
        "int",
        "long",
        "cuda",
        "cpu",
        "to",
        "get_device",
    ]
)


class UninitializedTensorMixin:
    """What parameters and buffers without a shape share."""

    __slots__ = ()
    cls_to_become: type

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a real tensor of this shape, with values that are not set."""
        own = self.data
        device = own.device if device is None else device
        dtype = own.dtype if dtype is None else dtype
        self.__class__ = self.cls_to_become
        self.data = create.empty(shape, device=device, dtype=dtype)

    @property
    def data(self) -> Any:
        """The empty tensor that keeps dtype and device; nothing that is written to it stays."""
        found = Tensor.data.__get__(self)
        found.__class__ = Tensor
        return found

    @data.setter
    def data(self: Any, value: Any) -> None:
        # The plain setter compares shapes.
        cls, value = type(self), empty_behind(value)
        self.__class__ = self.cls_to_become
        try:
            self.data = value
        finally:
            self.__class__ = cls

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def size(self, dim: int | None = None) -> Any:
        return self.data.size() if dim is None else self.data.size(dim)

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self: Any, proto: Any) -> Any:
        return type(self), (self.requires_grad,)

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            own = self.data
            memo[id(self)] = type(self)(self.requires_grad, own.device, own.dtype)
        return memo[id(self)]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ALLOWED:
            kwargs = kwargs or {}
            result = func(*[empty_behind(value) for value in args], **kwargs)
            if not isinstance(result, Tensor):
                return result
            return Tensor._make_subclass(cls, result.detach(), args[0].requires_grad)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` "
            "with a dummy batch to initialize the parameters before calling torch functions"
        )


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


def empty_behind(value: Any) -> Any:
    """The empty tensor that keeps dtype and device of a lazy one; other values as they are."""
    if not is_lazy(value):
        return value
    return value.data


def not_yet(name: str) -> Callable[..., Any]:
    """A method that a tensor without a shape cannot answer."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return type(self).__torch_function__(method, (type(self),), (self,))

    method.__name__ = method.__qualname__ = name
    return method


for name in (
    "data_ptr", "dim", "is_contiguous", "item", "ndimension", "nelement", "numel", "storage_offset",
    "stride", "tolist", "untyped_storage",
):  # fmt: skip
    setattr(UninitializedTensorMixin, name, not_yet(name))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Parameter
    __torch_function__ = UninitializedTensorMixin.__dict__["__torch_function__"]

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        data = create.empty((0,), device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        data = create.empty((0,), device=device, dtype=dtype)
        made = Tensor._make_subclass(cls, data, requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made
