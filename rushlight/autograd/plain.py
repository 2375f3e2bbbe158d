"""The engine's short way: one root, nothing watching.

When no mode, hook, transform or anomaly check is active and every node below the root comes from
an operator's own formula, nobody can tell whether a graph task goes by the book. Then leaves need
no accumulator of their own, a chain of nodes needs no heap, and a graph met before runs as a
backward program. `run_plain` answers False, having changed nothing, for a graph that needs the
general engine. Order, ownership of gradients and checks are those of `engine`.
"""

from __future__ import annotations

import sys
from heapq import heappop, heappush
from typing import Any

import numpy as np

from rushlight.autograd.engine import (
    COUNTS_ARE_EXACT,
    LEAF_LOCKS,
    GraphTask,
    cut_loose,
    first_gradient,
    is_own_view,
    validate,
)
from rushlight.autograd.matching import write_matcher
from rushlight.autograd.programs import Program, Recorder, write_program
from rushlight.core.device import memory_format
from rushlight.core.dtype import dtype
from rushlight.core.node import AccumulateGrad, OpNode, SavedTensor, autograd_state
from rushlight.core.size import Size
from rushlight.core.state import OVERRIDES, PROCESS, ThreadState
from rushlight.core.tensor import PLAIN, Tensor, new_tensor

__all__ = ["run_plain"]

getrefcount = sys.getrefcount
ndarray = np.ndarray
# What getrefcount answers for a tensor that only one local variable holds.
LONE = 2
# How often a graph must come up before its program is written; how large it may be; how many
# graphs are remembered before all are forgotten.
PATIENCE = 4
LARGEST_PROGRAM = 400
MOST_GRAPHS = 512

# Types of saved values that are part of the signature as they are.
SIMPLE = frozenset((int, float, complex, bool, str, type(None), dtype, memory_format))
# Matchers tried before a scan, for each class of root: a few graphs take turns in most programs.
MATCHERS: dict[type, tuple[tuple[Any, Program], ...]] = {}
MOST_MATCHERS = 3
LARGEST_MATCHER = 120
# signature -> Program, False (cannot be written), or the number of visits so far
GRAPHS: dict[Any, Any] = {}


class Scan:
    """What one walk over a graph finds out."""

    __slots__ = ("leaves", "nodes", "saved", "signature")

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        # Leaves in the order met, and the saved tensors that a program takes.
        self.leaves: list[Any] = []
        self.saved: list[Any] = []
        self.signature: Any = None


def scan(root: Any, number: int) -> Scan | None:  # noqa: C901 - a call per node costs as much
    """Walk the graph; None if it is not a plain one.

    The signature says all that formulas may depend on; it stays None for a graph whose program
    could not be reused.
    """
    if not isinstance(root, OpNode) or root.node_hooks is not None:
        return None
    found = Scan()
    nodes, leaves, saved = found.nodes, found.leaves, found.saved
    places: dict[Any, int] = {root: 0}
    nodes.append(root)
    key: list[Any] = [number]
    add = key.append
    reusable = True
    for node in nodes:  # grows while it is walked
        add(type(node))
        for following in node.next_nodes:
            if following is None:
                add(None)
                continue
            place = places.get(following)
            if place is not None:
                add(place)
            elif isinstance(following, OpNode):
                if following.node_hooks is not None:
                    return None
                places[following] = len(places)
                nodes.append(following)
                add(True)
            else:
                if type(following) is AccumulateGrad:
                    if following.node_hooks is not None:
                        return None
                    following = following.variable
                    place = places.get(following)
                    if place is not None:
                        add(place)
                        continue
                if type(following) is not Tensor and type(following) not in PLAIN:
                    return None
                state = following._ag
                if following._ext is not None or (
                    state is not None and (state.hooks is not None or state.post_accumulate)
                ):
                    return None
                places[following] = len(places)
                leaves.append(following)
                array = following._array
                add(array.shape)
                add(following._dtype)
                add(following._contig or array.strides)
        add(node.next_nrs)
        slots = node.saved_slots
        if slots is None:
            reusable = False
            continue
        for entry in slots:
            kind = type(entry)
            if kind in SIMPLE:
                add(entry)
                continue
            if kind is tuple or kind is Size:
                if any([type(item) not in SIMPLE for item in entry]):
                    reusable = False
                add(entry)
                continue
            version = 0
            if kind is SavedTensor:
                if entry.unpack_hook is not None:
                    reusable = False
                    continue
                version = entry.version
                entry = entry.tensor
                kind = type(entry)
            if kind is Tensor or kind in PLAIN:
                counter = entry._counter
                own = entry._ag
                if (
                    entry._ext is not None
                    or (counter is not None and counter.value != version)
                    or (own is not None and own.detached_at)
                ):
                    reusable = False
                    continue
                saved.append(entry)
                array = entry._array
                add(array.shape)
                add(entry._dtype)
                add(entry._contig or array.strides)
            else:
                # A value that cannot be told apart by what it says, such as a list of tensors.
                reusable = False
    if reusable and len(nodes) <= LARGEST_PROGRAM:
        found.signature = tuple(key)
    return found


