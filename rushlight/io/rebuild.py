"""The names that checkpoints use, each as a function of ours that checks what it is given.

A tensor is a view of a storage; its sizes, strides and offset must stay within the bytes that the
file really has. Nothing here looks a name up anywhere but in its own table.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.attributes import own_slots
from rushlight.core.device import device, layout
from rushlight.core.device import meta as META
from rushlight.core.interop import rebuild_tensor
from rushlight.core.parameter import Parameter
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor, shell
from rushlight.core.typedstorage import TypedStorage
from rushlight.io.walker import (
    BUILDERS,
    DICT_ENTRY_BYTES,
    SET_BYTES,
    SET_ENTRY_BYTES,
    Inert,
    Known,
    fail,
    shown,
)

__all__ = ["NAMES", "SAFE_GLOBALS", "STORAGE_NAMES", "StorageType", "find_name"]

MAX_DIMS = 64
MAX_SIZE = 1 << 62
TENSOR_BYTES = 700
ORDERED_DICT_BYTES = 200


class StorageType:
    """The name of a storage class, which tells the dtype of its elements."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: dtypes.dtype | None) -> None:
        # None for untyped bytes.
        self.dtype = dtype


STORAGE_NAMES = {f"{dtype.scalar_type_name}Storage": dtype for dtype in dtypes.ALL}


# -- tensors ----------------------------------------------------------------------------------


