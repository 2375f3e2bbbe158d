"""Stages of pipes, and the names that they get."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rushlight.utils.data import (
    DataChunk,
    DataLoader,
    IterDataPipe,
    MapDataPipe,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)


class Numbers(IterDataPipe):
    def __init__(self, count=4):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(IterDataPipe, "functions", {})
    monkeypatch.setattr(MapDataPipe, "functions", {})


def test_a_stage_becomes_a_method_of_all():
    @functional_datapipe("times")
    class Times(IterDataPipe):
        def __init__(self, source, factor=2):
            self.source, self.factor = source, factor

        def __iter__(self):
            return (each * self.factor for each in self.source)

    assert list(Numbers().times().times(factor=5)) == [0, 10, 20, 30]
    assert [b.tolist() for b in DataLoader(Numbers().times(), batch_size=2)] == [[0, 2], [4, 6]]
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("times")(Times)
    with pytest.raises(AttributeError, match="'Numbers' object has no attribute 'halves'"):
        Numbers().halves()
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("other")(int)


def test_stages_without_an_order_can_be_refused():
    @non_deterministic
    class Shuffled(Numbers):
        pass

    assert list(Shuffled()) == [0, 1, 2, 3]
    with guaranteed_datapipes_determinism(), pytest.raises(TypeError, match="non-deterministic"):
        Shuffled()
    assert list(Shuffled()) == [0, 1, 2, 3]


def test_samples_are_checked_against_their_annotation():
    def made(self) -> Iterator[int]:
        yield 1
        yield "two"

    class Checked(IterDataPipe):
        __iter__ = runtime_validation(made)

    with pytest.raises(RuntimeError, match="two"):
        list(Checked())
    with runtime_validation_disabled():
        assert list(Checked()) == [1, "two"]


def takes(source: Numbers, n: int = 1):
    return source


def test_arguments_are_checked():
    takes.__annotations__ = {"source": Numbers, "n": int}
    checked = argument_validation(takes)
    assert list(checked(Numbers(1))) == [0]
    with pytest.raises(TypeError, match="Expected argument 'source'"):
        checked([1])


def test_chunks():
    assert DataChunk([1, 2]) == [1, 2] and DataChunk([1]).as_str("  ") == "  [1]"
