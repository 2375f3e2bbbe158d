"""Forward mode: tangents pushed along with values.

The rule of an op is its `jvp`: "elementwise" (the vjp formula applied to the tangent, a diagonal
Jacobian being its own transpose), "linear" (the op applied to tangents), "multilinear" (to one
factor's tangent at a time), a function of `<input>_t`, or, where none is given, the transpose of
the vjp (which is linear in its gradient) computed by the engine. A tangent lies in memory as its
tensor does (Note [Tangent layout]).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.autograd.engine import no_history, run_backward
from rushlight.base.errors import error
from rushlight.core import dispatch, geometry, history, ports
from rushlight.core.batching import BatchedTensor
from rushlight.core.device import strided
from rushlight.core.duals import (
    DualLevel,
    base_of,
    keep_tangent,
    lowered,
    owner_of,
    replay_links,
    tangent_of,
    without_tangents,
)
from rushlight.core.geometry import is_overlapping
from rushlight.core.gradrule import parameters
from rushlight.core.levels import LevelTensor
from rushlight.core.node import SavedTensor, autograd_state, gradient_node
from rushlight.core.op import Refused
from rushlight.core.state import LOCAL, ThreadState, changed
from rushlight.core.tensor import Tensor, sizes_of, storage_of, strides_of
from rushlight.opset import functions
from rushlight.opset.rules import LinearIn

__all__ = ["enter_level", "exit_level", "set_tangent", "tangent_of"]


def enter_level() -> int:
    """Start the (only) forward-mode level."""
    state = LOCAL.state
    if state.duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    state.duals = DualLevel(len(state.transforms))
    state.forward_level = 0
    state.refresh()
    return 0


def exit_level(level: int) -> None:
    state = LOCAL.state
    if state.duals is None or level != 0:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    duals = state.duals
    state.duals = None
    state.forward_level = -1
    state.refresh()
    duals.close()


HIDING = (BatchedTensor, LevelTensor)


# -- layout ----------------------------------------------------------------------------------------
# Note [Tangent layout]: a view taken of a tensor is taken of its tangent too, by the same strides
# and offset if need be. A tangent that lies differently is therefore copied into memory like the
# tensor's: sizes, strides, offset, storage length and lazy bits. Elements of a level's tensor may
# share memory: those of its tangent need not be equal, and views are replayed there, so that each
# has memory of its own. (torch: `make_dual` refuses such a tensor.)


def same_layout(tangent: Any, tensor: Any) -> bool:
    """Note [Tangent layout]: whether every view of the tensor can be taken of the tangent."""
    tensor = lowered(tensor)
    if both_are_fresh(tangent, tensor):
        return True
    sizes = sizes_of(tensor)
    if not geometry.same_sizes(sizes_of(tangent), sizes):
        return False
    if tangent.is_conj() != tensor.is_conj() or tangent.is_neg() != tensor.is_neg():
        return False
    if 0 in sizes:
        return bool(storage_length(tangent) == storage_length(tensor))
    for size, first, second in zip(sizes, strides_of(tangent), strides_of(tensor), strict=True):
        if size > 1 and first != second:
            return False
    if isinstance(tangent, HIDING) or isinstance(tensor, HIDING):
        # The storage holds all samples; where it begins and ends says nothing about one.
        return True
    return bool(
        tangent._offset == tensor._offset and storage_length(tangent) == storage_length(tensor)
    )


def both_are_fresh(first: Any, second: Any) -> bool:
    """Whether two tensors are contiguous results of one size, or samples of such: the common case
    of `same_layout`."""
    while type(first) is BatchedTensor and type(second) is BatchedTensor:
        if first._level != second._level or first._axis != second._axis:
            return False
        first, second = first._value, second._value
    if type(first) is BatchedTensor and type(second) is Tensor:
        # Samples of a contiguous tensor that lie one after the other.
        values = first._value
        return (
            not first._axis
            and type(values) is Tensor
            and values._unusual is None is second._unusual
            and values._is_contiguous
            and second._is_contiguous
            and second._view is None is second._storage
            and values._array.shape[1:] == second._array.shape
        )
    return (
        type(first) is Tensor is type(second)
        and first._unusual is None is second._unusual
        and first._is_contiguous
        and second._is_contiguous
        and first._view is None is second._view
        and first._storage is None is second._storage
        and first._array.shape == second._array.shape
    )


def storage_length(tensor: Any) -> Any:
    if isinstance(tensor, HIDING):
        return 0
    if tensor._storage is None and tensor._view is None and tensor._array is not None:
        return tensor._array.size
    return storage_of(tensor).nbytes_ // tensor._dtype.itemsize


def zeros_laid_out(tangent: Any, tensor: Any) -> Any:
    """Zeros of the tangent's dtype and batch, with the layout of a tensor."""
    is_of_level = owner_of(tensor) is not None
    tensor = lowered(tensor)
    if is_of_level and is_overlapping(sizes_of(tensor), strides_of(tensor)):
        made = functions.new_zeros(tangent, sizes_of(tensor))
    else:
        made = functions._new_zeros_with_same_feature_meta(tangent, tensor)
    if hidden_levels(tangent) - hidden_levels(made):
        # The tangent differs between samples: what it is written to must hold them all.
        made = made + functions.zeros_like(tangent).sum()
    if tensor.is_conj() and made.is_complex():
        made = made.conj()
    if tensor.is_neg():
        made = made._neg_view()
    return made


