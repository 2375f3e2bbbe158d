"""torch.distributed.checkpoint: state in parts, read by any number of processes.

The files are torch's: each process writes its parts of tensors to one file, as `torch.save` would;
rank 0 writes, last and at once, `.metadata`, which says where each part lies. Reading takes from
any file what overlaps a process's parts. Nothing that is read is executed, and everything is
checked against the files' sizes.
"""

from __future__ import annotations

import copy
import io
import math
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rushlight.autograd.grad_mode import no_grad
from rushlight.base.errors import CheckpointError
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributed import setup
from rushlight.distributed.collectives import barrier
from rushlight.distributed.dtensor import DTensor
from rushlight.distributed.errors import refuse
from rushlight.distributed.objects import broadcast_object_list, gather_object
from rushlight.distributed.parts import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageInfo,
    TensorProperties,
    TensorStorageMetadata,
    as_bytes,
    from_bytes,
)
from rushlight.distributed.placements import Partial, Shard, part_of
from rushlight.futures import Future
from rushlight.io import checkpoint as archive
from rushlight.opset import functions

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "FileSystemReader",
    "FileSystemWriter", "Metadata", "Stateful", "TensorStorageMetadata", "async_save",
    "dcp_to_torch_save", "load", "load_state_dict", "save", "save_state_dict",
    "torch_save_to_dcp",
]  # fmt: skip

METADATA = ".metadata"
SUFFIX = ".distcp"
VERSION = "1.0.0"
SIMPLE = (str, bytes, int, float, complex, bool, type(None))


@runtime_checkable
class Stateful(Protocol):
    """What has a state of its own in a checkpoint."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class CheckpointException(CheckpointError):
    """What went wrong in any of the processes."""


class Part(NamedTuple):
    """A piece of a tensor: where it begins in each dim, how long it is there."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


class FileSystemWriter:
    """Writes to a folder."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)


class FileSystemReader(FileSystemWriter):
    """Reads from a folder."""

    def read_metadata(self) -> Metadata:
        return read_metadata(self.path)


def folder_of(checkpoint_id: Any, storage: Any) -> Path:
    if checkpoint_id is not None:
        return Path(checkpoint_id)
    if storage is None:
        raise ValueError("checkpoint_id must be given, or a storage that names a folder")
    return Path(storage.path)


# In place of a group: this process by itself.
ALONE = object()


def together(group: Any) -> bool:
    return group is not ALONE and setup.is_initialized() and setup.get_world_size(group) > 1


# -- state as a flat mapping -----------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A module's or optimiser's state, where that is what was given."""
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return value.state_dict()
    return value


def is_leaf(value: Any) -> bool:
    """Whether a value is kept as a whole: lists are where no tensor or mapping is in them."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return not any([
        isinstance(each, Tensor) or (isinstance(each, (Mapping, list)) and not is_leaf(each))
        for each in value
    ])  # fmt: skip


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(path, leaf) of nested state; keys of mappings are texts, those of lists numbers."""
    value = plain(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif is_leaf(value):
        yield path, value
    else:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))


