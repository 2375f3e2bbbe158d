"""The backward engine: one iterative loop over a heap of ready nodes.

A graph task counts, for every node it will reach, how many gradients are still to come; a node
with none missing is ready, and the ready node with the highest sequence number runs first.
CPU tasks run in the calling thread. `evaluate` is the one place that knows the order of hooks.
Note [Direct leaves]: at a leaf that nobody watches a gradient is stored where it arrives; the leaf
gets no accumulator.
Note [Gradient ownership]: a gradient may be stored, or added to in place, by its sole holder only:
reference counts say so (`core.ownership`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from heapq import heappop, heappush, heappushpop
from sys import getrefcount
from typing import Any

from rushlight.autograd.nodehooks import check_posthook, put_replaced, told, told_places
from rushlight.core import geometry
from rushlight.core.dispatch import QUIET, dispatches
from rushlight.core.node import (
    AccumulateGrad,
    GraphNode,
    accumulator,
    accumulator_for,
    autograd_state,
    has_meta,
    resolve_edges,
)
from rushlight.core.ownership import COUNTS
from rushlight.core.state import LOCAL, OVERRIDES, ThreadState, as_python
from rushlight.core.tensor import PLAIN, Tensor, sizes_of, storage_of, strides_of

__all__ = ["GraphTask", "current_task", "run_backward", "run_root"]

task_ids = itertools.count()
# Nested backwards deeper than this continue in another thread, with a stack of its own.
MAX_DEPTH = 40


class GraphTask:
    """One execution of the engine."""

    __slots__ = (
        "accumulates",
        "buffers",
        "callbacks",
        "captured",
        "captures",
        "collected",
        "create_graph",
        "current",
        "dependencies",
        "depth",
        "direct",
        "heap",
        "id",
        "keep_graph",
        "needed",
        "notes",
        "roots",
    )

    # With requested inputs: which nodes run (`needed`), and what to hand back of each.
    needed: set[Any] | None
    captures: dict[Any, dict[int, list[int]]]
    captured: list[Any]
    callbacks: list[Any]
    roots: list[Any]
    depth: int
    accumulates: bool
    # State that hooks keep for the length of this task, by an owner of theirs.
    notes: dict[Any, Any]

    def __init__(self, keep_graph: bool, create_graph: bool) -> None:
        self.id = next(task_ids)
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.needed = None
        self.current: Any = None
        # Gradients still to come, by node and direct leaf; those that came; the nodes ready to run.
        self.dependencies: dict[Any, int] = {}
        self.buffers: dict[Any, Any] = {}
        self.heap: list[Any] = []
        # Note [Direct leaves]: whether there may be some, and where their gradients go if they
        # are not to be stored.
        self.direct = False
        self.collected: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        # A field not set yet: most tasks need few of them.
        make = UNSET.get(name)
        if make is None:
            raise AttributeError(f"'GraphTask' object has no attribute '{name}'")
        value = make()
        setattr(self, name, value)
        return value


UNSET: dict[str, Callable[[], Any]] = {
    "accumulates": lambda: True,
    "callbacks": list,
    "captured": list,
    "captures": dict,
    "depth": int,
    "notes": dict,
    "roots": list,
}


def current_task() -> GraphTask | None:
    tasks = LOCAL.state.tasks
    return tasks[-1] if tasks else None


def count_dependencies(task: GraphTask, roots: list[Any]) -> None:
    """How many edges of the part of the graph below the roots lead to each node."""
    dependencies = task.dependencies
    for root in roots:
        dependencies[root] = 0
    stack = list(roots)
    direct = task.direct
    while stack:
        node = stack.pop()
        for following in node.next_nodes:
            if following is None:
                continue
            if following in dependencies:
                dependencies[following] += 1
                continue
            if not isinstance(following, GraphNode):
                if not direct or not is_unwatched(following):
                    following = put_accumulator(node, following)
            elif type(following) is not AccumulateGrad:
                stack.append(following)
            elif direct and is_unwatched(following.variable):
                following = following.variable
            dependencies[following] = dependencies.get(following, 0) + 1


def is_unwatched(leaf: Any) -> bool:
    """Whether a leaf may go without an accumulator: Note [Direct leaves]."""
    if (type(leaf) is not Tensor and type(leaf) not in PLAIN) or leaf._unusual is not None:
        return False
    state = leaf._autograd
    if state is None:
        return True
    if state.hooks is not None or state.post_accumulate:
        return False
    node = None if state.accumulator is None else state.accumulator()
    return node is None or node.node_hooks is None


def put_accumulator(node: Any, leaf: Any) -> Any:
    """Let a node's edges to a leaf lead to the leaf's accumulator (Note [Leaf edges])."""
    found = accumulator_for(leaf, node)
    node.next_nodes = tuple([found if entry is leaf else entry for entry in node.next_nodes])
    return found


def find_needed(task: GraphTask, roots: list[Any], targets: set[Any], run_targets: bool) -> None:
    """Mark the nodes on a path from a root to a target, and the targets if those run too."""
    needed: set[Any] = set()
    seen: set[Any] = set()
    stack: list[tuple[Any, int]] = [(root, 0) for root in roots]
    while stack:
        node, phase = stack.pop()
        if phase == 0:
            if node in seen:
                continue
            seen.add(node)
            stack.append((node, 1))
            stack.extend((n, 0) for n in node.next_nodes if n is not None and n not in seen)
            continue
        below = any(n is not None and (n in needed or n in targets) for n in node.next_nodes)
        if below or (run_targets and node in targets):
            needed.add(node)
    task.needed = needed


def run_backward(
    roots: list[tuple[Any, int, Any]],
    keep_graph: bool,
    create_graph: bool,
    inputs: list[tuple[Any, int]] | None = None,
    accumulate: bool = False,
    whole: bool = False,
) -> list[Any]:
    """Run the graph from (node, output number, gradient) roots.

    With `inputs` (edges), only paths to them run and their gradients are returned; with
    `accumulate` nothing is returned, but the nodes of the inputs run as well. `whole`: there are
    no other paths.
    """
    state = LOCAL.state
    task = GraphTask(keep_graph, create_graph)
    root_nodes = task.roots = list(dict.fromkeys(node for node, _, _ in roots))
    task.direct = inputs is None and not create_graph and not is_observed(state)
    count_dependencies(task, root_nodes)
    if inputs is not None:
        task.accumulates = accumulate
        if not accumulate:
            task.captured = [None] * len(inputs)
            for position, (node, number) in enumerate(inputs):
                task.captures.setdefault(node, {}).setdefault(number, []).append(position)
        if not whole:
            find_needed(task, root_nodes, {node for node, _ in inputs}, accumulate)
    for node, number, grad in roots:
        deliver(task, node, number, validate(grad, node, number, None))
    for node in root_nodes:
        if task.dependencies[node] == 0 and is_wanted(task, node):
            heappush(task.heap, (-node.sequence_nr, id(node), node))
    begin(task, state)
    return task.captured


def run_root(
    node: Any, number: int, grad: Any, keep_graph: bool, collected: dict[Any, Any] | None = None
) -> None:
    """`run_backward` from one root whose gradient fits, with nobody watching. The gradients of
    leaves go to `collected` where that is given."""
    task = GraphTask(keep_graph, False)
    task.direct = True
    task.collected = collected
    task.roots = [node]
    count_dependencies(task, task.roots)
    box: list[Any] = [None] * len(node.output_metas)
    box[number] = grad
    del grad
    task.buffers[node] = box
    task.heap.append((0, 0, node))
    begin(task, LOCAL.state)


def is_observed(state: ThreadState) -> bool:
    """Whether something in this thread sees what the engine does at leaves."""
    return state.below or state.anomaly or state.profiler is not None


def begin(task: GraphTask, state: ThreadState) -> None:
    """Execute a task in this thread, or on a fresh stack when it is nested deeply."""
    if state.tasks:
        task.depth = state.tasks[-1].depth + 1
        if task.depth % MAX_DEPTH == 0:
            run_in_thread(task, state)
            return
    execute(task, state)


def is_wanted(task: GraphTask, node: Any) -> bool:
    """Whether a gradient for this node is of use: the node runs, or is asked for."""
    return task.needed is None or node in task.needed or node in task.captures


def run_in_thread(task: GraphTask, state: ThreadState) -> None:
    """Continue a deeply nested backward on a fresh stack, with the caller's modes."""
    fields = state.snapshot()
    tasks = state.tasks
    failure: list[BaseException] = []

    def target() -> None:
        own = LOCAL.state
        own.tasks = tasks
        own.install(fields)
        try:
            execute(task, own)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="rushlight-backward")
    thread.start()
    thread.join()
    if failure:
        error = failure.pop()
        try:
            raise error
        finally:
            del error


