"""What a trace knows: its graph, and which value of it each live tensor is.

Tensors are known by identity and held while the trace lasts, so that no identity is used twice.
A write rebinds the object that was written through; views of it keep their values.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.state import (
    BELOW_PRE_PROXY,
    LOCAL,
    Occupant,
    ThreadState,
    active_tracer,
    changed,
)
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Graph, Node, Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import INT, TensorType
from rushlight.jit.tracing.frames import name_of, source_here

SIZE = TensorType("int64", "cpu", (), ())


class TracedInt(int):
    """An int that was a tensor in the user's program, on its way to an operator."""

    tensor: Tensor


class TracedFloat(float):
    """A float that was a tensor in the user's program, on its way to an operator."""

    tensor: Tensor


class TracingState(Occupant):
    """One trace while it runs. `Recorder` adds what happens to calls."""

    slot = "pre_proxy"
    covered = BELOW_PRE_PROXY

    def __init__(self, strict: bool = True, force_outplace: bool = False) -> None:
        self.graph = Graph()
        self.strict = strict
        self.force_outplace = force_outplace
        # Identity -> tensor and value; the innermost region last.
        self.values: list[dict[int, tuple[Any, Value]]] = [{}]
        # Module -> its dotted path, for calls that become methods.
        self.module_paths: dict[Any, str] = {}
        self.ends: list[Node] = []
        # Where the regions begin whose graph is the one that is written now.
        self.floors = [0]

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {self.slot: self, "tracer": self}

    def paused(self) -> changed:
        """Nothing is recorded inside, and sizes are ints."""
        return changed(excluded=LOCAL.state.excluded | self.covered)

    # -- values

    def has_value(self, tensor: Tensor) -> bool:
        return self.find(tensor) is not None

    def find(self, tensor: Any) -> Value | None:
        key = id(tensor)
        for known in reversed(self.values[self.floors[-1] :]):
            entry = known.get(key)
            if entry is not None:
                value: Value = entry[1]
                return value
        return None

    def set_value(self, tensor: Any, value: Value) -> None:
        self.values[-1][id(tensor)] = tensor, value

    def note_alias(self, made: Tensor, source: Tensor) -> None:
        """Another object over the same tensor stands for the same value."""
        self.set_value(made, self.value_of(source))

    def value_of(self, tensor: Tensor) -> Value:
        """The value of a tensor that an operator uses; a constant for one from outside."""
        found = self.find(tensor)
        if found is not None:
            if not found.has_name():
                found.setDebugName(name_of(tensor))
            return found
        if tensor.requires_grad and len(self.floors) == 1:
            with self.paused():
                raise RuntimeError(
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it a "
                    f"parameter or input, or detaching the gradient\nTensor:\n{tensor}"
                )
        return self.constant_of(tensor)

    def constant_of(self, tensor: Tensor) -> Value:
        """A captured tensor as a constant, which later uses share."""
        with self.paused():
            value = self.graph.insertConstant(tensor, source_here())
        self.set_value(tensor, value)
        return value

    def infer(self, value: Value, tensor: Tensor) -> None:
        """The type of a value as the example has it."""
        with self.paused():
            value.inferTypeFrom(tensor)

    # -- numbers

    def number(self, tensor: Tensor) -> Any:
        """A 0-d tensor where a number is asked for: the number, which knows its tensor."""
        with self.paused():
            found = tensor.item()
        cls = type(found)
        if cls is int or cls is float:
            made: Any = TracedInt(found) if cls is int else TracedFloat(found)
            made.tensor = tensor
            return made
        return found

    def number_value(self, number: TracedInt | TracedFloat, kind: str, type_: Any) -> Value:
        """The number of a traced tensor, read right after the tensor is made."""
        value = self.value_of(number.tensor)
        maker = value.node()
        if maker.kind() == "prim::Param":
            following = maker.block.exit.next  # type: ignore[union-attr]
        else:
            following = maker.next
        assert following is not None
        with self.graph.insert_point_guard(following):
            node = self.graph.insertNode(self.graph.create(kind, [value]))
        node.scope = maker.scope
        return node.output().setType(type_)

    def size_tensor(self, tensor: Tensor, dim: int, size: int) -> Tensor:
        """A size as a tensor whose value is known to the trace."""
        source = source_here()
        value = self.value_of(tensor)
        shown = self.graph.insertConstant(dim, source)
        return self.number_tensor("aten::size", [value, shown], size, source)

    def numel_tensor(self, tensor: Tensor, count: int) -> Tensor:
        source = source_here()
        return self.number_tensor("aten::numel", [self.value_of(tensor)], count, source)

    def number_tensor(
        self, kind: str, inputs: list[Value], number: int, source: SourceRange
    ) -> Tensor:
        from rushlight.core.construct import tensor as make

        graph = self.graph
        node = graph.insertNode(graph.create(kind, inputs))
        node.source = source
        node.output().setType(INT)
        as_tensor = graph.insertNode(graph.create("prim::NumToTensor", [node.output()]))
        as_tensor.output().setType(SIZE)
        with self.paused():
            made: Tensor = make(number)
        self.set_value(made, as_tensor.output())
        return made

    def apply_function(self, cls: Any, args: tuple[Any, ...], run: Any) -> Any:
        """A call of an `autograd.Function`, which is recorded whole."""
        from rushlight.jit.tracing.pythonops import record_function

        return record_function(self, cls, args, run)

    def note_switch(self, switch: Any, *args: Any) -> None:
        """torch: graphs of traces do not say where gradients were off; casts are written out."""

    # -- regions

    def call_forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a module's `forward`, in a region of its own where it is a known submodule."""
        path = self.module_paths.get(module)
        if path is None or hasattr(module, "_c"):
            return module.forward(*args, **kwargs)
        self.push_scope(path)
        try:
            return module.forward(*args, **kwargs)
        finally:
            self.pop_scope()

    def push_scope(self, path: str) -> None:
        """What follows is the body of a submodule's call."""
        graph = self.graph
        node = graph.insertNode(graph.create("prim::TracedModuleForward", 0))
        node.s_("scope", path)  # type: ignore[attr-defined]
        self.ends.append(graph.insertPoint())
        graph.setInsertPoint(node.addBlock())
        graph.scope = f"{graph.scope}/{path}" if graph.scope else path

    def pop_scope(self) -> None:
        self.graph.setInsertPoint(self.ends.pop())
        self.graph.scope = self.graph.scope.rpartition("/")[0]


def get_tracing_state() -> Any:
    """The trace that the code which asks is a part of; None outside of traces."""
    return active_tracer()
