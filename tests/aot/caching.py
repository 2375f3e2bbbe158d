"""What the tests of the cache of graphs share."""

from __future__ import annotations

import rushlight as torch
from rushlight import fx
from rushlight.aot.api import aot_module_simplified
from rushlight.aot.compilers import nop
from rushlight.base.counters import counters

aten = torch.ops.aten


def counts():
    """Counts since the last question."""
    found = {
        name.removeprefix("autograd_cache_"): n for name, n in counters["aot_autograd"].items()
    }
    counters["aot_autograd"].clear()
    return found


MISS = {"miss": 1, "saved": 1}
HIT = {"hit": 1}


def entries(folder):
    return [path for path in (folder / "aot").rglob("*") if path.is_file()]


def graph_of(build):
    """A graph module of ops: `build(graph, inputs)` gives the outputs of three inputs."""
    graph = fx.Graph()
    inputs = [graph.placeholder(name) for name in "abc"]
    graph.output((build(graph, *inputs),))
    return fx.GraphModule(torch.nn.Module(), graph)


def scaled(graph, a, b, c, op=aten.sin.default, number=2.0):
    return graph.call_function(aten.mul.Scalar, (graph.call_function(op, (a,)), number))


def plain_inputs():
    return [torch.ones(4, 3), torch.ones(4, 3), torch.ones(4, 3)]


def compiled(module=None, args=None, **options):
    module = graph_of(scaled) if module is None else module
    return aot_module_simplified(module, plain_inputs() if args is None else args, nop, **options)


def with_number(number):
    return lambda graph, a, b, c: scaled(graph, a, b, c, number=number)


def with_constant(values, path="held"):
    """A graph with a tensor of its own, which is no input: a plain attribute."""
    graph = fx.Graph()
    a = graph.placeholder("a")
    held = graph.call_function(aten.lift_fresh_copy.default, (graph.get_attr(path),))
    graph.output((graph.call_function(aten.mul.Tensor, (a, held)),))
    module = fx.GraphModule({path: torch.tensor(values)}, graph)
    *owners, name = path.split(".")
    owner = module.get_submodule(".".join(owners))
    constant = owner._buffers.pop(name)
    object.__setattr__(owner, name, constant)
    return module, constant


class Layers(torch.nn.Module):
    def __init__(self, p=0.5, bias=True):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3, bias=bias)
        self.drop = torch.nn.Dropout(p)

    def forward(self, x):
        return (self.drop(self.layer(x)),)
