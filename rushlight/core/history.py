"""What an op call leaves behind: nodes on results, view records, version bumps, rebased history.

One function, `rebase_history`, serves every in-place op and every custom Function with dirty
inputs. On a view it puts a `CopySlices` node on the base; the view's own node is then
regenerated from the base on next access (Note [Stale views]).

Note [Stale views]: a view's cached node is valid for one value of the version counter. Later
access finds the counter moved on and replaces the node by an as_strided (or replay) of the
base's current history, independent of grad mode.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from rushlight.base.errors import error
from rushlight.core import geometry, ports
from rushlight.core import node as nodes
from rushlight.core.attributes import attributes_of, set_attributes
from rushlight.core.dtype import FLOAT
from rushlight.core.extras import view_info
from rushlight.core.node import GraphNode, edge, needs_grad, output_meta, recorded_node
from rushlight.core.state import LAYER_FUNCTIONAL, LOCAL, PROCESS, ThreadState, changed
from rushlight.core.storage import VersionCounter
from rushlight.core.tensor import (
    Tensor,
    Unusual,
    ViewInfo,
    recast,
    strides_of,
)

if TYPE_CHECKING:
    from rushlight.core.gradrule import GradRule
    from rushlight.core.op import OpOverload
    from rushlight.core.protocols import Function

__all__ = ["attach", "check_inplace", "mutating_call", "rebase_history", "record_view"]

REGENERATE_LOCK = threading.RLock()


def is_differentiable(tensor: Tensor) -> bool:
    dtype = tensor._dtype
    return bool(dtype.is_floating_point or dtype.is_complex)


def is_level(tensor: object) -> bool:
    """Whether a tensor belongs to a level of `core.levels`."""
    return type(tensor) is nodes.LEVEL_TENSOR


def attach(op: OpOverload, node: GraphNode, result: Any) -> None:
    """Make `node` the producer of a functional op's result(s)."""
    rule = op.grad_rule
    if isinstance(result, Tensor):
        if rule.output_slots:
            rule.save_outputs(node, (result,))
        array, dtype, unusual = result._array, result._dtype, result._unusual
        if unusual is None and array is not None:
            node.output_metas = ((array.shape, dtype, None),)
        else:
            node.output_metas = (output_meta(result),)
        if dtype.is_floating_point or dtype.is_complex:
            result._node = node
            result._output_nr = 0
            result._requires_grad = True
        elif not op.options.get("ends_gradients"):
            raise RuntimeError(f"Autograd not support dtype: {dtype.scalar_type_name}")
        return
    outputs = tuple(result)
    if rule.output_slots:
        single_list = len(op._schema.returns) == 1
        rule.save_outputs(node, (outputs,) if single_list else outputs)
    metas: list[Any] = []
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            metas.append(None)
            continue
        metas.append(output_meta(output))
        if number not in rule.non_differentiable and is_differentiable(output):
            output._node = node
            output._output_nr = number
            output._requires_grad = True
    node.output_metas = tuple(metas)


def mark_inference(result: Any) -> None:
    if isinstance(result, Tensor):
        result._unusual = Unusual() if result._unusual is None else result._unusual.copy()
        result._unusual.inference = True
    elif isinstance(result, (list, tuple)):
        for item in result:
            mark_inference(item)


def only_inference(op: OpOverload, args: tuple[Any, ...]) -> bool:
    """Whether all tensor operands were made in inference mode: autograd then takes no notice."""
    operands = [args[position] for position in op.tensor_positions]
    for position in op.list_positions:
        operands += args[position] or ()
    return all(
        value._unusual is not None and value._unusual.inference
        for value in operands
        if isinstance(value, Tensor)
    )


def without_history(tensor: Tensor) -> Any:
    """Another object over the same tensor, tangent included, that no graph leads to. No op is
    called for it, so modes and graphs see the tensor itself."""
    result = recast(tensor._alias(), type(tensor))
    set_attributes(result, attributes_of(tensor))
    if tensor._autograd is not None and tensor._autograd.tangent is not None:
        nodes.autograd_state(result).tangent = tensor._autograd.tangent
    proxy = LOCAL.state.proxy
    if proxy is not None:
        proxy.track_alias(result, tensor)
    return result


# -- views -----------------------------------------------------------------------------------------


