"""Cache artifacts: what one process compiled, as bytes that another place takes in."""

from __future__ import annotations

import contextlib

import pytest

import rushlight as torch
from rushlight.base.config import config as settings
from rushlight.base.counters import counters
from rushlight.codegen import native
from rushlight.compiler import artifacts
from rushlight.compiler.artifacts import CACHES, MAGIC

pytest.importorskip("llvmlite")


@pytest.fixture
def place(tmp_path):
    """A function that moves to an empty place: no files, and nothing remembered."""

    def move(name):
        torch.compiler.reset()
        for cache in CACHES.values():
            cache.used.clear()
        counters.clear()
        settings.cache_dir = str(tmp_path / name)

    with settings.patch(cache_dir=str(tmp_path)):
        move("first")
        yield move
        move("last")


@pytest.fixture
def emitted(monkeypatch):
    """How often LLVM compiled something."""
    made = []
    original = native.object_of
    monkeypatch.setattr(native, "object_of", lambda *args: made.append(1) or original(*args))
    return made


def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    loss = torch.compile(model)(x).square().sum()
    loss.backward()
    return [loss.item(), *[p.grad.tolist() for p in model.parameters()]]


def test_nothing_to_save(place):
    assert torch.compiler.save_cache_artifacts() is None


def test_another_place_compiles_nothing(place, emitted):
    want = train()
    count = len(emitted)
    assert count > 0
    data, info = torch.compiler.save_cache_artifacts()
    assert isinstance(data, bytes)
    assert len(info.inductor_artifacts) == count and len(info.aot_autograd_artifacts) == 1

    place("second")
    loaded = torch.compiler.load_cache_artifacts(data)
    assert loaded == info and not loaded.empty()
    assert train() == want
    assert len(emitted) == count
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    # What was taken from there is saved again, in the order of its use.
    again, _ = torch.compiler.save_cache_artifacts()
    assert len(again) == len(data)

    place("third")
    assert train() == want
    assert len(emitted) == 2 * count


def test_damaged_bytes_are_refused_as_a_whole(place, emitted):
    train()
    data, _ = torch.compiler.save_cache_artifacts()
    place("second")
    middle = len(data) // 2
    others = [
        b"",
        MAGIC,
        data[:-1],
        data + b"x",
        data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        data.replace(b"artifacts-1", b"artifacts-0", 1),
    ]
    for damaged in others:
        with pytest.warns(UserWarning, match="cannot be used"):
            assert torch.compiler.load_cache_artifacts(damaged) is None
    assert not any(cache.used for cache in CACHES.values())
    with pytest.raises(TypeError, match="takes bytes, not str"):
        torch.compiler.load_cache_artifacts("text")
    count = len(emitted)
    train()
    assert len(emitted) > count


def test_no_entry_gets_out_of_its_folder(place):
    """Names are keys; what is none is refused, though the bytes as a whole are right."""
    import hashlib
    import json

    for entry in (["inductor", "../" * 20 + "tmp/x", 1], ["other", "0" * 64, 1]):
        header = json.dumps([entry]).encode()
        content = len(header).to_bytes(8, "little") + header + b"x"
        data = MAGIC + hashlib.sha256(content).digest() + content
        assert artifacts.entries_of(data) is None


def test_entries_of_another_machine_are_not_found(place, emitted, monkeypatch):
    want = train()
    data, _ = torch.compiler.save_cache_artifacts()
    count = len(emitted)
    place("second")
    torch.compiler.load_cache_artifacts(data)
    monkeypatch.setattr(native.this_host(), "features", "+made-up")
    with contextlib.suppress(RuntimeError):  # LLVM may refuse the feature; it was asked to compile
        assert train() == want
    assert len(emitted) > count
