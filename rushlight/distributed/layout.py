"""Moving tensors from one layout on a mesh to another, by collectives along its dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.mesh import DeviceMesh
from rushlight.distributed.placements import Partial, Placement, Replicate, Shard, part_of
from rushlight.distributed.reductions import ReduceOp
from rushlight.opset import functions

__all__ = ["gathered", "local_shape", "move", "own_part"]

Sizes = Sequence[int]
REDUCTIONS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "max": ReduceOp.MAX, "min": ReduceOp.MIN,
    "product": ReduceOp.PRODUCT,
}  # fmt: skip


def own_part(whole: Tensor, dim: int, parts: int, index: int) -> Tensor:
    begin, end = part_of(whole.shape[dim], parts, index)
    part: Tensor = whole.narrow(dim, begin, end - begin).contiguous()
    return part


def gathered(own: Tensor, dim: int, count: int, group: Any) -> Tensor:
    """The whole of a tensor that is sharded along `dim`, where it has `count` elements."""
    parts = []
    for index in range(group.size()):
        begin, end = part_of(count, group.size(), index)
        sizes = list(own.shape)
        sizes[dim] = end - begin
        parts.append(functions.empty(sizes, dtype=own.dtype))
    own = own.contiguous()
    # Parts may differ in length: everybody sends what it has.
    collectives.all_to_all(parts, [own] * group.size(), group)
    whole: Tensor = functions.cat(parts, dim)
    return whole


def local_shape(shape: Sizes, mesh: DeviceMesh, placements: Sequence[Placement]) -> list[int]:
    """The size of this process's part."""
    sizes = list(shape)
    coordinate = mesh.get_coordinate() or [0] * mesh.ndim
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            begin, end = part_of(sizes[placement.dim], mesh.size(dim), coordinate[dim])
            sizes[placement.dim] = end - begin
    return sizes


def along(shape: Sizes, mesh: DeviceMesh, placements: Sequence[Placement], dim: int) -> list[int]:
    """The size of the part that the dims of the mesh before `dim` leave."""
    before = [*placements[:dim], *[Replicate()] * (mesh.ndim - dim)]
    return local_shape(shape, mesh, before)


def change(
    own: Tensor, before: Placement, after: Placement, mesh: DeviceMesh, dim: int, sizes: Sizes
) -> Tensor:
    """One dim of a mesh; `sizes` are those of the tensor that this dim spreads."""
    group = mesh.get_group(dim)
    index, parts = group.rank(), group.size()
    if before == after:
        return own
    if isinstance(before, Partial) and isinstance(after, Shard):
        whole = own.movedim(after.dim, 0)
        if whole.shape[0] % parts == 0:
            out = functions.empty([whole.shape[0] // parts, *whole.shape[1:]], dtype=own.dtype)
            op = REDUCTIONS[before.reduce_op]
            collectives.reduce_scatter_tensor(out, whole.contiguous(), op, group)
            moved: Tensor = out.movedim(0, after.dim).contiguous()
            return moved
    if isinstance(before, Partial):
        own = own.clone()
        collectives.all_reduce(own, REDUCTIONS[before.reduce_op], group)
    elif isinstance(before, Shard):
        own = gathered(own, before.dim, sizes[before.dim], group)
    if isinstance(after, Shard):
        own = own_part(own, after.dim, parts, index)
    elif isinstance(after, Partial) and index and after.reduce_op == "sum":
        own = functions.zeros_like(own)
    return own


def move(
    own: Tensor,
    mesh: DeviceMesh,
    before: Sequence[Placement],
    after: Sequence[Placement],
    shape: Sizes,
) -> Tensor:
    """This process's part in another layout."""
    if tuple(before) == tuple(after):
        return own
    dims = range(mesh.ndim)
    now = list(before)
    # A dim can change by itself where no later one splits the same dim of the tensor.
    undone = [dim for dim in dims if now[dim] != after[dim]]
    split = [p.dim for p in [*before, *after] if isinstance(p, Shard)]
    nested = mesh.ndim > 1 and len(set(split)) < len(split)
    if nested:
        for dim in reversed(dims):
            if isinstance(now[dim], Shard) and dim >= undone[0]:
                sizes = along(shape, mesh, now, dim)
                own = change(own, now[dim], Replicate(), mesh, dim, sizes)
                now[dim] = Replicate()
    for dim in dims:
        if now[dim] != after[dim]:
            sizes = along(shape, mesh, now, dim)
            own = change(own, now[dim], after[dim], mesh, dim, sizes)
            now[dim] = after[dim]
    return own
