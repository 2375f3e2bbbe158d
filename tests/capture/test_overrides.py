"""`__torch_function__` of modes and subclasses in captured code."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base.counters import counters
from rushlight.capture.marks import graph_break
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounterWithBackend
from rushlight.core.state import LOCAL
from tests.capture.profiles import called

LOG = []


@pytest.fixture(autouse=True)
def clean():
    yield
    assert LOCAL.state.function_modes == () and not LOCAL.state.excluded
    compiling.reset()


class Doubling(torch.Tensor):
    factor = 2

    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        result = super().__torch_function__(f, types, args, kwargs or {})
        return result * cls.factor if f in (torch.add, torch.Tensor.add) else result


class Tripling(Doubling):
    factor = 3


class Logging(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        LOG.append((f.__name__, len(types), len(args), sorted(kwargs or {})))
        return super().__torch_function__(f, types, args, kwargs or {})


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        return NotImplemented


class Raising(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        if f is torch.cos:
            raise ValueError("no cosine")
        return super().__torch_function__(f, types, args, kwargs or {})


class Quiet(torch.Tensor):
    __torch_function__ = torch.core.modes.disabled_torch_function_impl


class Holder:
    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        plain = [a.value if isinstance(a, cls) else a for a in args]
        return cls(f(*plain, **(kwargs or {})))


class Adding(torch.overrides.TorchFunctionMode):
    def __init__(self, k=1):
        super().__init__()
        self.k, self.seen = k, []

    def __torch_function__(self, f, types, args=(), kwargs=None):
        self.seen.append(f.__name__)
        result = f(*args, **(kwargs or {}))
        return result + self.k if f is torch.sin else result


KEPT = Adding(4)


def add(a, x):
    return torch.add(a, x), a + x, x + a, a


def methods(a, x):
    return a.sin().sum(0), a.view(-1), a.unbind(), a.max(0), a.shape, a.dtype


def writes(a, x):
    b = a * 1
    b.add_(x)
    b[0] = 5
    return b, b.t()


def writes_to_the_input(a, x):
    a.mul_(2)
    return a + x


def casts(a, x):
    b = x.as_subclass(Doubling)
    return b + x, b.as_subclass(torch.Tensor) + x, type(b) is Doubling, isinstance(a, Doubling)


def branch_on_class(a, x):
    return x + 1 if type(a) is Doubling else x + 2


def keyword(a, x):
    return torch.add(input=a, other=x, alpha=2), torch.stack([a, a]), torch.cat((x, a))


def switched_off(a, x):
    with OFF():
        b = a + x
    return b, a + x


def error(a, x):
    try:
        return torch.cos(a)
    except ValueError as problem:
        return torch.sin(a), str(problem)


def mode(a, x):
    with Adding() as m:
        y = torch.sin(x) + torch.cos(x)
    return y, torch.sin(x), m.seen


def mode_of_the_outside(a, x):
    with KEPT:
        y = torch.sin(x)
    return y, list(KEPT.seen)


def nested(a, x):
    with Adding(1), Adding(10):
        y = torch.sin(x) + a
    return y


def mode_and_exception(a, x):
    try:
        with Adding():
            y = torch.sin(x)
            raise KeyError("k")
    except KeyError:
        return y, torch.sin(x)


def mode_and_break(a, x):
    with Adding():
        y = torch.sin(x)
        graph_break()
        z = torch.sin(y)
    return z, torch.sin(z)


def modules_in_a_mode(a, x):
    with Adding() as m:
        y = LINEAR(x)
    return y, m.seen


def holder(a, x):
    return torch.add(Holder(x), 3).value, torch.mul(x, HOLDER).value


def factories(a, x):
    with Adding() as m:
        y = torch.ones(3) + torch.zeros(2, 3)
    return y, m.seen


OFF = torch.core.modes.DisableTorchFunctionSubclass
LINEAR = torch.nn.Linear(3, 3)
HOLDER = Holder(torch.ones(2, 3))
PROGRAMS = [
    add, methods, writes, writes_to_the_input, casts, branch_on_class, keyword, switched_off,
    error, mode, mode_of_the_outside, nested, mode_and_exception, mode_and_break,
    modules_in_a_mode, holder, factories,
]  # fmt: skip
CLASSES = [torch.Tensor, Doubling, Tripling, Logging, Raising, Quiet]


def shown(value):
    if isinstance(value, torch.Tensor):
        with OFF():
            return type(value).__name__, value.tolist(), value.requires_grad
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    return repr(value)


def outcome(f, cls, requires_grad):
    LOG.clear()
    KEPT.seen.clear()
    x = torch.arange(6.0).reshape(2, 3) / 4
    a = (torch.ones(2, 3) * 3).as_subclass(cls)
    if requires_grad:
        x.requires_grad_()
    try:
        found = f(a, x)
        same = [value is a for value in found] if isinstance(found, tuple) else found is a
        if requires_grad:
            first = found[0] if isinstance(found, tuple) else found
            with OFF():
                first.sum().backward()
            found = found, x.grad
        return shown(found), same, list(LOG), shown(a)
    except Exception as problem:
        return type(problem).__name__, str(problem)[:60]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_overrides_are_asked_as_in_eager_code(program, backend):
    compiled = torch.compile(program, backend=backend)
    for requires_grad in (False, True):
        for cls in CLASSES * 2:
            want = outcome(program, cls, requires_grad)
            got = outcome(compiled, cls, requires_grad)
            if backend == "inductor":
                want, got = rounded(want), rounded(got)
            assert got == want, cls


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("program", [add, methods, keyword, mode, nested, holder, factories])
def test_overrides_are_in_the_graph(program):
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(program, backend=counter, fullgraph=True)
    want = outcome(program, Doubling, False)
    assert outcome(compiled, Doubling, False) == want
    assert counter.frame_count == 1
    x, a = torch.ones(2, 3), torch.ones(2, 3).as_subclass(Doubling)
    with called(__file__) as codes:
        compiled(a, x)
    # No handler of the user's runs.
    assert [code.co_name for code in codes] == [program.__name__]


def test_a_break_inside_a_mode_ends_the_graph_before_it():
    counters.clear()
    compiled = torch.compile(mode_and_break, backend="eager")
    assert outcome(compiled, torch.Tensor, False) == outcome(mode_and_break, torch.Tensor, False)
    assert any("mode of __torch_function__" in reason for reason in counters["graph_break"])


def test_all_handlers_decline():
    def f(a, x):
        return torch.add(a, x)

    assert outcome(f, Refusing, False)[0] == "TypeError"
    assert outcome(torch.compile(f, backend="eager"), Refusing, False)[0] == "TypeError"


def test_a_handler_that_is_exchanged_is_seen():
    class Changing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            return super().__torch_function__(f, types, args, kwargs or {})

    def f(a):
        return torch.sin(a) * 2

    compiled = torch.compile(f, backend="eager")
    a = torch.ones(2).as_subclass(Changing)
    compiled(a)
    Changing.__torch_function__ = classmethod(lambda cls, f, types, args=(), kwargs=None: 7)
    assert compiled(a) == f(a) == 14


class Noted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        result = super().__torch_function__(f, types, args, kwargs or {})
        if isinstance(result, Noted):
            result.note = f.__name__
            result.parents = [a for a in args if isinstance(a, Noted)]
        return result


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_handler_puts_attributes_on_results(backend):
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(lambda x: (x.sin() + 1, x.note), backend=counter, fullgraph=True)
    for note in ("a", "a", "b"):
        x = torch.ones(3).as_subclass(Noted)
        x.note = note
        got, seen = compiled(x)
        assert (type(got), got.note, seen) == (Noted, "add", note)
        assert [parent.note for parent in got.parents] == ["sin"]
        assert got.parents[0].parents[0] is x
    assert counter.frame_count == 1
