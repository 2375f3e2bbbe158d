"""Creation: tensors from sizes, numbers, ranges, or after the fashion of another tensor.

Each op has torch's schema; its public function (`factory`) adds what schemas leave out:
requires_grad, the default device, sizes given one by one.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from rushlight.arrays.casting import held_number
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry, interop, ports, promotion
from rushlight.core.determinism import unwritten, unwritten_array
from rushlight.core.dispatch import INSIDE, call, call_function_mode, overridable, packet_call
from rushlight.core.dtype import dtype
from rushlight.core.op import OpOverload, Tag, refuse
from rushlight.core.promotion import scalar_dtype
from rushlight.core.size import Size
from rushlight.core.state import LAYER_FUNCTION_MODES, LOCAL, PROCESS
from rushlight.core.storage import Storage
from rushlight.core.tensor import (
    PLAIN,
    Tensor,
    Unusual,
    alias_array,
    set_requires_grad,
    storage_of,
    wrap,
    wrap_strided,
)
from rushlight.core.typedstorage import TypedStorage
from rushlight.opset.creation.copy import layouts, preserved
from rushlight.opset.kinds import CREATION, Spec, refuse_device, refuse_layout
from rushlight.opset.registry import composite, find, op, packet
from rushlight.opset.results import check_bytes, shell_of
from rushlight.opset.rules import late, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = (
    "can_cast", "empty", "empty_like", "empty_permuted", "empty_strided", "full", "full_like",
    "get_default_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg",
    "is_signed", "is_storage", "numel", "ones", "ones_like", "promote_types", "result_type",
    "set_default_device", "zeros", "zeros_like",
)  # fmt: skip

OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
LIKE = f"{OPTIONS}, MemoryFormat? memory_format=None"


# -- public functions ------------------------------------------------------------------------------


def mark_requires_grad(result: Any) -> Any:
    if not (result._dtype.is_floating_point or result._dtype.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    set_requires_grad(result, True)
    return result


def check_pinning(kwargs: dict[str, Any]) -> None:
    if kwargs.get("pin_memory"):
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory "
            "allocator is available on this system."
        )


def prepare_out(kwargs: dict[str, Any]) -> None:
    """An out tensor decides the dtype, and a given dtype must be its."""
    out = kwargs["out"]
    if isinstance(out, Tensor):
        given = kwargs.get("dtype")
        if given is not None and given is not out._dtype:
            raise RuntimeError(
                f"dtype {given.scalar_type_name} does not match dtype of out parameter "
                f"({out._dtype.scalar_type_name})"
            )
        kwargs["dtype"] = out._dtype


SEQUENCES = frozenset((tuple, list, Size))


def are_sizes(sizes: Any) -> bool:
    if len(sizes) > geometry.MOST_DIMS:
        return False
    for size in sizes:  # noqa: SIM110 (a generator costs more than the sizes)
        if size.__class__ is not int or size < 0:
            return False
    return True


def from_sizes(make: Any) -> Any:
    """A shortcut for sizes and at most a dtype; `make(sizes, numpy dtype)` gives the array."""

    def shortcut(args: Any, kwargs: Any) -> Any:
        result_dtype = dtypes.default_dtype
        if kwargs:
            result_dtype = kwargs.get("dtype")
            if (
                result_dtype.__class__ is not dtype
                or len(kwargs) != 1
                or result_dtype is dtypes.complex32
            ):
                return None
        if not args:
            return None
        sizes = args[0] if len(args) == 1 and args[0].__class__ in SEQUENCES else args
        return wrap(make(sizes, result_dtype.np), result_dtype) if are_sizes(sizes) else None

    return shortcut


def after_tensor(make: Any) -> Any:
    """A shortcut for `zeros_like(x)` and `x.new_zeros(sizes)` of a plain tensor."""

    def shortcut(args: Any, kwargs: Any) -> Any:
        if kwargs or not args or type(args[0]) not in PLAIN:
            return None
        source = args[0]
        if source._unusual is not None or not source._dtype.scalar_fast:
            return None
        if len(args) == 1:
            if not source._is_contiguous:
                return None
            return wrap(make(source._array.shape, source._dtype.np), source._dtype)
        if len(args) == 2 and args[1].__class__ in SEQUENCES and are_sizes(args[1]):
            return wrap(make(args[1], source._dtype.np), source._dtype)
        return None

    return shortcut


def has_tensor(args: Any, kwargs: Any) -> bool:
    return any(isinstance(value, Tensor) for value in (*args, *kwargs.values()))


def factory(name: str, shortcut: Any = None, method: bool = False) -> Any:
    """The public function (or method) behind a creation op.

    `shortcut(args, kwargs)` answers common calls when no mode is active, or None.
    """
    found = packet(name)
    takes_device = any(not record.tensor_positions for record in found.candidates)
    # `normal` has forms without these options, told apart by a tensor among the arguments.
    mixed = any("device" not in record.argument_names for record in found.candidates)

    def function(*args: Any, **kwargs: Any) -> Any:
        if PROCESS.special:
            state = LOCAL.state
            if state.function_modes and not state.excluded & LAYER_FUNCTION_MODES:
                return call_function_mode(state, function, args, kwargs)
            inside = state.excluded & INSIDE == INSIDE
            if state.layers and not inside and not (mixed and has_tensor(args, kwargs)):
                # torch: what modes and graphs see names the device and pinning.
                kwargs.setdefault("pin_memory", False)
                if takes_device and kwargs.get("device") is None and kwargs.get("out") is None:
                    kwargs["device"] = state.default_device or devices.cpu
        elif shortcut is not None:
            try:
                result = shortcut(args, kwargs)
            except (MemoryError, ValueError):
                # No memory: the general way fails with torch's words.
                result = None
            if result is not None:
                return result
        if "names" in kwargs:
            from rushlight.core.names import with_names

            return with_names(function, args, kwargs)
        requires_grad = kwargs.pop("requires_grad", False)
        if type(requires_grad) is not bool:
            raise TypeError(
                f"{name}(): argument 'requires_grad' must be bool, not "
                f"{type(requires_grad).__name__}"
            )
        check_pinning(kwargs)
        if kwargs.get("out") is not None and not (mixed and has_tensor(args, kwargs)):
            prepare_out(kwargs)
        result = packet_call(found, function, args, kwargs)
        return mark_requires_grad(result) if requires_grad else result

    function.__name__ = function.__qualname__ = name
    function.__module__ = "rushlight"
    function.__doc__ = "\n".join(str(record._schema) for record in found.candidates)
    if method:
        function.__qualname__ = f"Tensor.{name}"
        setattr(Tensor, name, function)
    return function


def check_sizes(size: Any) -> None:
    geometry.check_rank(len(size))
    for entry in size:
        if entry < 0 if type(entry) is int else not geometry.required(entry >= 0):
            shown = geometry.show(size)
            raise RuntimeError(f"Trying to create tensor with negative dimension {entry}: {shown}")


def filled(xp: Any, sizes: Any, value: Any, dtype: dtype) -> Any:
    return xp.full(tuple(sizes), held_number(value, dtype, math.prod(sizes)), dtype.np)


def source_dtype(self: Any) -> dtype:
    """The dtype of a kernel's first argument, an array or a tensor without one."""
    return self._dtype if isinstance(self, Tensor) else dtypes.from_numpy(self.dtype)


