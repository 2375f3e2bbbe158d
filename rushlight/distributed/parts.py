"""torch.distributed.checkpoint.metadata: what is in a checkpoint, and its file `.metadata`.

The file is a pickle of these records. Reading one calls nothing that it names: the walker answers
inert records, and each is checked. Writing one says opcodes for what there is, and no others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rushlight.base.errors import CheckpointError
from rushlight.core.device import contiguous_format, strided
from rushlight.core.dtype import dtype as dtype_type
from rushlight.core.dtype import float32
from rushlight.core.size import Size
from rushlight.io.rebuild import find_name
from rushlight.io.walker import Inert, Walker

__all__ = [
    "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageInfo",
    "StorageMeta", "TensorProperties", "TensorStorageMetadata", "as_bytes", "from_bytes",
]  # fmt: skip

LARGEST = 1 << 48
LONGEST_LIST = 1 << 20


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins in each dim, how long it is there."""

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """What tensors are made with."""

    dtype: dtype_type = float32
    layout: Any = strided
    requires_grad: bool = False
    memory_format: Any = contiguous_format
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        return TensorProperties(tensor.dtype, requires_grad=bool(tensor.requires_grad))


@dataclass
class TensorStorageMetadata:
    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is no tensor."""


@dataclass
class StorageMeta:
    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MetadataIndex:
    """The name of a value, or of the part of a tensor that begins at an offset."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.offset is not None:
            object.__setattr__(self, "offset", Size(self.offset))


@dataclass
class StorageInfo:
    """Where in the folder something is: an archive as `torch.save` writes it."""

    relative_path: str
    offset: int
    length: int