def record_view(
    op: OpOverload, args: tuple[Any, ...], result: Any, grad: bool, state: ThreadState | None
) -> None:
    """Note base, op and version on the view(s) an op returned."""
    source = args[0]
    if isinstance(result, Tensor):
        # What is lifted is new: nothing else refers to the memory.
        if result is not source and result._view is None and op.base_name != "lift_fresh":
            view_of(source, result, op, args, grad, state, ViewInfo.NORMAL, 0)
        return
    for number, output in enumerate(result):
        view_of(source, output, op, args, grad, state, ViewInfo.MULTI_OUTPUT, number)


def view_of(
    source: Tensor,
    result: Tensor,
    op: OpOverload,
    args: tuple[Any, ...],
    grad: bool,
    state: ThreadState | None,
    kind: int,
    number: int,
) -> None:
    counter = source._counter
    if counter is None:
        counter = source._counter = VersionCounter()
    result._counter = counter
    if op.options.get("untracked"):
        if result._storage is None:
            from rushlight.core.tensor import storage_of

            result._storage = storage_of(source)
        if result._unusual is not source._unusual and result._unusual is not None:
            # Inference mode marks fresh results; an alias is what its source is.
            marked = source._unusual is not None and source._unusual.inference
            if result._unusual.inference is not marked:
                result._unusual = result._unusual.copy()
                result._unusual.inference = marked
        return
    if source._unusual is not None and source._unusual.inference:
        from rushlight.core.tensor import storage_of

        result._storage = storage_of(source)
        if result._unusual is None:
            result._unusual = Unusual()
        result._unusual.inference = True
        return
    if not grad and kind != ViewInfo.CUSTOM_FUNCTION:
        kind = ViewInfo.NO_GRAD
    if state is not None and state.inference and state.owner is None:
        kind = ViewInfo.INFERENCE
    parent = source._view
    if parent is None:
        base = source
    else:
        base = parent.base
        if parent.kind != ViewInfo.NORMAL and kind == ViewInfo.NORMAL:
            kind = parent.kind
    result._view = view_info(base, op, args[1:], parent, kind, counter.value, number)
    if result._unusual is not None and result._unusual.inference:
        result._unusual = result._unusual.copy()
        result._unusual.inference = False


def needs_replay(base: Tensor, view: Tensor) -> bool:
    """Whether a view is made anew by its own ops, not by its strides."""
    if type(base).handling_layer == LAYER_FUNCTIONAL:
        traced: Any = base
        return bool(traced.leads_to(view))
    if base._unusual is not view._unusual and lazy_bits(base) != lazy_bits(view):
        return True
    return base._dtype is not view._dtype or is_level(base)


def lazy_bits(tensor: Tensor) -> tuple[bool, bool]:
    """Whether a tensor's numbers are conjugated, and negated, when they are read."""
    unusual = tensor._unusual
    return (False, False) if unusual is None else (unusual.conj, unusual.neg)


def replay(view: ViewInfo, base: Any) -> Any:
    """Apply the ops that made a view to another base."""
    chain: list[ViewInfo] = []
    link: ViewInfo | None = view
    while link is not None:
        chain.append(link)
        link = link.parent
    from rushlight.core import dispatch

    current = base
    for link in reversed(chain):
        number, rest = link.number, link.args
        current = dispatch.call(link.op, (current, *rest))
        if isinstance(current, (list, tuple)):
            current = current[number]
    return current


def replay_with(
    tensor: Tensor, base: Tensor, integers: Function | None = None, tensors: Function | None = None
) -> Any:
    """`Tensor._view_func`: a view's ops on another base, with their saved integers and tensors
    passed through the given functions."""
    view = tensor._view
    if view is None:
        raise RuntimeError("_view_func can only be called on a view")
    chain: list[ViewInfo] = []
    while view is not None:
        chain.append(view)
        view = view.parent
    from rushlight.core import dispatch

    current = base
    for link in reversed(chain):
        rest: list[Any] = []
        for argument, value in zip(link.op._schema.arguments[1:], link.args, strict=True):
            kind: Any = argument.type
            if kind.kind == "SymInt" and integers is not None and value is not None:
                value = integers(value)
            elif kind.kind == "List" and kind.element.kind == "SymInt" and integers is not None:
                value = tuple([integers(entry) for entry in value])
            elif isinstance(value, Tensor) and tensors is not None:
                value = tensors(value)
            rest.append(value)
        current = dispatch.call(link.op, (current, *rest))
        if isinstance(current, (list, tuple)):
            current = current[link.number]
    return current


