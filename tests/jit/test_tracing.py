"""`trace` and `trace_module`: what they take, refuse, warn of, and check."""

from __future__ import annotations

import gc
import threading
import warnings
from collections import OrderedDict, namedtuple

import pytest

import rushlight as torch
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Node
from rushlight.jit.ir.types import ClassType
from rushlight.jit.unit import Function
from rushlight.testing import FileCheck

nn = torch.nn
trace = torch.jit.trace
Pair = namedtuple("Pair", "a b")


def kinds(graph):
    return [node.kind() for node in graph.nodes() if node.kind() != "prim::Constant"]


@pytest.fixture
def recorded():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


# -- targets and arguments


class Doubler(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x, y=None):
        return x * self.weight if y is None else x * self.weight + y

    def other(self, x):
        return x - self.weight


def test_module_by_itself_and_by_its_forward():
    x = torch.ones(2)
    assert isinstance(trace(Doubler(), x), torch.jit.TopLevelTracedModule)
    assert isinstance(trace(Doubler().forward, x), torch.jit.TopLevelTracedModule)
    with pytest.raises(AttributeError, match="trace doesn't support compiling individual module"):
        trace(Doubler().other, x)


def test_script_modules_come_back(recorded):
    traced = trace(Doubler(), torch.ones(2))
    assert trace(traced, torch.ones(2)) is traced
    assert "already a ScriptModule" in str(recorded[-1].message)


def test_no_deprecation_is_told(recorded):
    trace(Doubler(), torch.ones(2))
    trace(lambda x: x + 1, torch.ones(2))
    assert recorded == []


def test_example_inputs_in_all_forms():
    x = torch.ones(2)
    assert trace(lambda a: a + 1, x)(x).tolist() == [2, 2]
    assert trace(lambda a, b: a + b, [x, x])(x, x).tolist() == [2, 2]
    assert trace(lambda a, b: a + b, (each for each in (x, x)))(x, x).tolist() == [2, 2]
    assert trace(lambda d: d["k"] + 1, {"k": x})({"k": x}).tolist() == [2, 2]
    assert trace(lambda: torch.ones(1), ())().tolist() == [1]
    with pytest.raises(TypeError, match="not iterable"):
        trace(lambda a: a)


def test_keyword_inputs():
    x = torch.ones(2)
    traced = trace(lambda a, b: a - b, example_kwarg_inputs={"b": x * 3, "a": x})
    assert [value.debugName() for value in traced.graph.inputs()] == ["a", "b"]
    assert traced(b=x, a=x * 2).tolist() == [1, 1]
    module = trace(Doubler(), example_kwarg_inputs={"y": x, "x": x})
    assert module(x, x).tolist() == [2, 2]
    with pytest.raises(NameError, match="'z' is not in forward"):
        trace(Doubler(), example_kwarg_inputs={"z": x})
    with pytest.raises(RuntimeError, match="example_kwarg_inputs should be a dict"):
        trace(Doubler())


def test_the_same_tensor_twice_by_keyword():
    x = torch.ones(2)
    traced = trace(lambda a, b: a - b * 2, example_kwarg_inputs={"a": x, "b": x})
    assert traced(x * 5, x).tolist() == [3, 3]


def test_optimize_does_nothing_but_warn(recorded):
    trace(lambda x: x, torch.ones(1), optimize=True)
    assert recorded[0].category is FutureWarning


def test_several_methods():
    x = torch.ones(2)
    traced = torch.jit.trace_module(Doubler(), {"forward": x, "other": x})
    assert traced.other(x).tolist() == [0, 0]
    assert kinds(traced.other.graph) == ["prim::GetAttr", "aten::sub"]
    assert traced._c._method_names() == ["forward", "other"]
    with pytest.raises(AttributeError, match="expected torch.nn.Module as the first argument"):
        torch.jit.trace_module(3, {})
    with pytest.raises(AttributeError, match="expected a dictionary"):
        torch.jit.trace_module(Doubler(), x)


