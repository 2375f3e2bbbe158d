"""Fake tensors of other layouts, and their constants."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.core.fake import FakeTensorMode, UnsupportedFakeTensorException


def coo():
    return torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2, 3), (4, 3))


def test_coo_tensors_have_fakes_over_fakes_of_their_parts():
    mode = FakeTensorMode()
    fake = mode.from_tensor(coo())
    assert fake.layout == torch.sparse_coo and fake.shape == (4, 3)
    assert fake._nnz() == 2 and fake.sparse_dim() == 1 and not fake.is_coalesced()
    assert fake._indices().shape == (1, 2) and fake._values().shape == (2, 3)
    assert repr(fake) == "FakeTensor(..., size=(4, 3), layout=torch.sparse_coo)"
    assert mode.from_tensor(coo()) is not fake


def test_ops_on_fake_coo_tensors():
    mode = FakeTensorMode()
    fake = mode.from_tensor(coo())
    with mode:
        assert fake.to_dense().shape == (4, 3) and fake.to_dense().layout == torch.strided
        for result in (fake * 2, -fake, fake.clone(), fake.detach()):
            assert result.layout == torch.sparse_coo and result.shape == (4, 3)
        with pytest.raises(UnsupportedFakeTensorException, match="aten.add.Tensor on tensors of"):
            fake + fake


def test_other_sparse_layouts_are_refused_by_name():
    with pytest.raises(UnsupportedFakeTensorException, match="sparse_csr"):
        FakeTensorMode().from_tensor(torch.eye(2).to_sparse_csr())


def test_symbolic_sizes_of_coo_tensors():
    pytest.importorskip("sympy")
    from rushlight.symbolic import ShapeEnv

    fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(coo())
    assert [str(size) for size in fake.shape] == ["s0", "s1"]
    assert str(fake._values().shape[1]) == "s1"


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_sparse_gradients_are_compiled_ahead_of_time(mode, dynamic):
    if dynamic:
        pytest.importorskip("sympy")

    def f(w, x, y):
        return torch.nn.functional.embedding_bag(x, w, y, sparse=True, mode=mode).view(-1) * 2

    given, expected = [torch.arange(24.0).view(8, 3).requires_grad_() for _ in range(2)]
    ids, offsets = torch.tensor([1, 5, 5, 2]), torch.tensor([0, 2])
    found = aot_function(f, nop, dynamic=dynamic)(given, ids, offsets)
    wanted = f(expected, ids, offsets)
    assert torch.equal(found, wanted)
    found.sum().backward()
    wanted.sum().backward()
    assert given.grad.layout == torch.sparse_coo
    assert torch.equal(given.grad.to_dense(), expected.grad.to_dense())


def test_constants_keep_their_value_through_writes():
    outside = torch.tensor(1.0)
    with FakeTensorMode() as mode:
        inside = torch.tensor(1.0)
        inside += 2
        inside[None].mul_(2)
        assert inside.item() == 6.0
        lifted = mode.constant_of(outside)
        lifted.add_(1)
        assert lifted.item() == 2.0
    assert outside.item() == 1.0


def test_constants_written_with_unknown_values_are_unknown():
    from rushlight.core.fake import DataDependentOutputException

    mode = FakeTensorMode()
    other = mode.from_tensor(torch.tensor(1.0))
    with mode:
        known = torch.tensor(1.0)
        known += other
        with pytest.raises(DataDependentOutputException):
            known.item()


def test_fakes_are_read_as_their_tensors_are():
    z = torch.complex(torch.ones(3, requires_grad=True), torch.ones(3))
    for value in (z.conj(), z.detach().conj()[1:], z._neg_view(), z.conj().imag):
        made = FakeTensorMode().from_tensor(value)
        assert (made.is_conj(), made.is_neg()) == (value.is_conj(), value.is_neg())
        assert made.requires_grad is value.requires_grad and made.dtype is value.dtype
