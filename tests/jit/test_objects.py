"""Compiled functions and modules as Python objects: calls, attributes, copies, states."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch

nn = torch.nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.gone = None
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))
        self.number = 3
        self.tail = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    @property
    def broken(self):
        raise AttributeError("not to be asked for")

    def forward(self, x):
        return self.tail(self.lin(x) * self.scale + self.shift)


@pytest.fixture
def traced():
    torch.manual_seed(0)
    return torch.jit.trace(Net(), torch.ones(1, 4))


@pytest.fixture
def function():
    def f(x, y):
        return x + y

    return torch.jit.trace(f, (torch.ones(2), torch.ones(2)))


# -- calls


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1,), {}, r"f\(\) is missing value for argument 'y'. Declaration: f\(Tensor x, Tensor y"),
        ((1, 1, 1), {}, r"f\(\) expected at most 2 argument\(s\) but received 3 argument\(s\)"),
        ((1,), {"z": 1}, r"f\(\) is missing value for argument 'y'"),
    ],
)
def test_arguments_that_do_not_fit(function, args, kwargs, message):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match=message):
        function(*[x] * len(args), **dict.fromkeys(kwargs, x))


def test_arguments_of_other_types(function):
    with pytest.raises(RuntimeError) as caught:
        function(torch.ones(2), 1)
    assert str(caught.value) == (
        "f() Expected a value of type 'Tensor' for argument 'y' but instead found type 'int'.\n"
        "Position: 1\nValue: 1\nDeclaration: f(Tensor x, Tensor y) -> Tensor\n"
        "Cast error details: Unable to cast 1 to Tensor"
    )


def test_arguments_in_containers():
    x = torch.ones(2)
    traced = torch.jit.trace(lambda d, p: d["k"] + p[0] + p[1][0], ({"k": x}, (x, (x,))))
    assert traced({"k": x}, [x, [x]]).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="had a different number of elements than type"):
        traced({"k": x}, (x,))
    with pytest.raises(RuntimeError, match=r"type 'Dict\[str, Tensor\]' for argument 'd'"):
        traced({1: x}, (x, (x,)))


def test_by_keyword(function):
    assert function(y=torch.ones(2), x=torch.zeros(2)).tolist() == [1, 1]


def test_methods_count_their_object(traced):
    with pytest.raises(RuntimeError, match=r"at most 2 argument\(s\) but received 3"):
        traced(torch.ones(1, 4), 1)
    with pytest.raises(RuntimeError, match=r"Declaration: forward\(__torch__\..*Net self, Tensor"):
        traced()
    assert traced(x=torch.ones(3, 4)).shape == (3, 2)


def test_functions_are_not_pickled(function):
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(pickle.PickleError, match="ScriptFunction cannot be pickled"):
            attempt(function)


# -- attributes


def test_what_a_traced_module_has(traced):
    assert traced.lin.weight.shape == (4, 4)
    assert not hasattr(traced, "gone")
    assert not hasattr(traced, "broken")
    with pytest.raises(AttributeError, match="'RecursiveScriptModule' object has no attribute"):
        _ = traced.number
    assert type(getattr(traced.tail, "0")).__name__ == "TracedModule"
    with pytest.raises(RuntimeError, match="Trace submodules cannot be called."):
        traced.lin(torch.ones(1, 4))


def test_attributes_that_are_set(traced):
    other = nn.Parameter(torch.zeros(4))
    traced.scale = other
    assert traced.scale is other
    assert torch.equal(
        traced(torch.ones(1, 4)), traced.tail._c._get_method("forward")(torch.zeros(1, 4))
    )
    traced.note = 7
    assert traced.note == 7
    with pytest.raises(RuntimeError, match="Can't add a new parameter after ScriptModule constr"):
        traced.added = nn.Parameter(torch.ones(1))
    with pytest.raises(RuntimeError, match="cannot delete methods or parameters"):
        del traced.scale
    with pytest.raises(RuntimeError, match="Cannot re-assign modules in a ScriptModule"):
        traced.lin = nn.Linear(4, 4)


def test_tensors_are_shared_with_the_original():
    net = Net()
    traced = torch.jit.trace(net, torch.ones(1, 4))
    assert traced.scale is net.scale and traced.lin.bias is net.lin.bias
    with torch.no_grad():
        net.lin.weight.zero_()
        net.lin.bias.zero_()
    assert torch.equal(traced(torch.ones(1, 4)), net(torch.ones(1, 4)))


def test_texts(traced):
    assert repr(traced) == (
        "Net(\n  original_name=Net\n  (lin): Linear(original_name=Linear)\n"
        "  (tail): Sequential(\n    original_name=Sequential\n"
        "    (0): ReLU(original_name=ReLU)\n    (1): Linear(original_name=Linear)\n  )\n)"
    )
    assert repr(traced._c).startswith("ScriptObject <__torch__.")
    assert repr(copy.deepcopy(traced)).startswith("RecursiveScriptModule(\n  original_name=Net")


# -- states


def test_states(traced):
    net = Net()
    assert list(traced.state_dict()) == list(net.state_dict())
    traced.load_state_dict(net.state_dict())
    x = torch.rand(3, 4)
    assert torch.equal(traced(x), net(x))
    assert [name for name, _ in traced.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert [name for name, _ in traced.named_buffers()] == ["shift"]
    assert len(list(traced.modules())) == 5


def test_training_is_a_flag(traced):
    assert traced.training and traced.lin.training
    traced.eval()
    assert not traced.training and not traced.lin.training
    assert not traced._c.getattr("training")


def test_conversions_reach_the_graph(traced):
    traced.double()
    assert traced(torch.ones(1, 4, dtype=torch.float64)).dtype == torch.float64


def test_copies(traced):
    x = torch.rand(2, 4)
    shallow, deep = copy.copy(traced), copy.deepcopy(traced)
    assert type(deep) is torch.jit.RecursiveScriptModule
    assert shallow.scale is traced.scale and deep.scale is not traced.scale
    before = traced(x)
    with torch.no_grad():
        deep.scale.zero_()
    assert torch.equal(traced(x), before) and torch.equal(shallow(x), before)
    assert not torch.equal(deep(x), before)
    with pytest.raises(RuntimeError, match="which does not have a __getstate__ method defined"):
        pickle.dumps(traced)


def test_shared_tensors_stay_shared_in_copies():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    deep = copy.deepcopy(torch.jit.trace(net, torch.ones(1, 2)))
    first, second = (getattr(deep, name).weight for name in "01")
    assert first is second


# -- refusals of tracing


def test_backward_hooks_are_refused():
    net = nn.Linear(2, 2)
    net.register_backward_hook(lambda *args: None)
    with pytest.raises(ValueError, match="Modules that have backward hooks assigned can't be comp"):
        torch.jit.trace(net, torch.ones(1, 2))


def test_one_parameter_under_two_names_is_refused():
    net = nn.Module()
    net.a = net.b = nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="TracedModules don't support parameter sharing"):
        torch.jit.trace(net, torch.ones(2))


# -- graphs that run


def test_graph_for_shows_plain_numbers():
    held = torch.tensor(2.5)

    def f(x):
        return ((x + 2) - 4) * 6 / 8 * held

    traced = torch.jit.trace(f, torch.ones(3))
    text = str(traced.graph_for(torch.ones(3)))
    assert text.count(": int = prim::Constant") == 5
    assert "value={2.5}" in text


def test_failures_name_the_line(function):
    with pytest.raises(RuntimeError) as caught:
        function(torch.ones(2), torch.ones(3))
    text = str(caught.value)
    assert text.startswith("The following operation failed in the TorchScript interpreter.")
    assert "test_objects.py" in text and "must match the size of tensor b (3)" in text
