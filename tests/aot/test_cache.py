"""AOTAutogradCache: what is found again, what is not kept, and its files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.aot import api, cache, config
from rushlight.aot.api import aot_module_simplified
from rushlight.aot.cache import AOTAutogradCache, BypassAOTAutogradCache
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition
from rushlight.aot.tracing import make_fx
from rushlight.base.config import config as settings
from rushlight.codegen import lower
from rushlight.core.fake import FakeTensorMode
from rushlight.core.modes import TorchDispatchMode
from rushlight.higher_order.cond import cond
from rushlight.higher_order.effects import EffectType, register_effectful_op
from rushlight.nn.module import register_module_forward_hook
from rushlight.symbolic.shapeenv import ShapeEnv
from tests.aot.caching import (
    HIT,
    MISS,
    Layers,
    aten,
    compiled,
    counts,
    entries,
    graph_of,
    plain_inputs,
    scaled,
    with_constant,
    with_number,
)
from tests.aot.test_subclasses import Pair, pair

pytestmark = pytest.mark.usefixtures("folder")


class Everything(torch.nn.Module):
    """Writes, views, constants, modules, aliases of intermediates."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.drop = torch.nn.Dropout(0.5).eval()
        self.register_buffer("count", torch.zeros(()))
        self.constant = torch.full((3,), 0.5)

    def forward(self, x, y):
        self.count.add_(x.detach().sum() * 0 + 1)
        h = self.drop(self.layer(x)) * self.constant
        t = h.sin()
        y.t().mul_(2)
        return t, t.view(-1), y[0], x, torch.nn.functional.relu(h), x.view(-1)[1:]


def everything():
    net = Everything()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).view(p.shape))
    return net, fx.symbolic_trace(net)


def run_both(net, f):
    found = []
    for call in (net, f):
        net.zero_grad()
        with torch.no_grad():
            net.count.zero_()
        x = torch.linspace(0, 1, 6).view(2, 3).requires_grad_()
        y = torch.ones(2, 3)
        results = call(x, y)
        (results[0].sum() + results[4].sum()).backward()
        found.append(
            [
                [r.tolist() for r in results],
                [(r.shape, r.stride(), r.requires_grad) for r in results],
                results[3] is x,
                results[2]._base is y,
                y.tolist(),
                net.count.item(),
                x.grad.tolist(),
                [p.grad.tolist() for p in net.parameters()],
            ]
        )
    assert found[1] == found[0]


def test_second_time_nothing_is_traced(monkeypatch):
    args = [torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)]
    net, module = everything()
    run_both(net, aot_module_simplified(module, args, nop))
    assert counts() == MISS
    net, module = everything()
    monkeypatch.setattr(api, "trace_flat", lambda *args: pytest.fail("traced again"))
    run_both(net, aot_module_simplified(module, args, nop))
    assert counts() == HIT


def test_graphs_are_as_traced():
    seen = []

    def show(graph, inputs):
        metas = [
            (n.name, n.meta.get("tensor_meta"), n.meta.get("stack_trace"))
            for n in graph.graph.nodes
        ]
        shapes = [None if v is None else (v.shape, v.stride(), v.requires_grad) for v in inputs]
        seen.append((graph.code, graph.print_readable(print_output=False), metas, shapes))
        # Compilers may change what they are given.
        for node in graph.graph.nodes:
            node.meta.clear()
        return graph

    args = [torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)]
    for _ in range(2):
        _, module = everything()
        f = aot_module_simplified(module, args, show)
        f(args[0], torch.ones(2, 3))[0].sum().backward()
    assert counts() == {"miss": 1, "saved": 1, "hit": 1}
    assert len(seen) == 4
    assert seen[:2] == seen[2:]