# -- from sizes ------------------------------------------------------------------------------------


def sized_spec(size: Any, dtype: Any, *rest: Any) -> Spec:
    check_sizes(size)
    return Spec(size, dtype or dtypes.get_default_dtype())


empty_op = op(
    f"empty.memory_format(SymInt[] size, *, {LIKE}) -> Tensor",
    kind=CREATION,
    unwritten=True,
    method=False,
    varargs=0,
    layout="shape",
    tags=(Tag.core,),
)


@empty_op.shape
def _(size: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    check_sizes(size)
    strides = geometry.strides_for_memory_format(size, memory_format)
    return Spec(size, dtype or dtypes.get_default_dtype(), strides)


@empty_op.kernel
def _(xp: Any, size: Any, dtype: Any, *rest: Any) -> Any:
    check_sizes(size)
    result_dtype = dtype or dtypes.get_default_dtype()
    return unwritten(xp.empty(size, result_dtype.np), result_dtype)


zeros_op = op(
    f"zeros(SymInt[] size, *, {OPTIONS}) -> Tensor",
    errors=lambda make: [(RuntimeError, ((-1,),))],
    fill=0,
    kind=CREATION,
    method=False,
    varargs=0,
)


@zeros_op.shape
def _(size: Any, dtype: Any, *rest: Any) -> Any:
    for entry in size:
        if entry < 0 if type(entry) is int else not geometry.required(entry >= 0):
            raise RuntimeError("zeros: Dimension size must be non-negative.")
    return Spec(size, dtype or dtypes.get_default_dtype())


@zeros_op.kernel
def _(xp: Any, size: Any, dtype: Any, *rest: Any) -> Any:
    if size and min(size) < 0:
        raise RuntimeError("zeros: Dimension size must be non-negative.")
    geometry.check_rank(len(size))
    return xp.zeros(size, (dtype or dtypes.get_default_dtype()).np)


ones_op = op(
    f"ones(SymInt[] size, *, {OPTIONS}) -> Tensor",
    fill=1,
    kind=CREATION,
    method=False,
    varargs=0,
    shape=sized_spec,
)


@ones_op.kernel
def _(xp: Any, size: Any, dtype: Any, *rest: Any) -> Any:
    check_sizes(size)
    return filled(xp, size, 1, dtype or dtypes.get_default_dtype())


full_op = op(
    f"full(SymInt[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor",
    errors=lambda make: [(RuntimeError, ((2, -1), 1.0))],
    fill="fill_value",
    kind=CREATION,
    method=False,
    tags=(Tag.core,),
)


def fill_dtype(value: Any) -> dtype:
    """torch: complex numbers are never filled in at half precision."""
    dtype = scalar_dtype(value)
    return dtypes.complex64 if dtype is dtypes.complex32 else dtype


@full_op.shape
def _(size: Any, fill_value: Any, dtype: Any, *rest: Any) -> Any:
    return sized_spec(size, dtype or fill_dtype(fill_value))


@full_op.kernel
def _(xp: Any, size: Any, fill_value: Any, dtype: Any, *rest: Any) -> Any:
    check_sizes(size)
    return filled(xp, size, fill_value, dtype or fill_dtype(fill_value))


def sample_sizes(make: Any, *rest: Any) -> Any:
    for size in ((), (3,), (2, 0), (2, 3, 4)):
        yield sample(size, *rest, dtype=make.dtype)
        yield sample(size, *rest)


def of_sparse_layout(*args: Any) -> Any:
    """No element specified: the family of sparse ops loads when such a layout is asked for."""
    from rushlight.opset.sparse.shape import made_sparse

    return made_sparse(*args)


zeros_op.rules["layouts"] = empty_op.rules["layouts"] = of_sparse_layout
zeros_op.samples = sample_sizes
ones_op.samples = sample_sizes
full_op.samples = lambda make: sample_sizes(make, 1)


def fresh_strided(sizes: Any, strides: Any, dtype: dtype) -> Any:
    extent = geometry.storage_extent(sizes, strides, 0)
    check_bytes((extent,), dtype.itemsize)
    if strides == geometry.contiguous_strides(sizes):
        return wrap(unwritten_array(sizes, dtype), dtype)
    storage = Storage(unwritten_array(extent, dtype).view(np.uint8))
    result = wrap_strided(alias_array(storage, dtype, sizes, strides, 0), dtype, storage)
    if extent == 0:
        unusual = result._unusual = Unusual()
        unusual.sizes, unusual.strides = sizes, strides
    return result


def fresh_memory(record: Any, *args: Any) -> Any:
    """The kernel of ops that make memory with exact strides."""
    spec = record.rule("shape")(*args)
    layout, device = args[-3], args[-2]
    if record.tensor_positions:
        device = device or args[0].device
        if args[0]._array is None and device == args[0].device:
            return shell_of(spec, device)
    if device is not None and device.type != "cpu":
        if device.type != "meta":
            refuse_device(device)
        return shell_of(spec, device)
    if layout is not None:
        refuse_layout(record, layout)
    return fresh_strided(spec.shape, spec.strides, spec.dtype)


def strided(schema: str, **options: Any) -> OpOverload:
    record = op(schema, kind=CREATION, takes_tensors=True, unwritten=True, **options)
    record.kernel = partial(fresh_memory, record)
    return record


empty_strided_op = strided(
    f"empty_strided(SymInt[] size, SymInt[] stride, *, {OPTIONS}) -> Tensor",
    method=False,
    tags=(Tag.core,),
)


def strided_spec(size: Any, stride: Any, dtype: dtype) -> Spec:
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    check_sizes(size)
    for entry in stride:
        if entry < 0 if type(entry) is int else not geometry.required(entry >= 0):
            raise RuntimeError(
                f"Storage size calculation overflowed with sizes={geometry.show(size)} and "
                f"strides={geometry.show(stride)}"
            )
    return Spec(size, dtype, stride)


@empty_strided_op.shape
def _(size: Any, stride: Any, dtype: Any, *rest: Any) -> Any:
    return strided_spec(size, stride, dtype or dtypes.get_default_dtype())


new_empty_strided_op = strided(
    f"new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, {OPTIONS}) -> Tensor",
    function=False,
)


@new_empty_strided_op.batch
def _(level: Any, op: Any, self: Any, size: Any, stride: Any, *rest: Any) -> Any:
    extent = geometry.storage_extent(tuple(size), tuple(stride), 0)
    moved = (level.front(self), (level.size, *size), (extent, *stride), *rest)
    return level.wrap(level.below(op, moved))


@new_empty_strided_op.shape
def _(self: Any, size: Any, stride: Any, dtype: Any, *rest: Any) -> Any:
    return strided_spec(size, stride, dtype or self._dtype)


empty_permuted_op = strided(
    f"empty_permuted(SymInt[] size, int[] physical_layout, *, {OPTIONS}) -> Tensor",
    method=False,
)


@empty_permuted_op.shape
def _(size: Any, physical_layout: Any, dtype: Any, *rest: Any) -> Any:
    check_sizes(size)
    if len(size) != len(physical_layout):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(size)} is not equal to len(physical_layout) = "
            f"{len(physical_layout)}"
        )
    for entry in physical_layout:
        if not 0 <= entry < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got "
                f"{entry} at index {physical_layout.index(entry)}).  NB: negative dims not "
                "currently supported; file an issue if you want it."
            )
    if len(set(physical_layout)) != len(physical_layout):
        raise RuntimeError("Duplicate dim not allowed")
    outer = geometry.contiguous_strides(tuple(size[axis] for axis in physical_layout))
    strides = [0] * len(size)
    for place, axis in enumerate(physical_layout):
        strides[axis] = outer[place]
    return Spec(size, dtype or dtypes.get_default_dtype(), strides)