@dataclass
class Metadata:
    """All that a checkpoint holds, by name; the path of each name; and where it is."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


# -- writing ---------------------------------------------------------------------------------------

HOME = "torch.distributed.checkpoint.metadata"


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def tupled(values: Any) -> bytes:
    return b"(" + b"".join(map(pickled, values)) + b"t"


def listed(values: list[Any]) -> bytes:
    return b"](" + b"".join(map(pickled, values)) + b"e"


def entries(values: dict[Any, Any]) -> bytes:
    return b"}(" + b"".join([pickled(k) + pickled(v) for k, v in values.items()]) + b"u"


def name(module: str, word: str) -> bytes:
    return text(module) + text(word) + b"\x93"


def called(module: str, word: str, *args: Any) -> bytes:
    return name(module, word) + tupled(args) + b"R"


def record(word: str, state: bytes, module: str = HOME) -> bytes:
    """An object that is made without its constructor."""
    return name(module, word) + b")\x81" + state + b"b"


def properties(value: TensorProperties) -> bytes:
    parts = [
        name("torch", str(value.dtype).rpartition(".")[2]),
        called("torch.serialization", "_get_layout", "torch.strided"),
        pickled(value.requires_grad),
        called(HOME, "_MEM_FORMAT_ENCODING", 0),
        pickled(False),
    ]
    return record("TensorProperties", b"(" + b"".join(parts) + b"t")


def plain_record(value: Any) -> bytes:
    return record(type(value).__name__, entries(vars(value)))


WRITERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"N",
    bool: lambda value: b"\x88" if value else b"\x89",
    int: number,
    str: text,
    tuple: tupled,
    list: listed,
    dict: entries,
    Size: lambda value: called("torch", "Size", tuple(value)),
    TensorProperties: properties,
    StorageInfo: lambda value: record(
        "_StorageInfo", entries(vars(value)), "torch.distributed.checkpoint.filesystem"
    ),
    **dict.fromkeys(
        (
            ChunkStorageMetadata, TensorStorageMetadata, BytesStorageMetadata, Metadata,
            MetadataIndex,
        ),
        plain_record,
    ),
}  # fmt: skip


def pickled(value: Any) -> bytes:
    return WRITERS[type(value)](value)


def as_bytes(metadata: Metadata) -> bytes:
    return b"\x80\x04" + pickled(metadata) + b"."


# -- reading ---------------------------------------------------------------------------------------


def known(module: str, word: str) -> Any:
    if module == "torch":
        found = find_name(module, word)
        if word == "Size" or isinstance(found, dtype_type):
            return found
    return Inert(module, word)


def refused(pid: Any) -> Any:
    raise CheckpointError("the metadata of a checkpoint refers to no storages")


def need(holds: object, what: str) -> None:
    if not holds:
        raise CheckpointError(f"the metadata is damaged: {what}")


def state_of(value: Any, word: str) -> dict[str, Any]:
    need(isinstance(value, Inert) and value.name == word, f"a {word} is missing")
    state = value.state
    need(isinstance(state, dict), f"a {word} has no state")
    found: dict[str, Any] = state
    return found


def sizes_of(value: Any, count: int | None = None) -> Size:
    need(isinstance(value, tuple), "sizes are missing")
    need(count is None or len(value) == count, "sizes of another number of dims")
    need(all([type(each) is int and 0 <= each < LARGEST for each in value]), f"sizes {value!r}")
    return Size(value)


def tensor_of(word: str, value: Any) -> TensorStorageMetadata:
    state = state_of(value, "TensorStorageMetadata")
    shape = sizes_of(state.get("size"))
    kept: Any = state.get("properties")
    need(isinstance(kept, Inert), f"{word} has no properties")
    facts = kept.state
    need(isinstance(facts, tuple) and len(facts) >= 3, f"{word} has no properties")
    need(isinstance(facts[0], dtype_type), f"{word} has no dtype")
    chunks = []
    need(isinstance(state.get("chunks"), list), f"{word} has no parts")
    for each in state["chunks"]:
        inner = state_of(each, "ChunkStorageMetadata")
        offsets = sizes_of(inner.get("offsets"), len(shape))
        sizes = sizes_of(inner.get("sizes"), len(shape))
        inside = all([o + s <= n for o, s, n in zip(offsets, sizes, shape)])
        need(inside, f"a part of {word} at {tuple(offsets)} of {tuple(sizes)} in {tuple(shape)}")
        chunks.append(ChunkStorageMetadata(offsets, sizes))
    made = TensorProperties(facts[0], requires_grad=facts[2] is True)
    return TensorStorageMetadata(made, shape, chunks)


def places_of(value: Any) -> Iterator[tuple[MetadataIndex, StorageInfo]]:
    need(isinstance(value, dict), "places are missing")
    for key, place in value.items():
        index = state_of(key, "MetadataIndex")
        offset = index.get("offset")
        info = state_of(place, "_StorageInfo")
        if info.get("transform_descriptors"):
            raise CheckpointError("the checkpoint's files are transformed (compressed); save plain")
        path: Any = info.get("relative_path")
        begin: Any = info.get("offset")
        length: Any = info.get("length")
        need(isinstance(path, str) and Path(path).name == path, f"{path!r} is no file of it")
        sizes_of((begin, length))
        need(isinstance(index.get("fqn"), str), "a part has no name")
        yield (
            MetadataIndex(index["fqn"], None if offset is None else sizes_of(offset)),
            StorageInfo(path, begin, length),
        )


def is_path(value: Any) -> bool:
    return isinstance(value, tuple) and all([
        isinstance(word, str) or (type(word) is int and 0 <= word < LONGEST_LIST) for word in value
    ])  # fmt: skip


def from_bytes(data: bytes) -> Metadata:
    """The metadata in a file; what is not as it should be is refused."""
    state = state_of(Walker(data, known, refused).read(), "Metadata")
    names: Any = state.get("state_dict_metadata")
    need(isinstance(names, dict), "names are missing")
    found: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    for word, value in names.items():
        need(isinstance(word, str) and isinstance(value, Inert), "a name is no text")
        if value.name == "BytesStorageMetadata":
            found[word] = BytesStorageMetadata()
        else:
            found[word] = tensor_of(word, value)
    places = dict(places_of(state.get("storage_data")))
    paths = state.get("planner_data")
    if not isinstance(paths, dict) or not all(map(is_path, paths.values())):
        paths = None
    version = state.get("version")
    return Metadata(found, paths, places, None, version if isinstance(version, str) else None)
