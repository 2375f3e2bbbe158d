"""Copies and conversions: clone, copy_, to, fill_, and what turns elements into Python numbers.

A conversion that changes nothing returns its argument; one that does goes through `_to_copy`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rushlight.arrays.casting import cast, held_number
from rushlight.base.errors import error
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.binding import Mismatch, as_bool, as_device, as_dtype, mismatch_error
from rushlight.core.device import contiguous_format, cpu, preserve_format
from rushlight.core.dispatch import call, packet_call
from rushlight.core.geometry import suggest_memory_format
from rushlight.core.node import needs_grad
from rushlight.core.op import Tag, refuse
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.storage import VersionCounter
from rushlight.core.tensor import PLAIN, Tensor, shell, strides_of, values_of, wrap
from rushlight.opset import derived
from rushlight.opset.creation.rowmajor import row_major
from rushlight.opset.exposure import install_method
from rushlight.opset.kinds import CREATION, Native, Spec, refuse_device
from rushlight.opset.registry import composite, mutation, op, packet
from rushlight.opset.results import lay_out
from rushlight.opset.rules import late, sample

# -- clone and conversion --------------------------------------------------------------------------


def preserved(self: Any, memory_format: Any) -> Any:
    """Strides of a copy of `self`: its own where dense, unless a format is named."""
    return geometry.strides_for_memory_format(
        tuple(self.shape), memory_format or preserve_format, strides_of(self)
    )


def clone_backend(self: Any, memory_format: Any = None) -> Any:
    array = self._array
    if self._is_contiguous and self._unusual is None and memory_format in (None, contiguous_format):
        return wrap(array.copy(), self._dtype)
    if self._unusual is not None and self._unusual.parts is not None:
        return DUPLICATE.unusual(clone, (self, memory_format))
    strides = preserved(self, memory_format)
    if array is None:
        return shell(tuple(self.shape), strides, self._dtype, self.device)
    return (
        lay_out(values_of(self), strides, self._dtype)
        if strides != geometry.contiguous_strides(tuple(self.shape))
        else wrap(row_major(values_of(self)), self._dtype)
    )


def convert_backend(
    self: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: Any,
    non_blocking: Any,
    memory_format: Any,
) -> Any:
    result_dtype = dtype or self._dtype
    if self._unusual is not None and self._unusual.parts is not None:
        return DUPLICATE.unusual(
            _to_copy, (self, dtype, layout, device, pin_memory, non_blocking, memory_format)
        )
    if layout is not None and layout is not devices.strided:
        raise error(
            "RL0502", NotImplementedError, source=self.layout, target=layout, instead="to_sparse()"
        )
    place = self.device if device is None else device
    strides = preserved(self, memory_format)
    if self._array is None or place.type != "cpu":
        if place.type == "cpu" and self.device.type == "meta":
            raise error("RL0402", NotImplementedError)
        if place.type not in ("meta", "cpu") and LOCAL.state.fake is None:
            refuse_device(place)
        return shell(tuple(self.shape), strides, result_dtype, place)
    warn_discarded(self._dtype, result_dtype)
    array = cast(values_of(self), self._dtype, result_dtype)
    if self._is_contiguous and strides == geometry.contiguous_strides(array.shape):
        return wrap(array, result_dtype)
    return lay_out(array, strides, result_dtype)


def warn_discarded(source: Any, target: Any) -> None:
    """torch: said once per process, and never for a conversion to bool."""
    global discard_warned
    if discard_warned or not source.is_complex or target.is_complex or target is dtypes.bool_:
        return
    discard_warned = True
    warnings.warn(
        "Casting complex values to real discards the imaginary part", UserWarning, stacklevel=2
    )


discard_warned = False
# Answer their first argument's elements in fresh memory, perhaps converted.
DUPLICATE = Native("DUPLICATE", recompute=True)


def layouts(make: Any) -> Any:
    yield (make(),)
    yield (make(3, 4),)
    yield (make(0, 2),)
    yield (make.strided(3, 4),)
    yield (make.expanded(3, 4),)


clone = op(
    "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    errors=lambda make: [(TypeError, sample(make(2), memory_format="x"))],
    lower="copied",
    sparse=late("sparse.shape:cloned"),
    batch="straight",
    kind=DUPLICATE,
    vjp=lambda grad: grad,
    jvp="linear",
    shape=lambda self, memory_format: Spec(self.shape, self._dtype, preserved(self, memory_format)),
    kernel=clone_backend,
)


@clone.samples
def _(make: Any) -> Any:
    yield from layouts(make)
    yield sample(make.strided(2, 3), memory_format=contiguous_format)
    yield sample(make(2, 3, 2, 2), memory_format=devices.channels_last)


_to_copy = op(
    "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    lower="copied",
    sparse=late("sparse.shape:to_copy"),
    batch="straight",
    kind=DUPLICATE,
    kernel=convert_backend,
    method=False,
    function=False,
    vjp=lambda grad, self_meta: converted_back(grad, self_meta),
    ends_gradients=True,
    tags=(Tag.core,),
)


def converted_back(grad: Any, like: Any) -> Any:
    """A gradient as its input is: a real input takes the real part."""
    if grad.is_complex() and not like.dtype.is_complex:
        grad = grad.real
    return grad.to(dtype=like.dtype, device=like.device)


@_to_copy.shape
def _(
    self: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: Any,
    non_blocking: Any,
    memory_format: Any,
) -> Any:
    return Spec(self.shape, dtype or self._dtype, preserved(self, memory_format))


@_to_copy.samples
def _(make: Any) -> Any:
    for dtype in (dtypes.float64, dtypes.int64, dtypes.bool_, dtypes.complex64, dtypes.bfloat16):
        if make.dtype.is_complex and not dtype.is_complex:
            continue
        yield sample(make(2, 3), dtype=dtype)
    yield sample(make.strided(3, 4), memory_format=contiguous_format)


@composite(
    "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
    errors=lambda make: [(RuntimeError, sample(make(2), memory_format=dtypes.float32))],
    function=False,
)
def contiguous(self: Any, memory_format: Any = contiguous_format) -> Any:
    if memory_format is contiguous_format and self._is_contiguous:
        return self
    if memory_format is preserve_format:
        # torch: preserve_format is refused only where a copy would be needed.
        if self.is_contiguous():
            return self
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if self.is_contiguous(memory_format):
        return self
    return self.clone(memory_format=memory_format)


def contiguous_shortcut(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and not PROCESS.special:
        self = args[0]
        if type(self) in PLAIN and self._is_contiguous:
            return self
    return packet_call(contiguous.packet, contiguous_shortcut, args, kwargs)


TO_TAIL = "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"


def converted(
    self: Any,
    dtype: Any,
    device: Any,
    layout: Any,
    non_blocking: bool,
    copy: bool,
    memory_format: Any,
) -> Any:
    """`self`, or a copy of it that is as asked."""
    if device is not None and device.type == "cpu":
        device = cpu
    format = memory_format or preserve_format
    # torch: strides need only suggest a format to be in it.
    if (
        not copy
        and (dtype is None or dtype is self._dtype)
        and (device is None or device == self.device)
        and (layout is None or layout is self.layout)
        and format in (preserve_format, suggest_memory_format(self.shape, strides_of(self)))
    ):
        return self
    return call(_to_copy, (self, dtype, layout, device, None, non_blocking, memory_format))


@composite(
    "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None, " + TO_TAIL,
    function=False,
)
def to_dtype_layout(
    self: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Any:
    return converted(self, dtype, device, layout, non_blocking, copy, memory_format)


@composite("to.device(Tensor(a) self, Device device, ScalarType dtype, " + TO_TAIL, function=False)
def to_device(
    self: Any,
    device: Any,
    dtype: Any,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Any:
    return converted(self, dtype, device, None, non_blocking, copy, memory_format)


@composite("to.dtype(Tensor(a) self, ScalarType dtype, " + TO_TAIL, function=False)
def to_dtype(
    self: Any, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> Any:
    return converted(self, dtype, None, None, non_blocking, copy, memory_format)


@composite("to.other(Tensor(a) self, Tensor other, " + TO_TAIL, function=False)
def to_other(
    self: Any, other: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> Any:
    return converted(
        self, other._dtype, other.device, other.layout, non_blocking, copy, memory_format
    )


TO_FORMS: tuple[tuple[str, ...], ...] = (
    ("device", "dtype", "non_blocking", "copy"),
    ("dtype", "non_blocking", "copy"),
    ("tensor", "non_blocking", "copy"),
)


def to_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `to` by name, whichever of its three forms they are in."""
    if (args and isinstance(args[0], Tensor)) or "tensor" in kwargs:
        names = TO_FORMS[2]
    elif args and isinstance(args[0], (dtypes.dtype, type)):
        names = TO_FORMS[1]
    else:
        names = TO_FORMS[0]
    if len(args) > len(names):
        raise Mismatch
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key in given or key not in (*names, "memory_format"):
            raise Mismatch
        given[key] = value
    if given.get("device") is not None:
        given["device"] = as_device(given["device"])
    if given.get("dtype") is not None:
        given["dtype"] = as_dtype(given["dtype"])
    for key in ("non_blocking", "copy"):
        if key in given:
            given[key] = as_bool(given[key])
    if not isinstance(given.get("memory_format"), (devices.memory_format, type(None))):
        raise Mismatch
    return given


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The tensor with another dtype, device or memory format; itself when nothing changes."""
    if len(args) == 1 and type(args[0]) is dtypes.dtype and not kwargs and not PROCESS.special:
        if args[0] is self._dtype:
            return self
        if type(self) in PLAIN:
            return call(_to_copy, (self, args[0], None, None, None, False, None))
    return named_conversion(self, *args, **kwargs)


def conversion(self: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        given = to_arguments(args, kwargs)
    except Mismatch:
        raise mismatch_error(packet("to"), (self, *args), kwargs, True) from None
    flags = (given.get("non_blocking", False), given.get("copy", False), given.get("memory_format"))
    other = given.get("tensor")
    if other is not None:
        return call(to_device, (self, other.device, other._dtype, *flags))
    dtype, device = given.get("dtype"), given.get("device")
    if device is None and dtype is not None:
        return call(to_dtype, (self, dtype, *flags))
    if device is not None and dtype is not None:
        return call(to_device, (self, device, dtype, *flags))
    return call(to_dtype_layout, (self, dtype, None, device, None, *flags))


def publish(shortcut: Any, name: str, text: str | None = None) -> None:
    """Put a shortcut for plain tensors before the general form of a method."""
    shortcut.__name__ = name
    shortcut.__qualname__ = f"Tensor.{name}"
    if text is not None:
        shortcut.__doc__ = text
    setattr(Tensor, name, shortcut)


named_conversion = install_method(conversion, "to")
publish(to, "to")


def unless_preserved(memory_format: Any) -> Any:
    return None if memory_format is preserve_format else memory_format


def shorthand(name: str, dtype: Any) -> None:
    def method(self: Any, memory_format: Any = preserve_format) -> Any:
        return call(to_dtype, (self, dtype, False, False, unless_preserved(memory_format)))

    general = install_method(method, name)

    def shortcut(self: Any, memory_format: Any = preserve_format) -> Any:
        if not PROCESS.special and type(self) in PLAIN and memory_format is preserve_format:
            if self._dtype is dtype:
                return self
            return call(_to_copy, (self, dtype, None, None, None, False, None))
        return general(self, memory_format)

    publish(shortcut, name, f"self.to({dtype})")


for name, target in (
    ("float", dtypes.float32),
    ("double", dtypes.float64),
    ("half", dtypes.float16),
    ("bfloat16", dtypes.bfloat16),
    ("int", dtypes.int32),
    ("long", dtypes.int64),
    ("short", dtypes.int16),
    ("char", dtypes.int8),
    ("byte", dtypes.uint8),
    ("bool", dtypes.bool_),
    ("cfloat", dtypes.complex64),
    ("cdouble", dtypes.complex128),
    ("chalf", dtypes.complex32),
):
    shorthand(name, target)


def to_cpu(self: Any, memory_format: Any = preserve_format) -> Any:
    """The tensor in host memory."""
    format = unless_preserved(memory_format)
    return call(to_dtype_layout, (self, None, None, cpu, None, False, False, format))


def to_cuda(
    self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = preserve_format
) -> Any:
    """The tensor in GPU memory."""
    place = devices.device("cuda" if device is None else device)
    return call(
        to_dtype_layout, (self, None, None, place, None, non_blocking, False, memory_format)
    )


def to_type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The name of the tensor's legacy type, or the tensor converted to another."""
    if dtype is None:
        module = "torch.cuda" if self.is_cuda else "torch.sparse" if self.is_sparse else "torch"
        return f"{module}.{self._dtype.legacy_tensor_name}"
    result_dtype = dtype if isinstance(dtype, dtypes.dtype) else legacy_dtype(dtype)
    return call(to_dtype, (self, result_dtype, non_blocking, False, None))


