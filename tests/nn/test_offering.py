"""Functions of nn.functional hand themselves to modes, subclasses and fx."""

from __future__ import annotations

import inspect

import pytest

import rushlight as torch
from rushlight import fx, nn
from rushlight.core.modes import DisableTorchFunctionSubclass
from rushlight.nn import functional as F
from rushlight.overrides import TorchFunctionMode

X = torch.tensor([[1.0, -2.0], [0.5, 3.0]])


class Recording(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs))
        return func(*args, **(kwargs or {}))


class Named(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append((func, args, kwargs))
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture(autouse=True)
def nothing_seen():
    Named.seen = []


def test_modes_get_the_function_itself():
    with Recording() as mode:
        result = F.relu(X)
    assert [call[0] for call in mode.calls] == [F.relu]
    assert mode.calls[0][1:] == ((X,), {"inplace": False})
    assert torch.equal(result, X.relu())


def test_arguments_arrive_the_same_however_they_were_written():
    target = torch.tensor([0, 1])
    options = {
        "weight": None, "size_average": None, "ignore_index": -100, "reduce": None,
        "reduction": "sum",
    }  # fmt: skip
    with Recording() as mode:
        F.nll_loss(X, target, reduction="sum")
        F.nll_loss(target=target, input=X, reduction="sum")
        F.nll_loss(X, target, None, None, -100, None, "sum")
    assert mode.calls == [(F.nll_loss, (X, target), options)] * 3
    with Recording() as mode:
        F.triplet_margin_with_distance_loss(X, X, X, swap=True)
    assert list(mode.calls[0][2]) == ["distance_function", "margin", "swap", "reduction"]


def test_modes_see_what_modules_call():
    with Recording() as mode:
        nn.Sequential(nn.CELU(), nn.Softmin(1), nn.ReflectionPad1d(1), nn.Dropout(0.1))(X)
    assert [call[0] for call in mode.calls] == [F.celu, F.softmin, F.pad, F.dropout]


@pytest.mark.parametrize("name", sorted(F.__all__))
def test_every_function_offers_itself(name):
    class Answer(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    function = getattr(F, name)
    value = X.as_subclass(Answer)
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    assert function(*[value for _ in required]) is function
    assert function.__module__ == "rushlight.nn.functional" and function.__name__ == name


def test_subclasses_anywhere_among_the_arguments():
    weight = torch.ones(2).as_subclass(Named)
    F.layer_norm(X, (2,), weight)
    F.layer_norm(X, (2,), weight=weight)
    F.relu(input=X.as_subclass(Named))
    assert [call[0] for call in Named.seen] == [F.layer_norm, F.layer_norm, F.relu]
    assert isinstance(F.relu(X.as_subclass(Named)), Named)


def test_handlers_that_are_switched_off():
    with DisableTorchFunctionSubclass():
        F.relu(X.as_subclass(Named))
    assert Named.seen == []


def test_wrong_calls_complain_as_the_function_does():
    messages = []
    for call in (lambda: F.relu(), lambda: F.relu(X, 1, 2), lambda: F.relu(X, foo=1)):
        with pytest.raises(TypeError, match=r"^relu\(\) ") as plain:
            call()
        with Recording(), pytest.raises(TypeError, match=r"^relu\(\) ") as offered:
            call()
        messages.append(str(plain.value))
        assert str(offered.value) == messages[-1]
    assert "unexpected keyword argument 'foo'" in messages[2]


def test_other_arguments_pass():
    assert F.one_hot(torch.tensor([1]), 2).tolist() == [[0, 1]]
    assert F.softmax(X, 1, dtype=torch.float64).dtype is torch.float64


def test_fx_records_functions():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            x = F.relu(self.layer(x))
            x = F.dropout(x, 0.5, training=self.training)
            return F.softmax(F.pad(x, (1, 1)), dim=1) + F.mse_loss(x, x)

    net = Net().eval()
    traced = fx.symbolic_trace(net)
    functions = [node for node in traced.graph.nodes if node.op == "call_function"]
    assert [node.target for node in functions][:4] == [F.relu, F.dropout, F.pad, F.softmax]
    assert "torch.nn.functional.relu(layer, inplace = False)" in traced.code
    assert "torch.nn.functional.dropout(relu, p = 0.5, training = False, " in traced.code
    assert "pad(dropout, (1, 1), mode = 'constant', value = None)" in traced.code
    assert torch.allclose(traced(X), net(X))
