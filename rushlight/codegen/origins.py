"""Which nodes of a graph each piece of memory, and so each kernel, computes.

A node whose value is only an expression yet belongs to whatever puts it into memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.codegen.loops import Buffer, Statement
from rushlight.graph.node import Node

if TYPE_CHECKING:
    from rushlight.codegen.program import LoopProgram

__all__ = ["Origins"]


class Origins:
    """Notes, while a graph is read node by node, what the new memory of each is computed from."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.seen = 0
        # What the expressions of nodes that are not in memory are made of.
        self.pending: dict[Node, tuple[Node, ...]] = {}

    def note(self, node: Node) -> None:
        """A node has been read, and appended the steps that were not seen yet."""
        steps = self.program.steps[self.seen :]
        targets = {step.target for step in steps if isinstance(step, Statement)}
        self.seen = len(self.program.steps)
        # A call or a product comes last: loops then only put its operands into memory.
        is_loops = not steps or isinstance(steps[-1], Statement)
        own = [node] if is_loops and node.op == "call_function" else []
        for given in node.all_input_nodes:
            # Memory that an operand was put into for this node.
            parts = self.pending.get(given, ())
            for buffer in self.memory_of(given):
                if buffer in targets:
                    targets.remove(buffer)
                    buffer.origins = parts
                    parts = self.pending[given] = ()
            own = [*parts, *own]
        mine = tuple(dict.fromkeys(own))
        for buffer in targets:
            buffer.origins = mine
        self.pending[node] = () if not is_loops or self.is_made(node, targets) else mine

    def is_made(self, node: Node, targets: set[Buffer]) -> bool:
        """Whether all that a node stands for lies in some of this memory."""
        values = [value for value in self.values_of(node) if value.expr is not None]
        return bool(values) and all(
            [v.expr.op == "load" and v.expr.payload[0] in targets for v in values]
        )

    def values_of(self, node: Node) -> list[Any]:
        value = self.program.values.get(node)
        several = value if isinstance(value, (tuple, list)) else [value]
        return [each for each in several if hasattr(each, "expr")]

    def memory_of(self, node: Node) -> list[Buffer]:
        return [value.buffer for value in self.values_of(node) if value.buffer is not None]
