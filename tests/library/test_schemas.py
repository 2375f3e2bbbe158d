"""`infer_schema`: the schemas and the messages are torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import List, Optional, Tuple, Union  # noqa: UP035

import pytest

import rushlight as torch
from rushlight import Tensor
from rushlight.library import infer_schema


def numbers(
    x: Tensor,
    v: int | float | bool,
    t: Union[int, float, bool] = 1,  # noqa: UP007
) -> Tensor: ...
def lists(
    x: Tensor,
    y: Optional[List[int]] = None,  # noqa: UP006, UP045
    k: bool = False,
    d: torch.dtype = torch.float32,
    e: torch.device = torch.device("cpu"),
) -> List[Tensor]: ...  # noqa: UP006
def keywords(
    x: Tensor,
    y: Tensor | None = None,
    *,
    z: int = 3,
    s: str = "a",
) -> Tuple[Tensor, int, float, bool]: ...  # noqa: UP006
def tensors(
    x: list[Tensor],
    y: Tensor | None,
    z: Sequence[Optional[Tensor]],  # noqa: UP045
) -> None: ...
def single(x: Tensor) -> Tuple[Tensor]: ...  # noqa: UP006


@pytest.mark.parametrize(
    ("function", "mutated", "schema"),
    [
        (numbers, (), "(Tensor x, Scalar v, Scalar t=1) -> Tensor"),
        (
            lists,
            (),
            '(Tensor x, SymInt[]? y=None, bool k=False, ScalarType d=float32, Device e="cpu")'
            " -> Tensor[]",
        ),
        (
            keywords,
            {"x"},
            '(Tensor(a0!) x, Tensor? y=None, *, SymInt z=3, str s="a")'
            " -> (Tensor, SymInt, float, bool)",
        ),
        (tensors, "unknown", "(Tensor(a0!)[] x, Tensor(a1!)? y, Tensor(a2!)?[] z) -> ()"),
        (single, (), "(Tensor x) -> ((Tensor))"),
    ],
)
def test_inferred(function, mutated, schema):
    assert infer_schema(function, mutates_args=mutated) == schema


def varargs(x: Tensor, *y: Tensor) -> Tensor: ...
def pair(x: Tensor, y: Tuple[int, int]) -> Tensor: ...  # noqa: UP006
def optional_list(x: Tensor, y: Optional[Sequence[Tensor]]) -> Tensor: ...  # noqa: UP045
def bare(x: Tensor, y) -> Tensor: ...
def unknown_name(x: Foo) -> Tensor: ...  # noqa: F821
def returns_dtype(x: Tensor) -> torch.dtype: ...
def default_tensor(x: Tensor, y: Tensor = torch.ones(1)) -> Tensor: ...
def whole(x: Tensor, y: int) -> Tensor: ...


@pytest.mark.parametrize(
    ("function", "mutated", "text"),
    [
        (varargs, (), "We do not support positional-only args, varargs, or varkwargs."),
        (pair, (), "please try to use List instead. For example, list\\[int\\]."),
        (optional_list, (), "Parameter y has unsupported type Optional"),
        (bare, (), "Parameter y must have a type annotation."),
        (unknown_name, (), "Unsupported type annotation Foo. It is not a type."),
        (returns_dtype, (), "Return has unsupported type .*dtype"),
        (default_tensor, (), "Parameter y has an unsupported default value type .*Tensor"),
        (whole, {"y"}, "Parameter y is in mutable_args but only Tensors or collections of"),
        (whole, {"zz"}, "{'zz'} in mutates_args were not found in the custom op's signature."),
        (whole, "x", "must either be a sequence of the names of the arguments that are mutated"),
    ],
)
def test_refused(function, mutated, text):
    with pytest.raises(ValueError, match=text):
        infer_schema(function, mutates_args=mutated)


def test_what_an_in_place_operator_returns_is_marked():
    def add_one(x: Tensor) -> Tensor: ...

    tagged = infer_schema(add_one, mutates_args={"x"}, tags=torch.Tag.inplace)
    assert tagged == "(Tensor(a0!) x) -> Tensor(a0!)"