def execute(task: GraphTask, state: ThreadState) -> None:
    """Run a task in the thread that `state` belongs to; then its final callbacks."""
    grad, excluded, tasks = state.grad, state.excluded, state.tasks
    try:
        state.tasks = (*tasks, task)
        # Overrides being off changes nothing that `set_grad` does not look at.
        state.excluded = excluded | OVERRIDES
        state.set_grad(task.create_graph)
        run_ready(task, state)
        task.current = None
        for callback in task.callbacks:  # one may add another, which then runs too
            with_user_code(state, callback)
    except BaseException:
        if state.anomaly and task.current is not None:
            from rushlight.autograd.anomaly import report

            report(task.current)
        raise
    finally:
        # Stores before calls: a signal may raise in any of these.
        state.tasks, state.excluded, state.grad = tasks, excluded, grad
        task.current = None
        state.set_grad(grad)
        task.heap.clear()
        task.buffers.clear()


def run_ready(task: GraphTask, state: ThreadState) -> None:  # noqa: C901 - a call costs as much
    """Pop, run, hand on, until nothing is ready."""
    heap, buffers, dependencies = task.heap, task.buffers, task.dependencies
    keep = task.keep_graph
    pruned = task.needed is not None
    watched = pruned or state.anomaly or state.profiler is not None
    upcoming: Any = None
    while True:
        if upcoming is None:
            if not heap:
                return
            node = heappop(heap)[2]
        elif heap and heap[0][0] < -upcoming.sequence_nr:
            node = heappushpop(heap, (-upcoming.sequence_nr, id(upcoming), upcoming))[2]
        else:
            node = upcoming
        upcoming = None
        grads = buffers.pop(node, None)
        if grads is None:
            grads = [None] * (len(node.output_metas) or 1)
        task.current = node
        if watched or node.node_hooks is not None or type(node) is AccumulateGrad:
            results = evaluate(task, node, grads, state)
            if not results:
                continue
        else:
            results = node.apply(grads, None)
            if not keep and node.frees_saved:
                node.release()
        grads = None
        # Gradients leave one by one, so that the last receiver of a tensor can be seen to be
        # its only holder.
        pending = list(results)
        results = None
        position = -1
        for following in node.next_nodes:
            position += 1
            if following is None or (pruned and not is_wanted(task, following)):
                continue
            value = pending[position]
            pending[position] = None
            try:
                left = dependencies[following] - 1
            except KeyError:
                # The accumulator of a direct leaf, which somebody looked at.
                following = following.variable
                left = dependencies[following] - 1
            dependencies[following] = left
            if not isinstance(following, GraphNode):
                if (
                    left
                    or type(value) is not Tensor
                    or value._dtype is not following._dtype
                    or value._unusual is not None
                    or value._array.shape != following._array.shape
                    or following in buffers
                ):
                    value = gather(value, following, node, position, left, buffers)
                if value is not None:
                    if task.collected is not None:
                        task.collected[following] = value
                    elif is_unwatched(following):
                        sole = getrefcount(value) <= COUNTS.local
                        accumulate(following, value, sole, state)
                    else:
                        evaluate(task, accumulator(following), [value], state)
                    value = None
                continue
            if value is not None:
                number = node.next_nrs[position]
                metas = following.output_metas
                meta = metas[number]
                if (
                    type(value) is not Tensor
                    or value._dtype is not meta[1]
                    or value._unusual is not None
                    or value._array.shape != meta[0]
                ) and not (type(value) in QUIET and has_meta(value, meta)):
                    value = validate(value, following, number, node, position)
                if len(metas) != 1 or following in buffers:
                    deliver(task, following, number, value)
                else:
                    buffers[following] = [value]
                value = None
            if left == 0:
                if upcoming is None:
                    upcoming = following
                else:
                    heappush(heap, (-following.sequence_nr, id(following), following))