def test_found_graphs_become_native_code():
    pytest.importorskip("llvmlite")
    args = [torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)]
    sources = []

    def native(graph, inputs):
        made = lower(graph, inputs)
        sources.append(str(made))
        return made

    results = []
    for _ in range(2):
        _, module = everything()
        f = aot_module_simplified(module, args, native)
        found = f(args[0], torch.ones(2, 3))
        (gradient,) = torch.autograd.grad(found[0].sum(), args[0])
        results.append([value.tolist() for value in (*found, gradient)])
    assert counts() == {"miss": 1, "saved": 1, "hit": 1}
    assert sources[:2] == sources[2:]
    assert results[0] == results[1]


@pytest.mark.parametrize("debug", [False, True])
def test_aliased_and_duplicated_inputs(debug):
    def build(graph, a, b, c):
        graph.call_function(aten.mul_.Tensor, (a, 2))
        return graph.call_function(aten.add.Tensor, (b, c))

    results = []
    with config.patch(debug_assert=debug):
        for _ in range(2):
            x = torch.arange(4.0)
            a = x[:3]
            f = compiled(graph_of(build), [a, x[1:], a])
            y = torch.arange(4.0)
            b = y[:3]
            results.append((f(b, y[1:], b)[0].tolist(), y.tolist()))
            with pytest.raises(AssertionError, match=r"graph \d+ was compiled"):
                f(b, y[1:], torch.ones(3))
    assert counts() == {"miss": 1, "saved": 1, "hit": 1}
    assert results == [([2.0, 6.0, 7.0], [0.0, 2.0, 4.0, 3.0])] * 2


@pytest.mark.parametrize("path", ["held", "inner.held"])
def test_constants_of_the_module_stay_the_modules(path):
    for expected in (MISS, HIT):
        module, constant = with_constant([1.0, 2.0], path)
        f = compiled(module, [torch.ones(2)])
        assert counts() == expected
        assert f(torch.ones(2))[0].tolist() == [1.0, 2.0]
        constant.fill_(7)
        assert f(torch.ones(2))[0].tolist() == [7.0, 7.0]


def returns_scalar_product(graph, a, b, c):
    return graph.call_function(aten.mul.Tensor, (a, graph.call_function(torch.tensor, (2.5,))))


def test_constants_made_while_tracing_are_kept_in_the_entry():
    for expected in (MISS, HIT):
        f = compiled(graph_of(returns_scalar_product))
        assert counts() == expected
        assert f(*plain_inputs())[0].tolist() == [[2.5] * 3] * 4


def test_branches_are_kept_as_graphs_in_graphs():
    def choose(x):
        return (cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)),)

    for expected in (MISS, HIT):
        module = make_fx(choose, tracing_mode="fake")(torch.ones(3))
        f = compiled(module, [torch.ones(3, requires_grad=True)])
        assert counts() == expected
        for number in (1.0, -1.0):
            x = torch.full((3,), number, requires_grad=True)
            f(x)[0].sum().backward()
            wanted = torch.cos(x) if number > 0 else -torch.sin(x)
            assert torch.equal(x.grad, wanted.detach())


def test_subclasses_are_kept_by_name():
    for expected in (MISS, HIT):
        x = pair(1.0, 2.0, needs=True)
        f = compiled(graph_of(scaled), [x, torch.ones(2), torch.ones(2)])
        assert counts() == expected
        y = f(x, torch.ones(2), torch.ones(2))[0]
        assert type(y) is Pair
        y.sum().backward()
        assert type(x.grad) is Pair
        assert torch.equal(x.grad.b, torch.cos(x.b.detach()) * 2)
    noted = Pair(torch.ones(2), torch.ones(2), note="another context")
    compiled(graph_of(scaled), [noted, torch.ones(2), torch.ones(2)])
    assert counts() == MISS

    class Local(Pair):
        pass

    hidden = Local(torch.ones(2), torch.ones(2))
    with pytest.raises(BypassAOTAutogradCache, match="Local, which its name does not find"):
        compiled(graph_of(scaled), [hidden, torch.ones(2), torch.ones(2)])


# -- what is not kept ------------------------------------------------------------------------------