def name_of(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def own_part(tensor: Tensor) -> Part | None:
    """What of a tensor this process holds; None where another holds the same."""
    if not isinstance(tensor, DTensor):
        return Part((0,) * tensor.dim(), tuple(tensor.shape))
    offsets, sizes = [0] * tensor.dim(), list(tensor.shape)
    coordinate = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return None
    for dim, placement in enumerate(tensor.placements):
        if isinstance(placement, Shard):
            parts = tensor.device_mesh.size(dim)
            begin, end = part_of(sizes[placement.dim], parts, coordinate[dim])
            offsets[placement.dim] += begin
            sizes[placement.dim] = end - begin
        elif isinstance(placement, Partial):
            raise CheckpointError("a DTensor that is a part of a sum cannot be saved; reduce it")
    return Part(tuple(offsets), tuple(sizes))


def is_first_copy(tensor: DTensor) -> bool:
    """Whether no process before this one holds the same part."""
    coordinate = tensor.device_mesh.get_coordinate() or []
    return all([
        isinstance(placement, Shard) or place == 0
        for placement, place in zip(tensor.placements, coordinate)
    ])  # fmt: skip


def local_of(tensor: Tensor) -> Tensor:
    return tensor._local if isinstance(tensor, DTensor) else tensor


# -- saving ----------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What a process writes: parts of tensors (none of those that are empty here), and values."""

    tensors: list[tuple[str, Tensor, Part, Tensor | None]]
    values: dict[str, Any]
    # Of all names.
    paths: dict[str, tuple[Any, ...]]


def planned(state_dict: dict[str, Any], rank: int, size: int, copies: bool) -> Plan:
    """Parts that only this process has, and its share of what all have."""
    plan = Plan([], {}, {})
    for number, (path, leaf) in enumerate(leaves(state_dict)):
        name = name_of(path)
        if name in plan.paths:
            raise ValueError(f"duplicated flatten key {name}")
        plan.paths[name] = path
        if not isinstance(leaf, Tensor):
            check_value(name, leaf)
            if rank == 0:
                plan.values[name] = copy.deepcopy(leaf) if copies else leaf
            continue
        spread = isinstance(leaf, DTensor)
        mine = is_first_copy(leaf) if isinstance(leaf, DTensor) else number % size == rank
        part = own_part(leaf) if mine else None
        if part is not None:
            local = None if spread and 0 in part.sizes else written(local_of(leaf), copies)
            plan.tensors.append((name, leaf, part, local))
    return plan


def written(local: Tensor, copies: bool) -> Tensor:
    """A part with no more memory than it needs."""
    found: Tensor = local.detach().resolve_conj().resolve_neg().contiguous()
    if copies or found.untyped_storage().nbytes() != found.numel() * found.element_size():
        found = found.clone()
    return found


def check_value(name: str, value: Any) -> None:
    """What the reader makes without being told that it may."""
    inner: list[Any] = []
    if isinstance(value, Mapping):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set)):
        inner = list(value)
    elif not isinstance(value, (Tensor, *SIMPLE)):
        raise CheckpointError(
            f"{name} is a {type(value).__name__}; checkpoints hold tensors, numbers and text"
        )
    for each in inner:
        check_value(name, each)


def write(plan: Plan, folder: Path, rank: int, turn: int) -> Metadata:
    """One process's file; answers what is in it."""
    file_name = f"__{rank}_{turn}{SUFFIX}"
    found = Metadata({}, plan.paths, {}, None, VERSION)
    with (folder / file_name).open("wb") as file:

        def put(index: MetadataIndex, value: Any) -> None:
            begin = file.tell()
            archive.save(value, file)
            found.storage_data[index] = StorageInfo(file_name, begin, file.tell() - begin)

        for name, value in plan.values.items():
            found.state_dict_metadata[name] = BytesStorageMetadata()
            put(MetadataIndex(name), value)
        for name, tensor, part, local in plan.tensors:
            facts = TensorProperties.create_from_tensor(tensor)
            chunk = ChunkStorageMetadata(Size(part.offsets), Size(part.sizes))
            whole = TensorStorageMetadata(facts, Size(tensor.shape), [])
            found.state_dict_metadata[name] = whole
            if local is not None:
                whole.chunks.append(chunk)
                put(MetadataIndex(name, chunk.offsets, 0), local)
        file.flush()
        os.fsync(file.fileno())
    return found


def commit(folder: Path, every: list[Metadata], turn: int) -> None:
    """The metadata, written beside and put in place at once: a checkpoint is there or is not."""
    kept = every[0].state_dict_metadata
    places = {}
    for each in every:
        chunks = {}
        for name, entry in each.state_dict_metadata.items():
            known = kept.setdefault(name, entry)
            if isinstance(known, TensorStorageMetadata) and isinstance(
                entry, TensorStorageMetadata
            ):
                chunks[name] = 0 if known is entry else len(known.chunks)
                if known is not entry:
                    known.chunks += entry.chunks
        for index, place in each.storage_data.items():
            number = None if index.offset is None else chunks[index.fqn]
            places[MetadataIndex(index.fqn, index.offset, number)] = place
    temporary = folder / f"{METADATA}.{uuid.uuid4().hex}"
    temporary.write_bytes(as_bytes(Metadata(kept, every[0].planner_data, places, None, VERSION)))
    temporary.replace(folder / METADATA)
    # What the checkpoint before has written.
    for path in folder.glob(f"__*_*{SUFFIX}"):
        if not path.stem.endswith(f"_{turn}"):
            path.unlink(missing_ok=True)


