"""Views: aliasing, geometry, node names, and what in-place writes do to the rest."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rushlight as rl
from rushlight.opset.registry import find

GEOMETRY = [
    (lambda x: x.view(4, 6), (4, 6), (6, 1), 0),
    (lambda x: x.view(-1, 2), (12, 2), (2, 1), 0),
    (lambda x: x.transpose(0, 2), (4, 3, 2), (1, 4, 12), 0),
    (lambda x: x.permute(1, 0, -1), (3, 2, 4), (4, 12, 1), 0),
    (lambda x: x.select(1, -1), (2, 4), (12, 1), 8),
    (lambda x: x.narrow(2, 1, 2), (2, 3, 2), (12, 4, 1), 1),
    (lambda x: x.unsqueeze(1), (2, 1, 3, 4), (12, 12, 4, 1), 0),
    (lambda x: x.unsqueeze(-1), (2, 3, 4, 1), (12, 4, 1, 1), 0),
    (lambda x: x.expand(2, -1, 3, 4), (2, 2, 3, 4), (0, 12, 4, 1), 0),
    (lambda x: x.diagonal(1, 1, 2), (2, 3), (12, 5), 1),
    (lambda x: x.unfold(2, 2, 2), (2, 3, 2, 2), (12, 4, 2, 1), 0),
    (lambda x: x.as_strided((2, 2), (1, 5), 3), (2, 2), (1, 5), 3),
    (lambda x: x.split(2, 1)[1], (2, 1, 4), (12, 4, 1), 8),
    (lambda x: x.unbind(2)[3], (2, 3), (12, 4), 3),
    (lambda x: x.movedim(0, -1), (3, 4, 2), (4, 1, 12), 0),
    (lambda x: x.flatten(1), (2, 12), (12, 1), 0),
    (lambda x: x.mT, (2, 4, 3), (12, 1, 4), 0),
]


@pytest.mark.parametrize(("make", "sizes", "strides", "offset"), GEOMETRY)
def test_a_view_aliases_its_base(make: Any, sizes: Any, strides: Any, offset: int) -> None:
    x = rl.zeros(2, 3, 4)
    y = make(x)
    assert (tuple(y.shape), y.stride(), y.storage_offset()) == (sizes, strides, offset)
    assert y._is_view() and y._base is x
    y.fill_(1)
    assert x._version == y._version == 1
    covered = 1
    for size, step in zip(sizes, strides, strict=True):
        covered *= size if step else 1
    assert x.sum().item() == covered


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: x.view(6), "ViewBackward0"),
        (lambda x: x.reshape(6), "ViewBackward0"),
        (lambda x: x.t().reshape(3, 2, 1), "ReshapeAliasBackward0"),
        (lambda x: x.t().reshape(6), "UnsafeViewBackward0"),
        (lambda x: x.t(), "TBackward0"),
        (lambda x: x.T, "PermuteBackward0"),
        (lambda x: x.squeeze(), "SqueezeBackward0"),
        (lambda x: x.squeeze(0), "SqueezeBackward1"),
        (lambda x: x.squeeze((0, 1)), "SqueezeBackward2"),
        (lambda x: x.unsqueeze(0), "UnsqueezeBackward0"),
        (lambda x: x.expand(2, 2, 3), "ExpandBackward0"),
        (lambda x: x.select(0, 1), "SelectBackward0"),
        (lambda x: x.narrow(0, 0, 1), "SliceBackward0"),
        (lambda x: x.split(1)[0], "SplitBackward0"),
        (lambda x: x.split([1, 1])[0], "SplitWithSizesBackward0"),
        (lambda x: x.unbind()[0], "UnbindBackward0"),
        (lambda x: x.diagonal(), "DiagonalBackward0"),
        (lambda x: x.unfold(0, 1, 1), "UnfoldBackward0"),
        (lambda x: x.as_strided((2,), (1,)), "AsStridedBackward0"),
        (lambda x: find("alias")(x), "AliasBackward0"),
        (lambda x: x.diag(), "DiagonalBackward0_copy"),
    ],
)
def test_node_names(make: Any, name: str) -> None:
    x = rl.ones(2, 3, requires_grad=True)
    assert type(make(x).grad_fn).__name__ == name


def test_detach_is_no_view() -> None:
    x = rl.ones(3, requires_grad=True)
    y = x.detach()
    assert not y._is_view() and y._base is None and y.grad_fn is None and not y.requires_grad
    y.zero_()
    assert x._version == 1 and x.sum().item() == 0


def test_views_that_change_dtype_are_untracked() -> None:
    x = rl.ones(4, requires_grad=True)
    y = x.view(rl.int32)
    assert not y._is_view() and not y.requires_grad
    assert y.tolist() == [0x3F800000] * 4
    assert x.view(rl.uint8).shape == (16,) and x.view(rl.float64).shape == (2,)
    with pytest.raises(RuntimeError, match=r"size\(-1\) must be divisible by 2 to view Float"):
        rl.ones(3).view(rl.float64)


def test_a_view_made_without_grad_mode_requires_grad() -> None:
    x = rl.ones(3, requires_grad=True)
    with rl.no_grad():
        y = x.view(3, 1)
    assert y.requires_grad and y.grad_fn is None and y.is_leaf
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being"):
        y.mul_(2)


def test_multiple_views_refuse_writes() -> None:
    x = rl.ones(4, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="This view is the output of a function that returns"):
        x.unbind()[0].mul_(2)
    for part in x.unsafe_split(2):
        part.mul_(2)
        assert not part._is_view()
    stale = x.split(2)[0]
    x.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been"):
        stale.grad_fn


def test_as_strided_gradient_counts_shared_memory() -> None:
    x = rl.ones(3, requires_grad=True)
    x.as_strided((2, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 1.0]
    leaf = rl.ones(2, requires_grad=True)
    wide = leaf.expand(3, 2)
    (grad,) = rl.autograd.grad(wide.as_strided((2,), (1,)).sum(), wide)
    assert rl.allclose(grad, rl.full((3, 2), 1 / 3))


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="invalid shape dimension -2 at index 0"):
        rl.ones(4).view(-2)
    with pytest.raises(RuntimeError, match="invalid shape dimension -2 at index 1"):
        rl.ones(4).reshape(2, -2)


def test_strides_of_single_elements_are_kept() -> None:
    x = rl.ones(1, 4).t()
    assert x.stride() == (1, 4) and x.is_contiguous()
    assert x.view(1, 4, 1).stride() == (4, 1, 4)


def test_transposes_of_odd_ranks() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        assert rl.ones(2, 3, 4).T.shape == (4, 3, 2)
    with pytest.raises(RuntimeError, match="Got 1-D tensor"):
        rl.ones(2).mT
    with pytest.raises(RuntimeError, match="consider using tensor.mH"):
        rl.ones(2, 2, 2).H
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = rl.ones(())
        assert x.mT is x and x.H is x


def test_view_func_replays_with_other_state() -> None:
    base, other = rl.arange(12.0).view(3, 4).clone(), rl.ones(3, 4)
    view = base.select(1, 2)
    assert view._view_func(base, symint_visitor_fn=lambda i: i + 1).tolist() == [3.0, 7.0, 11.0]
    assert view._view_func(other).tolist() == [1.0, 1.0, 1.0]
    part = base[:, 2:3].detach()
    whole = find("slice_inverse")(part, base, 1, 2, 3, 1)
    assert whole.tolist() == base.tolist()
    replaced = whole._view_func(part, tensor_visitor_fn=lambda t: rl.ones(2, 3))
    assert replaced.shape == (2, 3)
    with pytest.raises(RuntimeError, match="only be called on a view"):
        base._view_func(other)


def test_lists_of_views_are_tuples() -> None:
    x = rl.ones(4)
    assert type(x.split(2)) is type(x.unbind()) is type(rl.chunk(x, 2)) is tuple
    assert type(find("split", "Tensor")(x, 2)) is list


def test_scatter_forms_keep_strides() -> None:
    x = rl.zeros(3, 2).t()
    y = x.select_scatter(rl.ones(3), 0, 1)
    assert y.stride() == (1, 2) and y.tolist() == [[0.0] * 3, [1.0] * 3]
    assert x.sum().item() == 0


def test_view_copy_takes_any_memory() -> None:
    x = rl.arange(6.0).view(2, 3).t()
    found = find("view_copy")(x, (2, -1))
    assert found.tolist() == [[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]] and found.is_contiguous()
    assert find("view_copy")(x.to("meta"), (2, -1)).shape == (2, 3)


def test_dims_to_squeeze_may_be_given_one_by_one():
    x = rl.zeros(1, 2, 1, requires_grad=True)
    assert x.squeeze(0, 2).shape == (2,)
    assert x.squeeze(0, 2).grad_fn.name() == "SqueezeBackward2"
    assert x.squeeze(0).grad_fn.name() == "SqueezeBackward1"
    assert x.detach().clone().squeeze_(0, -1).shape == (2,)
