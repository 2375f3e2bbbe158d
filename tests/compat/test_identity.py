"""Where `torch` means rushlight, classes and functions say so, and pickles do as torch's."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn

ROOT = Path(__file__).parents[2]

PICKLED = """
import pickle
import rushlight.compat as compat
import rushlight as before
import rushlight.nn.functional as F
early = before.add, F.relu, before.nn.Linear
compat.install()
import torch, torch.nn as nn
assert torch.__name__ == "torch" and early == (torch.add, F.relu, nn.Linear)
expected = {
    nn.Linear: "torch.nn.modules.linear", nn.Conv2d: "torch.nn.modules.conv",
    F.gelu: "torch._C._nn",
    F.relu: "torch.nn.functional", torch.add: "torch", torch.Tensor: "torch", torch.device: "torch",
    torch.optim.Adam: "torch.optim.adam", torch.optim.NAdam: "torch.optim.nadam",
    torch.distributions.Normal: "torch.distributions.normal", torch.Tensor.add: "torch",
    torch.utils.data.DataLoader: "torch.utils.data.dataloader",
    torch.linalg.norm: "torch._C._linalg",
    torch.autograd.Function: "torch.autograd.function", torch.nn.Parameter: "torch.nn.parameter",
    torch.nn.init.xavier_uniform_: "torch.nn.init", torch.fft.fft: "torch._C._fft",
}
for value, module in expected.items():
    assert value.__module__ == module, (value, value.__module__)
    data = pickle.dumps(value)
    assert module.encode() in data and b"rushlight" not in data
    assert pickle.loads(data) is value
model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
again = pickle.loads(pickle.dumps(model))
assert torch.equal(again[0].weight, model[0].weight) and type(again[0]) is nn.Linear
assert b"rushlight.nn" not in pickle.dumps(model)
compat.uninstall()
assert before.__name__ == "rushlight" and before.nn.Linear.__module__ == "rushlight.nn.linear"
assert before.sub.__module__ == "rushlight" and F.gelu.__module__ == "rushlight.opset.functions"
assert before.optim.NAdam.__module__ == "rushlight.optim.nadam"
for value in expected:
    assert pickle.loads(pickle.dumps(value)) is value
print("fine")
"""


def python(*words):
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_names_and_pickles():
    assert python("-c", PICKLED) == "fine\n"


def test_without_the_alias_nothing_says_torch():
    assert torch.__name__ == "rushlight" and nn.Linear.__module__ == "rushlight.nn.linear"
    assert torch.add.__module__ == "rushlight"


def test_the_table_is_up_to_date():
    python("tools/write_homes.py", "--check")


COMPILED = """
import rushlight.compat; rushlight.compat.install()
import io, torch, torch.nn as nn, torch.nn.functional as F
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.GELU(), nn.Dropout(0.0))
    def forward(self, x):
        return F.gelu(torch.add(self.body(x), 1)).relu()
m, x = M(), torch.ones(4, 2)
expected = m(x)
scripted = torch.jit.script(m)
assert torch.equal(scripted(x), expected)
file = io.BytesIO(); torch.jit.save(scripted, file); file.seek(0)
assert torch.equal(torch.jit.load(file)(x), expected)
traced = torch.fx.symbolic_trace(m)
assert "torch._C._nn.gelu" in traced.code and torch.equal(traced(x), expected), traced.code
assert torch.allclose(torch.compile(m)(x), expected)
file = io.BytesIO(); torch.save(m.state_dict(), file); file.seek(0)
assert m.load_state_dict(torch.load(file))
file = io.BytesIO(); torch.save(nn.Linear(2, 2), file); file.seek(0)
assert b"torch.nn" in file.getvalue() and b"rushlight" not in file.getvalue()
assert type(torch.load(file, weights_only=False)) is nn.Linear
with torch.serialization.safe_globals([nn.Linear]):
    file.seek(0); assert type(torch.load(file)) is nn.Linear
print("fine")
"""


def test_graphs_scripts_and_files_under_the_alias(tmp_path):
    (tmp_path / "script.py").write_text(COMPILED)
    assert python(str(tmp_path / "script.py")) == "fine\n"


STAR = """
import builtins, rushlight.compat; rushlight.compat.install()
from torch import *
import torch
assert len([name for name in globals() if name[0] != "_"]) > 880
assert tensor is torch.tensor and int is torch.int and "nn" not in globals()
kinds = [name for name, value in torch.optim.__dict__.items() if isinstance(value, type)
         and getattr(torch.optim, name) is value]
assert {"Adam", "NAdam", "LBFGS", "Muon"} <= {*kinds}
print("fine")
"""


def test_from_torch_import_everything():
    assert python("-c", STAR) == "fine\n"


HINTS = """
import typing, rushlight.compat
rushlight.compat.install()
import torch
class Net(torch.nn.Linear): width: int
typing.get_type_hints(torch.distributions.Normal), typing.get_type_hints(torch.optim.Adam)
print(typing.get_type_hints(Net)["width"])
"""


def test_hints_of_classes_can_be_read_where_torch_has_them():
    assert python("-c", HINTS) == "<class 'int'>\n"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.add, "(input, other, *, alpha=1, out=None)"),
        (torch.Tensor.add, "(self, other, *, alpha=1)"),
        (torch.linalg.norm, "(input, ord=None, dim=None, keepdim=False, *, dtype=None, out=None)"),
        (torch.view_as_real, "(input)"),
        (torch.Tensor.add_, "(self, other, *, alpha=1)"),
        (torch.stack, "(tensors, dim=0, *, out=None)"),
    ],
)
def test_signatures_of_operators(function, expected):
    signature = inspect.signature(function)
    assert str(signature) == expected
    assert str(pickle.loads(pickle.dumps(signature))) == expected
    assert signature == inspect.signature(function)