def laid_out_like(tangent: Any, tensor: Any) -> Any:
    if same_layout(tangent, tensor):
        return tangent
    made = zeros_laid_out(tangent, tensor)
    made.copy_(tangent)
    return made


def set_tangent(tensor: Any, tangent: Any) -> None:
    """Give a tensor a tangent; a view's becomes part of its base's, zero elsewhere."""
    owner = owner_of(tensor)
    if owner is not None:
        owner.run(place_level_tangent, tensor, tangent)
        return
    without_tangents(place_tangent, tensor, tangent)


def place_level_tangent(tensor: Any, tangent: Any) -> None:
    """A later write in place may differ between samples wherever the value does."""
    value = tensor._value
    if isinstance(value, HIDING) and hidden_levels(value) - hidden_levels(tangent):
        tangent = functions.zeros_like(value) + tangent
    place_tangent(tensor, tangent)


def hidden_levels(tensor: Any) -> set[int]:
    found = set()
    while isinstance(tensor, HIDING):
        if isinstance(tensor, BatchedTensor):
            found.add(tensor._level)
        tensor = tensor._value
    return found


def place_tangent(tensor: Any, tangent: Any) -> None:
    base, links = base_of(tensor)
    if base is not None and history.is_differentiable(base) and tangent_of(base) is None:
        if same_layout(tangent, base) and same_layout(tangent, tensor):
            keep_tangent(base, tangent)
        else:
            whole = zeros_laid_out(tangent, base)
            part = replay_links(links, whole)
            part.copy_(tangent)
            tangent = part
            keep_tangent(base, whole)
    keep_tangent(tensor, laid_out_like(tangent, tensor))


# -- pushing ---------------------------------------------------------------------------------------


def is_pushing(state: ThreadState) -> bool:
    duals = state.duals
    return (
        duals is not None
        and state.forward_enabled
        and not state.inference
        and duals.depth == len(state.transforms)
    )


def has_tangents(op: Any, args: tuple[Any, ...], state: ThreadState) -> bool:
    """Whether an operand has a tangent that this call must push."""
    if not is_pushing(state):
        return False
    for position in op.tensor_positions:
        if tangent_of(args[position]) is not None:
            return True
    for position in op.list_positions:
        if any([tangent_of(item) is not None for item in args[position] or ()]):
            return True
    return False


