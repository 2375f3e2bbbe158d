"""Devices, layouts and memory formats."""

import copy
import pickle

import pytest

from rushlight.core import device as places
from rushlight.core.device import LAYOUTS, MEMORY_FORMATS, device


@pytest.mark.parametrize(
    ("made", "text", "name"),
    [
        (device("cpu"), "device(type='cpu')", "cpu"),
        (device("cuda:1"), "device(type='cuda', index=1)", "cuda:1"),
        (device("cuda", 1), "device(type='cuda', index=1)", "cuda:1"),
        (device(type="meta"), "device(type='meta')", "meta"),
        (device("cpu", index=0), "device(type='cpu', index=0)", "cpu:0"),
        (device(device("cpu")), "device(type='cpu')", "cpu"),
        (device(device="cpu"), "device(type='cpu')", "cpu"),
    ],
)
def test_forms(made, text, name):
    assert repr(made) == text
    assert str(made) == name
    assert device(name) == made
    assert hash(device(name)) == hash(made)
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made


def test_an_index_tells_devices_apart():
    assert device("cpu") != device("cpu:0")
    assert device("cpu") != "cpu"
    assert device("cuda:2").index == 2
    assert device("cuda").index is None


@pytest.mark.parametrize("text", ["cuda:x", "cuda:", "cuda:01", "cuda:-1", "cuda:0:1", " cpu"])
def test_malformed_text(text):
    with pytest.raises(RuntimeError, match=f"Invalid device string: '{text}'"):
        device(text)


def test_refusals():
    with pytest.raises(
        RuntimeError, match="Expected one of cpu, cuda, ipu, .* at start of device string: foo"
    ):
        device("foo")
    with pytest.raises(RuntimeError, match="Device string must not be empty"):
        device("")
    with pytest.raises(RuntimeError, match="must not be negative"):
        device("cuda", -1)
    with pytest.raises(RuntimeError, match="must not include an index because index was passed"):
        device("cuda:1", 1)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
        device(0)
    with pytest.raises(TypeError, match=r"got \(float\), but expected one of"):
        device(1.5)
    with pytest.raises(RuntimeError, match="Could not parse device index '128'"):
        device("cuda:128")
    with pytest.raises(AttributeError, match="not writable"):
        device("cpu").index = 3


def test_context_calls_the_hooks(monkeypatch):
    calls = []
    monkeypatch.setattr(device, "push_default", lambda place: calls.append(("push", place)))
    monkeypatch.setattr(device, "pop_default", lambda place: calls.append(("pop", place)))
    meta = device("meta")
    with meta as entered:
        assert entered is meta
    assert calls == [("push", meta), ("pop", meta)]

    @meta
    def function():
        return len(calls)

    assert function() == 3
    assert len(calls) == 4


def test_accelerator_names_plain_indices(monkeypatch):
    monkeypatch.setattr(device, "accelerator", lambda: "cuda")
    assert device(1) == device("cuda:1")


def test_layouts_and_formats():
    for member in LAYOUTS + MEMORY_FORMATS:
        assert repr(member) == f"torch.{member.name}"
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is member
        assert getattr(places, member.name) is member
    with pytest.raises(TypeError, match=r"cannot create 'torch\.layout' instances"):
        places.layout()
    with pytest.raises(TypeError, match=r"cannot create 'torch\.memory_format' instances"):
        places.memory_format()
