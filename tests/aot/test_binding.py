"""Compiled modules have the parameters and buffers of now."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.aot.api import aot_module, aot_module_simplified
from rushlight.aot.binding import ModuleState
from rushlight.aot.compilers import nop


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(2, 2, bias=False)
        self.second = torch.nn.Linear(2, 2)
        self.register_buffer("scale", torch.ones(2))
        self.register_parameter("shift", None)

    def forward(self, x):
        return (self.second(self.first(x)) * self.scale,)


def simplified(net, x):
    return aot_module_simplified(net, (x,), nop)


def whole(net, x):
    compiled = aot_module(net, nop)
    compiled(x)
    return compiled


def replace_parameter(net):
    net.first.weight = torch.nn.Parameter(torch.full((2, 2), 3.0))


def rebind_buffer(net):
    net.scale = torch.full((2,), 5.0)


def assign_state(net):
    state = {name: torch.full_like(value, 0.25) for name, value in net.state_dict().items()}
    net.load_state_dict(state, assign=True)


def replace_submodule(net):
    net.second = torch.nn.Linear(2, 2)


def replace_table_entry(net):
    net.first._parameters["weight"] = torch.nn.Parameter(torch.eye(2))


def replace_table(net):
    net.first.__dict__["_parameters"] = {
        "weight": torch.nn.Parameter(2 * torch.eye(2)),
        "bias": None,
    }


@pytest.mark.parametrize("compile_net", [simplified, whole])
@pytest.mark.parametrize(
    "change",
    [
        replace_parameter,
        rebind_buffer,
        assign_state,
        replace_submodule,
        replace_table_entry,
        replace_table,
    ],
)
def test_what_is_replaced_is_seen_and_gets_the_gradient(compile_net, change):
    net, x = Net(), torch.ones(1, 2)
    compiled = compile_net(net, x)
    change(net)
    expected = net(x)[0]
    expected.sum().backward()
    gradients = [p.grad for p in net.parameters()]
    net.zero_grad()
    found = compiled(x)[0]
    assert torch.equal(found, expected)
    found.sum().backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), gradients, strict=True))


def untie(net):
    net.second.weight = torch.nn.Parameter(torch.ones(2, 2))


def fill_absent(net):
    net.shift = torch.nn.Parameter(torch.ones(2))


def empty(net):
    net.second.bias = None


def rename(net):
    net._buffers["other"] = net._buffers.pop("scale")


@pytest.mark.parametrize("change", [untie, fill_absent, empty, rename])
def test_other_names_are_refused(change):
    net, x = Net(), torch.ones(1, 2)
    net.second.weight = net.first.weight
    compiled = simplified(net, x)
    compiled(x)
    change(net)
    with pytest.raises(RuntimeError, match="RL0640|other parameters or buffers"):
        compiled(x)


def test_an_unchanged_module_is_not_walked_again(monkeypatch):
    net = Net()
    state = ModuleState(net)
    monkeypatch.setattr(ModuleState, "find", lambda self: pytest.fail("looked for it again"))
    assert [id(v) for v in state.values()] == [id(v) for v in (*net.parameters(), net.scale)]


def test_lazy_parameters_are_found_at_the_first_call():
    class Late(torch.nn.Module):
        def forward(self, x):
            return x * self.weight

    net = Late()
    compiled = aot_module(net, nop)
    net.weight = torch.nn.Parameter(torch.full((2,), 3.0))
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    assert [name for name, _ in compiled.named_parameters()] == ["orig_module.weight"]
