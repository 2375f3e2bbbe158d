"""Arithmetic on numbers. Ints have 64 bits: what does not fit wraps around.

Division follows the hardware where torch does: by a float zero it gives an infinity or nan.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.jit.ir.operators import graph_op, graph_text

REAL = (("int", "int"), ("float", "float"), ("int", "float"), ("float", "int"))
COMPLEX = (
    *(("complex", "complex"), ("int", "complex"), ("complex", "int")),
    *(("float", "complex"), ("complex", "float")),
)
WIDTHS = {"int": 0, "float": 1, "complex": 2}


def overload(a: str, b: str) -> str:
    return a if a == b else f"{a}_{b}"


def binary(name: str, pairs: Any = REAL, result: str = "") -> list[str]:
    """Schemas of an operator on two numbers; the result is the wider type unless it is given."""
    return [
        f"{name}.{overload(a, b)}({a} a, {b} b) -> {result or max(a, b, key=WIDTHS.__getitem__)}"
        for a, b in pairs
    ]


LARGEST = 2**63 - 1


def wrapped(number: int) -> int:
    """An int of 64 bits. Ints that are symbols are left alone: a question would be a guard."""
    if type(number) is int and not -LARGEST <= number <= LARGEST:
        return (number + 2**63) % 2**64 - 2**63
    return number


@graph_op("aten::add.int(int a, int b) -> int")
def add_ints(a: int, b: int) -> int:
    return wrapped(a + b)


@graph_op("aten::sub.int(int a, int b) -> int")
def subtract_ints(a: int, b: int) -> int:
    return wrapped(a - b)


@graph_op("aten::mul.int(int a, int b) -> int")
def multiply_ints(a: int, b: int) -> int:
    return wrapped(a * b)


for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*")):
    graph_text(
        f"{{0}} {_sign} {{1}}",
        *binary(f"aten::{_name}", (*REAL[1:], *COMPLEX)),
        f"aten::{_name}(Scalar a, Scalar b) -> Scalar",
    )


@graph_op(
    "aten::div.int(int a, int b) -> float",
    "aten::div.complex(complex a, complex b) -> complex",
    "aten::div.float(float a, float b) -> float",
    "aten::div(Scalar a, Scalar b) -> float",
)
def divide(a: Any, b: Any) -> Any:
    try:
        return a / b
    except ZeroDivisionError:
        return divide_by_zero(a, b)


def divide_by_zero(a: Any, b: Any) -> Any:
    if isinstance(a, complex) or isinstance(b, complex):
        a = complex(a)
        return complex(divide_by_zero(a.real, 0.0), divide_by_zero(a.imag, 0.0))
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


@graph_op("aten::floordiv.int(int a, int b) -> int")
def floor_divide_ints(a: int, b: int) -> int:
    if b == 0:
        raise RuntimeError("division by 0")
    return a // b


@graph_op(*binary("aten::floordiv", REAL[1:]), "aten::floordiv(Scalar a, Scalar b) -> Scalar")
def floor_divide(a: Any, b: Any) -> Any:
    if is_int(a, b):
        return floor_divide_ints(a, b)
    quotient = divide(a, b)
    return float(math.floor(quotient)) if math.isfinite(quotient) else quotient


def is_int(a: Any, b: Any) -> bool:
    return type(a) is int and type(b) is int


@graph_op("aten::__round_to_zero_floordiv.int(int a, int b) -> int")
def divide_towards_zero(a: int, b: int) -> int:
    if b == 0:
        raise RuntimeError("division by 0")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@graph_op(*binary("aten::remainder"), "aten::remainder(Scalar a, Scalar b) -> Scalar")
def remainder(a: Any, b: Any) -> Any:
    if is_int(a, b):
        if b == 0:
            raise RuntimeError("integer modulo by zero")
        return a % b
    return fmod(fmod(a, b) + b, b)


@graph_op(*binary("aten::fmod", result="float"), "aten::fmod(Scalar a, Scalar b) -> float")
def fmod(a: Any, b: Any) -> float:
    """The rest of a division towards zero, with the sign of `a`."""
    return math.fmod(a, b) if b and not math.isinf(a) else math.nan


@graph_op(
    *binary("aten::mathremainder", result="float"),
    "aten::mathremainder(Scalar a, Scalar b) -> float",
)
def ieee_remainder(a: Any, b: Any) -> float:
    return math.remainder(a, b) if b and not math.isinf(a) else math.nan


@graph_op(
    "aten::divmod.int(int x, int y) -> (int, int)",
    "aten::divmod.float(float x, float y) -> (float, float)",
    "aten::divmod.int_float(int x, float y) -> (float, float)",
    "aten::divmod.float_int(float x, int y) -> (float, float)",
)
def divide_with_rest(x: Any, y: Any) -> Any:
    if not y:
        what = "integer division or modulo by zero" if is_int(x, y) else "float divmod()"
        raise RuntimeError(f"ZeroDivisionError: {what}")
    if is_int(x, y):
        return divmod(x, y)
    rest = fmod(x, y)
    if rest and (y < 0) != (x < 0):
        rest += y
    return (x - rest) / y, rest


@graph_op(
    *binary("aten::pow", result="float"),
    "aten::pow.Scalar_Scalar(Scalar a, Scalar b) -> float",
)
def power(a: Any, b: Any) -> Any:
    if a == 0 and b < 0:
        raise RuntimeError("0.0 cannot be raised to a negative power")
    try:
        # torch: also of two ints a float.
        return math.pow(a, b)
    except ValueError:
        return math.nan
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf


@graph_op(*binary("aten::pow", (COMPLEX[0], *COMPLEX[3:]), result="complex"))
def complex_power(a: Any, b: Any) -> complex:
    try:
        return complex(a) ** complex(b)
    except ZeroDivisionError:
        # Of zero: the exponent's real part decides.
        real = complex(b).real
        return 0j if real > 0 else complex(math.inf if real < 0 else math.nan, math.nan)


@graph_op("aten::pow.int_to_int(int a, int b) -> int")
def int_power(a: int, b: int) -> int:
    if type(a) is int and type(b) is int and b > 64:
        return wrapped(pow(a, b, 2**64))
    return wrapped(int(a**b))


graph_text("-{0}", *[f"aten::neg.{x}({x} a) -> {x}" for x in ("int", "float", "complex")],
           "aten::neg.Scalar(Scalar a) -> Scalar")  # fmt: skip
graph_text("not {0}", "aten::__not__(bool self) -> bool")

for _name, _sign in (("and", "&"), ("or", "|"), ("xor", "^")):
    graph_text(
        f"{{0}} {_sign} {{1}}",
        f"aten::__{_name}__.bool(bool a, bool b) -> bool",
        f"aten::__{_name}__.int(int a, int b) -> int",
    )


@graph_op("aten::__lshift__.int(int a, int b) -> int")
def shift_left(a: int, b: int) -> int:
    return wrapped(a << b)


graph_text("{0} >> {1}", "aten::__rshift__.int(int a, int b) -> int")

graph_op(
    "prim::abs.int(int a) -> int",
    "prim::abs.float(float a) -> float",
    "prim::abs.complex(complex a) -> float",
    "prim::abs.Scalar(Scalar a) -> Scalar",
)(abs)
graph_op("prim::abs(Tensor x) -> Tensor")(lambda x: x.abs())


@graph_op(*binary("prim::min"), "prim::min(Scalar a, Scalar b) -> Scalar")
def smaller(a: Any, b: Any) -> Any:
    found = a if a < b else b
    return float(found) if type(a) is not type(b) else found


@graph_op(*binary("prim::max"), "prim::max(Scalar a, Scalar b) -> Scalar")
def larger(a: Any, b: Any) -> Any:
    found = a if a > b else b
    return float(found) if type(a) is not type(b) else found


# Ranges: how often a loop runs, and the index of a turn.


@graph_op("aten::__range_length(int lo, int hi, int step) -> int")
def range_length(lo: int, hi: int, step: int) -> int:
    if step == 0:
        raise RuntimeError("range() arg 3 must not be zero")
    return len(range(lo, hi, step))


graph_text("{1} + {0} * {2}", "aten::__derive_index(int index, int start, int step) -> int")
graph_text("list(range({0}))", "prim::rangelist(int n) -> int[]")
