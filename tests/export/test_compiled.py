"""Programs of scripted and traced modules, reports of what can be exported, exchanged modules."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.export import Dim, export
from rushlight.export.converting import TS2EPConverter
from rushlight.export.reporting import report_exportability
from rushlight.export.swapping import swap_modules


class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor, times: int = 2, *, shift: float):
        self.count += 1
        for _ in range(times):
            x = x * 2
        return self.linear(x) + shift


def test_scripted_modules_have_the_parameters_that_they_were_written_with():
    scripted = torch.jit.script(Weighted())
    x = torch.ones(4, 3)
    shapes = {"x": {0: Dim("b")}, "times": None, "shift": None}
    program = export(scripted, (x, 3), {"shift": 1.0}, dynamic_shapes=shapes)
    assert [spec.arg.name for spec in program.graph_signature.input_specs] == [
        "p_linear_weight", "p_linear_bias", "b_count", "x", "times", "shift",
    ]  # fmt: skip
    assert program.module()(torch.ones(7, 3), 3, shift=1.0).shape == (7, 2)
    # The export itself wrote nothing.
    assert program.state_dict["count"] == 1


@pytest.mark.parametrize("compile_", ["script", "trace"])
def test_compiled_modules_are_converted(compile_):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
    x = torch.ones(4, 3)
    made = torch.jit.script(model) if compile_ == "script" else torch.jit.trace(model, x)
    program = TS2EPConverter(made, (x,)).convert()
    assert list(program.state_dict) == list(made.state_dict())
    assert torch.equal(program.module()(x), model(x))


def doubled(x: torch.Tensor, times: int):
    for _ in range(times):
        x = x * 2
    return x


def positive(x: torch.Tensor):
    if x.sum() > 0:
        return x
    return -x


def test_compiled_functions_are_converted():
    program = TS2EPConverter(torch.jit.script(doubled), (torch.ones(2), 3)).convert()
    assert program.module()(torch.ones(2), 3).tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="data-dependent"):
        TS2EPConverter(torch.jit.script(positive), (torch.ones(2),)).convert()


class Refused(torch.nn.Module):
    def forward(self, x, *, limit):
        return x if x.sum() > limit else -x


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.good = torch.nn.Linear(2, 2)
        self.inner = torch.nn.ModuleDict({"bad": Refused()})
        self.idle = torch.nn.ReLU()

    def forward(self, x):
        return self.inner["bad"](self.good(x), limit=0)


def test_reports_name_what_cannot_be_exported():
    model = Mixed()
    report = report_exportability(model, (torch.ones(1, 2),))
    assert {path: refusal is None for path, refusal in report.items()} == {
        "": False,
        "good": True,
        "inner.bad": False,
    }
    assert "data-dependent" in str(report["inner.bad"])
    assert not any([member._forward_pre_hooks for member in model.modules()])
    assert report_exportability(model.good, (torch.ones(1, 2),), strict=False) == {"": None}


class Rooted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())

    def forward(self, x):
        return self.outer(x) + 1


def test_modules_are_exchanged():
    x = (torch.tensor([-1.0, 0.0]),)
    program = export(Rooted(), x, preserve_module_call_signature=("outer.0",))
    made = swap_modules(program, {"outer.0": torch.nn.Sigmoid()})
    expected = torch.sigmoid(x[0]).tanh() + 1
    assert torch.equal(made(*x), expected)
    assert torch.equal(torch.fx.Interpreter(made).run(*x), expected)
    # The program is as it was.
    assert torch.equal(program.module()(*x), Rooted()(*x))
    with pytest.raises(RuntimeError, match="RL1504"):
        swap_modules(program, {"outer.1": torch.nn.Sigmoid()})


class Changing(torch.nn.Module):
    """Changes what it has whenever it runs."""

    def __init__(self):
        super().__init__()
        self.factor = 1
        self.seen = [0]
        self.fixed = torch.full((2,), 5.0)
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor):
        self.factor = self.factor * 10
        self.seen.append(self.factor)
        self.total = self.total + x
        return x * self.factor + self.fixed + self.total


class Replacing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(2)

    def forward(self, x: torch.Tensor):
        self.last = self.last + x
        return self.last


def test_compiled_modules_are_left_as_they_were():
    scripted = torch.jit.script(Changing())
    x = (torch.ones(2),)
    programs = [export(scripted, x, strict=strict) for strict in (False, True) * 5]
    assert scripted.factor == 1 and scripted.seen == [0] and scripted.total.tolist() == [0, 0]
    for number, program in enumerate(programs):
        assert list(program.constants) == ["fixed"]
        assert program.module()(*x).tolist() == [16 + number, 16 + number]
    with pytest.raises(ValueError, match="self.last was assigned during export"):
        export(torch.jit.script(Replacing()), x, strict=False)
