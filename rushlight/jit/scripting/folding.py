"""Nodes whose inputs are all constants, computed while the program is compiled."""

from __future__ import annotations

from typing import Any

from rushlight.jit.ir.graph import Node


def fold_constant(node: Node) -> list[Any] | None:
    """What the node gives, as a list; None where it depends on what is not known."""
    inputs = node.inputs()
    if any([value.node().kind() != "prim::Constant" for value in inputs]):
        return None
    operator = node.matched()
    if operator is None:
        return None
    try:
        result = operator.call(*[value.toIValue() for value in inputs])
    except Exception:
        return None
    return [result] if node.outputsSize() == 1 else list(result)