def count_edges(nodes: list[Any]) -> dict[Any, int]:
    """How many gradients each node and leaf will get."""
    counts: dict[Any, int] = {nodes[0]: 0}
    for node in nodes:
        for following in node.next_nodes:
            if following is not None:
                if type(following) is AccumulateGrad:
                    following = following.variable
                counts[following] = counts.get(following, 0) + 1
    return counts


def run_plain(root: Any, number: int, grad: Any, keep_graph: bool, state: ThreadState) -> bool:
    """Run the graph below `root`; False, untouched, when it is not a plain one."""
    for match, known in MATCHERS.get(type(root), ()):
        matched = match(root, number)
        if matched is not None:
            arrays, leaves, nodes = matched
            if not known.same or known.fits(arrays):
                run_program(known, arrays, leaves, nodes, grad, keep_graph, state)
                return True
    found = scan(root, number)
    if found is None:
        return False
    program: Any = None
    if found.signature is not None:
        try:
            program = GRAPHS.get(found.signature)
        except TypeError:  # an unhashable plain value
            found.signature = None
    if type(program) is Program:
        arrays = tuple([entry._array for entry in found.saved])
        if not program.same or program.fits(arrays):
            remember(root, number, found, program)
            run_program(program, arrays, found.leaves, found.nodes, grad, keep_graph, state)
            return True
        # Written anew from this graph, it will serve both.
        program = PATIENCE
    before, excluded, tasks = state.grad, state.excluded, state.tasks
    task = GraphTask(keep_graph, False)
    try:
        state.tasks = (*tasks, task)
        state.excluded = excluded | OVERRIDES
        state.set_grad(False)
        start: list[Any] = [None] * len(root.output_metas)
        start[number] = grad
        if found.signature is not None and program is not False:
            if type(program) is int and program >= PATIENCE:
                run_recorded(root, start, found, keep_graph, task, grad)
                return True
            if len(GRAPHS) >= MOST_GRAPHS:
                GRAPHS.clear()
            GRAPHS[found.signature] = 1 if program is None else program + 1
        del grad
        run_nodes(root, start, count_edges(found.nodes), keep_graph, task, None)
    finally:
        # Stores before calls: a signal may raise in any of these.
        state.tasks, state.excluded, state.grad = tasks, excluded, before
        state.set_grad(before)
    return True


def remember(root: Any, number: int, found: Scan, program: Program) -> None:
    """Put the graph first among those tried for a root of this class."""
    if program.matcher is None:
        if len(found.nodes) > LARGEST_MATCHER:
            return
        program.matcher = write_matcher(found.nodes, number)
    others = [entry for entry in MATCHERS.get(type(root), ()) if entry[1] is not program]
    MATCHERS[type(root)] = ((program.matcher, program), *others[: MOST_MATCHERS - 1])


