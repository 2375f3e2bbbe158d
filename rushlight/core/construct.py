"""Tensors from Python data and from other arrays' memory, and the legacy constructors.

`tensor` always copies, `from_numpy` never does, `as_tensor` only when it must. Numbers decide a
dtype by category; NumPy scalars and tensors inside lists keep theirs.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.arrays.casting import cast, fill_number, narrow_pair
from rushlight.base.errors import error
from rushlight.base.lazy import namespace
from rushlight.core import dtype as dtypes
from rushlight.core import geometry, ports
from rushlight.core.binding import Mismatch, as_device, as_dtype
from rushlight.core.determinism import unwritten_array
from rushlight.core.device import cpu, device, sparse_coo, strided
from rushlight.core.dispatch import call_function_mode, dispatches, overridable
from rushlight.core.dtype import BOOL, COMPLEX, FLOAT, INTEGER, dtype
from rushlight.core.history import mark_inference
from rushlight.core.op import find_overload
from rushlight.core.promotion import promote_types, scalar_dtype
from rushlight.core.size import Size
from rushlight.core.state import LAYER_FUNCTION_MODES, LOCAL, PROCESS, active_tracer, warn_once
from rushlight.core.storage import Storage
from rushlight.core.tensor import (
    Tensor,
    Unusual,
    as_class,
    empty_strided,
    set_requires_grad,
    shell,
    wrap,
    wrap_strided,
)
from rushlight.core.typedstorage import TypedStorage
from rushlight.symbolic.numbers import SymNumber

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from rushlight.core.protocols import Args, Array, DeviceLike, DtypeLike, Kwargs

PLAIN_NUMBERS = frozenset((float, int, bool, complex))


# -- Python data -----------------------------------------------------------------------------------


def is_sequence(value: object) -> bool:
    cls = type(value)
    if cls is list or cls is tuple:
        return True
    if isinstance(value, Tensor):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, (list, tuple, range)):
        return True
    # What has a length and elements is one, whatever it calls itself.
    return (
        hasattr(cls, "__getitem__")
        and hasattr(cls, "__len__")
        and not isinstance(value, (str, bytes, Mapping, Storage, TypedStorage))
    )


# Lists that hold themselves have no end.
DEEPEST = 128


def flatten(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The elements of nested sequences in one list, and the shape they are nested in."""
    shape = []
    first = data
    # torch: the first elements alone decide the shape, and one without elements ends all checks.
    while type(first) not in PLAIN_NUMBERS and is_sequence(first):
        shape.append(len(first))
        if not shape[-1]:
            return [], tuple(shape)
        if len(shape) > DEEPEST:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        try:
            first = first[0]
        except (TypeError, LookupError):
            raise ValueError(
                f"could not determine the shape of object type '{type(first).__name__}'"
            ) from None
    flat = data if type(data) is list else list(data)
    for axis, length in enumerate(shape[1:], 1):
        for item in flat:
            if type(item) not in (list, tuple) and not is_sequence(item):
                raise TypeError("not a sequence")
            if len(item) != length:
                raise ValueError(
                    f"expected sequence of length {length} at dim {axis} (got {len(item)})"
                )
        flat = list(chain.from_iterable(flat))
    return flat, tuple(shape)


def element_dtype(value: Any) -> dtype:
    """What one element says about the dtype of the whole."""
    if isinstance(value, Tensor):
        return value._dtype
    if isinstance(value, (np.generic, np.ndarray)):
        return dtypes.from_numpy(value.dtype)
    if isinstance(value, (int, float, complex)) or hasattr(value, "node"):
        return scalar_dtype(value)
    if isinstance(value, str):
        raise ValueError("too many dimensions 'str'")
    if isinstance(value, (list, tuple)) and value:
        # Its place among numbers is refused when they are converted.
        return element_dtype(value[0])
    raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")