def gather(
    value: Any, leaf: Any, node: Any, position: int, left: int, buffers: dict[Any, Any]
) -> Any:
    """A direct leaf's gradient once all its parts have arrived; None before that."""
    if value is not None and (
        type(value) is not Tensor
        or value._dtype is not leaf._dtype
        or value._unusual is not None
        or value._array.shape != leaf._array.shape
    ):
        value = validate(value, LeafMeta(leaf), 0, node, position)
    if left or leaf in buffers:
        held = buffers.pop(leaf, None)
        if held is not None:
            value = held if value is None else add_gradients(held, value)
        if left:
            if value is not None:
                buffers[leaf] = value
            return None
    return value


class LeafMeta:
    """A leaf in the place of a node, for `validate`."""

    __slots__ = ("output_metas",)

    def __init__(self, leaf: Any) -> None:
        self.output_metas = ((leaf._array.shape, leaf._dtype, None),)


def deliver(task: GraphTask, node: Any, number: int, grad: Any) -> None:
    """Add a gradient to a node's input buffer, out of place: others may hold what is there."""
    buffer = task.buffers.get(node)
    if buffer is None:
        buffer = task.buffers[node] = [None] * max(len(node.output_metas), number + 1)
    elif len(buffer) <= number:
        buffer.extend([None] * (number + 1 - len(buffer)))
    existing = buffer[number]
    if grad is None:
        return
    buffer[number] = grad if existing is None else add_gradients(existing, grad)


