"""Hooks of tensors in captured code: calls that run as they are, when the graph runs.

A hook is an input of the graph. It stays the user's function, which a backward calls with the
gradient that is really there: what it reads and writes then is what it would find in eager code.
"""

from __future__ import annotations

from typing import Any

from rushlight.capture.outcomes import Break
from rushlight.capture.recording import HOOK, NATIVE
from rushlight.capture.values import Bound, Const, Func, Made, Method, New, Obj, Opaque, Partial
from rushlight.core.hooks import RemovableHandle

__all__ = ["METHODS", "call", "call_handle"]

# Methods of tensors, and how many functions each is given.
METHODS = {"register_hook": 1, "register_post_accumulate_grad_hook": 1, "retain_grad": 0}


def call(t: Any, tensor: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method that puts a hook on a tensor."""
    if kwargs or len(args) != METHODS[name] or t.recording is not t.root:
        raise Break(f"Tensor.{name}")
    if not tensor.example.requires_grad:
        raise Break(f"Tensor.{name}")  # an error of the program
    given = [t.node(tensor), *[function_node(t, hook) for hook in args]]
    node = native_call(t, name, given)
    return Opaque(RemovableHandle, node) if args else Const(None)


def native_call(t: Any, name: str, given: list[Any]) -> Any:
    t.note_effects(writes=True, draws=False, may_raise=False)
    node = t.recording.add("call_method", name, given, {}, None)
    node.meta[NATIVE] = HOOK
    return node


def function_node(t: Any, hook: Any) -> Any:
    """A function as an input of the graph."""
    hook = t.real(hook)
    if not isinstance(hook, Bound | Func | Made | Method | New | Obj | Partial):
        raise Break("a hook that is no function")
    if id(hook) not in t.function_nodes:
        source = hook.source
        node = t.root.add_input("hook" if source is None else source.identifier(), None, source)
        if source is None:
            t.root.made[node] = (hook, t.position)
        t.function_nodes[id(hook)] = node
    return t.function_nodes[id(hook)]


def call_handle(t: Any, v: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of what registering a hook gave."""
    if name == "__enter__":
        return v
    if name not in ("remove", "__exit__") or t.recording is not t.root:
        raise Break(f"{v.kind.__name__}.{name}")
    native_call(t, "remove", [v.node])
    return Const(None)
