"""Backward graph vertices: `GraphNode`, edges, leaf accumulators and saved tensors.

Reference topology: tensor → node → next nodes and saved inputs are strong; a leaf holds its
accumulator weakly; a node never holds its own output. Undefined gradients are None.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rushlight.core import ports
from rushlight.core.geometry import same_sizes
from rushlight.core.hooks import HookDict, NodeHooks, RemovableHandle, add_hook
from rushlight.core.state import (
    LAYER_AUTOGRAD,
    LOCAL,
    OVERRIDES,
    PROCESS,
    as_python,
    changed,
)
from rushlight.core.storage import VersionCounter

if TYPE_CHECKING:
    from rushlight.core.duals import TangentSlot
    from rushlight.core.protocols import Function
    from rushlight.core.tensor import Tensor

__all__ = ["AccumulateGrad", "GraphNode", "OpNode", "SavedTensor", "accumulator", "edge", "pack"]

next_sequence = itertools.count(1).__next__
# An accumulator runs as soon as it is ready: its number lies above every op's.
ACCUMULATOR_SEQUENCE = 1 << 62

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you "
    "call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
    "through the graph a second time or if you need to access saved tensors after calling "
    "backward."
)


class Metadata(NamedTuple):
    """What a node knows of one of its outputs."""

    shape: Any
    dtype: Any


class GraphNode:
    """A vertex: `apply(grads, needs)` maps output gradients to one gradient per next edge.

    `output_metas` has one (shape, dtype, unusual) per output; `next_nodes` and `next_nrs` are the
    edges.
    Note [Leaf edges]: a freshly recorded node points to a leaf tensor itself; the leaf's
    accumulator takes its place when the graph is first looked at or run (`resolve_edges`).
    """

    # Long names: a custom Function's node is also the ctx on which users set attributes.
    __slots__ = (
        "__weakref__",
        "next_nodes",
        "next_nrs",
        "node_extra",
        "node_hooks",
        "output_metas",
        "saved_slots",
        "sequence_nr",
    )

    sequence_nr: int
    next_nodes: tuple[Any, ...]
    next_nrs: tuple[int, ...]
    output_metas: tuple[Any, ...]
    saved_slots: Any
    node_hooks: NodeHooks | None
    node_extra: dict[str, Any] | None

    frees_saved = False
    # Tells the node's formula from those of others of its class: None where the class says all,
    # False where nothing can.
    formula: Any = False

    def __init__(self, next_nodes: tuple[Any, ...] = (), next_nrs: tuple[int, ...] = ()) -> None:
        self.sequence_nr = next_sequence()
        self.next_nodes = next_nodes
        self.next_nrs = next_nrs
        self.output_metas = ()
        self.saved_slots = None
        self.node_hooks = None
        self.node_extra = None

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        raise NotImplementedError(type(self).__name__)

    def release(self) -> None:
        """Drop saved tensors after the node has run for the last time."""

    def note_run(self) -> None:
        """A program has run the node's formula."""

    def name(self) -> str:
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        resolve_edges(self)
        return tuple(zip(self.next_nodes, self.next_nrs, strict=True))

    @property
    def metadata(self) -> dict[Any, Any]:
        if self.node_extra is None:
            self.node_extra = {}
        return cast("dict[Any, Any]", self.node_extra.setdefault("metadata", {}))

    def hook_table(self) -> NodeHooks:
        if self.node_hooks is None:
            self.node_hooks = NodeHooks()
        return self.node_hooks

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        table = self.hook_table()
        if table.post is None:
            table.post = HookDict()
        return add_hook(table.post, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        table = self.hook_table()
        if table.pre is None:
            table.pre = HookDict()
        return add_hook(table.pre, fn)

    def _register_hook_dict(self, table: HookDict) -> None:
        hooks = self.hook_table()
        hooks.tensor[0] = table

    def _sequence_nr(self) -> int:
        return self.sequence_nr

    def _set_sequence_nr(self, number: int) -> None:
        self.sequence_nr = number

    @property
    def _input_metadata(self) -> list[Any]:
        """What the gradients that the node takes look like."""
        return [meta and Metadata(*meta[:2]) for meta in self.output_metas]

    def __call__(self, *grads: Tensor | None) -> Any:
        expected = len(self.output_metas) or 1
        if len(grads) != expected:
            raise TypeError(
                f"{type(self).__name__} expected {expected} arguments, got {len(grads)} instead"
            )
        results = self.apply(grads, None)
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class OpNode(GraphNode):
    """Base of the node classes generated from ops' vjp rules."""

    __slots__ = ()
    saved_names: tuple[str, ...] = ()
    # Places of outputs of floats that have no gradient all the same.
    non_differentiable: frozenset[int] = frozenset()
    formula = None

    def release(self) -> None:
        if self.frees_saved:
            self.saved_slots = None

    def __getattr__(self, attribute: str) -> Any:
        raw = attribute.startswith("_raw_saved_")
        if raw or attribute.startswith("_saved_"):
            wanted = attribute[11:] if raw else attribute[7:]
            names = type(self).saved_names
            if wanted in names:
                if self.saved_slots is None:
                    raise RuntimeError(FREED)
                index = names.index(wanted)
                return raw_saved(self, index) if raw else unpack(self, self.saved_slots[index])
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute}'")

    def __dir__(self) -> list[str]:
        names = type(self).saved_names
        return [
            *object.__dir__(self),
            *(f"_saved_{name}" for name in names),
            *(f"_raw_saved_{name}" for name in names),
        ]


