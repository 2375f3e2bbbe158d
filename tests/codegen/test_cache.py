"""Compiled code on disk, and memory that is used again."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.arrays import buffers
from rushlight.base.config import config as settings
from rushlight.codegen import config, lower, native
from tests.codegen.recording import Recording, aten

pytest.importorskip("llvmlite")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with settings.patch(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def graph(number: float = 1.5) -> Recording:
    r = Recording()
    x = r.input(rushlight.randn(40, 50))
    return r.output(r.call(aten.exp.default, r.call(aten.mul.Scalar, x, number)))


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def refuse_to_compile(*args: Any) -> Any:
    raise AssertionError("compiled again")


def test_second_time_is_linked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = graph()
    lower(r, r.inputs)
    assert len(entries(folder)) == 1
    monkeypatch.setattr(native, "object_of", refuse_to_compile)
    start = time.thread_time()
    got = lower(r, r.inputs)(*r.inputs)
    assert time.thread_time() - start < 0.02
    np.testing.assert_allclose(got[0]._array, r.results[0]._array, rtol=1e-6)


def test_other_graphs_have_other_entries(folder: Path) -> None:
    for number in (1.5, 2.5):
        r = graph(number)
        lower(r, r.inputs)
    assert len(entries(folder)) == 2


@pytest.mark.parametrize("damage", [b"", b"nonsense", None], ids=["empty", "text", "flipped"])
def test_damaged_entries_are_written_again(folder: Path, damage: bytes | None) -> None:
    r = graph()
    lower(r, r.inputs)
    (path,) = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if damage is None else damage)
    got = lower(r, r.inputs)(*r.inputs)
    np.testing.assert_allclose(got[0]._array, r.results[0]._array, rtol=1e-6)
    assert path.read_bytes()[:40] == whole[:40]
    assert len(entries(folder)) == 1


def test_unusable_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with settings.patch(cache_dir=str(tmp_path / "file")):
        r = graph()
        assert lower(r, r.inputs)(*r.inputs)[0].shape == (40, 50)


def test_nothing_is_kept_where_the_switch_is_off(folder: Path) -> None:
    with config.patch(fx_graph_cache=False):
        r = graph(3.5)
        assert lower(r, r.inputs)(*r.inputs)[0].shape == (40, 50)
    assert entries(folder) == []


def test_first_compile_is_quick(folder: Path) -> None:
    r = graph(7.25)
    native.this_host()
    start = time.thread_time()
    lower(r, r.inputs)
    assert time.thread_time() - start < 0.2


# -- buffers --------------------------------------------------------------------------------------


def test_large_buffers_are_used_again() -> None:
    r = Recording()
    x = rushlight.randn(300, 300)
    compiled = lower(r.output(r.call(aten.exp.default, r.input(x))), r.inputs)
    places = set()
    for _ in range(20):
        places.add(compiled(x)[0].data_ptr())
    assert len(places) <= 2
    assert all([place % buffers.ALIGNMENT == 0 for place in places])


def test_kept_memory_can_be_released() -> None:
    first = buffers.empty((1 << 15,), np.int32, 1 << 17)
    assert buffers.KEPT
    rushlight.compiler.reset()
    assert not buffers.KEPT
    first[:] = 7
    others = [buffers.empty((1 << 15,), np.int32, 1 << 17) for _ in range(3)]
    for other in others:
        other[:] = 8
    assert bool((first == 7).all())


def test_memory_in_use_is_never_handed_out() -> None:
    size = 1 << 17
    views = []
    for number in range(12):
        array = buffers.empty((size // 4,), np.int32, size)
        array[:] = number
        # Only a distant view, or a buffer export, keeps the memory alive.
        views.append(memoryview(array) if number % 2 else array[5:50:3].reshape(3, 5).T)
        del array
    gc.collect()
    for number, view in enumerate(views):
        assert bool((np.asarray(view) == number).all())


def test_results_survive_later_calls() -> None:
    r = Recording()
    x = rushlight.randn(200, 200)
    compiled = lower(r.output(r.call(aten.mul.Scalar, r.input(x), 2)), r.inputs)
    kept = [compiled(x + number)[0].t()[3:] for number in range(6)]
    for number, view in enumerate(kept):
        wanted = ((x + number) * 2).t()[3:]
        assert bool((view == wanted).all())


def test_compiled_code_dies_with_its_function() -> None:
    for number in range(30):
        r = graph(1.0 + number / 64)
        compiled = lower(r, r.inputs)
        compiled.cycle = compiled  # type: ignore[attr-defined]
        compiled(*r.inputs)
        del compiled
    gc.collect()
