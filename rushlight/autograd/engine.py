"""The backward engine: one iterative loop over a heap of ready nodes.

A graph task counts, for every node it will reach, how many gradients are still to come; a node
with none missing is ready, and the ready node with the highest sequence number runs first.
CPU tasks run in the calling thread. `evaluate` is the one place that knows the order of hooks.
Note [Gradient ownership]: a gradient may be stored or added to in place only when the engine is
its sole holder; `accumulate` decides that by reference count, compared with a calibrated one.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from rushlight.core import geometry
from rushlight.core.node import (
    AccumulateGrad,
    GraphNode,
    accumulator_for,
    autograd_state,
    resolve_edges,
)
from rushlight.core.state import LOCAL, OVERRIDES, ThreadState, as_python
from rushlight.core.tensor import PLAIN, Tensor, storage_of, strides_of

__all__ = ["GraphTask", "current_task", "run_backward"]

task_ids = itertools.count()
# Nested backwards deeper than this continue in another thread, with a stack of its own.
MAX_DEPTH = 40
getrefcount = sys.getrefcount


class GraphTask:
    """One execution of the engine."""

    __slots__ = (
        "accumulates",
        "buffers",
        "callbacks",
        "captured",
        "captures",
        "create_graph",
        "current",
        "dependencies",
        "depth",
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
    dependencies: dict[Any, int]
    buffers: dict[Any, Any]
    heap: list[Any]
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
    "buffers": dict,
    "callbacks": list,
    "captured": list,
    "captures": dict,
    "dependencies": dict,
    "depth": int,
    "heap": list,
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
    while stack:
        node = stack.pop()
        points_to_leaf = False
        for following in node.next_nodes:
            if following is None:
                continue
            if following in dependencies:
                dependencies[following] += 1
            elif isinstance(following, GraphNode):
                dependencies[following] = 1
                stack.append(following)
            else:
                points_to_leaf = True
                following = accumulator_for(following, node)
                dependencies[following] = dependencies.get(following, 0) + 1
        if points_to_leaf:
            resolve_edges(node)


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
) -> list[Any]:
    """Run the graph from (node, output number, gradient) roots.

    With `inputs` (edges), only paths to them run and their gradients are returned; with
    `accumulate` nothing is returned, but the nodes of the inputs run as well.
    """
    state = LOCAL.state
    task = GraphTask(keep_graph, create_graph)
    root_nodes = task.roots = list(dict.fromkeys(node for node, _, _ in roots))
    if state.tasks:
        task.depth = state.tasks[-1].depth + 1
    count_dependencies(task, root_nodes)
    if inputs is not None:
        task.accumulates = accumulate
        if not accumulate:
            task.captured = [None] * len(inputs)
            for position, (node, number) in enumerate(inputs):
                task.captures.setdefault(node, {}).setdefault(number, []).append(position)
        find_needed(task, root_nodes, {node for node, _ in inputs}, accumulate)
    for node, number, grad in roots:
        deliver(task, node, number, validate(grad, node, number, None))
    for node in root_nodes:
        if task.dependencies[node] == 0 and is_wanted(task, node):
            heappush(task.heap, (-node.sequence_nr, id(node), node))
    if task.depth and task.depth % MAX_DEPTH == 0:
        run_in_thread(task, state)
    else:
        execute(task, state)
    return task.captured


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
        if task.callbacks:
            run_callbacks(task, state)
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


def run_ready(task: GraphTask, state: ThreadState) -> None:
    """Pop, run, hand on, until nothing is ready."""
    heap = task.heap
    buffers = task.buffers
    keep = task.keep_graph
    while heap:
        node = heappop(heap)[2]
        grads = buffers.pop(node, None)
        if grads is None:
            grads = [None] * (len(node.output_metas) or 1)
        task.current = node
        watched = state.anomaly or state.profiler is not None
        if watched or node.node_hooks is not None or task.needed is not None:
            results = evaluate(task, node, grads, state)
        elif type(node) is not AccumulateGrad:
            results = node.apply(grads, None)
            if not keep and node.frees_saved:
                node.release()
        elif is_bare(node.variable):
            accumulate(node, grads, 0)
            continue
        else:
            results = evaluate(task, node, grads, state)
        if results:
            grads = None
            pending = list(results)
            results = None
            hand_on(task, node, pending)


def hand_on(task: GraphTask, node: Any, pending: list[Any]) -> None:
    """Deliver a node's results to the nodes behind its edges.

    They leave `pending` one by one, so that the last receiver of a tensor can be seen to be its
    only holder.
    """
    buffers = task.buffers
    dependencies = task.dependencies
    pruned = task.needed is not None
    numbers = node.next_nrs
    for position, following in enumerate(node.next_nodes):
        if following is None or (pruned and not is_wanted(task, following)):
            continue
        value = pending[position]
        pending[position] = None
        if value is not None:
            number = numbers[position]
            meta = following.output_metas[number]
            if (
                type(value) is not Tensor
                or value._dtype is not meta[1]
                or value._ext is not None
                or value._array.shape != meta[0]
            ):
                value = validate(value, following, number, node, position)
            if following in buffers or len(following.output_metas) != 1:
                deliver(task, following, number, value)
            else:
                buffers[following] = [value]
            value = None
        left = dependencies[following] - 1
        dependencies[following] = left
        if left == 0:
            heappush(task.heap, (-following.sequence_nr, id(following), following))


def run_callbacks(task: GraphTask, state: ThreadState) -> None:
    position = 0
    while position < len(task.callbacks):
        with_user_code(state, task.callbacks[position])
        position += 1


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
    if existing is None:
        buffer[number] = grad
    elif existing.layout.name != "strided" and grad.layout.name == "strided":
        buffer[number] = grad + existing
    else:
        buffer[number] = existing + grad


def validate(grad: Any, node: Any, number: int, producer: Any, index: int = 0) -> Any:
    """Fit a gradient to the forward value it belongs to: shape, dtype, device."""
    if grad is None:
        return None
    meta = node.output_metas[number] if number < len(node.output_metas) else None
    if meta is None:
        return grad
    shape, kind, ext = meta
    if not isinstance(grad, Tensor):
        name = producer.name() if producer is not None else "backward"
        raise TypeError(
            f"{name} returned a gradient of type {type(grad).__name__} at index {index}; expected "
            "a Tensor or None"
        )
    if tuple(grad.shape) != tuple(shape) and grad.layout.name == "strided":
        if not is_expandable(shape, grad.shape):
            name = producer.name() if producer is not None else "Function"
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {index} - got "
                f"{list(grad.shape)} but expected shape compatible with {list(shape)}"
            )
        grad = sum_to(grad, tuple(shape))
    if grad._dtype is not kind:
        if grad._dtype.is_complex and not kind.is_complex:
            grad = grad.real
        if grad._dtype is not kind:
            grad = grad.to(kind)
    place = None if ext is None else ext.device
    if place is not None and grad.device != place:
        if grad.dim() == 0:
            grad = grad.to(place)
        else:
            raise RuntimeError(
                f"Function {producer.name() if producer else ''} returned an invalid gradient at "
                f"index {index} - expected device {place} but got {grad.device}"
            )
    return grad


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
    if wanted is not None and node not in wanted:
        return None
    hooks = node.node_hooks
    if hooks is not None and hooks.pre:
        for hook in list(hooks.pre.values()):
            replaced = with_user_code(state, hook, tuple(grads))
            if replaced is not None:
                grads[:] = check_prehook(replaced, grads)
            replaced = None
    if type(node) is AccumulateGrad:
        if state.profiler is not None:
            state.profiler.apply(node, grads, evaluate_leaf, node, grads, state)
        else:
            evaluate_leaf(node, grads, state)
        return None
    needs = None
    if wanted is not None:
        needs = tuple([n is not None and is_wanted(task, n) for n in node.next_nodes])
    results = apply_checked(node, tuple(grads), needs, state)
    if not task.keep_graph:
        node.release()
    if hooks is not None and hooks.post:
        for hook in list(hooks.post.values()):
            replaced = with_user_code(state, hook, results, tuple(grads))
            if replaced is not None:
                results = check_posthook(replaced, results)
    return results


def receive(task: GraphTask, node: Any, grads: list[Any], state: ThreadState) -> None:
    """What happens to gradients in front of a node: tensor hooks, retained grads, captures."""
    hooks = node.node_hooks
    tensor_hooks = None if hooks is None else hooks.tensor
    if type(node) is AccumulateGrad:
        leaf = node.variable._ag
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
    accumulate(node, grads, 1 if posts else 0)
    leaf = variable._ag
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
            if replaced.shape != grad.shape:
                raise RuntimeError(f"hook '{hook_name(hook)}' has changed the size of value")
            if replaced._dtype is not grad._dtype:
                raise RuntimeError(f"hook '{hook_name(hook)}' has changed the type of value")
        grads[number] = replaced


def retain(ref: Any, grad: Any) -> None:
    tensor = ref()
    if tensor is None or grad is None:
        return
    state = tensor._ag
    if state.grad is None:
        state.grad = grad.clone() if not LOCAL.state.grad else grad
    else:
        state.grad = state.grad + grad


def check_prehook(replaced: Any, grads: list[Any]) -> list[Any]:
    if not isinstance(replaced, tuple):
        if isinstance(replaced, Tensor) and len(grads) == 1:
            return [replaced]
        raise TypeError(f"expected tuple, but hook returned '{type(replaced).__name__}'")
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"hook has returned an incorrect number of values (got {len(replaced)}, but expected "
            f"{len(grads)})"
        )
    return list(replaced)


def check_posthook(replaced: Any, results: tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(replaced, Tensor) and len(results) == 1:
        return (replaced,)
    if not isinstance(replaced, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(replaced).__name__}'")
    if len(replaced) != len(results):
        raise RuntimeError(
            f"hook has returned an incorrect number of values (got {len(replaced)}, but expected "
            f"{len(results)})"
        )
    return replaced


# -- leaves ---------------------------------------------------------------------------------------


def keeps_layout(grad: Any, variable: Any) -> bool:
    """Whether a gradient's strides are those that `variable.grad` must have."""
    if grad._contig and variable._contig:
        return True
    if grad.shape != variable.shape:
        # The leaf has taken other memory since.
        return bool(grad.is_contiguous())
    strides = strides_of(variable)
    if geometry.is_non_overlapping_and_dense(variable.shape, strides):
        return same_strides(grad.shape, strides_of(grad), strides)
    return bool(grad.is_contiguous())


