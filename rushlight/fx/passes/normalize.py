"""Transformers that bring calls into one form."""

from __future__ import annotations

import operator
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Transformer
from rushlight.fx.operator_schemas import normalize_node
from rushlight.fx.proxy import Proxy
from rushlight.graph.node import Node, map_arg
from rushlight.opset import functions

__all__ = ["NormalizeArgs", "NormalizeOperators"]

# Functions, and the operators of Python that do the same for two tensors.
OPERATORS = {
    "add": operator.add, "mul": operator.mul, "sub": operator.sub, "div": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "eq": operator.eq,
    "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


class NormalizeArgs(Transformer):
    """Writes all arguments of calls out, defaults too: by name, or as the signature has them."""

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        found = normalize_node(self.module, n, self.normalize_to_only_use_kwargs)
        if found is None:
            result = super().run_node(n)
        else:
            args, kwargs = map_arg((found.args, found.kwargs), lambda node: self.env[node])
            result = getattr(self, n.op)(n.target, args, kwargs)
        if n.op != "output" and isinstance(result, Proxy):
            self.node_map[result] = n
            result.node.meta = n.meta
            result.node.type = n.type
        return result


class NormalizeOperators(Transformer):
    """Lets calls of functions that Python has operators for be those operators."""

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        super().__init__(module)
        self.remapped = {getattr(functions, name): op for name, op in OPERATORS.items()}

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target in self.remapped and len(args) == 2 and not kwargs:
            target = self.remapped[target]
        return super().call_function(target, args, kwargs)
