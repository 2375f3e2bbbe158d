"""The Tensor object: memory, geometry and autograd state. Its operators come from the opset.

A fresh result of an op is one small object: array and dtype; storage, version counter, view
record and autograd state are made on first need. `_unusual` is None for the common case (a strided
CPU tensor whose values are exactly its array's) and holds everything unusual otherwise, so that
one `is None` test admits a tensor to the hot path.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rushlight.base.errors import error
from rushlight.core import geometry, ports
from rushlight.core.device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    cpu,
    device,
    layout,
    memory_format,
    strided,
)
from rushlight.core.dtype import dtype
from rushlight.core.extras import Unusual, ViewInfo
from rushlight.core.hooks import HookDict, NodeHooks, RemovableHandle, add_hook
from rushlight.core.node import (
    AutogradState,
    autograd_state,
    needs_grad,
    next_sequence,
    retire_accumulator,
    view_node,
)
from rushlight.core.refusals import (
    NO_REQUIRES_GRAD,
    NO_RETAIN_GRAD,
    check_data_assignment,
    check_grad_assignment,
    check_outside_transforms,
    dim_type_error,
)
from rushlight.core.size import Size
from rushlight.core.size import unchecked as as_size
from rushlight.core.source import block, compile_source, fill_tensor, join
from rushlight.core.state import (
    LAYER_FUNCTION,
    LAYER_FUNCTION_MODES,
    LAYER_MODES,
    LAYER_SUBCLASS,
    LOCAL,
    OVERRIDES,
    PROCESS,
    USER_FUNCTION,
    changed,
    excluding,
)
from rushlight.core.storage import Former, Storage, VersionCounter

if TYPE_CHECKING:
    from rushlight.core.node import GraphNode
    from rushlight.core.protocols import (
        Args,
        Array,
        DimName,
        Function,
        Kwargs,
        Sizes,
        Strides,
    )
    from rushlight.symbolic.numbers import IntLike

__all__ = ["Tensor", "Unusual", "ViewInfo", "alias_array", "storage_of", "wrap"]

ndarray = np.ndarray


def slot(name: str) -> Any:
    return property(attrgetter(name))


def disabled_torch_dispatch(
    func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
) -> Any:
    """The `__torch_dispatch__` of classes that want none: the op itself, on what the tensors are
    without their class."""
    with excluding(LAYER_MODES | LAYER_SUBCLASS):
        return func(*args, **(kwargs or {}))


class TensorType(type):
    """The class of Tensor and of its subclasses."""


class Tensor(metaclass=TensorType):
    """A multi-dimensional array with automatic differentiation."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",
        "_autograd",
        "_counter",
        "_dtype",
        "_is_contiguous",
        "_node",
        "_offset",
        "_output_nr",
        "_requires_grad",
        "_storage",
        "_unusual",
        "_view",
    )

    if TYPE_CHECKING:
        # Most methods are put in place by the op families.
        def __getattr__(self, name: str) -> Any: ...

    _array: Any
    _dtype: dtype
    _is_contiguous: bool
    _requires_grad: bool
    _node: GraphNode | None
    _output_nr: int
    _counter: VersionCounter | None
    _storage: Storage | None
    _offset: int
    _view: ViewInfo | None
    _autograd: AutogradState | None
    _unusual: Unusual | None

    __hash__ = object.__hash__
    # NumPy must let our reflected operators win.
    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return ports.legacy_new(cls, args, kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        override = getattr(cls.__torch_function__, "__func__", None)
        rule = cls.__dict__.get("__torch_dispatch__", disabled_torch_dispatch)
        if rule is not disabled_torch_dispatch and override is DEFAULT_OVERRIDE:
            # torch: results of a class that looks at calls below the API stay as it made them.
            from rushlight.core.dispatch import DISABLED

            cls.__torch_function__ = DISABLED  # type: ignore[method-assign]

    # -- geometry ---------------------------------------------------------------------------

    dtype = slot("_dtype")
    output_nr = slot("_output_nr")

    @property
    def shape(self) -> Size:
        unusual = self._unusual
        if unusual is not None and unusual.sizes is not None:
            return as_size(unusual.sizes)
        return as_size(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        sizes = self.shape
        if not hasattr(dim, "__index__"):
            raise dim_type_error("size", dim)
        return sizes[geometry.wrap_dim(dim, len(sizes))]

    def dim(self) -> int:
        unusual = self._unusual
        if unusual is not None and unusual.sizes is not None:
            return len(unusual.sizes)
        found: int = self._array.ndim
        return found

    ndim = property(dim)
    ndimension = dim

    def stride(self, dim: int | None = None) -> Any:
        refuse_compressed(self, "strides")
        strides = strides_of(self)
        if dim is None:
            return strides
        if not hasattr(dim, "__index__"):
            raise dim_type_error("stride", dim)
        return strides[geometry.wrap_dim(dim, len(strides))]

    def storage_offset(self) -> Any:
        return self._offset

    def numel(self) -> Any:
        unusual = self._unusual
        if unusual is not None and unusual.sizes is not None:
            return geometry.numel(unusual.sizes)
        found: int = self._array.size
        return found

    nelement = numel

    def element_size(self) -> int:
        return self._dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self._dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.numel() * self._dtype.itemsize

    def is_contiguous(self, memory_format: memory_format = contiguous_format) -> bool:
        refuse_compressed(self, "is_contiguous")
        if memory_format is contiguous_format:
            return self._is_contiguous or geometry.is_contiguous(self.shape, strides_of(self))
        if memory_format is channels_last:
            return bool(geometry.is_channels_last(self.shape, strides_of(self)))
        if memory_format is channels_last_3d:
            return bool(geometry.is_channels_last_3d(self.shape, strides_of(self)))
        raise TypeError(
            "is_contiguous(): argument 'memory_format' must be torch.memory_format, not "
            f"{type(memory_format).__name__}"
        )

    @property
    def device(self) -> device:
        return cpu if self._unusual is None else self._unusual.device

    def get_device(self) -> int:
        place = self.device
        return -1 if place.type == "cpu" else (place.index or 0)

    @property
    def layout(self) -> layout:
        return strided if self._unusual is None else self._unusual.layout

    is_sparse = property(lambda self: self.layout.name == "sparse_coo")
    is_sparse_csr = property(lambda self: self.layout.name == "sparse_csr")
    is_mkldnn = property(lambda self: False)
    is_quantized = property(lambda self: False)
    is_nested = property(lambda self: False)
    is_meta = property(lambda self: self.device.type == "meta")
    is_cuda = property(lambda self: self.device.type == "cuda")
    is_cpu = property(lambda self: self.device.type == "cpu")

    def is_floating_point(self) -> bool:
        return self._dtype.is_floating_point

    def is_complex(self) -> bool:
        return self._dtype.is_complex

    def is_signed(self) -> bool:
        return self._dtype.is_signed

    def is_conj(self) -> bool:
        return self._unusual is not None and self._unusual.conj

    def is_neg(self) -> bool:
        return self._unusual is not None and self._unusual.neg

    def is_inference(self) -> bool:
        return self._unusual is not None and self._unusual.inference

    # -- names of dims: `core.names` ----------------------------------------------------------

    @property
    def names(self) -> tuple[str | None, ...]:
        return (None,) * self.dim()

    @names.setter
    def names(self, value: Sequence[str | None] | None) -> None:
        self.rename_(*((None,) if value is None else value))

    def has_names(self) -> bool:
        return False

    def refine_names(self, *names: DimName) -> Any:
        from rushlight.core.names import refine_names

        return refine_names(self, *names)

    def rename(self, *names: DimName, **rename_map: str) -> Any:
        from rushlight.core.names import rename

        return rename(self, *names, **rename_map)

    def rename_(self, *names: DimName, **rename_map: str) -> Any:
        from rushlight.core.names import rename_

        return rename_(self, *names, **rename_map)

    def align_to(self, *names: DimName) -> Any:
        from rushlight.core.names import align_to

        return align_to(self, *names)

    def align_as(self, other: Tensor) -> Any:
        return self.align_to(*other.names)

    # -- memory -----------------------------------------------------------------------------

    def data_ptr(self) -> int:
        if self._array is None:
            if self._unusual is not None and self._unusual.parts is not None:
                raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
            return 0
        if self._array.size == 0:
            return 0
        return int(self._array.ctypes.data)

    def untyped_storage(self) -> Storage:
        if self._unusual is not None and self._unusual.parts is not None:
            raise error("RL0501", NotImplementedError)
        return storage_of(self)

    @property
    def _version(self) -> int:
        if self._unusual is not None and self._unusual.inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._counter is None else self._counter.value

    def _alias(self, share_counter: bool = True) -> Tensor:
        """The same memory as a new plain tensor without history."""
        result = wrap(self._array, self._dtype)
        result._is_contiguous = self._is_contiguous
        if share_counter:
            counter = self._counter
            if counter is None:
                counter = self._counter = VersionCounter()
            result._counter = counter
        result._storage = storage_of(self)
        result._offset = self._offset
        result._unusual = self._unusual
        return result

    def _shadow(self) -> Tensor:
        """`_alias` for the engine's own use: makes no Storage where there is none yet."""
        if self._storage is not None or self._view is not None or not self._is_contiguous:
            return self._alias()
        counter = self._counter
        if counter is None:
            counter = self._counter = VersionCounter()
        result = wrap(self._array, self._dtype)
        result._counter = counter
        result._unusual = self._unusual
        return result

    def _host_array(self) -> Any:
        """The values as an ndarray, lazy bits applied; None where there are no values."""
        return None if self._array is None else values_of(self)

    # -- autograd state -----------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self._requires_grad or needs_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, (bool, np.bool_, int)):
            raise RuntimeError("requires_grad must be a bool")
        set_requires_grad(self, bool(value))

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("cannot delete requires_grad")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        if type(requires_grad) is not bool:
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                f"{type(requires_grad).__name__}"
            )
        check_outside_transforms(NO_REQUIRES_GRAD)
        set_requires_grad(self, requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        if self._view is not None:
            return view_node(self) is None
        return self._node is None

    @property
    def grad_fn(self) -> GraphNode | None:
        return self._node if self._view is None else view_node(self)

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("cannot delete _grad_fn")

    @property
    def grad(self) -> Any:
        state = self._autograd
        if self._node is None and self._view is None:
            return None if state is None else state.grad
        kept = state is not None and (state.retains_grad or state.grad is not None)
        if not kept and not self.is_leaf and self._requires_grad:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                "Its .grad attribute won't be populated during autograd.backward(). If you "
                "indeed want the .grad field to be populated for a non-leaf Tensor, use "
                ".retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by "
                "mistake, make sure you access the leaf Tensor instead.",
                UserWarning,
                stacklevel=2,
            )
        return None if state is None else state.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            if self._autograd is not None:
                self._autograd.grad = None
            return
        check_grad_assignment(self, value, isinstance(value, Tensor))
        autograd_state(self).grad = value

    @grad.deleter
    def grad(self) -> None:
        if self._autograd is not None:
            self._autograd.grad = None

    @property
    def _grad(self) -> Any:
        return None if self._autograd is None else self._autograd.grad

    @_grad.setter
    def _grad(self, value: Tensor | None) -> None:
        self.grad = value

    @property
    def _base(self) -> Any:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None

    @property
    def data(self) -> Any:
        if PROCESS.special or (type(self) is not Tensor and type(self) not in PLAIN):
            from rushlight.core.dispatch import data_of

            return data_of(self)
        return self._alias(share_counter=False)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        check_data_assignment(self, value)
        if self._requires_grad and not (value._dtype.is_floating_point or value._dtype.is_complex):
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex "
                "dtype"
            )
        if self._counter is None:
            self._counter = VersionCounter()
        if self._requires_grad and self._node is None:
            before = (self._dtype, self.device, self.shape)
            if before != (value._dtype, value.device, value.shape):
                retire_accumulator(self)
        if self._array is not None:
            Former.leave(storage_of(self))
        self._storage = storage_of(value)
        self._array = value._array
        self._dtype = value._dtype
        self._is_contiguous = value._is_contiguous
        self._offset = value._offset
        self._unusual = value._unusual

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("cannot delete data")

    @property
    def volatile(self) -> bool:
        warnings.warn(
            "volatile was removed (Variable.volatile is always False)", UserWarning, stacklevel=2
        )
        return False

    @property
    def _backward_hooks(self) -> Any:
        return None if self._autograd is None else self._autograd.user_hooks

    @_backward_hooks.setter
    def _backward_hooks(self, value: HookDict | None) -> None:
        state = autograd_state(self)
        state.user_hooks = value
        if value is not None and self._requires_grad:
            tensor_hooks(self).tensor[self._output_nr] = value

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("cannot delete _backward_hooks")

    def register_hook(self, hook: Function) -> RemovableHandle:
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        hooks = tensor_hooks(self)
        table = hooks.tensor.get(self._output_nr)
        if table is None:
            table = hooks.tensor[self._output_nr] = HookDict()
        return add_hook(table, hook)

    def register_post_accumulate_grad_hook(self, hook: Function) -> RemovableHandle:
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        state = autograd_state(self)
        if state.post_accumulate is None:
            state.post_accumulate = HookDict()
        return add_hook(state.post_accumulate, hook)

    def retain_grad(self) -> None:
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        check_outside_transforms(NO_RETAIN_GRAD)
        found = self.grad_fn
        if found is None:
            return
        state = autograd_state(self)
        if not state.retains_grad:
            import weakref

            state.retains_grad = True
            found.hook_table().retain[self._output_nr] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        return self._autograd is not None and self._autograd.retains_grad

    def detach_(self) -> Tensor:
        if self._view is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set "
                "as True, gradients are views of DDP buckets, and hence detach_() cannot be called "
                "on these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
                "function in torch/optim/optimizer.py as a solution."
            )
        state = autograd_state(self)
        if self._node is not None:
            state.detached_at = next_sequence()
        state.retains_grad = False
        state.tangent = None
        self._node = None
        self._output_nr = 0
        self._requires_grad = False
        return self

    # -- subclasses ---------------------------------------------------------------------------

    @classmethod
    def __torch_function__(
        cls, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        """Run `func` with overrides of subclasses off, and return results as `cls`."""
        for own_cls in types:
            if not issubclass(cls, own_cls):
                return NotImplemented
        state = LOCAL.state
        excluded = state.excluded
        try:
            state.excluded = excluded | LAYER_FUNCTION | USER_FUNCTION
            state.refresh()
            result = func(*args, **(kwargs or {}))
        finally:
            state.excluded = excluded
            state.refresh()
        if func in KEEPS_BASE_TYPE:
            return result
        return as_class(result, cls)

    __torch_dispatch__: Any = staticmethod(disabled_torch_dispatch)
    # Classes that a dispatch layer of its own handles (fake, functional) name its bit here; each
    # of their tensors says by which mode.
    handling_layer = 0
    handling_mode: Any = None

    @staticmethod
    def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **asked: Any) -> Any:
        if not isinstance(data, Tensor):
            raise TypeError(
                f"_make_subclass(): argument 'data' must be Tensor, not {type(data).__name__}"
            )
        result = recast(data._alias(share_counter=False), cls)
        if require_grad:
            set_requires_grad(result, True)
        if asked:
            from rushlight.core.wrappers import let_class_answer

            let_class_answer(result, **asked)
        return result

    @staticmethod
    def _make_wrapper_subclass(cls: type, size: Sizes, *args: Any, **options: Any) -> Any:
        """A tensor of class `cls` with geometry but no memory of its own."""
        from rushlight.core.wrappers import make_wrapper

        return make_wrapper(cls, size, *args, **options)

    def as_subclass(self, cls: type) -> Any:
        """The same tensor seen as an instance of `cls`: a view that gradients pass through."""
        from rushlight.core.op import find_overload

        excluded = LOCAL.state.excluded | LAYER_FUNCTION | LAYER_FUNCTION_MODES | LAYER_SUBCLASS
        with changed(dispatch_modes=(), excluded=excluded):
            result = find_overload("aten", "alias", "default")(self)
        return recast(result, cls)

    def _type_name(self) -> str:
        """What `base.naming.typename` shows: `torch.FloatTensor`."""
        return str(self.type())

    def __repr__(self, *, tensor_contents: object = None) -> str:
        from rushlight.core import dispatch

        if type(self) is not Tensor and type(self) not in PLAIN:
            handled, value = dispatch.try_function_override(
                Tensor.__repr__, (self,), {"tensor_contents": tensor_contents}
            )
            if handled:
                return cast(str, value)
        from rushlight.core.format import tensor_str

        with excluding(OVERRIDES) as state:
            if state.duals is None:
                return tensor_str(self)
            from rushlight.core.duals import tangent_of

            return tensor_str(self, tangent=tangent_of(self))

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *self.__dict__})

    def __len__(self) -> int:
        sizes = self.shape
        if not sizes:
            raise TypeError("len() of a 0-d tensor")
        return int(sizes[0])