def whole_number(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < MAX_SIZE:
        raise fail(f"{what} is {shown(value)}, not a number from zero up")
    return value


def numbers(values: Any, what: str) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or len(values) > MAX_DIMS:
        raise fail(f"{what} is not a short list of numbers")
    return tuple([whole_number(value, what) for value in values])


def tensor_over(
    stored: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    dtype: dtypes.dtype | None = None,
    metadata: Any = None,
) -> Any:
    """A view of a storage, within its bounds."""
    if not isinstance(stored, TypedStorage):
        raise fail("a tensor has no storage")
    dtype = stored.dtype if dtype is None else dtype
    storage = stored._untyped_storage
    offset = whole_number(storage_offset, "an offset")
    sizes, strides = numbers(size, "a size"), numbers(stride, "a stride")
    if len(sizes) != len(strides):
        raise fail(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
    extent = offset
    if 0 not in sizes:
        extent += 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    held = int(storage.nbytes_) // dtype.itemsize
    if extent > held:
        raise fail(f"a tensor of sizes {sizes} needs {extent} elements, its storage has {held}")
    check_count(sizes)
    bits = bits_of(metadata)
    if bits[0] and not dtype.is_complex:
        raise fail(f"a tensor of {dtype} is conjugated")
    wants = bool(requires_grad) and (dtype.is_floating_point or dtype.is_complex)
    return rebuild_tensor(storage, dtype, sizes, strides, offset, wants, bits)


def check_count(sizes: tuple[int, ...]) -> None:
    count = 1
    for n in sizes:
        count *= max(n, 1)
    if count >= MAX_SIZE:
        raise fail("a tensor has more elements than any memory holds")


def bits_of(metadata: Any) -> tuple[bool, bool]:
    if metadata is None:
        return False, False
    if type(metadata) is not dict:
        raise fail("the metadata of a tensor is not a dict")
    return bool(metadata.get("conj")), bool(metadata.get("neg"))


def rebuild_v1(storage: Any, offset: Any, size: Any, stride: Any) -> Any:
    return tensor_over(storage, offset, size, stride)


def rebuild_v2(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    metadata: Any = None,
) -> Any:
    return tensor_over(storage, offset, size, stride, requires_grad, metadata=metadata)


def rebuild_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Any:
    if not isinstance(dtype, dtypes.dtype):
        raise fail(f"a tensor has the dtype {shown(dtype)}, which is not known")
    return tensor_over(storage, offset, size, stride, requires_grad, dtype, metadata)


def rebuild_meta(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    if type(dtype) is int:
        # torch: programs in files name dtypes by numbers.
        dtype = next((each for each in dtypes.ALL if each.code == dtype), dtype)
    if not isinstance(dtype, dtypes.dtype):
        raise fail(f"a tensor has the dtype {shown(dtype)}, which is not known")
    sizes, strides = numbers(size, "a size"), numbers(stride, "a stride")
    if len(sizes) != len(strides):
        raise fail(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
    check_count(sizes)
    made = shell(sizes, strides, dtype, META)
    made._requires_grad = bool(requires_grad) and (dtype.is_floating_point or dtype.is_complex)
    return made


def rebuild_wrapper(
    cls: Any, dtype: Any, size: Any, stride: Any, storage_offset: Any, given: Any, place: Any,
    requires_grad: Any,
) -> Any:  # fmt: skip
    """A tensor of a class that has its values in attributes, which follow."""
    arguments = (dtype, size, stride, storage_offset, given, place, requires_grad)
    if isinstance(cls, Inert):
        return cls.made(arguments)
    target: Any = cls.target if isinstance(cls, Known) else cls
    if not isinstance(target, type) or not issubclass(target, Tensor):
        raise fail(f"a tensor has the class {shown(cls)}")
    if not isinstance(dtype, dtypes.dtype) or not isinstance(given, layout):
        raise fail("a tensor has a dtype or a layout that is not known")
    sizes, strides = numbers(size, "a size"), numbers(stride, "a stride")
    check_count(sizes)
    return Tensor._make_wrapper_subclass(
        target,
        sizes,
        strides,
        storage_offset=numbers((storage_offset,), "an offset")[0],
        dtype=dtype,
        layout=given,
        device=place,
        requires_grad=bool(requires_grad),
    )


def rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any, state: Any = None) -> Any:
    if type(data) is not Tensor:
        raise fail("a parameter has no tensor")
    wants = bool(requires_grad) and (data.is_floating_point() or data.is_complex())
    made = Parameter(data, wants)
    set_attributes(made, state)
    return made


def rebuild_sparse(given_layout: Any, data: Any) -> Any:
    """A sparse tensor over parts whose indices are within its sizes."""
    from rushlight.opset.sparse.compressed import with_size
    from rushlight.opset.sparse.coo import sparse_coo_indices_size

    if not isinstance(given_layout, layout) or type(data) is not tuple or not 3 <= len(data) <= 4:
        raise fail("a sparse tensor has no parts")
    if given_layout.name == "sparse_coo":
        indices, values, size = data[:3]
        check_parts(indices, values)
        # Old files do not tell whether the indices are in order.
        in_order = bool(data[3]) if len(data) == 4 else False
        sizes = sparse_sizes(size)
        return sparse_coo_indices_size(indices, values, sizes, is_coalesced=in_order)
    if len(data) != 4 or not given_layout.name.startswith("sparse_"):
        raise fail("a sparse tensor has no parts")
    compressed, plain, values, size = data
    check_parts(compressed, plain, values)
    sizes = sparse_sizes(size)
    return with_size(compressed, plain, values, sizes, dtype=values.dtype, layout=given_layout)


def sparse_sizes(size: Any) -> tuple[int, ...]:
    sizes = numbers(size, "a size")
    check_count(sizes)
    return sizes


def check_parts(*parts: Any) -> None:
    for part in parts:
        if type(part) is not Tensor or part.layout.name != "strided" or part._array is None:
            raise fail("a part of a sparse tensor is no tensor of the CPU")


def rebuild_from_type(function: Any, cls: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes: of a class that is known, or of one that is not."""
    if not isinstance(function, Known) or function.call not in MAKERS or type(args) is not tuple:
        raise fail("a tensor is made in an unknown way")
    made = function.call(*args)
    if isinstance(made, Inert):
        made.state = state
        return made
    if isinstance(cls, Inert):
        record = cls.made((made,))
        record.state = state
        return record
    target: Any = cls.target if isinstance(cls, Known) else None
    if not isinstance(target, type) or not issubclass(target, Tensor):
        raise fail(f"a tensor has the class {shown(cls)}")
    if type(made) is not target:
        if target is Parameter:
            raise fail("a tensor has the class of parameters")
        made = made.as_subclass(target)
    if function.call in CHECKED:
        return made
    plain: Any = Tensor
    if target.__setstate__ is not plain.__setstate__:
        made.__setstate__(state)
    else:
        is_own = target not in (Tensor, Parameter)
        set_attributes(made, state, allowed_by_class if is_own else allowed_for_all)
        slots = state[1] if is_own and type(state) is tuple and len(state) == 2 else None
        for name, value in slots.items() if type(slots) is dict else ():
            if name not in own_slots(target):
                raise fail(f"a {shown(cls)} has no slot {shown(name)}")
            setattr(made, name, value)
    return made


def attribute_cost(*args: Any) -> int:
    """Of a call that ends with a dict of attributes."""
    state: Any = args[-1] if args else None
    if type(state) is tuple and state:
        state = state[0]
    held = len(state) if type(state) in (dict, OrderedDict) else 0
    return TENSOR_BYTES + DICT_ENTRY_BYTES * held


def tensor_cost(*args: Any) -> int:
    return TENSOR_BYTES


def sparse_cost(*args: Any) -> int:
    """Its parts are looked through; strides of 0 can make them larger than the file."""
    parts = args[1] if len(args) > 1 and type(args[1]) is tuple else ()
    found = [part for part in parts[:4] if isinstance(part, Tensor)]
    return 4 * TENSOR_BYTES + sum([int(part.numel()) * part._dtype.itemsize for part in found])


def allowed_for_all(name: str) -> bool:
    return not hasattr(Tensor, name)


def allowed_by_class(name: str) -> bool:
    """A class that is vouched for may call its values what Tensor calls a method."""
    return not name.startswith("__")


def set_attributes(
    target: Any, state: Any, is_allowed: Callable[[str], bool] = allowed_for_all
) -> None:
    """Plain attributes of a tensor."""
    if type(state) is tuple and len(state) == 2:
        # torch: (attributes, slots); slots are a class's own business.
        state = state[0]
    if state is None:
        return
    if type(state) not in (dict, OrderedDict):
        raise fail("the attributes of a tensor are not a dict")
    for name, value in state.items():
        if type(name) is not str or not name.isidentifier() or not is_allowed(name):
            raise fail(f"a tensor cannot have an attribute {shown(name)}")
        target.__dict__[name] = value


# -- other values -----------------------------------------------------------------------------


def pairs_of(values: Any) -> list[tuple[Any, Any]]:
    if not isinstance(values, (tuple, list)):
        raise fail("a dict is made of something else than pairs")
    for entry in values:
        if not isinstance(entry, (tuple, list)) or len(entry) != 2:
            raise fail("a dict is made of something else than pairs")
    return [(key, value) for key, value in values]


def ordered_dict(pairs: Any = ()) -> Any:
    return OrderedDict(pairs_of(pairs))


def counter(counts: Any = None) -> Any:
    made: Counter[Any] = Counter()
    if counts is not None:
        if type(counts) is not dict or any(type(n) is not int for n in counts.values()):
            raise fail("a Counter is made of something else than numbers")
        made.update(counts)
    return made


def size_of(*args: Any) -> Size:
    return Size(numbers(args[0] if args else (), "a size"))


def device_of(*args: Any) -> device:
    kind = args[0] if args else None
    if type(kind) is not str or len(kind) > 32:
        raise fail("a device has no name")
    index = args[1] if len(args) > 1 else None
    return device(kind) if index is None else device(kind, whole_number(index, "a device index"))


def layout_of(name: Any) -> layout:
    from rushlight.core import device as devices

    for found in devices.LAYOUTS:
        if type(name) is str and str(found) == name:
            return found
    raise fail(f"there is no layout {shown(name)}")


def encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes as protocol 2 writes them."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise fail("bytes are written in an unknown way")
    return text.encode("latin1")


def sequence(make: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(values: Any = ()) -> Any:
        if type(values) not in (list, tuple):
            raise fail("a list is made of something else than a list")
        return make(values)

    return call


def members(make: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(values: Any = ()) -> Any:
        if type(values) not in (list, tuple, set, frozenset):
            raise fail("a set is made of something else than a list")
        return make(values)

    return call


def keys_of_set(*args: Any) -> Any:
    return args[0] if args and type(args[0]) in (list, tuple) else ()


def keys_of_pairs(*args: Any) -> Any:
    return [key for key, _ in pairs_of(args[0])] if args else ()


def sized(*args: Any) -> int:
    return 8 * len(args[0]) if args and hasattr(args[0], "__len__") else 0


def sized_pairs(*args: Any) -> int:
    return ORDERED_DICT_BYTES + DICT_ENTRY_BYTES // 8 * sized(*args)


def sized_set(*args: Any) -> int:
    return SET_BYTES + SET_ENTRY_BYTES // 8 * sized(*args)


def raw_bytes(*args: Any) -> bytearray:
    if not args:
        return bytearray()
    if isinstance(args[0], (bytes, bytearray)):
        return bytearray(args[0])
    return bytearray(encoded(*args))


def complex_number(real: Any = 0, imaginary: Any = 0) -> complex:
    for part in (real, imaginary):
        if type(part) not in (int, float):
            raise fail("a complex number is made of something else than numbers")
    return complex(real, imaginary)


def slice_of(*args: Any) -> slice:
    if not 1 <= len(args) <= 3 or any(a is not None and type(a) is not int for a in args):
        raise fail("a slice is made of something else than numbers")
    return slice(*args)


def version_text(text: Any = "") -> str:
    if type(text) is not str:
        raise fail("a version is no text")
    return text


# -- NumPy -----------------------------------------------------------------------------------------

NUMPY_TYPES = frozenset(
    ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
)


class NumpyType:
    """A NumPy dtype of a file: numbers only, byte order applied by its state."""

    __slots__ = ("order", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.order = "="

    def plain(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.text if self.order in "<>" else self.text)


def numpy_type(text: Any, align: Any = False, copy: Any = False) -> Any:
    if type(text) is str and text in NUMPY_TYPES:
        return NumpyType(text)
    return Inert("numpy", "dtype", (text,))


def numpy_type_state(target: NumpyType, state: Any) -> None:
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise fail("the type of an array has an unknown state")
    target.order = state[1]


def numpy_scalar(dtype: Any, raw: Any) -> Any:
    if isinstance(dtype, Inert):
        return Inert("numpy", "generic", (dtype, raw))
    if not isinstance(dtype, NumpyType) or not isinstance(raw, (bytes, bytearray)):
        raise fail("a NumPy number is written in an unknown way")
    plain = dtype.plain()
    if len(raw) != plain.itemsize:
        raise fail("a NumPy number has the wrong length")
    # Native byte order, which indexing gives.
    return np.frombuffer(bytes(raw), plain)[0]


def numpy_empty(dtype: Any, size: Any, code: Any) -> Any:
    """An array that its state fills."""
    if isinstance(dtype, Inert):
        raise fail(f"an array has the class {shown(dtype.name)}")
    return np.empty(0, np.uint8)


def numpy_state(target: Any, state: Any) -> None:
    if type(state) is not tuple or len(state) != 5:
        raise fail("an array has an unknown state")
    _, size, dtype, is_fortran, raw = state
    if not isinstance(dtype, NumpyType) or not isinstance(raw, (bytes, bytearray)):
        raise fail("an array is not made of numbers")
    sizes, plain = numbers(size, "a size"), dtype.plain()
    count = 1
    for n in sizes:
        count *= n
    if count * plain.itemsize != len(raw):
        raise fail(f"an array of sizes {sizes} has {len(raw)} bytes")
    target.__setstate__((1, sizes, plain, bool(is_fortran), bytes(raw)))


BUILDERS[NumpyType] = numpy_type_state
BUILDERS[np.ndarray] = numpy_state
BUILDERS[Tensor] = set_attributes
BUILDERS[Parameter] = set_attributes


# -- the table --------------------------------------------------------------------------------


def known(
    module: str,
    cost: Callable[..., int] | None = None,
    keys: Callable[..., Any] | None = None,
    **functions: Callable[..., Any],
) -> dict[tuple[str, str], Any]:
    return {
        (module, name): Known(f"{module}.{name}", call, cost, keys)
        for name, call in functions.items()
    }


def class_only(name: str, target: Any) -> Known:
    """A class that files name and do not call."""

    def call(*args: Any) -> Any:
        raise fail(f"{name} is called")

    return Known(name, call, target=target)


# What checks all that a tensor holds: no attributes are put on top of that.
CHECKED: list[Callable[..., Any]] = []
# What makes the tensor that attributes are put on.
MAKERS: list[Callable[..., Any]] = [
    rebuild_v1, rebuild_v2, rebuild_v3, rebuild_parameter, rebuild_sparse, rebuild_meta,
    rebuild_wrapper,
]  # fmt: skip
NAMES: dict[tuple[str, str], Any] = {
    **known(
        "torch._utils",
        tensor_cost,
        _rebuild_tensor=rebuild_v1,
        _rebuild_tensor_v2=rebuild_v2,
        _rebuild_tensor_v3=rebuild_v3,
        _rebuild_meta_tensor_no_storage=rebuild_meta,
        _rebuild_wrapper_subclass=rebuild_wrapper,
    ),
    **known(
        "torch._utils",
        attribute_cost,
        _rebuild_parameter=rebuild_parameter,
        _rebuild_parameter_with_state=rebuild_parameter,
    ),
    **known("torch._utils", sparse_cost, _rebuild_sparse_tensor=rebuild_sparse),
    **known("torch._tensor", attribute_cost, _rebuild_from_type_v2=rebuild_from_type),
    **known("torch.serialization", _get_layout=layout_of),
    **known("torch", sized, Size=size_of, device=device_of),
    **known("collections", sized_pairs, keys_of_pairs, OrderedDict=ordered_dict),
    **known("collections", sized_pairs, Counter=counter),
    **known("_codecs", sized, encode=encoded),
    **known("torch.torch_version", TorchVersion=version_text),
    **known("numpy", dtype=numpy_type),
    ("numpy", "ndarray"): class_only("numpy.ndarray", np.ndarray),
    ("torch.nn.parameter", "Parameter"): class_only("torch.nn.Parameter", Parameter),
    ("torch.nn", "Parameter"): class_only("torch.nn.Parameter", Parameter),
    ("torch", "Tensor"): class_only("torch.Tensor", Tensor),
    ("torch._tensor", "Tensor"): class_only("torch.Tensor", Tensor),
    ("torch.storage", "UntypedStorage"): StorageType(None),
    ("torch", "UntypedStorage"): StorageType(None),
}
for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    NAMES |= known(module, scalar=numpy_scalar, _reconstruct=numpy_empty)
for module in ("builtins", "__builtin__"):
    NAMES |= known(module, sized_set, keys_of_set, set=members(set), frozenset=members(frozenset))
    NAMES |= known(module, sized, list=sequence(list), tuple=sequence(tuple), bytearray=raw_bytes)
    NAMES |= known(module, complex=complex_number, slice=slice_of)
for name, element in STORAGE_NAMES.items():
    NAMES["torch", name] = StorageType(element)
for name, named in dtypes.BY_NAME.items():
    NAMES["torch", name] = named

# What a program vouches for: (module, name) -> (as it was given, class or function).
SAFE_GLOBALS: dict[tuple[str, str], tuple[Any, Any]] = {}
# Modules of which nothing is ever called, whatever a program vouches for.
BLOCKED = frozenset(("sys", "os", "posix", "nt"))


def find_name(module: str, name: str) -> Any:
    """What a name of a file stands for; an Inert record where that is nothing known."""
    found = NAMES.get((module, name))
    if found is None:
        trusted = vouched_for(module, name)
        if trusted is None or module in BLOCKED:
            found = Inert(module, name)
        else:
            found = trusting(f"{module}.{name}", trusted[1])
    return found


def vouched_for(module: str, name: str) -> Any:
    """What `SAFE_GLOBALS` has for a name of a file, where modules may have older names."""
    if not SAFE_GLOBALS:
        return None
    from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING

    new_module, new_name = NAME_MAPPING.get((module, name), (module, name))
    for place in (module, IMPORT_MAPPING.get(module, new_module), new_module):
        found = SAFE_GLOBALS.get((place, name)) or SAFE_GLOBALS.get((place, new_name))
        if found is not None:
            return found
    return SAFE_GLOBALS.get(("torch", name)) if module.startswith("torch.") else None


def trusting(name: str, trusted: Any) -> Any:
    """A class or function that the program itself has allowed: it is used as pickle would."""
    if isinstance(trusted, type):

        def new(*args: Any) -> Any:
            return trusted.__new__(trusted, *args)

        return Known(name, trusted, target=trusted, new=new, build=set_state)
    return Known(name, trusted) if callable(trusted) else trusted


def set_state(target: Any, state: Any) -> None:
    rule = getattr(target, "__setstate__", None)
    if rule is not None:
        rule(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)