def free_turn(folder: Path) -> int:
    """A number that no file has: those of the checkpoint before stay whole until this one is."""
    taken = {path.stem.rpartition("_")[2] for path in folder.glob(f"__*_*{SUFFIX}")}
    return next(turn for turn in range(len(taken) + 1) if str(turn) not in taken)


def write_together(plan: Plan, folder: Path, group: Any) -> None:
    if not together(group):
        folder.mkdir(parents=True, exist_ok=True)
        alone = free_turn(folder)
        commit(folder, [write(plan, folder, 0, alone)], alone)
        return
    rank, size = setup.get_rank(group), setup.get_world_size(group)
    turn = [free_turn(folder) if rank == 0 else 0]
    broadcast_object_list(turn, group=group, group_src=0)
    entries: Any
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = write(plan, folder, rank, turn[0])
    except OSError as problem:
        entries = f"rank {rank}: {problem}"
    every: list[Any] | None = [None] * size if rank == 0 else None
    gather_object(entries, every, group=group, group_dst=0)
    told: list[Any] = [None]
    if every is not None:
        failures = [each for each in every if isinstance(each, str)]
        told = ["; ".join(failures)]
        if not failures:
            commit(folder, every, turn[0])
    broadcast_object_list(told, group=group, group_src=0)
    if told[0]:
        raise CheckpointException(f"the checkpoint was not written: {told[0]}")


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> None:
    """Write state, in parts, to a folder. All processes call it; with `no_dist`, one."""
    refuse("checkpoint.save", planner=planner)
    folder = folder_of(checkpoint_id, storage_writer)
    group = ALONE if no_dist else process_group
    rank, size = place_in(group)
    write_together(planned(state_dict, rank, size, False), folder, group)


def place_in(group: Any) -> tuple[int, int]:
    if not together(group):
        return 0, 1
    return setup.get_rank(group), setup.get_world_size(group)


def save_state_dict(state_dict: dict[str, Any], storage_writer: Any, **options: Any) -> None:
    """`save`, by its older name."""
    options.pop("coordinator_rank", None)  # whoever writes the metadata, all read it
    save(state_dict, storage_writer=storage_writer, **options)


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    **options: Any,
) -> Future:
    """`save` of the state as it is now, while the program goes on; a future tells of its end."""
    refuse("checkpoint.async_save", planner=planner)
    folder = folder_of(checkpoint_id, storage_writer)
    rank, size = place_in(process_group)
    plan = planned(state_dict, rank, size, True)
    # The thread's collectives must not mix with the program's.
    group = process_group
    if together(process_group):
        ranks = setup.get_process_group_ranks(process_group)
        group = setup.new_group(ranks)
    done = Future()

    def work() -> None:
        try:
            write_together(plan, folder, group)
        except BaseException as problem:
            done.set_exception(problem)
        else:
            done.set_result(None)

    threading.Thread(target=work, name="rushlight-checkpoint").start()
    return done


# -- loading ---------------------------------------------------------------------------------------


def read_metadata(folder: Path) -> Metadata:
    path = folder / METADATA
    try:
        found = from_bytes(path.read_bytes())
    except FileNotFoundError as problem:
        raise CheckpointError(f"{folder} has no {METADATA}: it is not a checkpoint") from problem
    except CheckpointError as problem:
        raise CheckpointError(f"{path}: {problem}") from problem
    lengths: dict[str, int] = {}
    for index, place in found.storage_data.items():
        file = folder / place.relative_path
        if place.relative_path not in lengths:
            lengths[place.relative_path] = file.stat().st_size if file.is_file() else -1
        length = lengths[place.relative_path]
        if place.offset + place.length > length:
            raise CheckpointError(f"{index.fqn}: {file} has {length} bytes, too few for its part")
    return found


def read_item(folder: Path, metadata: Metadata, index: MetadataIndex) -> Any:
    place = metadata.storage_data.get(index)
    if place is None:
        raise CheckpointError(f"{index.fqn}: the metadata does not say where it is")
    with (folder / place.relative_path).open("rb") as file:
        file.seek(place.offset)
        return archive.load(io.BytesIO(file.read(place.length)), weights_only=True)