def user_function(x):
    return x.sin()


def calls_user_function(graph, a, b, c):
    return graph.call_function(user_function, (a,))


def reads_gradient(graph, a, b, c):
    graph.call_function(getattr, (a, "grad"))
    return graph.call_function(aten.sin.default, (a,))


class Logged(torch.Tensor):
    pass


def reads_seed(graph, a, b, c):
    seed = graph.call_function(torch.initial_seed)
    return graph.call_function(aten.mul.Scalar, (a, seed))


def bypass_cases():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    return {
        "which is no operator": (graph_of(calls_user_function), plain_inputs(), {}),
        "initial_seed": (graph_of(reads_seed), plain_inputs(), {}),
        "a read of grad": (graph_of(reads_gradient), plain_inputs(), {}),
        "beside symbolic sizes": (
            graph_of(scaled),
            [mode.from_tensor(plain_inputs()[0]), *plain_inputs()[1:]],
            {},
        ),
        "which its name does not find": (
            graph_of(scaled),
            plain_inputs(),
            {"partition_fn": lambda *args, **kwargs: default_partition(*args, **kwargs)},
        ),
    }


@pytest.mark.parametrize(
    "reason",
    [
        "which is no operator",
        "initial_seed",
        "a read of grad",
        "beside symbolic sizes",
        "which its name does not find",
    ],
)
def test_bypasses_are_counted_and_raised_in_strict_mode(folder, reason):
    module, args, options = bypass_cases()[reason]
    with pytest.raises(BypassAOTAutogradCache, match=reason):
        compiled(module, args, **options)
    assert counts() == {"bypass": 1}
    with config.patch(strict_autograd_cache=False):
        compiled(module, args, **options)
    assert counts() == {"bypass": 1}
    assert entries(folder) == []


def test_modes_hooks_and_users_kernels_bypass():
    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Watch(), pytest.raises(BypassAOTAutogradCache, match="dispatch_modes"):
        compiled()
    module = fx.symbolic_trace(Layers())
    module.layer.register_forward_hook(lambda *args: None)
    with pytest.raises(BypassAOTAutogradCache, match="hooks"):
        compiled(module, [torch.ones(2, 3)])
    handle = register_module_forward_hook(lambda *args: None)
    try:
        with pytest.raises(BypassAOTAutogradCache, match="hooks of all modules"):
            compiled()
    finally:
        handle.remove()
    library = torch.library.Library("aten", "IMPL")
    library.impl("sin", lambda x: x.cos(), "CPU")
    try:
        with pytest.raises(BypassAOTAutogradCache, match="aten::sin"):
            compiled()
    finally:
        library._destroy()
    counts()
    compiled()
    assert counts() == MISS