def test_names_of_functions():
    assert trace(lambda x: x, torch.ones(1)).name == "_lambda"

    def with_a_name(x):
        return x

    traced = trace(with_a_name, torch.ones(1))
    assert traced.qualified_name.endswith("test_tracing.with_a_name")
    assert str(traced.schema) == "with_a_name(Tensor x) -> Tensor"


# -- what stays behind


def test_errors_leave_nothing_behind():
    own = Tensor.shape

    def broken(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        trace(broken, torch.ones(1))
    assert LOCAL.state.tracer is None
    assert Tensor.shape is own
    assert type(torch.ones(3).size(0)) is int


def test_traces_do_not_nest():
    with pytest.raises(RuntimeError, match="Tracing can't be nested"):
        trace(lambda x: trace(lambda y: y + 1, x)(x), torch.ones(1))
    assert not torch.jit.is_tracing()


def test_is_tracing():
    seen = []

    def f(x):
        seen.append(torch.jit.is_tracing())
        return x + 1

    trace(f, torch.ones(1), check_trace=False)
    assert seen == [True]


def test_other_threads_see_ints():
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(type(x.size(0))))
        thread.start()
        thread.join()
        seen.append(type(x.size(0)))
        return x + 1

    trace(f, torch.ones(3), check_trace=False)
    assert seen == [int, Tensor]


def test_an_engine_without_traces_is_as_it_was():
    before = {name: vars(Tensor)[name] for name in ("shape", "size", "numel", "__len__", "item")}
    trace(lambda x: x.view(x.shape), torch.ones(3))
    assert before == {name: vars(Tensor)[name] for name in before}


# -- inputs


def test_input_structures():
    x = torch.ones(2)
    seen = []

    def f(pair, entries):
        seen.append((type(pair), type(entries)))
        return pair[0] + entries["k"][1]

    traced = trace(f, (Pair(x, x), OrderedDict(k=[x, x * 2])), check_trace=False)
    assert seen == [(tuple, dict)]
    assert str(traced.schema) == "f((Tensor, Tensor) pair, Dict(str, Tensor[]) entries) -> Tensor"
    assert traced([x, x], {"k": (x, x), "more": [x]}).tolist() == [2, 2]


def test_unlike_tensors_in_a_dict():
    given = {"a": torch.ones(2, dtype=torch.int32), "b": torch.ones(3, 2)}
    traced = trace(lambda d: d["a"] + d["b"], given)
    FileCheck().check("Dict(str, Tensor)").check("Int(2").check("Float(3, 2").run(traced.graph)


def test_entries_that_nobody_uses_are_not_asked_for():
    traced = trace(lambda d: d["a"] + 1, {"a": torch.ones(1), "b": torch.ones(1)})
    assert traced({"a": torch.zeros(1)}).item() == 1
    with pytest.raises(RuntimeError, match="KeyError"):
        traced({"b": torch.zeros(1)})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (({},), "Dictionary inputs must have entries"),
        (([],), "List trace inputs must have elements"),
        (({"k": []},), "List trace inputs must have elements"),
        (
            ([torch.ones(1), (torch.ones(1),)],),
            r"consistent element type. Found Tensor and Tuple\[Tensor\]",
        ),
        (({"a": torch.ones(1), 1: torch.ones(1)},), "consistent type. Found str and int"),
        ((1,), r"Type 'Tuple\[int\]' cannot be traced"),
        ((torch.ones(1), "s"), r"Type 'Tuple\[Tensor, str\]' cannot be traced"),
        ((None,), r"Type 'Tuple\[NoneType\]' cannot be traced"),
    ],
)
def test_inputs_that_are_refused(given, message):
    with pytest.raises(RuntimeError, match=message):
        trace(lambda *args: 1 / 0, given)


def test_input_that_is_a_parameter():
    module = Doubler()
    traced = trace(module, module.weight)
    assert traced(torch.full((2,), 3.0)).tolist() == [3, 3]


# -- outputs


