"""Types: their texts, which is part of which, and what two have in common."""

import pytest

from rushlight.jit.ir.parsing import parse_type
from rushlight.jit.ir.relations import is_subtype, optional, unify, union
from rushlight.jit.ir.types import (
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    ClassType,
    ListType,
    TensorType,
    TupleType,
)


@pytest.mark.parametrize(
    ("text", "annotation"),
    [
        ("Tensor", "Tensor"),
        ("Tensor?[]", "List[Optional[Tensor]]"),
        ("Dict(str, Tensor)[]", "List[Dict[str, Tensor]]"),
        ("(Tensor, int)", "Tuple[Tensor, int]"),
        ("()", "Tuple[()]"),
        ("Future[int]", "Future[int]"),
        ("Union(int, str)", "Union[int, str]"),
        ("Union(int, NoneType, str)", "Union[int, NoneType, str]"),
        ("Scalar", "number"),
        ("Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)", "Tensor"),
        ("Float(requires_grad=0, device=cpu)", "Tensor"),
        ("Long(device=cpu)", "Tensor"),
        ("FloatTensor(requires_grad=0, device=cpu)", "Tensor"),
        ("Float(*, 2)", "Tensor"),
    ],
)
def test_texts(text, annotation):
    type_ = parse_type(text)
    assert type_.str() == text and type_.annotation_str == annotation
    assert parse_type(type_.str()) == type_


def test_what_is_part_of_what():
    full = TensorType("float32", "cpu", [2], [1], False)
    assert is_subtype(full, TENSOR) and not is_subtype(TENSOR, full)
    assert is_subtype(INT, NUMBER) and is_subtype(NONE, optional(INT))
    assert is_subtype(optional(INT), union([INT, STR, NONE]))
    assert not is_subtype(ListType(INT), ListType(NUMBER))
    assert is_subtype(ListType(full), ListType(TENSOR))
    assert is_subtype(TupleType([INT, full]), TupleType([NUMBER, TENSOR]))
    assert is_subtype(TupleType([INT], "P", ["a"]), TupleType([INT]))
    assert not is_subtype(TupleType([INT]), TupleType([INT], "P", ["a"]))
    assert not is_subtype(ClassType("a.B"), ClassType("a.B"))


def test_unions_are_flat():
    assert union([INT, NONE]).str() == "int?"
    assert union([INT, FLOAT, COMPLEX]) is NUMBER
    assert union([INT, union([STR, INT])]).str() == "Union(int, str)"
    assert optional(optional(INT)).str() == "int?"


def test_what_two_have_in_common():
    a = TensorType("float32", "cpu", [2, 3], [3, 1], False)
    b = TensorType("float32", "cpu", [2, 4], [4, 1], False)
    assert unify(a, b).str() == "Float(2, *, strides=[*, 1], requires_grad=0, device=cpu)"
    assert unify(INT, NONE).str() == "int?"
    assert unify(INT, STR) is None
    assert unify(INT, STR, make_union=True).str() == "Union(int, str)"
    assert unify(TupleType([INT]), TupleType([NONE])).str() == "(int?)"
    assert unify(ListType(a), ListType(b)).str() == "Tensor[]"