def add_gradients(existing: Any, grad: Any) -> Any:
    """The sum of two; a sparse tensor can be added to a dense one only."""
    if existing._unusual is not None and is_strided(grad) and not is_strided(existing):
        return grad + existing
    return existing + grad


def validate(grad: Any, node: Any, number: int, producer: Any, index: int = 0) -> Any:
    """Fit a gradient to the forward value it belongs to: shape, dtype, device."""
    if grad is None:
        return None
    meta = node.output_metas[number] if number < len(node.output_metas) else None
    if meta is None or (type(grad) in QUIET and has_meta(grad, meta)):
        return grad
    shape, dtype, unusual = meta
    plain = type(grad) is Tensor and grad._unusual is None and unusual is None
    # The common case, soonest: what was added to every row gets the sum over the rows.
    if plain and grad._dtype is dtype and grad._array.shape[1:] == shape and grad._array.ndim:
        return grad.sum((0,))
    if not isinstance(grad, Tensor):
        name = producer.name() if producer is not None else "backward"
        raise TypeError(
            f"{name} returned a gradient of type {type(grad).__name__} at index {index}; expected "
            "a Tensor or None"
        )
    if not geometry.same_sizes(sizes_of(grad), tuple(shape)) and grad.layout.name == "strided":
        if not is_expandable(shape, grad.shape):
            name = producer.name() if producer is not None else "Function"
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {index} - got "
                f"{list(grad.shape)} but expected shape compatible with {list(shape)}"
            )
        grad = sum_to(grad, tuple(shape))
    if grad._dtype is not dtype:
        if grad._dtype.is_complex and not dtype.is_complex:
            grad = grad.real
        if grad._dtype is not dtype:
            grad = grad.to(dtype)
    place = None if unusual is None else unusual.device
    if place is not None and grad.device != place:
        if grad.dim() == 0:
            grad = grad.to(place)
        else:
            raise RuntimeError(
                f"Function {producer.name() if producer else ''} returned an invalid gradient at "
                f"index {index} - expected device {place} but got {grad.device}"
            )
    return grad


def no_history(position: int) -> RuntimeError:
    return RuntimeError(
        f"element {position} of tensors does not require grad and does not have a grad_fn"
    )


def is_expandable(shape: Any, wanted: Any) -> bool:
    if len(shape) > len(wanted):
        return False
    offset = len(wanted) - len(shape)
    return all(size in (1, wanted[offset + i]) for i, size in enumerate(shape))


