"""Joining, repeating, padding: layouts and public signatures that samples do not reach."""

from __future__ import annotations

import pytest

import rushlight as rl


def test_cat_keeps_a_common_memory_format() -> None:
    x = rl.ones(2, 3, 4, 5).permute(0, 3, 1, 2)
    assert x.is_contiguous(memory_format=rl.channels_last)
    assert rl.cat([x, x], 1).stride() == (120, 1, 40, 10)
    assert rl.cat([x, x.contiguous()], 1).stride() == (120, 12, 4, 1)


def test_cat_passes_over_empty_vectors() -> None:
    empty = rl.ones(0, requires_grad=True)
    x = rl.ones(2, 3, requires_grad=True)
    result = rl.cat([empty, x], 1)
    result.sum().backward()
    assert result.shape == (2, 3) and empty.grad.shape == (0,) and x.grad.sum().item() == 6


def test_cat_promotes() -> None:
    assert rl.cat([rl.ones(1, dtype=rl.int64), rl.ones(1)]).dtype is rl.float32
    assert rl.concat([rl.ones(1), rl.ones(1, dtype=rl.float64)]).dtype is rl.float64


def test_functions_of_several_tensors_take_them_either_way() -> None:
    a, b = rl.arange(2.0), rl.arange(3.0)
    for grid in (rl.meshgrid(a, b, indexing="xy"), rl.meshgrid([a, b], indexing="xy")):
        assert [t.shape for t in grid] == [(3, 2), (3, 2)] and type(grid) is tuple
        assert grid[0].stride() == (0, 1) and grid[1].stride() == (1, 0)
    assert rl.cartesian_prod(a, b).shape == (6, 2)
    assert rl.block_diag(a, rl.ones(2, 2)).shape == (3, 4)
    assert rl.block_diag().shape == (1, 0)
    assert type(rl.atleast_2d(a)) is rl.Tensor and len(rl.atleast_2d(a, b)) == 2
    assert [t.shape for t in rl.broadcast_tensors(rl.ones(2, 1), b)] == [(2, 3), (2, 3)]
    with pytest.warns(UserWarning, match="indexing argument"):
        rl.meshgrid(a, b)


def test_combinations() -> None:
    x = rl.tensor([1, 2, 3])
    assert rl.combinations(x).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert rl.combinations(x, 2, True).tolist()[:3] == [[1, 1], [1, 2], [1, 3]]
    assert rl.combinations(x, 4).shape == (0, 4) and rl.combinations(x, 0).shape == (0,)


def test_triangles_keep_nan_out() -> None:
    x = rl.full((2, 2), float("nan"))
    assert rl.triu(x, 1)[1, 0].item() == 0.0
    y = rl.ones(2, 2)
    y.tril_()
    assert y.tolist() == [[1.0, 0.0], [1.0, 1.0]] and y._version == 1


def test_padding_by_mode() -> None:
    from rushlight.opset.registry import find

    pad = find("pad")
    x = rl.arange(4.0).view(1, 1, 4)
    assert pad(x, (2, 1), "reflect").tolist() == [[[2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0]]]
    assert pad(x, (2, 1), "replicate").tolist() == [[[0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0]]]
    assert pad(x, (2, 1), "circular").tolist() == [[[2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0]]]
    assert pad(x, (-1, 1), "constant", 7.0).tolist() == [[[1.0, 2.0, 3.0, 7.0]]]
    with pytest.raises(RuntimeError, match="Padding size should be less than"):
        pad(x, (4, 0), "reflect")
    with pytest.raises(NotImplementedError, match="Padding size 2 is not supported for 1D"):
        pad(rl.ones(2), (1, 1), "reflect")


def test_broadcast_tensors_returns_what_needs_no_change():
    x = rl.ones(2, 3, requires_grad=True) * 1
    same, wide = rl.broadcast_tensors(x, rl.ones(3))
    assert same is x
    assert wide.shape == (2, 3)
    assert wide.stride() == (0, 1)


def test_padding_values_fit() -> None:
    from rushlight.opset.registry import find

    pad = find("constant_pad_nd")
    bytes_ = rl.ones(2, dtype=rl.uint8)
    assert pad(bytes_, (1, 0), -1).tolist() == [255, 1, 1]
    for x, value, name in (
        (bytes_, -1.0, "uint8_t"),
        (rl.ones(2, dtype=rl.int8), 300, "int8_t"),
        (rl.ones(2), 1j, "float"),
        (rl.ones(2, dtype=rl.float16), 1e9, "c10::Half"),
    ):
        with pytest.raises(RuntimeError, match=f"converted to type {name} without overflow"):
            pad(x, (1, 1), value)


def test_edges_of_nothing() -> None:
    from rushlight.opset.registry import find

    pad = find("pad")
    for mode in ("reflect", "replicate"):
        for sizes in ((1, 0), (2, 0, 3)):
            with pytest.raises(RuntimeError, match="other non-zero dimensions for input"):
                pad(rl.zeros(sizes), (1, 1), mode)
        assert pad(rl.zeros(0, 2, 3), (1, 1), mode).shape == (0, 2, 5)
        with pytest.raises(RuntimeError, match=r"\(W: 3\) is too small. Calculated output W: -1"):
            pad(rl.ones(1, 1, 3), (-2, -2), mode)


def test_shuffles_of_nothing() -> None:
    x = rl.zeros(0, 4, 2, 2)
    assert rl.channel_shuffle(x, 2).shape == x.shape
    assert rl.pixel_unshuffle(x, 2).shape == x.shape
    assert rl.pixel_unshuffle(x.to("meta"), 2).shape == x.shape


def test_cat_of_nothing_but_skipped_tensors_takes_any_dim():
    assert rl.cat([rl.randn(0)] * 2, 1).shape == (0,)
    assert rl.cat([rl.empty(0, device="meta")] * 2, 1).shape == (0,)


@pytest.mark.parametrize(("sizes", "dims"), [((1,), (0,)), ((1, 3), (0,)), ((2,), ()), ((), (0,))])
def test_a_flip_that_moves_nothing_is_a_copy(sizes, dims) -> None:
    x = rl.ones(sizes)
    x.flip(dims).zero_()
    assert x.eq(1).all()


def test_a_number_is_not_rolled_along_a_dim():
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        rl.roll(rl.tensor(1.0), 1, 0)
    assert rl.roll(rl.tensor(1.0), 1).item() == 1.0