def legacy_dtype(given: Any) -> Any:
    """The dtype that `torch.DoubleTensor`, its name or a Python type stands for."""
    if isinstance(given, type):
        found = getattr(given, "dtype", None)
        if isinstance(found, dtypes.dtype):
            return found
        if given is Tensor:
            return dtypes.get_default_dtype()
        raise ValueError(f"invalid type: '{given.__name__}'")
    if isinstance(given, str):
        for dtype in dtypes.ALL:
            if given in (
                f"torch.{dtype.legacy_tensor_name}",
                f"rushlight.{dtype.legacy_tensor_name}",
            ):
                return dtype
        if given == "torch.Tensor":
            return dtypes.get_default_dtype()
        raise ValueError(f"invalid type: '{given}'")
    raise TypeError(f"dtype must be a type, str, or dtype object, not {type(given).__name__}")


install_method(to_cpu, "cpu")
install_method(to_cuda, "cuda")
install_method(to_type, "type")


@composite("type_as(Tensor self, Tensor other) -> Tensor", function=False)
def type_as(self: Any, other: Any) -> Any:
    return converted(self, other._dtype, other.device, other.layout, False, False, None)


zeros_like = op(
    "zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    fill=0,
    sparse=late("sparse.shape:zeros_like"),
    kind=CREATION,
    method=False,
    layout="shape",
    samples=layouts,
)


