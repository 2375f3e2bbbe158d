"""torch.distributed.checkpoint: state in parts, read by any number of processes.

Each process writes its parts of tensors as plain bytes to one file; rank 0 writes, last and at
once, `.metadata`, JSON that says where each part lies. Reading takes from any file what overlaps a
process's parts. Nothing that is read is executed, and everything is checked against the files'
sizes.
"""

from __future__ import annotations

import json
import math
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rushlight.autograd.grad_mode import no_grad
from rushlight.base.errors import CheckpointError
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.distributed import setup
from rushlight.distributed.buffers import Flat
from rushlight.distributed.collectives import barrier
from rushlight.distributed.dtensor import DTensor
from rushlight.distributed.errors import refuse
from rushlight.distributed.objects import broadcast_object_list, gather_object
from rushlight.distributed.placements import Partial, Shard, part_of
from rushlight.futures import Future

__all__ = [
    "CheckpointException", "FileSystemReader", "FileSystemWriter", "async_save", "load",
    "load_state_dict", "save", "save_state_dict",
]  # fmt: skip

METADATA = ".metadata"
VERSION = 1
DTYPES = {
    str(each).rpartition(".")[2]: each
    for each in vars(dtypes).values()
    if isinstance(each, dtypes.dtype)
}
SIMPLE = (str, int, float, bool, type(None))


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


