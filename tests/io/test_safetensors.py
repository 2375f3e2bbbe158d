"""safetensors files: what is written comes back, headers are checked, memory is shared."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError
from rushlight.io import safetensors


def some():
    made = {code: torch.tensor([0, 1, 1]).to(kind) for code, kind in safetensors.CODES.items()}
    made["empty"] = torch.zeros(0, 3)
    made["scalar"] = torch.tensor(2.5)
    made["matrix"] = torch.arange(6.0).reshape(2, 3)
    made['é "quoted" [0]{1}'] = torch.ones(1)
    return made


def same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype is tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert found[name].tolist() == tensor.tolist(), name
        assert found[name].is_contiguous()


def test_round_trip(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file(some(), path, {"format": "pt"})
    same(safetensors.load_file(path), some())
    same(safetensors.load(path.read_bytes()), some())
    assert safetensors.save(some(), {"format": "pt"}) == path.read_bytes()


def test_the_bytes_are_those_of_the_format():
    data = safetensors.save({"b": torch.tensor([1.0, 2.0]), "a": torch.tensor([7])}, {"k": "v"})
    size = struct.unpack("<Q", data[:8])[0]
    assert size % 8 == 0
    assert json.loads(data[8 : 8 + size]) == {
        "__metadata__": {"k": "v"},
        "a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
    }
    assert data[8 + size :] == np.int64(7).tobytes() + np.float32([1, 2]).tobytes()


def test_lazy_reading(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file(some(), path, {"k": "v"})
    with safetensors.safe_open(path, framework="pt", device="cpu") as file:
        assert file.keys() == sorted(some()) and len(file) == len(some())
        assert file.metadata() == {"k": "v"} and "matrix" in file and "x" not in file
        assert file.get_tensor("matrix").tolist() == [[0, 1, 2], [3, 4, 5]]
        part = file.get_slice("matrix")
        assert part.get_shape() == [2, 3] and part.get_dtype() == "F32"
        assert part[1, :2].tolist() == [3, 4] and part[:, -1:].tolist() == [[2], [5]]
        with pytest.raises(CheckpointError, match="does not contain tensor 'x'"):
            file.get_tensor("x")
        kept = file.get_tensor("scalar")
    assert kept.item() == 2.5
    with pytest.raises(CheckpointError, match="closed"):
        file.get_tensor("scalar")
    meta = safetensors.load_file(path, device="meta")
    assert meta["matrix"].device.type == "meta" and meta["matrix"].shape == (2, 3)


def test_files_are_not_changed_by_writes(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"a": torch.zeros(4)}, path)
    found = safetensors.load_file(path)["a"]
    found += 1
    assert found.tolist() == [1] * 4 and safetensors.load_file(path)["a"].tolist() == [0] * 4


def test_tensors_may_lie_anywhere(tmp_path):
    header = {
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "b": {"dtype": "F64", "shape": [1], "data_offsets": [1, 9]},
    }
    raw = json.dumps(header).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"\x07" + struct.pack("<d", 2.5))
    found = safetensors.load_file(path)
    assert found["a"].tolist() == [7] and found["b"].tolist() == [2.5]
    assert found["b"].numpy().flags.aligned


def test_modules_with_tied_parameters(tmp_path):
    def model():
        made = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        made[1].weight = made[0].weight
        return made

    path = tmp_path / "x.safetensors"
    source, target = model(), model()
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save_file(source.state_dict(), path)
    safetensors.save_model(source, path)
    assert sorted(safetensors.load_file(path)) == ["0.bias", "0.weight", "1.bias"]
    assert safetensors.load_model(target, path) == ([], [])
    assert target[1].weight.tolist() == source[0].weight.tolist()


@pytest.mark.parametrize(
    "tensors, match",
    [
        ({"a": torch.ones(2, 3).t()}, "non contiguous tensor: `a`"),
        ({"a": torch.eye(2).to_sparse()}, "sparse tensor: `a`"),
        ({"a": torch.ones(2, device="meta")}, "no values to save"),
        ({"a": torch.ones(2, dtype=torch.complex128)}, "safetensors does not have"),
        ({"a": [1, 2]}, "expected torch.Tensor"),
        ({1: torch.ones(1)}, "cannot be the name"),
        ({"__metadata__": torch.ones(1)}, "cannot be the name"),
        ([torch.ones(1)], "Expected a dict"),
    ],
)
def test_what_cannot_be_written(tensors, match):
    with pytest.raises(ValueError, match=match):
        safetensors.save(tensors)


def test_metadata_are_texts():
    with pytest.raises(ValueError, match="metadata are texts"):
        safetensors.save({}, {"a": 1})


def test_conjugated_tensors_are_written_as_they_read():
    tensor = torch.tensor([1 + 2j]).conj()
    assert safetensors.load(safetensors.save({"a": tensor}))["a"].tolist() == [1 - 2j]


def file_of(header, data=bytes(8)):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(kind="F32", shape=(2,), place=(0, 8)):
    return {"dtype": kind, "shape": list(shape), "data_offsets": list(place)}


@pytest.mark.parametrize(
    "data, match",
    [
        (b"", "too short"),
        (struct.pack("<Q", 1 << 40) + b"{}", "more than 100000000"),
        (struct.pack("<Q", 50) + b"{}", "the file has 10"),
        (file_of(b"[]"), "not a JSON object"),
        (file_of(b"{x}"), "not JSON"),
        (file_of(b'{"a":1,"a":2}'), "the same name"),
        (file_of({"a": entry(shape=(3,))}), "'a' has 8 bytes, its dtype and shape need 12"),
        (file_of({"a": entry("F128")}), "dtype 'F128', which is not known"),
        (file_of({"a": entry(place=(8, 0))}), "'a' has no place"),
        (file_of({"a": entry(place=(4, 12))}), "'a' leaves a hole"),
        (file_of({"a": entry(), "b": entry()}), "'b' overlaps another"),
        (file_of({"a": entry()}, bytes(9)), "8 bytes, 9 are behind"),
        (file_of({"a": entry(shape=(-2,))}), "holds -2"),
        (file_of({"a": {"dtype": "F32"}}), "not described"),
        (file_of({"__metadata__": {"a": 1}}, b""), "metadata are not texts"),
    ],
)
def test_lies(tmp_path, data, match):
    with pytest.raises(CheckpointError, match=match):
        safetensors.load(data)
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=match):
        safetensors.load_file(path)


def test_devices_that_are_not_there(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"a": torch.ones(1)}, path)
    with pytest.raises(CheckpointError, match="'cuda:0', which is not available"):
        safetensors.load_file(path, device="cuda:0")
    with pytest.raises(CheckpointError, match="framework 'np'"):
        safetensors.safe_open(path, framework="np")
