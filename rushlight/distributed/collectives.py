"""The collectives of torch.distributed, over tensors.

Each checks its arguments in the calling process, says in its label what must agree among processes,
and hands a program of messages (`algorithms`) to the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from rushlight.core.tensor import Tensor
from rushlight.distributed import algorithms
from rushlight.distributed.algorithms import Link, cuts
from rushlight.distributed.buffers import Flat, check_tensor, check_tensors, describe, restore_all
from rushlight.distributed.engine import Steps
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.groups import ProcessGroup, the_group
from rushlight.distributed.reductions import ReduceOp, combiner, finish_average

__all__ = [
    "_coalescing_manager",
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single",
    "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "broadcast", "gather", "monitored_barrier", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def root_in(found: ProcessGroup, root: int | None, in_group: int | None, caller: str) -> int:
    """The root's position in the group, from its rank in the world or in the group."""
    if root is not None and in_group is not None:
        raise ValueError("Can't specify both group_src and src")
    if in_group is not None:
        if not 0 <= in_group < found.size():
            raise ValueError(f"Group rank {in_group} is not part of group {found}")
        return in_group
    if root is None:
        raise ValueError("Must specify src or group_src")
    if root not in found.members:
        if found.number:
            raise ValueError(f"Global rank {root} is not part of group {found}")
        raise RuntimeError(f"ProcessGroupGloo::{caller}: invalid root rank: {root}")
    return found.members.index(root)


def check_sizes(parts: Sequence[Tensor], like: Tensor, count: int, caller: str, kind: str) -> None:
    """As many tensors as processes, each of one size and dtype."""
    if len(parts) != count:
        raise RuntimeError(
            f"ProcessGroupGloo::{caller}: invalid {kind} tensor list at index 0 "
            f"(expected length {count}, got {len(parts)})"
        )
    for index, part in enumerate(parts):
        if part.dtype != like.dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypes: {caller} got {like.dtype} and, "
                f"at index {index}, {part.dtype}"
            )
        if part.shape != like.shape:
            raise RuntimeError(
                f"ProcessGroupGloo::{caller}: invalid tensor size at index {index} "
                f"(expected {tuple(like.shape)}, got {tuple(part.shape)})"
            )


# -- all -------------------------------------------------------------------------------------------


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combine a tensor over all processes, in place, everywhere."""
    check_tensor(tensor, "tensor")
    found = the_group(group, "all_reduce")
    if found is None:
        return None
    flat = Flat(tensor)
    function = combiner(op, flat.values.dtype, "all_reduce")

    def program(link: Link) -> Steps:
        yield from algorithms.all_reduce(link, flat.values, function)
        finish_average(op, flat.values, link.size)
        flat.restore()

    detail = f"{op.name}, {describe(tensor)}"
    return found.collective("all_reduce", detail, program, [tensor], async_op)


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    check_tensors(tensors, "tensors")
    found = the_group(group, "all_reduce_coalesced")
    if found is None:
        return None
    flats = [Flat(tensor) for tensor in tensors]
    functions = [combiner(op, flat.values.dtype, "all_reduce_coalesced") for flat in flats]

    def program(link: Link) -> Steps:
        for flat, function in zip(flats, functions):
            yield from algorithms.all_reduce(link, flat.values, function)
            finish_average(op, flat.values, link.size)
        restore_all(flats)

    detail = f"{op.name}, {', '.join(map(describe, tensors))}"
    return found.collective("all_reduce_coalesced", detail, program, list(tensors), async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """Every process's tensor, everywhere."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    found = the_group(group, "all_gather")
    if found is None:
        return None
    check_sizes(tensor_list, tensor, found.size(), "allgather", "output")
    own, flats = Flat(tensor), [Flat(each) for each in tensor_list]

    def program(link: Link) -> Steps:
        yield from algorithms.all_gather(link, own.values, [flat.values for flat in flats])
        restore_all(flats)

    return found.collective("all_gather", describe(tensor), program, tensor_list, async_op)


