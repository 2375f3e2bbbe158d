"""Passes under torch's names: orders of passes, fused layers, merged products, parts by tag."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.nn as nn
from rushlight.fx import symbolic_trace
from rushlight.fx.annotate import annotate
from rushlight.fx.passes.merge_matmul import merge_matmul
from rushlight.fx.passes.optimization import (
    UnionFind,
    extract_subgraph,
    fuse,
    optimize_for_inference,
    remove_dropout,
)
from rushlight.fx.passes.pass_manager import (
    PassManager,
    inplace_wrapper,
    loop_pass,
    this_before_that_pass_constraint,
)
from rushlight.fx.passes.split_utils import split_by_tags
from rushlight.fx.passes.tools_common import stable_topological_sort
from rushlight.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise


def network():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(),
        nn.Linear(4 * 36, 5), nn.BatchNorm1d(5),
    )  # fmt: skip
    model(torch.randn(8, 3, 8, 8))
    return model.eval()


def test_batch_norms_are_folded_and_dropout_goes():
    model, x = network(), torch.randn(2, 3, 8, 8)
    fused = fuse(model)
    assert not [m for m in fused.graph.nodes if m.target in ("1", "6")]
    assert torch.allclose(fused(x), model(x), atol=1e-5)
    assert "3" not in [n.target for n in remove_dropout(model).graph.nodes]
    assert torch.allclose(optimize_for_inference(model)(x), model(x), atol=1e-5)
    assert isinstance(model[1], nn.BatchNorm2d)


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4))

    def forward(self, a, b, c):
        u = torch.matmul(a, self.w).relu()
        v = torch.matmul(b * 2, self.w)
        return u + v + torch.matmul(c, self.w)


def test_products_by_one_matrix_become_one():
    model, x = Products(), torch.randn(2, 3)
    merged = merge_matmul(model)
    called = [n for n in merged.graph.nodes if n.target is torch.matmul]
    assert len(called) == 1
    assert torch.allclose(merged(x, x + 1, x - 1), model(x, x + 1, x - 1), atol=1e-6)

    class Chained(Products):
        def forward(self, a):
            w = self.w[:, :3]
            return torch.matmul(torch.matmul(a, w), w)

    chained = Chained()
    assert torch.allclose(merge_matmul(chained)(x), chained(x))


def test_parts_by_tag():
    traced = symbolic_trace(lambda a, b: ((a + b).relu() * b, a.neg()))
    for node in traced.graph.nodes:
        if node.op not in ("placeholder", "output"):
            node.tag = "first" if node.name in ("add", "relu") else "second"
    parts = split_by_tags(traced, ["first", "second"])
    a, b = torch.tensor([1.0, -2.0]), torch.ones(2)
    assert [t.tolist() for t in parts(a, b)] == [t.tolist() for t in traced(a, b)]
    assert [n.target for n in parts.graph.nodes if n.op == "call_module"] == ["first", "second"]
    with pytest.raises(AssertionError, match="comes before"):
        split_by_tags(traced, ["second", "first"])


def test_nodes_follow_their_inputs():
    traced = symbolic_trace(lambda x: x.sin().cos())
    first, second = [n for n in traced.graph.nodes if n.op == "call_method"]
    second.append(first)
    ordered = stable_topological_sort(traced)
    ordered.graph.lint()
    ordered.recompile()
    assert torch.equal(ordered(torch.ones(2)), torch.ones(2).sin().cos())


def test_part_of_a_graph():
    traced = symbolic_trace(lambda x: x.sin().cos().tan())
    _x, sin, cos, *_ = traced.graph.nodes
    part = extract_subgraph(traced, [cos], [sin], [cos])
    assert torch.equal(part(torch.ones(2))[0], torch.ones(2).cos())


def test_passes_in_an_order_that_keeps_constraints():
    def double(x):
        return x * 2

    def add(x):
        return x + 1

    manager = PassManager([double, add])
    manager.add_constraint(this_before_that_pass_constraint(add, double))
    with pytest.raises(RuntimeError, match="constraint violated"):
        manager.validate()
    assert manager(3) == 8
    manager.add_constraint(this_before_that_pass_constraint(double, add))
    with pytest.raises(RuntimeError, match="contradict"):
        manager(3)
    assert loop_pass(double, n_iter=3)(1) == 8 and loop_pass(add, predicate=lambda x: x < 5)(1) == 5
    assert inplace_wrapper(lambda x: None)(7) == 7


def test_sets_that_are_joined():
    sets = UnionFind(4)
    for i in range(4):
        sets.make_set(i)
    sets.join(0, 1)
    sets.join(2, 1)
    assert sets.find(0) == sets.find(2) != sets.find(3)


def test_types_of_tensors():
    assert str(TensorType((1, Dyn))) == "TensorType[(1, Dyn)]"
    assert is_consistent(TensorType((1, Dyn)), TensorType((1, 3)))
    assert not is_consistent(TensorType((1, 2)), TensorType((1, 3)))
    assert is_more_precise(TensorType((1, 3)), TensorType((1, Dyn)))
    assert not is_more_precise(TensorType((1, Dyn)), TensorType((1, 3)))
    assert annotate(3, int) == 3
    traced = symbolic_trace(lambda x: annotate(x.sin(), TensorType((2,))).cos())
    assert [n.type for n in traced.graph.nodes if n.name == "sin"] == [TensorType((2,))]
