"""Batch rules: how frequent ops work on all samples at once.

A rule is a function (level, op, args) that runs `op` (or another one) below `level` on values whose
batch axis comes first, and wraps what it gets. The same rule serves an op, its view-copy form and,
where it leaves the first operand's memory in place, its in-place form. What has no rule here nor
one from its kind is run sample by sample, which is right, only slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import batching, geometry, ports
from rushlight.core.batching import NO_CONTROL_FLOW, NO_ITEM, VmapLevel, is_batched
from rushlight.core.device import channels_last, channels_last_3d
from rushlight.core.dtype import bool_, uint8
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, strides_of
from rushlight.opset import functions as aten
from rushlight.opset.registry import find

Args = tuple[Any, ...]
BatchRule = Callable[[VmapLevel, OpOverload, Args], Any]
RULES: dict[str, BatchRule] = {}
# Rules that write through their first operand when they run an in-place op.
WRITING: set[BatchRule] = set()
FOUND: dict[OpOverload, BatchRule | None] = {}


def rule(names: str, writes: bool = False) -> Callable[[BatchRule], BatchRule]:
    """Register a rule for the ops of these names."""

    def attach(function: BatchRule) -> BatchRule:
        for name in names.split():
            RULES[name] = function
        if writes:
            WRITING.add(function)
        return function

    return attach


# Composites whose bodies look at values, and so cannot run on batches.
READING = frozenset(
    (
        "_new_zeros_with_same_feature_meta",
        "allclose",
        "is_nonzero",
        "item",
        "linspace",
        "logspace",
        "one_hot",
    )
)


def find_rule(op: OpOverload) -> BatchRule | None:
    if op in FOUND:
        return FOUND[op]
    source = op if op.functional is None else op.functional
    name = source.base_name
    if source.kind.name == "VIEW_COPY":
        name = name.removesuffix("_copy")
    found = RULES.get(name) if op.namespace == "aten" else None
    if op.out_positions or (op.mutated_positions and found not in WRITING):
        found = None
    if source.body is not None and name not in READING:
        # `max.other` is no reduction: a rule is meant for the primitive overloads of its name.
        found = None
    FOUND[op] = found
    return found


ports.fill(find_batch_rule=find_rule)


def argument(op: OpOverload, args: Args, name: str) -> Any:
    names = op.argument_names
    return args[names.index(name)] if name in names else None


def replaced(op: OpOverload, args: Args, **changes: Any) -> Args:
    return tuple([changes.get(name, a) for name, a in zip(op.argument_names, args, strict=True)])


def shifted(dim: int, rank: int) -> int:
    """A dim of one sample as a dim of values whose batch axis comes first."""
    found: int = geometry.wrap_dim(dim, rank)
    return found + 1


def finished(level: VmapLevel, op: OpOverload, result: Any) -> Any:
    return result if op.mutated_positions else level.wrap(result)


# -- the same op on the values ---------------------------------------------------------------------


@rule(
    "alias detach lift_fresh _conj _neg_view view_as_real view_as_complex clone _to_copy "
    "zeros_like ones_like full_like empty_like nan_to_num zero",
    writes=True,
)
def straight(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    if argument(op, args, "memory_format") in (channels_last, channels_last_3d):
        return level.loop(op, args)
    return finished(level, op, level.below(op, (level.front(args[0]), *args[1:])))


def trailing(rank_of: Callable[[Args], int]) -> BatchRule:
    """Ops on the last dims that leave the others alone, once a sample has enough dims."""

    def apply(level: VmapLevel, op: OpOverload, args: Args) -> Any:
        if args[0].dim() < rank_of(args):
            return level.loop(op, args)
        return finished(level, op, level.below(op, (level.front(args[0]), *args[1:])))

    return apply


RULES["tril"] = RULES["triu"] = trailing(lambda args: 2)
RULES["pixel_shuffle"] = RULES["pixel_unshuffle"] = trailing(lambda args: 3)
RULES["constant_pad_nd"] = trailing(lambda args: len(args[1]) // 2)
WRITING.add(RULES["tril"])


@rule("native_dropout_backward _standard_gamma_grad")
def aligned(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    rank = max([value.dim() for value in args if isinstance(value, Tensor)])
    return level.wrap(level.below(op, tuple([level.full(value, rank) for value in args])))


@rule("copy", writes=True)
def copy(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    target, source = args[:2]
    if source.dim() > target.dim():
        return level.loop(op, args)
    source = level.front(source, target.dim())
    return finished(level, op, level.below(op, (level.full(target), source, *args[2:])))


@rule("fill", writes=True)
def fill(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    if not is_batched(args[1], level.level):
        return straight(level, op, args)
    name = "copy_" if op.mutated_positions else "copy"
    source = level.front(args[1], args[0].dim())
    result = level.below(find(name), (level.full(args[0]), source, False))
    return finished(level, op, result)


@rule("masked_fill", writes=True)
def masked_fill(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, mask, value = args
    rank = max(self.dim(), mask.dim())
    if op.mutated_positions and self.dim() < rank:
        return level.loop(op, args)
    if not is_batched(value, level.level):
        moved = (level.full(self, rank), level.front(mask, rank), value)
        return finished(level, op, level.below(op, moved))
    chosen = aten.where(mask, value.to(self.dtype), self)
    return self.copy_(chosen) if op.mutated_positions else chosen


# -- dims ------------------------------------------------------------------------------------------

DIMS = frozenset(("dim", "dim0", "dim1", "dim2", "dims", "dimension"))


@rule(
    "glu glu_backward cumsum cumprod cummax cummin logcumsumexp _softmax _log_softmax "
    "_softmax_backward_data _log_softmax_backward_data mode kthvalue sort topk flip rot90 gather "
    "scatter scatter_add scatter_reduce slice_scatter select_scatter diagonal_scatter unbind split "
    "unsafe_split split_with_sizes unsafe_split_with_sizes select slice diagonal unfold transpose "
    "logsumexp _fft_c2c _fft_r2c _fft_c2r",
    writes=True,
)
def along(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    """Dims move by one; a 0-dim sample has one dim for the time being."""
    rank = args[0].dim()
    scalar = rank == 0
    moved: list[Any] = []
    for name, value in zip(op.argument_names, args, strict=True):
        if isinstance(value, Tensor):
            full = level.full(value)
            if scalar and value.dim() == 0:
                full = level.run(full.unsqueeze, 1)
            value = full
        elif name in DIMS and value is not None:
            if isinstance(value, (list, tuple)):
                value = tuple([shifted(dim, max(rank, 1)) for dim in value])
            else:
                value = shifted(value, max(rank, 1))
        elif name == "keepdim" and scalar:
            value = False
        moved.append(value)
    result = level.below(op, tuple(moved))
    if op.mutated_positions:
        return args[0]
    if scalar:
        result = level.run(without_dim, result)
    return level.wrap(result)


def without_dim(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([without_dim(item) for item in value])
    return value.squeeze(1) if value.dim() > 1 else value


# The overload with a dim that an overload without one amounts to.
OVER_DIM = {
    "sum": ("sum", "dim_IntList"),
    "mean": ("mean", "dim"),
    "any": ("any", "dim"),
    "all": ("all", "dim"),
    "prod": ("prod", "dim_int"),
    "max": ("amax", "default"),
    "min": ("amin", "default"),
}
LISTED = frozenset(("sum", "mean", "max", "min"))


@rule(
    "sum nansum mean any all count_nonzero prod amax max amin min argmax argmin aminmax "
    "linalg_vector_norm norm var var_mean std std_mean median nanmedian"
)
def reduction(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    if "dim" not in op.argument_names:
        return whole(level, op, args)
    rank = args[0].dim()
    dim = argument(op, args, "dim")
    listed = op._schema.arguments[op.argument_names.index("dim")].type.kind == "List"
    if dim is not None and not (listed and len(dim) == 0):
        return along(level, op, args)
    if listed:
        if dim is not None and op.base_name in ("any", "all"):
            return level.loop(op, args)
        return along(level, op, replaced(op, args, dim=tuple(range(max(rank, 1)))))
    if argument(op, args, "keepdim"):
        return level.loop(op, args)
    flat = level.run(lambda: level.front(args[0]).reshape(level.size, -1))
    return level.wrap(level.below(op, replaced(op, (flat, *args[1:]), dim=1)))


def whole(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    """A reduction of everything: over the one dim of the flattened samples."""
    named = OVER_DIM.get(op.base_name)
    if named is None or not args[0].numel() or not level.size:
        return level.loop(op, args)
    target = find(*named)
    flat = level.run(lambda: level.front(args[0]).reshape(level.size, -1))
    given = {"self": flat, "dim": (1,) if op.base_name in LISTED else 1, "keepdim": False}
    given["dtype"] = argument(op, args, "dtype")
    bound = tuple([given[name] for name in target.argument_names])
    return level.wrap(level.below(target, bound))


@rule("roll")
def roll(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    return along(level, op, args) if args[2] else level.loop(op, args)


@rule("squeeze")
def squeeze(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    value = args[0]
    rank = value.dim()
    if len(args) == 1:
        chosen: Any = range(rank)
    elif isinstance(args[1], int):
        chosen = (args[1],)
    else:
        chosen = args[1]
    dims = [shifted(dim, max(rank, 1)) for dim in chosen]
    dims = [dim for dim in dims if rank and value.shape[dim - 1] == 1]
    named = find("squeeze" if op.is_view_op else "squeeze_copy", "dims")
    return level.wrap(level.below(named, (level.front(value), tuple(dims))))


@rule("unsqueeze")
def unsqueeze(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    dim = shifted(args[1], args[0].dim() + 1)
    return level.wrap(level.below(op, (level.front(args[0]), dim)))


@rule("diag_embed")
def diag_embed(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, offset, dim1, dim2 = args
    rank = self.dim() + 1
    moved = (level.front(self), offset, shifted(dim1, rank), shifted(dim2, rank))
    return level.wrap(level.below(op, moved))


@rule("permute")
def permute(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    rank = args[0].dim()
    if len(args[1]) != rank:
        return level.loop(op, args)
    dims = (0, *[shifted(dim, rank) for dim in args[1]])
    return level.wrap(level.below(op, (level.front(args[0]), dims)))


@rule("t")
def t(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    value = level.front(args[0])
    copies = "" if op.is_view_op else "_copy"
    if args[0].dim() == 2:
        return level.wrap(level.below(find("transpose" + copies, "int"), (value, 1, 2)))
    if args[0].dim() > 2:
        return level.loop(op, args)
    return level.wrap(level.below(find("alias" + copies), (value,)))


# -- sizes -----------------------------------------------------------------------------------------


@rule("view _unsafe_view")
def view(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, size = args
    if not isinstance(size, (list, tuple)):
        return level.wrap(level.below(op, (level.front(self), size)))
    sizes = (level.size, *geometry.infer_size(tuple(size), self.numel()))
    return level.wrap(level.below(op, (level.front(self), sizes)))


@rule("expand")
def expand(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, size = args[:2]
    missing = len(size) - self.dim()
    if missing < 0 or any([entry == -1 for entry in size[:missing]]):
        return level.loop(op, args)
    moved = (level.front(self, len(size)), (level.size, *size), *args[2:])
    return level.wrap(level.below(op, moved))


@rule("repeat")
def repeat(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, repeats = args
    if len(repeats) < self.dim():
        return level.loop(op, args)
    return level.wrap(level.below(op, (level.front(self, len(repeats)), (1, *repeats))))


@rule("new_zeros new_ones new_empty new_full")
def new_sized(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    size = (level.size, *argument(op, args, "size"))
    return level.wrap(level.below(op, replaced(op, (level.front(args[0]), *args[1:]), size=size)))


@rule("new_empty_strided")
def new_empty_strided(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, size, stride = args[:3]
    extent = geometry.storage_extent(tuple(size), tuple(stride), 0)
    moved = (level.front(self), (level.size, *size), (extent, *stride), *args[3:])
    return level.wrap(level.below(op, moved))


@rule("_new_zeros_with_same_feature_meta")
def zeros_with_meta(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, other, batch_dims = args
    if not is_batched(other, level.level):
        return level.wrap(level.below(op, (level.front(self), other, batch_dims + 1)))
    if batch_dims:
        return level.loop(op, args)
    value = other._value
    return batching.batched(level.below(op, (value, value, 0)), other._axis, level.level)


@rule("as_strided")
def as_strided(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    """Within the memory that one sample covers: beyond it lie the other samples."""
    self, size, stride, offset = args
    value = level.front(self)
    start = value.storage_offset()
    offset = start if offset is None else offset
    own = geometry.storage_extent(tuple(self.shape), strides_of(self), 0)
    wanted = geometry.storage_extent(tuple(size), tuple(stride), 0)
    low, high = offset, offset + wanted
    if wanted and (low < start or high > start + own):
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {offset}) can access memory "
            f"outside of `tensor`. `result` can access some memory in range [{low}, {high}], but "
            f"`tensor` can only access some memory in range [{start}, {start + own}]. This is not "
            "supported inside of vmap, please try to rewrite the `as_strided` call as a sequence "
            "of PyTorch view operations"
        )
    step = value.stride(0)
    moved = (value, (level.size, *size), (step, *stride), offset)
    return level.wrap(level.below(op, moved))


@rule("select_backward slice_backward diagonal_backward unfold_backward")
def view_backward(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    size = args[1]
    changes: dict[str, Any] = {"input_sizes": (level.size, *size)}
    for name in DIMS & set(op.argument_names):
        changes[name] = shifted(argument(op, args, name), max(len(size), 1))
    if not size:
        return level.loop(op, args)
    moved = replaced(op, (level.front(args[0]), *args[1:]), **changes)
    return level.wrap(level.below(op, moved))


# -- joining ---------------------------------------------------------------------------------------


@rule("cat stack")
def cat(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    tensors, dim = args
    if op.base_name == "cat":
        kept = [item for item in tensors if tuple(item.shape) != (0,)]
        tensors = kept or tensors
    rank = tensors[0].dim() + (op.base_name == "stack")
    if any([item.dim() != tensors[0].dim() for item in tensors]) or not rank:
        return level.loop(op, args)
    joined = level.below(op, ([level.full(item) for item in tensors], shifted(dim, rank)))
    return level.wrap(joined)


# -- indexing --------------------------------------------------------------------------------------


@rule("index_select")
def index_select(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, dim, index = args
    if self.dim() == 0 or index.dim() != 1:
        return level.loop(op, args)
    if not is_batched(index, level.level):
        moved = (level.front(self), shifted(dim, self.dim()), index)
        return level.wrap(level.below(op, moved))
    axis = shifted(dim, self.dim()) - 1
    rows = level.front(index)

    def select() -> Any:
        if not is_batched(self, level.level):
            flat = self.index_select(axis, rows.reshape(-1))
            return flat.unflatten(axis, (level.size, rows.shape[1])).movedim(axis, 0)
        value = level.front(self)
        shape = [1] * value.dim()
        shape[0], shape[axis + 1] = rows.shape
        sizes = list(value.shape)
        sizes[axis + 1] = rows.shape[1]
        return value.gather(axis + 1, rows.reshape(shape).expand(sizes))

    return level.wrap(level.run(select))


@rule("index_add index_copy index_reduce", writes=True)
def index_write(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, dim, index, source = args[:4]
    if is_batched(index, level.level) or self.dim() == 0 or source.dim() != self.dim():
        return level.loop(op, args)
    dim = shifted(dim, self.dim())
    moved = (level.full(self), dim, index, level.full(source), *args[4:])
    return finished(level, op, level.below(op, moved))


@rule("index_fill", writes=True)
def index_fill(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, dim, index, value = args
    if not is_batched(self, level.level) or self.dim() == 0:
        return level.loop(op, args)
    if is_batched(index, level.level) or is_batched(value, level.level):
        return level.loop(op, args)
    moved = (level.front(self), shifted(dim, self.dim()), index, value)
    return finished(level, op, level.below(op, moved))


class Subscripts:
    """Index tensors of one sample, as index tensors of all samples."""

    def __init__(self, level: VmapLevel, indices: Any) -> None:
        given = [i for i, entry in enumerate(indices) if entry is not None]
        hidden = [i for i in given if is_batched(indices[i], level.level)]
        self.first = given[0]
        self.adjacent = given == list(range(given[0], given[-1] + 1))
        masks = [i for i in given if indices[i].dtype in (bool_, uint8)]
        if set(masks) & set(hidden):
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. "
                "Attempting to batch over indexing with a boolean mask."
            )
        ranks = [1 if i in masks else indices[i].dim() for i in given]
        self.rank = max(ranks)
        self.batched = bool(hidden)
        self.simple = not masks
        if not hidden:
            self.entries = [None, *indices]
            return
        moved = [None if e is None else level.front(e, self.rank) for e in indices]

        def samples() -> Any:
            numbers = aten.arange(level.size)
            return numbers.reshape((level.size,) + (1,) * self.rank)

        self.entries = [level.run(samples), *moved]

    def axis(self) -> int:
        """Where the batch axis is in what `index` gives."""
        return 0 if self.batched or self.adjacent else self.rank


@rule("index _unsafe_index")
def index(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, indices = args
    if all([entry is None for entry in indices]):
        return straight(level, find("alias"), (self,))
    parts = Subscripts(level, indices)
    if not parts.batched:
        found = level.below(op, (level.front(self), parts.entries))
        return level.wrap(found, parts.axis())
    if not is_batched(self, level.level) and parts.simple:
        # Only the subscripts vary: their batch axis leads the dims they give.
        moved = [None if e is None else level.front(e, parts.rank) for e in indices]
        found = level.below(op, (self, moved))
        return level.wrap(found, parts.first if parts.adjacent else 0)
    found = level.below(op, (level.full(self), parts.entries))
    if parts.adjacent and parts.first:
        before = tuple(range(1, 1 + parts.rank))
        after = tuple([dim + parts.first for dim in before])
        found = level.run(found.movedim, before, after)
    return level.wrap(found)


def covered_dims(entry: Any) -> int:
    """How many dims of the indexed tensor a subscript stands for."""
    return entry.dim() if entry.dtype in (bool_, uint8) else 1


@rule("index_put _unsafe_index_put", writes=True)
def index_put(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, indices, values, accumulate = args
    if all([entry is None for entry in indices]):
        return level.loop(op, args)
    parts = Subscripts(level, indices)
    # Values must broadcast against the dims in the order that indexing gives them.
    if parts.axis() or (parts.batched and parts.adjacent and parts.first):
        return level.loop(op, args)
    if is_batched(values, level.level):
        covered = sum([covered_dims(entry) for entry in indices if entry is not None])
        values = level.front(values, self.dim() - covered + parts.rank)
    moved = (level.full(self), parts.entries, values, accumulate)
    return finished(level, op, level.below(op, moved))


@rule("embedding")
def embedding(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    if is_batched(args[0], level.level):
        return level.loop(op, args)
    return level.wrap(level.below(op, (args[0], level.front(args[1]), *args[2:])))


@rule("bucketize isin")
def first_only(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    if not is_batched(args[0], level.level) or is_batched(args[1], level.level):
        return level.loop(op, args)
    return level.wrap(level.below(op, (level.front(args[0]), *args[1:])))


# -- products --------------------------------------------------------------------------------------


def product(level: VmapLevel, first: Any, second: Any) -> Any:
    """matmul of two operands with a rank of at least 2, batch dims aligned."""
    rank = max(first.dim(), second.dim())
    if rank == 2 and first.dim() == 2 == second.dim():
        return level.run(matrices, level, first, second)
    return level.run(aten.matmul, level.front(first, rank), level.front(second, rank))


def matrices(level: VmapLevel, first: Any, second: Any) -> Any:
    """`mm` of stacks of matrices, or of a stack with one: two ops at most around the product."""
    left, right = level.front(first), level.front(second)
    if right.dim() == 3:
        if left.dim() == 3:
            return left.bmm(right)
        # (m, k) x (b, k, n): one product with all columns side by side.
        return aten.matmul(left, right)
    size, rows, inner = left.shape
    return left.reshape(size * rows, inner).mm(right).view(size, rows, right.shape[1])


def is_fitting(first: Any, second: Any, ranks: tuple[int, int]) -> bool:
    """Whether the op itself would take the operands; if not, it says what is wrong."""
    return (
        (first.dim(), second.dim()) == ranks
        and first.dtype is second.dtype
        and first.shape[-1] == second.shape[-2 if ranks[1] > 1 else -1]
        and (ranks != (3, 3) or first.shape[0] == second.shape[0])
    )


MATRICES = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1)}


@rule("mm bmm mv dot vdot")
def matrix_product(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    first, second = args
    ranks = MATRICES[op.base_name]
    if not is_fitting(first, second, ranks):
        return level.loop(op, args)
    if op.base_name == "vdot":
        first = first.conj()
    if ranks[0] == 1:
        first = first.unsqueeze(0)
    if ranks[1] == 1:
        second = second.unsqueeze(1)
    found = product(level, first, second)
    for _ in range(2 - ranks[0]):
        found = level.run(found.squeeze, -2)
    for _ in range(2 - ranks[1]):
        found = level.run(found.squeeze, -1)
    return level.wrap(found)


SUMS = {"addmm": ("mm", (2, 2)), "addmv": ("mv", (2, 1)), "baddbmm": ("bmm", (3, 3))}


@rule("addmm addmv baddbmm")
def sum_and_product(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    self, first, second, beta, alpha = args
    name, ranks = SUMS[op.base_name]
    if not is_fitting(first, second, ranks) or self.dtype is not first.dtype:
        return level.loop(op, args)
    found = getattr(aten, name)(first, second)
    found = found if alpha == 1 else found * alpha
    if beta == 0:
        return found
    return found + (self if beta == 1 else self * beta)


# -- losses ----------------------------------------------------------------------------------------


@rule(
    "mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits"
)
def loss(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    """Element by element, then reduced within each sample."""
    reduction = argument(op, args, "reduction")
    tensors = [value for value in args if isinstance(value, Tensor)]
    shape, kind = tensors[0].shape, tensors[0].dtype
    if any([value.shape != shape or value.dtype is not kind for value in tensors]):
        return level.loop(op, args)
    bound = replaced(op, args, reduction=0)
    moved = tuple([level.full(value) for value in bound])
    found = level.wrap(level.below(op, moved))
    if reduction == 0:
        return found
    return found.mean() if reduction == 1 else found.sum()


# -- bodies that read values -----------------------------------------------------------------------


@rule("linspace logspace")
def per_sample(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    return level.loop(op, args)


@rule("one_hot")
def one_hot(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    if args[1] < 0:
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive "
            "num_classes argument."
        )
    return level.loop(op, args)


# -- values that decide --------------------------------------------------------------------------


def refusing(message: str) -> BatchRule:
    def refuse(level: VmapLevel, op: OpOverload, args: Args) -> Any:
        if not level.has_batched(args):
            return level.below(op, args)
        raise RuntimeError(message.format(name=op.name()))

    return refuse


DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
    "over {name}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need "
    "this feature."
)
rule("nonzero _unique _unique2 unique_dim unique_consecutive unique_dim_consecutive bincount")(
    refusing(DYNAMIC)
)
RULES["item"] = RULES["_local_scalar_dense"] = refusing(NO_ITEM)
RULES["is_nonzero"] = refusing(NO_CONTROL_FLOW)
RULES["equal"] = refusing(
    "Batching rule not implemented for {name}. We could not generate a fallback."
)
RULES["allclose"] = refusing(
    "vmap over torch.allclose isn't supported yet. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues if you need this feature."
)


@rule("masked_select")
def masked_select(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    if is_batched(args[1], level.level):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot "
            "support this because for each batch this would return a differently shaped Tensor. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this "
            "feature."
        )
    return level.loop(op, args)
