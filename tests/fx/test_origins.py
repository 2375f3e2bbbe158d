"""Nodes that say which modules made them, and at which line."""

from __future__ import annotations

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.fx.graph_module import GraphModule


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.list = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])

    def forward(self, x):
        for layer in self.list:
            x = torch.tanh(layer(x))
        return x.sum()


def paths(module: GraphModule, op: object) -> list[list[str]]:
    found = module.graph.find_nodes(op="call_function", target=op)
    return [list(node.meta.get("nn_module_stack", ())) for node in found]


def trace_step(model: torch.nn.Module, **options: bool) -> GraphModule:
    parameters = dict(model.named_parameters())

    def step(parameters, x):
        loss = torch.func.functional_call(model, parameters, (x,))
        return loss, torch.autograd.grad(loss, list(parameters.values()))

    return make_fx(step, **options)(parameters, torch.ones(2, 3))


def test_modules_of_forward_and_backward() -> None:
    traced = trace_step(Layers(), record_module_stack=True)
    aten = torch.ops.aten
    first, second = (["Layers", f"Layers.list.{number}"] for number in (0, 1))
    assert paths(traced, aten.addmm.default) == [first, second]
    # The loss is not computed by a layer; gradients belong to the layer of the call.
    assert paths(traced, aten.tanh.default) == [["Layers"], ["Layers"]]
    assert paths(traced, aten.mm.default) == [second, second, first]
    assert paths(traced, aten.tanh_backward.default) == [["Layers"], ["Layers"]]
    backward = [n.target for n in traced.graph.nodes if n.meta.get("autograd_backward")]
    assert aten.mm.default in backward and aten.addmm.default not in backward
    stack = traced.graph.find_nodes(op="call_function", target=aten.addmm.default)[0].meta
    assert stack["nn_module_stack"]["Layers.list.0"] == ("Layers.list.0", torch.nn.Linear)
    assert all(node.stack_trace is None for node in traced.graph.nodes)


def test_a_traced_module_is_the_root() -> None:
    traced = make_fx(Layers(), record_module_stack=True)(torch.ones(2, 3))
    assert paths(traced, torch.ops.aten.tanh.default) == [[""], [""]]
    assert paths(traced, torch.ops.aten.addmm.default) == [["", "list.0"], ["", "list.1"]]


def test_modules_outside_of_a_root_go_by_their_class() -> None:
    one, two = torch.nn.Tanh(), torch.nn.Tanh()
    traced = make_fx(lambda x: two(one(two(x))), record_module_stack=True)(torch.ones(2))
    assert paths(traced, torch.ops.aten.tanh.default) == [["Tanh"], ["Tanh_1"], ["Tanh"]]


def test_lines_are_those_of_the_program() -> None:
    traced = trace_step(Layers(), record_stack_traces=True)
    for op in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
        for node in traced.graph.find_nodes(op="call_function", target=op):
            frames = node.stack_trace.split("File ")[1:]
            assert [frame.split("in ")[1].split("\n")[0] for frame in frames] == ["step", "forward"]
            assert "test_origins.py" in frames[1] and "torch.tanh(layer(x))" in frames[1]
    assert paths(traced, torch.ops.aten.mm.default) == [[], [], []]


def test_members_of_results_have_origins() -> None:
    traced = make_fx(torch.nn.LayerNorm(3), record_module_stack=True, record_stack_traces=True)(
        torch.ones(2, 3)
    )
    nodes = [node for node in traced.graph.nodes if node.op == "call_function"]
    assert len(nodes) > 1 and all("nn_module_stack" in node.meta for node in nodes)


def test_nothing_is_recorded_unasked() -> None:
    for node in trace_step(Layers()).graph.nodes:
        assert not {"nn_module_stack", "stack_trace", "seq_nr"} & set(node.meta)
