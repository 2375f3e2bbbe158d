"""Passes over graphs."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import rushlight as torch
import rushlight.fx as fx
from rushlight.aot.tracing import make_fx
from rushlight.fx.passes.const_fold import get_unique_attr_name_in_module, split_const_subgraphs
from rushlight.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.graph_manipulation import (
    get_size_of_all_nodes,
    get_tensor_meta,
    replace_target_nodes_with,
)
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from rushlight.fx.passes.normalize import NormalizeArgs, NormalizeOperators
from rushlight.fx.passes.operator_support import (
    OperatorSupport,
    OpSupports,
    any_chain,
    chain,
    create_op_support,
)
from rushlight.fx.passes.rewriter import RewritingTracer
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.split_module import split_module
from rushlight.fx.passes.utils import compare_graphs
from rushlight.fx.passes.utils.fuser_utils import fuse_as_graphmodule, validate_partition
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.fx.passes.utils.source_matcher_utils import (
    check_subgraphs_connected,
    get_source_partitions,
)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.p = torch.nn.Parameter(torch.ones(4))
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4))

    def forward(self, x, y):
        a = self.lin(x) + self.p
        b = torch.relu(a) + y
        c = self.inner(b)
        return c * a, b


def body(module: Any) -> list[str]:
    return [line.strip() for line in module.code.strip().split("\n")]


# -- split -----------------------------------------------------------------------------------------


def test_split_module() -> None:
    module = Model()
    traced = fx.symbolic_trace(module)
    place = {"lin": 0, "add": 0, "relu": 1, "add_1": 1}
    paths: dict[str, str] = {}
    split = split_module(traced, module, lambda node: place.get(node.name, "z"), paths)
    assert body(split) == [
        "def forward(self, x, y):",
        "p = self.p",
        "submod_0 = self.submod_0(x, p);  x = p = None",
        "submod_1 = self.submod_1(submod_0, y);  y = None",
        "submod_z = self.submod_z(submod_1, submod_0);  submod_0 = None",
        "return (submod_z, submod_1)",
    ]
    assert body(split.submod_z) == [
        "def forward(self, add_1, add):",
        "inner_0 = self.inner_0(add_1);  add_1 = None",
        "mul = inner_0 * add;  inner_0 = add = None",
        "return mul",
    ]
    assert paths == {"submod_0.lin": "lin", "submod_z.inner_0": "inner.0"}
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    torch.testing.assert_close(split(x, y), module(x, y))


def test_parts_that_need_one_another() -> None:
    traced = fx.symbolic_trace(lambda x: (x.sin() + 1).cos())
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(traced, traced, lambda node: node.op)


def test_split_module_returns_tuples() -> None:
    traced = fx.symbolic_trace(lambda x: (x.sin() + 1) * x)
    split = split_module(
        traced,
        traced,
        lambda node: node.op,
        keep_original_input_name=False,
        partition_affix="part",
        tuple_return=True,
    )
    assert body(split) == [
        "def forward(self, x):",
        "submod_part_call_method = self.submod_part_call_method(x)",
        "getitem = submod_part_call_method[0];  submod_part_call_method = None",
        "submod_part_call_function = self.submod_part_call_function(getitem, x);  "
        "getitem = x = None",
        "getitem_1 = submod_part_call_function[0];  submod_part_call_function = None",
        "return getitem_1",
    ]
    assert body(split.submod_part_call_function)[0] == "def forward(self, arg_0, arg_1):"


# -- common subexpressions -------------------------------------------------------------------------


def test_common_subexpressions() -> None:
    def function(x: Any) -> Any:
        return x.cos() + x.cos() + x.sum(), torch.rand_like(x) + torch.rand_like(x)

    module = make_fx(function)(torch.randn(3))
    result = CSEPass()(module)
    assert result.modified
    graph = result.graph_module.graph
    targets = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    assert targets.count("aten.cos.default") == 1
    # Two draws are two draws.
    assert targets.count("aten.rand_like.default") == 2
    assert not CSEPass()(result.graph_module).modified
    kept = make_fx(function)(torch.randn(3))
    assert not CSEPass([torch.ops.aten.cos, *get_CSE_banned_ops()])(kept).modified


# -- propagation -----------------------------------------------------------------------------------


def test_fake_tensor_prop() -> None:
    traced = fx.symbolic_trace(Model())
    result = FakeTensorProp(traced).propagate(torch.ones(2, 4), torch.ones(4))
    assert [tuple(part.shape) for part in result] == [(2, 4), (2, 4)]
    found = {node.name: node.meta["val"] for node in traced.graph.nodes if "val" in node.meta}
    assert tuple(found["relu"].shape) == (2, 4) and found["p"].dtype == torch.float32
    again = FakeTensorProp(traced, check_consistency=True)
    with pytest.raises(RuntimeError, match="node x was recorded with"):
        again.propagate(torch.ones(3, 4), torch.ones(4))


def test_size_of_nodes() -> None:
    traced = fx.symbolic_trace(Model())
    with pytest.raises(RuntimeError, match="has no tensor metadata"):
        get_tensor_meta(next(iter(traced.graph.nodes)))
    get_size_of_all_nodes(traced, [torch.ones(2, 4), torch.ones(4)])
    sizes = {n.name: n.size_bytes for n in traced.graph.nodes if n.op != "output"}
    assert sizes["lin"] == (32, 32 + 4 * 20)
    assert sizes["relu"] == (32, 32)


def test_replace_target_nodes() -> None:
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    replace_target_nodes_with(traced, "call_function", torch.relu, "call_function", torch.sigmoid)
    torch.testing.assert_close(traced(torch.zeros(2)), torch.full((2,), 1.5))


# -- passes and their manager ----------------------------------------------------------------------


class Rename(PassBase):
    def __init__(self, old: Any, new: Any) -> None:
        self.old, self.new = old, new

    def call(self, graph_module: Any) -> PassResult:
        found = [n for n in graph_module.graph.nodes if n.target is self.old]
        for node in found:
            node.target = self.new
        return PassResult(graph_module, bool(found))


def test_pass_manager() -> None:
    first, second = Rename(operator.add, operator.mul), Rename(operator.mul, operator.sub)
    order = this_before_that_pass_constraint(first, second)
    manager = PassManager([second, first], [order])
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        manager.validate_constraints()
    result = manager(fx.symbolic_trace(lambda x: x + 1))
    assert result.modified and manager.passes == [first, second]
    assert result.graph_module(5) == 4
    circle = PassManager([first, second], [order, this_before_that_pass_constraint(second, first)])
    with pytest.raises(RuntimeError, match="Circular dependency detected"):
        circle.solve_constraints()


def test_pass_manager_checks() -> None:
    def broken(module: Any) -> None:
        raise ValueError("no")

    traced = fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(Exception, match="An error occurred when running the 'broken' pass"):
        PassManager([broken])(traced)
    with pytest.raises(Exception, match=r"running the .* pass after"):
        PassManager([lambda module: None])(traced)
    seen: list[Any] = []
    manager = PassManager(
        [pass_result_wrapper(lambda module: None)], steps=3, run_checks_after_each_pass=True
    )
    manager.add_checks(seen.append)
    manager(traced)
    assert len(seen) == 4
    with pytest.raises(TypeError, match="should only take in one variable"):
        manager.add_checks(lambda a, b: None)


# -- partitions ------------------------------------------------------------------------------------


def adds() -> Any:
    return create_op_support(
        lambda modules, node: node.op == "call_function" and "add" in str(node.target)
    )


def branches(a: Any, b: Any) -> Any:
    c = a + b
    d = c + 1
    e = d.relu()
    f = e + c
    return f + 1, d


def test_partitions_by_capability() -> None:
    module = make_fx(branches)(torch.ones(2), torch.ones(2))
    partitioner = CapabilityBasedPartitioner(module, adds())
    found = partitioner.propose_partitions()
    assert [[node.name for node in part.nodes] for part in found] == [
        ["add_2", "add_3"],
        ["add", "add_1"],
    ]
    fused = partitioner.fuse_partitions(found)
    assert body(fused) == [
        "def forward(self, a_1, b_1):",
        "fused_1 = self.fused_1(a_1, b_1);  a_1 = b_1 = None",
        "getitem = fused_1[0]",
        "getitem_1 = fused_1[1];  fused_1 = None",
        "relu = torch.ops.aten.relu.default(getitem_1)",
        "fused_0 = self.fused_0(relu, getitem);  relu = getitem = None",
        "return (fused_0, getitem_1)",
    ]
    a, b = torch.randn(2), torch.randn(2)
    torch.testing.assert_close(fused(a, b), branches(a, b))


def test_single_nodes_make_no_partition() -> None:
    module = make_fx(lambda x: x.relu() + 1)(torch.ones(2))
    assert CapabilityBasedPartitioner(module, adds()).propose_partitions() == []
    allowed = CapabilityBasedPartitioner(
        module, adds(), allowed_single_node_partition_ops=["torch.ops.aten.add.Tensor"]
    )
    assert len(allowed.propose_partitions()) == 1
    idle = CapabilityBasedPartitioner(
        module,
        create_op_support(lambda modules, node: node.op == "call_function"),
        non_compute_ops=["torch.ops.aten.relu.default"],
    )
    [part] = CapabilityBasedPartitioner(
        module, idle.operator_support, non_compute_ops=["torch.ops.aten.relu.default"],
        allows_single_node_partition=True,
    ).propose_partitions()  # fmt: skip
    idle.remove_bookend_non_compute_ops([part])
    assert [node.name for node in part.nodes] == ["add"]


def test_parts_that_cannot_be_fused() -> None:
    module = make_fx(branches)(torch.ones(2), torch.ones(2))
    nodes = {node.name: node for node in module.graph.nodes}
    around = [nodes["add_1"], nodes["add_2"]]
    assert not validate_partition(around)
    with pytest.raises(AssertionError, match="Invalid partition"):
        fuse_as_graphmodule(module, around, "fused")


def test_operator_support() -> None:
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + x.sin())
    ShapeProp(traced).propagate(torch.ones(2))
    modules = dict(traced.named_modules())
    by_name = OperatorSupport({"torch.relu": None, "_operator.add": (((torch.float64,),), {})})

    def supported(support: Any) -> list[str]:
        return [n.name for n in traced.graph.nodes if support.is_node_supported(modules, n)]

    assert supported(by_name) == ["x", "relu", "output"]
    unnamed = OpSupports.decline_if_node_in_names({"relu"})
    assert supported(chain(by_name, unnamed)) == ["x", "output"]
    assert supported(any_chain(by_name, unnamed)) == ["x", "relu", "sin", "add", "output"]
    assert supported(OpSupports.decline_if_input_dtype(torch.float32)) == ["x"]


# -- finding ---------------------------------------------------------------------------------------


def test_subgraph_matcher() -> None:
    graph = fx.symbolic_trace(lambda x, y: torch.relu(x + y) * torch.relu(y + 2)).graph
    pattern = fx.symbolic_trace(lambda a, b: torch.relu(a + b)).graph
    found = SubgraphMatcher(pattern).match(graph)
    assert [match.returning_nodes[0].name for match in found] == ["relu_1", "relu"]
    assert [str(node) for node in found[1].placeholder_nodes] == ["x", "y"]
    inputs_only = SubgraphMatcher(pattern, match_placeholder=True).match(graph)
    assert [match.anchors[0].name for match in inputs_only] == ["relu"]
    number = fx.symbolic_trace(lambda a: torch.relu(a + 3)).graph
    assert SubgraphMatcher(number).match(graph) == []
    assert len(SubgraphMatcher(number, ignore_literals=True).match(graph)) == 1
    with pytest.raises(ValueError, match="empty pattern"):
        SubgraphMatcher(fx.Graph())


def test_compare_graphs() -> None:
    graphs = [fx.symbolic_trace(f).graph for f in (lambda x: x + 1, lambda y: y + 1)]
    assert compare_graphs(*graphs)
    assert not compare_graphs(graphs[0], fx.symbolic_trace(lambda x: x + 2).graph)


def test_source_partitions() -> None:
    traced = fx.symbolic_trace(lambda x: torch.relu(x.sin() + 1).cos())
    for node in traced.graph.nodes:
        if node.name in ("sin", "add"):
            node.meta["source_fn_stack"] = [("block", torch.nn.Linear)]
        elif node.name == "relu":
            node.meta["torch_fn"] = ("relu_1", "function.relu")
    found = get_source_partitions(traced.graph, [torch.nn.Linear, "relu"])
    [block], [relu] = found[torch.nn.Linear], found["relu"]
    assert [n.name for n in block.nodes] == ["sin", "add"]
    assert [n.name for n in block.input_nodes + block.output_nodes] == ["x", "add"]
    assert check_subgraphs_connected(block, relu) and not check_subgraphs_connected(relu, block)
    assert get_source_partitions(traced.graph, ["relu"], lambda node: False) == {}


# -- pictures --------------------------------------------------------------------------------------


def test_drawer() -> None:
    traced = fx.symbolic_trace(Model())
    ShapeProp(traced).propagate(torch.ones(2, 4), torch.ones(4))
    drawer = FxGraphDrawer(traced, "model", normalize_args=True)
    text = drawer.get_dot_graph().to_string()
    assert text.startswith('digraph "model" {') and text.count("{") - text.count("\\{") > 0
    assert '"lin" -> "add";' in text and '"lin.weight" -> "lin";' in text
    assert "float32[2, 4]" in text and "fillcolor" in text
    bare = FxGraphDrawer(traced, "model", True, True).get_dot_graph()
    assert "p" not in bare.get_node_list() and "lin.weight" not in bare.get_node_list()
    split = split_module(traced, traced, lambda node: 0)
    drawings = FxGraphDrawer(split, "split")
    assert list(drawings.get_all_dot_graphs()) == ["split", "split_submod_0"]
    assert '"relu"' in str(drawings.get_dot_graph("submod_0"))


def test_drawing_is_written(tmp_path: Any) -> None:
    drawing = FxGraphDrawer(fx.symbolic_trace(lambda x: x + 1), "f").get_dot_graph()
    drawing.write(tmp_path / "f.dot")
    assert (tmp_path / "f.dot").read_text() == drawing.to_string() + "\n"


# -- constants, arguments, asserts -----------------------------------------------------------------


class Folding(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.ones(2))
        self.b = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> Any:
        return x + (self.a + self.b) * 2


def test_constant_folding() -> None:
    folded = split_const_subgraphs(Folding())
    assert body(folded)[1:] == [
        "_fx_const_folded_attrs = self._FX_CONST_FOLDED_ATTRS",
        "add_1 = x + _fx_const_folded_attrs;  x = _fx_const_folded_attrs = None",
        "return add_1",
    ]
    assert not folded.has_folding_been_run
    assert folded(torch.ones(2)).tolist() == [5.0, 5.0]
    assert folded._FX_CONST_FOLDED_ATTRS.tolist() == [4.0, 4.0]
    with pytest.raises(AssertionError, match="has been run already"):
        folded.run_folding()
    kept = split_const_subgraphs(Folding(), lambda node: node.target is operator.mul)
    assert kept(torch.ones(2)).tolist() == [5.0, 5.0]
    assert kept._FX_CONST_FOLDED_ATTRS.tolist() == [2.0, 2.0]
    assert split_const_subgraphs(lambda x: x + 1).const_subgraph_module is None


def test_unique_attribute_names() -> None:
    module = fx.symbolic_trace(Folding())
    assert get_unique_attr_name_in_module(module, "a") == "a_1"
    assert get_unique_attr_name_in_module(module, "3 x") == "_3_x"


def test_normalized_arguments() -> None:
    traced = fx.symbolic_trace(lambda x: torch.nn.functional.relu(torch.add(x, 1)))
    ShapeProp(traced).propagate(torch.ones(2))
    named = NormalizeArgs(traced).transform()
    assert [dict(n.kwargs) for n in named.graph.nodes if n.op == "call_function"][1].keys() == {
        "input",
        "inplace",
    }
    assert named(torch.zeros(2)).tolist() == [1.0, 1.0]
    placed = NormalizeArgs(traced, normalize_to_only_use_kwargs=False).transform()
    assert "relu(add, inplace = False)" in placed.code
    assert "x + 1" in NormalizeOperators(traced).transform().code


def test_asserts_are_traced() -> None:
    limit = 0

    class Positive(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            assert x.sum() > limit, "neg"
            return x + 1

    traced = fx.GraphModule(Positive(), RewritingTracer().trace(Positive()))
    assert "_assert = torch._assert(gt, 'neg')" in traced.code
    with pytest.raises(AssertionError, match="neg"):
        traced(-torch.ones(2))


def test_deferred_assertions_become_nodes() -> None:
    pytest.importorskip("sympy")
    from rushlight.fx.passes.runtime_assert import insert_deferred_runtime_asserts
    from rushlight.symbolic.checks import check

    def function(x: Any) -> Any:
        length = x.item()
        check(length > 2, lambda: "short")
        return torch.ones(length)

    module = make_fx(function, tracing_mode="symbolic")(torch.tensor(5))
    insert_deferred_runtime_asserts(module, module.shape_env, "function")
    assert module(torch.tensor(4)).shape == (4,)
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression"):
        module(torch.tensor(1))
