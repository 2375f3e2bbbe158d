"""What operators do to layouts: for a call, the placements its operands need and its results get.

A rule sees one dim of the mesh at a time. It follows from the kind of an operator, or stands here
by its name; any other operator gets whole operands, and gives whole results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rushlight.base.errors import error
from rushlight.distributed.placements import Partial, Placement, Replicate, Shard

__all__ = ["Operand", "Plan", "full_shape", "plan"]

R = Replicate()
P = Partial()


class Operand(NamedTuple):
    """A tensor operand: its global size and its placement along the dim in question."""

    shape: tuple[int, ...]
    placement: Placement


class Plan(NamedTuple):
    """What operands need, and results get; one placement for all results, or one for each."""

    needs: list[Placement]
    gives: Placement | list[Placement]


# A rule is given the tensor operands, all arguments, and the number of processes.
Rule = Callable[[list[Operand], Sequence[Any], int], Plan | None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return enter


def same(operands: list[Operand], placement: Placement, gives: Placement | None = None) -> Plan:
    return Plan([placement] * len(operands), placement if gives is None else gives)


def plan(op: Any, operands: list[Operand], args: Sequence[Any], parts: int) -> Plan:
    """The plan of a call along one dim of the mesh."""
    name = op._schema.name.partition("::")[2]
    found = None
    special = RULES.get(name)
    if special is not None:
        found = special(operands, args, parts)
    elif op.kind.name in ("POINTWISE", "INPLACE"):
        found = pointwise(name, operands)
    elif op.kind.name == "DUPLICATE":
        found = same(operands, operands[0].placement)
    if found is not None:
        return found
    if op.mutated_positions:
        # What is written to stays where it is, so it can be written where it is whole.
        first = operands[0].placement
        if not isinstance(first, Replicate):
            raise error("RL0028", NotImplementedError, op=op, placement=first)
    return same(operands, R)


# -- elementwise -----------------------------------------------------------------------------------

# Sums of which every process has a part stay that under these.
LINEAR = {"add", "sub", "neg", "add_", "sub_"}
SCALED = {"mul", "div", "mul_", "div_"}


def pointwise(name: str, operands: list[Operand]) -> Plan | None:
    if not operands:
        return None
    ndim = max(len(operand.shape) for operand in operands)
    placements = [operand.placement for operand in operands]
    if any([isinstance(p, Partial) for p in placements]):
        if name in LINEAR and all([p == P for p in placements]):
            return same(operands, P)
        if name in SCALED and placements[0] == P and all([p == R for p in placements[1:]]):
            return Plan(placements, P)
    chosen: int | None = None
    order = operands[:1] if name.endswith("_") else operands
    for operand in order:
        placement = operand.placement
        if isinstance(placement, Shard) and operand.shape[placement.dim] > 1:
            chosen = placement.dim + ndim - len(operand.shape)
            break
    if chosen is None:
        return same(operands, R)
    needs: list[Placement] = []
    for operand in operands:
        dim = chosen - (ndim - len(operand.shape))
        split = dim >= 0 and operand.shape[dim] > 1
        needs.append(Shard(dim) if split else R)
    return Plan(needs, Shard(chosen))


@rule("zeros_like", "ones_like", "empty_like", "full_like", "zero_", "fill_")
def filled(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    first = operands[0].placement
    return Plan([first, *[R] * (len(operands) - 1)], R if isinstance(first, Partial) else first)


@rule("detach", "alias", "clone", "_to_copy", "lift_fresh")
def kept(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    return same(operands, operands[0].placement)


@rule("copy_")
def copied(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    return pointwise("copy_", operands)


# -- products --------------------------------------------------------------------------------------


def product(a: Placement, b: Placement, row: int, inner: tuple[int, int], column: int) -> Any:
    """(a, b, result) of a product of matrices."""
    if a == P and b == R:
        return P, R, P
    if a == R and b == P:
        return R, P, P
    if a == Shard(inner[0]) and b in (Shard(inner[1]), R):
        return Shard(inner[0]), Shard(inner[1]), P
    if b == Shard(inner[1]) and a == R:
        return Shard(inner[0]), Shard(inner[1]), P
    if a == Shard(row):
        return a, R, Shard(row)
    if b == Shard(column):
        return R, b, Shard(column)
    return R, R, R


@rule("mm")
def mm(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    a, b, out = product(operands[0].placement, operands[1].placement, 0, (1, 0), 1)
    return Plan([a, b], out)


@rule("addmm")
def addmm(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    a, b, out = product(operands[1].placement, operands[2].placement, 0, (1, 0), 1)
    shape = operands[0].shape
    bias: Placement = out
    if isinstance(out, Shard):
        dim = out.dim - (2 - len(shape))
        bias = Shard(dim) if dim >= 0 and shape[dim] > 1 else R
    return Plan([bias, a, b], out)


@rule("bmm")
def bmm(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    first, second = operands[0].placement, operands[1].placement
    if Shard(0) in (first, second):
        return same(operands, Shard(0))
    a, b, out = product(first, second, 1, (2, 1), 2)
    return Plan([a, b], out)


# -- views -----------------------------------------------------------------------------------------


@rule("t")
def t(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    if isinstance(placement, Shard) and len(operands[0].shape) == 2:
        return Plan([placement], Shard(1 - placement.dim))
    return Plan([placement], placement)


@rule("transpose")
def transpose(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    ndim = len(operands[0].shape)
    first, second = args[1] % ndim, args[2] % ndim
    if isinstance(placement, Shard):
        swapped = {first: second, second: first}
        return Plan([placement], Shard(swapped.get(placement.dim, placement.dim)))
    return Plan([placement], placement)


@rule("permute")
def permute(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    if isinstance(placement, Shard):
        order = [dim % len(operands[0].shape) for dim in args[1]]
        return Plan([placement], Shard(order.index(placement.dim)))
    return Plan([placement], placement)


@rule("view", "_unsafe_view", "reshape", "_reshape_alias")
def view(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    if not isinstance(placement, Shard):
        return Plan([placement], placement)
    before, after = operands[0].shape, list(args[1])
    dim = view_dim(before, full_shape(before, after), placement.dim, parts)
    return None if dim is None else Plan([placement], Shard(dim))


def full_shape(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Sizes with -1 made definite."""
    known, count = 1, 1
    for size in after:
        known *= size if size != -1 else 1
    for size in before:
        count *= size
    return [size if size != -1 else count // max(known, 1) for size in after]


def view_dim(before: Sequence[int], after: Sequence[int], dim: int, parts: int) -> int | None:
    """Where a view puts a dim that is split; None where its parts would not stay together."""
    ahead = 1
    for size in before[:dim]:
        ahead *= size
    if before[dim] % parts:
        return dim if list(before[: dim + 1]) == list(after[: dim + 1]) else None
    seen = 1
    for index, size in enumerate(after):
        if seen == ahead and size > 1:
            return index if size % parts == 0 else None
        seen *= size
    return None


@rule("expand")
def expand(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    if isinstance(placement, Shard):
        return Plan([placement], Shard(placement.dim + len(args[1]) - len(operands[0].shape)))
    return Plan([placement], placement)


@rule("unsqueeze")
def unsqueeze(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    if isinstance(placement, Shard):
        dim = args[1] % (len(operands[0].shape) + 1)
        return Plan([placement], Shard(placement.dim + (dim <= placement.dim)))
    return Plan([placement], placement)


@rule("slice", "split", "split_with_sizes", "chunk", "select")
def pieces(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    if isinstance(placement, Shard):
        return None
    return Plan([placement], placement)


# -- reductions ------------------------------------------------------------------------------------


@rule("sum", "mean")
def total(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    shape, placement = operands[0]
    if not isinstance(placement, Shard):
        return Plan([placement], placement)
    dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else None
    reduced = set(range(len(shape)) if not dims else [dim % len(shape) for dim in dims])
    if placement.dim in reduced:
        # `mean` gives averages there, which parts of unequal length do not add up to.
        return None if shape[placement.dim] % parts else Plan([placement], P)
    keeps = len(args) > 2 and args[2] is True
    less = 0 if keeps else len([dim for dim in reduced if dim < placement.dim])
    return Plan([placement], Shard(placement.dim - less))


@rule("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data")
def softmax(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    dim = args[len(operands)] % len(operands[0].shape)
    for operand in operands:
        if isinstance(operand.placement, Shard) and operand.placement.dim != dim:
            return same(operands, operand.placement)
    return None


# -- layers ----------------------------------------------------------------------------------------


@rule("native_layer_norm")
def layer_norm(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    placement = operands[0].placement
    if isinstance(placement, Shard) and placement.dim < len(operands[0].shape) - len(args[1]):
        return Plan([placement, *[R] * (len(operands) - 1)], placement)
    return None


@rule("native_layer_norm_backward")
def layer_norm_backward(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    ndim = len(operands[0].shape)
    for operand in operands[:2]:
        placement = operand.placement
        if isinstance(placement, Shard) and placement.dim < ndim - len(args[2]):
            needs: list[Placement] = [placement] * 4 + [R] * (len(operands) - 4)
            return Plan(needs, [placement, P, P])
    return None


@rule(
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
)
def attention(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    """By samples or by heads."""
    for operand in operands:
        if operand.placement in (Shard(0), Shard(1)):
            dim = operand.placement.dim
            needs: list[Placement] = [
                Shard(dim) if len(each.shape) > dim and each.shape[dim] > 1 else R
                for each in operands
            ]
            return Plan(needs, Shard(dim))
    return None


@rule("embedding")
def embedding(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    weight, index = operands
    if weight.placement == Shard(1):
        return Plan([Shard(1), R], Shard(len(index.shape)))
    if isinstance(index.placement, Shard):
        return Plan([R, index.placement], index.placement)
    return None


@rule("embedding_dense_backward")
def embedding_backward(operands: list[Operand], args: Sequence[Any], parts: int) -> Plan | None:
    grad, index = operands
    if grad.placement == Shard(len(index.shape)):
        return Plan([grad.placement, R], Shard(1))
    if isinstance(grad.placement, Shard):
        return Plan([grad.placement, grad.placement], P)
    return None
