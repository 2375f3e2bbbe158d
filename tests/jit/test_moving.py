"""Blocks that become graphs: nothing is lost, and what came from outside is an input."""

from rushlight.jit.ir.moving import graph_of
from rushlight.jit.ir.parsing import parse_ir
from rushlight.jit.runtime.program import compile_graph

NESTED = """graph(%x : Tensor, %outer : Tensor, %go : bool):
  %one : int = prim::Constant[value=1]()
  %made : Tensor = prim::If(%go)
    block0():
      %a : Tensor = aten::add(%x, %outer, %one)
      %c : Tensor = prim::If(%go)
        block0():
          %b : Tensor = aten::mul(%a, %outer)
          -> (%b)
        block1():
          -> (%x)
      -> (%c)
    block1():
      -> (%x)
  return (%made)
"""
MOVED = """graph(%x : Tensor,
      %outer : Tensor,
      %2 : int,
      %go : bool):
  %y.1 : Tensor = aten::add(%x, %outer, %2)
  %5 : Tensor = prim::If(%go)
    block0():
      %y : Tensor = aten::mul(%y.1, %outer)
      -> (%y)
    block1():
      -> (%x)
  return (%5)
"""


def test_a_block_becomes_a_graph():
    graph = parse_ir(NESTED)
    for kind in ("aten::add", "aten::mul"):
        graph.findNode(kind).output().setDebugName("y")
    node = graph.findNode("prim::If")
    block = node.give_block(0)
    nodes = list(block.nodes())
    moved, outside = graph_of(block)
    assert str(moved) == MOVED
    assert [value.debugName() for value in outside] == ["x", "outer", "3", "go"]
    assert list(moved.nodes()) == nodes
    moved.lint()
    # Nothing of it is left in the old graph, whose names are free again.
    assert not {"y", "y.1"} & graph.names.keys()
    assert [len(value.uses()) for value in outside] == [1, 0, 0, 1]
    assert compile_graph(moved, "f")(3, 4, 1, True) == 28
    moved.addInput("outer")
    moved.insertConstant(1).setDebugName("y")
    moved.lint()
