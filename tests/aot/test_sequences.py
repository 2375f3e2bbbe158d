"""Graphs of attention and recurrent layers hold the ops that the reference's hold."""

from __future__ import annotations

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight import nn
from rushlight.aot.tracing import make_fx
from rushlight.nn import functional as F


def ops_of(graph_module) -> list[str]:
    return [
        str(node.target).removeprefix("aten.")
        for node in graph_module.graph.nodes
        if node.op == "call_function" and str(node.target).startswith("aten.")
    ]


@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_attention(mode):
    x = torch.ones(2, 2, 3, 4)
    graph = make_fx(lambda q: F.scaled_dot_product_attention(q, q, q), tracing_mode=mode)(x)
    assert ops_of(graph) == ["_scaled_dot_product_flash_attention_for_cpu.default"]
    assert torch.equal(graph(x), F.scaled_dot_product_attention(x, x, x))


def test_other_ranks_take_the_math_form():
    x = torch.ones(2, 3, 4)
    graph = make_fx(lambda q: F.scaled_dot_product_attention(q, q, q))(x)
    assert ops_of(graph) == [
        "mul.Scalar", "transpose.int", "mul.Scalar", "expand.default", "view.default",
        "expand.default", "view.default", "bmm.default", "_unsafe_view.default",
        "_safe_softmax.default", "expand.default", "view.default", "expand.default",
        "view.default", "bmm.default", "_unsafe_view.default",
    ]  # fmt: skip


def test_the_gradient_of_attention_is_one_op():
    x = torch.ones(2, 2, 3, 4, requires_grad=True)
    graph = make_fx(
        lambda q: torch.autograd.grad(F.scaled_dot_product_attention(q, q, q).sum(), q)
    )(x)
    assert "_scaled_dot_product_flash_attention_for_cpu_backward.default" in ops_of(graph)


def test_layers_in_single_precision_are_one_op():
    module = nn.LSTM(3, 4)
    x = torch.randn(5, 2, 3)
    graph = make_fx(lambda x: module(x)[0])(x)
    assert ops_of(graph).count("mkldnn_rnn_layer.default") == 1
    assert torch.allclose(graph(x), module(x)[0])
    double = nn.LSTM(3, 4).double()
    graph = make_fx(lambda x: double(x)[0])(x.double())
    assert ops_of(graph).count("addmm.default") == 6
    assert torch.allclose(graph(x.double()), double(x.double())[0])


def test_transformers_trace_with_symbolic_sizes():
    module = nn.TransformerEncoderLayer(8, 2, 16, 0.0)
    traced = make_fx(module, tracing_mode="symbolic", _allow_non_fake_inputs=True)
    graph = traced(torch.randn(4, 2, 8))
    other = torch.randn(6, 3, 8)
    assert torch.allclose(graph(other), module(other), atol=1e-6)
