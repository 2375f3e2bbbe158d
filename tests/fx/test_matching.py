"""Parts of graphs: found, replaced, merged and cut out."""

from __future__ import annotations

import operator

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.base import pytree
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.fx.passes.dialect.common.cse_pass import CSEPass
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.merge_matmul import merge_matmul
from rushlight.fx.passes.operator_support import OperatorSupport
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.fx.subgraph_rewriter import replace_pattern, replace_pattern_with_filters

aten = torch.ops.aten


class Product(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size, size))

    def forward(self, x):
        return aten.mm.default(x, self.weight)


def matches(pattern, program, **options):
    traced = [fx.symbolic_trace(each).graph for each in (pattern, program)]
    return len(SubgraphMatcher(traced[0], **options).match(traced[1]))


def test_tensors_of_modules_stand_for_any():
    assert matches(Product(5), Product(3)) == 1


def test_arguments_that_are_left_out_have_their_defaults():
    def pattern(x, size, stride):
        return aten.max_pool2d_with_indices.default(x, size, stride, padding=[0, 0])

    def program(x):
        return aten.max_pool2d_with_indices.default(x, [2, 2], stride=[2, 2])

    assert matches(pattern, program) == 1
    assert len(replace_pattern(fx.symbolic_trace(program), pattern, pattern)) == 1


def test_an_input_of_a_match_does_not_come_out_of_it():
    def pattern(x, y):
        first = x.relu()
        return first, first * y

    def program(x):
        first = x.relu()
        return first * first.sigmoid()

    assert matches(pattern, program) == 0


def test_all_overlapping_matches():
    def pattern(x):
        x = x.relu()
        return x, x.sigmoid(), x.sum()

    def program(x):
        x = x.relu()
        return x.sum() + x.sum() + x.sigmoid() + x.sigmoid()

    assert matches(pattern, program, remove_overlapping_matches=False) == 4
    assert matches(pattern, program) == 1


def test_a_replacement_for_each_match():
    traced = fx.symbolic_trace(lambda x: (x + 1).relu() * (x + 2).relu())
    seen = []

    def choose(match, graph, pattern):
        literal = len(seen)
        seen.append(match)
        return fx.symbolic_trace(lambda x: x - literal).graph

    done = replace_pattern_with_filters(
        traced, lambda x: x + 7, ignore_literals=True, replacement_callback=choose
    )
    assert len(done) == 2
    assert [node.args[1] for node in traced.graph.nodes if node.target is operator.sub] == [0, 1]
    assert traced(torch.tensor(3.0)).item() == 6


def test_members_of_a_replacement_come_along_and_old_ones_go():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(3.0))
            self.tanh = torch.nn.Tanh()

        def forward(self, x):
            return self.tanh(x) * self.scale

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sigmoid = torch.nn.Sigmoid()

        def forward(self, x):
            return self.sigmoid(x)

    traced = fx.symbolic_trace(torch.nn.Sequential(Plain()))
    pattern = fx.symbolic_trace(torch.nn.Sequential(Plain()))
    replace_pattern(traced, pattern, Scaled())
    x = torch.ones(2)
    torch.testing.assert_close(traced(x), x.tanh() * 3)
    assert not hasattr(getattr(traced, "0", None), "sigmoid")


def test_common_subexpressions_are_merged_in_a_copy():
    traced = fx.symbolic_trace(lambda x: (x + 1) * (x + 1))
    found = CSEPass()(traced)
    assert found.modified
    assert len(traced.graph.nodes) == 5
    assert len(found.graph_module.graph.nodes) == 4
    assert found.graph_module(torch.ones(1)).item() == 4


def test_products_by_one_attribute_are_merged():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.right = torch.randn(3, 4)

        def forward(self, x, y):
            return torch.matmul(x, self.right) + torch.matmul(y, self.right)

    module, x, y = Two(), torch.randn(3, 3), torch.randn(3, 3)
    merged = merge_matmul(module)
    count = [node.target for node in merged.graph.nodes].count(torch.matmul)
    assert count == 1
    torch.testing.assert_close(merged(x, y), module(x, y))


class Adding(OperatorSupport):
    def is_node_supported(self, submodules, node):
        kinds = (operator.add, operator.getitem, aten.view, aten.std_mean)
        return node.op == "call_function" and node.target in kinds


def parts(program, non_compute=()):
    traced = fx.symbolic_trace(program)
    partitioner = CapabilityBasedPartitioner(
        traced, Adding(), allows_single_node_partition=True, non_compute_ops=list(non_compute)
    )
    found = partitioner.propose_partitions()
    if non_compute:
        partitioner.remove_bookend_non_compute_ops(found)
    names = [sorted(node.name for node in part.nodes) for part in found]
    return names, partitioner.fuse_partitions(found)


def test_partitions_do_not_need_one_another_in_a_circle():
    def program(a):
        b0 = a + 1.0
        c0 = a + 1.5
        b1 = b0 + c0.relu()
        c2 = b0.relu() + c0
        return b1, c2

    _, fused = parts(program)
    a = torch.randn(4)
    torch.testing.assert_close(fused(a), program(a))


def test_parts_of_results_are_where_the_result_is():
    def own(a):
        mean = aten.std_mean(a)
        return mean[0] + 1.0

    def others(a):
        return aten.var_mean(a)[0]

    assert parts(own)[0] == [["add", "getitem", "std_mean"]]
    assert parts(others)[0] == []


def test_calls_that_do_nothing_are_taken_from_the_ends():
    def program(a):
        a = aten.view(a, [2, 2])
        a = aten.view(a + 1.0, [4])
        return aten.view(a + 1.0, [2, 2])

    names, fused = parts(program, ["torch.ops.aten.view"])
    assert names == [["add", "add_1", "view_1"]]
    a = torch.randn(4)
    torch.testing.assert_close(fused(a), program(a))


@pytest.mark.parametrize("tree", [immutable_list([1, 2]), immutable_dict({"a": 1})])
def test_arguments_of_nodes_have_paths(tree):
    found, structure = pytree.tree_flatten_with_path(tree)
    assert [leaf for _, leaf in found] == pytree.tree_leaves(tree)
    assert pytree.tree_unflatten([leaf for _, leaf in found], structure) == tree
