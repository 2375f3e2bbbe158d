"""Operators of graphs: which one a node means, what it gives, what it does besides."""

import pytest

import rushlight as torch
from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.operators import (
    GRAPH_ONLY,
    find_operator,
    load_graph_only,
    match_node,
    overloads,
)
from rushlight.jit.ir.parsing import parse_ir, parse_type

load_graph_only()


def node_of(kind, *types):
    graph = Graph()
    inputs = [graph.addInput().setType(parse_type(text)) for text in types]
    return graph.insertNode(graph.create(kind, inputs))


@pytest.mark.parametrize(
    ("kind", "types", "name", "result"),
    [
        ("aten::add", ["Tensor", "Tensor", "int"], "aten::add.Tensor", "Tensor"),
        ("aten::add", ["Tensor", "float", "int"], "aten::add.Scalar", "Tensor"),
        ("aten::add", ["int", "int"], "aten::add.int", "int"),
        ("aten::add", ["int", "float"], "aten::add.int_float", "float"),
        ("aten::add", ["Scalar", "int"], "aten::add", "Scalar"),
        ("aten::add", ["str[]", "str[]"], "aten::add.t", "str[]"),
        ("aten::add", ["str", "str"], "aten::add.str", "str"),
        ("aten::pow", ["int", "int"], "aten::pow.int", "float"),
        ("aten::div", ["int", "int"], "aten::div.int", "float"),
        ("aten::floor", ["float"], "aten::floor.float", "int"),
        ("aten::size", ["Tensor"], "aten::size", "int[]"),
        ("aten::size", ["Tensor", "int"], "aten::size.int", "int"),
        ("aten::__getitem__", ["Tensor[][]", "int"], "aten::__getitem__.t", "Tensor[]"),
        ("aten::__getitem__", ["Dict(str, int?)", "str"], "aten::__getitem__.Dict_str", "int?"),
        ("aten::get", ["Dict(int, str)", "int"], "aten::get.int", "str?"),
        ("aten::items", ["Dict(str, float)"], "aten::items.str", "(str, float)[]"),
        ("aten::append", ["int[]", "int"], "aten::append.t", "int[]"),
        ("aten::len", ["Dict(str, int)"], "aten::len.Dict_str", "int"),
        ("aten::len", ["(int, int)[]"], "aten::len.t", "int"),
        ("aten::_unwrap_optional", ["Tensor?"], "aten::_unwrap_optional", "Tensor"),
        ("aten::max", ["Tensor", "int", "bool"], "aten::max.dim", "(Tensor, Tensor)"),
        ("aten::wait", ["Future[int]"], "aten::wait", "int"),
        ("aten::eq", ["str", "str"], "aten::eq.str", "bool"),
        ("aten::ones", ["int[]", "Tensor"], "aten::ones.out", "Tensor"),
        ("aten::concat", ["Tensor[]", "int"], "aten::concat", "Tensor"),
        (
            "aten::add",
            ["Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)", "Long()", "int"],
            "aten::add.Tensor",
            "Tensor",
        ),
    ],
)
def test_a_node_means_the_operator_that_its_inputs_fit(kind, types, name, result):
    node = node_of(kind, *types)
    operator = match_node(node)
    assert operator.name == name
    assert operator.result_type(node).str() == result


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("aten::add", ["int", "str"]),
        ("aten::append", ["int[]", "str"]),
        ("aten::relu", ["Tensor?"]),
        ("aten::relu", ["Tensor", "Tensor", "Tensor"]),
        ("aten::cat", ["int[]", "int"]),
        ("aten::nonsense", ["Tensor"]),
        ("prim::If", ["bool"]),
    ],
)
def test_nodes_that_fit_no_operator(kind, types):
    node = node_of(kind, *types)
    assert match_node(node) is None
    assert node.schema() == "(no schema)"


