"""Names around `torch.compile`: stances, marks, logs, reports, modules compiled in place."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.capture import marks
from rushlight.capture.exc import Unsupported
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter, EagerAndRecordGraphs


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.lin(x).relu()


# -- modules in place ------------------------------------------------------------------------------


def test_a_module_compiled_in_place():
    net, x, counter = Net(), torch.randn(3, 2), CompileCounter()
    want = net(x)
    assert net.compile(backend=counter) is None
    assert torch.equal(net(x), want)
    assert torch.equal(net(x), want)
    assert counter.frame_count == 1
    assert counter.op_count == 2
    # Hooks are part of the call.
    handle = net.register_forward_hook(lambda m, a, r: r * 2)
    assert torch.equal(net(x), want * 2)
    assert counter.frame_count == 2
    handle.remove()
    assert torch.equal(net(x), want)
    assert list(net.state_dict()) == ["lin.weight", "lin.bias"]


def test_copies_of_a_module_compiled_in_place_are_not_compiled():
    net, x, counter = Net(), torch.randn(3, 2), CompileCounter()
    net.compile(backend=counter)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        with torch.no_grad():
            other.lin.weight.zero_()
            other.lin.bias.fill_(3.0)
        assert torch.equal(other(x), torch.full((3, 2), 3.0))
    assert counter.frame_count == 0
    net(x)
    assert counter.frame_count == 1


def test_a_compiled_part_of_a_compiled_module():
    inner, outer = CompileCounter(), CompileCounter()
    net = torch.nn.Sequential(Net(), Net())
    net[0].compile(backend=inner)
    compiled = torch.compile(net, backend=outer)
    x = torch.randn(3, 2)
    assert torch.equal(compiled(x), net(x))
    assert outer.frame_count == 1
    assert outer.op_count == 4


# -- stances ---------------------------------------------------------------------------------------


def test_force_eager():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x * 2, backend=counter)
    x = torch.ones(2)
    compiled(x)
    with torch.compiler.set_stance("force_eager"):
        compiled(x)
        compiled(torch.ones(2, 2))
        fresh = torch.compile(lambda x: x + 1, backend=counter)
        fresh(x)
    assert counter.frame_count == 1
    compiled(x)
    assert counter.frame_count == 1
    compiled(torch.ones(2, 2))
    fresh(x)
    assert counter.frame_count == 3


def test_stances_about_recompiling():
    counter = CompileCounter()
    f = torch.compile(lambda x: x * 2, backend=counter)
    f(torch.ones(2))
    with torch.compiler.set_stance("eager_on_recompile"):
        assert f(torch.ones(2, 2)).shape == (2, 2)
    assert counter.frame_count == 1
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match="Detected recompile.*fail_on_recompile"),
    ):
        f(torch.ones(2, 2))
    with torch.compiler.set_stance("fail_on_recompile"):
        f(torch.ones(2))

    @torch.compiler.set_stance("eager_then_compile")
    def train(x):
        return g(x)

    g = torch.compile(lambda x: x - 1, backend=counter)
    train(torch.ones(2))
    assert counter.frame_count == 1
    train(torch.ones(2))
    assert counter.frame_count == 2
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        torch.compiler.set_stance("other")


def test_a_stance_set_in_compiled_code():
    inner, outer = CompileCounter(), CompileCounter()
    g = torch.compile(lambda x: x - 1, backend=inner)

    def f(x):
        y = x * 2
        with torch.compiler.set_stance("force_eager"):
            y = g(y)
        return g(y) + 1

    compiled = torch.compile(f, backend=outer)
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [1.0, 1.0]
    assert outer.frame_count


def test_a_backend_forced_by_a_stance():
    first, second = CompileCounter(), CompileCounter()
    f = torch.compile(lambda x: x * 2, backend=first)
    x = torch.ones(2)
    f(x)
    with torch.compiler.set_stance("default", force_backend=second):
        f(x)
    f(x)
    assert (first.frame_count, second.frame_count) == (2, 1)


def test_the_default_backend():
    counter = CompileCounter()
    assert torch.compiler.get_default_backend() == "inductor"
    torch.compiler.set_default_backend(counter)
    try:
        torch.compile(lambda x: x * 2)(torch.ones(2))
    finally:
        torch.compiler.set_default_backend("inductor")
    assert counter.frame_count == 1


# -- marks -----------------------------------------------------------------------------------------


def test_results_assumed_constant():
    calls = []

    @torch.compiler.assume_constant_result
    def k(n):
        calls.append(n)
        return len(calls) + n

    f = torch.compile(lambda x: x * k(2), backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert f(x).tolist() == f(x).tolist() == [3.0, 3.0]
    assert calls == [2]


def test_results_of_tensors_and_objects_assumed_constant():
    class Cut(torch.nn.Module):
        @torch.compiler.assume_constant_result
        def length(self, y):
            return y.int().item()

        def forward(self, x, y):
            return x[: self.length(y)] + shift(2)

    @torch.compiler.assume_constant_result
    def shift(n):
        return torch.full((2,), float(n))

    f = torch.compile(Cut(), backend="eager", fullgraph=True)
    assert f(torch.zeros(3, 2), torch.tensor(2)).tolist() == [[2.0, 2.0]] * 2
    assert f(torch.zeros(3, 2), torch.tensor(1)).shape == (2, 2)
    computed = torch.compile(lambda x: x + shift(x.sum()), backend="eager", fullgraph=True)
    with pytest.raises(Unsupported, match="value of a tensor"):
        computed(torch.ones(2))


def test_substitutes():
    def native(x):
        return math.erf(float(x))

    with pytest.raises(TypeError, match="the same parameters"):
        torch.compiler.substitute_in_graph(native)(lambda y: y)
    try:

        @torch.compiler.substitute_in_graph(native)
        def traceable(x):
            return torch.erf(x)

        f = torch.compile(lambda x: native(x) + 1, backend="eager", fullgraph=True)
        assert torch.allclose(f(torch.tensor(0.5)), torch.erf(torch.tensor(0.5)) + 1)
        with pytest.raises(ValueError, match="already"):
            torch.compiler.substitute_in_graph(native)(traceable)
    finally:
        marks.SUBSTITUTES.pop(native)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nested_regions(backend):
    scale = torch.tensor(3.0)

    @torch.compiler.nested_compile_region
    def layer(x, k):
        return x.sin() * scale * k

    def f(x):
        return layer(layer(x, 2), 3) + 1

    x = torch.randn(3)
    recorder = EagerAndRecordGraphs()
    assert torch.allclose(torch.compile(f, backend=recorder, fullgraph=True)(x), f(x))
    (gm,) = recorder.graphs
    assert sum("run_region" in str(node.target) for node in gm.graph.nodes) == 2
    assert torch.allclose(torch.compile(f, backend=backend, fullgraph=True)(x), f(x))


# -- what users are told ---------------------------------------------------------------------------


def broken(x):
    y = x + 1
    print(end="")
    return y * 2


def test_logs(capsys):
    with config.patch(logs="graph_breaks,recompiles,guards,graph_code"):
        f = torch.compile(broken, backend="eager")
        f(torch.ones(2))
        f(torch.ones(3))
    told = capsys.readouterr().err
    assert "[graph_breaks]" in told
    assert "test_api.py" in told
    assert 'print(end="")' in told
    assert "RL0753: builtin: print" in told
    assert "[recompiles] broken" in told
    assert "L['x'] is a Tensor of torch.float32" in told
    assert "[guards] broken" in told
    assert "[graph_code] def forward(self, L_x_" in told
    f(torch.ones(2, 2))
    assert capsys.readouterr().err == ""


def test_kernels_are_told(capsys):
    pytest.importorskip("llvmlite")
    with config.patch(logs="kernel"):
        torch.compile(lambda x: x.sin() * 2)(torch.ones(5))
    assert "[kernel]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "code", "remedy"),
    [
        (broken, "RL0753", "substitute_in_graph"),
        (lambda x: x if x.sum() > 0 else -x, "RL0750", "torch.where"),
        (lambda x: x * x.data_ptr(), "RL0751", "tensor"),
    ],
)
def test_errors_of_fullgraph(program, code, remedy):
    with pytest.raises(Unsupported) as caught:
        torch.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    text = str(caught.value)
    assert caught.value.code == code
    assert code in text
    assert remedy in text
    line = program.__code__.co_firstlineno + (2 if program is broken else 0)
    assert f"test_api.py:{line}" in text


def test_report(tmp_path):
    page = torch.viz.compiled(broken)(torch.ones(2))
    assert "2 graphs, 1 break, 2 operators" in page
    assert 'class="break"' in page
    assert "builtin: print" in page
    assert "return y * 2" in page
    assert "graph 1" in page
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x)


class Fivefold(Linear):
    def forward(self, x):
        return x * 5


class Called(Linear):
    def __call__(self, x):
        return x * 9


def of_the_object(module, patch):
    module.forward = lambda x: x * 3


def another_class(module, patch):
    module.__class__ = Fivefold


def of_the_class(module, patch):
    patch.setattr(Linear, "forward", lambda self, x: x * 7)


def another_call(module, patch):
    module.__class__ = Called


@pytest.mark.parametrize("change", [of_the_object, another_class, of_the_class, another_call])
def test_a_compiled_module_follows_a_forward_that_is_replaced(change, monkeypatch):
    module, x = Linear(), torch.ones(2)
    compiled = torch.compile(module, backend="eager")
    before = module(x)
    for _ in range(3):
        assert torch.equal(compiled(x), before)
    with monkeypatch.context() as patch:
        change(module, patch)
        for _ in range(3):
            assert torch.equal(compiled(x), module(x))
    module.__dict__.pop("forward", None)
    module.__class__ = Linear
    for _ in range(3):
        assert torch.equal(compiled(x), before) and torch.equal(compiled(x=x), before)
