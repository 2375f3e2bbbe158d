"""Numbers from other numbers, from tensors and from strings: `int(x)`, `float(x)`, `bool(x)`."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.numbers import wrap_number
from rushlight.jit.ir.operators import graph_op, graph_text

graph_text(
    "int({0})",
    "aten::Int.bool(bool a) -> int",
    "aten::Int.float(float a) -> int",
    "aten::Int.Scalar(Scalar a) -> int",
)
graph_text("float({0})", "aten::Float.Scalar(Scalar a) -> float", "aten::Float.int(int a) -> float",
           "aten::Float.bool(bool a) -> float")  # fmt: skip
graph_text("bool({0})", "aten::Bool.int(int a) -> bool", "aten::Bool.float(float a) -> bool")
graph_text("complex({0})", "aten::Complex.Scalar(Scalar a) -> complex")

NUMBERS = ("int", "bool", "float")
graph_text(
    "complex({0}, {1})",
    *[f"aten::Complex.{x}_{y}({x} x, {y} y) -> complex" for x in NUMBERS for y in NUMBERS],
)


def number_of(tensor: Tensor) -> Any:
    """The number in a tensor of one element."""
    count = tensor.numel()
    if count != 1:
        raise RuntimeError(f"a Tensor with {count} elements cannot be converted to Scalar")
    return tensor.item()


@graph_op("aten::Int.Tensor(Tensor a) -> int")
def int_of_tensor(a: Tensor) -> int:
    return int(number_of(a))


@graph_op("aten::Float.Tensor(Tensor a) -> float")
def float_of_tensor(a: Tensor) -> float:
    return float(number_of(a))


@graph_op("aten::Bool.Tensor(Tensor a) -> bool")
def bool_of_tensor(a: Tensor) -> bool:
    return bool(a)


@graph_op(
    "aten::Complex.Tensor_Tensor(Tensor a, Tensor b) -> complex",
    *[f"aten::Complex.Tensor_{x}(Tensor x, {x} y) -> complex" for x in NUMBERS],
    *[f"aten::Complex.{x}_Tensor({x} x, Tensor y) -> complex" for x in NUMBERS],
)
def complex_of_tensors(x: Any, y: Any) -> complex:
    parts = [number_of(part) if isinstance(part, Tensor) else part for part in (x, y)]
    return complex(*parts)


@graph_op("aten::Int.str(str a) -> int")
def int_of_text(a: str) -> int:
    if a != a.rstrip() or "_" in a:
        raise RuntimeError(f"invalid literal for int() with base 10: '{a}'")
    return int(a)


@graph_op("aten::Float.str(str a) -> float")
def float_of_text(a: str) -> float:
    return float(a)


# What stands where a number is wanted and a tensor was given.


def implicit_number(a: Tensor) -> Any:
    if a.requires_grad:
        raise RuntimeError("Cannot input a tensor that requires grad as a scalar argument")
    if a.dim() != 0:
        raise RuntimeError("Cannot input a tensor of dimension other than 0 as a scalar argument")
    return a.item()


@graph_op("aten::IntImplicit(Tensor a) -> int")
def implicit_int(a: Tensor) -> Any:
    number = implicit_number(a)
    if type(number) is not int:
        word = a.dtype.scalar_type_name
        raise RuntimeError(f"Cannot input a tensor of type {word} as an integral argument")
    return number


@graph_op("aten::FloatImplicit(Tensor a) -> float")
def implicit_float(a: Tensor) -> float:
    return float(implicit_number(a))


@graph_op("aten::ComplexImplicit(Tensor a) -> complex")
def implicit_complex(a: Tensor) -> complex:
    return complex(implicit_number(a))


graph_op("aten::ScalarImplicit(Tensor a) -> Scalar")(implicit_number)


@graph_op(
    "prim::NumToTensor.Scalar(Scalar a) -> Tensor", "prim::NumToTensor.bool(bool a) -> Tensor"
)
def tensor_of_number(a: Any) -> Any:
    # A tensor of its own: only constants are numbers in disguise.
    return wrap_number(a).clone()
