"""Memory for large results: when it is used again, what is counted, and how much is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rushlight.arrays import buffers
from rushlight.base.config import config

COUNT = buffers.LARGE


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    buffers.release()
    yield
    buffers.release()


def memory(count: int = COUNT) -> Any:
    return buffers.empty((count,), np.uint8, count)


def counted(before: dict[str, int]) -> tuple[int, int]:
    now = buffers.statistics()
    return now["requests"] - before["requests"], now["reuses"] - before["reuses"]


def test_memory_is_aligned_and_used_again() -> None:
    before = buffers.statistics()
    first = memory()
    place = first.ctypes.data
    assert place % buffers.ALIGNMENT == 0
    assert buffers.statistics()["used_bytes"] == COUNT
    second = memory()
    assert second.ctypes.data != place
    assert buffers.statistics()["used_bytes"] == 2 * COUNT
    view = first[5:]
    del first
    assert memory().ctypes.data not in (place, second.ctypes.data)
    del view
    assert counted(before) == (3, 0)
    again = [memory(), memory()]
    assert place in [array.ctypes.data for array in again]
    assert counted(before) == (5, 2)
    del again, second
    assert buffers.statistics()["used_bytes"] == 0
    assert buffers.statistics()["kept_bytes"] == 3 * COUNT
    buffers.release()
    assert buffers.statistics()["kept_bytes"] == 0


def test_many_rounds_keep_two_buffers() -> None:
    before = buffers.statistics()
    one = memory()
    for _ in range(1000):
        one = memory()
    assert counted(before) == (1001, 999)
    assert buffers.statistics()["kept_bytes"] == 2 * COUNT
    assert one.flags.writeable


def test_no_more_is_kept_than_the_setting_says() -> None:
    with config.patch(kept_memory=1):
        held = [memory() for _ in range(100)]
        assert buffers.statistics()["kept_bytes"] <= 1 << 20
        big = memory(1 << 19)
        assert buffers.statistics()["kept_bytes"] <= 1 << 20
    assert len({array.ctypes.data for array in [*held, big]}) == 101
    with config.patch(kept_memory=0):
        buffers.release()
        held = [memory() for _ in range(3)]
        assert buffers.statistics() | {"requests": 0, "reuses": 0} == {
            "kept_bytes": 0, "used_bytes": 0, "requests": 0, "reuses": 0,
        }  # fmt: skip