def test_a_node_knows_its_schema_and_inputs_by_name():
    graph = parse_ir(
        """graph(%x : Tensor, %y : Tensor):
          %two : int = prim::Constant[value=2]()
          %z : Tensor = aten::sub(%x, %y, %two)
          return (%z)"""
    )
    node = graph.findNode("aten::sub")
    assert node.schema() == (
        "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    )
    assert node.namedInput("alpha").toIValue() == 2


def test_inserted_nodes_have_the_type_of_their_operator():
    graph = Graph()
    x = graph.addInput("x")
    size = graph.insert("aten::size", x, 0)
    assert size.type().str() == "int"
    assert graph.insert("aten::mul", size, 2.5).type().str() == "float"


def test_every_operator_of_graphs_has_a_schema_and_runs_as_a_function():
    count = 0
    for kind, operators in GRAPH_ONLY.items():
        for operator in operators:
            count += 1
            assert operator.schema.name == kind
            assert callable(operator.call)
            names = [each.name for each in overloads(kind)]
            assert names.count(operator.name) == 1, operator
    assert count > 650


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("aten::tensor", ["bool", "float", "int", "complex", ""]),
        ("aten::Int", ["Tensor", "bool", "float", "Scalar", "str"]),
        ("aten::add", ["Tensor", "Scalar", "out", "Scalar_out", "t", "str", "int"]),
        ("aten::len", ["t", "Tensor", "str"]),
        ("prim::max", ["int", "float", "int_float", "float_int", "", "int_list", "self_int"]),
    ],
)
def test_overloads_are_tried_in_torchs_order(kind, first):
    names = [operator.source.overload_name for operator in overloads(kind)]
    assert names[: len(first)] == first


def test_operators_called_by_name():
    add = find_operator("aten::add.Tensor").call
    assert add(torch.ones(2), torch.ones(2), 3).tolist() == [4, 4]
    zeros = find_operator("aten::zeros").call
    assert zeros([2], 7, None, "cpu", None).dtype is torch.float64
    assert find_operator("aten::remainder.int").call(-7, 3) == 2
    assert find_operator("aten::add.nonsense") is None


def test_ops_of_users_are_operators():
    with torch.library._scoped_library("jitoperators", "DEF") as library:
        library.define("twice(Tensor x, int[] by) -> Tensor")
        library.impl("twice", lambda x, by: x * sum(by), "CompositeImplicitAutograd")
        run = parse_ir(
            """graph(%x : Tensor, %l : int[]):
              %y : Tensor = jitoperators::twice(%x, %l)
              return (%y)"""
        )
        from rushlight.jit.runtime.program import compile_graph

        assert compile_graph(run, "f")(torch.ones(2), [1, 2]).tolist() == [3, 3]


RANDOM = {
    "dropout that trains": ("aten::dropout(%x, %p, %true)", True),
    "dropout that does not": ("aten::dropout(%x, %p, %false)", False),
    "dropout by a flag": ("aten::dropout(%x, %p, %flag)", True),
    "bernoulli": ("aten::bernoulli(%x, %none)", True),
    "relu": ("aten::relu(%x)", False),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_nodes(name):
    text, expected = RANDOM[name]
    graph = parse_ir(
        f"""graph(%x : Tensor, %flag : bool):
          %p : float = prim::Constant[value=0.5]()
          %true : bool = prim::Constant[value=1]()
          %false : bool = prim::Constant[value=0]()
          %none : NoneType = prim::Constant()
          %y : Tensor = {text}
          return (%y)"""
    )
    assert graph.outputs()[0].node().isNondeterministic() is expected


def test_side_effects():
    assert node_of("prim::Print", "Tensor").hasSideEffects()
    assert node_of("prim::RaiseException", "str").hasSideEffects()
    assert node_of("aten::manual_seed", "int").hasSideEffects()
    # What a node writes to its arguments is another matter.
    assert not node_of("aten::add_", "Tensor", "Tensor", "int").hasSideEffects()
    assert not node_of("aten::append", "int[]", "int").hasSideEffects()
