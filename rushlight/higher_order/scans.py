"""`scan` and `associative_scan`: running results along a dim, kept as one op in graphs.

The ops scan along dim 0 from the front; the public functions bring other dims and directions there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core.geometry import wrap_dim
from rushlight.core.tensor import Tensor
from rushlight.func.vmap import vmap
from rushlight.higher_order.structured import (
    Call,
    ControlFlowOp,
    Operands,
    filled,
    first_slice,
    gradient_of,
    is_differentiable,
    repeated,
    slices_of,
    stacked,
    vectorized,
)
from rushlight.higher_order.subgraphs import check_alike, reopened
from rushlight.opset import functions

__all__ = ["associative_scan", "associative_scan_op", "scan", "scan_op"]

Body = Callable[..., Any]
NO_SLICES = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"


def to_front(leaves: Operands, dim: int, reverse: bool) -> list[Any]:
    """The operands with the scanned dim in front, turned round where the scan is."""
    moved = [leaf.movedim(dim, 0) if dim else leaf for leaf in leaves]
    return [leaf.flip([0]) for leaf in moved] if reverse else moved


def from_front(results: Operands, dim: int, reverse: bool) -> list[Any]:
    turned = [result.flip([0]) for result in results] if reverse else results
    return [result.movedim(0, dim) if dim and dim < result.dim() else result for result in turned]


# -- scan ------------------------------------------------------------------------------------------


def scan(
    combine_fn: Body, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice `x` of `xs`: the last carry, and each `y`.

    >>> import rushlight as torch
    >>> from rushlight.higher_order.scans import scan
    >>> scan(lambda total, x: (total + x, total * x), torch.tensor(0), torch.arange(1, 5))
    (tensor(10), tensor([ 0,  2,  9, 24]))
    """
    carried, structure = pytree.tree_flatten(init)
    leaves, xs_structure = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError("Dim must be an int, but got " + str(type(dim)))
    if not isinstance(reverse, bool):
        raise RuntimeError("Reverse must be a bool, but got " + str(type(reverse)))
    if not carried:
        raise RuntimeError("scan() operator requires init leaves.")
    for name, values in (("init", carried), ("xs", leaves)):
        for value in values:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"All {name} leaves must be a Tensor but got {value}")
    dim = wrap_dim(dim, leaves[0].dim())
    if any(leaf.dim() <= dim or leaf.shape[dim] == 0 for leaf in leaves):
        raise RuntimeError(NO_SLICES)
    shape: list[Any] = []

    def flat(*given: Any) -> Any:
        carry = pytree.tree_unflatten(list(given[: len(carried)]), structure)
        x = pytree.tree_unflatten(list(given[len(carried) :]), xs_structure)
        result = combine_fn(carry, x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise RuntimeError(f"combine_fn must return a pair (carry, y), but got {result}")
        following, carry_structure = pytree.tree_flatten(result[0])
        if carry_structure != structure:
            raise error("RL0736", op="scan", first=carry_structure, second=structure)
        found, y_structure = pytree.tree_flatten(result[1])
        shape[:] = [y_structure]
        return (*following, *found)

    results = scan_op(flat, carried, to_front(leaves, dim, reverse), ())
    ys = from_front(results[len(carried) :], dim, reverse)
    last = pytree.tree_unflatten(list(results[: len(carried)]), structure)
    return last, pytree.tree_unflatten(ys, shape[0])


class ScanOp(ControlFlowOp):
    """`scan(combine_fn, init, xs, additional)`: the last carry, then one `y` a slice."""

    sliced = (1,)

    def is_stacked(self, counts: Sequence[int], number: int) -> bool:
        return number >= counts[0]

    def compute(self, combine: Body, init: Operands, xs: Operands, additional: Operands) -> Any:
        carry, rows = list(init), []
        for number in range(xs[0].shape[0]):
            found = combine(*carry, *slices_of(xs, number), *additional)
            carry = list(found[: len(carry)])
            rows.append(found[len(carry) :])
        return (*carry, *stacked(rows))

    def infer(
        self, mode: Any, combine: Body, init: Operands, xs: Operands, additional: Operands
    ) -> Any:
        with reopened(), mode:
            found = combine(*init, *[first_slice(value) for value in xs], *additional)
            check_alike("scan", found[: len(init)], init)
            return (*found[: len(init)], *repeated(found[len(init) :], xs[0].shape[0]))

    def check_traced(self, counts: Sequence[int], operands: Operands, outputs: Operands) -> None:
        check_alike("scan", outputs[0][: counts[0]], operands[: counts[0]])

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        """A scan from the back, over the carries that a scan from the front finds again."""
        init, xs, additional = call.groups(operands)
        carries, slices = len(init), len(xs)
        function = call.functions[0]
        grads = filled(results, grads)
        # A carry is differentiated on the way, wherever the gradient ends.
        moving = [True] * carries + list(needs[carries:])
        moving = [
            move and is_differentiable(value) for move, value in zip(moving, operands, strict=True)
        ]
        floating, x_moves = moving[:carries], moving[carries : carries + slices]
        extra_moves = moving[carries + slices :]

        def keeping(*given: Any) -> Any:
            found = function(*given)
            return (*found[:carries], *[value.clone() for value in given[:carries]])

        before = self(keeping, init, xs, additional)[carries:]
        backward = gradient_of(function, len(operands), moving)
        start = [g for g, moves in zip(grads, floating) if moves]
        start += [functions.zeros_like(v) for v, moves in zip(additional, extra_moves) if moves]
        totals = len(start) - sum(floating)

        def step(*given: Any) -> Any:
            rest = iter(given)
            carried = [next(rest) for _ in range(sum(floating))]
            sums = [next(rest) for _ in range(totals)]
            values = [next(rest) for _ in range(carries + slices)]
            y_grads = [next(rest) for _ in grads[carries:]]
            following = iter(carried)
            full = [next(following) if moves else None for moves in floating]
            found = iter(backward(*values, *rest, *full, *y_grads))
            carried = [next(found) for _ in carried]
            of_x = [next(found) for moves in x_moves if moves]
            return (*carried, *[total + more for total, more in zip(sums, found)], *of_x)

        rows = [value.flip([0]) for value in (*before, *xs, *grads[carries:])]
        answer = self(step, start, rows, additional)
        of_carries, sums = answer[: sum(floating)], answer[sum(floating) : len(start)]
        of_rows = [value.flip([0]) for value in answer[len(start) :]]
        found = iter([*of_carries, *of_rows, *sums])
        result = [next(found) if moves else None for moves in moving]
        return [grad if need else None for grad, need in zip(result, needs, strict=True)]


scan_op = ScanOp("scan", ("scan_combine_graph",))


# -- associative scan ------------------------------------------------------------------------------


def associative_scan(
    combine_fn: Body, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """`y[i] = combine_fn(y[i - 1], x[i])` for an associative function, in logarithmic depth.

    torch: `combine_mode` says whether the function is elementwise ("pointwise") or not ("generic").
    Here it is vectorized over slices in both.

    >>> import rushlight as torch
    >>> from rushlight.higher_order.scans import associative_scan
    >>> associative_scan(lambda a, b: a * b, torch.arange(1, 6), 0)
    tensor([  1,   2,   6,  24, 120])
    """
    leaves, structure = pytree.tree_flatten(xs)
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError("Dim must be an int, but got " + str(type(dim)))
    if not isinstance(reverse, bool):
        raise RuntimeError("Reverse must be a bool, but got " + str(type(reverse)))
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    for value in leaves:
        if not isinstance(value, Tensor):
            raise ValueError(f"xs leaves must be a Tensor but got {value}")
    dim = wrap_dim(dim, leaves[0].dim())
    if any(leaf.dim() <= dim or leaf.shape[dim] == 0 for leaf in leaves):
        raise ValueError(NO_SLICES)
    count = len(leaves)

    def flat(*given: Any) -> Any:
        one = pytree.tree_unflatten(list(given[:count]), structure)
        other = pytree.tree_unflatten(list(given[count:]), structure)
        found, result_structure = pytree.tree_flatten(combine_fn(one, other))
        if result_structure != structure:
            raise error("RL0736", op="associative_scan", first=result_structure, second=structure)
        return tuple(found)

    results = associative_scan_op(flat, to_front(leaves, dim, reverse), ())
    return pytree.tree_unflatten(from_front(results, dim, reverse), structure)


class AssociativeScanOp(ControlFlowOp):
    """`associative_scan(combine_fn, xs, additional)`; the function gets two slices of each."""

    sliced = (0,)

    def arguments(self, groups: Sequence[Operands]) -> list[Any]:
        return [*groups[0], *groups[0], *groups[1]]

    def compute(self, combine: Body, xs: Operands, additional: Operands) -> Any:
        dims = (0,) * (2 * len(xs)) + (None,) * len(additional)
        at_once = vectorized(vmap(combine, in_dims=dims))

        def pairwise(one: Operands, other: Operands) -> Any:
            return at_once(*one, *other, *additional)

        return tuple(halved_scan(pairwise, list(xs)))

    def infer(self, mode: Any, combine: Body, xs: Operands, additional: Operands) -> Any:
        with reopened(), mode:
            one = [first_slice(value) for value in xs]
            found = combine(*one, *one, *additional)
            self.check_traced((len(xs), len(additional)), one, (found,))
            return repeated(found, xs[0].shape[0])

    def check_traced(self, counts: Sequence[int], operands: Operands, outputs: Operands) -> None:
        check_alike("associative_scan", outputs[0], operands[: counts[0]])

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        """That of the scan which starts at the first slice and carries its last result on."""
        xs, additional = call.groups(operands)
        count, grads = len(xs), filled(results, grads)
        if xs[0].shape[0] == 1:
            idle = zip(additional, needs[count:], strict=True)
            return [*grads, *[functions.zeros_like(v) if need else None for v, need in idle]]

        def step(*given: Any) -> Any:
            found = call.functions[0](*given)
            return (*found, *[value.clone() for value in found])

        longer = Call(scan_op, [step], [count, *call.counts])
        values = [*[x.select(0, 0) for x in xs], *[x.narrow(0, 1, x.shape[0] - 1) for x in xs]]
        last = [y.select(0, -1) for y in results]
        found = scan_op.pullback(
            longer,
            [*values, *additional],
            [*last, *[y.narrow(0, 1, y.shape[0] - 1) for y in results]],
            [None] * count + [g.narrow(0, 1, g.shape[0] - 1) for g in grads],
            [*needs[:count], *needs],
        )
        of_xs = [
            functions.cat([(start + grad.select(0, 0)).unsqueeze(0), rest]) if need else None
            for start, rest, grad, need in zip(found, found[count:], grads, needs)
        ]
        return [*of_xs, *found[2 * count :]]


def halved_scan(combine: Body, xs: Operands) -> Operands:
    """Running results of a function of pairs: neighbours are combined, the half as many results
    scanned, and the places between filled in."""
    count = xs[0].shape[0]
    if count < 2:
        return xs
    pairs = combine([x[: count - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = halved_scan(combine, pairs)
    if count == 2:
        even = [x[:1] for x in xs]
    else:
        between = [y[: (count - 1) // 2] for y in odd]
        rest = combine(between, [x[2::2] for x in xs])
        even = [functions.cat([x[:1], more]) for x, more in zip(xs, rest, strict=True)]
    return [woven(first, second) for first, second in zip(even, odd, strict=True)]


def woven(even: Tensor, odd: Tensor) -> Any:
    """Slices of two tensors by turns; the first may have one more."""
    count = odd.shape[0]
    pairs = functions.stack([even[:count], odd], 1).flatten(0, 1)
    return pairs if even.shape[0] == count else functions.cat([pairs, even[count:]])


associative_scan_op = AssociativeScanOp("associative_scan", ("associative_scan_combine_graph",))