# -- after another tensor --------------------------------------------------------------------------


def like_spec(
    self: Any, dtype: Any, layout: Any, device: Any, pin: Any, memory_format: Any
) -> Spec:
    return Spec(self.shape, dtype or self._dtype, preserved(self, memory_format))


empty_like_op = op(
    f"empty_like(Tensor self, *, {LIKE}) -> Tensor",
    sparse=late("sparse.shape:empty_like"),
    kind=CREATION,
    unwritten=True,
    method=False,
    layout="shape",
    shape=like_spec,
    kernel=lambda xp, self, dtype, *rest: new_empty_kernel(xp, self, self.shape, dtype),
)
ones_like_op = op(
    f"ones_like(Tensor self, *, {LIKE}) -> Tensor",
    sparse=late("sparse.shape:ones_like"),
    fill=1,
    kind=CREATION,
    method=False,
    layout="shape",
    shape=like_spec,
    kernel=lambda xp, self, dtype, *rest: filled(xp, self.shape, 1, dtype or source_dtype(self)),
    samples=layouts,
)
full_like_op = op(
    f"full_like(Tensor self, Scalar fill_value, *, {LIKE}) -> Tensor",
    sparse=late("sparse.shape:full_like"),
    fill="fill_value",
    kind=CREATION,
    method=False,
    layout="shape",
    shape=lambda self, fill_value, *rest: like_spec(self, *rest),
    kernel=lambda xp, self, fill_value, dtype, *rest: filled(
        xp, self.shape, fill_value, dtype or source_dtype(self)
    ),
    samples=lambda make: [(*given, 1) for given in layouts(make)],
)