def creation_error(tensor: Tensor, kind: int, is_write: bool) -> str:
    """Why a view of this kind may not take part in an in-place change."""
    node = recorded_node(tensor)
    event = (
        "is being modified inplace"
        if is_write
        else "its base or another view of its base has been modified inplace"
    )
    inference = kind == ViewInfo.INFERENCE
    head = "" if node is None else f"Output {tensor._output_nr} of {node.name()} is a view"
    if inference or kind == ViewInfo.NO_GRAD or node is None:
        # torch: a view without a node is said to come from no_grad mode, whatever its origin.
        subject = f"{head} of a view which was" if head else "A view was"
        made, where = (
            ("inference", "in normal mode") if inference else ("no_grad", "with grad mode enabled")
        )
        first = f"{subject} created in {made} mode and {event} {where}."
    else:
        first = f"{head} and {event}."
    if kind == ViewInfo.MULTI_OUTPUT:
        return (
            f"{first} This view is the output of a function that returns multiple views. Such "
            "functions do not allow the output views to be modified inplace. You should replace "
            "the inplace operation by an out-of-place one."
        )
    if kind == ViewInfo.CUSTOM_FUNCTION:
        return (
            f"{first} This view was created inside a custom Function (or because an input was "
            "returned as-is) and the autograd logic to handle view+inplace would override the "
            "custom backward associated with the custom Function, leading to incorrect gradients. "
            "This behavior is forbidden. You can fix this by cloning the output of the custom "
            "Function."
        )
    block = "inference_mode" if inference else "no_grad"
    return (
        f"{first} Given that this use case is ambiguous and error-prone, it is forbidden. You can "
        "clarify your code by moving both the view and the inplace either both inside the "
        f"{block} block (if you don't want the inplace to be tracked) or both outside (if you want "
        "the inplace to be tracked)."
    )


def regenerate(tensor: Tensor) -> Any:
    """Note [Stale views]."""
    with REGENERATE_LOCK:
        view: Any = tensor._view
        counter: Any = tensor._counter
        version = counter.value
        if view.version == version:
            return recorded_node(tensor)
        base = view.base
        if not needs_grad(base):
            # What had a history is no leaf, though its history leads nowhere now.
            ends = recorded_node(tensor) is not None
            view.version = version
            view.pending = None
            tensor._node = ended(tensor, base) if ends else None
            tensor._output_nr = 0
            return tensor._node
        if view.kind != ViewInfo.NORMAL:
            raise RuntimeError(creation_error(tensor, view.kind, is_write=False))
        with changed(grad=True, dispatch_modes=(), excluded=0) as state:
            if state.view_replay or needs_replay(base, tensor):
                fresh = replay(view, base)
            else:
                fresh = base.as_strided(tensor.shape, strides_of(tensor), tensor._offset)
        if fresh._node is not None:
            move_retained_grad(tensor, fresh._node, fresh._output_nr)
        tensor._node = fresh._node
        tensor._output_nr = fresh._output_nr
        tensor._requires_grad = True
        view.version = version
        view.pending = None
        return tensor._node


def ended(tensor: Tensor, base: Tensor) -> GraphNode:
    """The history of a view whose base was taken out of its own."""
    from rushlight.core.op import find_overload

    rule = find_overload("aten", "as_strided", "default").grad_rule
    node: GraphNode = rule.make_node(base, tuple(tensor.shape), strides_of(tensor), tensor._offset)
    node.output_metas = (output_meta(tensor),)
    return node


ports.fill(stale_view_node=regenerate)


# -- in-place --------------------------------------------------------------------------------------


def check_inplace(tensor: Tensor, grad: bool, operand_needs_grad: bool) -> None:
    """Refuse writes that gradients could not follow."""
    if tensor._unusual is not None and tensor._unusual.inference and not LOCAL.state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
            "a clone to get a normal tensor before doing inplace update."
        )
    if not grad:
        return
    view = tensor._view
    wants = needs_grad(tensor)
    if not (wants or operand_needs_grad):
        return
    if view is not None:
        if view.kind != ViewInfo.NORMAL:
            raise RuntimeError(creation_error(tensor, view.kind, is_write=True))
        if wants and view.base.is_leaf:
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place "
                "operation."
            )
        return
    if tensor._requires_grad and tensor._node is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )


def bump_version(tensor: Tensor, state: ThreadState | None = None) -> None:
    if tensor._unusual is not None and tensor._unusual.inference:
        return
    counter = tensor._counter
    if counter is None:
        counter = tensor._counter = VersionCounter()
    counter.value += 1
    if PROCESS.special and (state or LOCAL.state).anomaly:
        counter.written_at = creation_trace()


