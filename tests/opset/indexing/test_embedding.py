"""Embedding's gradient: rows that count and sizes that fit."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from rushlight.opset import functions


def test_rows_beyond_the_table_are_dropped():
    grad = torch.ones(3, 2)
    found = functions.embedding_dense_backward(grad, torch.tensor([0, 9, 1]), 3, 1, False)
    assert found.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_a_gradient_has_a_row_for_every_index(place):
    grad, indices = torch.ones(2, 3, device=place), torch.tensor([0, 1, 2]).to(place)
    with pytest.raises(RuntimeError, match=r"shape '\[3, 3\]' is invalid for input of size 6"):
        functions.embedding_dense_backward(grad, indices, 4, -1, False)


def test_renormalised_rows_keep_their_tangents():
    weight, tangent = torch.arange(6.0).view(3, 2), torch.arange(6.0).view(3, 2) + 1
    with fwAD.dual_level():
        rows = torch.nn.functional.embedding(
            torch.tensor([0, 2]), fwAD.make_dual(weight, tangent), max_norm=1.0
        )
        assert fwAD.unpack_dual(rows).tangent.tolist() == [[1, 2], [5, 6]]
    assert weight[2].norm().item() == pytest.approx(1)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_indices_and_offsets_may_differ_in_dtype(mode):
    rows = torch.arange(6.0).view(3, 2).requires_grad_()
    indices, offsets = torch.tensor([0, 1, 1]), torch.tensor([0, 2])
    expected = torch.nn.functional.embedding_bag(indices, rows, offsets, mode=mode)
    (slope,) = torch.autograd.grad(expected.sum(), rows)
    for kinds in ((torch.int64, torch.int32), (torch.int32, torch.int64)):
        pair = indices.to(kinds[0]), offsets.to(kinds[1])
        found = torch.nn.functional.embedding_bag(pair[0], rows, pair[1], mode=mode)
        assert torch.equal(found, expected)
        assert torch.equal(torch.autograd.grad(found.sum(), rows)[0], slope)
        assert torch.embedding_bag(rows, *pair)[1].dtype is torch.int64


def test_rows_are_scaled_by_a_rounded_norm():
    rows = torch.ones(3, 2)
    torch.nn.functional.embedding(torch.tensor([0, 1]), rows, max_norm=1.0)
    assert rows.tolist() == [[0.7071067690849304] * 2, [0.7071067690849304] * 2, [1.0, 1.0]]


def test_a_gradient_scaled_by_frequency_can_be_differentiated():
    index = torch.tensor([0, 1, 0, 2])
    weight = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)

    def look_up(weight):
        return torch.nn.functional.embedding(index, weight, scale_grad_by_freq=True)

    grad = torch.ones(4, 2, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(look_up(weight), weight, grad, create_graph=True)
    (second,) = torch.autograd.grad(found[:, 0].sum(), grad)
    assert second.tolist() == [[0.5, 0.0], [1.0, 0.0], [0.5, 0.0], [1.0, 0.0]]
    assert torch.autograd.gradgradcheck(look_up, (weight,))


def test_bags_of_equal_length_on_a_device_without_values():
    bags = torch.zeros(2, 2, dtype=torch.int64, device="meta")
    found = torch.nn.functional.embedding_bag(bags, torch.ones(3, 2, device="meta"), mode="max")
    assert (tuple(found.shape), found.device.type) == ((2, 2), "meta")


def test_bags_refuse_weights_of_another_dtype_and_embeddings_tables_of_other_dims():
    table, given = torch.ones(4, 2), torch.tensor([[0, 1]])
    with pytest.raises(RuntimeError, match="same type as tensor .* torch.FloatTensor does not equ"):
        torch.nn.functional.embedding_bag(
            given, table, per_sample_weights=torch.ones(1, 2, dtype=torch.float64), mode="sum"
        )
    for weight in (torch.tensor(1.0), torch.ones(1, 1, 1)):
        with pytest.raises(RuntimeError, match="'weight' must be 2-D"):
            torch.nn.functional.embedding(given, weight)


def test_rows_that_bags_do_not_find_are_named():
    table, given = torch.ones(4, 2), torch.tensor([[0, 9]])
    for options in ({"mode": "max"}, {"mode": "sum", "padding_idx": 0}):
        with pytest.raises(RuntimeError, match="idx < num_embeddings but found idx to be 9"):
            torch.nn.functional.embedding_bag(given, table, **options)
    with pytest.raises(RuntimeError, match="Index 1 of input takes value 9"):
        torch.nn.functional.embedding_bag(given, table)