def any_tangent(op: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operand has a tangent at the level of a call."""
    for position in op.tensor_positions:
        if tangent_of(args[position]) is not None:
            return True
    for position in op.list_positions:
        if any([tangent_of(item) is not None for item in args[position] or ()]):
            return True
    return False


def push_tangents(op: Any, args: tuple[Any, ...], result: Any, state: ThreadState) -> None:
    """Give an op's results their tangents. In-place ops pass their target as the result."""
    if is_pushing(state):
        without_tangents(push, op, args, result)


def push(op: Any, args: tuple[Any, ...], result: Any) -> None:
    rule = op.grad_rule
    if rule is None:
        if op.mutated_positions and isinstance(result, Tensor) and op.replayed_as is None:
            existing = tangent_of(result)
            if existing is not None:
                existing.zero_()
        return
    names = op.argument_names
    tangents: dict[str, Any] = {}
    given: list[Any] = []
    for name in rule.inputs:
        value = args[names.index(name)]
        if isinstance(value, (list, tuple)):
            found = tangents[name] = [tangent_of(item) for item in value]
            given += [tangent for tangent in found if tangent is not None]
        else:
            tangent = tangents[name] = tangent_of(value)
            if tangent is not None:
                given.append(tangent)
    is_one = isinstance(result, Tensor)
    outputs = (result,) if is_one else leaves((result,))
    if not given or not any([differentiable(output) for output in outputs]):
        return
    source = op if op.functional is None else op.functional
    # Numbers and the like are what they are at every level.
    values = {
        name: lowered(value) if isinstance(value, (Tensor, list, tuple)) else value
        for name, value in zip(names, args, strict=True)
    }
    produced = compute(source, rule, values, tangents, lowered(result))
    if op.replayed_as is not None:
        keep_tangent(result, produced)
    elif op.mutated_positions:
        write_tangent(result, produced, given)
    elif is_one:
        store(op, result, produced, given)
    else:
        for output, tangent in zip(result, produced, strict=True):
            if isinstance(output, Tensor):
                store(op, output, tangent, given)
    if rule.output_slots:
        note_saved(rule, result)


def store(op: Any, output: Any, tangent: Any, given: list[Any]) -> None:
    if tangent is None or not history.is_differentiable(output):
        return
    tangent = fitted(output, tangent)
    if not op.is_view_op and any([may_alias(tangent, other) for other in given]):
        tangent = tangent.clone()
    set_tangent(output, tangent)


def fitted(output: Any, tangent: Any) -> Any:
    """A tangent of the output's sizes and dtype."""
    if not geometry.same_sizes(tuple(tangent.shape), tuple(output.shape)):
        tangent = tangent.expand(output.shape)
    return tangent if tangent._dtype is output._dtype else tangent.to(output._dtype)


def may_alias(first: Any, second: Any) -> bool:
    """Whether writing to one tensor could change the other."""
    while isinstance(first, HIDING):
        first = first._value
    while isinstance(second, HIDING):
        second = second._value
    if first._array is None or second._array is None:
        # Fakes and functional tensors. A sparse tensor has no one storage.
        is_strided = first.layout is strided and second.layout is strided
        return first is second or (is_strided and storage_of(first) is storage_of(second))
    return bool(np.may_share_memory(first._array, second._array))


def write_tangent(target: Any, tangent: Any, given: list[Any]) -> None:
    """The tangent of an in-place target, written through to the tangent of its base."""
    if tangent is None or not history.is_differentiable(target):
        return
    existing = tangent_of(target)
    if existing is not None and can_hold(existing, tangent):
        existing.copy_(tangent)
        return
    tangent = fitted(target, tangent)
    if any([may_alias(tangent, other) for other in given]):
        tangent = tangent.clone()
    set_tangent(target, tangent)


def can_hold(existing: Any, tangent: Any) -> bool:
    """False where a tangent shared by all samples meets one that differs between them."""
    return hidden_levels(tangent) <= hidden_levels(existing)


def note_saved(rule: Any, result: Any) -> None:
    """Results that a node keeps for its backward are duals too."""
    outputs = (result,) if isinstance(result, Tensor) else tuple(result)
    for output in outputs:
        if (
            not isinstance(output, Tensor)
            or output._autograd is None
            or output._autograd.tangent is None
        ):
            continue
        node = output._node
        slots: Any = None if node is None or output._view is not None else node.saved_slots
        for index, _, suffix in rule.output_slots if isinstance(slots, list) else ():
            entries = slots[index] if isinstance(slots[index], tuple) else (slots[index],)
            for entry in entries if suffix == "" else ():
                if type(entry) is not SavedTensor or entry.tensor is None:
                    continue
                if entry.output_nr == output._output_nr:
                    autograd_state(entry.tensor).tangent = output._autograd.tangent


# -- rules -----------------------------------------------------------------------------------------


def compute(
    op: Any, rule: Any, values: dict[str, Any], tangents: dict[str, Any], result: Any
) -> Any:
    jvp = op.rule("jvp")
    if isinstance(jvp, Refused):
        raise error("RL0601", NotImplementedError, op=op.base_name, reason=jvp.reason)
    try:
        return derive(op, jvp, rule, values, tangents, result)
    except NotImplementedError as missing:
        if not str(missing).startswith("the derivative for"):
            raise
        raise error("RL0601", NotImplementedError, op=op.base_name, reason=missing) from missing


def derive(
    op: Any,
    jvp: Any,
    rule: Any,
    values: dict[str, Any],
    tangents: dict[str, Any],
    result: Any,
) -> Any:
    """A call's tangents, by whatever form its rule has."""
    outputs = (result,) if isinstance(result, Tensor) else tuple(result)
    is_real = not any(
        [
            isinstance(value, Tensor) and value._dtype.is_complex
            for value in (*values.values(), *outputs)
        ]
    )
    if jvp == "elementwise" and is_real and not rule.joint:
        return elementwise(op, rule, values, tangents, outputs)
    if jvp == "multilinear":
        return multilinear(op, values, tangents)
    if jvp == "linear" or isinstance(jvp, LinearIn):
        return linear(op, jvp, values, tangents)
    if callable(jvp):
        return given(jvp, op, values, tangents, outputs)
    return transposed(op, rule, values, tangents, outputs, isinstance(result, Tensor))


def named(op: Any, values: dict[str, Any], outputs: tuple[Any, ...]) -> dict[str, Any]:
    found = dict(values)
    names = op.return_names
    if len(names) == 1 and len(outputs) > 1:
        found[names[0]] = outputs
    else:
        found.update(zip(names, outputs, strict=True))
    found.setdefault("result", outputs[0])
    return found


def elementwise(
    op: Any, rule: Any, values: dict[str, Any], tangents: dict[str, Any], outputs: tuple[Any, ...]
) -> Any:
    everything = named(op, values, outputs)
    needs = tuple([tangents[name] is not None for name in rule.inputs])
    total: Any = None
    for name in rule.inputs:
        tangent = tangents[name]
        if tangent is not None:
            part = rule.evaluate(name, (tangent,), everything, needs)
            total = part if total is None else total + part
    return total


def linear(op: Any, jvp: Any, values: dict[str, Any], tangents: dict[str, Any]) -> Any:
    names = jvp.names if isinstance(jvp, LinearIn) else tuple(tangents)
    replaced = dict(values)
    for name in names:
        value = values[name]
        tangent = tangents.get(name)
        if isinstance(tangent, list):
            replaced[name] = [
                functions.zeros_like(item) if entry is None else entry
                for item, entry in zip(value, tangent, strict=True)
            ]
        elif isinstance(value, Tensor):
            replaced[name] = functions.zeros_like(value) if tangent is None else tangent
    positional, keywords = call_arguments(op, replaced)
    return op(*positional, **keywords)


def multilinear(op: Any, values: dict[str, Any], tangents: dict[str, Any]) -> Any:
    """Products of two factors, `beta * self` before them or not: each factor's tangent takes its
    place in turn."""
    *added, first, second = [op.argument_names[position] for position in op.tensor_positions]
    rest = tangents.get(added[0]) if added else None
    total: Any = None
    for name in (first, second):
        tangent = tangents[name]
        if tangent is None:
            continue
        replaced = {**values, name: tangent}
        if added and rest is not None:
            replaced[added[0]], rest = rest, None
        elif added:
            replaced["beta"] = 0
        part = dispatch.call(op, tuple(replaced.values()))
        total = part if total is None else total + part
    if rest is not None:
        beta = values["beta"]
        total = rest if beta == 1 else rest * beta
    return total


def call_arguments(op: Any, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional = [values[a.name] for a in op._schema.arguments if not a.kwarg_only]
    keywords = {a.name: values[a.name] for a in op._schema.arguments if a.kwarg_only}
    return positional, keywords


def given(
    jvp: Any, op: Any, values: dict[str, Any], tangents: dict[str, Any], outputs: tuple[Any, ...]
) -> Any:
    everything = named(op, values, outputs)
    everything.update({f"{name}_t": tangent for name, tangent in tangents.items()})
    return jvp(*[everything[name] for name in parameters(jvp)])


def transposed(
    op: Any,
    rule: Any,
    values: dict[str, Any],
    tangents: dict[str, Any],
    outputs: tuple[Any, ...],
    single: bool,
) -> Any:
    """The vjp is linear in its gradient; its own vjp is the forward rule."""
    everything = named(op, values, outputs)
    zeros = [
        functions.zeros_like(output.detach())
        if index not in rule.non_differentiable and differentiable(output)
        else None
        for index, output in enumerate(outputs)
    ]
    # A level of its own: whatever levels the values belong to are below it.
    from rushlight.autograd.levels import GradLevel

    # Hooks on saved tensors are for those that users' ops save.
    with changed(saved_hooks=()), GradLevel() as level:
        dummies = [None if zero is None else level.input(zero) for zero in zeros]
        products, directions = vjp_products(level, rule, everything, tangents, tuple(dummies))
        roots = [level.root(product) for product in products]
    wanted = [dummy for dummy in dummies if dummy is not None]
    found = iter(level_gradients(roots, directions, wanted))
    filled = [
        None
        if dummy is None
        else (
            value if (value := next(found)) is not None else functions.zeros_like(output.detach())
        )
        for dummy, output in zip(dummies, outputs, strict=True)
    ]
    return filled[0] if single else filled


def level_gradients(roots: list[Any], cotangents: list[Any], inputs: list[Any]) -> list[Any]:
    """Gradients for the leaves of a grad level that has ended, as tensors of the levels below;
    None where a root does not lead to one."""
    starts = [(*root, c) for root, c in zip(roots, cotangents, strict=True) if root is not None]
    if not starts:
        return [None] * len(inputs)
    for position, (node, _, _) in enumerate(starts):
        if node is None:  # a view made without grad mode of what requires a gradient
            raise no_history(position)
    edges = [(gradient_node(leaf), 0) for leaf in inputs]
    # Nodes of a level are recorded for its leaves, and these are all of them.
    return run_backward(starts, True, LOCAL.state.grad, edges, whole=True)


def leaves(values: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += value if isinstance(value, (list, tuple)) else (value,)
    return found


def differentiable(output: Any) -> bool:
    return isinstance(output, Tensor) and (
        output._dtype.is_floating_point or output._dtype.is_complex
    )


def vjp_products(
    level: Any,
    rule: Any,
    everything: dict[str, Any],
    tangents: dict[str, Any],
    dummies: tuple[Any, ...],
) -> tuple[list[Any], list[Any]]:
    """(gradients as functions of the dummies, the tangents they are to be paired with)."""
    products: list[Any] = []
    directions: list[Any] = []
    flat: list[Any] = []
    for name in rule.inputs:
        tangent = tangents[name]
        flat.extend(tangent if isinstance(tangent, list) else [tangent])
    needs = tuple([tangent is not None for tangent in flat])
    if rule.joint:
        answers = list(rule.evaluate("", dummies, everything, needs))
        pairs = zip(answers, flat, strict=True)
    elif rule.list_inputs & set(rule.inputs):
        answers = list(rule.evaluate(rule.inputs[0], dummies, everything, needs))
        pairs = zip(answers, flat, strict=True)
    else:
        pairs = zip(
            [
                rule.evaluate(name, dummies, everything, needs)
                if tangents[name] is not None
                else None
                for name in rule.inputs
            ],
            flat,
            strict=True,
        )
    for answer, tangent in pairs:
        if answer is None or tangent is None or not level.is_own(answer):
            continue
        if not answer.requires_grad:
            continue
        if not geometry.same_sizes(tuple(answer.shape), tuple(tangent.shape)):
            tangent = level.run(tangent.expand, answer.shape)
        if answer._dtype is not tangent._dtype:
            tangent = level.run(tangent.to, answer._dtype)
        products.append(answer)
        directions.append(tangent)
    return products, directions


ports.fill(push_tangents=push_tangents, has_tangents=has_tangents)