class AccumulateGrad(GraphNode):
    """Adds incoming gradients to a leaf's `.grad`. The work itself is the engine's."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor) -> None:
        self.sequence_nr = ACCUMULATOR_SEQUENCE + next_sequence()
        self.next_nodes = ()
        self.next_nrs = ()
        self.saved_slots = None
        self.node_hooks = None
        self.node_extra = None
        self.variable = variable
        array = variable._array
        if array is not None and variable._unusual is None:
            self.output_metas = ((array.shape, variable._dtype, None),)
        else:
            self.output_metas = (output_meta(variable),)

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        # An instance called by hand; the engine goes to `accumulate` directly.
        ports.accumulate(self, grads[0])
        return ()


def output_meta(tensor: Tensor) -> tuple[Any, Any, Any]:
    """What the engine checks an incoming gradient against: (shape, dtype, unusual)."""
    unusual = tensor._unusual
    if unusual is None and tensor._array is not None:
        return (tensor._array.shape, tensor._dtype, None)
    sizes = None if unusual is None else unusual.sizes
    return (tuple(tensor.shape if sizes is None else sizes), tensor._dtype, unusual)


def has_meta(tensor: Tensor, meta: tuple[Any, Any, Any]) -> bool:
    """Whether a tensor of a level, soon found out, is what `output_meta` said; a False may err."""
    shape, dtype, unusual = meta
    own = tensor._unusual
    if own is None or unusual is None or own.sizes is None or tensor._dtype is not dtype:
        return False
    return own.device is unusual.device and same_sizes(own.sizes, shape)


ACCUMULATOR_LOCK = threading.Lock()


def accumulator(tensor: Tensor) -> AccumulateGrad:
    """The one live AccumulateGrad of a leaf, made on first use."""
    state = tensor._autograd
    if state is None:
        state = autograd_state(tensor)
    ref = state.accumulator
    node = ref() if ref is not None else None
    if node is None:
        with ACCUMULATOR_LOCK:
            ref = state.accumulator
            node = ref() if ref is not None else None
            if node is None:
                node = AccumulateGrad(tensor)
                state.accumulator = weakref.ref(node)
    return node


class AutogradState:
    """The seldom-needed autograd fields of a tensor, made on first need."""

    __slots__ = (
        "accumulator",
        "detached_at",
        "grad",
        "hooks",
        "post_accumulate",
        "retains_grad",
        "retired",
        "tangent",
        "user_hooks",
    )

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.accumulator: weakref.ref[AccumulateGrad] | None = None
        self.hooks: NodeHooks | None = None
        self.post_accumulate: HookDict | None = None
        self.retains_grad = False
        # Accumulators of before `retire_accumulator`, see there.
        self.retired: list[Any] | None = None
        self.detached_at = 0
        self.tangent: TangentSlot | None = None
        self.user_hooks: HookDict | None = None


STATE_LOCK = threading.Lock()


def autograd_state(tensor: Tensor) -> AutogradState:
    state = tensor._autograd
    if state is None:
        # One for all threads: an accumulator in another would belong to no graph.
        with STATE_LOCK:
            state = tensor._autograd
            if state is None:
                state = tensor._autograd = AutogradState()
    return state


MOST_RETIRED = 8


def retire_accumulator(tensor: Tensor) -> None:
    """Called before a leaf takes other memory. Nodes recorded so far expect the shape it has now,
    also those that still point to the leaf itself (Note [Leaf edges]); later ones get a new
    accumulator.
    """
    add_retired(tensor, accumulator_of_now(tensor))


def accumulator_of_now(tensor: Tensor, prehook: Callable[[Any], Any] | None = None) -> list[Any]:
    """The accumulator of nodes recorded so far: a sequence number that is above theirs, what they
    expect, the accumulator if there is one and a hook that runs before it."""
    state = tensor._autograd
    ref = None if state is None else state.accumulator
    node = ref() if ref is not None else None
    if node is None:
        return [next_sequence(), (output_meta(tensor),), None, prehook]
    if prehook is not None:
        node.register_prehook(prehook)
    return [next_sequence(), node.output_metas, ref, prehook]


def add_retired(tensor: Tensor, former: list[Any]) -> None:
    """Nodes recorded before `former` was noted keep to it."""
    state = autograd_state(tensor)
    state.retired = [*(state.retired or [])[1 - MOST_RETIRED :], former]
    state.accumulator = None
    if state.hooks is None:
        # Keeps the leaf off the paths that know only its present shape.
        state.hooks = NodeHooks()


def accumulator_for(tensor: Tensor, node: GraphNode) -> AccumulateGrad:
    """The accumulator that a leaf had when `node` was recorded."""
    state = tensor._autograd
    if state is None or state.retired is None:
        return accumulator(tensor)
    with ACCUMULATOR_LOCK:
        for entry in state.retired:
            if node.sequence_nr < entry[0]:
                found = entry[2]() if entry[2] is not None else None
                if found is None:
                    found = AccumulateGrad(tensor)
                    found.output_metas = entry[1]
                    if entry[3] is not None:
                        found.register_prehook(entry[3])
                    entry[2] = weakref.ref(found)
                return found
    return accumulator(tensor)


def edge(tensor: Tensor) -> GraphNode | Tensor | None:
    """What receives this tensor's gradient: a node, a leaf (Note [Leaf edges]), or None. torch: a
    leaf that only its base makes one, a view made without grad mode, receives nothing."""
    node = tensor._node if tensor._view is None else view_node(tensor)
    if node is None and tensor._requires_grad:
        state = tensor._autograd
        if state is None or state.accumulator is None:
            return tensor
        node = state.accumulator()
        if node is None:
            state.accumulator = None
            return tensor
    return node


def gradient_node(tensor: Tensor) -> Any:
    """The node that receives this tensor's gradient, or None."""
    node = edge(tensor)
    return accumulator(tensor) if node is tensor else node


