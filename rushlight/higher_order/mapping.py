"""`map`: a function run on every slice of its operands, kept as one op in graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base import pytree
from rushlight.core.tensor import Tensor
from rushlight.higher_order.structured import (
    Call,
    ControlFlowOp,
    Operands,
    filled,
    first_slice,
    gradient_of,
    repeated,
    slices_of,
    stacked,
)
from rushlight.higher_order.subgraphs import reopened

__all__ = ["map", "map_impl"]

Body = Callable[..., Any]


def map(f: Body, xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for every slice `x` of `xs` along dim 0; results are stacked.

    >>> import rushlight as torch
    >>> from rushlight.higher_order.mapping import map
    >>> map(lambda x, y: x + y, torch.arange(3), torch.tensor(10))
    tensor([10, 11, 12])
    """
    leaves, structure = pytree.tree_flatten(xs)
    extra, extra_structure = pytree.tree_flatten(args)
    if not callable(f):
        raise RuntimeError(f"Expected f to be callable, but got {f}.")
    if not leaves or not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if any(leaf.dim() == 0 for leaf in leaves):
        raise IndexError("Mapped xs need a leading dimension. Got a tensor without dimensions.")
    if any(leaf.shape[0] != leaves[0].shape[0] for leaf in leaves):
        shapes = [leaf.shape for leaf in leaves]
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}."
        )
    if leaves[0].shape[0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    shape: list[Any] = []

    def flat(*given: Any) -> Any:
        xs = pytree.tree_unflatten(list(given[: len(leaves)]), structure)
        args = pytree.tree_unflatten(list(given[len(leaves) :]), extra_structure)
        found, result_structure = pytree.tree_flatten(f(xs, *args))
        shape[:] = [result_structure]
        return found

    result = map_impl(flat, leaves, extra)
    return pytree.tree_unflatten(list(result), shape[0])


class MapOp(ControlFlowOp):
    """`map_impl(f, xs, extra)`."""

    sliced = (0,)

    def compute(self, f: Body, xs: Operands, extra: Operands) -> Any:
        count = xs[0].shape[0]
        return stacked([f(*slices_of(xs, number), *extra) for number in range(count)])

    def infer(self, mode: Any, f: Body, xs: Operands, extra: Operands) -> Any:
        with reopened(), mode:
            one = f(*[first_slice(value) for value in xs], *extra)
            return repeated(one, xs[0].shape[0])

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        xs, extra = call.groups(operands)
        count, grads = len(xs), filled(results, grads)
        backward = gradient_of(call.functions[0], len(operands), needs)

        def of_slice(*given: Any) -> Any:
            # Slices of operands and gradients come first, then what all slices share.
            both, rest = given[: count + len(grads)], given[count + len(grads) :]
            return backward(*both[:count], *rest, *both[count:])

        found = iter(self(of_slice, [*xs, *grads], extra))
        result = [next(found) if need else None for need in needs]
        return [
            grad if grad is None or number < count else grad.sum(0)
            for number, grad in enumerate(result)
        ]


map_impl = MapOp("map_impl", ("body_graph",))