def inferred_dtype(flat: list[Any], classes: set[type]) -> dtype:
    if classes <= PLAIN_NUMBERS:
        if complex in classes:
            return dtypes.default_complex_dtype
        if float in classes or not classes:
            return dtypes.default_dtype
        return dtypes.int64 if int in classes else dtypes.bool_
    found = element_dtype(flat[0])
    for value in flat[1:]:
        if isinstance(value, str):
            raise TypeError("new(): invalid data type 'str'")
        found = promote_types(found, element_dtype(value))
    return found


def plain_number(value: Any) -> Any:
    """A list's element as a Python number."""
    if type(value) in PLAIN_NUMBERS:
        return value
    if isinstance(value, (Tensor, np.generic, np.ndarray)):
        size = value.numel() if isinstance(value, Tensor) else value.size
        if size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        found = value.item()
        return found if type(found) in PLAIN_NUMBERS else float(found)
    if isinstance(value, str):
        raise TypeError("new(): invalid data type 'str'")
    return value


def elements_array(flat: list[Any], dtype: dtype, classes: set[type]) -> Any:
    """Numbers as a vector of `dtype`, each checked to fit."""
    if not classes <= PLAIN_NUMBERS:
        flat = [plain_number(value) for value in flat]
        classes = set(map(type, flat))
    category = dtype.category
    if category == INTEGER:
        if float not in classes and complex not in classes:
            try:
                return np.array(flat, dtype.np)
            except (OverflowError, TypeError, ValueError):
                pass
        return np.array([checked_integer(value, dtype) for value in flat], dtype.np)
    if category == FLOAT:
        if complex in classes:
            raise TypeError("must be real number, not complex")
        try:
            if dtype.itemsize >= 4:
                return np.array(flat, dtype.np)
            return np.array(flat, np.float32).astype(dtype.np)
        except (TypeError, ValueError):
            culprit = next(v for v in flat if not isinstance(v, (int, float)))
            raise TypeError(f"must be real number, not {type(culprit).__name__}") from None
    if category == BOOL:
        return np.array([bool(value) for value in flat], np.bool_)
    assert category == COMPLEX
    return (
        narrow_pair(np.array(flat, np.complex64))
        if dtype is dtypes.complex32
        else np.array(flat, dtype.np)
    )


def checked_integer(value: object, dtype: dtype) -> int:
    if isinstance(value, complex) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    try:
        found: int = fill_number(value, dtype)
        return found
    except RuntimeError:
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise ValueError("Overflow when unpacking long long") from None
        if isinstance(value, int) and dtype is dtypes.int64:
            raise ValueError("Overflow when unpacking long long") from None
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name} without overflow"
        ) from None


def array_of(data: Any, dtype: dtype | None, api: str) -> tuple[Any, dtype]:
    """Python data (no tensor, no ndarray) as a fresh array."""
    if is_sequence(data):
        flat, shape = flatten(data)
        geometry.check_rank(len(shape))
        if flat and isinstance(data[0], np.ndarray):
            warn_once(
                "list_of_arrays",
                "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please "
                "consider converting the list to a single numpy.ndarray with numpy.array() before "
                "converting to a tensor.",
            )
        classes = set(map(type, flat))
        if dtype is None:
            dtype = inferred_dtype(flat, classes)
        array = elements_array(flat, dtype, classes)
        return (array if len(shape) == 1 else array.reshape(shape)), dtype
    if isinstance(data, (str, bytes)):
        raise TypeError(f"{api}(): invalid data type '{type(data).__name__}'")
    if isinstance(data, (Storage, TypedStorage)):
        of = getattr(data, "dtype", dtype or dtypes.int64)
        if dtype is not None and of is not dtype:
            raise RuntimeError(
                f"Expected a Storage of type {dtype.scalar_type_name} or an UntypedStorage, but "
                f"got {of.scalar_type_name}"
            )
        return legacy_single(data, of, of)._array.copy(), of
    if dtype is None:
        dtype = element_dtype(data)
    elif not isinstance(data, (int, float, complex, np.generic)) and not hasattr(data, "node"):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if hasattr(data, "node"):
        data = int(data) if dtype.category <= INTEGER else float(data)
    return elements_array([data], dtype, {type(data)}).reshape(()), dtype