def fill(target: Tensor, metadata: Metadata, folder: Path, name: str) -> None:
    """What a process holds of a tensor, from the parts that overlap it."""
    entry = metadata.state_dict_metadata[name]
    if not isinstance(entry, TensorStorageMetadata):
        raise CheckpointError(f"{name}: the checkpoint has a value, the program a tensor")
    if tuple(target.shape) != tuple(entry.size):
        raise CheckpointError(
            f"{name}: the checkpoint has {list(entry.size)}, the program {list(target.shape)}"
        )
    part = own_part(target)
    if part is None:
        return
    own: Any = local_of(target).detach()
    filled = 0
    for source in entry.chunks:
        begins = [max(a, b) for a, b in zip(part.offsets, source.offsets)]
        ends = [
            min(a + m, b + n)
            for a, m, b, n in zip(part.offsets, part.sizes, source.offsets, source.sizes)
        ]
        if any([begin >= end for begin, end in zip(begins, ends)]):
            continue
        stored = read_item(folder, metadata, MetadataIndex(name, source.offsets))
        if not isinstance(stored, Tensor) or tuple(stored.shape) != tuple(source.sizes):
            raise CheckpointError(f"{name}: the part at {tuple(source.offsets)} is another")
        here = tuple([slice(b - o, e - o) for b, e, o in zip(begins, ends, part.offsets)])
        there = tuple([slice(b - o, e - o) for b, e, o in zip(begins, ends, source.offsets)])
        whole: Any = stored.detach()
        own[here].copy_(whole[there])
        filled += math.prod([e - b for b, e in zip(begins, ends)])
    if filled < math.prod(part.sizes):
        raise CheckpointError(f"{name}: the checkpoint lacks some of its elements")


def rebuilt(value: Any, path: tuple[Any, ...], metadata: Metadata, folder: Path) -> Any:
    """The program's state with the checkpoint's values; tensors are written in place."""
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        value.load_state_dict(rebuilt(value.state_dict(), path, metadata, folder))
        return value
    if isinstance(value, Mapping):
        target: Any = value
        for key in list(value):
            target[key] = rebuilt(value[key], (*path, str(key)), metadata, folder)
        return value
    if not is_leaf(value):
        value[:] = [
            rebuilt(inner, (*path, index), metadata, folder) for index, inner in enumerate(value)
        ]
        return value
    name = name_of(path)
    if name not in metadata.state_dict_metadata:
        kind = "tensor" if isinstance(value, Tensor) else "value"
        raise CheckpointError(
            f"Missing key in checkpoint state_dict: the checkpoint has no {kind} {name}."
        )
    if isinstance(value, Tensor):
        fill(value, metadata, folder, name)
        return value
    return read_item(folder, metadata, MetadataIndex(name))


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read into state that is there, whatever its layout and the number of processes."""
    refuse("checkpoint.load", planner=planner)
    folder = folder_of(checkpoint_id, storage_reader)
    metadata = read_metadata(folder)
    with no_grad():
        rebuilt(state_dict, (), metadata, folder)
    if together(ALONE if no_dist else process_group):
        barrier(process_group)


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, **options: Any) -> None:
    """`load`, by its older name."""
    options.pop("coordinator_rank", None)
    load(state_dict, storage_reader=storage_reader, **options)


# -- to and from one file --------------------------------------------------------------------------


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """All of a checkpoint in one file, as `torch.save` writes it."""
    folder = Path(dcp_checkpoint_dir)
    metadata = read_metadata(folder)
    paths = metadata.planner_data or {}
    whole: dict[str, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            value = functions.empty(list(entry.size), dtype=entry.properties.dtype)
            fill(value, metadata, folder, name)
        else:
            value = read_item(folder, metadata, MetadataIndex(name))
        place_at(whole, paths.get(name, (name,)), value)
    archive.save(whole, torch_save_path)


def place_at(whole: Any, path: tuple[Any, ...], value: Any) -> None:
    """Put a value into nested mappings and lists, which are made where they are missing."""
    for word, following in pairwise(path):
        inner: Any = [] if isinstance(following, int) else {}
        if isinstance(word, int):
            whole += [None] * (word + 1 - len(whole))
            whole[word] = inner if whole[word] is None else whole[word]
        else:
            whole.setdefault(word, inner)
        whole = whole[word]
    last = path[-1]
    if isinstance(last, int):
        whole += [None] * (last + 1 - len(whole))
    whole[last] = value


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """The state in a file of `torch.save`, as a checkpoint."""
    state = archive.load(torch_save_path, weights_only=True)
    save(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)