def same_strides(sizes: Any, a: Any, b: Any) -> bool:
    return all(size == 1 or x == y for size, x, y in zip(sizes, a, b, strict=True))


def is_bare(variable: Any) -> bool:
    """Whether nothing but accumulation happens at a leaf."""
    state = variable._ag
    return state is None or (state.hooks is None and not state.post_accumulate)


def lone_count() -> int:
    """What `getrefcount` says about a local that nothing else holds, in this interpreter."""
    box = [object()]
    value = box.pop()
    return getrefcount(value)


LONE = lone_count()
# Without the interpreter lock a reference count proves nothing.
COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()


# One of these guards each leaf's `.grad`; reentrant, because adding may run user code.
LEAF_LOCKS = tuple(threading.RLock() for _ in range(64))


def leaf_lock(leaf: Any) -> Any:
    return LEAF_LOCKS[(id(leaf) >> 6) & 63]


def accumulate(node: Any, box: list[Any], holders: int) -> None:
    """Note [Gradient ownership]: add to the leaf's `.grad`, keeping the gradient itself if it is
    ours. It is taken out of `box`; the engine holds `holders` more references to it.
    """
    grad = box.pop()
    if grad is None:
        return
    sole = COUNTS_ARE_EXACT and getrefcount(grad) <= LONE + holders
    variable = node.variable
    state = autograd_state(variable)
    with leaf_lock(variable):
        existing = state.grad
        if existing is None:
            state.grad = first_gradient(variable, grad, sole)
        elif existing.layout.name != "strided" and grad.layout.name == "strided":
            state.grad = grad + existing
        elif LOCAL.state.grad:
            state.grad = existing + grad
        else:
            existing.add_(grad)