def resolve_edges(node: GraphNode) -> tuple[Any, ...]:
    """Note [Leaf edges]: put accumulators in the place of leaves."""
    following: tuple[Any, ...] = node.next_nodes
    for entry in following:
        if entry is not None and not isinstance(entry, GraphNode):
            following = node.next_nodes = tuple(
                [
                    n if n is None or isinstance(n, GraphNode) else accumulator_for(n, node)
                    for n in following
                ]
            )
            break
    return following


def view_node(tensor: Tensor) -> Any:
    """The up-to-date node of a view: regenerated when the base was written since."""
    view: Any = tensor._view
    counter = tensor._counter
    if counter is not None and view.version != counter.value:
        return ports.stale_view_node(tensor)
    return tensor._node if view.pending is None else recorded_node(tensor)


PENDING_LOCK = threading.Lock()


def recorded_node(tensor: Tensor) -> Any:
    """The node that was recorded for a tensor, made now if it is a view whose node is pending."""
    view = tensor._view
    if view is not None and view.pending is not None:
        with PENDING_LOCK:
            if view.pending is not None:
                make, sequence_nr, following, number, saved = view.pending
                node = make()
                node.sequence_nr = sequence_nr
                node.node_hooks = None
                node.node_extra = None
                node.next_nodes = (following,)
                node.next_nrs = (number,)
                node.saved_slots = saved
                node.output_metas = (output_meta(tensor),)
                tensor._node = node
                view.pending = None
    return tensor._node


