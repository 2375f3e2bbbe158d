"""Grad mode, inference mode and autocast: captured as parts of graphs, open across breaks."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.autograd import graph
from rushlight.autograd.grad_mode import write_grad
from rushlight.base.counters import counters
from rushlight.capture.marks import graph_break
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter
from rushlight.core.state import LOCAL


@pytest.fixture(autouse=True)
def clean():
    state = LOCAL.state
    before = state.grad, state.inference, state.autocast, len(state.entered)
    yield
    assert state.saved_hooks_disabled is None
    assert (state.grad, state.inference, state.autocast, len(state.entered)) == before
    compiling.reset()


REGION = torch.autocast("cpu", dtype=torch.bfloat16)
NO_GRAD = torch.no_grad()


def autocast_block(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
    return y, x @ w


def autocast_object(x, w):
    with REGION:
        y = x @ w
    return y, x @ w


@torch.autocast("cpu", dtype=torch.bfloat16)
def autocast_decorator(x, w):
    return x @ w


def nested_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ w
        with torch.autocast("cpu", enabled=False):
            b = x @ w
        c = x @ w, torch.is_autocast_enabled("cpu")
    return a, b, c, torch.is_autocast_enabled("cpu")


def autocast_left_by_an_exception(x, w):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            raise ValueError("out")
    except ValueError:
        z = x @ w
    return y, z


def inference_block(x, w):
    with torch.inference_mode():
        y = x * w
        grad = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return y + 0, grad, torch.is_inference_mode_enabled(), (x * w)


def no_grad_object(x, w):
    with NO_GRAD:
        y = x * w
    return y, x * w


def switched_by_a_call(x, w):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x * w
    torch.set_grad_enabled(before)
    return y, x * w


@torch.no_grad()
def no_grad_decorator(x, w):
    return x * w


def decorated_inside(x, w):
    @torch.no_grad()
    def first(a):
        return a * w

    @torch.set_grad_enabled(False)
    def second(a):
        return a + w

    with torch.no_grad():
        third = torch.enable_grad(lambda a: a - w)
        fourth = torch.inference_mode(lambda a: a / w)
    return first(x), second(x), third(x), fourth(x) + 0, x * w, torch.is_grad_enabled()


def switched_by_the_private_name(x, w):
    write_grad(False)
    y = x * w
    write_grad(True)
    return y, x * w


def hooks_are_forbidden(x, w):
    asked = [graph.saved_tensors_hooks_enabled()]
    with graph.disable_saved_tensors_hooks("not here"):
        asked.append(graph.saved_tensors_hooks_enabled())
        with graph.disable_saved_tensors_hooks("nor here"):
            y = x * w
        asked.append(graph.saved_tensors_hooks_enabled())
    return y, *asked, graph.saved_tensors_hooks_enabled()


WHOLE = [
    autocast_block, autocast_object, autocast_decorator, nested_autocast,
    autocast_left_by_an_exception, inference_block, no_grad_object, switched_by_a_call,
    no_grad_decorator, decorated_inside, switched_by_the_private_name, hooks_are_forbidden,
]  # fmt: skip


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.requires_grad, value.float().tolist()
    return [shown(item) for item in value] if isinstance(value, tuple) else value


def inputs():
    torch.manual_seed(0)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", WHOLE, ids=lambda f: f.__name__)
def test_captured_whole(program, backend):
    compiled = torch.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        assert shown(compiled(*inputs())) == shown(program(*inputs()))


def broken_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        graph_break()
        z = x @ w, torch.is_autocast_enabled("cpu")
    return y, z, x @ w


def broken_in_an_object(x, w):
    with REGION:
        graph_break()
        y = x @ w
    graph_break()
    return y, x @ w


def broken_nest(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            graph_break()
            z = x @ w
        a = x @ w
    return y, z, a, x @ w


def broken_inference(x, w):
    with torch.inference_mode():
        y = x * w
        graph_break()
        z = x * w, torch.is_inference_mode_enabled()
    return y, z, torch.is_inference_mode_enabled(), x * w


def raised_behind_a_break(x, w):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            y = x @ w
            graph_break()
            raise KeyError("q")
    except KeyError:
        z = x @ w
    return y, z


def broken_where_hooks_are_forbidden(x, w):
    with graph.disable_saved_tensors_hooks("not here"):
        y = x * w
        graph_break()
        try:
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                z = x * w
        except RuntimeError as error:
            return y + 1, str(error)
    return y, z


def in_a_callee(x, w):
    y = broken_autocast(x, w)
    return y, x @ w


BROKEN = [
    broken_autocast, broken_in_an_object, broken_nest, broken_inference, raised_behind_a_break,
    in_a_callee,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", BROKEN, ids=lambda f: f.__name__)
def test_open_across_a_break(program, backend):
    counter = CompileCounter()
    torch.compile(program, backend=counter)(*inputs())
    assert counter.frame_count >= 2
    compiled = torch.compile(program, backend=backend)
    for _ in range(3):
        assert shown(compiled(*inputs())) == shown(program(*inputs()))


@pytest.mark.parametrize("region", ["autocast", "inference", "device"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_captured_inside_a_region(region, backend):
    regions = {
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        "inference": torch.inference_mode,
        "device": lambda: torch.device("cpu"),
    }

    def f(x, w):
        return x @ w, torch.ones(2) * 2

    counter = CompileCounter()
    compiled = torch.compile(f, backend=counter if backend == "eager" else backend)
    for _ in range(2):
        with regions[region]():
            assert shown(compiled(*inputs())) == shown(f(*inputs()))
        assert shown(compiled(*inputs())) == shown(f(*inputs()))
    if backend == "eager":
        assert counter.frame_count == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_stay_forbidden_over_a_break(backend):
    compiled = torch.compile(broken_where_hooks_are_forbidden, backend=backend)
    for _ in range(2):
        assert shown(compiled(*inputs())) == shown(broken_where_hooks_are_forbidden(*inputs()))


def test_whether_hooks_are_forbidden_outside_is_guarded():
    def f(x):
        allowed = graph.saved_tensors_hooks_enabled()
        with graph.disable_saved_tensors_hooks("inside"):
            y = x * 2
        return y, allowed, graph.saved_tensors_hooks_enabled()

    compiled, x = torch.compile(f, backend="eager", fullgraph=True), torch.ones(2)
    for _ in range(2):
        assert compiled(x)[1:] == (True, True)
        with graph.disable_saved_tensors_hooks("outside"):
            assert compiled(x)[1:] == (False, False)
            assert LOCAL.state.saved_hooks_disabled == "outside"
    assert LOCAL.state.saved_hooks_disabled is None


def test_what_is_not_followed_is_counted():
    counters.clear()
    counter = CompileCounter()
    f = torch.compile(lambda x: x.sin() * 2, backend=counter)
    x = torch.ones(3)
    assert torch.equal(torch.func.vmap(f)(x), x.sin() * 2)
    assert torch.equal(torch.func.vmap(f)(x), x.sin() * 2)
    assert not counter.frame_count
    assert dict(counters["graph_break"]) == {"active: a transform of torch.func": 1}
    f(x)
    assert counter.frame_count == 1


def test_a_decorated_function_that_breaks_is_compiled_by_itself():
    counter = CompileCounter()

    @torch.no_grad()
    def callee(x, w):
        y = x * w
        graph_break()
        return y + 1

    def caller(x, w):
        return callee(x * 2, w) - 1

    want = caller(*inputs())
    compiled = torch.compile(caller, backend=counter)
    for _ in range(2):
        assert shown(compiled(*inputs())) == shown(want)
    assert counter.frame_count == 4
