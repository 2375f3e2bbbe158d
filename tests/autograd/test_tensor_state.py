"""The autograd side of a tensor: flags, `.grad`, `.data`, detaching, printing, numbers."""

from __future__ import annotations

import math
import pickle
import warnings

import pytest

import rushlight as torch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


# -- requires_grad ---------------------------------------------------------------------------------


def test_results_require_grad_when_an_operand_does():
    x, plain = leaf(1.0), torch.ones(1)
    assert (x + plain).requires_grad and not (plain + plain).requires_grad
    plain += x
    assert plain.requires_grad and not plain.is_leaf
    y = leaf(1.0)
    with torch.no_grad():
        y += 1
        assert not (y * 2).requires_grad
    assert y.is_leaf and y.requires_grad and y.grad_fn is None


def test_flag_changes_on_leaves_only():
    x = torch.ones(1)
    assert x.requires_grad_() is x and x.requires_grad
    y = x * 2
    assert y.requires_grad_() is y
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf"):
        y.requires_grad = False
    with pytest.raises(RuntimeError):
        del x.requires_grad
    assert not x.requires_grad_(False).requires_grad


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool])
def test_only_floats_and_complex_may_require_grad(dtype):
    for ask in (
        lambda: torch.ones(1, dtype=dtype).requires_grad_(),
        lambda: setattr(torch.ones(1, dtype=dtype), "requires_grad", True),
        lambda: torch.ones(1, dtype=dtype, requires_grad=True),
    ):
        with pytest.raises(RuntimeError, match="floating point"):
            ask()
    torch.ones(1, dtype=dtype).requires_grad_(False)
    assert torch.ones(1, dtype=torch.complex64, requires_grad=True).requires_grad


def test_leaves_are_not_written_to():
    x = torch.zeros(2)
    view = x[0]
    view.add_(1)
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        view.add_(1)


# -- grad ------------------------------------------------------------------------------------------


def test_reading_grad_of_a_non_leaf_warns_each_time():
    x = leaf(1.0)
    y = x * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert x.grad is None and y.grad is None and y.grad is None
        assert len(caught) == 2
        y.retain_grad()
        y.backward()
        assert y.grad.item() == 1 and len(caught) == 2


def test_what_may_be_assigned_to_grad():
    x = leaf(1.0, 2.0)
    for wrong, error in (
        (1.0, TypeError),
        (torch.ones(3), RuntimeError),
        (torch.ones(2, dtype=torch.float64), RuntimeError),
        (torch.ones(2, device="meta"), RuntimeError),
        (x, RuntimeError),
    ):
        with pytest.raises(error):
            x.grad = wrong
    x.grad = torch.ones(2)
    del x.grad
    assert x.grad is None


def test_retain_grad():
    x = leaf(1.0)
    x.retain_grad()
    y = x * 3
    y.retain_grad()
    y.retain_grad()
    (y * 2).backward(retain_graph=True)
    (y * 2).backward()
    assert y.grad.item() == 4 and y.retains_grad and not x.retains_grad
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        torch.ones(1).retain_grad()


# -- data, detach ----------------------------------------------------------------------------------


def test_data_swaps_memory_and_keeps_identity_and_version():
    x = torch.zeros(2)
    x.add_(1)
    before = id(x)
    x.data = torch.ones(3)
    assert id(x) == before and x.shape == (3,) and x._version == 1
    for wrong, error, text in (
        (None, TypeError, "has to be a tensor"),
        (torch.ones(2).to_sparse(), RuntimeError, "incompatible tensor type"),
    ):
        with pytest.raises(error, match=text):
            x.data = wrong
    with pytest.raises(RuntimeError):
        del x.data
    with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
        leaf(1.0).data = torch.ones(1, dtype=torch.int64)
    y = leaf(1.0)
    y.data.add_(1)
    assert y.item() == 2 and y._version == 0


