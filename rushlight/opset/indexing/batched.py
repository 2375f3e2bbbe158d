"""Batch rules of reads and writes by index, over ops that have rules themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core import dispatch, geometry
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset import functions as aten
from rushlight.opset.batching import settled

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = [
    "embedding",
    "embedding_bag",
    "embedding_dense_backward",
    "embedding_renorm",
    "index_fill",
    "masked_scatter",
    "masked_scatter_backward",
    "nonzero_static",
    "put",
    "take",
    "write_rows",
]


def positions(index: Any, count: Any) -> Any:
    """Indices of a flattened tensor, counted from the front."""
    flat = index.reshape((-1,))
    return aten.where(flat < 0, flat + count, flat)


def take(level: VmapLevel, op: OpOverload, self: Any, index: Any) -> Any:
    if op.out_positions or not self.numel():
        return level.loop(op, (self, index))
    flat = self.reshape((-1,))
    return flat.gather(0, positions(index, flat.shape[0])).reshape(index.shape)


def put(
    level: VmapLevel, op: OpOverload, self: Any, index: Any, source: Any, accumulate: bool
) -> Any:
    if op.out_positions or not self.numel() or not index.numel():
        return level.loop(op, (self, index, source, accumulate))
    flat = self.reshape((-1,))
    places = positions(index, flat.shape[0])
    found = aten.index_put(flat, [places], source.reshape((-1,)), accumulate)
    return settled(op, self, found.reshape(self.shape))


def embedding(
    level: VmapLevel,
    op: OpOverload,
    weight: Any,
    indices: Any,
    padding_idx: Any,
    by_count: bool,
    sparse: bool,
) -> Any:
    args = (weight, indices, padding_idx, by_count, sparse)
    if not op.out_positions and not level.holds(weight):
        return level.wrap(level.below(op, (weight, level.front(indices), *args[2:])))
    if op.out_positions or weight.dim() != 2 or by_count or sparse:
        return level.loop(op, args)
    rows = weight.index_select(0, indices.reshape((-1,)))
    rows = rows.reshape((*indices.shape, weight.shape[1]))
    if padding_idx < 0:
        return rows
    # The row of padding has no gradient.
    return aten.where((indices == padding_idx).unsqueeze(-1), rows.detach(), rows)


def embedding_dense_backward(
    level: VmapLevel, op: OpOverload,
    grad_output: Any, indices: Any, num_weights: Any, padding_idx: Any,
    scale_grad_by_freq: bool,
) -> Any:  # fmt: skip
    if op.out_positions or scale_grad_by_freq or not indices.numel():
        args = (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
        return level.loop(op, args)
    rows = indices.reshape((-1,))
    values = grad_output.reshape((rows.shape[0], grad_output.shape[-1]))
    kept = aten.logical_and(rows >= 0, rows < num_weights)
    kept = aten.logical_and(kept, rows != padding_idx)
    values = aten.where(kept.unsqueeze(-1), values, 0)
    blank = values.new_zeros((num_weights, values.shape[-1]))
    values = values.to(grad_output.dtype)
    return blank.to(grad_output.dtype).index_add(0, aten.where(kept, rows, 0), values)


def write_rows(
    level: VmapLevel, op: OpOverload, self: Any, dim: int, index: Any, source: Any, *rest: Any
) -> Any:
    """The batch rule of ops that write slices of `source` to places of `dim`."""
    if op.out_positions or source.dim() != self.dim():
        return level.loop(op, (self, dim, index, source, *rest))
    plain = op if op.functional is None else op.functional
    if self.dim() == 0:
        # One number is a row of one.
        row = (self.unsqueeze(0), 0, index.reshape((-1,)), source.unsqueeze(0), *rest)
        return settled(op, self, dispatch.call(plain, row).squeeze(0))
    if level.holds(index):
        return settled(op, self, write_own_rows(level, plain, self, dim, index, source, rest))
    dim = level.shift(dim, self.dim())
    moved = (level.full(self), dim, index, level.full(source), *rest)
    return level.finish(op, level.below(op, moved))


def write_own_rows(
    level: VmapLevel, op: OpOverload, self: Any, dim: int, index: Any, source: Any, rest: Any
) -> Any:
    """Where indices vary, the rows of all samples lie in one tensor, each sample's in turn."""
    rank, size = self.dim(), level.size
    axis = level.shift(dim, rank)
    target, places, values = level.full(self), level.full(index), level.full(source)
    count = self.shape[axis - 1]

    def every() -> Any:
        rows = target.movedim(axis, 1)
        starts = aten.arange(size, device=places.device).unsqueeze(1) * count
        own = places.reshape((size, -1))
        # What lies beyond a sample must not reach the next one: the op refuses it.
        is_inside = aten.logical_and(own >= 0, own < count)
        own = aten.where(is_inside, own + starts, size * count).flatten()
        moved = (rows.flatten(0, 1), 0, own, values.movedim(axis, 1).flatten(0, 1), *rest)
        return dispatch.call(op, moved).reshape(rows.shape).movedim(1, axis)

    return level.wrap(level.run(every))