@pytest.mark.parametrize(
    ("function", "strict", "message"),
    [
        (lambda x: {"a": x}, True, "Encountering a dict at the output of the tracer"),
        (lambda x: {1: x}, False, "cannot be understood by the tracer, only outputs matching"),
        (lambda x: {"a": (x, 1)}, False, "cannot be understood by the tracer"),
        (lambda x: [[x]], False, "Only tensors, lists, tuples of tensors, or dictionary"),
        (lambda x: [1], True, "Only tensors"),
        (lambda x: 3, True, "Only tensors"),
        (lambda x: None, True, "didn't return any values"),
    ],
)
def test_outputs_that_are_refused(function, strict, message):
    with pytest.raises(RuntimeError, match=message):
        trace(function, torch.ones(1), strict=strict)


def test_lists_are_warned_of(recorded):
    trace(lambda x: [x + 1], torch.ones(1), check_trace=False)
    assert [w.category for w in recorded] == [torch.jit.TracerWarning]
    assert "might cause the trace to be incorrect" in str(recorded[0].message)
    del recorded[:]
    trace(lambda x: [x + 1], torch.ones(1), check_trace=False, strict=False)
    assert recorded == []


def test_output_from_outside():
    outside = torch.ones(1)
    with pytest.raises(RuntimeError, match="did not have observable data dependence"):
        trace(lambda x: outside, torch.ones(1))


def test_empty_and_single_tuples():
    assert trace(lambda x: (), torch.ones(1))(torch.ones(1)) == ()
    result = trace(lambda x: (x + 1,), torch.ones(1))(torch.ones(1))
    assert isinstance(result, tuple) and len(result) == 1


# -- constants


def test_captured_tensors_with_gradients_are_refused():
    weight = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a const"):
        trace(lambda x: x * weight, torch.ones(2))
    with torch.no_grad(), pytest.raises(RuntimeError, match="Cannot insert a Tensor"):
        trace(lambda x: x * weight, torch.ones(2))


def test_captured_tensors_are_one_constant():
    weight = torch.ones(2)
    graph = trace(lambda x: x * weight + weight, torch.ones(2)).graph
    held = [n for n in graph.nodes() if n.hasAttribute("value") and n.kindOf("value") == "t"]
    assert len(held) == 1


def test_made_inside_may_require_gradients():
    def f(x):
        w = torch.ones(2).requires_grad_()
        return x * w

    assert trace(f, torch.ones(2))(torch.ones(2)).tolist() == [1, 1]


# -- warnings