KEEPS_BASE_TYPE: set[Any] = set()
# A partial is called with less ado than `object.__new__` with an argument.
new_tensor: Callable[[], Tensor] = partial(object.__new__, Tensor)
DEFAULT_OVERRIDE = vars(Tensor)["__torch_function__"].__func__
ports.fill(tensor_types=(Tensor,))


# Types whose instances need no override handling on the hot path.
PLAIN: set[type] = {Tensor}


def as_class(value: Any, cls: type) -> Any:
    """Results of an overridden function, turned into the subclass."""
    if isinstance(value, Tensor):
        if isinstance(value, cls):
            return value
        return value.as_subclass(cls)
    if isinstance(value, (tuple, list)):
        items = [as_class(item, cls) for item in value]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return type(value)(items)
    return value


WRAP = block("def wrap(array, kind):", fill_tensor("result", "array", "kind"), ["return result"])
# A fresh contiguous ndarray as a tensor.
wrap: Callable[[Any, dtype], Tensor] = compile_source(
    join(WRAP), "wrap", {"__name__": __name__, "new_tensor": new_tensor}
)["wrap"]


def wrap_strided(array: Array, dtype: dtype, storage: Storage, offset: int = 0) -> Tensor:
    """An array over a known storage as a tensor, contiguous or not."""
    result = wrap(array, dtype)
    result._storage = storage
    result._offset = offset
    result._is_contiguous = False
    if array.flags.c_contiguous and array.size > 0:
        # NumPy lets strides of size 1 be anything; `_is_contiguous` promises the row-major ones.
        result._is_contiguous = 1 not in array.shape or strides_of(result) == (
            geometry.contiguous_strides(array.shape)
        )
    return result


