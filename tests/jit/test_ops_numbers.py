"""Operators on numbers: values that PyTorch 2.13 gives, and Python's own over random numbers."""

import cmath
import math
import random

import pytest

import rushlight as torch
from rushlight.jit.ir.operators import find_operator, overloads
from rushlight.jit.ir.parsing import parse_ir
from rushlight.jit.runtime.program import compile_graph

INF, NAN = math.inf, math.nan


def call(name, *args):
    return find_operator(name).call(*args)


def same(a, b):
    if isinstance(a, tuple):
        return type(b) is tuple and all([same(x, y) for x, y in zip(a, b, strict=True)])
    if isinstance(a, complex):
        return isinstance(b, complex) and same(a.real, b.real) and same(a.imag, b.imag)
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        is_nan = math.isnan(a) and math.isnan(b)
        return is_nan or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b


RECORDED = [
    # Division follows the hardware, not Python.
    ("aten::div.int", (1, 0), INF),
    ("aten::div.int", (7, 2), 3.5),
    ("aten::div.float", (0.0, 0.0), NAN),
    ("aten::div.float", (-1.0, 0.0), -INF),
    ("aten::div", (1, 0), INF),
    ("aten::floordiv.int", (7, -2), -4),
    ("aten::floordiv.float", (1.0, 0.0), INF),
    ("aten::floordiv.float", (-7.5, 2.0), -4.0),
    ("aten::floordiv.float", (INF, -0.001), -INF),
    ("aten::floordiv.float", (1.0, 0.1), 10.0),
    ("aten::remainder.int", (-7, 3), 2),
    ("aten::remainder.int", (7, -3), -2),
    ("aten::remainder.float", (-7.5, 2.0), 0.5),
    ("aten::remainder.float", (7.0, 0.0), NAN),
    ("aten::remainder.float", (0.5, INF), NAN),
    ("aten::fmod.int", (-7, 3), -1.0),
    ("aten::fmod.int", (7, 0), NAN),
    ("aten::mathremainder.float", (7.5, 2.0), -0.5),
    ("aten::divmod.int", (-7, 2), (-4, 1)),
    ("aten::divmod.float", (-7.5, 2.0), (-4.0, 0.5)),
    ("aten::divmod.float", (-1.0, INF), (NAN, INF)),
    ("aten::__round_to_zero_floordiv.int", (-7, 2), -3),
    # A power of ints is a float.
    ("aten::pow.int", (2, 3), 8.0),
    ("aten::pow.int", (2, -1), 0.5),
    ("aten::pow.float", (-2.0, 0.5), NAN),
    ("aten::pow.int_float", (-8, 1 / 3), NAN),
    ("aten::pow.complex", (0j, -1 + 0j), complex(INF, NAN)),
    ("aten::pow.complex", (0j, 3 - 4j), 0j),
    ("aten::round.float", (2.5,), 2.0),
    ("aten::round.float", (-0.5,), -0.0),
    ("aten::round.int", (3,), 3.0),
    ("aten::floor.float", (2.7,), 2),
    ("aten::ceil.float", (2.1,), 3),
    ("aten::ceil.Scalar", (2.1,), 3),
    # Functions of math: no domain errors.
    ("aten::sqrt.float", (-1.0,), NAN),
    ("aten::log.float", (0.0,), -INF),
    ("aten::log.float", (-1.0,), NAN),
    ("aten::log.int", (0,), -INF),
    ("aten::log1p.float", (-1.0,), -INF),
    ("aten::exp.float", (1000.0,), INF),
    ("aten::sinh.float", (-1000.0,), -INF),
    ("aten::lgamma.float", (0.0,), INF),
    ("aten::gamma.float", (-1.0,), NAN),
    ("aten::gamma.float", (-0.0,), -INF),
    ("aten::gamma.float", (171.7,), INF),
    ("aten::acos.float", (2.0,), NAN),
    ("aten::atanh.float", (-1.0,), -INF),
    ("aten::sin.float", (INF,), NAN),
    ("aten::log.int_int", (8, 2), 3.0),
    ("aten::log.float_float", (8.0, 0.0), -0.0),
    ("aten::log.float_float", (8.0, 1.0), INF),
    ("aten::radians.int", (180,), math.pi),
    ("aten::copysign.float", (3.0, -0.0), -3.0),
    ("aten::gcd.int", (-12, 18), 6),
    ("aten::frexp", (8.0,), (0.5, 4)),
    ("aten::modf", (-2.5,), (-0.5, -2.0)),
    ("aten::ldexp", (1.0, 5000), INF),
    ("aten::factorial.int", (5,), 120),
    ("aten::angle.int", (-1,), math.pi),
    ("aten::angle.float", (NAN,), 0.0),
    ("aten::fabs.int", (-3,), 3.0),
    ("aten::atan.complex", (1j,), complex(0, INF)),
    ("aten::isnan.complex", (complex(NAN),), True),
    # Conversions.
    ("aten::Int.float", (2.7,), 2),
    ("aten::Int.bool", (True,), 1),
    ("aten::Int.str", ("12",), 12),
    ("aten::Float.str", ("inf",), INF),
    ("aten::Float.int", (2,), 2.0),
    ("aten::Bool.float", (NAN,), True),
    ("aten::Complex.int_float", (1, 2.0), 1 + 2j),
    ("aten::Complex.bool_bool", (True, False), 1 + 0j),
    # The smaller and the larger: the second where a nan decides.
    ("prim::min.float", (NAN, 1.0), 1.0),
    ("prim::min.float", (1.0, NAN), NAN),
    ("prim::max.int_float", (3, 2.5), 3.0),
    ("prim::max", (3, 2.5), 3.0),
    ("prim::abs.complex", (3 + 4j,), 5.0),
    ("aten::__range_length", (10, 0, -3), 4),
    ("aten::__range_length", (0, 10, 3), 4),
    ("aten::__derive_index", (2, 5, 3), 11),
    ("prim::rangelist", (3,), [0, 1, 2]),
    ("aten::__rshift__.int", (-5, 1), -3),
    ("aten::__xor__.bool", (True, True), False),
    ("aten::eq.float_int", (1.0, 1), True),
    ("aten::ne.complex_float", (1 + 0j, 1.0), False),
]