def test_detach_shares_memory_and_version():
    x = leaf(1.0) * 2
    d = x.detach()
    assert d.grad_fn is None and not d.requires_grad
    d.add_(1)
    assert x._version == d._version == 1 and x.item() == 3
    with pytest.raises(RuntimeError, match="view"):
        (leaf(1.0, 2.0) * 1)[0].detach_()
    base = leaf(1.0, 2.0) * 1
    view = base[0]
    base.detach_()
    assert not base.requires_grad and view.requires_grad and view._base is base


def test_a_view_of_a_written_base_that_was_detached_is_no_leaf():
    x = leaf(1.0, 2.0)
    base = x * 1
    view = base.view(2, 1)
    base.mul_(2)
    base.detach_()
    assert view.requires_grad and view.grad_fn.name() == "AsStridedBackward0"
    for _ in range(3):
        (view * 3).sum().backward()
        base.mul_(2)
    assert x.grad is None and not view.is_leaf and view.grad_fn.next_functions == ((None, 0),)
    plain = torch.ones(2)
    row = plain.view(2, 1)
    plain.mul_(2)
    assert row.is_leaf and row.grad_fn is None


def test_private_fields_cannot_be_deleted():
    x = leaf(1.0)
    for name in ("_grad_fn", "_backward_hooks"):
        with pytest.raises(RuntimeError):
            delattr(x, name)


# -- outside ---------------------------------------------------------------------------------------


def test_numpy_of_what_requires_grad():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        x.numpy()
    assert x.detach().numpy()[0] == 1
    with torch.no_grad():
        assert x.numpy()[0] == 1


def test_reprs():
    x = leaf(1.0)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x.clone()) == "tensor([1.], grad_fn=<CloneBackward0>)"

    class Func(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    assert repr(Func.apply(x)) == "tensor([1.], grad_fn=<FuncBackward>)"
    base = x.clone()
    with torch.no_grad():
        view = base[:]
    base *= 2
    assert repr(view) == "tensor([2.], grad_fn=<Invalid>)"


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_pickling_keeps_the_flag(protocol):
    made = pickle.loads(pickle.dumps([leaf(1.0), torch.ones(2)], protocol))
    assert [t.requires_grad for t in made] == [True, False] and made[0].item() == 1


def test_every_listed_attribute_exists():
    x = torch.ones(1, 1, dtype=torch.complex64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = [name for name in dir(x) if not hasattr(x, name)]
    assert "shape" in dir(x) and not missing
    with pytest.raises(RuntimeError):
        torch.ones(1).imag


def test_volatile_is_gone():
    with pytest.warns(UserWarning, match="volatile"):
        assert not torch.ones(1).volatile


def test_python_numbers():
    big = 2**62 + 1
    assert int(torch.tensor([[big]])) == big
    assert int(torch.tensor(1.7976931348623157e308, dtype=torch.float64)) == int(
        1.7976931348623157e308
    )
    with pytest.raises(ValueError):
        int(torch.tensor(math.nan))
    with pytest.raises(OverflowError):
        int(torch.tensor(math.inf))
    assert bool(torch.tensor([math.nan])) and math.isnan(float(torch.tensor(math.nan)))
    x = torch.zeros(2, dtype=torch.int64)
    x[0] = big
    assert x.tolist() == [big, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(dtype=torch.int64),
        lambda x: x.sum(0, dtype=torch.int64),
        lambda x: x.prod(dtype=torch.int64),
        lambda x: x.cumsum(0, dtype=torch.int64),
        lambda x: torch.slice_scatter(torch.zeros(3, dtype=torch.int64), x),
        lambda x: torch.func.grad(lambda y: y.sum(dtype=torch.int64))(x.detach()),
    ],
)
def test_whole_numbers_lose_no_gradient_in_silence(call):
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Autograd not support dtype: Long"):
        call(x)
    with torch.no_grad():
        assert x.sum(dtype=torch.int64).dtype is torch.int64
    # What is asked for by name has none.
    assert not x.long().requires_grad and not x.detach().sum(dtype=torch.int64).requires_grad
