"""safetensors files: a header of JSON, and behind it the tensors' bytes. No code, no pickles.

A header is believed only when the file bears it out: every tensor's bytes are as many as its dtype
and shape ask for, and all of them together are the rest of the file, without holes or overlaps.
`load_file` maps the file: memory is taken when values are looked at, and writes stay private.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from rushlight.base.errors import CheckpointError, MissingFeature, error
from rushlight.core import dtype as dtypes
from rushlight.core.device import device as device_type
from rushlight.core.interop import rebuild_tensor
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, storage_of
from rushlight.io.walker import shown

__all__ = [
    "SafeOpen",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]

MAX_HEADER = 100_000_000
MAX_DIMS = 64
MAX_SIZE = 1 << 62
ALIGNMENT = 8
METADATA = "__metadata__"
MAX_METADATA = 1 << 16
TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*+"')
CODES = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "U16": dtypes.uint16,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "I32": dtypes.int32,
    "U32": dtypes.uint32,
    "F32": dtypes.float32,
    "I64": dtypes.int64,
    "U64": dtypes.uint64,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
    "F8_E5M2": dtypes.float8_e5m2,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz,
    "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz,
}
CODE_OF = {dtype: code for code, dtype in CODES.items()}


def check_machine() -> None:
    if sys.byteorder != "little":
        raise MissingFeature("safetensors on big-endian machines", code="RL0903")


def bad(what: str) -> CheckpointError:
    return error("RL0902", CheckpointError, what=what)


# -- the header ------------------------------------------------------------------------------------


class Place:
    """A tensor of a file: what it is, and where its bytes are behind the header."""

    __slots__ = ("dtype", "end", "sizes", "start")

    def __init__(self, dtype: dtypes.dtype, sizes: tuple[int, ...], start: int, end: int) -> None:
        self.dtype = dtype
        self.sizes = sizes
        self.start = start
        self.end = end


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, each name once."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise bad("two entries of its header have the same name")
    return found


def refuse_constant(text: str) -> Any:
    raise bad(f"its header holds {text}")


def small_number(text: str) -> int:
    if len(text) > 20:
        raise bad("its header holds a number with too many digits")
    return int(text)


def read_header(head: Any, length: int) -> tuple[dict[str, Place], dict[str, str], int]:
    """(tensors by name, metadata, where the tensors' bytes begin) of a file of `length` bytes."""
    check_machine()
    if length < 8:
        raise bad("it is too short to have a header")
    size = int.from_bytes(bytes(head[:8]), "little")
    if size > MAX_HEADER:
        raise bad(f"its header would be {size} bytes long, more than {MAX_HEADER}")
    if size > length - 8:
        raise bad(f"its header would be {size} bytes long, the file has {length}")
    entries = parsed(bytes(head[8 : 8 + size]))
    metadata = entries.pop(METADATA, {})
    if type(metadata) is not dict or any(type(value) is not str for value in metadata.values()):
        raise bad("its metadata are not texts")
    places = {name: place_of(name, entry) for name, entry in entries.items()}
    check_places(places, length - 8 - size)
    return places, metadata, 8 + size


def parsed(raw: bytes) -> dict[str, Any]:
    import json

    if raw[:1] != b"{":
        raise bad("its header is not a JSON object")
    # Lists and objects take many times their length in memory: count them before they are made.
    outside = TEXTS.sub(b"", raw)
    tensors = raw.count(b'"data_offsets"')
    if (
        outside.count(b"[") + outside.count(b"{") > 3 * tensors + 2
        or outside.count(b":") > 4 * tensors + MAX_METADATA
    ):
        raise bad("its header holds something else than tensors")
    try:
        found = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=unique,
            parse_constant=refuse_constant,
            parse_int=small_number,
        )
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise bad(f"its header is not JSON ({str(error)[:100]})") from None
    if type(found) is not dict:
        raise bad("its header is not a JSON object")
    return found


def whole_numbers(values: Any, what: str) -> list[int]:
    if type(values) is not list or len(values) > MAX_DIMS:
        raise bad(f"{what} is not a short list of numbers")
    for value in values:
        if type(value) is not int or not 0 <= value < MAX_SIZE:
            raise bad(f"{what} holds {shown(value)}")
    return values