def all_gather_coalesced(
    output_tensor_lists: Sequence[list[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`all_gather` of several tensors."""
    works = [
        all_gather([column[index] for column in output_tensor_lists], tensor, group, async_op)
        for index, tensor in enumerate(input_tensor_list)
    ]
    return works[-1] if async_op else None


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """Every process's tensor, one after the other in one tensor."""
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    found = the_group(group, "all_gather_into_tensor")
    if found is None:
        return None
    count = found.size()
    if output_tensor.dtype != input_tensor.dtype:
        raise RuntimeError(
            f"output tensor must have the same type as input tensor: {output_tensor.dtype} is not "
            f"{input_tensor.dtype}"
        )
    if output_tensor.numel() != input_tensor.numel() * count:
        raise RuntimeError(
            f"output tensor size must be equal to world_size times input tensor size: "
            f"{output_tensor.numel()} is not {count} * {input_tensor.numel()}"
        )
    own, whole = Flat(input_tensor), Flat(output_tensor)

    def program(link: Link) -> Steps:
        parts = [whole.values[piece] for piece in cuts(len(whole.values), link.size)]
        yield from algorithms.all_gather(link, own.values, parts)
        whole.restore()

    detail = describe(input_tensor)
    return found.collective("all_gather_into_tensor", detail, program, output_tensor, async_op)


all_gather_single = all_gather_into_tensor


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Combine lists of tensors over all processes; each keeps the tensor of its rank."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    found = the_group(group, "reduce_scatter")
    if found is None:
        return None
    check_sizes(input_list, output, found.size(), "reduce_scatter", "input")
    parts, out = [Flat(each) for each in input_list], Flat(output)
    function = combiner(op, out.values.dtype, "reduce_scatter")

    def program(link: Link) -> Steps:
        given = [part.values for part in parts]
        yield from algorithms.reduce_scatter(link, given, out.values, function)
        finish_average(op, out.values, link.size)
        out.restore()

    detail = f"{op.name}, {describe(output)}"
    return found.collective("reduce_scatter", detail, program, [output], async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Combine a tensor over all processes; each keeps the part of its rank."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    found = the_group(group, "reduce_scatter_tensor")
    if found is None:
        return None
    if input.dtype != output.dtype:
        raise RuntimeError(
            f"input tensor must be the same type as the output tensor: {input.dtype} is not "
            f"{output.dtype}"
        )
    if input.numel() != output.numel() * found.size():
        raise RuntimeError(
            f"input tensor must be the same size as output size times world size: {input.numel()} "
            f"is not {found.size()} * {output.numel()}"
        )
    whole, out = Flat(input), Flat(output)
    function = combiner(op, out.values.dtype, "reduce_scatter_tensor")

    def program(link: Link) -> Steps:
        parts = [whole.values[piece] for piece in cuts(len(whole.values), link.size)]
        yield from algorithms.reduce_scatter(link, parts, out.values, function)
        finish_average(op, out.values, link.size)
        out.restore()

    detail = f"{op.name}, {describe(output)}"
    return found.collective("reduce_scatter_tensor", detail, program, output, async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Each process's i-th tensor goes to process i."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    found = the_group(group, "all_to_all")
    if found is None:
        return None
    count = found.size()
    if len(output_tensor_list) != count or len(input_tensor_list) != count:
        raise RuntimeError(
            f"all_to_all needs a tensor for each of {count} processes, got "
            f"{len(input_tensor_list)} to send and {len(output_tensor_list)} to receive"
        )
    own, into = input_tensor_list[found.me], output_tensor_list[found.me]
    if own.numel() != into.numel():
        raise RuntimeError(
            f"all_to_all: rank {found.me} sends itself {tuple(own.shape)} and receives "
            f"{tuple(into.shape)}"
        )
    sent = [Flat(each) for each in input_tensor_list]
    taken = [Flat(each) for each in output_tensor_list]

    def program(link: Link) -> Steps:
        yield from algorithms.all_to_all(
            link, [flat.values for flat in sent], [flat.values for flat in taken]
        )
        restore_all(taken)

    detail = str(own.dtype)
    return found.collective("all_to_all", detail, program, output_tensor_list, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Parts of a tensor to all processes, by rows; the parts received, one after the other."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    found = the_group(group, "all_to_all_single")
    if found is None:
        return None
    whole, out = Flat(input), Flat(output)
    sent = split_rows(input, whole.values, input_split_sizes, found.size())
    taken = split_rows(output, out.values, output_split_sizes, found.size())
    if len(sent[found.me]) != len(taken[found.me]):
        raise RuntimeError(
            f"all_to_all_single: rank {found.me} sends itself {len(sent[found.me])} elements and "
            f"receives {len(taken[found.me])}"
        )

    def program(link: Link) -> Steps:
        yield from algorithms.all_to_all(link, sent, taken)
        out.restore()

    return found.collective("all_to_all_single", str(input.dtype), program, output, async_op)


def split_rows(tensor: Tensor, values: Any, sizes: Sequence[int] | None, count: int) -> list[Any]:
    """The elements of `tensor` for each process."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [rows // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    width = len(values) // rows if rows else 0
    edges = np.cumsum([0, *sizes]) * width
    return [values[begin:end] for begin, end in pairwise(edges)]


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[Together]:
    """Collectives that may travel together; here each goes when it is called."""
    yield Together()


class Together:
    """What is waited for after the collectives of `_coalescing_manager`."""

    def wait(self) -> None:
        """They have ended."""


# -- with a root -----------------------------------------------------------------------------------


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """The root's tensor, everywhere."""
    check_tensor(tensor, "tensor")
    found = the_group(group, "broadcast")
    if found is None:
        return None
    root = root_in(found, src, group_src, "broadcast")
    flat = Flat(tensor)

    def program(link: Link) -> Steps:
        yield from algorithms.broadcast(link, flat.values, root)
        flat.restore()

    detail = f"from {found.members[root]}, {describe(tensor)}"
    return found.collective("broadcast", detail, program, [tensor], async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Combine a tensor over all processes, in place, at the root."""
    check_tensor(tensor, "tensor")
    found = the_group(group, "reduce")
    if found is None:
        return None
    root = root_in(found, dst, group_dst, "reduce")
    flat = Flat(tensor)
    function = combiner(op, flat.values.dtype, "reduce")

    def program(link: Link) -> Steps:
        yield from algorithms.reduce(link, flat.values, function, root)
        if link.me == root:
            finish_average(op, flat.values, link.size)
            flat.restore()

    detail = f"{op.name} to {found.members[root]}, {describe(tensor)}"
    return found.collective("reduce", detail, program, [tensor], async_op)


def parts_at(
    found: ProcessGroup, root: int, listed: list[Tensor] | None, tensor: Tensor, caller: str,
    kind: str, end: str,
) -> list[Flat]:  # fmt: skip
    """The tensors of the list that the root gives, and no other process."""
    name = f"{caller}_list"
    if found.me != root:
        if listed:
            raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{end} ranks.")
        return []
    if not listed:
        raise ValueError(f"Argument ``{name}`` must be specified on {end} rank.")
    check_tensors(listed, name)
    check_sizes(listed, tensor, found.size(), caller, kind)
    return [Flat(each) for each in listed]


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Every process's tensor, at the root."""
    check_tensor(tensor, "tensor")
    found = the_group(group, "gather")
    if found is None:
        return None
    first = 0 if dst is None and group_dst is None else dst
    root = root_in(found, first, group_dst, "gather")
    parts = parts_at(found, root, gather_list, tensor, "gather", "output", "destination")
    own = Flat(tensor)

    def program(link: Link) -> Steps:
        yield from algorithms.gather(link, own.values, [part.values for part in parts], root)
        restore_all(parts)

    detail = f"to {found.members[root]}, {describe(tensor)}"
    return found.collective("gather", detail, program, gather_list, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """A tensor of the root's list to each process."""
    check_tensor(tensor, "tensor")
    found = the_group(group, "scatter")
    if found is None:
        return None
    first = 0 if src is None and group_src is None else src
    root = root_in(found, first, group_src, "scatter")
    parts = parts_at(found, root, scatter_list, tensor, "scatter", "input", "source")
    out = Flat(tensor)

    def program(link: Link) -> Steps:
        yield from algorithms.scatter(link, out.values, [part.values for part in parts], root)
        out.restore()

    detail = f"from {found.members[root]}, {describe(tensor)}"
    return found.collective("scatter", detail, program, [tensor], async_op)


# -- barriers --------------------------------------------------------------------------------------


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Until all processes are here."""
    found = the_group(group, "barrier")
    if found is None:
        return None
    return found.collective("barrier", "", algorithms.barrier, None, async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Until all processes are here; rank 0 says who has not come in time."""
    found = the_group(group, "monitored_barrier")
    if found is None:
        return
    limit = found.timeout if timeout is None else timeout
    arrived: set[int] = set()

    def program(link: Link) -> Steps:
        token = np.zeros(1, np.uint8)
        if link.me:
            yield [link.send(token, 0)]
            yield [link.receive(token, 0)]
            return
        heard = {i: link.receive(np.zeros(1, np.uint8), i) for i in link.others}

        def all_here() -> bool:
            for i, request in heard.items():
                if i not in arrived and request.Test():
                    arrived.add(i)
            return len(arrived) == len(heard)

        yield all_here
        yield [link.send(token, i) for i in link.others]

    try:
        found.collective("monitored_barrier", "", program, timeout=limit)
    except DistBackendError as problem:
        late = [found.members[i] for i in range(1, found.size()) if i not in arrived]
        if found.me or not late:
            raise
        which = f"Ranks {', '.join(map(str, late))}" if wait_all_ranks else f"Rank {late[0]}"
        raise DistBackendError(
            f"[Rank 0]: {which} failed to pass monitoredBarrier in "
            f"{int(limit.total_seconds() * 1000)} ms"
        ) from problem
