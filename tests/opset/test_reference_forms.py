"""Samples survive the way into the recorded files and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tensor import storage_of, strides_of, values_of
from rushlight.opset.samples.maker import Sample, sample
from tests.reference import forms, store


def saved(tmp_path: Path, *cases: Sample) -> tuple[store.Reader, list[Any]]:
    writer = store.Writer("0")
    writer.op("aten::an_op")["float32"] = [writer.call(*forms.form_of(case)) for case in cases]
    writer.save(tmp_path / "family.xz")
    reader = store.Reader(tmp_path / "family.xz")
    return reader, reader.index["ops"]["aten::an_op"]["float32"]


def returned(tmp_path: Path, *args: Any, **kwargs: Any) -> Sample:
    reader, [record] = saved(tmp_path, Sample(args, kwargs))
    case = reader.sample(record)
    key = forms.digest(Sample(args, kwargs))
    assert forms.digest(case) == key
    assert reader.table("aten::an_op", "float32") == {key: record}
    return case


def test_values_that_are_no_tensors(tmp_path: Path) -> None:
    given = (
        2, 2.0, True, None, "sum", -0.0, float("inf"), 1 - 2j, [1, (2, [3])], (), rl.Size([2, 3]),
        slice(None, 3, 2), ..., rl.bfloat16, rl.sparse_csr, rl.channels_last, rl.device("cpu"),
    )  # fmt: skip
    case = returned(tmp_path, *given, z=1, a=[0.5])
    assert [(type(value), repr(value)) for value in case.args] == [
        (type(value), repr(value)) for value in given
    ]
    assert list(case.kwargs.items()) == [("z", 1), ("a", [0.5])]


@pytest.mark.parametrize("name", ["bool", "uint8", "int64", "bfloat16", "float64", "complex64"])
def test_tensors_keep_memory_and_geometry(tmp_path: Path, name: str) -> None:
    base = rl.arange(24).reshape(2, 3, 4).to(getattr(rl, name))
    given = (
        base,
        base.transpose(0, 2),
        base[1, :, ::2],
        base[:, :1].expand(2, 3, 4),
        base[0, 0, 3],
    )
    for mine, theirs in zip(returned(tmp_path, *given, base[:0]).args, given, strict=False):
        assert mine.dtype is theirs.dtype
        assert (mine.shape, strides_of(mine)) == (theirs.shape, strides_of(theirs))
        assert mine.storage_offset() == theirs.storage_offset()
        assert np.array_equal(values_of(mine), values_of(theirs))
        # What lies between the elements and behind them too.
        assert storage_of(mine).buffer.tobytes() == storage_of(theirs).buffer.tobytes()


def test_flags_of_tensors(tmp_path: Path) -> None:
    leaf, bare = returned(
        tmp_path, rl.ones(2).requires_grad_(), rl.empty_strided((2, 3), (1, 2), device="meta")
    ).args
    assert leaf.requires_grad
    assert leaf.is_leaf
    assert (bare.device.type, bare.stride(), bare.requires_grad) == ("meta", (1, 2), False)


def test_sparse_tensors(tmp_path: Path) -> None:
    dense = rl.tensor([[0.0, 1.0], [2.0, 0.0]])
    twice = rl.sparse_coo_tensor([[1, 1], [0, 0]], [1.0, 2.0], (2, 2))
    given = (dense.to_sparse(), twice, dense.to_sparse_csr(), dense.to_sparse_csc())
    for mine, theirs in zip(returned(tmp_path, *given).args, given, strict=True):
        assert mine.layout is theirs.layout
        assert np.array_equal(values_of(mine.to_dense()), values_of(theirs.to_dense()))
    assert [t.is_coalesced() for t in returned(tmp_path, *given[:2]).args] == [True, False]


def test_a_value_without_a_form_is_kept_as_text(tmp_path: Path) -> None:
    reader, [record] = saved(tmp_path, sample([rl.ones(2), object()]))
    assert not forms.is_kept(record["in"])
    assert record["in"][0][0]["list"][1] == {"repr": "object: <object object>"}
    with pytest.raises(forms.NotKept, match="object: <object object>"):
        reader.sample(record)
    again = forms.digest(sample([rl.ones(2), object()]))
    assert list(reader.table("aten::an_op", "float32")) == [again]


def test_equal_arrays_are_kept_once(tmp_path: Path) -> None:
    x = rl.arange(6.0)
    reader, records = saved(tmp_path, sample(x, x.reshape(2, 3)), sample(x.clone(), x + 1))
    assert [record["at"] for record in records] == [[0, 0], [0, 1]]
    assert reader.index["blobs"] == [24, 24]


def test_samples_have_memory_of_their_own(tmp_path: Path) -> None:
    reader, [record] = saved(tmp_path, sample(rl.zeros(2), rl.zeros(2)))
    first, second = reader.sample(record).args
    first.add_(1)
    assert second.tolist() == [0.0, 0.0]
    assert reader.sample(record).args[0].tolist() == [0.0, 0.0]


def test_digests_tell_samples_apart() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    cases = [
        sample(x), sample(x + 1), sample(x.double()), sample(x.t()), sample(x[1]), sample(x[:, 0]),
        sample([x]), sample((x,)), sample(x, 1), sample(x, 1.0), sample(x, True), sample(x, dim=1),
        sample(x, x), sample(x.to_sparse()), sample(x.clone().requires_grad_()),
    ]  # fmt: skip
    assert len({forms.digest(case) for case in cases}) == len(cases)
    assert forms.digest(sample(x)) == forms.digest(sample(x.clone()))