def sum_to(grad: Any, shape: tuple[Any, ...]) -> Any:
    """Undo broadcasting: sum over the dims that were expanded."""
    extra = grad.dim() - len(shape)
    dims = list(range(extra))
    dims += [extra + i for i, size in enumerate(shape) if size == 1 and grad.shape[extra + i] != 1]
    if len(dims) == extra:
        return grad.sum(dims) if dims else grad
    grad = grad.sum(dims, True)
    return grad.view(shape) if extra else grad


# -- one node -------------------------------------------------------------------------------------


def evaluate(task: GraphTask, node: Any, grads: list[Any], state: ThreadState) -> Any:
    """`evaluate_node`, seen by the profiler if there is one."""
    if state.profiler is not None:
        return state.profiler.evaluate(node, evaluate_node, task, node, grads, state)
    return evaluate_node(task, node, grads, state)


def evaluate_node(task: GraphTask, node: Any, grads: list[Any], state: ThreadState) -> Any:
    """Hooks, captures, formula, hooks. Returns None when the node itself does not run.

    Order: tensor hooks, retained grads, captures, node pre-hooks, the formula (or accumulation
    and its hooks), node post-hooks.
    """
    receive(task, node, grads, state)
    wanted = task.needed
    is_leaf = type(node) is AccumulateGrad
    if node not in wanted if wanted is not None else is_leaf and not task.accumulates:
        return None
    hooks = node.node_hooks
    if hooks is not None and hooks.pre:
        places = told_places(node)
        for hook in list(hooks.pre.values()):
            replaced = with_user_code(state, hook, told(grads, places))
            if replaced is not None:
                put_replaced(grads, replaced, places)
            replaced = None
    if is_leaf:
        if state.profiler is not None:
            state.profiler.apply(node, grads, evaluate_leaf, node, grads, state)
        else:
            evaluate_leaf(node, grads, state)
        return None
    needs = None
    if wanted is not None:
        needs = tuple([n is not None and is_wanted(task, n) for n in node.next_nodes])
    has_posts = hooks is not None and bool(hooks.post)
    results = apply_checked(node, tuple(grads), needs, state)
    if not task.keep_graph:
        node.release()
    # Hooks of saved tensors may have put some on the node; torch: those are not told its inputs.
    hooks = node.node_hooks
    if hooks is not None and hooks.post:
        given = told(grads, told_places(node)) if has_posts else ()
        for hook in list(hooks.post.values()):
            replaced = with_user_code(state, hook, results, given)
            if replaced is not None:
                results = check_posthook(replaced, results)
    return results


def receive(task: GraphTask, node: Any, grads: list[Any], state: ThreadState) -> None:
    """What happens to gradients in front of a node: tensor hooks, retained grads, captures."""
    hooks = node.node_hooks
    tensor_hooks = None if hooks is None else hooks.tensor
    if type(node) is AccumulateGrad:
        leaf = node.variable._autograd
        if leaf is not None and leaf.hooks is not None:
            tensor_hooks = leaf.hooks.tensor
    if tensor_hooks:
        for number, table in list(tensor_hooks.items()):
            if table:
                with_user_code(state, run_tensor_hooks, table, grads, number)
    if hooks is not None and hooks.retain:
        for number, ref in list(hooks.retain.items()):
            retain(ref, grads[number])
    for number, positions in task.captures.get(node, {}).items():
        for position in positions:
            task.captured[position] = grads[number]


def evaluate_leaf(node: Any, grads: list[Any], state: ThreadState) -> None:
    """Accumulation into a leaf, and the hooks that follow it."""
    variable, hooks = node.variable, node.node_hooks
    posts = hooks.post if hooks is not None else None
    outputs: tuple[Any, ...] = tuple(grads) if posts else ()
    accumulate_boxed(node, grads, 1 if posts else 0, state)
    leaf = variable._autograd
    if leaf is not None and leaf.post_accumulate:
        for hook in list(leaf.post_accumulate.values()):
            if with_user_code(state, hook, variable) is not None:
                raise RuntimeError("post accumulate grad hooks should return None.")
    if posts:
        for hook in list(posts.values()):
            with_user_code(state, hook, (), outputs)


def apply_checked(node: Any, grads: Any, needs: Any, state: ThreadState) -> Any:
    if not state.anomaly:
        if state.profiler is not None:
            return state.profiler.apply(node, grads, node.apply, grads, needs)
        return node.apply(grads, needs)
    from rushlight.autograd.anomaly import apply_watched

    return apply_watched(node, grads, needs, state)


