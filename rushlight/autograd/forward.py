"""Forward mode: tangents pushed along with values.

A tensor's tangent belongs to one level; entering a level starts a new generation, so leaving it
makes all its tangents read as None at once. The rule of an op is its `jvp`: "elementwise"
(the vjp formula applied to the tangent, a diagonal Jacobian being its own transpose), "linear"
(the op applied to tangents), a function of `<input>_t`, or, where none is given, the transpose of
the vjp (which is linear in its gradient) computed by the engine.
"""

from __future__ import annotations

import itertools
from typing import Any

from rushlight.autograd.backward import grad as gradients
from rushlight.core import history
from rushlight.core.gradrule import parameters
from rushlight.core.node import autograd_state
from rushlight.core.op import Refused
from rushlight.core.state import LOCAL, ThreadState
from rushlight.core.tensor import Tensor
from rushlight.opset import functions
from rushlight.opset.rules import LinearIn

__all__ = ["enter_level", "exit_level", "set_tangent", "tangent_of"]

generations = itertools.count(1)
current_generation = 0


def enter_level() -> int:
    """Start the (only) forward-mode level."""
    global current_generation
    state = LOCAL.state
    if state.forward_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    current_generation = next(generations)
    state.forward_level = 0
    state.refresh()
    return 0


def exit_level(level: int) -> None:
    global current_generation
    state = LOCAL.state
    if level != state.forward_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    current_generation = 0
    state.forward_level = -1
    state.refresh()


def tangent_of(tensor: Any) -> Any:
    """The tangent of a tensor at the current level, or None."""
    if not isinstance(tensor, Tensor) or tensor._ag is None or tensor._ag.tangent is None:
        return None
    generation, tangent = tensor._ag.tangent
    return tangent if generation == current_generation else None


def set_tangent(tensor: Any, tangent: Any) -> None:
    autograd_state(tensor).tangent = None if tangent is None else (current_generation, tangent)


def push_tangents(op: Any, args: tuple[Any, ...], result: Any, state: ThreadState) -> None:
    """Give an op's results their tangents. In-place ops pass their target as the result."""
    if not state.forward_enabled:
        return
    rule = op.grad_rule
    if rule is None:
        return
    names = op.argument_names
    tangents: dict[str, Any] = {}
    found = False
    for name in rule.inputs:
        value = args[names.index(name)]
        if isinstance(value, (list, tuple)):
            entries = [tangent_of(item) for item in value]
            found = found or any(entry is not None for entry in entries)
            tangents[name] = entries
        else:
            tangents[name] = tangent_of(value)
            found = found or tangents[name] is not None
    if not found:
        return
    level = state.forward_level
    state.forward_level = -1
    state.refresh()
    try:
        source = op if op.functional is None else op.functional
        produced = compute(source, rule, dict(zip(names, args, strict=True)), tangents, result)
        if op.mutated_positions:
            write_tangent(args[op.mutated_positions[0]], result, produced)
        elif isinstance(result, Tensor):
            store(result, produced)
        else:
            for output, tangent in zip(result, produced, strict=True):
                if isinstance(output, Tensor):
                    store(output, tangent)
    finally:
        state.forward_level = level
        state.refresh()


def store(output: Any, tangent: Any) -> None:
    if tangent is None or not (output._dtype.is_floating_point or output._dtype.is_complex):
        return
    if tuple(tangent.shape) != tuple(output.shape):
        tangent = tangent.expand(output.shape)
    if tangent._dtype is not output._dtype:
        tangent = tangent.to(output._dtype)
    set_tangent(output, tangent)


def write_tangent(original: Any, target: Any, tangent: Any) -> None:
    """The tangent of an in-place target, written through to the tangent of its base."""
    existing = tangent_of(target)
    if existing is not None:
        existing.copy_(tangent)
        return
    view = target._view
    if view is None:
        store(target, tangent)
        return
    base_tangent = tangent_of(view.base)
    if base_tangent is None:
        base_tangent = functions.zeros_like(view.base.detach())
        set_tangent(view.base, base_tangent)
    own = history.replay(view, base_tangent)
    own.copy_(tangent)
    set_tangent(target, own)


def compute(
    op: Any, rule: Any, values: dict[str, Any], tangents: dict[str, Any], result: Any
) -> Any:
    jvp = op.rule("jvp")
    if isinstance(jvp, Refused):
        raise NotImplementedError(
            f"Trying to use forward AD with {op.base_name} that does not support it because it has "
            f"not been implemented yet: {jvp.reason}"
        )
    outputs = (result,) if isinstance(result, Tensor) else tuple(result)
    is_real = not any(
        isinstance(value, Tensor) and value._dtype.is_complex for value in (*values.values(), *outputs)
    )
    if jvp == "elementwise" and is_real and not rule.joint:
        return elementwise(op, rule, values, tangents, outputs)
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
    return op(*call_arguments(op, replaced)[0], **call_arguments(op, replaced)[1])


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
    state = LOCAL.state
    before = state.grad
    state.grad = True
    state.refresh()
    try:
        everything = named(op, values, outputs)
        dummies = [
            functions.zeros_like(output.detach()).requires_grad_()
            if index not in rule.non_differentiable and differentiable(output)
            else None
            for index, output in enumerate(outputs)
        ]
        products, directions = vjp_products(rule, everything, tangents, tuple(dummies))
        wanted = [dummy for dummy in dummies if dummy is not None]
        found = iter(
            gradients(products, wanted, directions, create_graph=before, allow_unused=True)
            if products
            else [None] * len(wanted)
        )
    finally:
        state.grad = before
        state.refresh()
    filled = [
        None
        if dummy is None
        else (value if (value := next(found)) is not None else functions.zeros_like(output.detach()))
        for dummy, output in zip(dummies, outputs, strict=True)
    ]
    return filled[0] if single else filled




def differentiable(output: Any) -> bool:
    return isinstance(output, Tensor) and (
        output._dtype.is_floating_point or output._dtype.is_complex
    )


def vjp_products(
    rule: Any, everything: dict[str, Any], tangents: dict[str, Any], dummies: tuple[Any, ...]
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
        if answer is None or tangent is None or not answer.requires_grad:
            continue
        if tuple(answer.shape) != tuple(tangent.shape):
            tangent = tangent.expand(answer.shape)
        if answer._dtype is not tangent._dtype:
            tangent = tangent.to(answer._dtype)
        products.append(answer)
        directions.append(tangent)
    return products, directions


history.push_tangents = push_tangents
