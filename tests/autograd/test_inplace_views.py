"""In-place ops, version counters, and writing through views."""

from __future__ import annotations

import gc
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck


def leaf(*shape):
    return torch.ones(*shape, dtype=torch.float64, requires_grad=True)


# -- versions --------------------------------------------------------------------------------------


def test_views_and_detached_aliases_share_a_version():
    x = torch.zeros(2, 2)
    view, alias, data, copy = x[0], x.detach(), x.data, x.clone()
    view.add_(1)
    with torch.no_grad():
        alias.mul_(2)
    assert x._version == view._version == alias._version == 2
    assert data._version == copy._version == 0


def test_resizing_counts_only_when_the_size_changes():
    x = torch.zeros(2)
    versions = []
    for size in ((3,), (3,), (2, 2)):
        x.resize_(size)
        versions.append(x._version)
    assert versions == [1, 1, 2]
    with pytest.raises(RuntimeError):
        leaf(2).resize_(3)


def test_earlier_uses_that_saved_nothing_still_work():
    x = leaf(2)
    y = x * 2
    added = y + 1
    squared = y * y
    y.add_(5)
    assert y.grad_fn.name() == "AddBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"
    added.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()
    z = (leaf(2) * 1).exp_()
    z.sum().backward()


def test_out_takes_no_gradients():
    x = leaf(2)
    for call in (lambda: torch.exp(x, out=torch.ones(2)), lambda: torch.exp(torch.ones(2), out=x)):
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            call()
    with torch.no_grad():
        torch.exp(x, out=torch.ones(2, dtype=torch.float64))


def test_assignment_makes_a_plain_tensor_part_of_the_graph():
    rows, x = torch.zeros(2, 2, dtype=torch.float64), leaf(2)
    rows[0] = x
    rows[1] = x * 2
    assert not rows.is_leaf and rows.requires_grad
    (rows * torch.tensor([[1.0], [10.0]])).sum().backward()
    assert x.grad.tolist() == [21.0, 21.0]


# -- views -----------------------------------------------------------------------------------------


def test_writing_to_a_view_rewrites_the_base():
    x = leaf(2, 2)
    base = x * 1
    view = base[0]
    sibling = base[:, 0]
    view.mul_(3)
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    assert view.grad_fn.name() == sibling.grad_fn.name() == "AsStridedBackward0"
    sibling.sum().backward()
    assert x.grad.tolist() == [[3.0, 0.0], [1.0, 0.0]]


def test_writing_to_the_base_brings_views_along():
    x, w = torch.zeros(2, dtype=torch.float64), leaf(2)
    view = x[0]
    assert not view.requires_grad
    x.add_(w)
    with torch.no_grad():
        assert view.grad_fn is not None
    view.backward()
    assert w.grad.tolist() == [1.0, 0.0]


def test_nested_views_lead_to_the_root():
    base = leaf(4, 4) * 1
    view = base[1:][:, 1:].t()
    assert view._base is base and view._is_view()
    view[0].zero_()
    assert base.tolist()[1:] == [[1.0, 0.0, 1.0, 1.0]] * 3


@pytest.mark.parametrize(
    "write",
    [
        lambda base, w: base[1:].mul_(w),
        lambda base, w: base.t()[0].mul_(w.sum()),
        lambda base, w: base.narrow(0, 0, 1).narrow(1, 1, 1).mul_(w[0]),
        lambda base, w: base.diagonal().copy_(w),
        lambda base, w: base.view(4)[1:3].add_(w).sin_(),
        lambda base, w: base.unsqueeze(0).transpose_(1, 2).mul_(w),
    ],
)
def test_gradients_of_writes(write):
    def work(x, w):
        base = x * 1
        write(base, w)
        return base * base

    inputs = (
        torch.rand(2, 2, dtype=torch.float64, requires_grad=True),
        torch.rand(2, dtype=torch.float64, requires_grad=True),
    )
    assert gradcheck(work, inputs) and gradgradcheck(work, inputs)


def test_view_across_dtypes_is_replayed():
    z = torch.ones(2, dtype=torch.complex128, requires_grad=True)
    base = z * 1
    torch.view_as_real(base)[0].mul_(3)
    base.abs().sum().backward()
    assert torch.allclose(z.grad, torch.tensor([3.0 + 0j, 1.0 + 0j], dtype=torch.complex128))