def index_fill(
    level: VmapLevel, op: OpOverload, self: Any, dim: int, index: Any, value: Any
) -> Any:
    if level.holds(self) and self.dim() and not level.has_batched((index, value)):
        moved = (level.front(self), level.shift(dim, self.dim()), index, value)
        return level.finish(op, level.below(op, moved))
    if op.out_positions:
        return level.loop(op, (self, dim, index, value))
    whole = self if self.dim() else self.unsqueeze(0)
    dim = geometry.wrap_dim(dim, whole.dim())
    # A place may be named twice, and is filled once: marks tell which.
    places = index.reshape((-1,))
    marks = places.new_zeros((whole.shape[dim],)).index_put([places], places.new_ones(()))
    marks = (marks > 0).reshape((-1,) + (1,) * (whole.dim() - 1 - dim))
    number = value if isinstance(value, Tensor) else whole.new_tensor(value)
    found = aten.where(marks, number.to(whole.dtype), whole)
    return settled(op, self, found if self.dim() else found.squeeze(0))


def masked_scatter(level: VmapLevel, op: OpOverload, self: Any, mask: Any, source: Any) -> Any:
    """Each place that the mask chooses takes the element of `source` of its rank among them."""
    if op.out_positions or not source.numel() or not self.numel():
        return level.loop(op, (self, mask, source))
    shape = aten.broadcast_tensors([self, mask])[0].shape
    chosen = mask.expand(shape).reshape((-1,))
    ranks = (chosen.cumsum(0) - 1).clamp_min(0)
    taken = source.reshape((-1,)).gather(0, aten.where(chosen, ranks, 0)).reshape(shape)
    return settled(op, self, aten.where(mask, taken, self))


def collected(values: Any, chosen: Any, blank: Any) -> Any:
    """The values that are chosen, in the order they have, at the front of `blank`: flat tensors.
    What finds no room is dropped."""
    count = blank.shape[0]
    ranks = chosen.cumsum(0) - 1
    places = aten.where(chosen & (ranks < count), ranks, count)
    room = aten.cat([blank, blank.new_zeros((1,))])
    return room.scatter(0, places, values).narrow(0, 0, count)


def masked_scatter_backward(
    level: VmapLevel, op: OpOverload, grad_output: Any, mask: Any, sizes: Any
) -> Any:
    if op.out_positions:
        return level.loop(op, (grad_output, mask, sizes))
    chosen = mask.expand(grad_output.shape).reshape((-1,))
    blank = grad_output.new_zeros((geometry.numel(sizes),))
    return collected(grad_output.reshape((-1,)), chosen, blank).reshape(sizes)


