"""Anomaly mode in the forward pass: the op that makes the first NaN or infinity is named."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.autograd import Function, set_detect_anomaly
from rushlight.core.state import LOCAL


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(2, 2)

    def forward(self, x):
        h = self.scale(x) * 0
        return h.log()  # the culprit


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Identity(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_message_names_op_module_line_and_inputs():
    with set_detect_anomaly(True, check_forward=True), pytest.raises(RuntimeError) as info:
        Model()(torch.ones(3, 2))
    text = str(info.value)
    assert "'aten::log' made 6 inf among the 6 values" in text
    assert "first at index (0, 0)" in text
    assert "in module Model.blocks.1 (Block)" in text
    assert "test_nonfinite.py" in text and "# the culprit" in text
    assert "self: torch.float32 of shape [3, 2]" in text
    assert "check_forward=False" in text


def test_modules_that_are_no_part_of_their_caller_are_told_apart():
    inner = Block()

    class Outer(nn.Module):
        def forward(self, x):
            return helper(x)

    def helper(x):
        return inner(x)

    with set_detect_anomaly(True, check_forward=True), pytest.raises(RuntimeError) as info:
        Outer()(torch.ones(1, 2))
    assert "in module Outer -> Block (Block)" in str(info.value)


def test_off_by_default_and_after_the_mode():
    with set_detect_anomaly(True):
        assert torch.zeros(1).log().isinf().all()
    with set_detect_anomaly(True, check_forward=True):
        pass
    assert LOCAL.state.forward_guard is None
    assert torch.zeros(1).log().isinf().all()
    with set_detect_anomaly(False, check_forward=True):
        assert torch.zeros(1).log().isinf().all()


def test_modes_nest():
    with set_detect_anomaly(True, check_forward=True):
        with set_detect_anomaly(True):
            torch.zeros(1).log()
        with pytest.raises(RuntimeError, match="aten::log"):
            torch.zeros(1).log()
        with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
            mode = torch.autograd.detect_anomaly(check_forward="nan")
        with mode:
            torch.zeros(1).log()


def test_only_nan():
    with set_detect_anomaly(True, check_forward="nan"):
        infinite = torch.zeros(2).log()
        with pytest.raises(RuntimeError, match="aten::sub.Tensor' made 2 nan") as info:
            infinite - infinite
        assert "lets infinities pass" not in str(info.value)


def test_wrong_switch():
    with pytest.raises(ValueError, match="check_forward must be True, False or 'nan', not 'inf'"):
        set_detect_anomaly(True, check_forward="inf")
    assert not torch.is_anomaly_enabled()


NAN = float("nan")
PASSED_ON = {
    "nan operand": lambda: torch.tensor([NAN, 1.0]) * 2,
    "nan number": lambda: torch.ones(2) * NAN,
    "nan in a list": lambda: torch.cat([torch.ones(1), torch.tensor([NAN])]),
    "masking": lambda: torch.ones(2).masked_fill(torch.tensor([True, False]), -float("inf")),
    "filling": lambda: torch.full((2,), NAN),
    "in place": lambda: torch.tensor([NAN]).add_(1),
    "unwritten memory": lambda: [torch.empty(2000) for _ in range(20)],
    "view": lambda: torch.tensor([NAN, 1.0]).view(2, 1)[0],
    "integers": lambda: torch.tensor([1, 0]) // 1,
    "no values": lambda: torch.empty(3, device="meta").log(),
    "empty": lambda: torch.empty(0).log().sum(),
}


@pytest.mark.parametrize("work", PASSED_ON.values(), ids=PASSED_ON)
def test_what_is_not_to_blame(work):
    with set_detect_anomaly(True, check_forward=True):
        work()


MADE = {
    "in place": (lambda: torch.zeros(2).div_(0), "aten::div_.Tensor"),
    "out=": (lambda: torch.log(torch.zeros(2), out=torch.empty(2)), "aten::log.out"),
    "several outputs": (
        lambda: torch.var_mean(torch.ones(1)),
        "aten::var_mean.correction",
    ),
    "half": (lambda: torch.full((1,), 6e4, dtype=torch.float16) * 2, "aten::mul.Tensor"),
    "cast": (lambda: torch.full((1,), 1e30).to(torch.float16), "aten::_to_copy"),
    "complex": (lambda: torch.zeros(1, dtype=torch.complex64).log(), "aten::log"),
    "no_grad": (lambda: torch.no_grad()(torch.log)(torch.zeros(1)), "aten::log"),
}


@pytest.mark.parametrize(("work", "name"), MADE.values(), ids=MADE)
@pytest.mark.filterwarnings("ignore")
def test_what_is(work, name):
    with (
        set_detect_anomaly(True, check_forward=True),
        pytest.raises(RuntimeError, match=f"Operation '{name}' made"),
    ):
        work()


def test_inside_a_custom_function():
    class Root(Function):
        @staticmethod
        def forward(ctx, x):
            return (x - 1).sqrt()

        @staticmethod
        def backward(ctx, grad):
            return grad

    with (
        set_detect_anomaly(True, check_forward=True),
        pytest.raises(RuntimeError, match=r"aten::sqrt(.|\n)*in forward\n    return \(x - 1\)"),
    ):
        Root.apply(torch.zeros(1, requires_grad=True))


@pytest.mark.filterwarnings("ignore")
def test_backward_still_names_the_node():
    x = torch.zeros(1, requires_grad=True)
    with set_detect_anomaly(True, check_forward=True):
        y = x.sqrt() * 0
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th"):
            y.backward()


@pytest.mark.filterwarnings("ignore")
def test_backward_without_it_tells_of_it():
    x = torch.zeros(1, requires_grad=True)
    with set_detect_anomaly(True):
        y = x.sqrt() * 0
        with pytest.raises(RuntimeError, match=r"0th output\.\n(.|\n)*check_forward=True"):
            y.backward()


def test_guard_survives_an_error_of_the_op():
    with set_detect_anomaly(True, check_forward=True):
        with pytest.raises(RuntimeError):
            torch.ones(2) @ torch.ones(3)
        with pytest.raises(RuntimeError, match="aten::log"):
            torch.zeros(1).log()


def test_anomaly_mode_catches_nan_in_the_forward_unless_told_otherwise():
    negative = torch.tensor([-1.0])
    with set_detect_anomaly(True), pytest.raises(RuntimeError, match="aten::sqrt.*made 1 nan"):
        negative.sqrt()
    with set_detect_anomaly(True):
        assert torch.zeros(1).log().item() == float("-inf")
    for options in ({"check_forward": False}, {"check_nan": False}):
        with set_detect_anomaly(True, **options):
            assert bool(negative.sqrt().isnan())