def finish(
    result: Tensor, place: device | None, requires_grad: bool, detached: bool = False
) -> Any:
    """A constant enters the program: device, inference mark, modes, then requires_grad. `detached`
    says that a trace shows it as a leaf, which torch makes by `detach_`."""
    if place is not None and place.type != "cpu":
        if place.type == "meta":
            result = shell(tuple(result.shape), result.stride(), result._dtype, place)
        elif PROCESS.special and LOCAL.state.fake is not None:
            return finish(ports.lift_fresh(result).to(place), None, requires_grad)
        else:
            result = result.to(place)
    if PROCESS.special:
        state = LOCAL.state
        if state.inference:
            mark_inference(result)
        if state.layers and (state.transforms or not state.inference):
            result = ports.lift_fresh(result)
            if detached and (tracer := active_tracer()) is not None:
                tracer.note_detached(result)
    if requires_grad:
        if not (result._dtype.is_floating_point or result._dtype.is_complex):
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        set_requires_grad(result, True)
    return result


def wanted(api: str, given: DtypeLike | None, place: DeviceLike | None) -> tuple[Any, Any]:
    """dtype= and device= arguments, checked; the default device where none is given."""
    if given is not None and type(given) is not dtype:
        try:
            given = as_dtype(given)
        except Mismatch:
            raise TypeError(
                f"{api}(): argument 'dtype' must be torch.dtype, not {type(given).__name__}"
            ) from None
    if place is not None:
        try:
            place = as_device(place)
        except Mismatch:
            raise TypeError(
                f"{api}(): argument 'device' must be torch.device, not {type(place).__name__}"
            ) from None
    elif PROCESS.special:
        place = LOCAL.state.default_device
    return given, place


def from_data(
    data: Any,
    dtype: dtype | None,
    place: device | None,
    requires_grad: bool,
    api: str,
    like: Tensor | None = None,
) -> Any:
    """The general form of `tensor` and `new_tensor`."""
    if isinstance(data, Tensor):
        call = f"torch.{api}" if api == "tensor" else f"tensor.{api}"
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach()"
            ".clone() or sourceTensor.detach().clone().requires_grad_(True), rather than "
            f"{call}(sourceTensor).",
            UserWarning,
            stacklevel=4,
        )
        place = data.device if place is None else place
        from rushlight.core.modes import DisableTorchFunctionSubclass

        with DisableTorchFunctionSubclass():
            # The values are copied, not the class.
            result = data.detach().to(dtype=dtype or data._dtype, device=place, copy=True)
        if requires_grad:
            set_requires_grad(result, True)
        return result
    is_array = isinstance(data, np.ndarray)
    is_exported = not is_array and is_memory_of_others(data)
    if is_array or is_exported:
        if is_array or hasattr(data, "__array__"):
            source = adopt(np.asarray(data))
        else:
            from rushlight.core.interop import from_dlpack

            source = from_dlpack(data)
        copy = converted_copy(source, dtype or source._dtype)
        return finish(copy, place, requires_grad, detached=True)
    if PROCESS.special and holds_symbols(data):
        result = of_symbols(data, dtype, place)
        if requires_grad:
            set_requires_grad(result, True)
        return result
    array, dtype = array_of(data, dtype, "new")
    return finish(wrap(array, dtype), place, requires_grad, detached=True)


# What most tensors are made of.
PLAIN_DATA = frozenset({int, float, bool, complex, list, tuple})