MULTI = "This view is the output of a function that returns multiple views"


@pytest.mark.parametrize(
    ("take", "text"),
    [
        (lambda b: b.unbind(0)[0], MULTI),
        (lambda b: b.split(1)[0], MULTI),
        (lambda b: b.chunk(2)[1].view(-1), MULTI),
        (lambda b: torch.no_grad()(lambda: b[0])(), "A view was created in no_grad mode"),
        (lambda b: torch.inference_mode()(lambda: b[0])(), "A view was created in inference mode"),
    ],
)
def test_views_that_may_not_be_written_to(take, text):
    base = leaf(2, 2) * 1
    view = take(base)
    with pytest.raises(RuntimeError, match=text):
        view.mul_(2)
    plain = take(torch.ones(2, 2))
    plain.mul_(2)


def test_reading_the_node_of_a_stale_no_grad_view_is_refused():
    base = leaf(2) * 1
    with torch.no_grad():
        view = base[:1]
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modif"):
        view.grad_fn


def test_unsafe_parts_may_be_written_to():
    for take in (lambda b: b.unsafe_split(1), lambda b: b.unsafe_chunk(2)):
        part = take(leaf(2, 2) * 1)[0]
        part.mul_(2)


def test_only_what_is_needed_runs_inside_a_write():
    x, y = leaf(2), leaf(2)
    refused = y * 1
    refused.register_hook(lambda g: pytest.fail("not needed"))
    base = x * 1
    base[0] = refused[0]
    assert torch.autograd.grad(base.sum(), x)[0].tolist() == [0.0, 1.0]


def test_a_view_outlives_its_base():
    gc.disable()
    try:
        x = leaf(2)
        base = x * 1
        old = weakref.ref(base.grad_fn)
        view = base[0]
        view.mul_(2)
        del base
        view.backward()
        assert x.grad.tolist() == [2.0, 0.0]
        del view
        assert old() is None
    finally:
        gc.enable()


def test_saved_result_leads_through_the_view():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = (x * x).view(1, 2).tanh_().view(2)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    plain = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (h,) = torch.autograd.grad((plain * plain).tanh().sum(), plain, create_graph=True)
    (hh,) = torch.autograd.grad(h.sum(), plain)
    assert torch.allclose(gg, hh)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8])
def test_integers_that_values_with_a_gradient_are_copied_to_require_none(dtype):
    x = torch.ones(3, requires_grad=True) * 1
    whole, rows = torch.zeros(3, dtype=dtype).copy_(x), torch.zeros(3, 2, dtype=dtype)
    rows[:, 0] = x
    rows.view(6)[:3].copy_(x)
    for value in (whole, rows):
        assert not value.requires_grad and value.grad_fn is None
    assert rows.tolist() == [[1, 1], [1, 0], [1, 0]]
    assert torch.zeros(3).copy_(x).requires_grad


def written_view(numbers):
    view = numbers.conj()
    view.mul_(2j)
    return view, numbers


def written_base(numbers):
    view = numbers.conj()
    numbers.mul_(2j)
    return view, numbers


def written_part(numbers):
    view = numbers.conj()[1:]
    view.mul_(3j)
    return view, numbers


def written_negative(numbers):
    view = numbers._neg_view()
    view.mul_(2j)
    return view, numbers


@pytest.mark.parametrize(
    "function, plain",
    [
        (
            written_view,
            lambda z: (z.conj_physical() * 2j, (z.conj_physical() * 2j).conj_physical()),
        ),
        (written_base, lambda z: ((z * 2j).conj_physical(), z * 2j)),
        (
            written_part,
            lambda z: (
                z.conj_physical()[1:] * 3j,
                torch.cat([z[:1], (z.conj_physical()[1:] * 3j).conj_physical()]),
            ),
        ),
        (written_negative, lambda z: (-z * 2j, z * 2j)),
    ],
)
def test_writes_to_views_that_conjugate_or_negate(function, plain):
    found = []
    for run in (function, plain):
        x = torch.arange(1.0, 4.0, requires_grad=True)
        outputs = run(torch.complex(x, x * 2))
        weights = [torch.complex(o.detach().real * 5, o.detach().imag.clone()) for o in outputs]
        torch.autograd.backward(outputs, weights)
        found.append(([o.resolve_conj().resolve_neg().tolist() for o in outputs], x.grad.tolist()))
    assert found[0] == found[1]
