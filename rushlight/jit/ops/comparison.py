"""Comparisons of numbers, strings, lists, devices and enums; `is` and `is not`."""

from __future__ import annotations

from typing import Any

from rushlight.jit.ir.operators import graph_op, graph_text
from rushlight.jit.ops.numbers import REAL, binary

ORDERS = (("lt", "<"), ("gt", ">"), ("le", "<="), ("ge", ">="))
EQUALITIES = (("eq", "=="), ("ne", "!="))
MIXED = (("float", "complex"), ("complex", "float"))

for _name, _sign in (*EQUALITIES, *ORDERS):
    _kind = f"aten::{_name}"
    _text = f"{{0}} {_sign} {{1}}"
    graph_text(_text, *binary(_kind, REAL, "bool"))
    graph_text(_text, f"{_kind}(Scalar a, Scalar b) -> bool", f"{_kind}.str(str a, str b) -> bool")

for _name, _sign in EQUALITIES:
    _kind = f"aten::{_name}"
    graph_text(
        f"{{0}} {_sign} {{1}}",
        *binary(_kind, (("bool", "bool"), ("complex", "complex"), *MIXED), "bool"),
        *[f"{_kind}.{x}_list({x}[] a, {x}[] b) -> bool" for x in ("int", "float", "bool", "str")],
        f"{_kind}.device(Device a, Device b) -> bool",
        f"{_kind}.enum(AnyEnumType a, AnyEnumType b) -> bool",
    )


@graph_op("aten::eq.Tensor_list(Tensor[] a, Tensor[] b) -> bool")
def equal_lists(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all([same_tensor(x, y) for x, y in zip(a, b)])


@graph_op("aten::ne.Tensor_list(Tensor[] a, Tensor[] b) -> bool")
def unequal_lists(a: list[Any], b: list[Any]) -> bool:
    return not equal_lists(a, b)


def same_tensor(x: Any, y: Any) -> bool:
    """Whether two tensors are one in a list: Python asks `bool(x == y)`."""
    return bool(x == y)


graph_text("{0} is {1}", "aten::__is__(t1 self, t2 obj) -> bool")
graph_text("{0} is not {1}", "aten::__isnot__(t1 self, t2 obj) -> bool")
