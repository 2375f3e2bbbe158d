"""Python's operators and the ops they stand for: the one table.

`OP_OF` has every spelling of an operator that Tensor knows, forward, reflected and in place.
"""

from __future__ import annotations

__all__ = [
    "ARITHMETIC", "BITWISE", "COMPARISONS", "HANDED_OVER", "OP_OF", "UNARY", "name_of_called",
]  # fmt: skip

# By what stands between the underscores.
ARITHMETIC = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "truediv": "div",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "pow",
}  # fmt: skip
BITWISE = {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
UNARY = {"neg": "neg", "pos": "positive", "abs": "abs", "invert": "bitwise_not"}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

OP_OF = {f"__{name}__": op for name, op in UNARY.items()}
OP_OF |= {f"__{name}__": name for name in COMPARISONS}
for _name, _op in {**ARITHMETIC, **BITWISE, "matmul": "matmul"}.items():
    OP_OF |= {f"__{_name}__": _op, f"__r{_name}__": _op, f"__i{_name}__": f"{_op}_"}

# torch: handlers of these operators get the method that they stand for; others, the operator.
HANDED_OVER = frozenset(
    (
        "__abs__", "__add__", "__ge__", "__gt__", "__iadd__", "__imod__", "__imul__", "__ipow__",
        "__isub__", "__itruediv__", "__le__", "__lt__", "__matmul__", "__mod__", "__mul__",
        "__ne__", "__neg__", "__pos__", "__pow__", "__radd__", "__rand__", "__rmul__", "__ror__",
        "__rxor__", "__sub__", "__truediv__",
    )
)  # fmt: skip


def name_of_called(function: object) -> str:
    """The op's name of what `__torch_function__` is told of: a function, or an operator."""
    name = getattr(function, "__name__", "")
    return OP_OF.get(name, name)
