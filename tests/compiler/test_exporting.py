"""`torch._dynamo.export`: functions as modules that are called like them."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.capture.exc import Unsupported, UserError
from rushlight.capture.marks import assume_constant_result, graph_break
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter
from rushlight.compiler.exporting import export
from rushlight.nn.module import Module

W = torch.tensor([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def nested(x, y, *more, k=2, flag=None):
    z = x * W + y["a"].sum() + k
    return {"z": z, "rows": x.shape[0], "in": x, "c": [5, None]}, (more[0], z.sin())


class Net(Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x, scale=1.0):
        return self.lin(x).relu() * scale


@pytest.mark.parametrize("aten_graph", [False, True])
def test_the_module_is_called_and_answers_like_the_function(aten_graph):
    def inputs(rows):
        return torch.arange(3.0 * rows).reshape(rows, 3), {"a": torch.ones(2)}, torch.ones(1)

    gm, guards = export(nested, aten_graph=aten_graph)(*inputs(4), flag=True)
    assert guards
    for rows in (4, 7):
        # Sizes are symbols, and so is a number that is one.
        expected = nested(*inputs(rows), flag=True)
        found = gm(*inputs(rows), flag=True)
        assert repr(found) == repr(expected)
    assert "arg3" in gm.code
    names = {str(node.target) for node in gm.graph.nodes if node.op == "call_function"}
    assert ("aten.mul.Tensor" in names) is aten_graph


@pytest.mark.parametrize("aten_graph", [False, True])
def test_modules_and_graphs_of_them(aten_graph):
    net, x = Net(), torch.randn(2, 3)
    gm = export(net, aten_graph=aten_graph)(x, scale=3.0).graph_module
    assert {id(p) for p in gm.parameters()} == {id(p) for p in net.parameters()}
    torch.testing.assert_close(gm(x, scale=3.0), net(x, 3.0))
    again = export(gm)(x, scale=3.0).graph_module
    torch.testing.assert_close(again(x + 1, scale=3.0), net(x + 1, 3.0))


def test_which_sizes_may_change():
    def f(x, y):
        return x.reshape(-1), x.shape[0] + y.shape[0]

    x, y = torch.ones(4, 3), torch.ones(5)
    low = torch.export.Dim("rows", min=2, max=8)
    gm = export(f, dynamic_shapes={"x": {0: low}, "y": None})(x, y).graph_module
    assert gm(torch.ones(6, 3), y)[1] == 11
    assert gm(torch.ones(6, 3), torch.ones(9))[1] == 11
    assert not x.__dict__
    with pytest.raises(RuntimeError, match="Constraints violated"):
        export(lambda x: x + torch.ones(4, 3), dynamic_shapes=({0: low},))(x)


def test_what_cannot_be_one_graph():
    x = torch.ones(2)
    with pytest.raises(UserError, match="Dynamic control flow is not supported"):
        export(lambda x: x if x.sum() > 0 else -x)(x)
    with pytest.raises(Unsupported, match="graph_break"):
        export(lambda x: graph_break() or x)(x)
    with pytest.raises(Unsupported, match="cannot be exported"):
        export(lambda x: {1, 2})(x)
    with pytest.raises(AssertionError, match="aten_graph=True"):
        export(lambda x: x, pre_dispatch=True)
    with pytest.raises(Unsupported, match="is not captured here"):
        torch.func.vmap(export(lambda x: x + 1))(x)


def test_arguments_may_be_given_at_once():
    with pytest.warns(FutureWarning, match="deprecated"):
        gm, _ = export(lambda x, y: x + y, torch.ones(2), torch.ones(2))
    assert gm(torch.ones(2), torch.zeros(2)).tolist() == [1, 1]


def test_the_graph_as_it_was_captured():
    gm = export(lambda x: (x * 2, [x * W]), same_signature=False)(torch.ones(3)).graph_module
    first, second = gm(torch.zeros(3), W)
    assert (first.tolist(), second.tolist()) == ([0, 0, 0], [0, 0, 0])


def test_graph_modules_are_captured_and_followed():
    net, counter, x = Net(), CompileCounter(), torch.randn(2, 3)
    gm = torch.fx.symbolic_trace(net)
    compiled = torch.compile(gm, backend=counter, fullgraph=True)
    torch.testing.assert_close(compiled(x), net(x))
    assert counter.op_count == 3
    for node in gm.graph.nodes:
        if node.target == "relu":
            node.target = "sigmoid"
    gm.recompile()
    torch.testing.assert_close(compiled(x), net.lin(x).sigmoid())


@assume_constant_result
def table(n):
    return {"a": torch.ones(3) * n, "b": [torch.zeros(3), n]}


def test_assumed_results_may_hold_tensors():
    @torch.compile(backend="eager", fullgraph=True)
    def f(x):
        found = table(4)
        return x * found["a"] + found["b"][0] + found["b"][1]

    assert f(torch.ones(3)).tolist() == [8, 8, 8]