@pytest.mark.parametrize(("name", "args", "expected"), RECORDED)
def test_values(name, args, expected):
    assert same(call(name, *args), expected)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("aten::floordiv.int", (1, 0), "division by 0"),
        ("aten::pow.float", (0.0, -1.0), "0.0 cannot be raised to a negative power"),
        ("aten::floor.float", (INF,), "Cannot convert float inf to integer"),
        ("aten::factorial.int", (-1,), "factorial() not defined for negative values"),
        ("aten::divmod.float", (7.5, 0.0), "ZeroDivisionError: float divmod()"),
        ("aten::Int.str", ("12ab",), "invalid literal for int() with base 10: '12ab'"),
        ("aten::Int.str", (" 12 ",), "invalid literal for int() with base 10: ' 12 '"),
        ("aten::__range_length", (0, 3, 0), "range() arg 3 must not be zero"),
    ],
)
def test_refusals(name, args, message):
    with pytest.raises((RuntimeError, ValueError)) as caught:
        call(name, *args)
    assert str(caught.value) == message


PYTHON = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "atan2": math.atan2,
    "copysign": math.copysign,
}
MAKE = {
    "int": lambda r: r.randint(-50, 50),
    "float": lambda r: r.choice([r.uniform(-9, 9), 0.0, -0.0, float(r.randint(-3, 3))]),
    "complex": lambda r: complex(r.uniform(-3, 3), r.randint(-3, 3)),
    "bool": lambda r: r.random() < 0.5,
    "Scalar": lambda r: r.choice([r.randint(-9, 9), r.uniform(-9, 9)]),
}


def numeric(kind):
    """The overloads of a kind that take two numbers."""
    for operator in overloads(kind):
        types = [argument.type.str() for argument in operator.schema.arguments]
        if len(types) == 2 and set(types) <= set(MAKE):
            yield operator, types


@pytest.mark.parametrize("name", PYTHON)
def test_arithmetic_is_pythons(name):
    draw = random.Random(name)
    found = list(numeric(f"aten::{name}"))
    assert len(found) >= 5
    for operator, types in found:
        for _ in range(60):
            args = [MAKE[text](draw) for text in types]
            result = operator.call(*args)
            assert same(result, PYTHON[name](*args)), (operator, args)


