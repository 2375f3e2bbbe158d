"""`backward()` in captured code: a node that runs the engine, and nodes that read the gradients.

Which tensors get one, the engine says itself: it runs on the examples. Gradients are then read from
the tensors, as the program would. What the engine could do beside that (hooks, functions of the
user's, histories from before the graph) ends the graph.
"""

from __future__ import annotations

from typing import Any

from rushlight.autograd.backward import grad
from rushlight.capture.outcomes import Break
from rushlight.capture.recording import HOOK, NATIVE, PART
from rushlight.capture.values import Const, Tensor
from rushlight.core.device import strided
from rushlight.core.node import AccumulateGrad
from rushlight.core.tensor import Tensor as RealTensor

__all__ = ["call"]


def call(t: Any, tensor: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Const:
    """`tensor.backward()`."""
    example = tensor.example
    is_plain = not (args or kwargs) and t.recording is t.root and not t.modes["inference"]
    if not is_plain or not example.requires_grad or example.numel() != 1:
        raise Break("Tensor.backward")
    if any(node.meta.get(NATIVE) == HOOK for node in t.root.graph.nodes):
        raise Break("Tensor.backward behind a hook")
    leaves = leaves_of(t, example)
    try:
        with t.world.mode:
            found = grad(
                example, [v.example for _, v in leaves], retain_graph=True, allow_unused=True
            )
    except Exception as error:
        raise Break(f"Tensor.backward: {error}") from error
    for (value, v), gradient in zip(leaves, found):
        if gradient is not None:
            check_layout(t, value, v, gradient)
        write_pending(t, value, v)
    t.note_effects(writes=True, draws=False, may_raise=False)
    run = t.recording.add("call_method", "backward", [t.node(tensor)], {}, None)
    run.meta[NATIVE] = True
    for (value, v), gradient in zip(leaves, found):
        if gradient is not None:
            t.overlay[id(value), "grad"] = gradient_of(t, v)
    return Const(None)


def leaves_of(t: Any, example: Any) -> list[tuple[Any, Tensor]]:
    """The tensors that a backward reaches, each with its variable."""
    known = {
        id(v.example): (value, v)
        for value, v in t.known.values()
        if isinstance(v, Tensor) and v.source is not None
    }
    found, seen, todo = [], set(), [example.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        todo += [following for following, _ in node.next_functions]
        if isinstance(node, AccumulateGrad):
            if id(node.variable) not in known:
                raise Break("Tensor.backward through what is no operator")
            found.append(known[id(node.variable)])
    for value, v in found:
        if not value.is_leaf or is_hooked(value):
            raise Break("Tensor.backward to a tensor with hooks or a history")
        t.guards.append(("text", v.source, unsettled))
    return found


def is_hooked(leaf: Any) -> bool:
    """Whether a gradient that arrives would run code of the user's."""
    state = leaf._autograd
    if state is None:
        return False
    node = None if state.accumulator is None else state.accumulator()
    return bool(
        state.hooks is not None
        or state.post_accumulate
        or (node is not None and node.node_hooks is not None)
    )


def unsettled(text: str, names: Any) -> str:
    return f"{text}._node is not None or {names.constant(is_hooked)}({text})"


def check_layout(t: Any, value: Any, v: Tensor, gradient: Any) -> None:
    """A gradient that is added to another one is laid out as that is."""
    if gradient.layout is not strided:
        raise Break("Tensor.backward with a sparse gradient")
    before = t.real(t.getattr(v, "grad"))
    if isinstance(before, Tensor):
        is_alike = before.example.stride() == v.example.stride()
        if not is_alike or t.world.tensor_type(before) is not RealTensor:
            raise Break("Tensor.backward to a gradient with another layout")


def write_pending(t: Any, value: Any, v: Tensor) -> None:
    """What the program made of a gradient before, the engine has to find."""
    key = id(value), "grad"
    if t.effects.pop(key, None) is None:
        return
    node = t.recording.add(
        "call_function", setattr, [t.node(v), "grad", t.arg(t.overlay[key])], {}, None
    )
    node.meta[NATIVE] = True


def gradient_of(t: Any, v: Tensor) -> Tensor:
    """The gradient that a tensor has now: laid out as the tensor is."""
    example = t.world.run("call_method", "clone", [v.example.detach()], {}, t.modes)
    node = t.recording.add("call_function", getattr, [t.node(v), "grad"], {}, example)
    node.meta[NATIVE] = node.meta[PART] = True
    return Tensor(example, node)