def mutating_call(
    op: OpOverload, args: tuple[Any, ...], grad: bool, state: ThreadState | None
) -> Any:
    """The autograd layer of in-place and out= overloads."""
    from rushlight.core import dispatch

    if op.out_positions:
        return out_call(op, args, grad, state)
    if op.options.get("manual"):
        return change_memory(op, args, grad, state)
    target = args[op.mutated_positions[0]]
    rule = rule_of_write(op, target)
    operand_needs = grad and rule is not None and any_operand_needs(op, args)
    for position in op.mutated_positions:
        if isinstance(args[position], Tensor):
            check_inplace(args[position], grad, operand_needs)
    node = None
    tangents = (
        state is not None and state.forward_level >= 0 and ports.has_tangents(op, args, state)
    )
    original = target
    if grad and rule is not None and (operand_needs or needs_grad(target)):
        saved_args = args
        if tangents or needs_original(op, rule, args):
            # The formula needs the value from before the write.
            original = saved_copy(target)
            saved_args = (original, *args[1:])
        node = rule.make_node(*saved_args)
    elif tangents:
        original = saved_copy(target)
    result = op.backend(*args) if state is None else dispatch.run_below(op, args, state, node)
    for position in op.mutated_positions:
        if isinstance(args[position], Tensor):
            bump_version(args[position], state)
    if op.replayed_as is not None:
        take_view_history(target, node, op.replayed_as, args[1:])
    elif node is not None:
        rebase_history(target, node)
    if node is not None:
        finish_write(rule, node, target, state)
    if tangents and state is not None:
        ports.push_tangents(op, (original, *args[1:]), target, state)
    if not op._schema.returns:
        return None
    return target if result is None or isinstance(result, Tensor) else result


def rule_of_write(op: OpOverload, target: Any) -> Any:
    """The rule of a write; none for whole numbers, whatever is written into them."""
    if isinstance(target, Tensor) and target._dtype.category < FLOAT:
        return None
    return op.grad_rule


def change_memory(
    op: OpOverload, args: tuple[Any, ...], grad: bool, state: ThreadState | None
) -> Any:
    """`resize_` and `set_`. The backend sees to checks, versions and history itself; a level's
    tensor changes its value, and a wrapper its parts, if no derivative is lost by it."""
    from rushlight.core import dispatch

    if state is None:
        return op.backend(*args)
    target = args[0]
    is_wrapper = state.owner is None and dispatch.dispatches(type(target))
    if state.owner is None and not is_wrapper:
        return dispatch.run_below(op, args, state)
    if op.base_name == "resize_" and needs_grad(target):
        raise RuntimeError("cannot resize variables that require grad")
    if grad and any([isinstance(value, Tensor) and needs_grad(value) for value in args]):
        raise error("RL0611", name=op.base_name)
    if state.owner is not None:
        result = state.owner.backend(op, args)
        bump_version(target, state)
        return result
    sizes, version = tuple(target.shape), target._version
    result = dispatch.run_below(op, args, state)
    is_moved = op.base_name == "set_" or not geometry.same_sizes(tuple(target.shape), sizes)
    if is_moved and target._version == version:
        bump_version(target, state)
    return result


def any_operand_needs(op: OpOverload, args: tuple[Any, ...]) -> bool:
    """Whether a differentiable operand of a write needs a gradient."""
    for position in op.differentiable_positions:
        value = args[position]
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor) and needs_grad(tensor):
                return True
    return False


def finish_write(
    rule: GradRule, node: GraphNode, target: Tensor, state: ThreadState | None
) -> None:
    """What the node of an in-place op learns from the result."""
    if rule.output_slots:
        rule.save_outputs(node, (target,))
        if target._view is not None:
            nodes.redirect_outputs(node, target)
    if state is not None and state.anomaly:
        note_creation(node, state)


def needs_original(op: OpOverload, rule: GradRule, args: tuple[Any, ...]) -> bool:
    """Whether a formula that will run uses the in-place target's value from before the write."""
    for owner in rule.saves_self:
        if owner == "":
            return True
        value = args[op.argument_names.index(owner)]
        if isinstance(value, Tensor) and needs_grad(value):
            return True
    return False


def saved_copy(target: Tensor) -> Any:
    """The value of an in-place target before the write, with the target's history."""
    if is_level(target):
        # Not recorded at this level, but at those below.
        owner = target._owner
        copy = owner.lift(owner.run(target._value.clone))
    else:
        copy = quiet_copy(target)
    copy._node = edge(target)
    if copy._node is not None:
        copy._requires_grad = True
        copy._output_nr = target._output_nr
    return copy