@zeros_like.shape
def _(self: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any) -> Any:
    return Spec(self.shape, dtype or self._dtype, preserved(self, memory_format))


@zeros_like.kernel
def _(xp: Any, self: Any, dtype: Any, *rest: Any) -> Any:
    return xp.zeros(self.shape, self.dtype if dtype is None else dtype.np)


# -- writing ---------------------------------------------------------------------------------------


def same_geometry(self: Any, *rest: Any) -> Any:
    return Spec(self.shape, self._dtype, preserved(self, None))


copy = op(
    "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    batch="copied",
    lower="copied",
    method=False,
    function=False,
    layout="like",
    vjp={
        "self": lambda grad: zeros_like(grad),
        "src": lambda grad, src_meta: converted_back(grad, src_meta),
    },
)


@copy.shape
def _(self: Any, src: Any, non_blocking: bool) -> Any:
    check_expandable(src, self.shape)
    return same_geometry(self)


def check_expandable(src: Any, shape: Any) -> None:
    """Refuse a source that does not broadcast to the target's shape."""
    sizes = tuple(src.shape)
    if geometry.same_sizes(sizes, shape):
        return
    found = geometry.broadcast_shapes(tuple(shape), sizes)
    if not geometry.same_sizes(found, tuple(shape)):
        raise RuntimeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape {list(found)}"
        )


