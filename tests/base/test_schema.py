"""Schemas: canonical printing, fields, types, alias marks, defaults, refusals."""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path

import pytest

from rushlight.base.schema import Schema, parse, parse_type

CANONICAL = Path(__file__).with_name("canonical_schemas.txt").read_text().splitlines()


@pytest.mark.parametrize("text", CANONICAL, ids=lambda text: text.partition("(")[0])
def test_canonical_text_prints_as_itself(text: str) -> None:
    schema = parse(text)
    assert str(schema) == text
    assert parse(str(schema)) == schema


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("f(int[2] stride=1) -> ()", "int[2] stride=1"),
        ("f(int[2] stride=[1,1]) -> ()", "int[2] stride=1"),
        ("f(int[2] p=[0,1]) -> ()", "int[2] p=[0, 1]"),
        ("f(int[3] p=[1]) -> ()", "int[3] p=[1]"),
        ("f(int[1] p=0) -> ()", "int[1] p=[0]"),
        ("f(SymInt[2] p=1) -> ()", "SymInt[2] p=[1, 1]"),
        ("f(SymInt[2]? p=1) -> ()", "SymInt[2]? p=1"),
        ("f(bool[2] m=True) -> ()", "bool[2] m=[True, True]"),
        ("f(float[] q=[1, 2.5]) -> ()", "float[] q=[1., 2.5]"),
        ("f(ScalarType dtype=long) -> ()", "ScalarType dtype=4"),
        ("f(MemoryFormat m=contiguous_format) -> ()", "MemoryFormat m=0"),
        ("f(int reduction=Mean) -> ()", "int reduction=1"),
        ("f(float eps=1e-05) -> ()", "float eps=1.0000000000000001e-05"),
        ("f(float b=1) -> ()", "float b=1."),
        ("f(float? b=1) -> ()", "float? b=1"),
        ("f(float w=3.4028234e38) -> ()", "float w=3.4028233999999999e+38"),
        ("f(float w=1e17) -> ()", "float w=100000000000000000."),
        ("f(Scalar s=-1e-3) -> ()", "Scalar s=-0.001"),
        ("f(complex j=1j) -> ()", "complex j=0.+1.j"),
        ("f(str q='a\"b') -> ()", 'str q="a\\"b"'),
        ('f(str q="a,b) -> (c") -> ()', 'str q="a,b) -> (c"'),
        ("f(str q='') -> ()", 'str q=""'),
        ("f(Tensor( a -> * ) x) -> ()", "Tensor(a -> *) x"),
        ("f(Tensor(a)?[] x) -> ()", "Tensor?(a)[] x"),
        ("f(Tensor(a!)[2] x) -> ()", "Tensor(a!)[2] x"),
        ("f(int??  x) -> ()", "int? x"),
        ("f(DeviceIndex i) -> ()", "int i"),
        ("f(Dimname[]? names=None) -> ()", "Dimname[]? names=None"),
    ],
)
def test_arguments_are_brought_into_canonical_form(text: str, canonical: str) -> None:
    assert str(parse(text)) == f"aten::f({canonical}) -> ()"


@pytest.mark.parametrize(
    ("returns", "canonical"),
    [
        ("(Tensor x)", "Tensor x"),
        ("(int[])", "int[]"),
        ("((int, int))", "((int, int))"),
        ("(Tensor, ...)", "(Tensor, ...)"),
        ("...", "..."),
        ("Tensor(a!)[] x", "Tensor(a!)[] x"),
        ("()", "()"),
    ],
)
def test_returns_are_brought_into_canonical_form(returns: str, canonical: str) -> None:
    assert str(parse(f"f()->{returns}")) == f"aten::f() -> {canonical}"


def test_names() -> None:
    schema = Schema("add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")
    assert (schema.namespace, schema.base_name, schema.name) == ("aten", "add_", "aten::add_")
    assert schema.overload_name == "Tensor"
    mine = Schema("f(int x) -> int", namespace="mine")
    assert (mine.name, mine.overload_name) == ("mine::f", "")
    other = Schema("other::f(int x) -> int", namespace="mine")
    assert other.namespace == "other"
    assert str(other).startswith("other::f(")


def test_parsing_waits_until_a_field_is_read() -> None:
    schema = Schema("f(Wrong x) -> Tensor")
    assert schema.name == "aten::f"
    with pytest.raises(RuntimeError, match="unknown type specifier 'Wrong'"):
        schema.arguments
    with pytest.raises(AttributeError, match="nonsense"):
        schema.nonsense