def with_user_code(state: ThreadState, function: Any, *args: Any) -> Any:
    """Run a hook: user code, so overrides of functions are on again."""
    excluded = state.excluded
    try:
        state.excluded = as_python(excluded)
        state.refresh()
        return function(*args)
    finally:
        state.excluded = excluded
        state.refresh()


def hook_name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def run_tensor_hooks(table: Any, grads: list[Any], number: int) -> None:
    for hook in list(table.values()):
        grad = grads[number]
        replaced = hook(grad)
        if replaced is None:
            continue
        if not isinstance(replaced, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{type(replaced).__name__}'")
        if grad is not None:
            if not geometry.same_sizes(replaced.shape, grad.shape):
                raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")
            if replaced._dtype is not grad._dtype:
                raise RuntimeError(f"hook '{hook_name(hook)}' has changed the type of value")
        grads[number] = replaced


def retain(ref: Any, grad: Any) -> None:
    tensor = ref()
    if tensor is None or grad is None:
        return
    state = tensor._autograd
    if state.grad is None:
        state.grad = grad.clone() if not LOCAL.state.grad else grad
    else:
        state.grad = state.grad + grad


# -- leaves ---------------------------------------------------------------------------------------


def keeps_layout(grad: Any, variable: Any) -> bool:
    """Whether a gradient's strides are those that `variable.grad` must have."""
    if grad._is_contiguous and variable._is_contiguous:
        return True
    if not geometry.same_sizes(grad.shape, variable.shape):
        # The leaf has taken other memory since.
        return bool(grad.is_contiguous())
    strides = strides_of(variable)
    if geometry.is_non_overlapping_and_dense(variable.shape, strides):
        return same_strides(grad.shape, strides_of(grad), strides)
    return bool(grad.is_contiguous())


def same_strides(sizes: Any, a: Any, b: Any) -> bool:
    return all(size == 1 or x == y for size, x, y in zip(sizes, a, b, strict=True))


# One of these guards each leaf's `.grad`; reentrant, because adding may run user code.
LEAF_LOCKS = tuple(threading.RLock() for _ in range(64))


def accumulate(leaf: Any, grad: Any, sole: bool, state: ThreadState) -> None:
    """Note [Gradient ownership]: add to the leaf's `.grad`, or be it where `sole` says so."""
    if not leaf._requires_grad:  # any more
        return
    own = leaf._autograd
    if own is None:
        own = autograd_state(leaf)
    with LEAF_LOCKS[(id(leaf) >> 6) & 63]:
        existing = own.grad
        if existing is None:
            if (
                sole
                and type(grad) is Tensor
                and grad._is_contiguous
                and leaf._is_contiguous
                and grad._view is None
                and grad._storage is None
                and grad._unusual is None
                and not (grad._requires_grad or state.grad or state.below)
            ):
                own.grad = grad
            else:
                own.grad = first_gradient(leaf, grad, sole, state)
        elif is_strided(grad) and not is_strided(existing):
            own.grad = grad + existing
        elif state.grad:
            own.grad = existing + grad
        else:
            existing.add_(grad)


def accumulate_boxed(node: Any, box: list[Any], holders: int, state: ThreadState) -> None:
    """Accumulate the gradient in `box`, of which the engine holds `holders` more references."""
    grad = box.pop()
    if grad is not None:
        sole = getrefcount(grad) <= COUNTS.local + holders
        accumulate(node.variable, grad, sole, state)


def is_strided(tensor: Any) -> bool:
    return tensor._unusual is None or tensor.layout.name == "strided"


def is_own_view(grad: Any) -> bool:
    """Whether nothing but this view, by way of views made for it, holds what it looks at."""
    links = 1
    link = grad._view.parent
    while link is not None:
        # Beside this variable, the record after it.
        if getrefcount(link) > COUNTS.local + 1:
            return False
        links += 1
        link = link.parent
    return getrefcount(grad._view.base) < COUNTS.slot + links


def cut_from_base(grad: Any) -> Any:
    """A view that outlives its base becomes a tensor of its own."""
    base = grad._view.base
    if not (
        grad._is_contiguous
        and grad._storage is None is base._storage
        and grad._array.size == base._array.size
    ):
        grad._storage = storage_of(grad)
    grad._view = None
    grad._counter = None
    return grad


def first_gradient(leaf: Any, grad: Any, sole: bool, state: ThreadState) -> Any:
    if state.grad:
        return copy_like(leaf, grad)
    if (
        sole
        and (type(grad) is Tensor or type(grad) in PLAIN or dispatches(type(grad)))
        and (grad._view is None or is_own_view(grad))
        and (grad._storage is None or getrefcount(grad._storage) <= COUNTS.slot)
        and is_strided(grad)
        and keeps_layout(grad, leaf)
        and not grad._requires_grad
    ):
        if grad._view is not None:
            grad = cut_from_base(grad)
        # Modes get to see that the leaf takes the gradient over.
        return grad.detach() if state.below or type(grad) is not Tensor else grad
    if sole and grad.layout.name == "sparse_coo" and not grad._requires_grad:
        from rushlight.opset.sparse.coo import taken_over

        kept = taken_over(grad)
        if kept is not None:
            return kept
    return copy_like(leaf, grad).detach()


def copy_like(variable: Any, grad: Any) -> Any:
    """A copy of a gradient in the layout its leaf asks for."""
    if grad.layout.name != "strided" or variable.layout.name != "strided":
        return grad.clone()
    if not LOCAL.state.grad and grad._is_contiguous and variable._is_contiguous:
        return grad.clone()
    strides = strides_of(variable)
    if geometry.same_sizes(grad.shape, variable.shape) and geometry.is_non_overlapping_and_dense(
        variable.shape, strides
    ):
        result = grad.new_empty_strided(tuple(variable.shape), strides)
        return result.copy_(grad)
    from rushlight.core.device import contiguous_format

    return grad.clone(memory_format=contiguous_format)


def accumulate_by_hand(node: Any, grad: Any) -> None:
    accumulate(node.variable, grad, False, LOCAL.state)


# -- questions and requests from code that runs inside a backward ---------------------------------


def current_graph_task_id() -> int:
    """The id of the innermost running graph task, -1 outside backward."""
    task = current_task()
    return -1 if task is None else task.id


def current_autograd_node() -> Any:
    """The node being executed, or None."""
    task = current_task()
    return None if task is None else task.current


def will_engine_execute_node(node: Any) -> bool:
    """Whether the current backward runs a node, or captures a gradient in front of it."""
    if not isinstance(node, GraphNode):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    task = current_task()
    if task is None:
        raise RuntimeError(
            "_get_should_execute_nodes should only be called during the backward pass"
        )
    if task.needed is None:
        leaf = node.variable if type(node) is AccumulateGrad else node
        return node in task.dependencies or leaf in task.dependencies
    if type(node) is AccumulateGrad and not task.accumulates:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running "
            "autograd.grad(). This is currently not supported."
        )
    return node in task.needed or (
        node in task.captures and (node in task.dependencies or node in task.roots)
    )


def current_graph_task_execution_order() -> list[Any]:
    """The nodes still to run, in order, from the one running now."""
    task = current_task()
    if task is None:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if LOCAL.state.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed "
            "with multithreading disabled, e.g. by running:\n\n"
            ">>> with torch.autograd.set_multithreading_enabled(False):\n"
            "...     torch.autograd.grad(...)\n"
        )
    dependencies = dict(task.dependencies)
    heap = list(task.heap)
    if task.current is not None:
        heappush(heap, (-task.current.sequence_nr, id(task.current), task.current))
    order: list[Any] = []
    while heap:
        node = heappop(heap)[2]
        order.append(node)
        for following in resolve_edges(node):
            if following is not None and is_wanted(task, following):
                if following not in dependencies:  # a direct leaf's
                    dependencies[following] = dependencies[following.variable]
                dependencies[following] -= 1
                if dependencies[following] == 0:
                    heappush(heap, (-following.sequence_nr, id(following), following))
    return order


class Engine:
    """What torch calls `Variable._execution_engine`."""

    def queue_callback(self, callback: Any) -> None:
        """Run a function once the current graph task has finished."""
        task = current_task()
        if task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        task.callbacks.append(callback)
