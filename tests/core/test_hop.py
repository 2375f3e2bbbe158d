"""Higher-order ops of users: one rule for each layer, and none is passed by in silence."""

import copy
import pickle

import pytest

import rushlight as torch
from rushlight.autograd.function import SingleLevelFunction
from rushlight.core.fake import FakeTensorMode
from rushlight.core.functional import FunctionalMode, to_functional
from rushlight.core.hop import HOPS, HigherOrderOperator
from rushlight.core.modes import TorchDispatchMode, TorchFunctionMode
from rushlight.core.recording import Recorder
from rushlight.func import nesting


@pytest.fixture
def twice():
    op = HigherOrderOperator("twice")

    @op.py_impl("CompositeExplicitAutograd")
    def _(function, x):
        return function(function(x))

    yield op
    del HOPS["twice"]


def test_an_op_is_found_by_name_and_survives_copies(twice):
    assert torch.ops.higher_order.twice is twice
    assert copy.deepcopy(twice) is twice
    assert pickle.loads(pickle.dumps(twice)) is twice
    assert (str(twice), twice.name(), twice.__module__) == (
        *("twice", "twice"),
        "torch.ops.higher_order",
    )


def test_eager_runs_and_active_layers_ask_for_a_rule(twice):
    x = torch.ones(2)
    with torch.no_grad():
        assert twice(torch.sin, x).tolist() == x.sin().sin().tolist()
        for layer in (Recorder(), FunctionalMode(), FakeTensorMode()):
            with layer, pytest.raises(NotImplementedError, match="no rule registered"):
                twice(torch.sin, x)
        with pytest.raises(NotImplementedError, match="no rule registered"):
            twice(torch.sin, to_functional(x))
        with pytest.raises(NotImplementedError, match="no rule registered"):
            torch.func.vmap(lambda x: twice(torch.sin, x))(x)
    with pytest.raises(NotImplementedError, match="no rule registered"):
        twice(torch.sin, x.requires_grad_())
    twice.fallthrough("AutogradCPU")
    assert not twice(torch.sin, x).requires_grad


def test_rules_for_modes_and_keys(twice):
    class Mode(TorchDispatchMode):
        pass

    @twice.py_impl(Mode)
    def _(mode, function, x):
        return "by rule"

    @twice.py_impl(FakeTensorMode)
    def _(mode, function, x):
        return "by shapes"

    x = torch.ones(2)
    with torch.no_grad():
        with Mode():
            assert twice(torch.sin, x) == "by rule"
        with FakeTensorMode():
            assert twice(torch.sin, x) == "by shapes"
    with pytest.raises(LookupError, match="no layer"):
        twice.py_impl("Tracer")


def test_rules_for_transforms(twice):
    unused = twice.py_impl("AutogradCUDA")(lambda function, x: None)
    assert unused not in twice.rules.values()

    @twice.py_impl(nesting.TransformType.Vmap)
    def _(interpreter, function, x):
        value, axis = nesting.unwrap_batched(x, interpreter.level())
        with interpreter.lower():
            return nesting.add_batch_dim(twice(function, value), axis, interpreter.level())

    @twice.py_impl(nesting.TransformType.Grad)
    def _(interpreter, function, x):
        level = interpreter.level()

        class Twice(SingleLevelFunction):
            @staticmethod
            def forward(ctx, x):
                value = nesting.unwrap_for_grad(x, level)
                with torch.enable_grad(), interpreter.lower():
                    result = twice(function, value)
                return nesting.wrap_for_grad(result, level)

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 10

        return Twice.apply(x)

    @twice.py_impl("AutogradCPU")
    def _(function, x):
        return function(function(x))

    x = torch.tensor([2.0, 3.0])
    double = lambda x: x * 2  # noqa: E731
    call = lambda x: twice(double, x)  # noqa: E731
    assert torch.func.vmap(call)(x).tolist() == [8.0, 12.0]
    assert torch.func.grad(call)(x[0]).item() == 10.0
    assert torch.func.vmap(torch.func.grad(call))(x).tolist() == [10.0, 10.0]
    with torch.no_grad():
        assert call(x).tolist() == [8.0, 12.0]


def test_function_modes_see_the_op(twice):
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode(), torch.no_grad():
        twice(torch.sin, torch.ones(2))
    assert twice in seen
