"""Sequences packed and padded."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils.rnn import (
    PackedSequence,
    invert_permutation,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)


def steps():
    return torch.arange(12).reshape(4, 3)


def test_packing_goes_by_step():
    packed = pack_padded_sequence(steps(), [4, 2, 1])
    assert packed.data.tolist() == [0, 1, 2, 3, 4, 6, 9]
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
    assert packed.sorted_indices is None and packed.unsorted_indices is None
    padded, lengths = pad_packed_sequence(packed, padding_value=-1, total_length=5)
    assert padded.T.tolist() == [[0, 3, 6, 9, -1], [1, 4, -1, -1, -1], [2, -1, -1, -1, -1]]
    assert lengths.tolist() == [4, 2, 1]


def test_unsorted_sequences_come_back_in_their_order():
    packed = pack_padded_sequence(steps().T, [1, 4, 2], batch_first=True, enforce_sorted=False)
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    assert packed.unsorted_indices.tolist() == [2, 0, 1]
    assert packed.data.tolist() == [1, 2, 0, 4, 5, 7, 10]
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    assert padded.tolist() == [[0, 0, 0, 0], [1, 4, 7, 10], [2, 5, 0, 0]]
    assert lengths.tolist() == [1, 4, 2]


def test_lists_of_sequences():
    parts = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])]
    assert pad_sequence(parts).tolist() == [[1, 4], [2, 0], [3, 0]]
    left = pad_sequence(parts, batch_first=True, padding_value=9, padding_side="left")
    assert left.tolist() == [[1, 2, 3], [9, 9, 4]]
    again = unpad_sequence(pad_sequence(parts), torch.tensor([3, 1]))
    assert [part.tolist() for part in again] == [[1, 2, 3], [4]]
    assert [part.tolist() for part in unpack_sequence(pack_sequence(parts))] == [[1, 2, 3], [4]]
    assert invert_permutation(torch.tensor([2, 0, 1])).tolist() == [1, 2, 0]
    assert invert_permutation(None) is None


def test_packed_sequences_convert():
    packed = pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    assert packed.to(torch.float64).data.dtype is torch.float64
    assert packed.float().data.dtype is torch.float32 and packed.long() is packed
    assert PackedSequence((packed.data, packed.batch_sizes)).data is packed.data


def test_gradients_reach_what_was_packed():
    x = torch.ones(3, 2, requires_grad=True)
    packed = pack_padded_sequence(x, [3, 1])
    (packed.data * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [[1, 2], [3, 0], [4, 0]]


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_layers_see_only_what_is_there(name):
    torch.manual_seed(1)
    module = getattr(nn, name)(2, 3, num_layers=2, bidirectional=True)
    x = torch.randn(4, 2, 2)
    packed, last = module(pack_padded_sequence(x, [2, 4], enforce_sorted=False))
    output = pad_packed_sequence(packed)[0]
    for column, length in ((0, 2), (1, 4)):
        alone, state = module(x[:length, column])
        assert torch.allclose(output[:length, column], alone, atol=1e-6)
        pairs = zip(last, state, strict=True) if name == "LSTM" else [(last, state)]
        for all_states, own in pairs:
            assert torch.allclose(all_states[:, column], own, atol=1e-6)
    assert output[2:, 0].abs().sum().item() == 0


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: pack_padded_sequence(steps(), [1, 4, 2]), RuntimeError, "must be sorted"),
        (lambda: pack_padded_sequence(steps(), [4, 2, 0]), RuntimeError, "greater than 0"),
        (lambda: pack_padded_sequence(steps(), [4, 2]), RuntimeError, "batch_size=3"),
        (lambda: pack_padded_sequence(steps(), [5, 2, 1]), RuntimeError, "number of steps"),
        (lambda: pad_sequence([]), RuntimeError, "empty list"),
        (lambda: pad_sequence(3), RuntimeError, "Expected iterable"),
        (lambda: PackedSequence(torch.ones(2)), AssertionError, "length 2"),
        (
            lambda: pad_packed_sequence(pack_sequence([torch.ones(3)]), total_length=2),
            ValueError,
            "total_length=2 and max sequence length being 3",
        ),
    ],
)
def test_mistakes(make, error, text):
    with pytest.raises(error, match=text):
        make()
