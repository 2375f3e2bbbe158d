"""What a result is: its sizes, dtype and strides, stated or read from a text of sizes; and how a
kernel's answer becomes a tensor that has them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rushlight.arrays.numpy_ import as_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry, ports
from rushlight.core.dtype import dtype
from rushlight.core.storage import Storage
from rushlight.core.tensor import (
    Tensor,
    Unusual,
    alias_array,
    shell,
    storage_of,
    strides_of,
    wrap,
    wrap_strided,
)

ndarray = np.ndarray

__all__ = [
    "Sizes", "Spec", "column_strides", "elementwise_layout", "kernel_layout", "lay_out",
    "make_view", "read_sizes", "result_tensor", "shell_of", "strides_for", "tree_laid_out",
    "with_specs", "wrapped",
]  # fmt: skip


class Spec:
    """What a shape rule answers for one result: sizes, dtype, and strides unless contiguous."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, shape: Any, dtype: dtype, strides: Any = None) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = None if strides is None else tuple(strides)

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype}, strides={self.strides})"


def check_bytes(sizes: Any, itemsize: int) -> None:
    """Refuse memory of more bytes than an address has."""
    if geometry.numel(sizes) * itemsize >= 2**63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={geometry.show(sizes)}")


def no_memory(spec: Any, reason: Exception) -> None:
    """Raise torch's error where `reason` is that a result of this spec finds no memory."""
    if isinstance(spec, Spec):
        check_bytes(spec.shape, spec.dtype.itemsize)
        if isinstance(reason, MemoryError):
            wanted = geometry.numel(spec.shape) * spec.dtype.itemsize
            raise RuntimeError(
                f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {wanted} bytes."
            ) from None


class Sizes:
    """What a text such as "*mn, *nk -> *mk|, * int32" says. A letter is a size of the last tensor
    arguments, `*` the dims before them, which broadcast; k, where no argument has it, is the
    smaller of m and n. A result whose columns lie in memory one after another has a `|`; its dtype
    is that of the first of these arguments, or the word behind: a dtype, `real` or `complex`."""

    __slots__ = ("operands", "ranks", "results")

    def __init__(self, text: str) -> None:
        left, _, right = text.partition("->")
        self.operands = [part.strip() for part in left.split(",")]
        # How many dims of each argument have letters.
        self.ranks = tuple([len(letters.lstrip("*")) for letters in self.operands])
        self.results = [part.strip().partition(" ")[::2] for part in right.split(",")]

    def specs(self, tensors: list[Any]) -> Any:
        sizes: dict[str, Any] = {}
        batch = None
        for letters, rank, tensor in zip(self.operands, self.ranks, tensors, strict=True):
            shape = tuple(tensor.shape)
            split = len(shape) - rank
            sizes.update(zip(letters.lstrip("*"), shape[split:], strict=True))
            if letters[:1] == "*":
                more = shape[:split]
                batch = more if batch is None else geometry.broadcast_shapes(batch, more)
        if "k" not in sizes and sizes.keys() >= {"m", "n"}:
            sizes["k"] = geometry.minimum(sizes["m"], sizes["n"])
        source = tensors[0]._dtype
        found = []
        for letters, word in self.results:
            shape = tuple([sizes[letter] for letter in letters.strip("*|")])
            if letters[:1] == "*" and batch:
                shape = (*batch, *shape)
            steps = column_strides(shape) if letters[-1:] == "|" else None
            found.append(Spec(shape, named_dtype(word, source) if word else source, steps))
        return found[0] if len(found) == 1 else tuple(found)


read_sizes = cache(Sizes)


def column_strides(sizes: Any) -> tuple[Any, ...]:
    """Strides of matrices whose columns lie one after another."""
    steps = geometry.contiguous_strides((*sizes[:-2], sizes[-1], sizes[-2]))
    return (*steps[:-2], steps[-1], steps[-2])


def named_dtype(word: str, source: dtype) -> dtype:
    if word == "real":
        return source.to_real()
    if word == "complex":
        return source.to_complex()
    found: dtype = getattr(dtypes, word)
    return found


# -- tensors of results ----------------------------------------------------------------------------


def strides_for(spec: Spec) -> tuple[Any, ...]:
    return geometry.contiguous_strides(spec.shape) if spec.strides is None else spec.strides


def shell_of(spec: Any, place: Any) -> Any:
    """Shape-rule answers as tensors without memory; what is no spec is the answer itself."""
    if isinstance(spec, Spec):
        return shell(spec.shape, spec.strides, spec.dtype, place)
    if not isinstance(spec, (list, tuple)):
        return spec
    items = [shell_of(item, place) for item in spec]
    return items if isinstance(spec, list) else tuple(items)


