"""Calls that are written in terms of others: a number before a tensor, properties of tensors.

They are tried after the operators of their name, and leave the nodes of what they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rushlight.base.schema import Schema
from rushlight.jit.ir.graph import Graph, Value
from rushlight.jit.ir.operators import GRAPH_ONLY
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.schemas import FunctionSchema, of_operator

Emit = Callable[["Calls", Sequence[Value]], Value]


@dataclass(frozen=True, slots=True)
class Calls:
    """Inserts calls at one place of the source."""

    graph: Graph
    source: SourceRange

    def __call__(self, kind: str, *args: object) -> Value:
        from rushlight.jit.ops.matching import emit_builtin

        return emit_builtin(self.graph, f"aten::{kind}", args, {}, self.source)


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    schema: FunctionSchema
    write: Emit

    def emit(self, graph: Graph, inputs: Sequence[Value], source: SourceRange) -> Value:
        return self.write(Calls(graph, source), inputs)


FUNCTIONS: dict[str, list[BuiltinFunction]] = {}


def define(kind: str, text: str, write: Emit) -> None:
    """`text` is a schema without a name; errors print it with the bare name of the function."""
    name = kind.partition("::")[2]
    schema = of_operator(Schema(f"{kind}{text}")).renamed(name)
    shown = f"{name}{text}"
    FUNCTIONS.setdefault(kind, []).append(
        BuiltinFunction(FunctionSchema(name, schema.arguments, schema.returns, text=shown), write)
    )


# A number before a tensor: the call with the tensor first.
SWAPPED: dict[str, Emit] = {
    "mul": lambda call, v: call("mul", v[1], v[0]),
    "add": lambda call, v: call("add", v[1], v[0]),
    "ne": lambda call, v: call("ne", v[1], v[0]),
    "eq": lambda call, v: call("eq", v[1], v[0]),
    "sub": lambda call, v: call("add", call("neg", v[1]), v[0]),
    "div": lambda call, v: call("mul", call("reciprocal", v[1]), v[0]),
}
SWAPPED_ORDERS: dict[str, Emit] = {
    "lt": lambda call, v: call("gt", v[1], v[0]),
    "le": lambda call, v: call("ge", v[1], v[0]),
    "gt": lambda call, v: call("lt", v[1], v[0]),
    "ge": lambda call, v: call("le", v[1], v[0]),
}
for _number in ("float", "int", "complex"):
    for _name, _write in SWAPPED.items():
        define(f"aten::{_name}", f"({_number} a, Tensor b) -> Tensor", _write)
for _number in ("float", "int"):
    for _name, _write in SWAPPED_ORDERS.items():
        define(f"aten::{_name}", f"({_number} a, Tensor b) -> Tensor", _write)
for _number in ("float", "int", "Scalar", "Tensor"):
    define(
        "aten::floordiv",
        f"(Tensor self, {_number} other) -> Tensor",
        lambda call, v: call("floor_divide", v[0], v[1]),
    )

define(
    "aten::__contains__",
    "(str self, str key) -> bool",
    lambda call, v: call("ne", call("find", v[0], v[1], 0, call("len", v[0])), -1),
)

PROPERTIES = {
    "ndim": ("int", "dim"),
    "T": ("Tensor", "numpy_T"),
    "H": ("Tensor", "matrix_H"),
    "mT": ("Tensor", "mT"),
    "mH": ("Tensor", "mH"),
    "shape": ("int[]", "size"),
    "is_leaf": ("bool", "is_leaf"),
}
for _name, (_result, _target) in PROPERTIES.items():
    define(
        f"prim::{_name}",
        f"(Tensor a) -> {_result}",
        lambda call, v, target=_target: call(target, v[0]),  # type: ignore[misc]
    )


def near_kinds(kind: str) -> list[str]:
    """Kinds whose names are nearly the one that was asked for."""
    from rushlight.opset.families import OPS
    from rushlight.opset.registry import PACKETS

    namespace = kind.partition("::")[0]
    names = {*PACKETS.get(namespace, {}), *(OPS if namespace == "aten" else ())}
    known = {f"{namespace}::{name}" for name in names} | set(GRAPH_ONLY)
    return get_close_matches(kind, sorted(known), 3, 0.85)
