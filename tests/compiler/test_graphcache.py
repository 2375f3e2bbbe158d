"""FxGraphCache: graphs that were compiled before, told apart by all that decides their code."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.aot.tracing import make_fx
from rushlight.base.config import config as settings
from rushlight.base.counters import counters
from rushlight.codegen import config
from rushlight.codegen.cache import OBJECTS
from rushlight.compiler import compile_graph, graphcache, reset
from rushlight.compiler.graphcache import (
    BypassFxGraphCache,
    FxGraphCache,
    compiled_fx_graph_hash,
)

pytest.importorskip("llvmlite")
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def own_cache(tmp_path):
    FxGraphCache.forget()
    counters["inductor"].clear()
    with settings.patch(cache_dir=str(tmp_path)):
        yield
    FxGraphCache.forget()


def counts():
    found = {k.removeprefix("fxgraph_cache_"): n for k, n in counters["inductor"].items()}
    counters["inductor"].clear()
    return found


def traced(function, *inputs):
    return make_fx(function, tracing_mode="fake")(*inputs)


def wave(x):
    return x.sin() * 2 + x.cos()


def test_an_equal_graph_is_compiled_once():
    x = torch.linspace(-1, 1, 12).view(3, 4)
    first = compile_graph(traced(wave, x), [x])
    assert counts() == {"miss": 1}
    again = compile_graph(traced(lambda x: x.sin() * 2 + x.cos(), x), [x])
    assert counts() == {"hit": 1}
    assert again is first
    torch.testing.assert_close(again(x), wave(x))


@pytest.mark.parametrize(
    "other",
    [
        lambda: (wave, torch.ones(4, 3)),
        lambda: (wave, torch.ones(4, 3).t()),
        lambda: (wave, torch.ones(3, 4, dtype=torch.float64)),
        lambda: (lambda x: x.sin() * 3 + x.cos(), torch.ones(3, 4)),
        lambda: (lambda x: x.sin() * 2.0 + x.cos(), torch.ones(3, 4)),
        lambda: (lambda x: x.cos() * 2 + x.sin(), torch.ones(3, 4)),
        lambda: (lambda x: (x.sin() * 2 + x.cos(),), torch.ones(3, 4)),
    ],
)
def test_what_differs_is_compiled_for_itself(other):
    x = torch.ones(3, 4)
    compile_graph(traced(wave, x), [x])
    function, y = other()
    result = compile_graph(traced(function, y), [y])(y)
    assert counts() == {"miss": 2}
    torch.testing.assert_close(result, function(y))


def test_constants_are_themselves():
    def with_constant(values):
        module = torch.nn.Module()
        module.held = torch.tensor(values)
        graph = fx.Graph()
        x, held = graph.placeholder("x"), graph.get_attr("held")
        product = graph.call_function(aten.mul.Tensor, (x, held))
        graph.output((product,))
        x.meta["val"] = product.meta["val"] = torch.empty(2, device="meta")
        held.meta["val"] = torch.empty(2, device="meta")
        return fx.GraphModule(module, graph)

    x = torch.ones(2)
    first, second = with_constant([2.0, 3.0]), with_constant([2.0, 3.0])
    for module in (first, second):
        compile_graph(module, [x])
    assert counts() == {"miss": 2}
    first.held.fill_(7)
    assert compile_graph(first, [x])(x)[0].tolist() == [7.0, 7.0]
    assert compile_graph(second, [x])(x)[0].tolist() == [2.0, 3.0]
    assert counts() == {"hit": 2}


def test_users_operators_have_no_key():
    with torch.library._scoped_library("graphcachetest", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        x = torch.ones(2)
        module = traced(torch.ops.graphcachetest.twice, x)
        with pytest.raises(BypassFxGraphCache, match="graphcachetest::twice"):
            compiled_fx_graph_hash(module, [x], {}, ())
        for _ in range(2):
            assert compile_graph(module, [x])(x).tolist() == [2.0, 2.0]
    assert counts() == {"bypass": 2}


def test_off_means_off():
    x = torch.ones(3)
    with config.patch(fx_graph_cache=False):
        compile_graph(traced(wave, x), [x])
    assert counts() == {}
    assert not FxGraphCache.entries


def test_clear_forgets_graphs_and_object_code(tmp_path):
    x = torch.ones(300)
    key = compiled_fx_graph_hash(traced(wave, x), [x], {}, ())
    found = compile_graph(traced(wave, x), [x])
    assert FxGraphCache._lookup_graph(key, [x], True, None) is found
    assert FxGraphCache._lookup_graph(key, [x], False, None) is None
    assert any((tmp_path / OBJECTS.folder).rglob("*"))
    reset()
    assert FxGraphCache._lookup_graph(key, [x], True, None) is None
    assert any((tmp_path / OBJECTS.folder).rglob("*"))
    compile_graph(traced(wave, x), [x])
    FxGraphCache.clear()
    assert FxGraphCache._lookup_graph(key, [x], True, None) is None
    assert not any((tmp_path / OBJECTS.folder).rglob("*"))


def test_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(graphcache, "MOST", 2)
    inputs = [torch.ones(count) for count in (2, 3, 4)]
    for x in (*inputs[:2], inputs[0], inputs[2], inputs[0]):
        compile_graph(traced(wave, x), [x])
    assert counts() == {"miss": 3, "hit": 2}
    compile_graph(traced(wave, inputs[1]), [inputs[1]])
    assert counts() == {"miss": 1}
