"""General ways to work on all samples of a vmap level at once, which kinds and ops name.

A batch rule is a function (level, op, *args) that runs `op` (or another one) below `level` on
values whose batch axis comes first, and wraps what it gets; `METHODS` holds those that many ops
share. One rule serves an op, its view-copy form and its in-place form, for which it answers
`level.finish`. What has no rule is run sample by sample, which is right, only slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base.errors import error
from rushlight.core import dispatch, geometry, ports
from rushlight.core.batching import NO_CONTROL_FLOW, NO_DIFFERENCE, NO_ITEM, VmapLevel
from rushlight.core.device import channels_last, channels_last_3d
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.opset import functions as aten
from rushlight.opset.kinds import DIMS, batch_rank, factor_ranks
from rushlight.opset.registry import find
from rushlight.opset.results import read_sizes

__all__ = ["METHODS", "argument", "find_rule", "replaced", "settled", "with_batch"]

Args = tuple[Any, ...]
BatchRule = Callable[..., Any]
METHODS: dict[str, BatchRule] = {}
# Methods that write through their first operand when they run an in-place op.
WRITING: set[str] = set()
FOUND: dict[OpOverload, Any] = {}


def method(writes: bool = False) -> Callable[[BatchRule], BatchRule]:
    """Let ops name a function as their batch rule."""

    def attach(function: BatchRule) -> BatchRule:
        METHODS[function.__name__] = function
        if writes:
            WRITING.add(function.__name__)
        return function

    return attach


def find_rule(op: OpOverload) -> Any:
    """An op's batch rule, a refusal, or None where samples are run one by one."""
    own = op.rules.get("batch")
    if own is not None:
        return METHODS[own] if isinstance(own, str) else own
    if op not in FOUND:
        FOUND[op] = derive_rule(op)
    return FOUND[op]


def derive_rule(op: OpOverload) -> Any:
    if op.body is not None and not (op.autograd_only and "kernels" in op.options):
        return None
    rule = op.rule("batch")
    if op.out_positions and rule not in ("elementwise", "folded"):
        return None
    if isinstance(rule, str):
        if op.mutated_positions and op.functional is not None and rule not in WRITING:
            return None
        return METHODS[rule]
    return rule


ports.fill(find_batch_rule=find_rule)


def argument(op: OpOverload, args: Args, name: str) -> Any:
    names = op.argument_names
    return args[names.index(name)] if name in names else None


def replaced(op: OpOverload, args: Args, **changes: Any) -> Args:
    return tuple([changes.get(name, a) for name, a in zip(op.argument_names, args, strict=True)])


def settled(op: OpOverload, target: Any, found: Any) -> Any:
    """What an op answers by a result made apart: a write copies it into its target."""
    return target.copy_(found) if op.mutated_positions else found


# -- the same op on the values ---------------------------------------------------------------------


