"""Tensors and the world outside: NumPy, DLPack, pickling, copying, formatting.

Memory is shared wherever the other side can hold it; a tensor whose gradient would be lost
refuses to leave unless asked with `force`.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.base.errors import MissingFeature, error
from rushlight.core import dtype as dtypes
from rushlight.core import ports
from rushlight.core.attributes import attributes_of, set_attributes
from rushlight.core.construct import adopt, finish
from rushlight.core.dispatch import overridable
from rushlight.core.node import autograd_state
from rushlight.core.parameter import Parameter
from rushlight.core.state import LOCAL
from rushlight.core.storage import Storage
from rushlight.core.tensor import (
    PLAIN,
    Tensor,
    alias_array,
    set_requires_grad,
    shell,
    storage_of,
    strides_of,
    values_of,
    wrap_strided,
)

if TYPE_CHECKING:
    from typing import SupportsIndex

    from numpy.typing import DTypeLike

    from rushlight.core.device import layout
    from rushlight.core.hooks import HookDict
    from rushlight.core.protocols import Array, DeviceLike, Function, Kwargs, Sizes

UNKNOWN_TO_NUMPY = frozenset((dtypes.bfloat16, dtypes.complex32)) | dtypes.FLOAT8


# -- NumPy -----------------------------------------------------------------------------------------


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The tensor's memory as an ndarray; with force=True a copy where it cannot be shared."""
    layout = self.layout
    if layout.name != "strided":
        raise TypeError(
            f"can't convert {LAYOUT_NAMES.get(layout.name, layout.name)} layout tensor to numpy. "
            "Use Tensor.to_dense() first."
        )
    if self._array is None:
        raise TypeError(
            f"can't convert {self.device.type} device type tensor to numpy. Use Tensor.cpu() to "
            "copy the tensor to host memory first."
        )
    if not force:
        if LOCAL.state.grad and self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if self.is_conj():
            raise RuntimeError(
                "Can't call numpy() on Tensor that has conjugate bit set. Use "
                "tensor.resolve_conj().numpy() instead."
            )
        if self.is_neg():
            raise RuntimeError(
                "Can't call numpy() on Tensor that has negative bit set. Use "
                "tensor.resolve_neg().numpy() instead."
            )
    if self._dtype in UNKNOWN_TO_NUMPY:
        raise TypeError(f"Got unsupported ScalarType {self._dtype.scalar_type_name}")
    array = values_of(self)
    if array.size:
        if array is self._array:
            # The caller's array stays with the memory, which may not move from under it.
            storage_of(self).can_grow = False
        # The caller's array must not change shape under the tensor.
        return array.view()
    unusual = self._unusual
    sizes = array.shape if unusual is None or unusual.sizes is None else unusual.sizes
    return np.empty(sizes, self._dtype.np)


LAYOUT_NAMES = {
    "sparse_coo": "Sparse",
    "sparse_csr": "SparseCsr",
    "sparse_csc": "SparseCsc",
    "sparse_bsr": "SparseBsr",
    "sparse_bsc": "SparseBsc",
}


def to_ndarray(self: Tensor, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
    """np.asarray(tensor)."""
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("unable to avoid copy while converting the tensor's dtype")
        return array.astype(dtype)
    return array.copy() if copy else array


def wrap_ndarray(
    self: Tensor, array: Array, context: object = None, return_scalar: bool = False
) -> Any:
    """Results of NumPy functions applied to a tensor come back as tensors."""
    if array.dtype == np.bool_:
        # torch: booleans come back as bytes.
        array = array.astype(np.uint8)
    return finish(adopt(np.array(array, copy=None)), None, False)


def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers; one number for a 0-dim tensor."""
    if self._array is None:
        raise error("RL0402", NotImplementedError)
    array = values_of(self)
    if self._dtype in UNKNOWN_TO_NUMPY:
        if self._dtype is dtypes.complex32:
            array = array["real"].astype(np.float32) + 1j * array["imag"].astype(np.float32)
        else:
            array = array.astype(np.float32)
    return array.tolist()


def formatted(self: Tensor, spec: str) -> str:
    """f"{tensor:.2f}": of the number, where there is one; of its text otherwise."""
    held = self._array is not None and type(self) in PLAIN
    if (held or self.is_quantized) and self.dim() == 0:
        return self.item().__format__(spec)  # type: ignore[no-any-return]
    return object.__format__(self, spec)


# -- DLPack ----------------------------------------------------------------------------------------


def dlpack(
    self: Tensor,
    *,
    stream: int | None = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule of the tensor's memory."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set")
    if self.layout.name != "strided":
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if self._array is None:
        raise error("RL0408", BufferError, what=f"on device '{self.device}': they have no memory")
    if self._dtype in UNKNOWN_TO_NUMPY:
        raise error("RL0408", BufferError, what=f"of {self._dtype}: NumPy's DLPack lacks the type")
    if stream is not None and not isinstance(stream, int):
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    array = self._array
    if copy:
        array = array.copy()
    if max_version is None:
        return array.__dlpack__()
    return array.__dlpack__(max_version=max_version, dl_device=dl_device)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    if self.device.type != "cpu":
        raise error("RL0409", BufferError, device=self.device.type)
    return (1, 0)


class Capsule:
    """Lets NumPy import a bare capsule, which it takes only from an exporter."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: object) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(
    ext_tensor: Any, *, device: DeviceLike | None = None, copy: bool | None = None
) -> Any:
    """A tensor over the memory of any object with `__dlpack__`, or of a capsule."""
    if isinstance(ext_tensor, Tensor):
        result = ext_tensor.detach()
        return result.clone() if copy else result
    source = ext_tensor if hasattr(ext_tensor, "__dlpack__") else Capsule(ext_tensor)
    try:
        array = np.from_dlpack(source)
    except ValueError:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed "
            "only once, so you might have already constructed a tensor from it once. (got "
            f"{type(ext_tensor).__name__})"
        ) from None
    if not array.flags.writeable and not copy:
        array = writable_alias(array)
    result = finish(adopt(array.copy() if copy else array), None, False)
    return result if device is None else result.to(device)