@copy.kernel
def _(xp: Any, self: Any, src: Any, non_blocking: bool) -> Any:
    check_expandable(src, tuple(self.shape))
    result = xp.empty(self.shape, self.dtype)
    result[...] = cast(src, dtypes.from_numpy(src.dtype), dtypes.from_numpy(self.dtype))
    return result


@copy.samples
def _(make: Any) -> Any:
    yield make(2, 3), make(2, 3)
    yield make(2, 3), make(3)
    yield make.strided(2, 3), make()
    yield make(2, 3), make.strided(2, 3, dtype=dtypes.float32)


def copy_into(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Broadcasting and conversion straight into the memory of `self`."""
    if not isinstance(src, Tensor):
        return fill_scalar_.backend(self, src)
    target_array, source_array = self._array, src._array
    if (
        self._unusual is None
        and src._unusual is None
        and self._dtype is src._dtype
        and self._is_contiguous
        and target_array.shape == source_array.shape
        and not derived.may_share(self, src)
    ):
        np.copyto(target_array, source_array)
        return self
    if derived.holds_sparse((self, src)):
        return derived.sparse_in_place(copy_, (self, src, non_blocking))
    derived.check_writable(self)
    check_expandable(src, self.shape)
    if target_array is None:
        return self
    if source_array is None:
        raise error("RL0402", NotImplementedError)
    derived.check_operands(self, (src,))
    values = values_of(src)
    if self._dtype is not src._dtype:
        warn_discarded(src._dtype, self._dtype)
        values = cast(values, src._dtype, self._dtype)
    np.copyto(target_array, derived.as_stored(self, values))
    return self


copy_ = mutation(
    copy,
    copy_into,
    numbers=True,
    node="torch::autograd::CopyBackwards",
    sparse=late("sparse.shape:copy_into"),
)
copy_.kind = Native("COPY")

# A 0-dim tensor fits a Scalar too: the overload that keeps its gradient is tried first.
fill_tensor = op(
    "fill.Tensor(Tensor self, Tensor value) -> Tensor",
    batch="assigned",
    method=False,
    layout="like",
    node_index=1,
    vjp={"self": lambda grad: zeros_like(grad), "value": lambda grad: grad.sum()},
)


def check_element(value: Any) -> None:
    if value.ndim != 0:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
            "dimensions."
        )


@fill_tensor.shape
def _(self: Any, value: Any) -> Any:
    check_element(value)
    return same_geometry(self)


@fill_tensor.kernel
def _(xp: Any, self: Any, value: Any) -> Any:
    result = xp.empty(self.shape, self.dtype)
    fill_with_element(xp, result, value)
    return result


def fill_with_element(xp: Any, self: Any, value: Any) -> None:
    check_element(value)
    self[...] = cast(value, dtypes.from_numpy(value.dtype), dtypes.from_numpy(self.dtype))


@fill_tensor.samples
def _(make: Any) -> Any:
    yield make(2, 3), make()
    yield make.strided(2, 3), make()


fill_tensor_ = mutation(fill_tensor, fill_with_element, node="FillBackward3")

fill_scalar = op(
    "fill.Scalar(Tensor self, Scalar value) -> Tensor",
    batch="assigned",
    method=False,
    layout="like",
    vjp=lambda grad: zeros_like(grad),
    shape=same_geometry,
    samples=lambda make: ((make(2, 3), 2), (make.strided(2, 3), 0), (make(), 1)),
)


@fill_scalar.kernel
def _(xp: Any, self: Any, value: Any) -> Any:
    number = held_number(value, dtypes.from_numpy(self.dtype), self.size)
    return xp.full(self.shape, number, self.dtype)


def fill_with_number(xp: Any, self: Any, value: Any) -> None:
    self[...] = held_number(value, dtypes.from_numpy(self.dtype), self.size)


fill_scalar_ = mutation(fill_scalar, fill_with_number, node="FillBackward2", may_overlap=True)

zero = op(
    "zero(Tensor self) -> Tensor",
    batch="straight",
    method=False,
    function=False,
    layout="like",
    vjp=lambda grad: zeros_like(grad),
    shape=same_geometry,
    kernel=lambda xp, self: xp.zeros(self.shape, self.dtype),
    samples=layouts,
)


def clear(xp: Any, self: Any) -> None:
    self.fill(0) if self.dtype.names is None else self.__setitem__(..., xp.zeros((), self.dtype))


zero_ = mutation(zero, clear, may_overlap=True, sparse=late("sparse.shape:zero_in_place"))


def writes_plainly(self: Any) -> bool:
    """Whether a write to `self` needs neither a mode, nor history, nor a check."""
    return (
        not PROCESS.special
        and type(self) in PLAIN
        and self._unusual is None
        and self._is_contiguous
        and not self._requires_grad
        and (self._view is None or not needs_grad(self))
    )


def bump(self: Any) -> Any:
    counter = self._counter
    if counter is None:
        counter = self._counter = VersionCounter()
    counter.value += 1
    return self


def copy_shortcut(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 2 and not kwargs:
        self, src = args
        if (
            type(src) in PLAIN
            and writes_plainly(self)
            and src._unusual is None
            and src._dtype is self._dtype
            and not src._requires_grad
            and (src._view is None or not needs_grad(src))
            and src._array.shape == self._array.shape
            and not derived.may_share(self, src)
        ):
            np.copyto(self._array, src._array)
            return bump(self)
    return packet_call(copy_.packet, copy_shortcut, args, kwargs)


def zero_shortcut(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and writes_plainly(args[0]) and args[0]._dtype is not dtypes.complex32:
        args[0]._array.fill(0)
        return bump(args[0])
    return packet_call(zero_.packet, zero_shortcut, args, kwargs)


def fill_shortcut(*args: Any, **kwargs: Any) -> Any:
    if (
        len(args) == 2
        and args[1].__class__ is float
        and writes_plainly(args[0])
        and args[0]._dtype.scalar_fast
    ):
        args[0]._array.fill(args[1])
        return bump(args[0])
    return packet_call(fill_scalar_.packet, fill_shortcut, args, kwargs)


for shortcut, record in (
    (contiguous_shortcut, contiguous),
    (copy_shortcut, copy_),
    (zero_shortcut, zero_),
    (fill_shortcut, fill_scalar_),
):
    publish(shortcut, record.base_name, "\n".join(str(c._schema) for c in record.packet.candidates))


# -- elements as Python numbers --------------------------------------------------------------------


def python_number(array: Any) -> Any:
    """The one element of an array as bool, int, float or complex."""
    value = array.item()
    if type(value) in (float, int, bool, complex):
        return value
    if isinstance(value, tuple):
        return complex(*value)
    return float(value)


_local_scalar_dense = op(
    "_local_scalar_dense(Tensor self) -> Scalar",
    batch="number",
    method=False,
    function=False,
    tags=(Tag.core, Tag.data_dependent_output),
)


def element_of(self: Any) -> Any:
    if self._array is None:
        if derived.holds_sparse((self,)):
            return element_of(derived.find_dense(self))
        if self.device.type == "meta":
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        raise error("RL0403", NotImplementedError, what="item() asks for a value")
    return python_number(values_of(self))


# Answers a Python value read from the tensor's elements.
_local_scalar_dense.kind = Native("EXTRACT")
_local_scalar_dense.kernel = element_of
_local_scalar_dense.rules["samples"] = lambda make: ((make(),), (make(1, 1),))
_local_scalar_dense.rules["shape"] = refuse("the answer is a number, read from memory")


def check_single(self: Any) -> None:
    count = self.numel()
    if count != 1:
        raise RuntimeError(f"a Tensor with {count} elements cannot be converted to Scalar")


@composite(
    "item(Tensor self) -> Scalar", tags=(Tag.data_dependent_output,), batch="number", function=False
)
def item_op(self: Any) -> Any:
    check_single(self)
    return call(_local_scalar_dense, (self,))


def item_called(self: Any) -> Any:
    return call(item_op, (self,))


general_item = install_method(item_called, "item")


def item(self: Any) -> Any:
    """The tensor's one element as a Python number."""
    if not PROCESS.special and self._unusual is None and type(self) in PLAIN:
        array = self._array
        if array.size == 1:
            value = array.item()
            return value if type(value) in PYTHON_NUMBERS else python_number(array)
    return general_item(self)


PYTHON_NUMBERS = frozenset((bool, int, float, complex))
publish(item, "item")


@composite("is_nonzero(Tensor self) -> bool", reads_values="its one element", batch="truth")
def is_nonzero(self: Any) -> Any:
    count = self.numel()
    if count == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if count != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(self.item())


@composite("is_same_size(Tensor self, Tensor other) -> bool")
def is_same_size(self: Any, other: Any) -> Any:
    return geometry.same_sizes(tuple(self.shape), tuple(other.shape))


def truth(self: Any) -> bool:
    if (
        not PROCESS.special
        and self._unusual is None
        and type(self) in PLAIN
        and self._array.size == 1
    ):
        return bool(self._array.item())
    return bool(self.is_nonzero())


def single_number(self: Any) -> Any:
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return self.item()


def as_python_int(self: Any) -> int:
    value = single_number(self)
    if isinstance(value, complex):
        value = real_part(value, "int64_t")
    return int(value)


def as_python_float(self: Any) -> float:
    value = single_number(self)
    return real_part(value, "double") if isinstance(value, complex) else float(value)


def real_part(value: complex, name: str) -> float:
    if value.imag != 0.0:
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return value.real


def as_python_complex(self: Any) -> complex:
    return complex(single_number(self))


def as_python_index(self: Any) -> int:
    if self._dtype.category > dtypes.INTEGER or self.numel() != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


for name, function in (
    ("__bool__", truth),
    ("__int__", as_python_int),
    ("__float__", as_python_float),
    ("__complex__", as_python_complex),
    ("__index__", as_python_index),
):
    install_method(function, name)


# -- samples of composites -----------------------------------------------------------------------

contiguous.samples = layouts
type_as.samples = lambda make: ((make(2, 3), make(1)), (make(2, 3), make(1, dtype=dtypes.float32)))
to_dtype.samples = lambda make: ((make(2, 3), make.dtype), (make.strided(2, 3), dtypes.complex128))
to_device.samples = refuse("to.dtype stands for it: there is one device with values")
to_dtype_layout.samples = layouts
to_other.samples = lambda make: ((make.strided(2, 3), make(1, dtype=dtypes.complex128)),)
item_op.samples = lambda make: ((make(),), (make(1, 1),))
is_nonzero.samples = lambda make: ((make(),), (make(1, 1),))
is_same_size.samples = lambda make: ((make(2), make(2)), (make(2), make(2, 1)))
