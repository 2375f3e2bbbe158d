"""The engine's short way: one root, nothing watching.

When no mode, hook, transform or anomaly check is active and every node below the root comes from
an operator's own formula, nobody can tell whether a graph task goes by the book. Then leaves need
no accumulator of their own, and a chain of nodes needs no heap. `run_plain` answers False, having
changed nothing, for a graph that needs the general engine. Order, ownership of gradients and
checks are those of `engine`.
"""

from __future__ import annotations

import sys
from heapq import heappop, heappush
from typing import Any

from rushlight.autograd.engine import (
    COUNTS_ARE_EXACT,
    LEAF_LOCKS,
    GraphTask,
    cut_loose,
    first_gradient,
    is_own_view,
    validate,
)
from rushlight.core.node import AccumulateGrad, OpNode, autograd_state
from rushlight.core.state import OVERRIDES, ThreadState
from rushlight.core.tensor import PLAIN, Tensor

__all__ = ["run_plain"]

getrefcount = sys.getrefcount
# What getrefcount answers for a tensor that only one local variable holds.
LONE = 2


def count_edges(root: Any) -> dict[Any, int] | None:
    """How many gradients each node and leaf will get; None if the graph is not plain."""
    if not isinstance(root, OpNode) or root.node_hooks is not None:
        return None
    counts: dict[Any, int] = {root: 0}
    stack = [root]
    while stack:
        for following in stack.pop().next_nodes:
            if following is None:
                continue
            if following in counts:
                counts[following] += 1
            elif isinstance(following, OpNode):
                if following.node_hooks is not None:
                    return None
                counts[following] = 1
                stack.append(following)
            else:
                if type(following) is AccumulateGrad:
                    if following.node_hooks is not None:
                        return None
                    following = following.variable
                if type(following) is not Tensor and type(following) not in PLAIN:
                    return None
                state = following._ag
                if following._ext is not None or (
                    state is not None and (state.hooks is not None or state.post_accumulate)
                ):
                    return None
                counts[following] = counts.get(following, 0) + 1
    return counts


def run_plain(root: Any, number: int, grad: Any, keep_graph: bool, state: ThreadState) -> bool:
    """Run the graph below `root`; False, untouched, when it is not a plain one."""
    counts = count_edges(root)
    if counts is None:
        return False
    before, excluded = state.grad, state.excluded
    task = GraphTask(keep_graph, False)
    state.tasks = (*state.tasks, task)
    state.excluded = excluded | OVERRIDES
    state.set_grad(False)
    try:
        start: list[Any] = [None] * len(root.output_metas)
        start[number] = grad
        del grad
        run_nodes(root, start, counts, keep_graph, task)
    finally:
        state.tasks = state.tasks[:-1]
        state.excluded = excluded
        state.set_grad(before)
    return True


def run_nodes(
    node: Any, grads: Any, counts: dict[Any, int], keep_graph: bool, task: GraphTask
) -> None:
    buffers: dict[Any, Any] = {}
    heap: list[Any] = []
    while True:
        task.current = node
        results = node.apply(grads, None)
        grads = None
        if not keep_graph and node.frees_saved:
            node.release()
        # Gradients leave one by one, so that the last receiver of a tensor can be seen to be
        # its only holder.
        pending = list(results)
        results = None
        upcoming: Any = None
        position = 0
        for following in node.next_nodes:
            if following is None:
                position += 1
                continue
            value = pending[position]
            pending[position] = None
            kind = type(following)
            if kind is AccumulateGrad:
                following = following.variable
                kind = type(following)
            left = counts[following] - 1
            counts[following] = left
            if kind is Tensor or kind in PLAIN:
                array = following._array
                if value is not None and (
                    type(value) is not Tensor
                    or value._dtype is not following._dtype
                    or value._ext is not None
                    or value._array.shape != array.shape
                ):
                    value = fitted(value, following, node, position)
                if left or following in buffers:
                    held = buffers.pop(following, None)
                    if held is not None:
                        value = held if value is None else held + value
                        held = None
                    if left:
                        if value is not None:
                            buffers[following] = value
                        value = None
                if value is not None:
                    sole = COUNTS_ARE_EXACT and getrefcount(value) == LONE
                    store(following, value, sole)
                    value = None
                position += 1
                continue
            if value is not None:
                slot = node.next_nrs[position]
                metas = following.output_metas
                meta = metas[slot]
                if (
                    type(value) is not Tensor
                    or value._dtype is not meta[1]
                    or value._ext is not None
                    or value._array.shape != meta[0]
                ):
                    value = validate(value, following, slot, node, position)
                box = buffers.get(following)
                if box is None:
                    if len(metas) == 1:
                        buffers[following] = [value]
                    else:
                        box = buffers[following] = [None] * len(metas)
                        box[slot] = value
                else:
                    held = box[slot]
                    box[slot] = value if held is None else held + value
                    held = None
                value = box = None
            if left == 0:
                if upcoming is None:
                    upcoming = following
                else:
                    heappush(heap, (-following.sequence_nr, id(following), following))
            position += 1
        if upcoming is None:
            if not heap:
                return
            upcoming = heappop(heap)[2]
        elif heap and heap[0][0] < -upcoming.sequence_nr:
            heappush(heap, (-upcoming.sequence_nr, id(upcoming), upcoming))
            upcoming = heappop(heap)[2]
        node = upcoming
        grads = buffers.pop(node, None)
        if grads is None:
            grads = [None] * len(node.output_metas)


def fitted(value: Any, leaf: Any, node: Any, position: int) -> Any:
    """A gradient summed down to its leaf; the common case is a bias added to every row."""
    if type(value) is Tensor and value._ext is None and value._dtype is leaf._dtype:
        wanted, shape = leaf._array.shape, value._array.shape
        extra = len(shape) - len(wanted)
        if extra > 0 and shape[extra:] == wanted:
            return value.sum(tuple(range(extra)))  # type: ignore[attr-defined]
    return validate(value, LeafMeta(leaf), 0, node, position)


class LeafMeta:
    """A leaf in the place of a node, for `validate`."""

    __slots__ = ("output_metas",)

    def __init__(self, leaf: Any) -> None:
        self.output_metas = ((leaf._array.shape, leaf._dtype, None),)


def store(leaf: Any, grad: Any, sole: bool) -> None:
    """Add a gradient to a leaf's `.grad`, out of the graph."""
    state = leaf._ag
    if state is None:
        state = autograd_state(leaf)
    with LEAF_LOCKS[(id(leaf) >> 6) & 63]:
        existing = state.grad
        if existing is not None:
            if existing.layout.name == "strided":
                existing.add_(grad)
            else:
                state.grad = grad + existing
        elif sole and grad._contig and leaf._contig and type(grad) is Tensor:
            if grad._view is not None:
                state.grad = (
                    cut_loose(grad) if is_own_view(grad) else first_gradient(leaf, grad, False)
                )
            elif grad._storage is None:
                state.grad = grad
            else:
                state.grad = first_gradient(leaf, grad, True)
        else:
            state.grad = first_gradient(leaf, grad, sole)
