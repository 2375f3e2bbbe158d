"""Named dims: giving names, what ops make of them, and refusals."""

from __future__ import annotations

import pickle

import pytest

import rushlight as torch


def image():
    return torch.arange(6.0).reshape(2, 3).refine_names("N", "C")


def test_plain_tensors_have_no_names():
    x = torch.ones(2, 3)
    assert x.names == (None, None) and not x.has_names()
    assert type(image().rename(None)) is torch.Tensor


def test_ways_to_give_names():
    assert torch.zeros(2, 3, names=("N", "C")).names == ("N", "C")
    assert torch.tensor([1.0], names=["N"]).names == ("N",)
    assert torch.ones(1, 2, 3).refine_names("N", ..., "C").names == ("N", None, "C")
    assert image().rename("A", "B").names == ("A", "B")
    assert image().rename(N="M").names == ("M", "C")
    x = torch.ones(2)
    assert x.rename_("N") is x and x.names == ("N",)
    x.names = None
    assert type(x) is torch.Tensor


def test_names_are_shown():
    assert repr(torch.ones(1).refine_names("N")) == "tensor([1.], names=('N',))"


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (lambda: torch.ones(2).refine_names("1N"), "Invalid name"),
        (lambda: torch.ones(2, 2).refine_names("N", "N"), "duplicate names"),
        (lambda: torch.ones(2).refine_names("N", "C"), "different number of dims"),
        (lambda: image().refine_names("M", "C"), "'N' is different from 'M' at index 0"),
        (lambda: image().rename(Q="M"), "dim 'Q' does not exist"),
        (lambda: torch.zeros(2, names=("N", "C")), r"Number of names \(2\)"),
        (lambda: image() + image().rename("C", "N"), "do not match"),
        (lambda: image() + torch.ones(2).refine_names("N"), "do not match"),
        (
            lambda: image().rename("N", None) + torch.ones(3).refine_names("N"),
            "Misaligned dims",
        ),
        (lambda: image().sum("Q"), "Name 'Q' not found in Tensor"),
        (lambda: image().view(6), "view.. is not yet supported with named tensors"),
        (lambda: torch.cat([image(), image()]), "rename"),
        (lambda: image()[[0, 1]], "Advanced indexing"),
        (lambda: torch.exp(image(), out=torch.empty(2, 3)), "out= is not supported"),
        (lambda: pickle.dumps(image()), "serialization"),
        (lambda: image().align_to("N"), "Cannot find dim 'C'"),
    ],
)
def test_refusals(work, text):
    with pytest.raises(RuntimeError, match=text):
        work()


@pytest.mark.parametrize(
    ("work", "names"),
    [
        (lambda x: x.exp(), ("N", "C")),
        (lambda x: 1 - x, ("N", "C")),
        (lambda x: x == x, ("N", "C")),
        (lambda x: x + torch.ones(3).refine_names("C"), ("N", "C")),
        (lambda x: torch.ones(2, 3) * x, ("N", "C")),
        (lambda x: torch.ones(4, 2, 3) * x, (None, "N", "C")),
        (lambda x: x.sum("N"), ("C",)),
        (lambda x: x.mean(-1), ("N",)),
        (lambda x: x.sum(("N", "C")), ()),
        (lambda x: x.sum(dim="C", keepdim=True), ("N", "C")),
        (lambda x: x.max("C").indices, ("N",)),
        (lambda x: torch.maximum(x, x), ("N", "C")),
        (lambda x: x.softmax("C"), ("N", "C")),
        (lambda x: x.t(), ("C", "N")),
        (lambda x: x.transpose("N", "C"), ("C", "N")),
        (lambda x: x[0], ("C",)),
        (lambda x: x[:, 1:], ("N", "C")),
        (lambda x: x[..., 0], ("N",)),
        (lambda x: x[None], (None, "N", "C")),
        (lambda x: x.select("C", 0), ("N",)),
        (lambda x: x.unbind(0)[1], ("C",)),
        (lambda x: x[:1].squeeze(), ("C",)),
        (lambda x: x @ torch.ones(3, 4).refine_names("I", "O"), ("N", "O")),
        (lambda x: x.mv(torch.ones(3)), ("N",)),
        (lambda x: x.to(torch.float64).clone().detach(), ("N", "C")),
        (lambda x: torch.zeros_like(x), ("N", "C")),
        (lambda x: x.align_to("C", "T", "N"), ("C", "T", "N")),
        (lambda x: x.align_to("C", ...), ("C", "N")),
        (lambda x: x.clone().add_(1), ("N", "C")),
        (lambda x: torch.ones(2, 3).add_(x), ("N", "C")),
    ],
)
def test_what_ops_make_of_names(work, names):
    named = work(image())
    plain = work_plain(work)
    assert named.names == names
    if plain is not None:
        assert torch.equal(named.rename(None), plain)


def work_plain(work):
    """The same work without names, where it says nothing of them."""
    try:
        result = work(image().rename(None))
    except (RuntimeError, TypeError):
        return None
    return result.rename(None)


def test_sizes_and_values_by_name():
    x = image()
    assert x.size("C") == 3 and x.shape == (2, 3) and len(x) == 2
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert x.align_to("C", "N").tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_gradients_pass_names_by():
    x = torch.ones(2, 2, requires_grad=True)
    named = x.refine_names("N", "C")
    (named * named).sum("C").exp().sum().backward()
    assert type(x.grad) is torch.Tensor
    y = torch.ones(2, 2, requires_grad=True)
    (y * y).sum(1).exp().sum().backward()
    assert torch.equal(x.grad, y.grad)


def test_a_named_tensor_shares_memory():
    x = torch.zeros(2)
    x.refine_names("N").add_(1)
    assert x.tolist() == [1.0, 1.0]