def new_spec(self: Any, size: Any, dtype: Any, *rest: Any) -> Spec:
    check_sizes(size)
    return Spec(size, dtype or self._dtype)


def new_filled(value: Any) -> Any:
    def kernel(xp: Any, self: Any, size: Any, dtype: Any, *rest: Any) -> Any:
        check_sizes(size)
        result_dtype = dtype or source_dtype(self)
        return (
            xp.zeros(size, result_dtype.np) if value == 0 else filled(xp, size, value, result_dtype)
        )

    return kernel


def new_empty_kernel(xp: Any, self: Any, size: Any, dtype: Any, *rest: Any) -> Any:
    check_sizes(size)
    result_dtype = dtype or source_dtype(self)
    return unwritten(xp.empty(size, result_dtype.np), result_dtype)


for name, kernel in (
    ("new_empty", new_empty_kernel),
    ("new_zeros", new_filled(0)),
    ("new_ones", new_filled(1)),
):
    op(
        f"{name}(Tensor self, SymInt[] size, *, {OPTIONS}) -> Tensor",
        kind=CREATION,
        sparse=None if name == "new_ones" else late("sparse.shape:new_zeros"),
        function=False,
        varargs=1,
        shape=new_spec,
        kernel=kernel,
        samples=lambda make: ((make(2), (2, 3)), (make(2), ())),
    )

