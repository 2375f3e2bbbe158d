"""`ShapeProp`: runs a graph and notes what kind of tensor each node gave."""

from __future__ import annotations

from typing import Any

from rushlight.core.recording import TensorMetadata, tensor_metadata
from rushlight.core.tensor import Tensor
from rushlight.fx.interpreter import Interpreter
from rushlight.graph.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


# torch: its name here.
_extract_tensor_metadata = tensor_metadata


class ShapeProp(Interpreter):
    """Running it fills `node.meta["tensor_meta"]` and `node.meta["type"]`.

    With `fake_mode`, the graph is run within that mode instead of on real values.
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        if self.fake_mode is None:
            result = super().run_node(n)
        else:
            with self.fake_mode:
                result = super().run_node(n)
        found = False

        def describe(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, describe)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run on these inputs."""
        if self.fake_mode is not None:
            args = tuple(
                self.fake_mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in args
            )
        return super().run(*args)
