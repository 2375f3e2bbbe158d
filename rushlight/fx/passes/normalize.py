"""Transformers that bring calls into one form."""

from __future__ import annotations

import operator
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Transformer
from rushlight.fx.operator_schemas import normalize_node
from rushlight.fx.proxy import Proxy
from rushlight.graph.names import qualified_name
from rushlight.graph.node import Node, map_arg

__all__ = ["NormalizeArgs", "NormalizeOperators"]

# Functions, and the operators of Python that do the same for two tensors.
OPERATORS = {
    "torch.add": operator.add,
    "torch.mul": operator.mul,
    "torch.sub": operator.sub,
    "torch.div": operator.truediv,
    "torch.floor_divide": operator.floordiv,
    "torch.remainder": operator.mod,
    "torch.eq": operator.eq,
    "torch.ne": operator.ne,
    "torch.lt": operator.lt,
    "torch.le": operator.le,
    "torch.gt": operator.gt,
    "torch.ge": operator.ge,
}


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

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2 and not kwargs:
            target = OPERATORS.get(qualified_name(target), target)
        return super().call_function(target, args, kwargs)
