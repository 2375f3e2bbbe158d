"""Derivatives that a definition leaves open: ties, zero, complex numbers, subscripts, lifetimes."""

from __future__ import annotations

import gc
import math
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck


def leaf(*values, dtype=torch.float64):
    return torch.tensor(list(values), dtype=dtype, requires_grad=True)


def grad_of(work, *inputs):
    return torch.autograd.grad(work(*inputs).sum(), inputs)


# -- conventions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["min", "max", "median", "nanmedian", "amin", "amax"])
def test_ties_share_the_gradient(name):
    (g,) = grad_of(getattr(torch, name), leaf(2.0, 2.0, 2.0, 2.0))
    assert g.tolist() == [0.25] * 4


def test_powers_of_zero():
    x = leaf(0.0, 1.0)
    assert grad_of(lambda x: x**0, x)[0].tolist() == [0.0, 0.0]
    assert grad_of(lambda x: x ** torch.zeros(2, dtype=torch.float64), x)[0].tolist() == [0.0] * 2
    b = leaf(-1.0, 0.0, 1.0)
    expected = [-math.inf, 0.0, 0.0]
    assert grad_of(lambda b: torch.zeros(3, dtype=torch.float64) ** b, b)[0].tolist() == expected
    assert grad_of(lambda b: torch.pow(0, b), b)[0].tolist() == expected


def test_where_with_numbers_and_broadcasting():
    x = leaf(1.0, 2.0)
    mask = torch.tensor([[True, False], [False, False]])
    assert grad_of(lambda x: torch.where(mask, x, 5.0), x)[0].tolist() == [1.0, 0.0]
    assert grad_of(lambda x: torch.where(mask, 5.0, x), x)[0].tolist() == [1.0, 2.0]


def test_products_of_scattered_zeros_have_no_second_derivative():
    x = leaf(0.0, 0.0)
    index = torch.tensor([0, 0])

    def work(x):
        return torch.ones(1, dtype=torch.float64).scatter_reduce(0, index, x, "prod")

    (g,) = torch.autograd.grad(work(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="Double backward is unsupported for"):
        torch.autograd.grad(g.sum(), x)


def test_what_is_not_differentiable():
    x = leaf(1.0, 2.0)
    for result in (x == x, x.signbit(), torch.isin(x, x), x.argmax()):
        assert not result.requires_grad


def test_conversions_keep_the_graph():
    x = leaf(1.0, 2.0)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.complex64):
        y = torch.zeros(2, dtype=dtype)
        y.copy_(x)
        assert y.requires_grad and x.to(dtype).requires_grad
        (g,) = torch.autograd.grad(y.abs().sum(), x)
        assert g.dtype is torch.float64 and g.tolist() == [1.0, 1.0]


def test_expanded_gradients():
    for work in (
        lambda x: x.diagonal(),
        lambda x: x.select(0, 1),
        lambda x: x[:, 1:],
        lambda x: x.mv(torch.ones(1, dtype=torch.float64).expand(3)),
    ):
        x = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
        y = work(x)
        y.backward(torch.ones(1, dtype=torch.float64).expand(y.shape))
        expected = torch.autograd.grad(work(x), x, torch.ones_like(y))[0]
        assert torch.equal(x.grad, expected)


# -- complex numbers -------------------------------------------------------------------------------


def test_gradient_is_that_of_real_and_imaginary_part():
    z = leaf(3.0 + 4.0j, dtype=torch.complex128)
    (g,) = torch.autograd.grad(z.abs().sum(), z)
    assert torch.allclose(g, torch.tensor([0.6 + 0.8j], dtype=torch.complex128))
    x = leaf(1.0, -2.0)
    (g,) = torch.autograd.grad(x.to(torch.complex128).sum().abs(), x)
    assert g.dtype is torch.float64 and g.tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    "work",
    [
        lambda x, z: torch.cat([x, z]),
        lambda x, z: torch.stack([x, z]),
        lambda x, z: torch.view_as_real(z * x),
        lambda x, z: (z.conj() * x).imag,
        lambda x, z: torch.view_as_complex(torch.stack([x, x * 2], -1)) * z,
        lambda x, z: (-x) ** (z * 0.3),
    ],
)
def test_mixed_real_and_complex(work):
    inputs = (leaf(0.5, 1.5), leaf(1.0 + 0.5j, 0.25 - 1j, dtype=torch.complex128))
    assert gradcheck(work, inputs) and gradgradcheck(work, inputs)


# -- subscripts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        torch.tensor([0, 0, 1]),
        [0, 0, 1],
        (slice(None), torch.tensor([1, 1])),
        (torch.tensor([0, 0]), torch.tensor([1, 1])),
        torch.tensor([[True, False], [True, True]]),
        (..., torch.tensor(1)),
        (None, 0),
    ],
    ids=str,
)
def test_every_use_of_an_element_counts(index):
    x = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(x[index].sum(), x)
    counts = torch.zeros(2, 2, dtype=torch.float64)
    flat = torch.arange(4).reshape(2, 2)[index].reshape(-1)
    counts.view(-1).index_add_(0, flat, torch.ones(len(flat), dtype=torch.float64))
    assert torch.equal(g, counts)


@pytest.mark.parametrize(
    "index",
    [0, slice(1, None), (slice(None), 1), torch.tensor([1]), torch.tensor([True, False]), ...],
    ids=str,
)
def test_assigned_elements_pass_their_gradient_on(index):
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    value = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    y = x * 2
    version = y._version
    y[index] = value
    assert y._version > version
    y.sum().backward()
    written = torch.zeros(2, 3, dtype=torch.float64)
    written[index] = 1
    assert torch.equal(x.grad, (1 - written) * 2)
    assert value.grad.item() == written.sum().item()


# -- lifetimes -------------------------------------------------------------------------------------


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_gc")
def test_a_detached_alias_does_not_hold_its_source():
    x = leaf(1.0) * 1
    alias, alive = x.detach(), weakref.ref(x)
    del x
    assert alive() is None and alias.item() == 1


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("on_node", [False, True])
def test_a_hook_that_refers_to_its_own_node(custom, on_node):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Payload:
        pass

    calls, payload = [], Payload()
    alive = weakref.ref(payload)
    x = leaf(1.0)

    def build(payload):
        y = Twice.apply(x) if custom else x * 2
        node = y.grad_fn
        kept = payload

        def hook(*args):
            calls.append((node, kept))

        (node if on_node else y).register_hook(hook)
        return y * 3

    z = build(payload)
    del payload
    gc.collect()
    z.backward(retain_graph=True)
    assert len(calls) == 1 and alive() is not None
    calls.clear()
    gc.collect()
    z.backward()
    assert len(calls) == 1
    calls.clear()
    del z
    gc.collect()
    assert alive() is None


def test_a_function_whose_ctx_refers_to_its_output_is_collectable():
    class Cyclic(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            ctx.kept = current[0]
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Holder:
        pass

    for run in (False, True):
        holder = Holder()
        alive = weakref.ref(holder)
        x = leaf(1.0)
        current = [holder]
        y = Cyclic.apply(x)
        current.clear()
        holder.output = y
        if run:
            y.sum().backward()
            assert x.grad.item() == 2
        del y, holder
        gc.collect()
        assert alive() is None


def test_a_list_cycle_through_a_view_is_traversed():
    x = leaf(1.0, 2.0)

    def work():
        y = x * 2
        part = y[:1]
        box = [part]
        box.append(box)
        return y.sum() + part.sum()

    total = work()
    gc.collect()
    total.backward()
    assert x.grad.tolist() == [4.0, 2.0]