def empty_strided(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: dtype) -> Tensor:
    """Fresh memory with exactly these strides."""
    if strides == geometry.contiguous_strides(sizes):
        return wrap(np.empty(sizes, dtype.np), dtype)
    extent = geometry.storage_extent(sizes, strides, 0)
    storage = Storage(np.empty(extent * dtype.itemsize, np.uint8))
    return wrap_strided(alias_array(storage, dtype, sizes, strides, 0), dtype, storage)


def shell(
    sizes: tuple[IntLike, ...],
    strides: Strides | None,
    dtype: dtype,
    place: device,
    offset: Any = 0,
) -> Tensor:
    """A tensor with geometry and no array: meta, fake, wrapper subclasses."""
    result = wrap(None, dtype)
    unusual = result._unusual = Unusual(place)
    unusual.sizes = sizes
    unusual.strides = geometry.contiguous_strides(sizes) if strides is None else tuple(strides)
    result._is_contiguous = False
    result._offset = offset
    return result


def alias_array(
    storage: Storage, dtype: dtype, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Array:
    """The ndarray over a storage with the given geometry, in elements of `dtype`."""
    width = dtype.itemsize
    if storage.nbytes_ == 0 or 0 in sizes:
        # NumPy insists on bounds even where there is no element.
        return ndarray(sizes, dtype.np, EMPTY_BUFFER, 0, tuple([0] * len(sizes)))
    return ndarray(
        sizes, dtype.np, storage.buffer, offset * width, tuple([step * width for step in strides])
    )


EMPTY_BUFFER = np.zeros(64, np.uint8)


LEVEL_TENSOR: Any = ports.level_tensor
ports.mirror(globals(), LEVEL_TENSOR="level_tensor")


def storage_of(tensor: Tensor) -> Storage:
    """The tensor's storage, made on first need from its array."""
    storage = tensor._storage
    if storage is None:
        view = tensor._view
        if view is not None:
            storage = Former.storage_of(tensor._array, storage_of(view.base))
        elif type(tensor) is LEVEL_TENSOR:
            storage = storage_of(tensor._value)
        elif tensor._array is None:
            unusual = tensor._unusual
            assert unusual is not None and unusual.sizes is not None and unusual.strides is not None
            extent = geometry.storage_extent(unusual.sizes, unusual.strides, tensor._offset)
            storage = Storage(None, extent * tensor._dtype.itemsize, unusual.device)
        else:
            storage = Storage.of_array(tensor._array)
        tensor._storage = storage
    return storage


def sizes_of(tensor: Tensor) -> tuple[Any, ...]:
    """The sizes as a plain tuple."""
    unusual = tensor._unusual
    if unusual is not None and unusual.sizes is not None:
        return tuple(unusual.sizes)
    found: tuple[int, ...] = tensor._array.shape
    return found


def refuse_compressed(tensor: Tensor, what: str) -> None:
    """torch: COO tensors have strides, all 0; the compressed layouts have none."""
    unusual = tensor._unusual
    if unusual is not None and unusual.parts is not None and unusual.layout.name != "sparse_coo":
        raise RuntimeError(f"Sparse {unusual.layout.name[7:].upper()} tensors do not have {what}")


def strides_of(tensor: Tensor) -> tuple[Any, ...]:
    unusual = tensor._unusual
    if unusual is not None and unusual.strides is not None:
        return unusual.strides
    array = tensor._array
    if tensor._is_contiguous:
        return geometry.contiguous_strides(array.shape)
    width = tensor._dtype.itemsize
    return tuple([step // width for step in array.strides])


STATE = tuple([name for name in Tensor.__slots__ if not name.startswith("__")])


def recast(tensor: Tensor, cls: Any) -> Any:
    """A tensor that nobody else holds yet, as an instance of another class."""
    try:
        tensor.__class__ = cls
    except TypeError:
        # A class with slots of its own is laid out in another way: what the tensor is moves over.
        made = object.__new__(cls)
        for name in STATE:
            setattr(made, name, getattr(tensor, name))
        made.__dict__.update(tensor.__dict__)
        return made
    return tensor


def conjugated(array: Any) -> Any:
    if array.dtype.kind == "c":
        return np.asarray(np.conjugate(array))
    # A pair of halves is a record to NumPy.
    pair = array.copy()
    pair["imag"] = -pair["imag"]
    return pair


def values_of(tensor: Tensor) -> Any:
    """The array with lazy conjugation and negation applied."""
    array = tensor._array
    unusual = tensor._unusual
    if unusual is not None:
        if unusual.conj:
            array = conjugated(array)
        if unusual.neg:
            array = np.asarray(np.negative(array))
    return array


def set_requires_grad(tensor: Tensor, value: bool) -> None:
    if tensor.grad_fn is not None:
        if not value:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use var_no_"
                "grad = var.detach()."
            )
        return
    dtype = tensor._dtype
    if value and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            "only Tensors of floating point and complex dtype can require gradients, but got "
            f"{dtype}"
        )
    if (
        value
        and tensor._unusual is not None
        and tensor._unusual.inference
        and not LOCAL.state.inference
    ):
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    tensor._requires_grad = value


def tensor_hooks(tensor: Tensor) -> NodeHooks:
    """The table a tensor's hooks belong to: its node's, or its own for a leaf."""
    found = tensor.grad_fn
    if found is not None:
        return found.hook_table()
    state = autograd_state(tensor)
    if state.hooks is None:
        state.hooks = NodeHooks()
    return state.hooks
