"""The tar format of the first releases: read, and refused where it lies about itself."""

import io
import pickle
import struct
import tarfile

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError


def name(module, text):
    return f"c{module}\n{text}\n".encode()


def archive(offset=0, sizes=(2, 2), claimed=4, members=("storages", "tensors", "pickle")):
    """A list of a tensor and its storage's part, as the format has them."""
    values = struct.pack("<4f", 1.0, 2.0, 3.0, 4.0)
    entry = b"(I7\nX\x03\x00\x00\x00cpu" + name("torch", "FloatStorage") + b"t."
    views = pickle.dumps([(9, 7, 1, 2)], 2)
    storages = pickle.dumps(1, 2) + entry + struct.pack("<q", claimed) + values + views
    tensor = b"(I8\nI7\n" + name("torch", "FloatTensor") + b"t."
    geometry = struct.pack("<ii", 2, 0) + struct.pack("<5q", *sizes, 2, 1, offset)
    tensors = pickle.dumps(1, 2) + tensor + geometry
    body = b"](P8\nP9\ne."
    content = {"storages": storages, "tensors": tensors, "pickle": body, "sys_info": b"N."}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:") as tar:
        for key in ("sys_info", *members):
            info = tarfile.TarInfo(key)
            info.size = len(content[key])
            tar.addfile(info, io.BytesIO(content[key]))
    file.seek(0)
    return file


def test_tensors_and_parts_of_storages():
    tensor, part = torch.load(archive())
    assert tensor.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert list(part) == [2.0, 3.0]


def test_places():
    tensor, _ = torch.load(archive(), map_location="meta")
    assert tensor.device.type == "meta"
    assert tensor.shape == (2, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"offset": 1},
        {"offset": -1},
        {"sizes": (200, 2)},
        {"claimed": 1 << 40},
        {"claimed": -1},
        {"members": ("storages", "tensors")},
        {"members": ("storages", "storages", "tensors", "pickle")},
    ],
)
def test_lies_are_refused(options):
    with pytest.raises(CheckpointError):
        torch.load(archive(**options))


def test_cut_files_are_refused():
    whole = archive().getvalue()
    for length in range(512, 3500, 97):
        with pytest.raises(CheckpointError):
            torch.load(io.BytesIO(whole[:length]))
