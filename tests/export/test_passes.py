"""Passes over exported programs."""

import rushlight as torch
from rushlight.export import export
from rushlight.export.passes import move_to_device_pass


class Everywhere(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("shift", torch.ones(3))
        self.scale = torch.full((3,), 2.0)

    def forward(self, x):
        with torch.no_grad():
            y = torch.arange(3, device=x.device) + torch.zeros(3).to("cpu")
        return self.fc(x) * self.scale + self.shift + y


def test_a_program_moves_to_another_device():
    program = export(Everywhere(), (torch.ones(2, 3),))
    moved = move_to_device_pass(program, "meta")
    assert moved is program
    found = program.module()(torch.ones(2, 3, device="meta"))
    assert found.device.type == "meta" and tuple(found.shape) == (2, 3)
    held = [*program.state_dict.values(), *program.constants.values(), *program.example_inputs[0]]
    assert {value.device.type for value in held} == {"meta"}
    assert isinstance(program.state_dict["fc.weight"], torch.nn.Parameter)
    assert program.state_dict["fc.weight"].requires_grad
    assert {n.meta["val"].device.type for n in program.graph.nodes if "val" in n.meta} == {"meta"}


def test_a_map_of_devices_moves_what_it_names():
    module = Everywhere()
    program = move_to_device_pass(export(module, (torch.ones(2, 3),)), {"meta": "cpu"})
    x = torch.randn(2, 3)
    torch.testing.assert_close(program.module()(x), module(x))
    assert program.state_dict["fc.weight"] is module.fc.weight
    move_to_device_pass(program, {"cpu": torch.device("meta")})
    assert program.state_dict["shift"].device.type == "meta"
