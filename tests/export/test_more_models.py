"""More models: exported, saved, loaded where only NumPy is, compiled ahead of time, as ONNX."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.deploy import load_package, package
from rushlight.export import export
from tests.export.test_models import LOADER, assert_same
from tests.export.zoo import dims
from tests.export.zoo_more import MORE

SIZES = ((4, 6), (3, 6), (7, 11))


def exported(name, **options):
    """A program, and cases with what the module gives for them."""
    torch.manual_seed(0)
    entry = MORE[name]
    model = entry.build()
    cases = [entry.inputs(*sizes) for sizes in SIZES]
    expected = [model(*copy.deepcopy(args)) for args in cases]
    shapes = entry.shapes(*dims())
    program = export(model, entry.inputs(4, 6), dynamic_shapes=shapes, **options)
    return program, list(zip(cases, expected))


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", MORE)
def test_programs_and_their_core_give_the_same_at_other_sizes(name, strict):
    program, cases = exported(name, strict=strict)
    core = program.run_decompositions()
    for module in (program.module(), core.module()):
        for args, expected in cases:
            assert_same(module(*copy.deepcopy(args)), expected)


@pytest.mark.parametrize("name", MORE)
def test_packages_give_the_same_at_other_sizes(name, tmp_path):
    program, cases = exported(name)
    path = package(program, tmp_path / "model.zip", targets=("host",))
    loaded = load_package(path)
    for args, expected in cases:
        assert_same(loaded(*copy.deepcopy(args)), expected)


def test_files_are_run_by_a_process_without_a_compiler(tmp_path):
    for name in MORE:
        program, cases = exported(name)
        torch.export.save(program, tmp_path / f"{name}.pt2")
        torch.save(cases, tmp_path / f"{name}.cases")
    root = str(Path(__file__).parent.parent.parent)
    text = LOADER.format(root=root, names=tuple(MORE), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "same, and checked" in done.stdout
