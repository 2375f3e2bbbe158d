"""Checkpoints in parts."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError, MissingFeature
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed import parts
from tests.distributed.launching import needs_mpi, succeed

DATA = Path(__file__).parent / "data"


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
    raw = path.read_bytes()
    lies = {
        b"__0_0.distcp": [b"../x/y.distc", b"/dev/random1"],
        parts.number(3) + parts.number(4): [parts.number(3) + parts.number(5)],
        parts.name("torch", "float32"): [parts.name("torch", "Tensor!"), parts.text("float32")],
        b"TensorStorageMetadata": [b"TensorStorageMetadat4"],
        parts.text("relative_path"): [parts.text("relative_park")],
    }
    for truth, others in lies.items():
        assert truth in raw, truth
        for lie in others:
            path.write_bytes(raw.replace(truth, lie, 1))
            with pytest.raises(CheckpointError):
                dcp.load(blank(), checkpoint_id=tmp_path)
    random.seed(0)
    for _ in range(300):
        broken = bytearray(raw)
        for _ in range(random.randint(1, 4)):
            broken[random.randrange(len(broken))] = random.randrange(256)
        path.write_bytes(bytes(broken))
        with contextlib.suppress(CheckpointError):
            dcp.load(blank(), checkpoint_id=tmp_path)
    path.write_bytes(raw)
    (file,) = tmp_path.glob("*.distcp")
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(CheckpointError, match="too few for its part"):
        dcp.load(blank(), checkpoint_id=tmp_path)


def test_metadata_runs_nothing(tmp_path):
    dcp.save(state(), checkpoint_id=tmp_path)
    path = tmp_path / ".metadata"
    raw = path.read_bytes()
    evil = parts.called("os", "system", f"touch {tmp_path}/proof")
    # Called, and forgotten.
    path.write_bytes(raw[:2] + evil + b"0" + raw[2:])
    with contextlib.suppress(CheckpointError):
        dcp.load(blank(), checkpoint_id=tmp_path)
    assert not (tmp_path / "proof").exists()


def test_files_of_the_checkpoint_before_go_once_it_is_replaced(tmp_path):
    for turn in range(4):
        dcp.save({"w": torch.full((2,), float(turn))}, checkpoint_id=tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
        found = {"w": torch.zeros(2)}
        dcp.load(found, checkpoint_id=tmp_path)
        assert found["w"].tolist() == [turn, turn]


def test_checkpoints_of_torch_are_read():
    """Two processes of torch 2.13 have written it; tools/record_torch_checkpoint.py says how."""
    found = {
        "model": {"weight": torch.zeros(5, 3), "half": torch.zeros(4, dtype=torch.bfloat16)},
        "optim": {"state": {0: {"step": torch.tensor(0.0)}},
                  "param_groups": [{"lr": 0.0, "betas": (0.0, 0.0), "params": []}]},
        "step": 0, "scalar": torch.tensor(0), "list": [], "empty": torch.ones(0, 3),
    }  # fmt: skip
    dcp.load(found, checkpoint_id=DATA / "torch_dcp")
    assert torch.equal(found["model"]["weight"], torch.arange(15.0).reshape(5, 3))
    assert found["model"]["half"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert found["optim"]["state"][0]["step"].item() == 7.0
    assert found["optim"]["param_groups"] == [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0]}]
    assert found["step"] == 3 and found["scalar"].item() == 7 and found["list"] == [1, None, "x"]
    metadata = dcp.FileSystemReader(DATA / "torch_dcp").read_metadata()
    assert metadata.planner_data["optim.param_groups.0.lr"] == ("optim", "param_groups", 0, "lr")
    # Written again, the metadata says the same.
    assert parts.from_bytes(parts.as_bytes(metadata)) == metadata


def test_to_and_from_one_file(tmp_path):
    dcp.dcp_to_torch_save(DATA / "torch_dcp", tmp_path / "one.pt")
    whole = torch.load(tmp_path / "one.pt")
    assert torch.equal(whole["model"]["weight"], torch.arange(15.0).reshape(5, 3))
    assert whole["optim"]["param_groups"][0]["betas"] == (0.9, 0.99)
    dcp.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "parts")
    found = {"model": {"weight": torch.zeros(5, 3)}}
    dcp.load(found, checkpoint_id=tmp_path / "parts")
    assert torch.equal(found["model"]["weight"], whole["model"]["weight"])


def test_names(tmp_path):
    """Torch's: words with dots between, lists only where tensors are in them."""
    dcp.save({"a": {"b": [torch.ones(1), 2], "c": [1, [2]]}, 3: {"d": {}}}, checkpoint_id=tmp_path)
    metadata = dcp.FileSystemReader(tmp_path).read_metadata()
    assert set(metadata.state_dict_metadata) == {"a.b.0", "a.b.1", "a.c"}
    with pytest.raises(ValueError, match="duplicated flatten key a"):
        dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)
