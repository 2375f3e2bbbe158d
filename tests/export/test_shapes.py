"""Specifications against arguments: which sizes get symbols, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.base.pytree import tree_leaves
from rushlight.capture.exc import UserError
from rushlight.core.fake import FakeTensorMode
from rushlight.export import AdditionalInputs, Dim, ShapesCollection
from rushlight.export.shapes import process
from rushlight.symbolic import ConstraintViolationError, ShapeEnv

Pair = namedtuple("Pair", "left right")


@dataclass
class Batch:
    x: Any
    rest: Any


torch.export.register_dataclass(Batch, serialized_type_name="tests.export.test_shapes.Batch")


def fakes(function: Any, args: Any, kwargs: Any = None, spec: Any = None) -> Any:
    plan = process(function, args, kwargs, spec)
    env = ShapeEnv(duck_shape=False, assume_static_by_default=True)
    return plan.fakify(FakeTensorMode(shape_env=env), args, kwargs)


def shapes(function: Any, args: Any, kwargs: Any = None, spec: Any = None) -> str:
    """The sizes of all fake tensors, by leaf."""
    found, named = fakes(function, args, kwargs, spec)
    leaves = tree_leaves((found, named))
    return " ".join(str(tuple(x.shape)) for x in leaves if isinstance(x, torch.Tensor))


def ones(*sizes: int) -> torch.Tensor:
    return torch.ones(*sizes)


N, M = Dim("n"), Dim("m", min=2, max=9)


def test_nothing_varies_by_default() -> None:
    assert shapes(lambda x, y: x, (ones(3, 4), ones(5))) == "(3, 4) (5,)"
    assert shapes(lambda x: x, (ones(3),), spec={"x": None}) == "(3,)"
    assert shapes(lambda x: x, (ones(3),), spec=({0: Dim.STATIC},)) == "(3,)"


@pytest.mark.parametrize(
    "spec",
    [
        {"x": {0: N}, "y": {0: M}},
        ({0: N}, (M,)),
        [(N, None), [M]],
        ((N, 4), {0: M}),
        ({-2: N}, {0: M}),
    ],
)
def test_forms_of_one_specification(spec: Any) -> None:
    assert shapes(lambda x, y: x, (ones(3, 4), ones(5)), spec=spec) == "(s0, 4) (s1,)"


def test_one_name_is_one_symbol() -> None:
    spec = ({0: N, 1: M}, {0: N}, {0: Dim("n")})
    assert shapes(lambda x, y, z: x, (ones(3, 4), ones(3), ones(3)), spec=spec) == (
        "(s0, s1) (s0,) (s0,)"
    )


def test_derived_sizes_are_expressions_of_their_root() -> None:
    # The root comes later in the signature, or not at all.
    assert (
        shapes(lambda x, y: x, (ones(4), ones(5)), spec=({0: M - 1}, {0: M})) == "(s1 - 1,) (s1,)"
    )
    assert shapes(lambda x: x, (ones(6),), spec=({0: 2 * N},)) == "(2*s1,)"
    both = ({0: 2 * N + 1}, {0: N + 1})
    assert shapes(lambda x, y: x, (ones(7), ones(4)), spec=both) == "(2*s2 + 1,) (s2 + 1,)"


def test_a_root_of_one_is_no_constant() -> None:
    assert shapes(lambda x: x, (ones(2),), spec=({0: 2 * N},)) == "(2*s1,)"


def test_one_tensor_in_two_places_is_two_inputs() -> None:
    x = ones(5)
    found, _ = fakes(lambda a, b: a, (x, x), spec=({0: N}, {0: M}))
    assert found[0] is not found[1] and str(found[0].shape[0]) != str(found[1].shape[0])


def test_nested_arguments() -> None:
    args = (ones(3), [ones(3), (ones(4), 7)], {"k": ones(3), "l": None})
    spec = ({0: N}, [{0: N}, ({0: M}, None)], {"l": None, "k": {0: N}})
    assert shapes(lambda x, y, z: x, args, spec=spec) == "(s0,) (s0,) (s2,) (s0,)"
    assert (
        shapes(lambda p: p, (Pair(ones(3), ones(4)),), spec=(Pair({0: N}, None),)) == "(s0,) (4,)"
    )


def test_registered_classes_are_described_by_their_parts() -> None:
    args = (Batch(ones(3), [ones(4)]),)
    for spec in ([{0: N}, [{0: M}]], ({0: N}, [{0: M}]), Batch({0: N}, [{0: M}])):
        assert shapes(lambda b: b, args, spec={"b": spec}) == "(s0,) (s1,)"


def test_variable_arguments_are_one_entry() -> None:
    def function(x: Any, *rest: Any, y: Any, **more: Any) -> Any:
        return x

    args, kwargs = (ones(3), ones(4), ones(5)), {"z": ones(6), "y": ones(7)}
    spec = {"x": None, "rest": ({0: N}, None), "y": {0: M}, "more": {"z": {0: Dim("k")}}}
    # Symbols are made in the order of the call.
    assert shapes(function, args, kwargs, spec) == "(3,) (s0,) (5,) (s1,) (s2,)"


def test_integers_may_be_dynamic() -> None:
    plan = process(lambda x, n: x, (ones(3), 5), None, (None, Dim.DYNAMIC))
    env = ShapeEnv(duck_shape=False, assume_static_by_default=True)
    (_, number), _ = plan.fakify(FakeTensorMode(shape_env=env), (ones(3), 5))
    assert isinstance(number, torch.SymInt) and number.node.hint == 5
    with pytest.raises(ValueError, match="input integers as dynamic through named"):
        process(lambda x, n: x, (ones(3), 5), None, (None, N))


@pytest.mark.parametrize(
    ("args", "spec", "text"),
    [
        (
            (ones(3), 1),
            {"x": None},
            r"must be the arg names \['x', 'y'\] of `inputs`, but .* \['x'\]",
        ),
        ((ones(3), 1), (None,), "`inputs` has 2 elements, but `dynamic_shapes` has 1 elements"),
        (([ones(3)], 1), (None, None), r"`inputs\[0\]` is a <class 'list'>, .* is not"),
        (([ones(3)], 1), ((None,), None), r"\[0\]` is a <class 'list'>, .* is a <class 'tuple'>"),
        (
            ([ones(3)], 1),
            ([None, None], None),
            r"`inputs\[0\]` has 1 elements, .* has 2 elements",
        ),
        (({"a": 1}, 1), ({"b": None}, None), r"has keys \['a'\], but .* has keys \['b'\]"),
        ((ones(3), 1), ((N, N), None), r"same length as the actual tensor .*expected 1, but got 2"),
        ((ones(3), 1), ({0: "n"}, None), r"mapped to index 0 .* at `dynamic_shapes\[0\]` .*'n'"),
        ((ones(3), 1), ({1: N}, None), r"mapped to index 1 in input tensor shape"),
        ((ones(3), 1), (4, None), r"Unexpected input tensor shape 4 specified at"),
        (
            (ones(3), "s"),
            (None, {0: N}),
            "Cannot associate shape .* to non-tensor type <class 'str'>",
        ),
        (
            (ones(3, 3), 1),
            ((Dim("C", min=3), Dim("C", max=12)), None),
            r"different definitions Dim\('C', min=3\) and Dim\('C', min=0, max=12\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(args: Any, spec: Any, text: str) -> None:
    with pytest.raises(UserError, match=text):
        process(lambda x, y: x, args, None, spec)


@pytest.mark.parametrize(
    ("spec", "cls", "text"),
    [
        (({0: N}, {0: N}), UserError, r"L\['y'\].size\(\)\[0\] = 6 is not equal to L\['x'\].* = 5"),
        (
            ({0: N}, {0: 2 * N}),
            UserError,
            r"Expected input L\['y'\].size\(\)\[0\] to be equal to 2\*n, where n = 5, but got 6",
        ),
        (
            ({0: 2 * N}, None),
            UserError,
            r"Expected shape\[0\] = 5 of input Tensor to be of the form 2\*n, where n is an",
        ),
        (({0: Dim("k", min=6)}, None), ConstraintViolationError, r"5 not in range \[6, "),
        (
            ({0: 4}, None),
            ConstraintViolationError,
            r"Static shape constraint of 4 does not match input size of 5, for L\['x'\]",
        ),
    ],
)
def test_examples_must_fit(spec: Any, cls: type[Exception], text: str) -> None:
    with pytest.raises(cls, match=text):
        fakes(lambda x, y: x, (ones(5), ones(6)), spec=spec)


def test_collections_say_which_tensor_varies() -> None:
    x, y, z = ones(3), [ones(3)], {"k": ones(4)}
    found = ShapesCollection()
    found[x] = (N,)
    found[y[0]] = {0: N}
    found[z["k"]][0] = M
    assert len(found) == 3
    assert shapes(lambda x, y, z: x, (x,), {"z": z, "y": y}, found) == "(s0,) (s1,) (s0,)"
    with pytest.raises(AssertionError, match="do not match: expected"):
        found[x] = (M,)
    with pytest.raises(AssertionError, match="Cannot assign shape to non-tensor"):
        found[3] = (M,)
    with pytest.raises(ValueError, match="were not found in args"):
        found.dynamic_shapes(lambda x: x, (x,))


def test_further_inputs_say_what_varies() -> None:
    found = AdditionalInputs()
    found.add((ones(3, 6), 2))
    found.add((ones(3, 7), 2))
    spec = found.dynamic_shapes(lambda x, n: x, (ones(3, 5), 2))
    assert spec == {"x": (None, Dim.DYNAMIC), "n": None}
    found.add((ones(3, 5), 4))
    assert found.dynamic_shapes(lambda x, n: x, (ones(3, 5), 2))["n"] == Dim.DYNAMIC
    found.add((ones(3, 5), "4"))
    with pytest.raises(ValueError, match="differing types"):
        found.dynamic_shapes(lambda x, n: x, (ones(3, 5), 2))
    with pytest.raises(AssertionError, match="must be a tuple"):
        found.add([ones(3)])  # type: ignore[arg-type]


def test_further_inputs_are_tried() -> None:
    class Double(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.shape[0] < 8 else x

    found = AdditionalInputs()
    found.add((ones(6),))
    program = torch.export.export(Double(), (ones(4),), dynamic_shapes=found)
    found.verify(program)
    found.add((ones(9),))
    with pytest.raises(RuntimeError, match="to be <= 7, but got 9"):
        found.verify(program)