new_full_op = op(
    f"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor",
    kind=CREATION,
    function=False,
    shape=lambda self, size, fill_value, dtype, *rest: new_spec(self, size, dtype),
    samples=lambda make: ((make(2), (2, 3), 1), (make(2), (), 0)),
)


@new_full_op.kernel
def _(xp: Any, self: Any, size: Any, fill_value: Any, dtype: Any, *rest: Any) -> Any:
    check_sizes(size)
    return filled(xp, size, fill_value, dtype or source_dtype(self))


@composite(
    "_new_zeros_with_same_feature_meta(Tensor self, Tensor other, *, int self_num_batch_dims=0) "
    "-> Tensor",
    method=False,
    function=False,
)
def new_zeros_like_tangent(self: Any, other: Any, self_num_batch_dims: int = 0) -> Any:
    """Zeros laid out like `other` in memory as long as its, once for each batch entry of `self`."""
    batch = tuple(self.shape[:self_num_batch_dims])
    length = storage_of(other).nbytes_ // other.element_size()
    # Where views are copied, they do not lie in the memory that they are of.
    extent = geometry.storage_extent(other.shape, other.stride(), other.storage_offset())
    if length < extent:
        length = extent
    steps = tuple([step * length for step in geometry.contiguous_strides(batch)])
    made = zeros(length * geometry.numel(batch), dtype=other._dtype, device=other.device)
    return made.as_strided_(
        (*batch, *other.shape), (*steps, *other.stride()), other.storage_offset()
    )


@new_zeros_like_tangent.batch
def _(level: Any, op: Any, self: Any, other: Any, batch_dims: int) -> Any:
    if not level.holds(other):
        return level.wrap(level.below(op, (level.front(self), other, batch_dims + 1)))
    if batch_dims:
        return level.loop(op, (self, other, batch_dims))
    value = other._value
    return level.wrap(level.below(op, (value, value, 0)), other._axis)


def unwritten_sizes(make: Any) -> Any:
    for size in ((), (3,), (2, 0, 3)):
        yield sample(size, dtype=make.dtype)


def unwritten_strides(make: Any) -> Any:
    yield sample((2, 3), (1, 2), dtype=make.dtype)
    yield sample((), (), dtype=make.dtype)


def unwritten_orders(make: Any) -> Any:
    yield sample((2, 3, 4), (2, 0, 1), dtype=make.dtype)
    yield sample((), (), dtype=make.dtype)


