"""Operators on strings, and values as text: what PyTorch 2.13 writes for the same values."""

import io
import random

import pytest

import rushlight as torch
from rushlight.jit.ir.operators import find_operator
from rushlight.jit.ir.parsing import parse_ir
from rushlight.jit.ops.texts import value_text
from rushlight.jit.runtime.program import compile_graph


def call(name, *args):
    return find_operator(name).call(*args)


TEXTS = ["a", "abc", "hello world", "  pad ", "a,b,,c", "Title Case", "123", "-5", "x\ty", "AbC"]
SIMPLE = [
    *("upper", "lower", "capitalize", "title", "swapcase", "isupper", "islower", "isalpha"),
    *("isdigit", "isspace", "isalnum", "istitle", "isdecimal", "isnumeric", "isprintable"),
    "isidentifier",
]


@pytest.mark.parametrize("name", SIMPLE)
def test_methods_are_pythons(name):
    for text in ["", *TEXTS]:
        assert call(f"aten::{name}", text) == getattr(text, name)()


@pytest.mark.parametrize("name", ["strip", "lstrip", "rstrip"])
def test_strips(name):
    for text in TEXTS:
        for letters in (" \n\t\f\v", "a", "-5"):
            assert call(f"aten::{name}", text, letters) == getattr(text, name)(letters)


def test_searches_count_an_end_of_minus_one_as_the_end():
    draw = random.Random(2)
    for _ in range(400):
        text, part = draw.choice(TEXTS), draw.choice(["l", "a", "o w", ",", "5", "zz"])
        start, end = draw.randint(0, 3), draw.choice([-1, 3, 100])
        until = len(text) if end == -1 else end
        assert call("aten::find", text, part, start, end) == text.find(part, start, until)
        assert call("aten::rfind", text, part, start, end) == text.rfind(part, start, until)
        assert call("aten::count", text, part, start, end) == text.count(part, start, until)
        starts, ends = (
            call("aten::startswith", text, part, start, end),
            call("aten::endswith", text, part, start, end),
        )
        assert starts == text.startswith(part, start, until)
        assert ends == text.endswith(part, start, until)
    assert call("aten::find", "hello", "o", 0, -2) == -1
    with pytest.raises(RuntimeError, match="ValueError: substring not found"):
        call("aten::index.str", "hello", "z", 0, -1)


RECORDED = [
    ("aten::split.str", ("a b  c", None, -1), ["a", "b", "c"]),
    ("aten::split.str", ("a b  c", " ", -1), ["a", "b", "", "c"]),
    ("aten::split.str", ("a,b,c", ",", 1), ["a", "b,c"]),
    ("aten::split.str", ("", None, -1), []),
    ("aten::split.str", ("", ",", -1), [""]),
    ("aten::rsplit", ("a,b,c", ",", 1), ["a,b", "c"]),
    ("aten::splitlines", ("a\n", False), ["a"]),
    ("aten::center", ("ab", 5, "*"), "**ab*"),
    ("aten::center", ("abc", 6, "*"), "*abc**"),
    ("aten::ljust", ("ab", 5, "*"), "ab***"),
    ("aten::rjust", ("ab", 5, "*"), "***ab"),
    ("aten::zfill", ("-5", 4), "00-5"),
    ("aten::expandtabs", ("a\tb", 8), "a       b"),
    ("aten::title", ("hello world's",), "Hello World'S"),
    ("aten::partition", ("a-b-c", "-"), ("a", "-", "b-c")),
    ("aten::rpartition", ("abc", "-"), ("", "", "abc")),
    ("aten::replace", ("aaa", "a", "b", 2), "bba"),
    ("aten::join", (",", ["a", "b"]), "a,b"),
    ("aten::__getitem__.str", ("hello", -1), "o"),
    ("aten::add.str", ("a", "b"), "ab"),
    ("aten::len.str", ("abc",), 3),
    ("aten::list", ("abc",), ["a", "b", "c"]),
    ("aten::hex", (-255,), "-0xff"),
    ("aten::oct", (8,), "0o10"),
    ("aten::bin", (5,), "0b101"),
    ("aten::chr", (97,), "a"),
    ("aten::ord", ("a",), 97),
    ("aten::lt.str", ("a", "b"), True),
]