def warning_texts(function, *inputs, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        trace(function, inputs, check_trace=False, **options)
    assert {w.category for w in found} <= {torch.jit.TracerWarning}
    assert {w.filename for w in found} <= {__file__}
    return [str(w.message) for w in found]


def test_what_leaves_the_trace_is_warned_of():
    def f(x):
        int(x[0])
        bool(x[0] > 0)
        float(x[0])
        complex(x[0])
        x[0].item()
        x.tolist()
        x.numpy()
        len(x)
        for _ in x:
            pass
        torch.tensor([1.0])
        torch.as_tensor([1.0])
        return x + 1

    expected = [
        "a Python integer", "a Python boolean", "a Python float", "a Python complex",
        "a Python number", "a Python list", "a NumPy array", "Using len", "Iterating over",
        "torch.tensor results", "torch.as_tensor results",
    ]  # fmt: skip
    texts = warning_texts(f, torch.ones(2))
    assert len(texts) == len(expected)
    for text, part in zip(texts, expected, strict=True):
        assert part in text


def test_what_stays_inside_is_not_warned_of():
    def f(x):
        y = [1, 2, 3][torch.zeros((), dtype=torch.int64)]
        for step in range(x.size(0)):
            y = y + step
        return x.view(x.size(0), -1) + y + x[: x.size(0)].sum()

    assert warning_texts(f, torch.ones(2)) == []


def test_library_code_is_not_warned_of():
    module = nn.Sequential(nn.BatchNorm1d(2), nn.LSTM(2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(module, torch.rand(3, 2), check_trace=False)


# -- out of place


def test_forced_out_of_place():
    def f(x):
        y = torch.empty(2).fill_(7)
        z = torch.ones(2).zero_()
        w = torch.zeros(2)
        w.copy_(x)
        w.tanh_()
        return y + z + w

    traced = trace(f, torch.ones(2), _force_outplace=True)
    found = kinds(traced.graph)
    assert "aten::full_like" in found and "aten::zeros_like" in found
    assert "aten::expand_as" in found and "aten::tanh" in found
    assert not any(kind.endswith("_") for kind in found)
    assert torch.equal(traced(torch.full((2,), 2.0)), f(torch.full((2,), 2.0)))


def test_writes_through_views_are_warned_of_out_of_place():
    def by_view(x):
        y = x.clone()
        y.view(-1).add_(1)
        return y

    def by_assignment(x):
        y = x.clone()
        y[0, 1] = 4
        return y

    (text,) = warning_texts(by_view, torch.ones(2, 2), _force_outplace=True)
    assert "There are 2 live references" in text and "operator add_." in text
    (text,) = warning_texts(by_assignment, torch.ones(2, 2), _force_outplace=True)
    assert "copy_ (possibly due to an assignment)" in text
    assert warning_texts(by_view, torch.ones(2, 2)) == []


# -- the checker


def test_checker_sees_constants_that_change():
    with (
        pytest.raises(torch.jit.TracingCheckError, match="Tensor-valued Constant nodes differed"),
        pytest.warns(torch.jit.TracerWarning, match="Output nr 1."),
    ):
        trace(lambda x: x + x.data, torch.ones(2), check_inputs=[(torch.zeros(2),)])


def test_checker_sees_graphs_that_change():
    def f(x):
        for _ in range(x.size(0)):
            x = x + 1
        return x

    with (
        pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations!"),
        pytest.warns(torch.jit.TracerWarning, match="Output nr 1."),
    ):
        trace(f, torch.ones(2), check_inputs=[torch.ones(3)])


def test_checker_compares_outputs():
    def f(x):
        x.view(-1).add_(1)
        return x

    with pytest.warns(torch.jit.TracerWarning) as found:
        trace(f, torch.ones(2, 2), _force_outplace=True)
    assert any(
        "Output nr 1. of the traced function does not match" in str(w.message) for w in found
    )


def test_checker_names_random_nodes():
    with pytest.warns(torch.jit.TracerWarning) as found:
        trace(lambda x: torch.dropout(x, 0.5, True), torch.ones(50))
    texts = [str(w.message) for w in found]
    assert texts[0].startswith("Trace had nondeterministic nodes.") and "aten::dropout" in texts[0]
    assert "Output nr 1." in texts[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(lambda x: torch.dropout(x, 0.5, False), torch.ones(50))


def test_checker_tells_of_failures():
    calls = []

    def f(x):
        calls.append(x)
        if len(calls) > 2:
            raise ValueError("the third time")
        return x + 1

    with pytest.raises(torch.jit.TracingCheckError, match="running the Python function with test"):
        trace(f, torch.ones(1))


@pytest.mark.parametrize(("in_place", "runs"), [(False, 1), (True, 2)])
def test_checker_runs_a_trace_again_where_that_may_tell_something(in_place, runs, monkeypatch):
    from rushlight.jit.tracing.checker import Checker

    labels = []
    run = Checker.run

    def counted(self, function, example, what, again):
        labels.append(what)
        return run(self, function, example, what, again)

    monkeypatch.setattr(Checker, "run", counted)
    trace(lambda x: (x + 1).relu_() if in_place else (x + 1).relu(), torch.ones(2))
    assert labels == ["trace", "Python function", "repeated trace"][: runs + 1]


def test_checker_works_on_copies():
    x = torch.zeros(2)
    trace(lambda a: a.add_(1), x)
    assert x.tolist() == [1, 1]


# -- Functions and graphs


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x * ctx.scale, None


def test_functions_run_through_apply():
    traced = trace(lambda x: Cube.apply(x, 2) + 1, torch.ones(2))
    (node,) = [n for n in traced.graph.nodes() if n.kind() == "prim::PythonOp"]
    assert (node.pyname(), node.i("inplace"), node.scalar_args()) == ("Cube", 0, [2])
    assert "aten::mul" in kinds(node.g("Subgraph"))
    x = torch.full((3,), 2.0, requires_grad=True)
    traced(x).sum().backward()
    assert x.grad.tolist() == [24, 24, 24]


def test_bare_graphs_take_states_as_inputs():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = self.a = nn.Parameter(torch.randn(2, 2))

        def forward(self, x):
            return x * self.a + self.b

    graph, _ = torch.jit._get_trace_graph(Shared(), (torch.randn(2, 2),))
    assert len(graph.inputs()) == 2
    FileCheck().check("mul").check("add").run(str(graph))
    _, _, inputs = torch.jit._get_trace_graph(Shared(), (torch.randn(2, 2),), return_inputs=True)
    assert len(inputs) == 2


# -- scopes


def test_scopes_in_expanded_graphs():
    module = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Tanh())
    traced = trace(module, torch.ones(1, 2))
    text = str(traced.inlined_graph)
    FileCheck().check("aten::linear").check_same("scope: __module.0/__module.0.0").check(
        "aten::tanh"
    ).check_same("scope: __module.1").run(text)


def test_calls_are_expanded_where_everything_is_to_be():
    from rushlight.jit.settings import set_inline_everything

    set_inline_everything(True)
    try:
        traced = trace(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), torch.ones(1, 2))
    finally:
        set_inline_everything(False)
    assert "prim::CallMethod" not in kinds(traced.graph)
    assert kinds(traced.graph)[-2:] == ["aten::linear", "aten::tanh"]


def test_labels_and_forks_in_traces():
    from rushlight.autograd.profiler import profile, record_function

    inner = trace(lambda x: x * 2, torch.ones(2))

    def f(x):
        with record_function("mine"):
            return torch.jit.wait(torch.jit.fork(inner, x)) + 1

    traced = trace(f, torch.ones(2))
    with profile() as found:
        assert traced(torch.ones(3)).tolist() == [3, 3, 3]
    assert [event.name for event in found.function_events].count("mine") == 1


# -- what a trace leaves behind


def test_a_trace_leaves_nothing_behind():
    def held():
        gc.collect()
        return sum(isinstance(each, Node | Function | ClassType) for each in gc.get_objects())

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    trace(model, torch.ones(1, 2))
    before = held()
    names = []
    for _ in range(5):
        traced = trace(model, torch.ones(1, 2))
        names.append(str(traced.graph.inputs()[0].type()))
        function = trace(lambda x: x + 1, torch.ones(2))
    assert len(set(names)) == 5
    assert traced(torch.ones(1, 2)).equal(model(torch.ones(1, 2)))
    assert function(torch.ones(2)).tolist() == [2, 2]
    del traced, function
    assert held() == before


@pytest.mark.parametrize("on", [True, False])
def test_the_search_for_garbage_rests_while_tracing(on):
    seen = []

    def f(x):
        seen.append(gc.isenabled())
        if len(seen) > 3:
            raise ValueError("enough")
        return x + 1

    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        # Recorded, recorded again, run.
        trace(f, torch.ones(2))
        assert seen == [False, False, on] and gc.isenabled() is on
        with pytest.raises(ValueError, match="enough"):
            trace(f, torch.ones(2))
        assert seen[3] is False and gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()


def test_traces_of_several_threads_share_the_rest():
    inside, leave = threading.Barrier(3), threading.Event()
    seen = []

    def waiting(x):
        inside.wait(20)
        leave.wait(20)
        seen.append(gc.isenabled())
        return x + 1

    threads = [
        threading.Thread(target=lambda: torch.jit.trace(waiting, torch.ones(1), check_trace=False))
        for _ in range(2)
    ]
    before = gc.isenabled()
    gc.enable()
    try:
        for thread in threads:
            thread.start()
        inside.wait(20)
        assert not gc.isenabled()
        trace(lambda x: x + 1, torch.ones(1), check_trace=False)
        assert not gc.isenabled()
        leave.set()
        for thread in threads:
            thread.join(20)
        assert seen == [False, False] and gc.isenabled()
    finally:
        (gc.enable if before else gc.disable)()


def test_threads_get_names_of_their_own():
    def f(x):
        return x + 1

    start, names = threading.Barrier(4), []

    def many():
        start.wait(20)
        for _ in range(25):
            traced = torch.jit.trace(f, torch.ones(1), check_trace=False)
            names.append(traced.qualified_name)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(names) == len(set(names)) == 100
