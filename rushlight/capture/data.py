"""What only data tell, in graphs that must not break: numbers of tensors, sizes of masks' results.

They are symbols that nobody knows the values of. A number is taken out of its tensor natively: what
lies behind it is another part of the graph for backends that compile ahead of time.
"""

from __future__ import annotations

from typing import Any

from rushlight.capture.outcomes import Break
from rushlight.capture.recording import NATIVE
from rushlight.capture.values import Const, Number, Seq, Tensor

__all__ = ["METHODS", "converted", "method"]

METHODS = ("item", "tolist", "nonzero")


def method(t: Any, tensor: Tensor, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        raise Break(f"Tensor.{name} with arguments")
    if name == "nonzero":
        return t.record("call_method", name, [tensor], {})
    return number(t, tensor) if name == "item" else nested(t, tensor)


def number(t: Any, tensor: Tensor) -> Any:
    """`tensor.item()`."""
    if t.recording is not t.root:
        raise Break("Tensor.item in a function that is transformed")
    found = t.record("call_method", "item", [tensor], {})
    if isinstance(found, Number):
        found.node.meta[NATIVE] = True
    return found


def nested(t: Any, tensor: Tensor) -> Any:
    """`tensor.tolist()`."""
    if not tensor.example.dim():
        return number(t, tensor)
    return Seq(list, [nested(t, item) for item in t.world.unbind(t, tensor)])


def converted(t: Any, tensor: Tensor, kind: type) -> Any:
    """`int`, `float` or `bool` of a tensor."""
    if not t.world.captures_numbers:
        raise Break(f"{kind.__name__} of a tensor")
    found = t.real(number(t, tensor))
    if isinstance(found, Const):
        return t.fold(kind, found.value)
    if t.type_of(found) is not kind:
        raise Break(f"{kind.__name__} of a tensor of another kind")
    return found