@method(writes=True)
def elementwise(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    return level.elementwise(op, args)


@method(writes=True)
def loop(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    return level.loop(op, args)


@method(writes=True)
def straight(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    if argument(op, args, "memory_format") in (channels_last, channels_last_3d):
        return laid_out(level, op, args)
    return level.finish(op, level.below(op, (level.front(args[0]), *args[1:])))


def laid_out(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    """Memory formats know one batch dim: the samples become part of it."""
    ranks = {channels_last: 4, channels_last_3d: 5}
    if args[0].dim() != ranks[argument(op, args, "memory_format")] or not level.size:
        return level.loop(op, args)
    images = level.run(join_samples, level.front(args[0]))
    found = level.below(op, (images, *args[1:]))
    return level.wrap(level.run(split_samples, found, level.size))


@method(writes=True)
def trailing(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Ops on the last dims that leave the others alone, once a sample has enough dims. Option
    `trailing`: how many, or a function of the arguments that says it."""
    wanted = (op if op.functional is None else op.functional).options["trailing"]
    if args[0].dim() < (wanted(*args) if callable(wanted) else wanted):
        return level.loop(op, args)
    return level.finish(op, level.below(op, (level.front(args[0]), *args[1:])))


@method()
def aligned(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    rank = max([value.dim() for value in args if isinstance(value, Tensor)])
    return level.wrap(level.below(op, tuple([level.full(value, rank) for value in args])))


@method(writes=True)
def copied(level: VmapLevel, op: OpOverload, self: Any, src: Any, non_blocking: bool) -> Any:
    """Elements of `src` in the place of those of `self`."""
    if src.dim() > self.dim():
        return level.loop(op, (self, src, non_blocking))
    source = level.front(src, self.dim())
    return level.finish(op, level.below(op, (level.full(self), source, non_blocking)))


@method(writes=True)
def assigned(level: VmapLevel, op: OpOverload, self: Any, value: Any) -> Any:
    """One value in the place of all elements of `self`."""
    if not level.holds(value):
        return level.finish(op, level.below(op, (level.front(self), value)))
    target = find("copy_" if op.mutated_positions else "copy")
    moved = (level.full(self), level.front(value, self.dim()), False)
    return level.finish(op, level.below(target, moved))


@method()
def first_only(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Ops whose first operand alone has dims that may grow."""
    if not level.holds(args[0]) or level.holds(args[1]):
        return level.loop(op, args)
    return level.wrap(level.below(op, (level.front(args[0]), *args[1:])))


# -- dims ------------------------------------------------------------------------------------------


@method(writes=True)
def along(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
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
                value = tuple([level.shift(dim, max(rank, 1)) for dim in value])
            else:
                value = level.shift(value, max(rank, 1))
        elif name == "keepdim" and scalar:
            value = False
        moved.append(value)
    result = level.below(op, tuple(moved))
    if op.mutated_positions:
        return args[0]
    if scalar:
        result = level.run(without_dim, result)
    return level.wrap(result)


@method()
def gathered(level: VmapLevel, op: OpOverload, self: Any, dim: int, index: Any, *rest: Any) -> Any:
    """`along`, where the result has the dims of the index: one even if a sample has none."""
    given = self.unsqueeze(0) if index.dim() > self.dim() else self
    return along(level, op, given, dim, index, *rest)


def without_dim(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([without_dim(item) for item in value])
    return value.squeeze(1) if value.dim() > 1 else value


@method()
def reduction(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    if "dim" not in op.argument_names:
        return whole(level, op, args)
    rank = args[0].dim()
    dim = argument(op, args, "dim")
    listed = op._schema.arguments[op.argument_names.index("dim")].type.kind == "List"
    if dim is not None and not (listed and len(dim) == 0):
        return along(level, op, *args)
    if listed:
        if dim is not None and not op.options.get("empty_dims_are_all", True):
            return level.wrap(level.below(op, (level.front(args[0]), *args[1:])))
        return along(level, op, *replaced(op, args, dim=tuple(range(max(rank, 1)))))
    changes = {"dim": 1, "keepdim": False}
    found = level.below(op, replaced(op, (flattened(level, args[0]), *args[1:]), **changes))
    if not argument(op, args, "keepdim"):
        return level.wrap(found)
    kept = (level.size,) + (1,) * rank
    if isinstance(found, Tensor):
        return level.wrap(level.run(found.reshape, kept))
    return level.wrap(tuple([level.run(item.reshape, kept) for item in found]))


def flattened(level: VmapLevel, value: Any) -> Any:
    """Every sample as one row."""
    if value.dim() == 1:
        return level.full(value)
    sizes = (level.size, value.numel())
    return level.run(lambda: level.front(value).reshape(sizes))


def whole(level: VmapLevel, op: OpOverload, args: Args) -> Any:
    """A reduction of everything: over the one dim of the flattened samples. Option `over_dim`: the
    (name, overload) with a dim that it amounts to."""
    named = op.options.get("over_dim")
    if named is None:
        return level.loop(op, args)
    target = find(*named)
    listed = target._schema.arguments[target.argument_names.index("dim")].type.kind == "List"
    given = {"self": flattened(level, args[0]), "dim": (1,) if listed else 1, "keepdim": False}
    given["dtype"] = argument(op, args, "dtype")
    bound = tuple([given[name] for name in target.argument_names])
    return level.wrap(level.below(target, bound))


# -- views -----------------------------------------------------------------------------------------


@method()
def view(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """A view of every sample at once, so that writes to it reach the samples."""
    batch = args[0]
    axis: Any = getattr(batch, "_axis", None)
    values = None if axis is None else batch._value
    if values is None or values._array is None or values._unusual is not None or not level.size:
        return level.loop(op, args)
    if op.options.get("untracked"):
        if len(args) > 1:
            return level.loop(op, args)
        return level.wrap(level.below(op, (level.front(batch),)))

    def every() -> Any:
        found = op.rule("shape")(values.select(axis, 0), *args[1:])
        step = strides_of(values)[axis]
        made = [
            values.as_strided((level.size, *sizes), (step, *strides), offset)
            for sizes, strides, offset in (found if isinstance(found, list) else [found])
        ]
        return made if isinstance(found, list) else made[0]

    return level.wrap(level.run(every))


@method()
def view_backward(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """The gradient of a view: its `input_sizes` gain the batch axis, its dims move by one."""
    size = args[1]
    changes: dict[str, Any] = {"input_sizes": (level.size, *size)}
    for name in DIMS & set(op.argument_names):
        changes[name] = level.shift(argument(op, args, name), max(len(size), 1))
    if not size:
        return level.loop(op, args)
    moved = replaced(op, (level.front(args[0]), *args[1:]), **changes)
    return level.wrap(level.below(op, moved))


@method()
def resized(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Ops that make a tensor of `size` after another one."""
    size = (level.size, *argument(op, args, "size"))
    return level.wrap(level.below(op, replaced(op, (level.front(args[0]), *args[1:]), size=size)))


@method()
def joined(level: VmapLevel, op: OpOverload, tensors: Any, dim: int) -> Any:
    """Ops that join tensors along a dim they have."""
    kept = [item for item in tensors if not geometry.same_sizes(tuple(item.shape), (0,))]
    if not kept or len(kept) == len(tensors):
        return stacked(level, op, tensors, dim, 0)

    def flat(item: Any) -> Any:
        # Empty, and joined to tensors of any rank; its gradient is asked for all the same.
        return level.front(item).reshape((0,))

    empty = [
        level.run(flat, item) for item in tensors if geometry.same_sizes(tuple(item.shape), (0,))
    ]
    rank = kept[0].dim()
    full = [level.full(item) for item in kept]
    return level.wrap(level.below(op, (full + empty, level.shift(dim, rank))))


@method()
def stacked(level: VmapLevel, op: OpOverload, tensors: Any, dim: int, gained: int = 1) -> Any:
    """Ops that join tensors along a dim that they gain."""
    rank = tensors[0].dim() + gained
    if any([item.dim() != tensors[0].dim() for item in tensors]) or not rank:
        return level.loop(op, (tensors, dim))
    found = level.below(op, ([level.full(item) for item in tensors], level.shift(dim, rank)))
    return level.wrap(found)


# -- random numbers --------------------------------------------------------------------------------

NO_SAMENESS = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an "
    "issue with functorch"
)


@method(writes=True)
def drawn(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Random numbers of one draw for the whole batch, or of one sample for all of them."""
    tensors = [args[place] for place in op.tensor_positions if isinstance(args[place], Tensor)]
    held = [value for value in tensors if level.holds(value)]
    if level.randomness == "same":
        return drawn_once(level, op, args, held)
    if "size" in op.argument_names:
        size = (level.size, *argument(op, args, "size"))
        return level.wrap(level.below(op, replaced(op, args, size=size)))
    if op.mutated_positions and not level.holds(args[0]):
        if held:
            level.refuse_write(op)
        raise RuntimeError(NO_DIFFERENCE)
    if not tensors:
        return level.loop(op, args)
    rank = tensors[0].dim() if op.mutated_positions else max([value.dim() for value in tensors])
    return level.finish(op, level.below(op, tuple([level.full(value, rank) for value in args])))


def drawn_once(level: VmapLevel, op: OpOverload, args: Args, held: list[Any]) -> Any:
    """The numbers of one sample, for all of them."""
    if not held:
        return level.below(op, args)
    target, *others = args
    # `layout`: the op takes no more than sizes and strides from its first operand.
    reads = "layout" not in op.options or len(op._schema.returns) > 1
    if len(held) > 1 or held[0] is not target or (reads and not op.mutated_positions):
        raise RuntimeError(NO_SAMENESS)

    def one_sample() -> Any:
        return target._value.select(target._axis, 0)

    if not op.mutated_positions:
        return level.below(op, (level.run(one_sample), *others))

    def write() -> None:
        noise = aten.empty_like(one_sample())
        dispatch.call(op, (noise, *others))
        target._value.copy_(noise.unsqueeze(target._axis))

    level.run(write)
    return target


@method()
def dropped(level: VmapLevel, op: OpOverload, input: Any, *rest: Any) -> Any:
    """`native_dropout`: the same noise for all samples is that of a sample of ones."""
    if level.randomness != "same" or not level.holds(input):
        return drawn(level, op, input, *rest)
    value = level.front(input)

    def drop() -> Any:
        factor, mask = dispatch.call(op, (aten.ones_like(value[0]), *rest))
        return value * factor, mask.expand(value.shape)

    return level.wrap(level.run(drop))


@method()
def sampled(level: VmapLevel, op: OpOverload, self: Any, *rest: Any) -> Any:
    """`multinomial`: every sample's rows are further rows."""
    if level.randomness == "same" or self.dim() != 2:
        return drawn(level, op, self, *rest)
    rows = level.full(self)
    found = level.below(op, (level.run(join_samples, rows), *rest))
    return level.wrap(level.run(found.unflatten, 0, (level.size, -1)))


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


@method()
def multiplied(level: VmapLevel, op: OpOverload, first: Any, second: Any) -> Any:
    """Products of two factors."""
    ranks = factor_ranks(op)
    if not is_fitting(first, second, ranks):
        return level.loop(op, (first, second))
    if op.options.get("conjugates"):
        first = first.conj()
    if ranks == (2, 1) and not level.holds(first):
        return level.wrap(level.run(lambda: level.front(second).mm(first.t())))
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


@method()
def outer(level: VmapLevel, op: OpOverload, first: Any, second: Any) -> Any:
    if first.dim() != 1 or second.dim() != 1:
        return level.loop(op, (first, second))

    def every() -> Any:
        return level.front(first).unsqueeze(-1) * level.front(second, 2)

    return level.wrap(level.run(every))


PRODUCTS = {(2, 2): "mm", (2, 1): "mv", (3, 3): "bmm"}


@method()
def multiplied_and_added(
    level: VmapLevel, op: OpOverload, self: Any, first: Any, second: Any, beta: Any, alpha: Any
) -> Any:
    """beta * self + alpha * (first @ second)."""
    ranks = factor_ranks(op)
    if not is_fitting(first, second, ranks) or self.dtype is not first.dtype:
        return level.loop(op, (self, first, second, beta, alpha))
    if level.holds(first) is not level.holds(second) and not level.holds(self):
        added = level.run(rows_added, level, op, self, first, second, beta, alpha)
        if added is not None:
            return level.wrap(added)
    found = getattr(aten, PRODUCTS[ranks])(first, second)
    found = found if alpha == 1 else found * alpha
    if beta == 0:
        return found
    return found + (self if beta == 1 else self * beta)


def rows_added(
    level: VmapLevel, op: OpOverload, self: Any, first: Any, second: Any, beta: Any, alpha: Any
) -> Any:
    """`addmm` of the rows of all samples at once, or `addmv` as one of these, with a `self` that is
    the same for each row; None where it is not."""
    sizes, ranks = self.shape, factor_ranks(op)
    if ranks == (2, 1) and level.holds(second):
        return aten.addmm(self, level.front(second), first.t(), beta=beta, alpha=alpha)
    if ranks != (2, 2) or level.holds(second) or (len(sizes) > 1 and sizes[0] != 1):
        return None
    left = level.front(first)
    size, rows, inner = left.shape
    found = op(self, left.reshape(size * rows, inner), second, beta=beta, alpha=alpha)
    return found.view(size, rows, second.shape[1])


@method()
def over_matrices(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """One more leading dim; those of several tensors broadcast."""
    ranks = read_sizes(op.options["sizes"]).ranks
    places = op.tensor_positions
    lead = [args[place].dim() - rank for place, rank in zip(places, ranks, strict=True)]
    if min(lead) < 0:
        return level.loop(op, args)
    moved = list(args)
    for place, rank in zip(places, ranks, strict=True):
        moved[place] = level.full(args[place], max(lead) + rank)
    return level.wrap(level.run(with_batch, level.below(op, tuple(moved)), level.size))


def with_batch(result: Any, size: int) -> Any:
    """Results with a batch axis where an empty one stands for what was not asked for."""
    if isinstance(result, tuple):
        return tuple([with_batch(item, size) for item in result])
    return (
        result.expand((size, 0))
        if size and geometry.same_sizes(tuple(result.shape), (0,))
        else result
    )


# -- windows and losses ----------------------------------------------------------------------------


@method()
def folded(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """All samples as one batch."""
    if op.out_positions:
        raise error("RL0604", op=f"{op.name()} with out=", reason="call it without out=")
    fold, values = batch_rank(op), list(args)
    rank = args[op.tensor_positions[0]].dim()
    for position in op.tensor_positions:
        value = args[position]
        if value.dim() != rank:
            return level.loop(op, args)
        values[position] = level.full(value)
    if not level.size or rank not in (fold, fold - 1):
        return level.loop(op, args)
    if rank != fold:
        return level.wrap(level.below(op, tuple(values)))
    return level.wrap(level.run(as_one_batch, op, values, level.size))


def as_one_batch(op: OpOverload, values: list[Any], size: Any) -> Any:
    """An op of batches on the batches of all samples."""
    for position in op.tensor_positions:
        values[position] = join_samples(values[position])
    result = dispatch.call(op, tuple(values))
    if isinstance(result, tuple):
        return tuple([split_samples(item, size) for item in result])
    return split_samples(result, size)


def join_samples(value: Any) -> Any:
    """The batch axis and the first dim of samples as one."""
    count, first, *rest = sizes_of(value)
    return value.reshape((count * first, *rest))


def split_samples(value: Any, count: Any) -> Any:
    """What `join_samples` undoes; None stays."""
    if value is None:
        return None
    first, *rest = sizes_of(value)
    return value.reshape((count, first // count, *rest))


@method()
def loss(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Element by element, then reduced within each sample."""
    reduction = argument(op, args, "reduction")
    tensors = [value for value in args if isinstance(value, Tensor)]
    shape, dtype, rank = tensors[0].shape, tensors[0].dtype, tensors[0].dim()
    is_uniform = all([value.dtype is dtype and value.dim() <= rank for value in tensors])
    if not is_uniform or not geometry.same_sizes(tensors[1].shape, shape):
        return level.loop(op, args)
    bound = replaced(op, args, reduction=0)
    moved = tuple([level.full(value, rank) for value in bound])
    found = level.wrap(level.below(op, moved))
    if reduction == 0:
        return found
    return found.mean() if reduction == 1 else found.sum()


@method()
def by_class(level: VmapLevel, op: OpOverload, self: Any, num_classes: int) -> Any:
    if num_classes < 0:
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive "
            "num_classes argument."
        )
    return level.loop(op, (self, num_classes))


# -- values that decide ----------------------------------------------------------------------------


def refusing(name: str, message: str) -> None:
    """Let ops name a refusal as their batch rule."""

    def refuse(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
        if not level.has_batched(args):
            return level.below(op, args)
        raise RuntimeError(message.format(name=op.name()))

    METHODS[name] = refuse


refusing(
    "dynamic",
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
    "over {name}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need "
    "this feature.",
)
refusing("number", NO_ITEM)
refusing("truth", NO_CONTROL_FLOW)
refusing(
    "no_fallback", "Batching rule not implemented for {name}. We could not generate a fallback."
)
