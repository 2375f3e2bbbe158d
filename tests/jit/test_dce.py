"""`dce`: what nobody uses goes, at every depth; what somebody can see stays."""

from rushlight.jit.ir.parsing import parse_ir
from rushlight.jit.passes.dce import eliminate_dead_code
from rushlight.jit.runtime.program import compile_graph


def test_loops_inside_one_another_carry_only_what_is_used():
    graph = parse_ir(
        """graph(%n : int, %x : int):
          %true : bool = prim::Constant[value=1]()
          %a : int, %b : int = prim::Loop(%n, %true, %x, %x)
            block0(%i : int, %p : int, %q : int):
              %r : int, %s : int = prim::Loop(%n, %true, %p, %q)
                block0(%j : int, %t : int, %u : int):
                  %v : int = aten::add(%t, %j)
                  %w : int = aten::mul(%u, %j)
                  -> (%true, %v, %w)
              -> (%true, %r, %s)
          return (%a)"""
    )
    before = compile_graph(graph.copy(), "f")(3, 2)
    eliminate_dead_code(graph)
    graph.lint()
    assert [loop.outputsSize() for loop in graph.findAllNodes("prim::Loop")] == [1, 1]
    assert graph.findNode("aten::mul") is None
    assert compile_graph(graph, "f")(3, 2) == before == 11


def test_writes_that_somebody_sees_stay():
    graph = parse_ir(
        """graph(%l : int[], %n : int):
          %m : int[] = prim::ListConstruct(%n)
          %a : int[] = aten::append(%l, %n)
          %b : int[] = aten::append(%m, %n)
          %c : int = aten::add(%n, %n)
          return (%n)"""
    )
    eliminate_dead_code(graph)
    assert [node.kind() for node in graph.nodes()] == ["aten::append"]
    given = [1]
    compile_graph(graph, "f")(given, 5)
    assert given == [1, 5]


def test_what_a_loop_only_hands_on_is_not_carried():
    from rushlight.jit.passes.folding import propagate_constants

    graph = parse_ir(
        """graph(%n : int, %c : bool, %d : int, %x : int):
          %true : bool = prim::Constant[value=1]()
          %a : int, %b : int = prim::Loop(%n, %true, %x, %d)
            block0(%i : int, %p : int, %q : int):
              %r : int, %s : int = prim::If(%c)
                block0():
                  %t : int = aten::add(%p, %q)
                  -> (%t, %q)
                block1():
                  -> (%p, %q)
              -> (%true, %r, %s)
          %e : int = aten::add(%a, %b)
          return (%e)"""
    )
    before = compile_graph(graph.copy(), "f")(3, True, 2, 1)
    propagate_constants(graph)
    graph.lint()
    assert graph.findNode("prim::Loop").outputsSize() == 1
    assert compile_graph(graph, "f")(3, True, 2, 1) == before == 9