@pytest.mark.parametrize(("name", "args", "expected"), RECORDED)
def test_values(name, args, expected):
    result = call(name, *args)
    assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("aten::split.str", ("a", "", -1), "ValueError: empty separator"),
        (
            "aten::center",
            ("ab", 5, "**"),
            "TypeError: The fill character must be exactly one character long",
        ),
        ("aten::ord", ("ab",), "String for ord() must be 1 character, found 2"),
        ("aten::chr", (-1,), "chr() arg not in range(0x110000), found -1"),
        ("aten::format", ("{} {}", 1), "Too few arguments for format string: {} {}"),
        ("aten::percentFormat", ("%d %d", 1), "Too few arguments for format string"),
        ("aten::percentFormat", ("%d", 1, 1), "Too many arguments for format string"),
        (
            "aten::percentFormat",
            ("%d", "x"),
            "%d requires a number for formatting, but got String",
        ),
        (
            "aten::percentFormat",
            ("%x", 9),
            "The specifier %x is not supported in TorchScript format strings",
        ),
    ],
)
def test_refusals(name, args, message):
    with pytest.raises(RuntimeError) as caught:
        call(name, *args)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1."),
        (0.1, "0.10000000000000001"),
        (1e20, "1e+20"),
        (1e-7, "9.9999999999999995e-08"),
        (2, "2"),
        (True, "True"),
        (None, "None"),
        ([1, 2], "[1, 2]"),
        ([1.5, 2.0], "[1.5, 2.]"),
        ((1, "x"), "(1, x)"),
        ({"a": 2.5}, "{a: 2.5}"),
        (["a"], "[a]"),
        (1 + 2j, "1.+2.j"),
        (torch.ones(2), " 1\n 1\n[ CPUFloatType{2} ]"),
        (torch.device("cpu"), "cpu"),
    ],
)
def test_values_as_text(value, text):
    assert value_text(value) == text
    assert call("aten::str", value) == text


def test_format_strings():
    assert call("aten::format", "{} and {}", 1.25, "q") == "1.25 and q"
    assert call("aten::format", "{0} {1}", 1, 1) == "{0} {1}"
    assert call("aten::format", "{}", 1, 2) == "1"
    assert call("aten::percentFormat", "%d %s %f", 3, "q", 1.25) == "3 q 1.250000"
    assert call("aten::percentFormat", "%d %s", (3, "q")) == "3 q"
    assert call("aten::percentFormat", "%i%%", 3) == "3%"
    assert call("aten::percentFormat", "%e", 1.25) == "1.250000e+00"
    assert call("aten::percentFormat", "%d", 1.5) == "1"


def test_prints(capsys):
    run = compile_graph(
        parse_ir(
            """graph(%l : int[], %f : float):
              %s : str = prim::Constant[value="x"]()
              %none : NoneType = prim::Constant()
               = prim::Print(%l, %s, %f, %none)
              return (%none)"""
        ),
        "f",
    )
    run([1], 1.0)
    assert capsys.readouterr().out == "[1] x 1. None\n"


def labelled(number: int, name: str) -> str:
    return "{}-{}".format(number, name) + "%d:%s" % (number, name)  # noqa: UP031, UP032


def test_formats_are_saved_with_all_they_are_filled_with():
    compiled = torch.jit.script(labelled)
    assert compiled(3, "q") == labelled(3, "q") == "3-q3:q"
    assert 'torch.format("{}-{}", number, name)' in compiled.code
    file = io.BytesIO()
    torch.jit.save(compiled, file)
    file.seek(0)
    assert torch.jit.load(file)(3, "q") == "3-q3:q"