def test_argument_fields() -> None:
    schema = parse(
        "f(Tensor self, int[2] p=0, int[] q=[], *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
    )
    self, p, q, alpha, out = schema.arguments
    assert (self.name, self.has_default, self.kwarg_only, self.alias_info) == (
        "self",
        False,
        False,
        None,
    )
    assert (p.N, p.default, p.default_value) == (2, (0, 0), [0, 0])
    assert (q.N, q.has_default, q.default_value) == (None, True, [])
    assert alpha.kwarg_only and alpha.default == 1 and not alpha.is_out
    assert out.is_out and out.is_write and not out.has_default
    assert schema.is_mutable
    assert not parse("f(Tensor(a) self) -> Tensor(a)").is_mutable


def test_alias_marks() -> None:
    alias = parse("f(Tensor(a! -> b|c) x) -> ()").arguments[0].alias_info
    assert alias is not None
    assert (alias.before_set, alias.after_set, alias.is_write) == ({"a"}, {"b", "c"}, True)
    of_elements = parse("f(Tensor(a!)[] x) -> ()").arguments[0].alias_info
    assert of_elements is not None and of_elements.contained is not None
    assert (of_elements.before_set, of_elements.is_write) == (set(), True)
    assert of_elements.names == ("a",)
    result = parse("f(Tensor(a) x) -> Tensor(a)").returns[0].alias_info
    assert result is not None and result.names == ("a",)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Tensor?", "Optional[Tensor]"),
        ("Tensor?[]", "List[Optional[Tensor]]"),
        ("int[2]?", "Optional[List[int]]"),
        ("SymInt[]", "List[int]"),
        ("Scalar?", "Optional[number]"),
        ("ScalarType?", "Optional[int]"),
        ("Dict(str, Tensor)?", "Optional[Dict[str, Tensor]]"),
        ("(Tensor, int)[]", "List[Tuple[Tensor, int]]"),
        ("Future(t)", "Future[t]"),
        ("None", "NoneType"),
    ],
)
def test_types_print_as_python_names_them(text: str, printed: str) -> None:
    assert str(parse_type(text)[0]) == printed


def test_type_fields() -> None:
    type, _ = parse_type("Tensor?[3]?")
    assert (type.kind, type.optional, type.size) == ("List", True, 3)
    assert type.element is not None
    assert (type.element.kind, type.element.optional) == ("Tensor", True)
    assert type.is_tensor_like and not parse_type("int[]")[0].is_tensor_like
    assert type.as_required() == parse_type("Tensor?[3]")[0]
    assert parse_type("int")[0] is parse_type("int")[0]
    with pytest.raises(AttributeError, match="immutable"):
        type.kind = "int"


def test_schemas_and_types_survive_pickling() -> None:
    schema = parse("f(Tensor?[] x, *, Dict(str, int) y) -> (Tensor, t)", namespace="mine")
    assert pickle.loads(pickle.dumps(schema)) == schema
    type = schema.arguments[0].type
    assert pickle.loads(pickle.dumps(type)) == type


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("f.a", "only the operator name was given"),
        ("f(Tensor self)", "expected '->' after the arguments"),
        ("f(Tensor) -> Tensor", "expected a type and a name"),
        ("f.default(int x) -> int", "default is not a legal overload name"),
        ("a::b::f(int x) -> int", "expected an operator name"),
        ("f(int x=1, int y) -> int", "'y' has no default"),
        ("f(Tensor(a!|b!) x) -> ()", "expected alias sets"),
        ("f(int[-1] x) -> int", r"expected \[\] or \[N\]"),
        ("f(float f=inf) -> ()", "invalid default value 'inf'"),
        ("f(int[] x=3) -> ()", "invalid default value '3'"),
        ("f(long int x) -> ()", "expected a type but found 'int'"),
        ("f(Tensor(a x) -> ()", "expected"),
        ("f(..., int x) -> ()", "expected '\\)' after"),
    ],
)
def test_malformed_schemas_are_refused(text: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        parse(text)


def test_threads_that_read_a_schema_first_get_the_same_arguments():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            schema = Schema("f(Tensor a, Tensor b, *, int c=1) -> Tensor")
            found: list[tuple] = []
            start = threading.Barrier(4)

            def read(schema=schema, found=found, start=start):
                start.wait()
                found.append(schema.arguments)

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(entry is found[0] for entry in found)
    finally:
        sys.setswitchinterval(interval)