def is_memory_of_others(data: Any) -> bool:
    """Whether an object, other than a plain sequence, hands out an array or its memory."""
    if type(data) in PLAIN_DATA:
        return False
    return (hasattr(data, "__array__") or hasattr(data, "__dlpack__")) and not isinstance(
        data, (np.generic, Sequence)
    )


def holds_symbols(data: Any) -> bool:
    """Whether a number in the data is known only when the graph runs, or differs then."""
    numbers = flatten(data)[0] if is_sequence(data) else (data,)
    return any(isinstance(number, SymNumber) for number in numbers)


def of_symbols(data: Any, dtype: dtype | None, place: device | None) -> Any:
    """A tensor whose values are computed from symbolic numbers."""
    if is_sequence(data):
        if dtype is None:
            numbers = flatten(data)[0]
            dtype = functools.reduce(promote_types, [element_dtype(one) for one in numbers])
        parts = [of_symbols(part, dtype, place) for part in data]
        return find_overload("aten", "stack", "default")(parts)
    dtype = dtype or element_dtype(data)
    return find_overload("aten", "scalar_tensor", "default")(data, dtype=dtype, device=place)


def converted_copy(source: Tensor, dtype: dtype) -> Tensor:
    strides = geometry.like_strides(tuple(source.shape), source.stride())
    if source._is_contiguous:
        return wrap(cast(source._array, source._dtype, dtype), dtype)
    result = empty_strided(tuple(source.shape), strides, dtype)
    result._array[...] = cast(source._array, source._dtype, dtype)
    return result


def warn_tracer(name: str) -> None:
    """Tells a trace that data comes in which it will always see the same."""
    tracer = active_tracer()
    if tracer is not None:
        tracer.warn_constructor(name)