def needs_grad(tensor: Tensor) -> bool:
    """requires_grad as of now: a view has its base's, even one made without grad mode."""
    view = tensor._view
    return tensor._requires_grad or (view is not None and view.base._requires_grad)


class SavedTensor:
    """A tensor kept for backward, when a bare reference does not do.

    A node's saved slot holds the tensor itself in the common case (an input at version 0, no
    hooks). Otherwise one of these: an input at a later version, the node's own output (kept as
    an alias without history), or whatever a pack hook returned.
    """

    __slots__ = (
        "edge_node",
        "output_nr",
        "packed",
        "requires_grad",
        "tensor",
        "unpack_hook",
        "version",
    )

    tensor: Any
    version: int
    output_nr: int  # of the node's own output; -1 for an input
    packed: Any
    unpack_hook: Any
    # For a packed input: where the gradient of what unpack returns must go.
    edge_node: Any
    requires_grad: bool

    def __init__(self) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden; "
            "saved tensors are made when an operator is recorded."
        )

    def register_hooks(self, *hooks: Function) -> None:
        if len(hooks) != 2 or not callable(hooks[0]) or not callable(hooks[1]):
            kinds = ", ".join(type(hook).__name__ for hook in hooks)
            raise TypeError(
                "register_hooks(): incompatible function arguments. Expected two callables "
                f"(pack_hook, unpack_hook), got ({kinds})"
            )
        if self.unpack_hook is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set is "
                "not allowed."
            )
        if self.tensor is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        given = self.tensor if self.output_nr >= 0 else self.tensor._alias()
        note_history(self, self.tensor)
        apply_pack_hook(self, given, *hooks)


def new_saved(tensor: Tensor | None, output_nr: int = -1) -> SavedTensor:
    saved: SavedTensor = SavedTensor.__new__(SavedTensor)
    saved.tensor = tensor
    counter = None if tensor is None else tensor._counter
    saved.version = 0 if counter is None else counter.value
    saved.output_nr = output_nr
    saved.packed = None
    saved.unpack_hook = None
    saved.edge_node = None
    saved.requires_grad = False
    return saved


def note_history(saved: SavedTensor, tensor: Tensor) -> None:
    """Before an input is packed away: remember its place in the graph."""
    if saved.output_nr < 0 and needs_grad(tensor):
        saved.requires_grad = True
        saved.edge_node = gradient_node(tensor)
        saved.version = tensor._output_nr


def apply_pack_hook(
    saved: SavedTensor, tensor: Tensor, pack_hook: Function, unpack_hook: Function
) -> None:
    before = version_of(tensor)
    packed = without_grad(pack_hook, tensor)
    if version_of(tensor) != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input "
            "to pack hook can not be modified by in-place operations as this can lead to "
            "unexpected side-effects. Please open an issue if you need to perform in-place "
            "operations on the input to a pack hook."
        )
    saved.packed = packed
    saved.unpack_hook = unpack_hook
    saved.tensor = None


def without_grad(function: Callable[..., Any], value: Any) -> Any:
    """Call a pack or unpack hook: user code, with grad mode off."""
    with changed(grad=False, excluded=as_python(LOCAL.state.excluded) & ~LAYER_AUTOGRAD):
        return function(value)


def version_of(tensor: Tensor) -> int:
    counter = tensor._counter
    return 0 if counter is None else counter.value