for record in (empty_op, empty_strided_op, new_empty_strided_op, empty_permuted_op, empty_like_op):
    record.vjp = refuse("its values depend on no input")
    record.jvp = refuse("its values depend on no input")
empty_op.samples = unwritten_sizes
empty_strided_op.samples = unwritten_strides
empty_permuted_op.samples = unwritten_orders
new_empty_strided_op.samples = lambda make: (
    (make(2), (2, 3), (1, 2)),
    (make.strided(2, 3), (), ()),
)
empty_like_op.samples = lambda make: ((make(2, 3),), (make.strided(2, 3),), (make.expanded(2, 3),))
find("new_empty").options["unwritten"] = True
find("new_empty").samples = lambda make: ((make(2), (2, 3)), (make.strided(2, 3), ()))
new_zeros_like_tangent.samples = lambda make: ((make(2), make(3)), (make.strided(2, 3), make()))

empty = factory("empty", from_sizes(np.empty))
zeros = factory("zeros", from_sizes(np.zeros))
ones = factory("ones", from_sizes(np.ones))
full = factory("full")
empty_strided = factory("empty_strided")
empty_permuted = factory("empty_permuted")
empty_like = factory("empty_like", after_tensor(np.empty))
zeros_like = factory("zeros_like", after_tensor(np.zeros))
ones_like = factory("ones_like", after_tensor(np.ones))
full_like = factory("full_like")
factory("new_empty", after_tensor(np.empty), method=True)
factory("new_zeros", after_tensor(np.zeros), method=True)
factory("new_ones", after_tensor(np.ones), method=True)
factory("new_full", method=True)
factory("new_empty_strided", method=True)


# -- from data; the default device -----------------------------------------------------------------


def lift(value: Any) -> Any:
    return call(find("lift_fresh"), (value,))


ports.fill(lift_fresh=lift)
interop.install()


def push_default(place: Any) -> None:
    state = LOCAL.state
    state.stash.setdefault("default_devices", []).append(state.default_device)
    state.default_device = place
    state.refresh()


def pop_default(place: Any) -> None:
    state = LOCAL.state
    state.default_device = state.stash["default_devices"].pop()
    state.refresh()


devices.device.push_default = staticmethod(push_default)
devices.device.pop_default = staticmethod(pop_default)


def set_default_device(device: Any) -> None:
    """Make `device` the one new tensors of this thread are on; None for the CPU."""
    state = LOCAL.state
    state.default_device = None if device is None else devices.device(device)
    state.refresh()


def get_default_device() -> Any:
    """The device new tensors are on."""
    return LOCAL.state.default_device or devices.cpu


# -- facts about dtypes and tensors ----------------------------------------------------------------


def operand(value: Any, position: int) -> tuple[Any, int]:
    if isinstance(value, Tensor):
        return value._dtype, promotion.DIM if value.dim() else promotion.ZERO_DIM
    try:
        return scalar_dtype(value), promotion.WRAPPED
    except TypeError:
        raise TypeError(
            f"result_type(): argument (position {position}) must be Tensor or Number, not "
            f"{type(value).__name__}"
        ) from None


@overridable
def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype an elementwise operation on the two computes in."""
    return promotion.result_type((operand(tensor1, 1), operand(tensor2, 2)))


def tensor_fact(name: str) -> Any:
    """`torch.numel(x)` for a method that is not an op."""

    def function(input: Any) -> Any:
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{name}(): argument 'input' (position 1) must be Tensor, not "
                f"{type(input).__name__}"
            )
        return getattr(input, name)()

    function.__name__ = function.__qualname__ = name
    return overridable(function)


numel = tensor_fact("numel")
is_floating_point = tensor_fact("is_floating_point")
is_complex = tensor_fact("is_complex")
is_signed = tensor_fact("is_signed")
is_inference = tensor_fact("is_inference")
is_conj = tensor_fact("is_conj")
is_neg = tensor_fact("is_neg")
promote_types = promotion.promote_types
can_cast = promotion.can_cast


def is_storage(obj: Any, /) -> bool:
    """Whether `obj` is a storage."""
    return isinstance(obj, (Storage, TypedStorage))