def make_tensor(*args: Any, **kwargs: Any) -> Any:
    """`tensor` for anything but one plain argument."""
    if PROCESS.special:
        state = LOCAL.state
        if state.function_modes and not state.excluded & LAYER_FUNCTION_MODES:
            return call_function_mode(state, tensor, args, kwargs)
        warn_tracer("tensor")
    if len(args) > 1:
        raise TypeError(f"tensor() takes 1 positional argument but {len(args)} were given")
    if args:
        data = args[0]
    elif "data" in kwargs:
        data = kwargs.pop("data")
    else:
        raise TypeError('tensor() missing 1 required positional arguments: "data"')
    if "names" in kwargs:
        from rushlight.core.names import with_names

        return with_names(make_tensor, (data,), kwargs)
    place = kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None)
    requires_grad = kwargs.pop("requires_grad", False)
    pinned = kwargs.pop("pin_memory", False)
    if kwargs:
        raise TypeError(f"tensor() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if pinned:
        raise error("RL1207")
    dtype, place = wanted("tensor", dtype, place)
    return from_data(data, dtype, place, requires_grad, "tensor")


def tensor(*args: Any, **kwargs: Any) -> Any:
    """A tensor that copies `data`: numbers, nested sequences, arrays or tensors.

    tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)
    """
    if not kwargs and len(args) == 1 and not PROCESS.special:
        data = args[0]
        cls = type(data)
        if cls is float:
            return wrap(np.array(data, dtypes.default_dtype.np), dtypes.default_dtype)
        if cls is list and data and type(data[0]) is float:
            for value in data:
                if type(value) is not float:
                    break
            else:
                found = dtypes.default_dtype
                return wrap(elements_array(data, found, FLOATS), found)
    return make_tensor(*args, **kwargs)


FLOATS: set[type] = {float}


# -- other memory ----------------------------------------------------------------------------------


def adopt(array: Array) -> Tensor:
    """An ndarray's memory as a tensor, strides and all."""
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    dtype = dtypes.from_numpy(array.dtype)
    if array.dtype is not dtype.np:
        # An equal descriptor that NumPy does not take for its own: unpickled, or with metadata.
        array = array.view(dtype.np)
    if array.flags.c_contiguous and array.size:
        result = wrap(array, dtype)
        result._storage = Storage.foreign(array.reshape(-1).view(np.uint8))
        return result
    width = dtype.itemsize
    for step in array.strides:
        if step % width:
            raise ValueError(
                "given numpy array strides not a multiple of the element byte size. Copy the numpy "
                "array to reallocate the memory."
            )
        if step < 0:
            raise ValueError(
                "At least one stride in the given numpy array is negative, and tensors with "
                "negative strides are not currently supported. (You can probably work around this "
                "by making a copy of your array  with array.copy().) "
            )
    strides = tuple([step // width for step in array.strides])
    if array.size == 0:
        result = wrap(array, dtype)
        result._storage = Storage.foreign(np.empty(0, np.uint8))
        unusual = result._unusual = Unusual()
        unusual.sizes, unusual.strides = array.shape, strides
        result._is_contiguous = False
        return result
    extent = geometry.storage_extent(array.shape, strides, 0)
    flat = np.lib.stride_tricks.as_strided(array, (extent,), (width,))
    return wrap_strided(array, dtype, Storage.foreign(flat.view(np.uint8)))


def from_numpy(ndarray: Array, /) -> Any:
    """The array's memory as a tensor: changes of one are seen in the other."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if PROCESS.special:
        warn_tracer("from_numpy")
    if not ndarray.flags.writeable:
        warn_once(
            "not_writable",
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. This means writing to this tensor will result in undefined behavior. You may "
            "want to copy the array to protect its data or make it writable before converting it "
            "to a tensor. This type of warning will be suppressed for the rest of this program.",
        )
    return finish(adopt(np.asarray(ndarray)), None, False)


@overridable
def as_tensor(data: Any, dtype: DtypeLike | None = None, device: DeviceLike | None = None) -> Any:
    """`data` as a tensor, sharing memory and history where no conversion is needed."""
    if PROCESS.special:
        warn_tracer("as_tensor")
    result_dtype, place = wanted("as_tensor", dtype, device)
    if isinstance(data, Tensor):
        return data.to(dtype=result_dtype, device=None if device is None else place)
    if isinstance(data, np.ndarray):
        return from_numpy(data).to(dtype=result_dtype, device=place)
    return from_data(data, result_dtype, place, False, "as_tensor")


@overridable
def asarray(
    obj: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Any:
    """`obj` as a tensor; `copy` says whether memory must or must not be fresh."""
    result_dtype, place = wanted("asarray", dtype, device)
    found: Any = None
    if isinstance(obj, Tensor):
        found = obj
    elif isinstance(obj, np.ndarray):
        found = from_numpy(obj)
    elif isinstance(obj, Storage):
        found = frombuffer(obj.buffer, dtype=result_dtype or dtypes.default_dtype)
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        from rushlight.core.interop import from_dlpack

        found = from_dlpack(obj)
    elif isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
            )
    elif has_buffer(obj):
        # torch: whatever its elements are, the bytes are numbers of the default dtype.
        found = frombuffer(obj, dtype=result_dtype or dtypes.default_dtype)
    if found is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return from_data(obj, result_dtype, place, requires_grad, "asarray")
    changes = (result_dtype is not None and result_dtype is not found._dtype) or (
        place is not None and place != found.device
    )
    if changes and copy is False:
        what = "device" if result_dtype is None or result_dtype is found._dtype else "dtype"
        given: Any = (found.device, place)
        if what == "dtype":
            given = (found._dtype.scalar_type_name, result_dtype.scalar_type_name)
        raise ValueError(f"can't alias tensor with {what} '{given[0]}' into {what} '{given[1]}'.")
    result = found.to(dtype=result_dtype, device=place, copy=bool(copy))
    if result is found and isinstance(obj, Tensor) and requires_grad != obj.requires_grad:
        result = obj.detach()
    elif not requires_grad and result.requires_grad and result is not obj:
        result = result.detach()
    if requires_grad:
        set_requires_grad(result, True)
    return result


def has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    return True


def frombuffer(
    buffer: ReadableBuffer,
    *,
    dtype: DtypeLike,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Any:
    """A vector over an object's memory."""
    result_dtype = as_dtype(dtype)
    width = result_dtype.itemsize
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError(
            f"object does not implement Python buffer protocol. (got {type(buffer).__name__})"
        ) from None
    length = view.nbytes
    if length <= 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % width:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({width})"
            )
        count = (length - offset) // width
    elif offset + count * width > length:
        raise ValueError(
            f"requested buffer length ({count} * {width} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    if view.readonly:
        warn_once(
            "buffer_not_writable",
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. "
            "This means you can write to the underlying (supposedly non-writable) buffer using the "
            "tensor. You may want to copy the buffer to protect its data or make it writable "
            "before converting it to a tensor. This type of warning will be suppressed for the "
            "rest of this program.",
        )
    raw = np.frombuffer(view, np.uint8, count * width, offset)
    if raw.ctypes.data % width:
        raise ValueError(
            f"offset ({offset} bytes) must be aligned to the element size ({width}) of "
            f"{result_dtype}"
        )
    result = wrap(raw.view(result_dtype.np), result_dtype)
    result._storage = Storage.foreign(raw)
    return finish(result, None, requires_grad)


# -- legacy constructors ---------------------------------------------------------------------------


def legacy_array(
    cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: dtype | None
) -> Any:
    """`torch.Tensor(...)`: sizes, data, another tensor or a storage."""
    place = kwargs.pop("device", None)
    if place is not None and device(place).type != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {device(place).type} "
            "was passed"
        )
    found = dtypes.default_dtype if dtype is None else dtype
    if "data" in kwargs and not args:
        args = (kwargs.pop("data"),)
    if "size" in kwargs and not args:
        args = tuple(kwargs.pop("size"))
        return wrap(unwritten_array(args, found), found)
    if kwargs:
        raise TypeError(f"new() received an unexpected keyword argument '{next(iter(kwargs))}'")
    if not args:
        return wrap(np.empty((0,), found.np), found)
    if len(args) == 1:
        result = legacy_single(args[0], dtype, found)
        if result is not None:
            return result
    sizes = []
    for entry in args:
        if isinstance(entry, (bool, Tensor)) or not hasattr(entry, "__index__"):
            raise TypeError(
                "new() received an invalid combination of arguments - got "
                f"({', '.join(type(a).__name__ for a in args)}), but expected sizes, a sequence of "
                "numbers, a tensor or a storage"
            )
        sizes.append(int(entry))
    for size in sizes:
        if size < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {size}: {geometry.show(sizes)}"
            )
    return wrap(unwritten_array(tuple(sizes), found), found)


def legacy_single(first: Any, dtype: dtype | None, found: dtype) -> Any:
    """The legacy constructor's one argument that is not a size; None if it is."""
    if isinstance(first, Size):
        return wrap(unwritten_array(tuple(first), found), found)
    if isinstance(first, Tensor):
        if dtype is not None and first._dtype is not dtype:
            raise TypeError(f"expected a tensor of {dtype} (got {first._dtype})")
        if PROCESS.special and active_tracer() is not None:
            from rushlight.core.op import find_overload

            return find_overload("aten", "alias", "default")(first)
        return first.detach() if first.requires_grad else first._alias()
    if isinstance(first, (Storage, TypedStorage)):
        if isinstance(first, TypedStorage) and first.dtype is not found:
            raise RuntimeError(
                f"Expected a Storage of type {found.scalar_type_name} or an UntypedStorage, but "
                f"got type {first.dtype.scalar_type_name} for argument 1 'storage'"
            )
        storage = first.untyped()
        count = storage.nbytes_ // found.itemsize
        array = storage.values()[: count * found.itemsize].view(found.np)
        return wrap_strided(array, found, storage)
    if isinstance(first, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(first, np.ndarray) and first.ndim:
        return converted_copy(adopt(first), found)
    if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
        return None
    if not is_sequence(first):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    flat, shape = flatten(first)
    if found.category == INTEGER:
        flat = [int(v) if isinstance(v, float) else v for v in flat]
    return wrap(elements_array(flat, found, set(map(type, flat))).reshape(shape), found)


def legacy_new(cls: type, args: Args, kwargs: Kwargs) -> Any:
    first = args[0] if len(args) == 1 and not kwargs else None
    if isinstance(first, Tensor) and not dispatches(type(first)):
        return first.as_subclass(cls)
    result = finish(legacy_array(cls, args, dict(kwargs), None), None, False)
    if cls is Tensor:
        return result
    if isinstance(result, cls):
        return result
    return Tensor._make_subclass(cls, result)


ports.fill(legacy_new=legacy_new)


class LegacyType(type):
    """`torch.FloatTensor` and its kin: constructors that also answer isinstance."""

    dtype: dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and (
            instance._dtype is cls.dtype and instance.device is cpu and instance.layout is strided
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return finish(legacy_array(cls, args, kwargs, cls.dtype), None, False)


LEGACY_NAMES = {
    dtype.legacy_tensor_name: dtype
    for dtype in dtypes.ALL
    if dtype.legacy_tensor_name
    in (
        "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
        "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
    )
}  # fmt: skip


def make_legacy_type(name: str) -> Any:
    """The class `torch.<name>`, of which tensors of its dtype are instances."""
    dtype = LEGACY_NAMES.get(name)
    if dtype is None:
        return None
    return LegacyType(name, (), {"dtype": dtype, "is_cuda": False, "__module__": "torch"})


__getattr__, __dir__ = namespace(__name__, make=make_legacy_type, names=LEGACY_NAMES)


def set_default_tensor_type(t: type | str, /) -> None:
    """Make the dtype of a legacy tensor type the default."""
    warn_once(
        "set_default_tensor_type",
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
    )
    name = t if isinstance(t, str) else None
    if name is not None:
        if not name.startswith("torch.") or name[6:] not in LEGACY_NAMES:
            raise TypeError(f"type {t} not available")
        dtype = LEGACY_NAMES[name[6:]]
    elif isinstance(t, LegacyType):
        dtype = t.dtype
    else:
        raise TypeError(
            "invalid type object: only floating-point types are supported as the default type"
        )
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    dtypes.set_default_dtype(dtype)


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
) -> Any:
    """A tensor that copies `data`, by default with this tensor's dtype and device."""
    result_dtype, _ = wanted("new_tensor", dtype, device)
    place = self.device if device is None else as_device(device)
    return from_data(data, result_dtype or self._dtype, place, requires_grad, "new_tensor")


def new(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The legacy constructor of this tensor's type."""
    if self.layout is sparse_coo and device(kwargs.pop("device", cpu)) == cpu:
        return sparse_new(self._dtype, *args, **kwargs)
    return as_class(
        finish(legacy_array(Tensor, args, kwargs, self._dtype), None, False),
        Tensor,
    )


def sparse_new(dtype: dtype, *args: Any) -> Any:
    """A COO tensor of indices, values and sizes, or of sizes alone."""
    sizes = args if args and isinstance(args[0], int) else args[0] if args else (0,)
    if not isinstance(sizes, Tensor):
        return find_overload("aten", "zeros", "default")(sizes, dtype=dtype, layout=sparse_coo)
    overload = "indices" if len(args) == 2 else "indices_size"
    return find_overload("aten", "sparse_coo_tensor", overload)(*args, dtype=dtype)


Tensor.new_tensor = overridable(new_tensor)  # type: ignore[attr-defined]
Tensor.new = overridable(new)  # type: ignore[attr-defined]