def is_own_view(grad: Any) -> bool:
    """Whether nothing but this view, by way of views made for it, holds what it looks at."""
    links = 1
    link = grad._view.parent
    while link is not None:
        # held by the record after it, this variable and the argument of getrefcount
        if getrefcount(link) > 3:
            return False
        links += 1
        link = link.parent
    return getrefcount(grad._view.base) <= links + 1


def cut_loose(grad: Any) -> Any:
    """A view that outlives its base becomes a tensor of its own."""
    grad._storage = storage_of(grad)
    grad._view = None
    grad._counter = None
    return grad


def first_gradient(variable: Any, grad: Any, sole: bool) -> Any:
    if LOCAL.state.grad:
        return copy_like(variable, grad)
    if (
        sole
        and (type(grad) is Tensor or type(grad) in PLAIN)
        and (grad._view is None or is_own_view(grad))
        and (grad._storage is None or getrefcount(grad._storage) <= 2)
        and grad.layout.name == "strided"
        and keeps_layout(grad, variable)
        and not grad._requires_grad
    ):
        if grad._view is not None:
            grad = cut_loose(grad)
        # Modes get to see that the leaf takes the gradient over.
        return grad.detach() if LOCAL.state.below else grad
    if sole and grad.layout.name == "sparse_coo" and not grad._requires_grad:
        from rushlight.opset.sparse.coo import taken_over

        kept = taken_over(grad)
        if kept is not None:
            return kept
    return copy_like(variable, grad).detach()


def copy_like(variable: Any, grad: Any) -> Any:
    """A copy of a gradient in the layout its leaf asks for."""
    if grad.layout.name != "strided" or variable.layout.name != "strided":
        return grad.clone()
    if not LOCAL.state.grad and grad._contig and variable._contig:
        return grad.clone()
    strides = strides_of(variable)
    if grad.shape == variable.shape and geometry.is_non_overlapping_and_dense(
        variable.shape, strides
    ):
        result = grad.new_empty_strided(tuple(variable.shape), strides)
        return result.copy_(grad)
    from rushlight.core.device import contiguous_format

    return grad.clone(memory_format=contiguous_format)


def accumulate_by_hand(node: Any, grad: Any) -> None:
    accumulate(node, [grad], 0)


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
        return node in task.dependencies or node in task.roots
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
        for following in node.next_nodes:
            if following is not None and is_wanted(task, following):
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