def quiet_copy(target: Tensor) -> Any:
    with changed(grad=False):
        return target.clone()


def out_call(op: OpOverload, args: tuple[Any, ...], grad: bool, state: ThreadState | None) -> Any:
    """out= overloads: no gradients, one version bump for each written tensor."""
    from rushlight.core import dispatch

    if grad and (op.functional is None or op.functional.rule("vjp") is not None):
        for value in args:
            values = value if isinstance(value, (list, tuple)) else (value,)
            if any(isinstance(t, Tensor) and needs_grad(t) for t in values):
                raise RuntimeError(
                    f"{op.base_name}(): functions with out=... arguments don't support automatic "
                    "differentiation, but one of the arguments requires grad."
                )
    if state is not None and state.forward_level >= 0 and ports.has_tangents(op, args, state):
        raise error("RL0602", NotImplementedError, op=op.base_name)
    for position in op.out_positions:
        check_inplace(args[position], False, False)
    result = op.backend(*args) if state is None else dispatch.run_below(op, args, state)
    for position in op.out_positions:
        bump_version(args[position], state)
    return result


def rebase_history(tensor: Tensor, node: GraphNode, number: int = 0) -> None:
    """Make output `number` of `node` (an in-place op's) the producer of `tensor`'s new value.

    The version must have been bumped already. Retained-grad registrations follow the tensor;
    its other hooks stay with the old node.
    """
    view = tensor._view
    if view is None:
        move_retained_grad(tensor, node, number)
        node.output_metas = (output_meta(tensor),)
        tensor._node = node
        tensor._output_nr = number
        tensor._requires_grad = True
        return
    base = view.base
    node.output_metas = (output_meta(tensor),)
    copy_slices = CopySlices(base, tensor, view, node)
    move_retained_grad(base, copy_slices, 0)
    base._node = copy_slices
    base._output_nr = 0
    base._requires_grad = True
    view.version = -1
    regenerate(tensor)


def replace_history(tensor: Tensor, node: GraphNode) -> None:
    """Make `node` the producer of a tensor that was given other memory. What it was a view of is
    written by it, in the sense of gradients."""
    node.output_metas = (output_meta(tensor),)
    view = tensor._view
    if view is not None:
        base, counter = view.base, tensor._counter
        assert counter is not None
        base._node, base._output_nr, base._requires_grad = (
            CopySlices(base, tensor, view, node), 0, True,
        )  # fmt: skip
        view.version = counter.value
    tensor._node, tensor._output_nr, tensor._requires_grad = node, 0, True


def take_view_history(
    tensor: Tensor, node: GraphNode | None, view_op: OpOverload, rest: tuple[Any, ...]
) -> None:
    """History of a tensor that took over the geometry of a view of itself (`transpose_`).

    No memory was written, so the base keeps its history and the tensor's becomes `node`, whose
    edge is its old one. A view gains the link that leads to its new geometry.
    """
    view = tensor._view
    if view is not None:
        # torch: replay across dtypes forgets the change of geometry.
        if view.base._dtype is tensor._dtype:
            tensor._view = view = ViewInfo(view.base, view_op, rest, view, view.kind, view.version)
        if node is not None:
            counter: Any = tensor._counter
            view.version = counter.value
    if node is not None:
        move_retained_grad(tensor, node, 0)
        node.output_metas = (output_meta(tensor),)
        tensor._node = node
        tensor._output_nr = 0
        tensor._requires_grad = True


def move_retained_grad(tensor: Tensor, node: GraphNode, number: int) -> None:
    old = tensor._node
    if old is None or old.node_hooks is None:
        return
    retained = old.node_hooks.retain.pop(tensor._output_nr, None)
    if retained is not None:
        node.hook_table().retain[number] = retained


