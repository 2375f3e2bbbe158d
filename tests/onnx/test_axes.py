"""Sizes that may differ, by names: what callers of older exporters pass."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.export import Dim


class Both(torch.nn.Module):
    def forward(self, x, b):
        return x.relu(), b.sigmoid()


class Nested(torch.nn.Module):
    def forward(self, x, ys, zs, c):
        y = ys[0] + ys[1] + zs["a"] + zs["b"]
        return x - 5, x - y, c


def sizes(infos):
    return [tuple(info.dims) for info in infos]


def shapes_of(program):
    graph = program.model.graph
    return sizes(graph.inputs), sizes(graph.outputs)


A, B = torch.randn(2, 3), torch.randn(4, 5)


@pytest.mark.parametrize(
    ("args", "options", "expected"),
    [
        ((A, {"b": B}), {"dynamic_axes": {"x": {0: "rows"}, "b": {1: "width"}}},
         [("rows", 3), (4, "width")]),
        ((A, B), {"dynamic_axes": {"b": [0, 1]}}, [(2, 3), ("s0", "s1")]),
        ((A, B), {"dynamic_axes": {"in2": {0: "n"}, "out": [0]}, "input_names": ["in1", "in2"]},
         [(2, 3), ("n", 5)]),
        ((A, B), {"dynamic_shapes": {"x": {0: "rows"}, "b": None}}, [("rows", 3), (4, 5)]),
        ((A, B), {"dynamic_shapes": ({0: "rows"}, {0: Dim("n")})}, [("rows", 3), ("n", 5)]),
        ((A, B), {"dynamic_shapes": {"p": {0: Dim("n")}, "q": None}, "input_names": ["p", "q"]},
         [("n", 3), (4, 5)]),
    ],
)  # fmt: skip
def test_names_of_sizes(args, options, expected):
    program = torch.onnx.export(Both(), args, dynamo=True, **options)
    assert shapes_of(program) == (expected, expected)


def test_inputs_of_keywords_are_named_in_the_order_of_the_call():
    program = torch.onnx.export(
        Both(), (), kwargs={"b": B, "x": A}, dynamo=True, input_names=["one", "two"],
        dynamic_axes={"one": {0: "n"}},
    )  # fmt: skip
    assert [info.name for info in program.model.graph.inputs] == ["one", "two"]
    assert shapes_of(program)[0] == [("n", 5), (2, 3)]


def test_leaves_of_nested_arguments_have_names():
    names = ["first", "y0", "y1", "za", "zb", "last"]
    five = torch.ones(5)
    args = five, [five, five], {"a": five, "b": five}, torch.ones(4)
    axes = {name: {0: "n"} for name in names[:-1]}
    program = torch.onnx.export(
        Nested(), args, input_names=names, dynamic_axes=axes, dynamo=True
    )  # fmt: skip
    assert shapes_of(program) == ([("n",)] * 5 + [(4,)], [("n",), ("n",), (4,)])


def test_bounds_that_a_module_asks_for_are_taken():
    class Bounded(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] >= 6 else x

    program = torch.onnx.export(
        Bounded(), (torch.ones(16),), dynamic_shapes={"x": (Dim("n"),)}, dynamo=True
    )
    assert shapes_of(program) == ([("n",)], [("n",)])
    with pytest.raises(RuntimeError, match="to be >= 6"):
        program.exported_program.module()(torch.ones(3))


def test_a_size_that_cannot_vary_is_no_dynamic_axis():
    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x + torch.ones(4)

    with pytest.raises(Exception, match="specialized it to be a constant"):
        torch.onnx.export(Fixed(), (torch.ones(4),), dynamic_axes={"x": {0: "n"}}, dynamo=True)


@pytest.mark.parametrize(
    "options",
    [{"dynamic_axes": {"input": {0: "batch"}}}, {"dynamic_shapes": ({0: Dim("batch")},)}],
)
def test_an_example_of_size_one_stands_for_all_sizes(options):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
    x = torch.ones(1, 2, 3)
    program = torch.onnx.export(model, (x,), dynamo=True, **options)
    assert shapes_of(program) == ([("batch", 2, 3)], [("batch", 2)])
    assert program.exported_program.example_inputs[0][0] is x
    assert program.exported_program.module()(torch.ones(5, 2, 3)).shape == (5, 2)