def writable_alias(array: Array) -> Any:
    """The same memory without NumPy's write protection, as torch hands it out."""
    import ctypes

    if array.size == 0:
        return array.copy()
    extent = sum([(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)])
    memory = (ctypes.c_uint8 * (extent + array.itemsize)).from_address(array.ctypes.data)
    # The buffer's lifetime is that of the imported array.
    memory.owner = array
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def to_dlpack(tensor: Tensor) -> Any:
    return tensor.__dlpack__()


# -- pickling --------------------------------------------------------------------------------------


def storage_state(self: Storage) -> tuple[Any, ...]:
    buffer = self.buffer
    data = None if buffer is None else buffer.tobytes()
    return rebuild_storage, (data, int(self.nbytes_), str(self.device))


def rebuild_storage(data: bytes | None, nbytes: int, place: str) -> Storage:
    from rushlight.core.device import device

    if data is None:
        return Storage(None, nbytes, device(place))
    return Storage(np.frombuffer(bytearray(data), np.uint8))


def rebuild_tensor(
    storage: Storage,
    dtype: dtypes.dtype,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    requires_grad: bool,
    bits: tuple[bool, bool],
    hooks: HookDict | None = None,
) -> Any:
    """A tensor over a storage: the inverse of what pickling takes apart."""
    if storage.buffer is None:
        result = shell(tuple(sizes), strides, dtype, storage.device, offset)
        result._storage = storage
    else:
        result = wrap_strided(
            alias_array(storage, dtype, tuple(sizes), strides, offset), dtype, storage, offset
        )
        if result._array.size == 0:
            from rushlight.core.tensor import Unusual

            unusual = result._unusual = Unusual()
            unusual.sizes, unusual.strides = tuple(sizes), tuple(strides)
        if any(bits):
            from rushlight.core.tensor import Unusual

            unusual = result._unusual = result._unusual or Unusual()
            unusual.conj, unusual.neg = bits
    if requires_grad:
        set_requires_grad(result, True)
    if hooks:
        autograd_state(result).user_hooks = hooks
    return result


def rebuild_subclass(cls: type, tensor: Tensor, state: Any) -> Any:
    """A subclass's instance from its plain tensor and attributes."""
    if isinstance(tensor, (PlainParts, SparseParts)):
        # `copy.copy` hands over what it was given, unpickled.
        rebuild, parts = tensor.__reduce__()
        tensor = rebuild(*parts)
    if cls is Parameter:
        result = Parameter(tensor, tensor.requires_grad)
    elif type(tensor) is cls:
        result = tensor
    else:
        requires_grad = tensor.requires_grad
        result = Tensor._make_subclass(cls, tensor, requires_grad)
    if state:
        set_attributes(result, state)
    return result


def reduce_tensor(self: Tensor, protocol: SupportsIndex) -> Any:
    if self._unusual is not None and self._unusual.parts is not None:
        parts = self._unusual.parts
        names = type(parts).__slots__
        kept = (type(parts), {name: getattr(parts, name) for name in names})
        whole = (self.layout, tuple(self.shape), kept, self.requires_grad)
        if type(self) is Tensor and not self.__dict__:
            return rebuild_sparse, whole
        return rebuild_subclass, (type(self), SparseParts(whole), attributes_of(self))
    if self.grad_fn is not None and self.requires_grad:
        # torch: values of a computed tensor are kept, its history is not.
        requires_grad = True
    else:
        requires_grad = self.requires_grad
    state = (
        storage_of(self),
        self._dtype,
        tuple(self.shape),
        tuple(strides_of(self)),
        self._offset,
        requires_grad,
        (self.is_conj(), self.is_neg()),
    )
    attributes = attributes_of(self)
    if type(self) is Tensor and not attributes:
        return rebuild_tensor, state
    plain = PlainParts(state)
    return rebuild_subclass, (type(self), plain, attributes)