def lay_out(array: Any, strides: tuple[int, ...] | None, dtype: dtype) -> Tensor:
    """A fresh array's values in memory with exactly these strides; contiguous without them."""
    is_asked = strides is None or strides == geometry.contiguous_strides(array.shape)
    if is_asked and array.size and not array.flags.c_contiguous:
        array = ports.row_major(array)
    if is_asked and array.flags.c_contiguous:
        return wrap(array.reshape(-1).reshape(array.shape) if 1 in array.shape else array, dtype)
    strides = geometry.contiguous_strides(array.shape) if strides is None else strides
    width = dtype.itemsize
    wanted = tuple([step * width for step in strides])
    storage = Storage(np.empty(geometry.storage_extent(array.shape, strides, 0) * width, np.uint8))
    target = alias_array(storage, dtype, array.shape, strides, 0)
    if target.strides != wanted and array.size:
        raise AssertionError((target.strides, wanted))
    target[...] = array
    result = wrap_strided(target, dtype, storage)
    if array.size == 0:
        unusual = result._unusual = Unusual()
        unusual.sizes, unusual.strides = tuple(array.shape), strides
    return result


def result_tensor(value: Any) -> Any:
    """A kernel's answer (array, scalar, or sequence of them) as contiguous tensors."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return type(value)([result_tensor(item) for item in value])
    array = as_array(value)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    elif 1 in array.shape:
        # NumPy calls an array contiguous whatever its strides along dimensions of size 1.
        array = array.reshape(-1).reshape(array.shape)
    return wrap(array, dtypes.from_numpy(array.dtype))


def elementwise_layout(args: tuple[Any, ...], value: Any) -> Tensor:
    """A kernel's answer laid out in memory as an elementwise result of the tensors would be."""
    array = as_array(value)
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    if not array.ndim or all([tensor._is_contiguous for tensor in tensors]):
        result: Tensor = result_tensor(array)
        return result
    # Tensors without dims, such as the gradient of a reduced loss, have no say in the layout.
    operands = [(tuple(t.shape), strides_of(t)) for t in tensors if t.dim()]
    strides = geometry.elementwise_strides(array.shape, operands)
    return lay_out(array, strides, dtypes.from_numpy(array.dtype))


def kernel_layout(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([kernel_layout(item) for item in value])
    array = as_array(value)
    dtype = dtypes.from_numpy(array.dtype)
    if array.flags.c_contiguous:
        return wrap(array, dtype)
    return lay_out(array, tuple([step // dtype.itemsize for step in array.strides]), dtype)


def tree_laid_out(value: Any, strides: tuple[int, ...]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([tree_laid_out(item, strides) for item in value])
    array = as_array(value)
    return lay_out(array, strides, dtypes.from_numpy(array.dtype))


def wrapped(value: Any) -> Any:
    """Row-major arrays as tensors."""
    if type(value) is tuple:
        return tuple([None if item is None else wrapped(item) for item in value])
    return wrap(value, dtypes.from_numpy(value.dtype))


def with_specs(value: Any, specs: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        pairs = zip(value, specs, strict=True)
        return type(value)([with_specs(item, spec) for item, spec in pairs])
    array = as_array(value)
    return lay_out(array, specs.strides, dtypes.from_numpy(array.dtype))


def make_view(
    source: Tensor, sizes: Any, strides: Any, offset: Any, dtype: dtype | None = None
) -> Tensor:
    """An alias of `source` with another geometry; base and version are recorded above."""
    if dtype is None:
        dtype = source._dtype
    unusual = source._unusual
    if unusual is None:
        storage = source._storage
        if storage is None:
            storage = storage_of(source)
        if 0 not in sizes and storage.nbytes_:
            width = dtype.itemsize
            steps = strides if width == 1 else [step * width for step in strides]
            try:
                array = ndarray(sizes, dtype.np, storage.buffer, offset * width, steps)
            except ValueError:
                geometry.check_rank(len(sizes))
                # Another tensor gave the memory fewer elements since.
                geometry.check_extent(sizes, strides, offset, storage.nbytes_, width)
                raise
            result = wrap(array, dtype)
            result._storage = storage
            result._offset = offset
            result._is_contiguous = strides == geometry.contiguous_strides(sizes)
            return result
    if source._array is None:
        result = shell(tuple(sizes), strides, dtype, source.device, offset)
        if unusual is not None and result._unusual is not None:
            result._unusual.conj, result._unusual.neg, result._unusual.layout = (
                unusual.conj,
                unusual.neg,
                unusual.layout,
            )
            result._unusual.inference = unusual.inference
        result._storage = storage_of(source)
        return result
    sizes = tuple(sizes)
    if unusual is not None and unusual.sizes is not None:
        unusual = unusual.copy()
        unusual.sizes = unusual.strides = None
        if not (unusual.conj or unusual.neg or unusual.inference):
            unusual = None
    storage = storage_of(source)
    array = alias_array(storage, dtype, sizes, strides, offset)
    result = wrap(array, dtype)
    result._storage = storage
    result._offset = offset
    result._unusual = unusual
    if array.size == 0 or not storage.nbytes_:
        # The array does not tell the strides.
        result._is_contiguous = False
        result._unusual = Unusual() if unusual is None else unusual.copy()
        result._unusual.sizes, result._unusual.strides = sizes, tuple(strides)
    else:
        result._is_contiguous = tuple(strides) == geometry.contiguous_strides(sizes)
    return result