class CopySlices(GraphNode):
    """History of a base whose view was written: the inner node acts on the view's slice."""

    __slots__ = ("base_geometry", "inner", "use_replay", "view", "view_geometry")

    def __init__(self, base: Tensor, tensor: Tensor, view: ViewInfo, inner: GraphNode) -> None:
        base_edge = edge(base)
        super().__init__((base_edge, *inner.next_nodes[1:]), (base._output_nr, *inner.next_nrs[1:]))
        self.output_metas = (output_meta(base),)
        self.inner: GraphNode | None = inner
        self.view = ViewLink(view)
        self.use_replay = LOCAL.state.view_replay or needs_replay(base, tensor)
        self.base_geometry = (tuple(base.shape), strides_of(base), base._offset)
        self.view_geometry = (tuple(tensor.shape), strides_of(tensor), tensor._offset)
        if not self.use_replay and type(base).handling_layer == LAYER_FUNCTIONAL:
            check_slice(self)

    def slice_of(self, grad: Tensor) -> Any:
        """The view's part of a gradient laid out like the base."""
        if self.use_replay:
            return self.view.replay(grad)
        sizes, strides, offset = self.view_geometry
        return grad.as_strided(sizes, strides, offset - self.base_geometry[2])

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        grad = grads[0]
        if grad is None:
            return (None,) * len(self.next_nodes)
        if self.inner is None:
            raise RuntimeError(nodes.FREED)
        sizes, strides, _ = self.base_geometry
        result = grad.new_empty_strided(sizes, strides)
        result.copy_(grad)
        grad_slice = self.slice_of(result)
        # The inner node may be asked for its first input although the base's edge is None: the
        # slice's gradient replaces what was there in any case.
        inner_needs = None if needs is None else (True, *needs[1:])
        inner_edges = self.inner.next_nodes
        if inner_edges and inner_edges[0] is None and self.next_nodes[0] is not None:
            self.inner.next_nodes = (self.next_nodes[0], *inner_edges[1:])
        produced = self.inner.apply((grad_slice.clone(),), inner_needs)
        outputs: list[Any] = [None] * len(self.next_nodes)
        for position in range(len(outputs)):
            if needs is not None and not needs[position]:
                continue
            if position == 0:
                if produced and produced[0] is not None:
                    if self.use_replay and LOCAL.state.transforms:
                        # What the inner node saved may be batched where the gradient is not.
                        result = result + produced[0].new_zeros((), dtype=result.dtype)
                        grad_slice = self.slice_of(result)
                    grad_slice.copy_(produced[0])
                else:
                    grad_slice.zero_()
                outputs[0] = result
            else:
                outputs[position] = produced[position]
        return tuple(outputs)

    def release(self) -> None:
        if self.inner is not None:
            self.inner.release()
            if self.inner.frees_saved:
                self.inner = None

    frees_saved = True

    def name(self) -> str:
        return "torch::autograd::CopySlices"


def check_slice(node: CopySlices) -> None:
    """Refuse a traced write whose gradient cannot be made: the view's slice is outside of what is
    left of its base. Eagerly the backward says so."""
    sizes, strides, start = node.base_geometry
    view_sizes, view_strides, offset = node.view_geometry
    needed = geometry.storage_extent(view_sizes, view_strides, offset - start)
    held = geometry.storage_extent(sizes, strides)
    if not (geometry.decided(offset >= start) and geometry.decided(needed <= held)):
        raise error("RL0760", shape=view_sizes, base=sizes)


class ViewLink:
    """A view's chain of ops without its base, so that CopySlices keeps no tensor alive."""

    __slots__ = ("links",)

    def __init__(self, view: ViewInfo) -> None:
        chain: list[tuple[Any, Any]] = []
        link: ViewInfo | None = view
        while link is not None:
            chain.append((link.op, (link.number, link.args)))
            link = link.parent
        self.links = chain[::-1]

    def replay(self, base: Any) -> Any:
        from rushlight.core import dispatch

        for op, (number, rest) in self.links:
            base = dispatch.call(op, (base, *rest))
            if isinstance(base, (list, tuple)):
                base = base[number]
        return base


# -- anomaly mode, forward mode --------------------------------------------------------------------


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def creation_trace() -> list[str]:
    """The caller's stack without this package's own frames, as formatted lines."""
    import traceback

    kept = [
        frame
        for frame in traceback.extract_stack()
        if not frame.filename.startswith((PACKAGE, "<rushlight"))
    ]
    return traceback.format_list(kept)


def note_meta(node: GraphNode, state: ThreadState) -> None:
    """Tie a node to the nodes of a graph that is recorded: they get its number, and those of its
    backward will inherit what they do."""
    assert state.node_meta is not None
    state.node_meta = {**state.node_meta, "seq_nr": node.sequence_nr}
    node.metadata["node_meta"] = state.node_meta


def note_creation(node: GraphNode, state: ThreadState) -> None:
    """Anomaly mode: remember where a node was made, and from which running node."""
    notes = node.metadata
    notes["traceback_"] = creation_trace()
    parent = state.tasks[-1].current if state.tasks else None
    if parent is not None:
        notes["parent_"] = parent
