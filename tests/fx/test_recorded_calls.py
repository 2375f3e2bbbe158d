"""Calls that are recorded whole, calls that must stay, and calls that may not be traced."""

from __future__ import annotations

import copy
from collections import namedtuple

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.fx.passes.rewriter import RewritingTracer
from rushlight.fx.tracing import PH, WRAPPED_METHODS

Pair = namedtuple("Pair", "left right")


def double(x):
    return x * 2


fx.wrap("double")


def targets(graph):
    return [node.target for node in graph.nodes if node.op == "call_function"]


def test_wrapped_functions_stay_whole_in_rewritten_ones():
    factor = 3

    def program(x: torch.Tensor):
        assert factor == 3, "closed over"
        y: int = double(x)
        return y + factor

    tracer = RewritingTracer()
    graph = tracer.trace(program)
    assert double in targets(graph)
    assert next(node for node in graph.nodes if node.target is double).type is int
    run = fx.GraphModule(tracer.root, graph)
    assert run(torch.ones(2)).tolist() == [5, 5]


def test_asserts_are_not_dead():
    class Checks(torch.nn.Module):
        def forward(self, x, flag):
            torch._assert(torch.equal(x, x), "equal")
            return x * 2

    traced = fx.symbolic_trace(Checks(), concrete_args={"flag": None})
    before = len(traced.graph.nodes)
    assert not traced.graph.eliminate_dead_code()
    assert len(traced.graph.nodes) == before


def test_calls_that_write_to_out_are_refused_by_tracers_that_check():
    class Checking(fx.Tracer):
        check_mutable_operations = True

    def writes(x):
        y = torch.rand_like(x)
        torch.sigmoid(x, out=y)
        return y

    with pytest.raises(RuntimeError, match=r"mutable operation aten::sigmoid\.out"):
        Checking().trace(writes)


def test_methods_of_classes_can_be_recorded():
    weight = torch.arange(4.0)
    WRAPPED_METHODS.append((torch.Tensor, "__getitem__"))
    try:
        traced = fx.symbolic_trace(lambda x: weight[x])
    finally:
        WRAPPED_METHODS.pop()
    assert [node.target for node in traced.graph.nodes if node.op == "call_method"] == [
        "__getitem__"
    ]
    assert traced(torch.tensor(2)).item() == 2


def test_concrete_arguments_of_functions_with_any_arguments():
    class Adds(torch.nn.Module):
        def forward(self, *args, **kwargs):
            return args[0] + args[1]

    traced = fx.symbolic_trace(Adds(), concrete_args=(PH, PH))
    assert traced(torch.ones(1), torch.ones(1)).item() == 2


def test_named_tuples_of_inputs_are_flattened_in_graphs_that_are_traced_again():
    traced = fx.symbolic_trace(lambda x: x.left + x.right, concrete_args={"x": Pair(PH, PH)})
    again = fx.symbolic_trace(traced)
    given = Pair(torch.ones(1), torch.ones(1))
    assert traced(given).item() == again(given).item() == 2


def test_data_of_placeholders_does_not_replace_what_nodes_say():
    class Tagged(type(PH)):
        tag = "theirs"
        note = "kept"

    class Tagging(fx.Tracer):
        def create_node(self, *args, **kwargs):
            node = super().create_node(*args, **kwargs)
            node.tag = "mine"
            return node

    graph = Tagging().trace(lambda a: a + 1, concrete_args={"a": Tagged()})
    assert [node.tag for node in graph.nodes] == ["mine"] * 3
    assert next(iter(graph.nodes)).note == "kept"


def test_a_copied_proxy_has_a_tracer_of_its_own():
    tracer = fx.Tracer()
    tracer.label = "mine"
    node = next(iter(fx.symbolic_trace(lambda x: x + 1).graph.nodes))
    made = copy.deepcopy(fx.Proxy(node, tracer))
    assert made.tracer is not tracer and made.tracer.label == "mine"
    assert made.node.name == node.name


def test_quantizing_is_recorded():
    traced = fx.symbolic_trace(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8))
    assert targets(traced.graph) == [torch.quantize_per_tensor]
    assert traced(torch.tensor([0.1])).int_repr().item() == 4


def test_arguments_of_nodes_written_out():
    traced = fx.symbolic_trace(lambda x: torch.nn.functional.max_pool2d(x + 1, 2).relu())
    _, _, pool, method, _ = traced.graph.nodes
    found = pool.normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    assert found.args == ()
    assert found.kwargs == {
        "input": pool.args[0], "kernel_size": 2, "stride": None, "padding": 0, "dilation": 1,
        "ceil_mode": False, "return_indices": False,
    }  # fmt: skip
    assert method.normalized_arguments(traced) is None


def test_names_of_arguments_are_those_of_the_function():
    normalize = fx.operator_schemas.normalize_function
    kinds = (torch.Tensor, int)
    assert normalize(torch.split, ("x", 2), {}, kinds, None, True).kwargs == {
        "tensor": "x", "split_size_or_sections": 2, "dim": 0,
    }  # fmt: skip
    assert normalize(torch.zeros, ([2],)).kwargs.keys() == {
        "dtype", "layout", "device", "pin_memory",
    }  # fmt: skip


def test_every_name_of_the_library_is_there():
    for name in dir(torch):
        getattr(torch, name)