@pytest.mark.parametrize("name", ["floordiv", "remainder"])
def test_division_of_ints_is_pythons(name):
    draw = random.Random(name)
    own = {"floordiv": lambda a, b: a // b, "remainder": lambda a, b: a % b}[name]
    for _ in range(300):
        a, b = draw.randint(-99, 99), draw.choice([-7, -3, -1, 1, 2, 10])
        assert call(f"aten::{name}.int", a, b) == own(a, b)


FUNCTIONS = ["acos", "asin", "atan", "cos", "cosh", "exp", "sin", "sinh", "sqrt", "tan", "tanh"]


@pytest.mark.parametrize("name", [*FUNCTIONS, "log", "log10", "erf", "expm1", "degrees"])
def test_functions_are_those_of_math(name):
    draw = random.Random(name)
    for _ in range(100):
        x = draw.uniform(0.01, 0.99)
        assert call(f"aten::{name}.float", x) == getattr(math, name)(x)
        assert call(f"aten::{name}.Scalar", x) == getattr(math, name)(x)
    assert call(f"aten::{name}.int", 1) == getattr(math, name)(1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_complex_numbers_are_those_of_cmath(name):
    draw = random.Random(name)
    for _ in range(50):
        z = complex(draw.uniform(-2, 2), draw.uniform(-2, 2))
        assert call(f"aten::{name}.complex", z) == getattr(cmath, name)(z)


def test_negative_literals_bind_tighter_than_operators():
    run = compile_graph(
        parse_ir(
            """graph(%x : int):
              %m : int = prim::Constant[value=-2]()
              %a : int = aten::sub(%x, %m)
              %b : int = aten::neg(%m)
              %c : int = aten::__and__(%m, %x)
              return (%a, %b, %c)"""
        ),
        "f",
    )
    assert run(7) == (9, 2, -2 & 7)


# -- numbers of tensors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("aten::Int.Tensor", torch.tensor(2.7), 2),
        ("aten::Float.Tensor", torch.tensor([1.5]), 1.5),
        ("aten::Bool.Tensor", torch.tensor(0), False),
        ("aten::IntImplicit", torch.tensor(2, dtype=torch.int32), 2),
        ("aten::FloatImplicit", torch.tensor(2), 2.0),
        ("aten::ScalarImplicit", torch.tensor(2.5), 2.5),
        ("aten::ComplexImplicit", torch.tensor(2.0), 2 + 0j),
    ],
)
def test_numbers_of_tensors(name, tensor, expected):
    assert same(call(name, tensor), expected)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        (
            "aten::Int.Tensor",
            torch.tensor([1, 2]),
            "a Tensor with 2 elements cannot be converted to Scalar",
        ),
        (
            "aten::IntImplicit",
            torch.tensor(2.7),
            "Cannot input a tensor of type Float as an integral argument",
        ),
        (
            "aten::IntImplicit",
            torch.tensor(True),
            "Cannot input a tensor of type Bool as an integral argument",
        ),
        (
            "aten::FloatImplicit",
            torch.tensor([2.5]),
            "Cannot input a tensor of dimension other than 0 as a scalar argument",
        ),
        (
            "aten::ScalarImplicit",
            torch.tensor(2.0, requires_grad=True),
            "Cannot input a tensor that requires grad as a scalar argument",
        ),
    ],
)
def test_tensors_that_are_no_numbers(name, tensor, message):
    with pytest.raises(RuntimeError) as caught:
        call(name, tensor)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("number", "dtype"), [(3, torch.int64), (3.5, torch.float64), (True, torch.bool)]
)
def test_tensors_of_numbers(number, dtype):
    overload = "bool" if number is True else "Scalar"
    made = call(f"prim::NumToTensor.{overload}", number)
    assert made.dtype is dtype and made.item() == number
    # It is a tensor like others: its dtype counts.
    if dtype is torch.float64:
        assert (torch.ones(1) + made.expand(1)).dtype is torch.float64


def test_ints_wrap_at_64_bits():
    @torch.jit.script
    def generator(count: int) -> tuple[int, int, int]:
        state = 12345
        for _ in range(count):
            state = state * 6364136223846793005 + 1442695040888963407
        return state, state >> 33, 9223372036854775807 << 1

    assert generator(100) == (-4357992113013820195, -507337055, -2)
    assert call("aten::add.int", 2**63 - 1, 5) == -(2**63) + 4
    assert call("aten::sub.int", -(2**63), 5) == 2**63 - 5
    assert call("aten::pow.int_to_int", 7, 100) == (7**100 + 2**63) % 2**64 - 2**63
