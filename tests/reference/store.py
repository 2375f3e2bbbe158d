"""Recorded results of the reference framework: one compressed file per op family.

A record is found by the digest of its sample (values, sizes, strides, other arguments), so a
changed sample has no record rather than a wrong one. The file is LZMA over a JSON index, a zero
byte and the arrays' bytes in order; the same records make the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.op import Tag
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor, storage_of, strides_of, values_of
from rushlight.opset.samples import Sample, uniform

FOLDER = Path(__file__).parent
FORMAT = 1
DATA_DEPENDENT = (
    "allclose", "argwhere", "bincount", "equal", "histc", "is_nonzero", "item",
    "masked_scatter_backward", "masked_select",
    "local_scalar_dense", "nonzero", "unique",
)  # fmt: skip
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6}]


# -- samples ---------------------------------------------------------------------------------------


def digest(case: Sample) -> str:
    """What a sample is, in 12 characters."""
    state = hashlib.blake2b(digest_size=6)

    def add(value: Any) -> None:
        if isinstance(value, Tensor) and value.layout.name != "strided":
            state.update(repr((value.layout.name, tuple(value.shape))).encode())
            for part in sparse_parts(value):
                add(part)
        elif isinstance(value, Tensor):
            facts = (value.dtype.name, tuple(value.shape), strides_of(value))
            state.update(repr(facts).encode())
            state.update(np.ascontiguousarray(values_of(value)).tobytes())
        elif isinstance(value, (list, tuple)):
            state.update(f"[{len(value)}".encode())
            for item in value:
                add(item)
        else:
            state.update(f"{type(value).__name__}:{value!r};".encode())

    add(case.args)
    for name in sorted(case.kwargs):
        state.update(name.encode())
        add(case.kwargs[name])
    return state.hexdigest()


def sparse_parts(tensor: Any) -> list[Any]:
    """The plain tensors that a sparse tensor is made of, values last; of either framework."""
    name = str(tensor.layout).removeprefix("torch.")
    if name == "sparse_coo":
        return [tensor._indices(), tensor._values()]
    if name in ("sparse_csr", "sparse_bsr"):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def tensors_of(case: Sample) -> list[Tensor]:
    """The tensors among a sample's arguments, those in lists too, in order."""
    found: list[Tensor] = []

    def walk(value: Any) -> None:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                walk(item)

    walk(case.args)
    for name in case.kwargs:
        walk(case.kwargs[name])
    return found


def mapped(case: Sample, change: Any) -> Sample:
    """The sample with every leaf passed through `change`."""

    def walk(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)([walk(item) for item in value])
        return change(value)

    args = tuple([walk(value) for value in case.args])
    return Sample(args, {name: walk(value) for name, value in case.kwargs.items()})


def flat(value: Any) -> list[Any]:
    """The leaves of nested lists and tuples; a `Size` is one."""
    if isinstance(value, (list, tuple)) and not isinstance(value, Size):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def cotangent(position: int, shape: tuple[int, ...], kind: Any) -> Any:
    """The fixed array that gradients of output `position` are taken with."""
    count = 1
    for size in shape:
        count *= size
    values = uniform(0xC07A << 8 | position, 2 * count) * 2 - 1
    real = values[:count].reshape(shape)
    if kind.is_complex:
        return (values[:count] + 1j * values[count:]).reshape(shape).astype(kind.np)
    return real.astype(kind.np)


def projection(array: Any) -> list[float]:
    """A gradient of second order in two numbers: its inner product with fixed values, its norm."""
    wide = np.asarray(array).astype(np.complex128).reshape(-1)
    weights = uniform(0x5EC0, wide.size) * 2 - 1
    product = complex((wide * weights).sum())
    return [product.real, product.imag, float(np.sqrt((np.abs(wide) ** 2).sum()))]


def is_data_dependent(op: Any) -> bool:
    """Whether sizes of results, or what Python sees of them, follow from values."""
    if op.tags & {Tag.dynamic_output_shape, Tag.data_dependent_output}:
        return True
    # `where(condition)` is nonzero under another name.
    return op.name() == "aten::where" or op.base_name.lstrip("_").startswith(DATA_DEPENDENT)


# -- files -----------------------------------------------------------------------------------------


class Writer:
    """Collects the records of one family."""

    def __init__(self, version: str) -> None:
        self.index: dict[str, Any] = {"format": FORMAT, "torch": version, "ops": {}}
        self.chunks: list[bytes] = []
        self.at = 0
        self.known: dict[bytes, int] = {}

    def array(self, array: Any) -> int:
        """Keep an array's values; equal bytes are kept once."""
        data = np.ascontiguousarray(array).tobytes()
        found = self.known.get(data)
        if found is None:
            found = self.known[data] = self.at
            self.chunks.append(data)
            self.at += len(data)
        return found

    def op(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = self.index["ops"].setdefault(name, {})
        return entry

    def save(self, path: Path) -> int:
        head = json.dumps(self.index, sort_keys=True, separators=(",", ":")).encode()
        packed = lzma.compress(
            head + b"\0" + b"".join(self.chunks), format=lzma.FORMAT_XZ, filters=FILTERS
        )
        path.write_bytes(packed)
        return len(packed)


class Reader:
    """The records of one family."""

    def __init__(self, path: Path) -> None:
        data = lzma.decompress(path.read_bytes())
        end = data.index(b"\0")
        self.index = json.loads(data[:end])
        self.data = memoryview(data)[end + 1 :]
        if self.index["format"] != FORMAT:
            raise ValueError(f"{path}: format {self.index['format']}, expected {FORMAT}")

    @property
    def torch(self) -> str:
        return str(self.index["torch"])

    def op(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.index["ops"].get(name)
        return found

    def array(self, at: int, kind: Any, shape: Any) -> Any:
        count = 1
        for size in shape:
            count *= size
        end = at + count * kind.itemsize
        return np.frombuffer(self.data[at:end], kind.np).reshape(shape)


@cache
def family(name: str) -> Reader | None:
    """A family's records; None when there is no file."""
    path = FOLDER / f"{name}.xz"
    return Reader(path) if path.exists() else None


# -- leaves ----------------------------------------------------------------------------------------


class Recorded:
    """One recorded tensor."""

    def __init__(self, reader: Reader, entry: list[Any]) -> None:
        name, shape, strides, offset, at = entry
        self.dtype = dtypes.by_name(name)
        self.shape = tuple(shape)
        self.strides = None if strides is None else tuple(strides)
        self.offset = offset
        self.values = None if at is None else reader.array(at, self.dtype, self.shape)


def geometry_of(tensor: Tensor) -> tuple[Any, ...]:
    storage_of(tensor)
    return tuple(tensor.shape), tuple(strides_of(tensor)), tensor.storage_offset()
