"""Functions of `math` and `cmath` on numbers, with the values of the C library where Python raises:
a domain error is nan, an overflow an infinity."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from rushlight.jit.ir.operators import graph_op
from rushlight.jit.ops.numbers import REAL, binary


def unary(name: str, result: str = "float", extra: str = "Scalar") -> list[str]:
    """Schemas of a function of one real number."""
    found = [f"aten::{name}.{x}({x} a) -> {result}" for x in ("int", "float")]
    return [*found, f"aten::{name}.Scalar(Scalar a) -> {extra}"]


def as_in_c(function: Callable[[float], float]) -> Callable[[Any], float]:
    """A function of `math` that gives nan or an infinity where Python raises."""

    def run(a: Any) -> float:
        try:
            return function(a)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    run.__name__ = function.__name__
    return run


REAL_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "degrees": math.degrees,
    "erf": math.erf,
    "erfc": math.erfc,
    "expm1": math.expm1,
    "fabs": math.fabs,
    "radians": math.radians,
}


def either(real: Callable[[Any], Any], imaginary: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of a number that may be complex."""
    return lambda a: imaginary(a) if isinstance(a, complex) else real(a)


for _name, _real in REAL_FUNCTIONS.items():
    graph_op(*unary(_name))(as_in_c(_real))


def define_complex(
    name: str, real: Callable[[Any], float], imaginary: Callable[[complex], complex]
) -> None:
    schemas = unary(name)
    graph_op(*schemas[:2])(real)
    graph_op(f"aten::{name}.complex(complex a) -> complex")(imaginary)
    graph_op(schemas[2])(either(real, imaginary))


def sinh(a: float) -> float:
    try:
        return math.sinh(a)
    except OverflowError:
        return math.copysign(math.inf, a)


def atanh(a: float) -> float:
    if abs(a) == 1:
        return math.copysign(math.inf, a)
    return as_in_c(math.atanh)(a)


def complex_atanh(a: complex) -> complex:
    return complex(atanh(a.real), 0.0) if a in (1, -1) else cmath.atanh(a)


def complex_atan(a: complex) -> complex:
    return complex(0.0, atanh(a.imag)) if a in (1j, -1j) else cmath.atan(a)


def logarithm(function: Callable[[float], float], pole: float = 0.0) -> Callable[[Any], float]:
    """A logarithm: minus infinity at its pole."""
    guarded = as_in_c(function)
    return lambda a: -math.inf if a == pole else guarded(a)


log = logarithm(math.log)
# Functions with a value where Python's raise, or with another sign than infinity's.
OWN: dict[str, tuple[Callable[[Any], float], Callable[[complex], complex]]] = {
    "sinh": (sinh, cmath.sinh),
    "atanh": (atanh, complex_atanh),
    "atan": (math.atan, complex_atan),
    "log": (log, lambda a: cmath.log(a) if a else complex(-math.inf, 0.0)),
    "log10": (
        logarithm(math.log10),
        lambda a: cmath.log10(a) if a else complex(-math.inf, 0.0),
    ),
}
# What Python has of real and of complex numbers, but for tests of a number's class.
for _name in vars(cmath):
    if (
        hasattr(math, _name)
        and callable(getattr(cmath, _name))
        and not _name.startswith(("is", "_"))
    ):
        _own = as_in_c(getattr(math, _name)), getattr(cmath, _name)
        define_complex(_name, *OWN.get(_name, _own))
graph_op(*unary("log1p"))(logarithm(math.log1p, -1.0))


@graph_op(
    *[f"aten::log.{x}_{y}({x} a, {y} b) -> float" for x, y in REAL],
    "aten::log.Scalar_Scalar(Scalar a, Scalar b) -> float",
)
def log_to_base(a: Any, b: Any) -> float:
    divisor = log(b)
    if divisor:
        return log(a) / divisor
    number = log(a)
    return math.nan if number == 0 or math.isnan(number) else math.copysign(math.inf, number)


@graph_op(
    *[
        f"aten::log.{x}_{y}({x} a, {y} b) -> complex"
        for x, y in (
            *(("complex", "complex"), ("int", "complex"), ("complex", "int")),
            *(("float", "complex"), ("complex", "float")),
        )
    ]
)
def complex_log_to_base(a: Any, b: Any) -> complex:
    try:
        return cmath.log(a) / cmath.log(b)
    except (ValueError, ZeroDivisionError):
        return complex(math.nan, math.nan)


@graph_op(*unary("gamma"))
def gamma(a: Any) -> float:
    if a == 0:
        return math.copysign(math.inf, a)
    return as_in_c(math.gamma)(a)


@graph_op(*unary("lgamma"))
def lgamma(a: Any) -> float:
    try:
        return math.lgamma(a)
    except (ValueError, OverflowError):
        return math.inf


def whole(function: Callable[[float], int]) -> Callable[[Any], int]:
    def run(a: Any) -> int:
        try:
            return function(a)
        except (OverflowError, ValueError):
            raise RuntimeError(f"Cannot convert float {a} to integer") from None

    return run


graph_op(*unary("floor", "int"))(whole(math.floor))
graph_op(*unary("ceil", "int"))(whole(math.ceil))


@graph_op(*unary("round"))
def round_half_even(a: Any) -> float:
    if not math.isfinite(a):
        return float(a)
    return math.copysign(float(round(a)), a)


@graph_op("aten::factorial.int(int a) -> int")
def factorial(a: int) -> int:
    if a < 0:
        raise RuntimeError("factorial() not defined for negative values")
    return math.factorial(a)


graph_op("aten::gcd.int(int a, int b) -> int")(math.gcd)
graph_op(*binary("aten::copysign", REAL, "float"), "aten::copysign(Scalar a, Scalar b) -> float")(
    math.copysign
)
graph_op(
    *binary("aten::atan2", REAL, "float"), "aten::atan2.Scalar_Scalar(Scalar a, Scalar b) -> float"
)(math.atan2)
graph_op("aten::frexp(float a) -> (float, int)")(math.frexp)
graph_op("aten::modf(float a) -> (float, float)")(math.modf)


@graph_op("aten::ldexp(float x, int i) -> float")
def ldexp(x: float, i: int) -> float:
    try:
        return math.ldexp(x, i)
    except OverflowError:
        return math.copysign(math.inf, x)


def phase(a: Any) -> float:
    if isinstance(a, complex):
        return cmath.phase(a)
    return math.pi if math.copysign(1.0, a) < 0 and not math.isnan(a) else 0.0


def polar(a: float, b: float) -> complex:
    return cmath.rect(a, b) if math.isfinite(b) else complex(math.nan, math.nan)


graph_op(*unary("angle"), "aten::angle.complex(complex a) -> float")(phase)
graph_op(
    *binary("aten::polar", REAL, "complex"),
    "aten::polar.Scalar_Scalar(Scalar a, Scalar b) -> Scalar",
)(polar)

for _name in ("isnan", "isinf", "isfinite"):
    graph_op(f"aten::{_name}.float(float a) -> bool")(getattr(math, _name))
    graph_op(f"aten::{_name}.complex(complex a) -> bool")(getattr(cmath, _name))
