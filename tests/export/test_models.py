"""Programs of models: they run without the module, at other sizes and in another process."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.export import export, unflatten
from tests.export.zoo import ZOO, dims

SIZES = ((4, 6), (3, 6), (7, 11))


def assert_same(found, expected):
    found, expected = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def refuse(*args, **kwargs):
    raise AssertionError("the module ran")


@pytest.fixture
def made():
    """Build a model and its twin."""

    def build(name):
        torch.manual_seed(0)
        model = ZOO[name].build()
        return model, copy.deepcopy(model)

    return build


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", ZOO)
def test_programs_run_at_other_sizes_when_the_module_cannot(name, strict, made, monkeypatch):
    model, twin = made(name)
    entry = ZOO[name]
    program = export(model, entry.inputs(4, 6), dynamic_shapes=entry.shapes(*dims()), strict=strict)
    cases = [entry.inputs(*sizes) for sizes in SIZES]
    expected = [twin(*copy.deepcopy(args)) for args in cases]
    for member in list(model.modules()):
        monkeypatch.setattr(type(member), "forward", refuse)
    module = program.module()
    for args, result in zip(cases, expected):
        assert_same(module(*copy.deepcopy(args)), result)
    for key, value in twin.state_dict().items():
        torch.testing.assert_close(program.state_dict[key], value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ZOO)
def test_core_programs_and_trees_of_modules_give_the_same(name, made):
    model, twin = made(name)
    entry = ZOO[name]
    program = export(model, entry.inputs(4, 6), dynamic_shapes=entry.shapes(*dims()))
    tree = unflatten(program)
    core = program.run_decompositions()
    decomposed = [copy.deepcopy(core.state_dict), core.module()]
    cases = [entry.inputs(*sizes) for sizes in SIZES]
    expected = [twin(*copy.deepcopy(args)) for args in cases]
    for args, result in zip(cases, expected):
        assert_same(tree(*copy.deepcopy(args)), result)
    for args, result in zip(cases, expected):
        assert_same(decomposed[1](*copy.deepcopy(args)), result)


@pytest.mark.parametrize("name", ["LanguageModel", "Counter", "HalfFrozen", "Records", "Branches"])
def test_programs_are_exported_again(name, made):
    model, twin = made(name)
    entry = ZOO[name]
    shapes = entry.shapes(*dims())
    first = export(model, entry.inputs(4, 6), dynamic_shapes=shapes)
    second = export(first.module(), entry.inputs(4, 6), dynamic_shapes=shapes, strict=False)
    assert list(second.state_dict) == list(first.state_dict)
    args = entry.inputs(5, 9)
    assert_same(second.module()(*copy.deepcopy(args)), twin(*args))


# A process that has NumPy and this package alone.
LOADER = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sympy", "mpmath", "llvmlite", "networkx"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
sys.path[:0] = [{root!r}]
import rushlight as torch
from rushlight.base import pytree
for name in {names!r}:
    module = torch.export.load({folder!r} + "/" + name + ".pt2").module()
    for args, expected in torch.load({folder!r} + "/" + name + ".cases"):
        found = pytree.tree_leaves(module(*args))
        for one, other in zip(found, pytree.tree_leaves(expected), strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
try:
    module(torch.ones(99, 99, 99))
except (RuntimeError, ValueError) as error:
    print("same, and checked:", str(error)[:20])
"""
SAVED = (
    *("LongShortTermMemory", "LanguageModel", "VisionTransformer", "Waveform", "Detector"),
    *("MixtureOfExperts", "CachedAttention", "Counter", "Records", "Twins", "HalfFrozen"),
)


def test_programs_run_in_another_process(made, tmp_path):
    for name in SAVED:
        model, twin = made(name)
        entry = ZOO[name]
        program = export(model, entry.inputs(4, 6), dynamic_shapes=entry.shapes(*dims()))
        torch.export.save(program, str(tmp_path / f"{name}.pt2"))
        cases = []
        for sizes in SIZES:
            args = entry.inputs(*sizes)
            with torch.no_grad():
                cases.append((copy.deepcopy(args), twin(*args)))
        torch.save(cases, str(tmp_path / f"{name}.cases"))
    root = str(Path(torch.__file__).parents[1])
    text = LOADER.format(root=root, names=SAVED, folder=str(tmp_path))
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert ran.stdout.startswith("same, and checked: Expected input at"), ran.stderr[-2000:]


# The class is gone, with its source, before the program is run, saved, taken apart and exported.
ORPHAN = """
import gc, importlib, io, linecache, os, sys
sys.path[:0] = [{root!r}, {folder!r}]
import rushlight as torch
import orphan
model = orphan.Model()
x, y = torch.ones(4, 3), torch.ones(7, 3)
expected = model(y)[1].tolist()
model.steps.zero_()
shapes = ({{0: torch.export.Dim("batch")}},)
program = torch.export.export(model, (x,), dynamic_shapes=shapes, strict={strict})

def refuse(*args, **kwargs):
    raise AssertionError("the module ran")

for each in (orphan.Model, orphan.Inner):
    each.forward = refuse
os.remove(orphan.__file__)
del model, orphan, sys.modules["orphan"]
linecache.clearcache()
gc.collect()
file = io.BytesIO()
torch.export.save(program, file)
file.seek(0)
loaded = torch.export.load(file)
again = torch.export.export(program.module(), (x,), dynamic_shapes=shapes)
tree = torch.export.unflatten(loaded)
core = program.run_decompositions()
print(core)
for each in (program.module(), loaded.module(), again.module(), tree, core.module()):
    each.load_state_dict({{**each.state_dict(), "steps": torch.zeros(())}})
    assert each(y)[1].tolist() == expected
print("all gave the same")
"""
SOURCE = """
import rushlight as torch

class Inner(torch.nn.Module):
    def forward(self, x, *, scale):
        return torch.cond(x.sum() > 0, lambda x: x * scale, lambda x: x - scale, (x,))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        self.inner = Inner()
        self.plain = torch.full((3,), 2.0)

    def forward(self, x):
        self.steps.add_(1)
        return {"size": x.shape[0], "sum": 0}, self.inner(x, scale=self.steps + 1) + self.plain
"""


@pytest.mark.parametrize("strict", [True, False])
def test_programs_outlive_the_class_and_its_source(strict, tmp_path):
    (tmp_path / "orphan.py").write_text(SOURCE)
    root = str(Path(torch.__file__).parents[1])
    text = ORPHAN.format(root=root, folder=str(tmp_path), strict=strict)
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert ran.stdout.endswith("all gave the same\n"), ran.stderr[-2000:]


def test_layers_that_stay_whole_read_memory_in_order(made):
    model, _ = made("LongShortTermMemory")
    entry = ZOO["LongShortTermMemory"]
    program = export(model, entry.inputs(4, 6), dynamic_shapes=entry.shapes(*dims()))
    core = program.run_decompositions()
    layers = [n for n in core.graph.nodes if "mkldnn_rnn_layer" in str(n.target)]
    # PyTorch takes them for contiguous, whatever their strides are.
    assert layers and all([node.args[0].meta["val"].is_contiguous() for node in layers])
