"""segment_reduce and hash_tensor beyond their samples."""

from __future__ import annotations

import math

import pytest

import rushlight as torch

DATA = torch.tensor([1.0, 5.0, 2.0, 3.0, 3.0, 6.0])
LENGTHS = torch.tensor([2, 0, 3, 1])


def test_empty_segments() -> None:
    assert torch.segment_reduce(DATA, "sum", lengths=LENGTHS).tolist() == [6, 0, 8, 6]
    assert torch.segment_reduce(DATA, "max", lengths=LENGTHS).tolist() == [5, -math.inf, 3, 6]
    assert math.isnan(torch.segment_reduce(DATA, "mean", lengths=LENGTHS)[1].item())
    found = torch.segment_reduce(DATA, "mean", lengths=LENGTHS, initial=3.0)
    assert found.tolist() == pytest.approx([4.5, 3, 11 / 3, 9])


def test_ties_share_a_gradient_and_zeros_do_not_divide() -> None:
    x = DATA.clone().requires_grad_()
    torch.segment_reduce(x, "max", lengths=LENGTHS, initial=3.0).sum().backward()
    assert x.grad.tolist() == [0, 1, 0, 0.5, 0.5, 1]
    x = torch.tensor([0.0, 5.0, 2.0, 0.0, 3.0], requires_grad=True)
    torch.segment_reduce(x, "prod", lengths=torch.tensor([2, 3])).sum().backward()
    assert x.grad.tolist() == [5, 0, 0, 6, 0]


def test_segments_beyond_the_data_are_refused() -> None:
    with pytest.raises(RuntimeError, match="sum to data.size"):
        torch.segment_reduce(DATA, "sum", lengths=torch.tensor([2, 1]))
    unsafe = torch.segment_reduce(DATA, "sum", lengths=torch.tensor([2, 1]), unsafe=True)
    assert unsafe.tolist() == [6, 2]
    with pytest.raises(RuntimeError, match="beyond the 6 elements"):
        torch.segment_reduce(DATA, "sum", offsets=torch.tensor([0, 2, 8]))


def test_hashes_are_of_bits() -> None:
    assert torch.hash_tensor(torch.arange(6)).item() == 1
    assert torch.hash_tensor(torch.tensor([-0.0])).item() == 1 << 63
    assert torch.hash_tensor(torch.tensor([-1], dtype=torch.int8)).item() == (1 << 64) - 1
    assert torch.hash_tensor(torch.arange(6.0)).item() == 4610560118520545280
    assert torch.hash_tensor(torch.arange(3.0)).dtype is torch.uint64


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_tangents_are_those_of_the_backward(reduce):
    data = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0], dtype=torch.float64)
    lengths = torch.tensor([2, 3])

    def reduced(values):
        return torch.segment_reduce(values, reduce, lengths=lengths)

    forward, backward = torch.func.jacfwd(reduced)(data), torch.func.jacrev(reduced)(data)
    torch.testing.assert_close(forward, backward)
    assert forward[0, 2:].tolist() == [0, 0, 0]