def run_program(
    program: Program,
    arrays: tuple[Any, ...],
    leaves: Any,
    nodes: Any,
    grad: Any,
    keep_graph: bool,
    state: ThreadState,
) -> None:
    answers = program.run(grad._array, *arrays)
    if not keep_graph:
        for node in nodes:
            if node.frees_saved:
                node.saved_slots = None
    position = 0
    kinds = program.kinds
    alone = PROCESS.threads == 1
    for leaf in leaves:
        value = answers[position]
        made = kinds[position]
        position += 1
        if value is None:
            continue
        if type(value) is not ndarray:
            value = np.asarray(value)
        result = new_tensor()
        result._array = value
        result._dtype, result._contig = made
        result._requires_grad = False
        result._node = None
        result._output_nr = 0
        result._counter = None
        result._storage = None
        result._offset = 0
        result._view = None
        result._ag = None
        result._ext = None
        own = leaf._ag
        if own is None:
            own = autograd_state(leaf)
        if alone and own.grad is None and made[1] and leaf._contig:
            own.grad = result
            continue
        before = state.grad
        try:
            state.set_grad(False)
            store(leaf, result, False)
        finally:
            state.grad = before
            state.set_grad(before)


def run_recorded(
    root: Any, start: list[Any], found: Scan, keep_graph: bool, task: GraphTask, grad: Any
) -> None:
    """Run the nodes listing their ops, and write the program of the graph."""
    recorder = Recorder()
    arrived: dict[Any, Any] = {}
    with recorder:
        run_nodes(root, start, count_edges(found.nodes), True, task, arrived)
    results = [arrived.get(leaf) for leaf in found.leaves]
    program = write_program(recorder.calls, [grad, *found.saved], results)
    GRAPHS[found.signature] = False if program is None else program
    for leaf, value in arrived.items():
        store(leaf, value, False)
    if not keep_graph:
        for node in found.nodes:
            node.release()


def run_nodes(  # noqa: C901 - a call per node costs as much as the node
    node: Any,
    grads: Any,
    counts: dict[Any, int],
    keep_graph: bool,
    task: GraphTask,
    arrived: dict[Any, Any] | None,
) -> None:
    """Node after node. Gradients of leaves are stored, or put into `arrived` where given."""
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
        position = -1
        for following in node.next_nodes:
            position += 1
            if following is None:
                continue
            value = pending[position]
            pending[position] = None
            if type(following) is AccumulateGrad:
                following = following.variable
            left = counts[following] - 1
            counts[following] = left
            if not isinstance(following, OpNode):
                value = gathered(value, following, node, position, left, buffers)
                if value is not None:
                    if arrived is not None:
                        arrived[following] = value
                    else:
                        sole = COUNTS_ARE_EXACT and getrefcount(value) == LONE
                        store(following, value, sole)
                    value = None
                continue
            if value is not None:
                hand_over(value, following, node, position, buffers)
                value = None
            if left == 0:
                if upcoming is None:
                    upcoming = following
                else:
                    heappush(heap, (-following.sequence_nr, id(following), following))
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


def hand_over(value: Any, following: Any, node: Any, position: int, buffers: Any) -> None:
    """Put a gradient into the buffer of the node it belongs to."""
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
            return
        box = buffers[following] = [None] * len(metas)
    held = box[slot]
    box[slot] = value if held is None else held + value


def gathered(
    value: Any, leaf: Any, node: Any, position: int, left: int, buffers: dict[Any, Any]
) -> Any:
    """A leaf's gradient once all its parts have arrived; None before that."""
    if value is not None and (
        type(value) is not Tensor
        or value._dtype is not leaf._dtype
        or value._ext is not None
        or value._array.shape != leaf._array.shape
    ):
        value = fitted(value, leaf, node, position)
    if left or leaf in buffers:
        held = buffers.pop(leaf, None)
        if held is not None:
            value = held if value is None else held + value
        if left:
            if value is not None:
                buffers[leaf] = value
            return None
    return value


def fitted(value: Any, leaf: Any, node: Any, position: int) -> Any:
    """A gradient summed down to its leaf; the common case is a bias added to every row."""
    if type(value) is Tensor and value._ext is None and value._dtype is leaf._dtype:
        wanted, shape = leaf._array.shape, value._array.shape
        extra = len(shape) - len(wanted)
        if extra > 0 and shape[extra:] == wanted:
            return value.sum(tuple(range(extra)))
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
