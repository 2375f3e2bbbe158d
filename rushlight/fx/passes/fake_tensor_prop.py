"""`FakeTensorProp`: runs a graph without values and notes what each node gives."""

from __future__ import annotations

from typing import Any

from rushlight.core.fake import FakeTensor, FakeTensorMode, snapshot
from rushlight.core.tensor import Tensor
from rushlight.fx.interpreter import Interpreter
from rushlight.graph.node import Node, map_aggregate
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Running it fills `node.meta["val"]`."""

    def __init__(
        self, module: Any, mode: FakeTensorMode | None = None, *, check_consistency: bool = False
    ) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode
        self.check_consistency = check_consistency

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        found = False

        def kept(value: Any) -> Any:
            nonlocal found
            if isinstance(value, Tensor):
                found = True
                fake = value if isinstance(value, FakeTensor) else self._mode.from_tensor(value)
                return snapshot(fake)
            found = found or isinstance(value, (*NUMBERS, int, float, bool))
            return value

        value = map_aggregate(result, kept)
        if found:
            if self.check_consistency and "val" in n.meta:
                self.compare(n, value)
            n.meta["val"] = value
        return result

    def compare(self, n: Node, value: Any) -> None:
        """Raise where the graph said something else about a node before."""
        former = n.meta["val"]
        if isinstance(former, Tensor) and isinstance(value, Tensor):
            facts = [(tuple(t.shape), t.stride(), t.dtype) for t in (former, value)]
            if facts[0] != facts[1]:
                raise RuntimeError(
                    f"node {n} was recorded with (size, stride, dtype) {facts[0]}, but gives "
                    f"{facts[1]}"
                )

    def propagate(self, *args: Any) -> Any:
        """Run on fakes of these inputs."""
        fakes = [self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args]
        return self.propagate_dont_convert_inputs(*fakes)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run on inputs that are fakes already."""
        with self._mode:
            return super().run(*args)