def test_users_operators_bypass():
    with torch.library._scoped_library("cachetest", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        op = torch.ops.cachetest.twice.default
        module = graph_of(lambda graph, a, b, c: graph.call_function(op, (a,)))
        with pytest.raises(BypassAOTAutogradCache, match="cachetest::twice"):
            compiled(module)


def test_off_means_off(folder):
    with config.patch(enable_autograd_cache=False):
        compiled()
    assert counts() == {}
    assert entries(folder) == []


# -- files -----------------------------------------------------------------------------------------


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def other_body(data):
    """Whole by its checksum, but of another program."""
    cache.ENTRIES.write("0" * 64, b'{"wrappers": 3}')
    return Path(cache.ENTRIES.path_of("0" * 64)).read_bytes()


@pytest.mark.parametrize(
    "damage",
    [lambda d: b"", lambda d: b"nonsense", lambda d: d[: len(d) // 2], flipped, other_body],
)
def test_damaged_entries_are_ignored_and_written_again(folder, damage):
    compiled()
    (path,) = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    counts()
    compiled()
    assert counts() == MISS
    assert path.read_bytes() == whole
    compiled()
    assert counts() == HIT


def test_clear_forgets(folder):
    compiled()
    AOTAutogradCache.clear()
    assert entries(folder) == []
    counts()
    compiled()
    assert counts() == MISS


def test_unusable_folder_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with settings.patch(cache_dir=str(tmp_path / "file")):
        compiled()
        compiled()
    assert counts() == {"miss": 2}


def write_and_die():
    # Killed when everything is written but the name.
    os.replace = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    compiled()


def test_a_killed_writer_leaves_nothing_that_is_found(folder):
    child = multiprocessing.get_context("fork").Process(target=write_and_die)
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert len(entries(folder)) == 1
    compiled()
    assert counts() == MISS
    compiled()
    assert counts() == HIT


def work_for_many(barrier, answers):
    barrier.wait(60)
    for number in range(5):
        result = compiled(graph_of(with_number(float(number))))(*plain_inputs())[0]
        expected = plain_inputs()[0].sin() * float(number)
        answers.put(bool(torch.equal(result, expected)))


def test_eight_writers_at_once(folder):
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(8), context.Queue()
    children = [context.Process(target=work_for_many, args=(barrier, answers)) for _ in range(8)]
    for child in children:
        child.start()
    found = [answers.get(timeout=120) for _ in range(40)]
    for child in children:
        child.join(60)
    assert all(found)
    assert [child.exitcode for child in children] == [0] * 8
    assert len(entries(folder)) == 5
    for number in range(5):
        compiled(graph_of(with_number(float(number))))
    assert counts() == {"hit": 5}


OTHER_PROCESS = """
    import sys
    sys.path.insert(0, {tests!r})
    import rushlight as torch
    from rushlight import fx
    from rushlight.aot import api, config
    from rushlight.aot.compilers import nop
    from rushlight.base.counters import counters

    if sys.argv[1] == "hit":
        def refuse(*args):
            raise AssertionError("traced again")
        api.trace_flat = refuse
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net
        def forward(self, x):
            y = self.net(x)
            return y, y.view(-1)
    with config.patch(enable_autograd_cache=True, strict_autograd_cache=True):
        f = api.aot_module_simplified(fx.symbolic_trace(Net()), [torch.ones(2, 3)], nop)
    found, view = f(torch.ones(2, 3))
    assert torch.equal(found, net(torch.ones(2, 3)))
    assert view._base is (found if found._base is None else found._base)
    found.sum().backward()
    assert net[0].weight.grad is not None
    print(dict(counters["aot_autograd"]))
"""


def test_another_process_hits(tmp_path, folder):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(OTHER_PROCESS.format(tests=str(tmp_path))))
    root = str(Path(torch.__file__).parents[1])
    variables = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(folder), "PYTHONPATH": root}
    found = [
        subprocess.run(
            [sys.executable, str(script), wanted],
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
        for wanted in ("miss", "hit")
    ]
    assert [run.stderr for run in found] == ["", ""]
    assert "'autograd_cache_saved': 1" in found[0].stdout
    assert found[1].stdout == "{'autograd_cache_hit': 1}\n"


def test_graphs_with_tokens_are_cached(folder, capsys):
    def f(x):
        torch.ops.aten._print("one")
        return [x.sin()]

    graph = make_fx(f)(torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    capsys.readouterr()
    for expected in (MISS, HIT):
        shapes = []

        def keep(graph, examples, shapes=shapes):
            shapes += [tuple(value.shape) for value in examples]
            return graph

        (result,) = aot_module_simplified(graph, [x], keep, nop)(x)
        assert counts() == expected
        assert shapes == [(0,), (2,)]
        result.sum().backward()
        assert capsys.readouterr().out == "one\n"
    handle = register_effectful_op("aten::sin", EffectType.ORDERED)
    try:
        aot_module_simplified(graph, [x], keep, nop)(x)
        assert counts() == MISS
    finally:
        handle.destroy()
    aot_module_simplified(graph, [x], keep, nop)(x)
    assert counts() == HIT