def rebuild_sparse(
    layout: layout, sizes: Sizes, kept: tuple[type, Kwargs], requires_grad: bool
) -> Any:
    """A sparse tensor over its parts."""
    from rushlight.core.parts import sparse_tensor

    kind, fields = kept
    result = sparse_tensor(layout, sizes, kind(**fields))
    if requires_grad:
        set_requires_grad(result, True)
    return result


class SparseParts:
    """Pickles as the plain sparse tensor it describes."""

    __slots__ = ("state",)

    def __init__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return rebuild_sparse, self.state


class PlainParts:
    """Pickles as the plain tensor it describes."""

    __slots__ = ("state",)

    def __init__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return rebuild_tensor, self.state


def set_state(self: Tensor, state: object) -> None:
    """Attributes of a subclass that pickles its own way, and its slots beside them."""
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if isinstance(part, dict):
            set_attributes(self, part)


# -- copying ---------------------------------------------------------------------------------------


def deepcopied(self: Tensor, memo: dict[int, Any]) -> Any:
    """A copy with memory of its own; tensors that share storage share its copy."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy

    if dispatching(type(self)):
        result = self.clone()
        result = result.detach() if not self.requires_grad else result.detach().requires_grad_()
        if type(result) is not type(self):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works "
                "for subclass types that properly implement clone() "
                f"(got {type(result).__name__} for {type(self).__name__})"
            )
    elif self._unusual is not None and self._unusual.parts is not None:
        from rushlight.core.parts import copied_parts

        result = copied_parts(self)
        if type(self) is not Tensor:
            result = Tensor._make_subclass(type(self), result)
        if self.requires_grad:
            set_requires_grad(result, True)
    else:
        storage = storage_of(self)
        copied = memo.get(id(storage))
        if copied is None:
            copied = memo[id(storage)] = storage.clone()
            memo.setdefault(id(memo), []).append(storage)
        result = rebuild_tensor(
            copied,
            self._dtype,
            tuple(self.shape),
            tuple(strides_of(self)),
            self._offset,
            False,
            (self.is_conj(), self.is_neg()),
        )
        if self._array is None and self.device is not copied.device:
            result._unusual.device = self.device
        if type(self) is Parameter:
            result = Parameter(result, self.requires_grad)
        elif type(self) is not Tensor:
            result = Tensor._make_subclass(type(self), result)
        if self.requires_grad:
            set_requires_grad(result, True)
    memo[id(self)] = result
    if self.grad is not None:
        result.grad = deepcopy(self.grad, memo)
    attributes = attributes_of(self)
    if attributes:
        set_attributes(result, deepcopy(attributes, memo))
    return result


def dispatching(cls: type) -> bool:
    from rushlight.core.dispatch import dispatches

    return cls not in PLAIN and dispatches(cls)


def index(self: Tensor, positions: Any, dims: Any) -> Any:
    """The tensor with first-class dims, or entries of a subscript, at positions; see
    `functorch.dim`."""
    return ports.index_by_dims(self, positions, dims)


def grad_dtype(self: Tensor) -> dtypes.dtype:
    """The dtype that gradients are kept in: that of the leaf."""
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return self._dtype


def set_grad_dtype(self: Tensor, value: dtypes.dtype) -> None:
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not self.dtype:
        raise MissingFeature(
            f"gradients in {value} of a {self.dtype} tensor",
            "Convert .grad after backward().",
            code="RL0001",
        )


def install() -> None:
    """Put the methods on Tensor."""
    methods: dict[str, Function] = {
        "numpy": numpy,
        "__array__": to_ndarray,
        "__array_wrap__": wrap_ndarray,
        "tolist": tolist,
        "__format__": formatted,
        "__dlpack__": dlpack,
        "__dlpack_device__": dlpack_device,
        "__reduce_ex__": reduce_tensor,
        "__setstate__": set_state,
        "__deepcopy__": deepcopied,
    }
    for name, function in methods.items():
        function.__name__ = name
        function.__qualname__ = f"Tensor.{name}"
        setattr(Tensor, name, overridable(function))
    Tensor.index = index  # type: ignore[attr-defined]
    Tensor.grad_dtype = property(grad_dtype, set_grad_dtype)  # type: ignore[attr-defined]


copyreg.pickle(Storage, storage_state)