def place_of(name: str, entry: Any) -> Place:
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise bad(f"entry {shown(name)} is not described by dtype, shape and data_offsets")
    code = entry["dtype"]
    dtype = CODES.get(code) if type(code) is str else None
    if dtype is None:
        raise bad(f"{shown(name)} has the dtype {shown(code)}, which is not known")
    sizes = whole_numbers(entry["shape"], f"the shape of {shown(name)}")
    offsets = whole_numbers(entry["data_offsets"], f"the place of {shown(name)}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise bad(f"{shown(name)} has no place")
    nbytes = dtype.itemsize
    for size in sizes:
        nbytes *= size
        if nbytes >= MAX_SIZE:
            raise bad(f"{shown(name)} is larger than any memory")
    start, end = offsets
    if end - start != nbytes:
        raise bad(f"{shown(name)} has {end - start} bytes, its dtype and shape need {nbytes}")
    return Place(dtype, tuple(sizes), start, end)


def check_places(places: dict[str, Place], length: int) -> None:
    free = 0
    for name, place in sorted(places.items(), key=lambda item: (item[1].start, item[1].end)):
        if place.start != free:
            how = "overlaps another" if place.start < free else "leaves a hole before it"
            raise bad(f"{shown(name)} {how}")
        free = place.end
    if free != length:
        raise bad(f"its tensors have {free} bytes, {length} are behind its header")


# -- reading ---------------------------------------------------------------------------------------


def target_device(place: Any) -> device_type:
    found = device_type(place)
    if found.type not in ("cpu", "meta"):
        raise error("RL0914", CheckpointError, device=found)
    return found


class SafeOpen:
    """A file whose tensors are made when they are asked for; use it in a `with` block."""

    def __init__(self, filename: Any, framework: str = "pt", device: Any = "cpu") -> None:
        if framework not in ("pt", "torch", "pytorch", "rushlight"):
            raise error("RL0915", CheckpointError, framework=framework)
        from mmap import ACCESS_COPY, mmap

        self.device = target_device(device)
        with open(filename, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if length < 8:
                raise bad("it is too short to have a header")
            self.memory: Any = mmap(file.fileno(), 0, access=ACCESS_COPY)
        self.places, self.meta, self.begin = read_header(self.memory, length)

    def __enter__(self) -> SafeOpen:
        return self

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        # Tensors that were made keep the mapping.
        self.memory = None

    def keys(self) -> list[str]:
        return sorted(self.places)

    def offset_keys(self) -> list[str]:
        """Names in the order of the file."""
        return sorted(self.places, key=lambda name: self.places[name].start)

    def metadata(self) -> dict[str, str] | None:
        return dict(self.meta) or None

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __len__(self) -> int:
        return len(self.places)

    def get_tensor(self, name: str) -> Any:
        """The tensor of a name."""
        place = self.places.get(name)
        if place is None:
            raise CheckpointError(f"File does not contain tensor {shown(name)}")
        if self.memory is None:
            raise CheckpointError("The file has been closed.")
        return made(self.memory, self.begin, place, self.device, False)

    def get_slice(self, name: str) -> Slice:
        """A tensor of which parts can be taken; only what is looked at is read."""
        return Slice(self.get_tensor(name))


class Slice:
    """Parts of a tensor of a file, by indexing."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def get_shape(self) -> list[int]:
        return list(self.tensor.shape)

    def get_dtype(self) -> str:
        return CODE_OF[self.tensor.dtype]

    def __getitem__(self, index: Any) -> Any:
        return self.tensor[index].clone()


safe_open = SafeOpen


def made(memory: Any, begin: int, place: Place, target: device_type, copy: bool) -> Any:
    """A tensor over the bytes of a file (or over a copy, where their place does not suit it)."""
    count, start = place.end - place.start, begin + place.start
    if target.type == "meta":
        storage = Storage.meta(count)
    elif count == 0:
        storage = Storage(np.empty(0, np.uint8))
    else:
        array = np.frombuffer(memory, np.uint8, count, start)
        copied = copy or start % min(place.dtype.itemsize, ALIGNMENT)
        storage = Storage(array.copy() if copied else array)
    return rebuild_tensor(
        storage, place.dtype, place.sizes, row_major(place.sizes), 0, False, (False, False)
    )


def row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Any]:
    """The tensors of a file, by name."""
    with SafeOpen(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file.offset_keys()}


def load(data: bytes) -> dict[str, Any]:
    """The tensors of a file that is in memory, by name."""
    places, _, begin = read_header(data, len(data))
    target = device_type("cpu")
    return {name: made(data, begin, place, target, True) for name, place in places.items()}


# -- writing ---------------------------------------------------------------------------------------


def bytes_of(name: str, tensor: Any) -> Any:
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}"
        )
    if tensor.layout.name != "strided":
        raise ValueError(
            f"You are trying to save a sparse tensor: `{name}`. Make it dense before saving with "
            "`.to_dense()`, which may take much memory, or use torch.save."
        )
    if tensor._array is None:
        raise error(
            "RL0918",
            ValueError,
            name=name,
            what=f"is on the device '{tensor.device}' and has no values to save.",
        )
    if tensor.dtype not in CODE_OF:
        raise error(
            "RL0918",
            ValueError,
            name=name,
            what=f"has the dtype {tensor.dtype}, which safetensors does not have.",
        )
    if not tensor.is_contiguous():
        raise ValueError(
            f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It "
            "either means you are trying to save tensors which are reference of each other in "
            "which case it's recommended to save only the full tensors, and reslice at load time, "
            "or simply call `.contiguous()` on your tensor to pack it before saving."
        )
    plain = tensor.detach().resolve_conj().resolve_neg()
    return np.ascontiguousarray(plain._array).reshape(-1).view(np.uint8)


def check_shared(tensors: dict[str, Any]) -> None:
    """torch: tensors that share memory would come back apart."""
    areas: list[tuple[int, int, str]] = []
    for name, tensor in tensors.items():
        if tensor.numel():
            start = storage_of(tensor).data_ptr() + int(tensor._offset) * tensor.dtype.itemsize
            areas.append((start, start + tensor.numel() * tensor.dtype.itemsize, name))
    areas.sort()
    for (_, end, name), (start, _, other) in pairwise(areas):
        if start < end:
            raise RuntimeError(
                f"Some tensors share memory, this will lead to duplicate memory on disk and "
                f"potential differences when loading them again: {name!r} and {other!r}. Save "
                "one of them, or clones; `save_model` does so for modules."
            )


def header_and_parts(
    tensors: dict[str, Any], metadata: dict[str, str] | None
) -> tuple[bytes, list[Any]]:
    import json

    check_machine()
    if not isinstance(tensors, dict):
        raise ValueError(
            f"Expected a dict of [str, torch.Tensor] but received {type(tensors).__name__}"
        )
    entries: dict[str, Any] = {}
    if metadata is not None:
        for key, value in metadata.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise ValueError(f"metadata are texts: {key!r} is {type(value).__name__}")
        entries[METADATA] = dict(metadata)
    for name in tensors:
        if not isinstance(name, str) or name == METADATA:
            raise ValueError(f"{name!r} cannot be the name of a tensor")
    parts = {name: bytes_of(name, tensor) for name, tensor in tensors.items()}
    check_shared(tensors)
    # Wide dtypes first: every tensor then begins where its dtype wants it.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    place = 0
    for name in order:
        end = place + int(parts[name].size)
        entries[name] = {
            "dtype": CODE_OF[tensors[name].dtype],
            "shape": [int(n) for n in tensors[name].shape],
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    if len(text) > MAX_HEADER:
        raise ValueError(f"the names of the tensors take {len(text)} bytes, more than {MAX_HEADER}")
    return len(text).to_bytes(8, "little") + text, [parts[name] for name in order]


def save(tensors: dict[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """Tensors by name as the bytes of a file."""
    header, parts = header_and_parts(tensors, metadata)
    return b"".join([header, *parts])


def save_file(
    tensors: dict[str, Any], filename: Any, metadata: dict[str, str] | None = None
) -> None:
    """Write tensors by name to a file."""
    header, parts = header_and_parts(tensors, metadata)
    with open(filename, "wb") as file:
        file.write(header)
        for part in parts:
            file.write(part)


# -- modules ---------------------------------------------------------------------------------------


def save_model(
    model: Any, filename: Any, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Write a module's state; of tensors that are the same one is written, and the others named."""
    state, kept = model.state_dict(), {}
    first: dict[Any, str] = {}
    notes = dict(metadata or {})
    for name in sorted(state):
        tensor = state[name]
        same = (storage_of(tensor), int(tensor._offset), tuple(tensor.shape), tensor.stride())
        if same in first and tensor.numel():
            notes.setdefault(name, first[same])
            continue
        first[same] = name
        kept[name] = tensor.contiguous() if force_contiguous else tensor
    save_file(kept, filename, notes or None)


def load_model(
    model: Any, filename: Any, strict: bool = True, device: Any = "cpu"
) -> tuple[list[str], list[str]]:
    """Read a module's state that `save_model` has written; returns missing and unexpected names."""
    with SafeOpen(filename, device=device) as file:
        state = {name: file.get_tensor(name) for name in file.offset_keys()}
        for name, other in (file.metadata() or {}).items():
            if name not in state and other in state:
                state[name] = state[other]
    result = model.load_state_dict(state, strict=strict)
    return list(result.missing_keys), list(result.unexpected_keys)
