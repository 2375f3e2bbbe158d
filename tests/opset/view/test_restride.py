"""In-place changes of geometry and memory."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl


@pytest.mark.parametrize(
    ("change", "shape", "strides", "name"),
    [
        (lambda x: x.transpose_(0, 2), (3, 1, 2), (1, 3, 3), "TransposeBackward1"),
        (lambda x: x.swapaxes_(0, 2), (3, 1, 2), (1, 3, 3), "TransposeBackward1"),
        (lambda x: x.squeeze_(), (2, 3), (3, 1), "SqueezeBackward3"),
        (lambda x: x.squeeze_(1), (2, 3), (3, 1), "SqueezeBackward4"),
        (lambda x: x.squeeze_((1,)), (2, 3), (3, 1), "SqueezeBackward5"),
        (lambda x: x.unsqueeze_(0), (1, 2, 1, 3), (6, 3, 3, 1), "UnsqueezeBackward1"),
        (lambda x: x.as_strided_((2,), (3,)), (2,), (3,), "AsStridedBackward1"),
    ],
)
def test_inplace_views(change: Any, shape: Any, strides: Any, name: str) -> None:
    leaf = rl.arange(6.0).view(2, 1, 3).clone().requires_grad_()
    x = leaf * 1
    old = x.grad_fn
    assert change(x) is x
    assert (tuple(x.shape), x.stride(), x._version) == (shape, strides, 1)
    assert type(x.grad_fn).__name__ == name and x.grad_fn.next_functions[0][0] is old
    x.sum().backward()
    assert leaf.grad.sum().item() == x.numel()


def test_inplace_view_of_a_view_leaves_the_base_alone() -> None:
    leaf = rl.ones(2, 3, requires_grad=True)
    base = leaf * 1
    node = base.grad_fn
    view = base.view(3, 2)
    view.t_()
    assert base.grad_fn is node and base.shape == (2, 3) and view._base is base
    view.mul_(rl.arange(6.0).view(2, 3))
    assert type(view.grad_fn).__name__ == "AsStridedBackward0"
    view.sum().backward()
    assert leaf.grad.tolist() == [[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]]


def test_leaves_refuse_inplace_views() -> None:
    x = rl.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.t_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x.view(3, 2).t_()
    with pytest.raises(RuntimeError, match=r"t_\(\) expects a tensor with <= 2 dimensions"):
        rl.ones(1, 2, 3).t_()


def test_resize_counts_only_changes() -> None:
    x = rl.arange(6.0)
    versions = []
    for sizes in ((2, 3), (2, 3), (2, 2)):
        x.resize_(sizes)
        versions.append(x._version)
    x.resize_as_(rl.ones(2, 2))
    assert [*versions, x._version] == [1, 1, 2, 2]
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        rl.ones(2, requires_grad=True).resize_(3)


def test_set_gives_a_leaf_a_fresh_accumulator() -> None:
    p = rl.ones(4, 2, requires_grad=True)
    for rows in (3, 2):
        p.grad = None
        with rl.no_grad():
            p.set_(p[1:])
        assert p.is_leaf and not p._is_view()
        p.sum().backward()
        assert p.grad.shape == (rows, 2)


def test_set_takes_tensors_and_storages() -> None:
    source = rl.arange(6.0)
    x = rl.ones(2)
    assert x.set_(source).is_set_to(source) and x._version == 1
    x.set_(source.untyped_storage(), 1, (2, 2), (2, 1))
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.set_(source.storage()).shape == (6,)
    assert x.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="Could not set tensor of type double to a tensor of"):
        x.set_(rl.ones(2, dtype=rl.float64))


def replaced_by_set(x: Any) -> None:
    x.set_(rl.zeros(4))


def replaced_by_data(x: Any) -> None:
    x.data = rl.zeros(4)


@pytest.mark.parametrize("replace", [replaced_by_set, replaced_by_data])
def test_views_keep_the_memory_that_their_base_gives_up(replace: Any) -> None:
    x = rl.ones(2, 2)
    first, second = x.view(-1), x[1]
    replace(x)
    assert first.detach().tolist() == [1, 1, 1, 1]
    second.view(2).zero_()
    assert first.t().tolist() == [1, 1, 0, 0]
    assert first.untyped_storage() is second.untyped_storage()
    assert x.tolist() == [0, 0, 0, 0]


def test_views_share_a_storage_that_was_resized() -> None:
    rl.ones(2).set_(rl.zeros(2))
    x = rl.ones(2, 2)
    row = x[0]
    x.untyped_storage().resize_(0)
    assert row.untyped_storage() is x.untyped_storage()


def test_views_of_given_up_memory_have_strides() -> None:
    x = rl.ones(2, 2)
    line = x.diagonal()
    x.untyped_storage().resize_(0)
    assert line.view(2, 1).stride() == (3, 3)


def test_set_has_no_derivative() -> None:
    x = rl.ones(2, requires_grad=True) * 1
    x.set_(rl.ones(3))
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        x.sum().backward()


def test_set_of_a_view_leaves_its_base_without_a_derivative() -> None:
    base = rl.ones(3, requires_grad=True) * 1
    view = base.view(3)
    view.set_(rl.zeros(2))
    for value in (base, view):
        with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
            value.sum().backward()


def test_typed_storage() -> None:
    x = rl.arange(4.0)[1:]
    storage = x.storage()
    assert len(storage) == storage.size() == 4 and storage.nbytes() == 16
    assert storage[1] == 1.0 and storage.tolist() == [0.0, 1.0, 2.0, 3.0]
    storage[1] = 9.0
    assert x[0].item() == 9.0
    with pytest.raises(IndexError):
        storage[4]
    assert "TypedStorage(dtype=torch.float32, device=cpu) of size 4" in repr(storage)


def test_set_refuses_a_storage_of_another_dtype() -> None:
    wide = rl.ones(3, dtype=rl.float64)
    with pytest.raises(RuntimeError, match="Storage of type float.*got type Double"):
        rl.zeros(2).set_(wide.storage())
    with pytest.raises(RuntimeError, match="Storage of type float.*got type Double"):
        rl.zeros(2).set_(wide.storage(), 0, (2,))
    assert rl.zeros(2).set_(rl.ones(3).storage()).tolist() == [1, 1, 1]
    assert rl.zeros(2).set_(wide.untyped_storage()).numel() == 6


def test_is_set_to_asks_for_one_storage() -> None:
    x = rl.zeros(2)
    assert x.is_set_to(x.detach()) and x.is_set_to(x.data) and x.view(2).is_set_to(x)
    assert not rl.tensor([]).is_set_to(rl.tensor([]))
    assert not x.is_set_to(rl.from_numpy(x.numpy()))


def test_as_strided_scatter_of_a_fake_is_measured_from_where_it_starts() -> None:
    from rushlight.core.fake import FakeTensorMode

    view = rl.arange(4.0)[1::2]
    strides = ((1, 2), (2, 2), 1)
    assert rl.as_strided_scatter(view, rl.zeros(1, 2), *strides).tolist() == [0, 0]
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(view)
        assert rl.as_strided_scatter(fake, rl.zeros(1, 2), *strides).shape == (2,)
        with pytest.raises(RuntimeError, match="out of bounds"):
            rl.as_strided_scatter(fake, rl.zeros(1, 2), (1, 2), (2, 2), 2)


def test_views_stay_where_they_are_when_their_base_is_set_to_memory_that_grew() -> None:
    grown = rl.arange(3.0)
    grown.resize_(5)
    base = rl.full((3, 5), 7.0)
    column = base.select(1, 1)
    base.set_(grown)
    assert column.detach().tolist() == [7, 7, 7]
    assert column.untyped_storage().nbytes() == 60


def grown_by_base(x: Any, view: Any) -> None:
    x.resize_(9)


def grown_by_view(x: Any, view: Any) -> None:
    view.resize_(9)


def grown_by_storage(x: Any, view: Any) -> None:
    x.untyped_storage().resize_(64)


def grown_twice(x: Any, view: Any) -> None:
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(64)


@pytest.mark.parametrize("grow", [grown_by_base, grown_by_view, grown_by_storage, grown_twice])
def test_all_tensors_over_memory_that_grows_lie_in_it(grow: Any) -> None:
    x = rl.arange(6.0)
    view = x[2:]
    others = [x.view(2, 3).t(), view.detach(), x.data, x[::2], x.view(rl.int32), view[:0]]
    grow(x, view)
    x[:6].fill_(7)
    assert x.data_ptr() == others[0].data_ptr() == x.untyped_storage().data_ptr()
    assert others[0].tolist() == [[7, 7]] * 3 and others[1].tolist()[:4] == [7] * 4
    assert others[2].tolist() == [7] * 6 and others[3].tolist() == [7] * 3
    assert others[4].view(rl.float32).tolist() == [7] * 6 and others[5].tolist() == []
    assert view[:4].tolist() == [7] * 4
    others[0].zero_()
    assert x[:6].tolist() == [0] * 6 and view[:4].tolist() == [0] * 4


def test_what_has_no_room_in_memory_that_shrank_keeps_its_own() -> None:
    x = rl.arange(6.0)
    first, last = x[:2], x[4:]
    x.untyped_storage().resize_(8)
    x.untyped_storage()[0:8] = [0] * 8
    assert first.tolist() == [0, 0] and last.shape == (2,)


def test_tensors_of_other_memory_stay_where_they_are() -> None:
    x, other = rl.arange(6.0), rl.arange(6.0)
    apart = x.clone()
    view = other[1:]
    x.resize_(9)
    x.fill_(1)
    assert apart.tolist() == other.tolist() == [0, 1, 2, 3, 4, 5] and view.tolist()[0] == 1


def test_a_view_of_what_lost_its_elements_is_refused():
    x = rl.arange(8.0).view(4, 2)
    other = x.detach()
    other.untyped_storage().resize_(0)
    other.resize_(2).fill_(1)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 8"):
        x.detach()


def test_resize_to_more_bytes_than_there_are() -> None:
    x = rl.empty((), dtype=rl.float64)
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        x.resize_([2, 4, 2**29, 2**29])
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        x.resize_([0, 4, 2**61])
