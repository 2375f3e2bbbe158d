"""Checkpoints in parts."""

from __future__ import annotations

import contextlib
import json
import random
import re

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError, MissingFeature
from rushlight.distributed import checkpoint as dcp
from tests.distributed.launching import needs_mpi, succeed


@needs_mpi
def test_four_processes_write_and_two_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path))
    succeed("checkpoints", 4, "write")
    succeed("checkpoints", 2, "resume")


@needs_mpi
def test_layouts(tmp_path, monkeypatch):
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path))
    succeed("checkpoints", 2, "layouts")


def state():
    return {"w": torch.arange(12.0).reshape(3, 4), "options": {"lr": 0.5, "betas": (0.9, 0.99)},
            "list": [1, None, "x"], 3: torch.tensor(7)}  # fmt: skip


def blank():
    return {"w": torch.zeros(3, 4), "options": {"lr": 0.0, "betas": (0.0, 0.0)},
            "list": [0, 0, 0], 3: torch.tensor(0)}  # fmt: skip


def test_one_process_needs_no_group(tmp_path):
    dcp.save(state(), checkpoint_id=tmp_path)
    found = blank()
    dcp.load(found, checkpoint_id=tmp_path)
    assert torch.equal(found["w"], state()["w"]) and found[3].item() == 7
    assert found["options"] == {"lr": 0.5, "betas": (0.9, 0.99)} and found["list"] == [1, None, "x"]
    layer = torch.nn.Linear(2, 2)
    dcp.save({"layer": layer}, storage_writer=dcp.FileSystemWriter(tmp_path / "layer"))
    other = torch.nn.Linear(2, 2)
    dcp.load({"layer": other}, storage_reader=dcp.FileSystemReader(tmp_path / "layer"))
    assert torch.equal(layer.weight, other.weight)
    dcp.async_save(state(), checkpoint_id=tmp_path / "later").wait()
    dcp.load(blank(), checkpoint_id=tmp_path / "later")


@pytest.mark.parametrize("call", [dcp.save, dcp.load, dcp.async_save])
def test_planners_are_refused(call, tmp_path):
    with pytest.raises(MissingFeature, match="planner=..."):
        call(state(), checkpoint_id=tmp_path / "c", planner=object())
    assert not (tmp_path / "c").exists()


@needs_mpi
def test_one_process_of_several_writes_by_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("CHECKPOINTS", str(tmp_path))
    succeed("checkpoints", 2, "alone")


def test_wrong_checkpoints_are_told(tmp_path):
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        dcp.load(blank(), checkpoint_id=tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="checkpoints hold tensors, numbers and text"):
        dcp.save({"f": print}, checkpoint_id=tmp_path)
    dcp.save(state(), checkpoint_id=tmp_path)
    with pytest.raises(CheckpointError, match=r"the checkpoint has \[3, 4\], the program \[4, 3\]"):
        dcp.load({"w": torch.zeros(4, 3)}, checkpoint_id=tmp_path)
    with pytest.raises(CheckpointError, match="has no tensor v"):
        dcp.load({"v": torch.zeros(4, 3)}, checkpoint_id=tmp_path)


def test_damaged_checkpoints_are_refused(tmp_path):
    """Whatever the metadata says, reading ends in an error of its own, or well."""
    dcp.save(state(), checkpoint_id=tmp_path)
    path = tmp_path / ".metadata"
    text = path.read_text()
    evil = {
        "file": ['"../../etc/passwd"', "3"], "begin": ["-4", "9e9"], "sizes": ["[1e3, 4]"],
        "shape": ["[3, -4]"], "dtype": ['"Tensor"'],
    }  # fmt: skip
    for name, lies in evil.items():
        for lie in lies:
            found = re.search(rf'"{name}": ("[^"]*"|\[[^\]]*\]|\d+)', text)
            path.write_text(text.replace(found[0], f'"{name}": {lie}', 1))
            with pytest.raises(CheckpointError):
                dcp.load(blank(), checkpoint_id=tmp_path)
    random.seed(0)
    for _ in range(300):
        broken = list(text)
        for _ in range(random.randint(1, 4)):
            broken[random.randrange(len(broken))] = random.choice('0123456789"[]{}:,x-')
        path.write_text("".join(broken))
        with contextlib.suppress(CheckpointError):
            dcp.load(blank(), checkpoint_id=tmp_path)
    path.write_text(text)
    (file,) = tmp_path.glob("*.distcp")
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(CheckpointError, match="too few for its part"):
        dcp.load(blank(), checkpoint_id=tmp_path)
    assert json.loads(text)["version"] == 1
