"""`torch.compile` with tensors: graphs are the program, guards are sound, breaks keep effects."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.base.counters import counters
from rushlight.capture.exc import BackendCompilerFailed, InvalidBackend, Unsupported
from rushlight.capture.guards import Kept
from rushlight.capture.marks import graph_break
from rushlight.compiler import compiling
from rushlight.compiler.backends import BACKENDS, list_backends, register_backend
from rushlight.compiler.counting import CompileCounter, EagerAndRecordGraphs
from rushlight.compiler.sizes import mark_dynamic, mark_static
from rushlight.nn.module import register_module_forward_hook
from tests.capture.profiles import called

BACKEND_NAMES = ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.dtype == b.dtype
            and a.requires_grad == b.requires_grad
            and a.stride() == b.stride()
            and torch.allclose(a, b, rtol=1e-5, atol=1e-6)
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b


def fresh(v):
    if isinstance(v, torch.Tensor):
        return v.detach().clone().requires_grad_(v.requires_grad)
    if isinstance(v, (list, tuple)):
        return type(v)(map(fresh, v))
    return v


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
        self.head = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
        )
        self.scale, self.calls = 2.0, 0

    def forward(self, x, *, k=1):
        self.calls += 1
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x)) * self.scale + i * k
        if self.training:
            x = x + 1
        return {"y": self.head(x), "x": [x]}


def twins():
    a, b = Net(), Net()
    b.load_state_dict(a.state_dict())
    return a, b


# -- graphs ----------------------------------------------------------------------------------------


def test_the_graph_alone_gives_the_outputs():
    seen = []

    def backend(gm, example_inputs):
        def run(*inputs):
            outputs = gm.forward(*inputs)
            seen.append((gm, inputs, outputs))
            return outputs

        return run

    net, _ = twins()
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    x = torch.randn(3, 4)
    result = compiled(x)
    ((gm, inputs, outputs),) = seen
    assert all(same(a, b) for a, b in zip(gm(*inputs), outputs))
    assert any(same(result["y"], out) for out in outputs)
    # All parameters are inputs, and only tensors are.
    assert len(inputs) == 1 + len(list(net.parameters()))


def test_no_user_code_runs_on_a_hit():
    net, _ = twins()
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    x = torch.randn(3, 4)
    for _ in range(4):
        compiled(x)
    with called() as seen:
        compiled(x)
    assert seen
    assert Net.forward.__code__ not in seen
    assert torch.nn.Linear.forward.__code__ not in seen


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_training_with_every_backend(backend):
    net, reference = twins()
    compiled = torch.compile(net, backend=backend)
    for step in range(3):
        x = torch.randn(3, 4)
        got, want = compiled(x), reference(x)
        assert same(got, want), step
        got["y"].sum().backward()
        want["y"].sum().backward()
        assert net.calls == reference.calls
    for a, b in zip(net.parameters(), reference.parameters()):
        assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_sizes_that_change_with_every_backend(backend):
    def f(x):
        return (x.reshape(x.shape[0] * 2, -1) * x.size(0)).sum(0)

    compiled = torch.compile(f, backend=backend)
    for n in (2, 3, 5, 7):
        x = torch.randn(n, 4)
        assert same(f(x), compiled(x))


# -- guards ----------------------------------------------------------------------------------------


class Holder:
    def __init__(self):
        self.factor = 2.0
        self.table = {"k": 3.0}
        self.items = [1.0, 2.0]
        self.weight = torch.ones(2)

    def method(self, x):
        return x * self.factor


GLOBAL = 5.0


def helper(x, bias=1.0, *, more=0.5):
    return x + bias + more


def reader(x, holder):
    y = holder.method(x) * holder.table["k"] + holder.items[1] * GLOBAL
    return helper(y * holder.weight, more=0.25)


def set_global(holder):
    global GLOBAL
    GLOBAL = 7.0


def set_default(holder):
    helper.__defaults__ = (3.0,)


CHANGES = {
    "attribute": lambda h: setattr(h, "factor", 3.0),
    "item of a dict": lambda h: h.table.update(k=4.0),
    "key of a dict": lambda h: h.table.update(other=1.0),
    "item of a list": lambda h: h.items.__setitem__(1, 9.0),
    "length of a list": lambda h: h.items.append(3.0),
    "values of a tensor": lambda h: h.weight.add_(1),
    "another tensor": lambda h: setattr(h, "weight", torch.ones(2, dtype=torch.double)),
    "a tensor that needs gradients": lambda h: h.weight.requires_grad_(),
    "a tensor of another size": lambda h: setattr(h, "weight", torch.ones(3, 2)),
    "type of an attribute": lambda h: setattr(h, "factor", 3),
    "method on the instance": lambda h: setattr(h, "method", lambda x: x * 10),
    "method of the class": lambda h: setattr(Holder, "method", lambda self, x: x * 11),
    "global": set_global,
    "default": set_default,
    "unrelated attribute": lambda h: setattr(h, "unrelated", 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_read_may_change(name, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "GLOBAL", 5.0)
    monkeypatch.setattr(helper, "__defaults__", (1.0,))
    monkeypatch.setattr(Holder, "method", Holder.method)
    counter = CompileCounter()
    compiled = torch.compile(reader, backend=counter, fullgraph=True)
    holder, x = Holder(), torch.randn(2)
    assert same(reader(x, holder), compiled(x, holder))
    CHANGES[name](holder)
    assert same(reader(x, holder), compiled(x, holder))
    unread = ("unrelated attribute", "values of a tensor", "key of a dict")
    expected = 1 if name in unread else 2
    assert counter.frame_count == expected


def test_global_state_is_guarded():
    def f(x):
        return x * 2 if torch.is_grad_enabled() else x * 3

    counter = CompileCounter()
    compiled = torch.compile(f, backend=counter)
    x = torch.randn(3)
    assert same(f(x), compiled(x))
    with torch.no_grad():
        assert same(f(x), compiled(x))
    assert counter.frame_count == 2
    assert same(f(x), compiled(x))
    assert counter.frame_count == 2

    def made(x):
        return torch.ones(2) + 1

    compiled = torch.compile(made, backend=counter)
    assert compiled(x).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(x).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_tensor_given_twice():
    def f(a, b):
        a.add_(1)
        return (a * b if a is b else a + b), a is b

    counter = CompileCounter()
    compiled = torch.compile(f, backend=counter)
    for given in ((0, 1), (0, 0), (0, 1)):
        tensors = [torch.ones(3), torch.full((3,), 2.0)]
        others = fresh(tensors)
        got = compiled(*[tensors[i] for i in given])
        assert same(f(*[others[i] for i in given]), got)
        assert same(others, tensors)
    assert counter.frame_count == 2


SIZES = [
    (None, [2, 2, 3, 4, 5, 1, 0], [1, 1, 2, 2, 2, 3, 4]),
    (True, [2, 3, 4, 1, 0], [1, 1, 1, 2, 3]),
    (False, [2, 3, 4, 5], [1, 2, 3, 4]),
]


@pytest.mark.parametrize(("dynamic", "sizes", "counts"), SIZES)
def test_recompilation_by_sizes(dynamic, sizes, counts):
    def f(x):
        return x.sin() + x.shape[0]

    counter = CompileCounter()
    compiled = torch.compile(f, backend=counter, dynamic=dynamic)
    found = []
    for n in sizes:
        x = torch.randn(n)
        assert same(f(x), compiled(x))
        found.append(counter.frame_count)
    assert found == counts


def test_recompilation_by_numbers():
    counter = CompileCounter()
    compiled = torch.compile(lambda x, n: x * n, backend=counter)
    found = []
    for n in (1, 1, 2, 3, 4):
        assert same(torch.ones(2) * n, compiled(torch.ones(2), n))
        found.append(counter.frame_count)
    assert found == [1, 1, 2, 2, 2]


def test_marks_of_sizes():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counter)
    for n in (3, 4, 5):
        x = torch.randn(n)
        mark_dynamic(x, 0)
        assert same(x + 1, compiled(x))
    assert counter.frame_count == 1
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counter, dynamic=True)
    for n in (3, 4):
        x = torch.randn(n)
        mark_static(x)
        compiled(x)
    assert counter.frame_count == 2


# -- breaks ----------------------------------------------------------------------------------------


def with_print(x):
    y = x * 2
    print("seen")
    return y + 1


def with_item(x):
    y = x * 2
    with torch.no_grad():
        z = y + 1
        z = z * float(z.sum().item())
    return z, y * z


def with_branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def with_loop(x):
    for i in range(4):
        x = torch.sin(x) + i
        print(end="")
        x = torch.cos(x)
    return x


def with_try(x):
    try:
        y = x * 2
        raise_if_large(y)
        y = y + 1
    except ValueError:
        y = x - 1
    return y * 2


def raise_if_large(y):
    if y.sum().item() > 10:
        raise ValueError


BREAKS = [
    (with_print, 2, [torch.ones(2)]),
    (with_item, 2, [torch.ones(2), torch.ones(2, requires_grad=True)]),
    (with_branch, 3, [torch.ones(2), -torch.ones(2)]),
    (with_loop, None, [torch.ones(2)]),
    (with_try, None, [torch.ones(2), torch.full((2,), 10.0)]),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case[0].__name__)
def test_breaks(case, backend, capsys):
    f, graphs, inputs = case
    seen = []

    def count(gm, example_inputs):
        seen.append(gm)
        return BACKENDS[backend][0](gm, example_inputs)

    compiled = torch.compile(f, backend=count)
    for number, x in enumerate(inputs):
        for _ in range(2):
            assert same(f(x), compiled(x))
            assert torch.is_grad_enabled()
        if number == 0 and graphs is not None:
            assert len(seen) == min(graphs, 2)
    texts = capsys.readouterr().out
    assert texts.count("seen") == (4 if f is with_print else 0)


def test_a_break_in_a_callee_is_the_callers():
    def inner(x):
        a = x + 1
        print(end="")
        return a * 2

    def outer(x):
        y = x * 3
        return inner(y) + y

    counter = CompileCounter()
    compiled = torch.compile(outer, backend=counter)
    x = torch.randn(2)
    assert same(outer(x), compiled(x))
    assert (counter.frame_count, counter.op_count) == (4, 4)


def test_explain():
    found = compiling.explain(with_print)(torch.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 2)
    assert "print" in found.break_reasons[0]


# -- modules ---------------------------------------------------------------------------------------


def test_optimized_modules():
    net, reference = twins()
    compiled = torch.compile(net, backend="eager")
    assert isinstance(compiled, torch.nn.Module)
    assert compiled._orig_mod is net
    assert all(key.startswith("_orig_mod.") for key in compiled.state_dict())
    assert compiled.scale == 2.0
    compiled.scale = reference.scale = 3.0
    assert net.scale == 3.0
    x = torch.randn(2, 4)
    assert same(reference(x), compiled(x))
    compiled.eval()
    reference.eval()
    assert not net.training
    assert same(reference(x), compiled(x))
    assert len(list(compiled.parameters())) == len(list(net.parameters()))


def test_hooks_are_captured():
    def pre(module, args):
        module.seen = "pre"
        return (args[0] * 2,)

    def post(module, args, result):
        module.seen += " post"
        return result + 1

    net = torch.nn.Linear(4, 4)
    counter = CompileCounter()
    compiled = torch.compile(net, backend=counter, fullgraph=True)
    x = torch.randn(2, 4)
    assert same(net(x), compiled(x))
    handles = [net.register_forward_pre_hook(pre), net.register_forward_hook(post)]
    want = net(x)
    del net.seen
    for _ in range(3):
        assert same(want, compiled(x))
        assert net.seen == "pre post"
    assert counter.frame_count == 2
    for handle in handles:
        handle.remove()
    assert same(net(x), compiled(x))
    assert counter.frame_count == 2


def test_optimiser_updates_do_not_recompile():
    net, _ = twins()
    counter = CompileCounter()
    compiled = torch.compile(net.head, backend=counter)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        compiled(torch.randn(2, 4)).sum().backward()
        optimiser.step()
    assert counter.frame_count == 1


# -- the API ---------------------------------------------------------------------------------------


def test_forms_of_compile():
    @torch.compile
    def bare(x):
        return x + 1

    @torch.compile(backend="eager")
    def given(x):
        """Text."""
        return x + 1

    class Holds:
        @staticmethod
        @torch.compile(backend="eager")
        def static(x):
            return x + 1

        def method(self, x):
            return x + 1

    x = torch.ones(2)
    assert given.__doc__ == "Text."
    method = torch.compile(Holds().method, backend="eager")
    library = torch.compile(torch.sin, backend="eager")
    assert same(library(x), torch.sin(x))
    for f in (bare, given, Holds.static, Holds().static, method):
        assert same(f(x), x + 1)
    assert torch.compile(given, disable=True) is given
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(given, mode="default", options={})


def test_backends():
    assert "inductor" in list_backends()
    assert "eager" not in list_backends()
    assert "eager" in list_backends(exclude_tags=None)
    with pytest.raises(InvalidBackend, match="Invalid backend: 'none'"):
        torch.compile(backend="none")(lambda x: x)

    def failing(gm, example_inputs):
        raise ValueError("no")

    with pytest.raises(BackendCompilerFailed, match="backend='failing' raised:"):
        torch.compile(lambda x: x + 1, backend=failing)(torch.ones(1))
    with pytest.raises(BackendCompilerFailed):
        torch.compile(lambda x: x + 1, backend=lambda gm, inputs: 3)(torch.ones(1))
    with pytest.raises(AssertionError, match="duplicate name"):
        register_backend(failing, name="eager")
    counter = CompileCounter()
    assert torch.compile(lambda x: (x, 1), backend=counter)(3) == (3, 1)
    assert counter.frame_count == 0


def test_fullgraph_says_what_where_and_what_to_do():
    with pytest.raises(Unsupported, match="builtin: print") as caught:
        torch.compile(with_print, backend="eager", fullgraph=True)(torch.ones(1))
    assert "test_torch.py:" in str(caught.value)


def test_disabled_functions_run_as_they_are():
    seen = []

    @torch.compiler.disable
    def plain(x):
        seen.append(1)
        return x * 2

    def f(x):
        return plain(x + 1) + 1

    counter = CompileCounter()
    compiled = torch.compile(f, backend=counter)
    for _ in range(3):
        assert same(f(torch.ones(2)), compiled(torch.ones(2)))
    assert len(seen) == 6
    assert counter.frame_count == 2


def test_is_compiling_is_true_in_captured_code():
    def f(x):
        return x + 1 if torch.compiler.is_compiling() else x

    assert same(torch.compile(f, backend="eager")(torch.ones(1)), torch.full((1,), 2.0))
    assert same(f(torch.ones(1)), torch.ones(1))


def test_compiled_functions_in_compiled_functions():
    inner = torch.compile(lambda x: x * 2, backend="eager")
    counter = EagerAndRecordGraphs()
    outer = torch.compile(lambda x: inner(x) + 1, backend=counter, fullgraph=True)
    assert same(outer(torch.ones(2)), torch.full((2,), 3.0))
    assert len(counter.graphs) == 1


def test_a_compiled_function_behind_a_break_is_called():
    inner, outer = CompileCounter(), CompileCounter()

    @torch.compile(backend=inner)
    def callee(x):
        y = x + 1
        print(end="")
        return y * 2

    def caller(x):
        return callee(x * 3) - 1

    compiled = torch.compile(caller, backend=outer)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [7.0, 7.0]
    assert (inner.frame_count, outer.frame_count) == (2, 2)


def test_functions_live_on_after_a_reset():
    counter = CompileCounter()
    scale = [2.0]
    f = torch.compile(lambda x: x * scale[0] + torch.ones(2), backend=counter)
    for number in range(4):
        scale[0] = float(number)
        for _ in range(3):
            assert f(torch.ones(2)).tolist() == [number + 1.0] * 2
        assert counter.frame_count == number + 1
        compiling.reset()


def test_generators_run_as_they_are():
    def f(x):
        yield x
        yield x + 1

    compiled = torch.compile(f, backend="eager")
    assert same(list(compiled(torch.ones(2))), list(f(torch.ones(2))))


def test_a_frame_that_cannot_be_captured_is_not_tried_for_ever():
    def f(x):
        return x + len(locals())

    compiled = torch.compile(f, backend="eager")
    counters.clear()
    for _ in range(20):
        assert same(f(torch.ones(2)), compiled(torch.ones(2)))
    assert counters["graph_break"] == {"builtin: locals": 8}


# -- autograd.Function -----------------------------------------------------------------------------


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k, y):
        ctx.k = k
        ctx.save_for_backward(x, y)
        return x * y * k

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * ctx.k, None, g * x * ctx.k


class OutputGuard(torch.autograd.Function):
    """Its backward depends on which gradients there are."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, a, b):
        return (a if b is None else b) * 10


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_functions(backend):
    def f(a, b):
        return Scale.apply(a, 3, b).sin()

    compiled = torch.compile(f, backend=backend, fullgraph=True)
    a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    for given in ((a, b), (a, a), (a.detach(), b.detach()), (a, b.detach())):
        got, want = compiled(*given), f(*given)
        assert same(got, want)
        if want.requires_grad:
            leaves = [t for t in {id(t): t for t in given}.values() if t.requires_grad]
            grads = torch.autograd.grad(got.sum(), leaves)
            assert same(grads, torch.autograd.grad(want.sum(), leaves))