def pack(value: Any, node: GraphNode) -> Any:
    """Save one input of an op: the tensor itself, a SavedTensor, or a plain value."""
    if isinstance(value, TENSOR_TYPES):
        unusual = value._unusual
        if unusual is not None and unusual.inference:
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. To work around you can make a "
                "clone to get a normal tensor and use it in autograd."
            )
        if PROCESS.special:
            hooks = LOCAL.state.saved_hooks
            if hooks:
                saved = new_saved(value)
                note_history(saved, value)
                apply_pack_hook(saved, value, *hooks[-1])
                # The engine looks at hooks of this node: unpacking may add some.
                node.hook_table()
                return saved
        counter = value._counter
        if counter is None or counter.value == 0:
            return value
        return new_saved(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, TENSOR_TYPES) for item in value):
        return tuple([pack(item, node) for item in value])
    return value


# Read whenever a tensor is saved or unpacked.
TENSOR_TYPES: Any = ports.tensor_types
LEVEL_TENSOR: Any = ports.level_tensor
alive: Any = ports.alive
ports.mirror(globals(), TENSOR_TYPES="tensor_types", LEVEL_TENSOR="level_tensor", alive="alive")


def pack_output(tensor: Tensor, output_nr: int, node: GraphNode) -> SavedTensor:
    """Save a node's own output as an alias without history."""
    if PROCESS.special:
        hooks = LOCAL.state.saved_hooks
        if hooks:
            saved = new_saved(None, output_nr)
            apply_pack_hook(saved, tensor, *hooks[-1])
            node.hook_table()
            return saved
    if type(tensor) is not LEVEL_TENSOR and is_watched(tensor):
        return new_saved(detached(tensor), output_nr)
    return new_saved(tensor._shadow(), output_nr)


def redirect_outputs(node: GraphNode, tensor: Tensor) -> None:
    """Let the saved outputs of an in-place op on a view be followed through the view's own node:
    `node` itself lies inside the base's history. The reference is weak, as it leads back here.
    """
    for entry in node.saved_slots:
        if type(entry) is SavedTensor and entry.output_nr >= 0 and entry.unpack_hook is None:
            entry.edge_node = weakref.ref(tensor._node)


def pack_result(tensor: Tensor) -> SavedTensor:
    """`pack_output` for the first result of a stub: fresh, plain, and nobody watching."""
    counter = tensor._counter = VersionCounter()
    alias = tensor._shadow()
    saved: SavedTensor = SavedTensor.__new__(SavedTensor)
    saved.tensor = alias
    saved.version = counter.value
    saved.output_nr = 0
    saved.packed = None
    saved.unpack_hook = None
    saved.edge_node = None
    saved.requires_grad = False
    return saved


def is_watched(tensor: Tensor) -> bool:
    """Whether an alias of the tensor must be made by a dispatched op: a subclass holds more than
    the memory, and modes see it."""
    cls = type(tensor)
    if cls is not TENSOR_TYPES[0] and cls.__torch_function__ is not None:
        return True
    return bool(PROCESS.special and LOCAL.state.below)


def detached(tensor: Tensor) -> Any:
    """`tensor.detach()` below the API level and without gradients."""
    from rushlight.core.op import find_overload

    with changed(grad=False, excluded=LOCAL.state.excluded | OVERRIDES):
        return find_overload("aten", "detach", "default")(tensor)


def unpack(node: GraphNode, entry: Any) -> Any:
    """The inverse of `pack` / `pack_output`, with integrity checks."""
    if type(entry) is SavedTensor:
        return unpack_saved(node, entry)
    if isinstance(entry, TENSOR_TYPES):
        counter = entry._counter
        if counter is not None and counter.value != 0:
            raise_modified(entry, counter, 0, node)
        state = entry._autograd
        if state is not None and state.detached_at > node.sequence_nr:
            raise_detached()
        return alive(entry) if type(entry) is LEVEL_TENSOR else entry
    if type(entry) is tuple and any(
        isinstance(item, TENSOR_TYPES) or type(item) is SavedTensor for item in entry
    ):
        return tuple([unpack(node, item) for item in entry])
    return entry


