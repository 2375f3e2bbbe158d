"""Complex tensors: lazy conjugation, parts as views, polar form, gradients."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_conjugation_is_lazy():
    z = torch.tensor([1 + 2j, 3 - 1j])
    c = z.conj()
    assert c.is_conj()
    assert torch.is_conj(c)
    assert c.data_ptr() == z.data_ptr()
    assert c.tolist() == [1 - 2j, 3 + 1j]
    assert not c.conj().is_conj()
    assert (c * 2).tolist() == [2 - 4j, 6 + 2j]
    assert not c.resolve_conj().is_conj()
    c.mul_(1j)
    assert z.tolist() == [2 - 1j, -1 - 3j]
    x = torch.tensor([1.0])
    assert x.conj() is x


def test_parts_are_views():
    z = torch.tensor([1 + 2j])
    z.real.fill_(5)
    z.imag = torch.tensor([7.0])
    assert z.tolist() == [5 + 7j]
    assert z.conj().imag.is_neg()
    assert z.conj().imag.tolist() == [-7.0]
    assert torch.view_as_real(z).tolist() == [[5.0, 7.0]]
    pairs = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.view_as_complex(pairs).tolist() == [1 + 2j, 3 + 4j]


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (lambda: torch.tensor([1.0]).imag, "imag is not implemented for tensors with non-complex"),
        (lambda: torch.view_as_real(torch.tensor([1.0])), "only supported for complex tensors"),
        (lambda: torch.view_as_real(torch.tensor([1j]).conj()), "unresolved conjugated tensors"),
        (lambda: torch.view_as_complex(torch.ones(3)), "last dimension of size 2"),
        (lambda: torch.view_as_complex(torch.ones(2, dtype=torch.int64)), "half, float and double"),
        (lambda: torch.complex(torch.tensor([1]), torch.tensor([1])), "Half, Float or Double"),
    ],
)
def test_errors(compute, words):
    with pytest.raises(RuntimeError, match=words):
        compute()


def test_polar_form():
    z = torch.tensor([3 + 4j], dtype=torch.complex128)
    assert z.abs().tolist() == [5.0]
    assert z.abs().dtype is torch.float64
    back = torch.polar(z.abs(), z.angle())
    assert back.tolist() == [pytest.approx(3 + 4j)]
    assert torch.angle(torch.tensor([-1.0, 2.0])).tolist() == pytest.approx([3.1415927, 0.0])
    assert z.sgn().tolist() == [pytest.approx(0.6 + 0.8j)]


def test_half_pair():
    pair = torch.complex(torch.tensor([1.5]).half(), torch.tensor([2.5]).half())
    assert torch.view_as_real(pair).tolist() == [[1.5, 2.5]]


def test_gradients():
    z = torch.tensor([3 + 4j], dtype=torch.complex128, requires_grad=True)
    for compute, expected in (
        (lambda z: z.abs(), 0.6 + 0.8j),
        (lambda z: (z * z.conj()).real, 6 + 8j),
        (lambda z: z.imag, 1j),
        (lambda z: z.conj().imag, -1j),
        (lambda z: z.angle(), (-4 + 3j) / 25),
    ):
        (grad,) = torch.autograd.grad([compute(z).sum()], [z])
        assert grad.tolist() == [pytest.approx(expected)]


def test_complex_numbers_are_not_cast_to_out():
    one, out = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.complex64)
    for make in (torch.complex, torch.polar):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            make(one, one, out=out)


def test_an_imaginary_part_of_a_conjugate_is_selected_last():
    x = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    part = x.conj().imag
    assert part.grad_fn.name() == "SelectBackward0" and part.tolist() == [-0.0, -0.0]
    part.sum().backward()
    assert x.grad.tolist() == [-1j, -1j]