def test_a_backward_that_depends_on_missing_gradients_is_not_captured():
    def f(x):
        return OutputGuard.apply(x)

    compiled = torch.compile(f, backend="eager")
    x = torch.randn(3, requires_grad=True)
    for which in (0, 1):
        grads = [torch.autograd.grad(g(x)[which].sum(), x)[0] for g in (f, compiled)]
        assert same(*grads)
    with pytest.raises(Unsupported, match="set_materialize_grads"):
        torch.compile(f, backend="eager", fullgraph=True)(x)


def test_a_wrong_number_of_gradients_is_an_error_of_backward():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g

    compiled = torch.compile(lambda x: Wrong.apply(x, 2), backend="eager", fullgraph=True)
    y = compiled(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match=r"WrongBackward .* \(expected 2, got 1\)"):
        y.sum().backward()


# -- whole models ----------------------------------------------------------------------------------


class Attention(torch.nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.embed = torch.nn.Embedding(10, width)

    def forward(self, index):
        x = self.embed(index) + self.embed(torch.arange(index.size(1)))
        b, t, c = x.shape
        parts = self.qkv(self.norm(x)).split(c, dim=2)
        q, k, v = [p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, t, c)


class Convolution(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.flatten(F.max_pool2d(F.relu(self.norm(self.conv(x))), 2), 1)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = torch.nn.LSTM(4, 8, batch_first=True)

    def forward(self, x):
        y, (h, _) = self.cells(x)
        return y[:, -1] + h[0]


MODELS = {
    "attention": (Attention, lambda: torch.randint(0, 10, (2, 5))),
    "convolution": (Convolution, lambda: torch.randn(2, 3, 8, 8)),
    "recurrent": (Recurrent, lambda: torch.randn(2, 5, 4)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_one_graph(name, backend):
    make, sample = MODELS[name]
    model, reference = make(), make()
    reference.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for _ in range(2):
        x = sample()
        got, want = compiled(x), reference(x)
        assert torch.allclose(got, want, rtol=1e-4, atol=1e-5)
        got.sum().backward()
        want.sum().backward()
    for a, b in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-4)
    for a, b in zip(model.buffers(), reference.buffers()):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


# -- guards that look at little -------------------------------------------------------------------


def linear_pair():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def test_hooks_for_all_modules_after_compiling():
    module, x = linear_pair(), torch.randn(5, 3)
    compiled = torch.compile(lambda x: module(x) + 1, backend="eager")
    before = compiled(x)
    handle = register_module_forward_hook(lambda m, a, out: out * 2)
    try:
        torch.testing.assert_close(compiled(x), module(x) + 1)
        assert not torch.allclose(compiled(x), before)
    finally:
        handle.remove()
    torch.testing.assert_close(compiled(x), before)


MODULE_CHANGES = {
    "data": lambda m: setattr(m[0].weight, "data", torch.randn(4, 3)),
    "data of another dtype": lambda m: m.double(),
    "in place": lambda m: m[0].weight.data.mul_(2),
    "another parameter": lambda m: setattr(m[0], "weight", torch.nn.Parameter(torch.ones(4, 3))),
    "requires_grad": lambda m: m[0].weight.requires_grad_(False),
    "tied": lambda m: setattr(m[0], "bias", torch.nn.Parameter(torch.zeros(4))),
    "exchanged": lambda m: m.load_state_dict(linear_pair().state_dict(), assign=True),
    "no tensor": lambda m: setattr(m[0], "bias", None),
    "a hook": lambda m: m[1].register_forward_hook(lambda m, a, out: out + 1),
    "a hook before": lambda m: m[0].register_forward_pre_hook(lambda m, a: (a[0] * 2,)),
    "forward": lambda m: setattr(m[1], "forward", lambda x: x - 1),
    "strides": lambda m: setattr(m[0].weight, "data", torch.randn(3, 4).t()),
}


@pytest.mark.parametrize("name", MODULE_CHANGES)
def test_changes_of_modules_are_seen(name):
    module, x = linear_pair(), torch.randn(5, 3)
    compiled = torch.compile(module, backend="aot_eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(x), module(x))
    MODULE_CHANGES[name](module)
    x = x.to(module[0].weight.dtype)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), module(x))
        flags = [p.requires_grad for p in module.parameters()]
        assert compiled(x).requires_grad == any(flags)


def test_arrays_that_are_gone_are_forgotten():
    kept = Kept(2)
    arrays = [torch.ones(3)._array for _ in range(3)]
    kept.note(arrays[0], arrays[1])
    assert kept.numbers == [id(arrays[0]), id(arrays[1])]
    arrays[0] = None
    assert kept.numbers == [0, id(arrays[1])]
    kept.note(arrays[2], arrays[2])
    assert kept.numbers == [0, id(arrays[1])]
    kept.note(arrays[2], arrays[1])
    arrays.clear()
    assert kept.numbers == [0, 0]


def test_parameters_that_become_one_and_two():
    def f(a, b):
        return a * 2 + b

    compiled = torch.compile(f, backend="eager")
    one, two = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.full((3,), 5.0))
    for a, b in ((one, two), (one, two), (one, one), (two, one), (two, two), (one, two)):
        assert compiled(a, b).tolist() == f(a, b).tolist()
    shared = torch.nn.Parameter(torch.zeros(3))
    shared.data = one.data
    for a, b in ((one, shared), (shared, one), (one, one), (one, shared)):
        assert compiled(a, b).tolist() == f(a, b).tolist()


def test_modes_and_options():
    seen = []

    def backend(gm, inputs, **tuning):
        seen.append(tuning)
        return gm.forward

    for tuning in ({"mode": "max-autotune"}, {"options": {"level": 3}}, {"mode": "default"}):
        compiled = torch.compile(lambda x: x + 1, backend=backend, **tuning)
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert seen == [{"mode": "max-autotune"}, {"options": {"level": 3}}, {}]
    torch.compile(lambda x: x + 1, mode="reduce-overhead")
    with pytest.raises(RuntimeError, match="Unrecognized mode=fastest, should be one of: default"):
        torch.compile(lambda x: x + 1, mode="fastest")
    with pytest.raises(RuntimeError, match="Unexpected optimization option level"):
        torch.compile(lambda x: x + 1, options={"level": 3})


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiling_keeps_no_input_alive(backend):
    class Box:
        pass

    def f(x, box):
        y = x * 2
        graph_break()
        return y + box.value

    compiled = torch.compile(f, backend=backend)
    box, x = Box(), torch.ones(3)
    box.value = torch.ones(3)
    compiled(x, box)
    gone = weakref.ref(box), weakref.ref(x), weakref.ref(box.value)
    gc.disable()
    try:
        del box, x
        assert [reference() for reference in gone] == [None, None, None]
    finally:
        gc.enable()


def test_a_generator_that_is_left_ends_when_nobody_holds_it():
    log = []

    def steps(x):
        try:
            yield x
            yield x + 1
        finally:
            log.append("end")

    def f(x):
        y = next(steps(x)) * 2
        log.append("after")
        return y

    compiled = torch.compile(f, backend="eager")
    for _ in range(3):
        log.clear()
        compiled(torch.ones(2))
        assert sorted(log) == ["after", "end"]