def unpack_saved(node: GraphNode, entry: SavedTensor) -> Any:
    tensor = entry.tensor
    if (
        type(tensor) in TENSOR_TYPES
        and entry.output_nr < 0
        and tensor._counter is not None
        and tensor._counter.value == entry.version
        and (tensor._autograd is None or not tensor._autograd.detached_at)
    ):
        return tensor
    if entry.unpack_hook is not None:
        return unpack_packed(node, entry)
    if tensor is None:
        return None
    counter = tensor._counter
    current = 0 if counter is None else counter.value
    if current != entry.version:
        raise_modified(tensor, counter, entry.version, node, entry.output_nr)
    if type(tensor) is LEVEL_TENSOR and not tensor._owner.is_open:
        return alive(tensor)
    if entry.output_nr >= 0:
        watched = type(tensor) is not LEVEL_TENSOR and is_watched(tensor)
        alias = detached(tensor) if watched else tensor._alias()
        alias._node = node
        alias._output_nr = entry.output_nr
        if entry.edge_node is not None:
            outer = entry.edge_node()
            if outer is not None:
                alias._node, alias._output_nr = outer, 0
        alias._requires_grad = True
        if tensor._autograd is not None and tensor._autograd.tangent is not None:
            autograd_state(alias).tangent = tensor._autograd.tangent
        return alias
    state = tensor._autograd
    if state is not None and state.detached_at > node.sequence_nr:
        raise_detached()
    return tensor


def unpack_packed(node: GraphNode, entry: SavedTensor) -> Any:
    """What an unpack hook makes of what was packed, in the place of the tensor in the graph."""
    value = without_grad(entry.unpack_hook, entry.packed)
    if not isinstance(value, TENSOR_TYPES):
        raise TypeError(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of "
            f"type {type(value)}"
        )
    if type(value) is TENSOR_TYPES[0] or type(value).__torch_function__ is None:
        alias = value._alias(share_counter=False)
    else:
        alias = without_grad(type(value).detach, value)
    if entry.output_nr >= 0:
        alias._node, alias._output_nr, alias._requires_grad = node, entry.output_nr, True
    elif entry.requires_grad:
        alias._requires_grad = True
        if type(entry.edge_node) is AccumulateGrad:
            autograd_state(alias).accumulator = weakref.ref(entry.edge_node)
        else:
            alias._node, alias._output_nr = entry.edge_node, entry.version
    return alias


def raw_saved(node: GraphNode, index: int) -> Any:
    """The SavedTensor of a slot, made (and kept) on demand so that hooks can attach to it."""
    entry = node.saved_slots[index]
    if type(entry) is tuple:
        made: Any = tuple([e if type(e) is SavedTensor else new_saved(e) for e in entry])
    elif type(entry) is SavedTensor:
        return entry
    else:
        made = new_saved(entry)
    saved = list(node.saved_slots)
    saved[index] = made
    node.saved_slots = saved
    return made


def raise_detached() -> None:
    raise RuntimeError(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). "
        "This is not supported, please use out-of-place `.detach()` instead"
    )


def raise_modified(
    tensor: Tensor,
    counter: VersionCounter,
    expected: int,
    node: GraphNode | None,
    output_nr: int = -1,
) -> None:
    shape = ", ".join(str(size) for size in tensor.shape)
    producer = ""
    maker = recorded_node(tensor)
    if maker is not None:
        producer = f", which is output {tensor._output_nr} of {maker.name()},"
    elif output_nr >= 0 and node is not None:
        producer = f", which is output {output_nr} of {node.name()},"
    lines = ""
    saved_at = None if node is None else node.metadata.get("traceback_")
    if node is not None and saved_at is not None:
        lines = f"\nThe tensor was saved by {node.name()} at:\n{''.join(saved_at)}"
        if counter.written_at is not None:
            lines += f"It was overwritten at:\n{''.join(counter.written_at)}"
    hint = (
        "Hint: the backtrace further above shows the operation that failed to compute its "
        "gradient. The variable in question was changed in there or anywhere later. Good luck!"
        if lines
        else "Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True)."
    )
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{tensor.type()} [{shape}]]{producer} is at version {counter.value}; "
        f"expected version {expected} instead. {hint}{lines}"
    )
