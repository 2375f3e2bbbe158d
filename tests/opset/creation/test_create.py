"""Factory functions, ranges, windows, default device."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl


def test_sizes_dtypes_and_flags() -> None:
    assert rl.zeros(2, 3).shape == (2, 3)
    assert rl.zeros((2, 3)).shape == rl.zeros([2, 3]).shape == rl.zeros(size=(2, 3)).shape
    assert rl.zeros([]).shape == ()
    assert rl.zeros(rl.tensor(2)).shape == (2,)
    assert rl.ones(2, dtype=rl.bfloat16).tolist() == [1.0, 1.0]
    assert rl.ones(2, dtype=rl.complex32).tolist() == [1 + 0j, 1 + 0j]
    assert rl.ones(2, requires_grad=True).requires_grad
    assert rl.full((2,), True).dtype is rl.bool
    assert rl.full((2,), 3).dtype is rl.int64
    assert rl.full((2,), 1j).dtype is rl.complex64


@pytest.mark.parametrize(
    "make",
    [
        lambda: rl.zeros(2**61, 8),
        lambda: rl.empty(2**40, 2**40),
        lambda: rl.full((2**62, 4), 1.0),
        lambda: rl.randn(2**31, 2**31),
        lambda: rl.arange(2**60),
        lambda: rl.ones(1).new_zeros(2**40, 2**40),
        lambda: rl.empty_strided((2**40, 2**40), (2**40, 1)),
    ],
)
def test_more_bytes_than_there_are(make: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed with sizes="):
        make()


def test_no_memory() -> None:
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator: can't allocate memory"):
        rl.empty(2**45)


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="zeros: Dimension size must be non-negative."):
        rl.zeros(-1)
    with pytest.raises(RuntimeError, match=r"negative dimension -1: \[2, -1\]"):
        rl.ones(2, -1)
    with pytest.raises(RuntimeError, match="floating point"):
        rl.zeros(2, dtype=rl.int64, requires_grad=True)
    with pytest.raises(RuntimeError, match="pin_memory"):
        rl.zeros(2, pin_memory=True)
    with pytest.raises(AssertionError, match="CUDA"):
        rl.zeros(2, device="cuda")
    with pytest.raises(NotImplementedError, match="sparse"):
        rl.ones(2, layout=rl.sparse_coo)


def test_out_decides_the_dtype() -> None:
    out = rl.empty(2, dtype=rl.int64)
    assert rl.zeros(2, out=out) is out
    assert out.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
        rl.zeros(2, out=out, dtype=rl.float32)


def test_strides() -> None:
    assert rl.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert rl.empty_permuted((2, 3, 5), (2, 0, 1)).stride() == (3, 1, 6)
    assert rl.empty(2, 3, 4, 5, memory_format=rl.channels_last).stride() == (60, 1, 15, 3)
    assert rl.zeros_like(rl.ones(2, 3).t()).stride() == (1, 3)
    assert rl.ones(1).new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)


def test_new_and_like_follow_their_tensor() -> None:
    x = rl.ones(2, dtype=rl.float64)
    assert x.new_zeros(2, 3).dtype is rl.float64
    assert x.new_full((2,), 3, dtype=rl.int8).tolist() == [3, 3]
    assert x.new_tensor([1, 2]).dtype is rl.float64
    assert rl.zeros_like(x, device="meta").device.type == "meta"
    assert rl.full_like(x, 7).tolist() == [7.0, 7.0]


def test_arange() -> None:
    assert rl.arange(5).dtype is rl.int64
    assert rl.arange(1, 8, 3).tolist() == [1, 4, 7]
    assert rl.arange(5, -3, -2).tolist() == [5, 3, 1, -1]
    assert rl.arange(2.5).tolist() == [0.0, 1.0, 2.0]
    assert rl.arange(0, 1, 0.3, dtype=rl.float64).shape == (4,)
    # Bounds are truncated first for int64, and for no other dtype.
    assert rl.arange(0.5, 4.5, 1.5, dtype=rl.int64).tolist() == [0, 1, 2, 3]
    assert rl.arange(0.7, 5.7, 1.6, dtype=rl.int32).tolist() == [0, 1, 2, 3]
    assert rl.arange(2**60, 2**60 + 2).tolist() == [2**60, 2**60 + 1]
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        rl.arange(1, 0)
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        rl.arange(0, 5, 0)
    with pytest.raises(RuntimeError, match="unsupported range: 0 -> nan"):
        rl.arange(float("nan"))
    with pytest.raises(NotImplementedError, match="arange_cpu"):
        rl.arange(2, dtype=rl.bool)


def test_linspace_and_logspace() -> None:
    assert rl.linspace(0, 10, 4, dtype=rl.int64).tolist() == [0, 3, 6, 10]
    assert rl.linspace(0, 1, 1).tolist() == [0.0]
    assert rl.linspace(rl.tensor(0.0), 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert rl.linspace(0, 1j, 3).dtype is rl.complex64
    assert rl.logspace(0, 2, 3, base=2).tolist() == [1.0, 2.0, 4.0]
    with pytest.raises(RuntimeError, match="number of steps must be non-negative"):
        rl.linspace(0, 1, -1)


def test_windows_and_matrices() -> None:
    assert rl.hann_window(5, False).tolist() == [0.0, 0.5, 1.0, 0.5, 0.0]
    assert rl.hann_window(1).tolist() == [1.0]
    assert rl.bartlett_window(4, False).tolist() == pytest.approx([0, 2 / 3, 2 / 3, 0])
    assert rl.eye(2, 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert rl.vander(rl.tensor([1, 2, 3])).tolist() == [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    assert rl.scalar_tensor(3).dtype is rl.float32


def test_default_device() -> None:
    with rl.device("meta"):
        assert rl.zeros(2).is_meta
        assert rl.tensor([1]).is_meta
        assert rl.arange(3).is_meta
        assert rl.rand(2).is_meta
        assert not rl.zeros(2, device="cpu").is_meta
    rl.set_default_device("meta")
    try:
        assert rl.get_default_device() == rl.device("meta")
        assert rl.ones(1).is_meta
    finally:
        rl.set_default_device(None)
    assert not rl.ones(1).is_meta


def test_inference_mode_marks_new_tensors() -> None:
    with rl.inference_mode():
        for made in (rl.zeros(2), rl.tensor([1.0]), rl.rand(2), rl.arange(2)):
            assert made.is_inference()
    assert not rl.zeros(2).is_inference()


def test_sparse_layouts_need_nothing_loaded_before():
    code = (
        "import rushlight as torch; x = torch.zeros(2, layout=torch.sparse_coo); "
        "assert x.to_dense().tolist() == [0.0, 0.0] and x._nnz() == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


SERIES = {
    "arange": (lambda out: rl.arange(0, 4, out=out), [0, 1, 2, 3]),
    "linspace": (lambda out: rl.linspace(0, 6, 4, out=out), [0, 2, 4, 6]),
    "linspace of tensors": (lambda out: rl.linspace(rl.tensor(0), 6, 4, out=out), [0, 2, 4, 6]),
    "logspace": (lambda out: rl.logspace(0, 3, 4, out=out), [1, 10, 100, 1000]),
    "range": (lambda out: rl.range(0, 3, out=out), [0, 1, 2, 3]),
}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("name", SERIES)
def test_series_fill_out_by_count(name: str) -> None:
    make, values = SERIES[name]
    base = rl.full((2, 3), -1.0)
    assert make(base.narrow(1, 1, 2)).shape == (2, 2)
    assert base.tolist() == [[-1, *values[:2]], [-1, *values[2:]]]
    turned = rl.zeros(2, 2).t()
    assert make(turned).flatten().tolist() == values and turned.stride() == (1, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert make(rl.zeros(3)).tolist() == values
    assert len(caught) == (name == "arange")


def test_factories_resize_out_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rl.zeros(2, 2, out=rl.ones(3)).tolist() == [[0, 0], [0, 0]]
        assert rl.eye(2, out=rl.ones(3)).tolist() == [[1, 0], [0, 1]]
        assert rl.rand(2, out=rl.ones(3)).shape == (2,)
        assert rl.randperm(4, out=rl.ones(3, dtype=rl.int64)).shape == (4,)


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_complex_ends_need_a_complex_dtype(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"torch.{name}.*can't be safely cast.*Float"):
        getattr(rl, name)(0, 1j, 3, dtype=rl.float32)
    assert getattr(rl, name)(0, 1j, 3).dtype is rl.complex64


@pytest.mark.parametrize("kind", [rl.float16, rl.bfloat16])
def test_complex_numbers_are_filled_in_at_single_precision(kind) -> None:
    rl.set_default_dtype(kind)
    try:
        assert rl.full((2,), 1j).dtype is rl.complex64
    finally:
        rl.set_default_dtype(rl.float32)


@pytest.mark.parametrize("kind", [rl.uint8, rl.int32, rl.int64])
def test_unravelled_positions_are_long_integers(kind) -> None:
    rows, columns = rl.unravel_index(rl.tensor([200, 3], dtype=kind), (300, 2))
    assert rows.dtype is rl.int64 and rows.tolist() == [100, 1] and columns.tolist() == [0, 1]


def test_coordinates_are_parts_of_one_tensor() -> None:
    rows, columns = rl.unravel_index(rl.tensor([[1, 2, 3], [4, 5, 6]]), (3, 4))
    assert rows.stride() == columns.stride() == (6, 2)
    assert columns.tolist() == [[1, 2, 3], [0, 1, 2]]
    assert rl.unravel_index(rl.tensor([0]), ()) == ()


def test_wrong_arguments_of_unravel_index() -> None:
    for indices, shape in ((rl.tensor(0.5), (2, 2)), (rl.tensor(1), rl.tensor([1, 2]))):
        with pytest.raises(TypeError, match="expected '(indices|shape)' to be int"):
            rl.unravel_index(indices, shape)
    with pytest.raises(TypeError, match="expected 'shape' sequence to only contain ints"):
        rl.unravel_index(rl.tensor(1), (1, 2.0))


def test_ends_of_whole_numbers_are_numbers_of_the_dtype() -> None:
    def spaced(*args, **kwargs):
        return rl.linspace(*args, **kwargs).tolist()

    assert spaced(-2, 2, 5, dtype=rl.uint8) == [254, 191, 128, 65, 2]
    assert spaced(0.5, 2.5, 3, dtype=rl.int64) == [0, 1, 2]
    assert spaced(2, float("nan"), 1, dtype=rl.int8) == [2]
    assert spaced(float("nan"), 2, 0, dtype=rl.int8) == []
    assert spaced(3.5, 0, 1, dtype=rl.bool) == [True]
    for start in (300, float("nan"), float("inf"), -0.5):
        with pytest.raises(RuntimeError, match="without overflow"):
            rl.linspace(start, 2, 3, dtype=rl.uint8)
    with pytest.raises(RuntimeError, match="without overflow"):
        rl.linspace(0, 1e60, 3)
    powers = rl.logspace(0.5, 2.5, 3, dtype=rl.int32)
    assert powers.tolist() == [1, 10, 100]
    assert rl.logspace(-2, 2, 3, dtype=rl.uint8).tolist() == [0, 0, 100]
    assert rl.logspace(1.5, 3, 1, dtype=rl.uint8).tolist() == [31]


def test_a_single_power_fits_its_dtype():
    with pytest.raises(RuntimeError, match="without overflow"):
        rl.logspace(3, 7, 1, dtype=rl.int8)
    assert rl.logspace(2, 7, 1, dtype=rl.int8).tolist() == [100]
