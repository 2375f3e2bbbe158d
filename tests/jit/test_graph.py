"""Graphs as data: uses, places, names, copies, and what `lint` finds."""

import pytest

from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.parsing import parse_ir

TWO = """graph(%x : Tensor, %n : int):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::mul(%a, %a)
  %c : Tensor = prim::If(%n)
    block0():
      %d : Tensor = aten::relu(%b)
      -> (%d)
    block1():
      %e : Tensor = aten::tanh(%b)
      -> (%e)
  return (%c)
"""


def nodes_of(text):
    graph = parse_ir(text)
    return graph, list(graph.all_nodes())


def test_uses_follow_every_change():
    graph, (neg, mul, *_) = nodes_of(TWO)
    x, a = graph.inputs()[0], neg.output()
    assert [(use.user, use.offset) for use in a.uses()] == [(mul, 0), (mul, 1)]
    mul.replaceInput(1, x)
    assert len(a.uses()) == 1 and len(x.uses()) == 2
    mul.removeInput(0)
    assert mul.inputs() == [x] and a.uses() == []
    mul.insertInput(0, a)
    assert mul.inputs() == [a, x]
    graph.lint()
    a.replaceAllUsesWith(x)
    neg.destroy()
    assert [node.kind() for node in graph.nodes()] == ["aten::mul", "prim::If"]
    graph.lint()


def test_order_of_nodes():
    _, (neg, mul, branch, relu, tanh) = nodes_of(TWO)
    assert neg.isBefore(mul) and mul.isAfter(neg) and not mul.isBefore(mul)
    assert relu.isAfter(mul) and relu.isBefore(tanh) and tanh.isAfter(branch)
    assert branch.isBefore(relu)
    mul.moveBefore(neg)
    assert mul.isBefore(neg)


def test_names_step_aside():
    graph = Graph()
    values = [graph.addInput("y") for _ in range(4)]
    assert [value.debugName() for value in values] == ["y.1", "y.3", "y.5", "y"]
    with pytest.raises(RuntimeError, match="cannot be called '12'"):
        values[0].setDebugName("12")
    values[0].setDebugName("")
    assert values[0].debugName() == "0"


def test_what_is_used_stays():
    _, (neg, *_) = nodes_of(TWO)
    with pytest.raises(RuntimeError, match="is still used"):
        neg.destroy()
    other = parse_ir(TWO)
    with pytest.raises(RuntimeError, match="another graph"):
        neg.addInput(other.inputs()[0])


def test_attributes_are_read_by_their_letter():
    graph = Graph()
    node = graph.create("my::op").i_("n", 3).ss_("names", ["a"])
    assert node.i("n") == 3 and node.attributeNames() == ["n", "names"]
    assert node.kindOf("names") == "ss"
    with pytest.raises(RuntimeError, match=r"read by i\(\), not f\(\)"):
        node.f("n")
    with pytest.raises(RuntimeError, match="no attribute 'm'"):
        node.i("m")


def test_graphs_inside_graphs():
    inner = parse_ir("graph(%p : Tensor):\n  %q : Tensor = aten::neg(%p)\n  return (%q)\n")
    graph = Graph()
    x = graph.addInput("x")
    for value in graph.insertGraph(inner, [x]):
        graph.registerOutput(value)
    graph.lint()
    assert str(graph) == "graph(%x : Tensor):\n  %1 : Tensor = aten::neg(%x)\n  return (%1)\n"


def test_several_outputs_as_a_tuple():
    graph = Graph()
    for name in "xy":
        graph.registerOutput(graph.addInput(name))
    graph.makeMultiOutputIntoTuple()
    assert [value.type().str() for value in graph.outputs()] == ["(Tensor, Tensor)"]


def test_lint_sees_a_value_used_before_it_is_made():
    graph, (neg, mul, *_) = nodes_of(TWO)
    neg.moveAfter(mul)
    with pytest.raises(RuntimeError, match="before it is made"):
        graph.lint()


def test_lint_sees_uses_that_are_not_listed():
    graph, (neg, *_) = nodes_of(TWO)
    neg.output()._uses.pop()
    with pytest.raises(RuntimeError, match="is listed 0"):
        graph.lint()


def test_inputs_and_outputs_are_lists_that_can_be_taken_from():
    graph = parse_ir(
        "graph(%x : Tensor, %y : Tensor):\n  %z : Tensor = aten::mul(%x, %y)\n  return (%z)"
    )
    inputs = graph.inputs()
    assert next(inputs).debugName() == "x" and next(inputs).debugName() == "y"
    with pytest.raises(StopIteration):
        next(inputs)
    assert len(graph.inputs()) == 2 and next(graph.outputs()).node().kind() == "aten::mul"
