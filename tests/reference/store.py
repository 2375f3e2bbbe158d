"""Recorded results of the reference framework: one compressed file per op family.

A file is LZMA over a JSON index, a zero byte and blobs. `index["blobs"]` holds the blobs' lengths;
equal bytes are one blob, named by position. `index["ops"]` leads from an op's name and a dtype's
(or "errors") to records in the order of samples: `in` and `at`, the call's form (see forms.py) and
the blobs of its tensors, then the answer: `out`, `needs`, `grad`, `second`, or the class of what
was raised. A record is found by its sample's digest, which is computed, not kept. The same records
make the same bytes.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.op import Tag
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.opset.samples.maker import Sample, uniform
from tests.reference import forms

FOLDER = Path(__file__).parent
FORMAT = 2
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6}]


# -- samples ---------------------------------------------------------------------------------------


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


def settle(op: Any, result: Any) -> Any:
    """What a result determines: where an algorithm may choose signs, phases or an order, the op's
    option `invariants` makes values of it that do not depend on the choice. It is written in
    methods that the reference's tensors have too."""
    invariants = op.options.get("invariants")
    if invariants is None:
        return result
    return invariants(*result) if isinstance(result, (tuple, list)) else invariants(result)


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
    return "reads_values" in op.options and answers_number(op)


def answers_number(op: Any) -> bool:
    return not any(entry.type.is_tensor_like for entry in op._schema.returns)


# -- files -----------------------------------------------------------------------------------------


class Writer:
    """Collects the records of one family."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.ops: dict[str, Any] = {}
        # From contents to position, in order of position.
        self.blobs: dict[bytes, int] = {}

    def blob(self, data: bytes) -> int:
        """Keep bytes; equal ones are kept once."""
        return self.blobs.setdefault(data, len(self.blobs))

    def array(self, array: Any) -> int:
        return self.blob(np.ascontiguousarray(array).tobytes())

    def call(self, form: list[Any], chunks: list[bytes]) -> dict[str, Any]:
        """A record that has its call and no answer yet."""
        return {"in": form, "at": [self.blob(chunk) for chunk in chunks]}

    def op(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = self.ops.setdefault(name, {})
        return entry

    def save(self, path: Path) -> int:
        sizes = [len(data) for data in self.blobs]
        index = {"format": FORMAT, "torch": self.version, "ops": self.ops, "blobs": sizes}
        head = json.dumps(index, separators=(",", ":")).encode()
        packed = lzma.compress(
            b"".join([head, b"\0", *self.blobs]), format=lzma.FORMAT_XZ, filters=FILTERS
        )
        path.write_bytes(packed)
        return len(packed)


class Reader:
    """The records of one family."""

    def __init__(self, path: Path) -> None:
        data = lzma.decompress(path.read_bytes())
        end = data.index(b"\0")
        self.index = json.loads(data[:end])
        if self.index["format"] != FORMAT:
            raise ValueError(f"{path}: format {self.index['format']}, expected {FORMAT}")
        self.data = memoryview(data)
        self.bounds = list(accumulate(self.index["blobs"], initial=end + 1))
        self.tables: dict[tuple[str, str], dict[str, Any]] = {}

    @property
    def torch(self) -> str:
        return str(self.index["torch"])

    def op(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.index["ops"].get(name)
        return found

    def table(self, op: str, kind: str) -> dict[str, Any]:
        """An op's records for a dtype's name, or "errors", by the digests of their samples."""
        found = self.tables.get((op, kind))
        if found is None:
            records = (self.op(op) or {}).get(kind, ())
            found = {forms.digest_of(r["in"], self.chunks(r)): r for r in records}
            self.tables[op, kind] = found
        return found

    def sample(self, record: dict[str, Any]) -> Sample:
        """A record's call, in fresh memory; raises `forms.NotKept` where it has only a text."""
        return forms.rebuilt(record["in"], self.chunks(record))

    def chunks(self, record: dict[str, Any]) -> list[Any]:
        return [self.blob(at) for at in record["at"]]

    def blob(self, at: int) -> Any:
        return self.data[self.bounds[at] : self.bounds[at + 1]]

    def array(self, at: int, kind: Any, shape: Any) -> Any:
        return np.frombuffer(self.blob(at), kind.np).reshape(shape)


def path_of(name: str) -> Path:
    """The file of a family: `view.split` lies in view/split.xz."""
    return FOLDER.joinpath(*name.split(".")).with_suffix(".xz")


@cache
def family(name: str) -> Reader | None:
    """A family's records; None when there is no file."""
    path = path_of(name)
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