def flatten(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(name, leaf) of nested state; a name is the JSON of its path, or its only word."""
    value = plain(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from flatten(inner, (*path, index))
        yield json.dumps([*path, "#"]), len(value)
    else:
        yield json.dumps(list(path)), value


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
    """What a process writes: parts of tensors with their memory, and values."""

    tensors: list[tuple[str, Tensor, Part, Any]]
    values: dict[str, Any]


def planned(state_dict: dict[str, Any], rank: int, size: int, copies: bool) -> Plan:
    """Parts that only this process has, and its share of what all have."""
    tensors: list[tuple[str, Tensor, Part, Any]] = []
    values = {}
    for number, (name, leaf) in enumerate(flatten(state_dict)):
        if isinstance(leaf, Tensor):
            mine = is_first_copy(leaf) if isinstance(leaf, DTensor) else number % size == rank
            part = own_part(leaf) if mine else None
            if part is not None and 0 not in part.sizes:
                data = Flat(local_of(leaf)).values
                tensors.append((name, leaf, part, data.copy() if copies else data))
            elif part is not None:
                tensors.append((name, leaf, part, None))
        elif isinstance(leaf, SIMPLE):
            values[name] = leaf
        else:
            raise CheckpointError(
                f"{name} is a {type(leaf).__name__}; checkpoints hold tensors, numbers and text"
            )
    return Plan(tensors, values)


def write(plan: Plan, folder: Path, rank: int, token: str) -> dict[str, Any]:
    """One process's file; answers what is in it."""
    file_name = f"__{rank}_{token}.distcp"
    entries: dict[str, Any] = {}
    with (folder / file_name).open("wb") as file:
        for name, tensor, part, data in plan.tensors:
            begin = file.tell()
            if data is not None:
                file.write(memoryview(data.view(np.uint8)))
            entries[name] = {
                "shape": list(tensor.shape),
                "dtype": str(tensor.dtype).rpartition(".")[2],
                "parts": [
                    {"offsets": part.offsets, "sizes": part.sizes, "file": file_name,
                     "begin": begin}
                ],
            }  # fmt: skip
        file.flush()
        os.fsync(file.fileno())
    return entries


def commit(folder: Path, every: list[dict[str, Any]], values: dict[str, Any]) -> None:
    """The metadata, written beside and put in place at once: a checkpoint is there or is not."""
    tensors: dict[str, Any] = {}
    for entries in every:
        for name, entry in entries.items():
            known = tensors.setdefault(name, {**entry, "parts": []})
            known["parts"] += entry["parts"]
    temporary = folder / f"{METADATA}.{uuid.uuid4().hex}"
    text = json.dumps({"version": VERSION, "tensors": tensors, "values": values})
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(folder / METADATA)


def write_together(plan: Plan, folder: Path, group: Any) -> None:
    if not together(group):
        folder.mkdir(parents=True, exist_ok=True)
        commit(folder, [write(plan, folder, 0, uuid.uuid4().hex[:8])], plan.values)
        return
    rank, size = setup.get_rank(group), setup.get_world_size(group)
    # A new name each time: the files of the checkpoint before stay whole until this one is.
    token = [uuid.uuid4().hex[:8]]
    broadcast_object_list(token, group=group, group_src=0)
    entries: Any
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = write(plan, folder, rank, token[0])
    except OSError as problem:
        entries = f"rank {rank}: {problem}"
    every: list[Any] | None = [None] * size if rank == 0 else None
    gather_object(entries, every, group=group, group_dst=0)
    told: list[Any] = [None]
    if every is not None:
        failures = [each for each in every if isinstance(each, str)]
        told = ["; ".join(failures)]
        if not failures:
            commit(folder, every, plan.values)
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


def read_metadata(folder: Path) -> dict[str, Any]:
    path = folder / METADATA
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != VERSION:
            raise CheckpointError(f"{path}: version {found['version']} is not {VERSION}")
        for name, entry in found["tensors"].items():
            check_entry(folder, name, entry)
        dict.items(found["values"])
    except FileNotFoundError as problem:
        raise CheckpointError(f"{folder} has no {METADATA}: it is not a checkpoint") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CheckpointError(f"{path} is damaged: {problem!r}") from problem
    checked: dict[str, Any] = found
    return checked


def whole_numbers(values: Any, count: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == count
        and all([type(value) is int and 0 <= value < 1 << 48 for value in values])
    )


def numpy_dtype(name: Any) -> Any:
    found = DTYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise CheckpointError(f"a checkpoint names a dtype {name!r}, which there is not")
    return found.np


def check_entry(folder: Path, name: str, entry: Any) -> None:
    """Parts lie within their tensor and within files of the folder."""
    shape = entry["shape"]
    if not whole_numbers(shape, len(shape)):
        raise CheckpointError(f"{name}: the shape {shape!r} is none")
    width = np.dtype(numpy_dtype(entry["dtype"])).itemsize
    for part in entry["parts"]:
        offsets, sizes, file = part["offsets"], part["sizes"], part["file"]
        inside = whole_numbers(offsets, len(shape)) and whole_numbers(sizes, len(shape))
        if not inside or any([o + s > n for o, s, n in zip(offsets, sizes, shape)]):
            raise CheckpointError(f"{name}: a part at {offsets!r} of {sizes!r} is not in {shape!r}")
        if not isinstance(file, str) or Path(file).name != file:
            raise CheckpointError(f"{name}: {file!r} is not a file of the checkpoint")
        if not whole_numbers([part["begin"]], 1):
            raise CheckpointError(f"{name}: a part begins at {part['begin']!r}")
        path = folder / file
        length = path.stat().st_size if path.is_file() else -1
        if part["begin"] + math.prod(sizes) * width > length:
            raise CheckpointError(f"{name}: {path} has {length} bytes, too few for its part")


def fill(target: Tensor, entry: dict[str, Any], folder: Path, name: str) -> None:
    """What a process holds of a tensor, from the parts that overlap it."""
    if list(target.shape) != entry["shape"]:
        raise CheckpointError(
            f"{name}: the checkpoint has {entry['shape']}, the program {list(target.shape)}"
        )
    part = own_part(target)
    if part is None:
        return
    dtype = numpy_dtype(entry["dtype"])
    flat = Flat(local_of(target))
    own = flat.values.reshape(part.sizes)
    filled = 0
    for source in entry["parts"]:
        begins = [max(a, b) for a, b in zip(part.offsets, source["offsets"])]
        ends = [
            min(a + m, b + n)
            for a, m, b, n in zip(part.offsets, part.sizes, source["offsets"], source["sizes"])
        ]
        if any([begin >= end for begin, end in zip(begins, ends)]):
            continue
        stored = np.memmap(
            folder / source["file"], np.uint8, "r", source["begin"],
            (math.prod(source["sizes"]) * np.dtype(dtype).itemsize,),
        ).view(dtype).reshape(source["sizes"])  # fmt: skip
        here = tuple([slice(b - o, e - o) for b, e, o in zip(begins, ends, part.offsets)])
        there = tuple([slice(b - o, e - o) for b, e, o in zip(begins, ends, source["offsets"])])
        own[here] = stored[there].astype(own.dtype, copy=False)
        filled += math.prod([e - b for b, e in zip(begins, ends)])
    if filled < math.prod(part.sizes):
        raise CheckpointError(f"{name}: the checkpoint lacks some of its elements")
    flat.restore()


def rebuilt(value: Any, path: tuple[Any, ...], metadata: Any, folder: Path, strict: bool) -> Any:
    """The program's state with the checkpoint's values; tensors are written in place."""
    if isinstance(value, dict):
        for key in list(value):
            value[key] = rebuilt(value[key], (*path, key), metadata, folder, strict)
        return value
    if isinstance(value, (list, tuple)):
        found = [
            rebuilt(inner, (*path, index), metadata, folder, strict)
            for index, inner in enumerate(value)
        ]
        if isinstance(value, list):
            value[:] = found
            return value
        return type(value)(found)
    name = json.dumps(list(path))
    if isinstance(value, Tensor):
        entry = metadata["tensors"].get(name)
        if entry is None:
            if strict:
                raise CheckpointError(f"the checkpoint has no tensor {'.'.join(map(str, path))}")
            return value
        fill(value, entry, folder, ".".join(map(str, path)))
        return value
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        state = rebuilt(value.state_dict(), path, metadata, folder, strict)
        value.load_state_dict(state)
        return value
    if name not in metadata["values"]:
        if strict:
            raise CheckpointError(f"the checkpoint has no value {'.'.join(map(str, path))}")
        return value
    return metadata["values"][name]


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
        rebuilt(state_dict, (), metadata, folder, True)
    if together(ALONE if no_dist else process_group):
        barrier(process_group)


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, **options: Any) -> None:
    """`load`, by its older name."""
    options.pop("coordinator_rank", None)
    load(state_dict, storage_reader=storage_reader, **options)