def nonzero_static(level: VmapLevel, op: OpOverload, self: Any, size: Any, fill_value: int) -> Any:
    if op.out_positions or size < 0:
        return level.loop(op, (self, size, fill_value))
    chosen = (self != 0).reshape((-1,))
    places = aten.arange(self.numel(), device=self.device)
    found = collected(places, chosen, places.new_full((size,), -1))
    axes: list[Any] = []
    for length in reversed(self.shape):
        axes.insert(0, aten.where(found < 0, fill_value, found % max(length, 1)))
        found = aten.where(found < 0, found, found // max(length, 1))
    return aten.stack(axes, 1) if axes else places.new_zeros((size, 0))


def embedding_renorm(
    level: VmapLevel, op: OpOverload, self: Any, indices: Any, max_norm: float, norm_type: float
) -> Any:
    """Rows that an index names get a norm of at most `max_norm`."""
    if op.out_positions or self.dtype.itemsize < 4:
        return level.loop(op, (self, indices, max_norm, norm_type))
    flat = indices.reshape((-1,)).to(dtypes.int64)
    is_used = self.new_zeros((self.shape[0],)).index_fill(0, flat, 1).unsqueeze(1) != 0
    norms = aten.linalg_vector_norm(self, norm_type, [1], True)
    factors = aten.where(is_used & (norms > max_norm), max_norm / (norms + 1e-7), 1)
    return settled(op, self, self * factors)


def embedding_bag(
    level: VmapLevel, op: OpOverload, weight: Any, indices: Any, offsets: Any,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any,
    include_last_offset: bool, padding_idx: int,
) -> Any:  # fmt: skip
    """The bags of all samples, one after the other; tables of their own are joined to one."""
    from rushlight.opset.indexing.embeddingbag import MAX, bag_count

    options = (scale_grad_by_freq, mode, sparse)
    bags, (rows, width) = bag_count(offsets, include_last_offset), weight.shape
    count = indices.shape[0]
    if op.out_positions or not (level.size and bags) or indices.dim() != 1:
        given = (*options, per_sample_weights, include_last_offset, padding_idx)
        return level.loop(op, (weight, indices, offsets, *given))
    is_own = level.holds(weight)
    aten._assert_async(offsets[0] == 0, "embedding_bag: offsets[0] has to be 0")
    aten._assert_async(
        (offsets <= count).all(), f"embedding_bag: offsets must not exceed the {count} indices"
    )
    aten._assert_async(
        ((indices >= 0) & (indices < rows)).all(),
        f"embedding_bag: indices must be in the valid range [0, {rows})",
    )
    tables, places, starts, shares = [
        level.front(weight), *[level.full(v) for v in (indices, offsets, per_sample_weights)]
    ]  # fmt: skip

    def every() -> Any:
        number = aten.arange(level.size, dtype=places.dtype, device=places.device).unsqueeze(1)
        table, chosen, padding = tables, places, padding_idx
        if is_own:
            table, chosen = tables.flatten(0, 1), places + number * rows
            if padding_idx >= 0:
                # One row stands for the padding of all tables.
                padding = table.shape[0]
                chosen = aten.where(places == padding_idx, padding, chosen).to(places.dtype)
                table = aten.cat([table, table.new_zeros((1, width))])
        ends = (starts[:, :bags] + (number * count).to(starts.dtype)).flatten()
        own_shares = None if shares is None else shares.flatten()
        args = (table, chosen.flatten(), ends, *options, own_shares, False, padding)
        found, owners, sizes, most = dispatch.call(op, args)
        sizes = sizes.reshape((level.size, bags))
        most = most.reshape((level.size, bags, *most.shape[1:]))
        if is_own and mode == MAX:
            most = aten.where(sizes.unsqueeze(2) > 0, most - number.unsqueeze(2) * rows, most)
        owners = (
            owners.reshape((level.size, count)) - number * bags
            if owners.shape[0]
            else owners.expand((level.size, 0))
        )
        return found.reshape((level.size, bags, width)), owners, sizes, most

    return level.wrap(level.run(every))
