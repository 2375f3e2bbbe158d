"""Subscripts: which ops they become, what they refuse, and gradients through them."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch


def cube() -> torch.Tensor:
    return torch.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("index", "shape", "strides", "is_view"),
    [
        (1, (3, 4), (4, 1), True),
        (slice(0, 2, 2), (1, 3, 4), (24, 4, 1), True),
        ((Ellipsis, -1), (2, 3), (12, 4), True),
        (None, (1, 2, 3, 4), (24, 12, 4, 1), True),
        ((), (2, 3, 4), (12, 4, 1), True),
        (np.int64(1), (3, 4), (4, 1), True),
        (True, (1, 2, 3, 4), (24, 12, 4, 1), False),
        (False, (0, 2, 3, 4), (24, 12, 4, 1), False),
        ([0, 1], (2, 3, 4), (12, 4, 1), False),
        (([0], slice(None), [1, 2]), (2, 3), (3, 1), False),
        ((slice(None), [0, 1]), (2, 2, 4), (8, 4, 1), False),
        ((slice(None), None, [1, 2]), (2, 1, 2, 4), (8, 8, 4, 1), False),
        ((slice(0, 1), True), (1, 1, 3, 4), (12, 12, 4, 1), False),
        (np.array([True, False]), (1, 3, 4), (12, 4, 1), False),
        (range(2), (2, 3, 4), (12, 4, 1), False),
    ],
)
def test_geometry(index, shape, strides, is_view):
    found = cube()[index]
    assert (found.shape, found.stride(), found._is_view()) == (shape, strides, is_view)


def test_transposed_index_gives_transposed_result():
    index = torch.tensor([[0, 1], [1, 0]]).t()
    assert cube()[index].stride() == (12, 24, 4, 1)


def test_zero_dim_tensors_select_or_mask():
    x = cube()
    assert x[torch.tensor(1)].tolist() == x[1].tolist()
    assert x[torch.tensor(1)]._is_view()
    assert x[torch.tensor(True)].shape == (1, 2, 3, 4)


def test_list_of_sequences_counts_as_tuple():
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        found = cube()[[[0, 1], [1, 2]]]
    assert found.tolist() == [[4, 5, 6, 7], [20, 21, 22, 23]]


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (1.0, IndexError, "only integers, slices"),
        ("a", TypeError, "invalid data type 'str'"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        (([0, 1], [0, 1, 2]), IndexError, r"broadcast together with shapes \[2\], \[3\]"),
        (
            (slice(None), [0, -4]),
            IndexError,
            "index -4 is out of bounds for dimension 0 with size 3",
        ),
        ([True, False, True], IndexError, r"The shape of the mask \[3\] at index 0"),
    ],
)
def test_refusals(index, error, text):
    with pytest.raises(error, match=text):
        cube()[index]


def test_refused_index_dtype_and_zero_dim():
    with pytest.raises(IndexError, match="must be long, int, byte or bool"):
        cube()[torch.tensor([1.0])]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        torch.tensor(1.0)[0]


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (0, "SelectBackward0"),
        (slice(None), "SliceBackward0"),
        ((slice(None), slice(None)), "AliasBackward0"),
        (None, "UnsqueezeBackward0"),
        ([0, 1], "IndexBackward0"),
    ],
)
def test_nodes(index, name):
    x = cube().requires_grad_()
    assert x[index].grad_fn.name() == name


def test_repeated_positions_accumulate():
    x = torch.zeros(3, 2, requires_grad=True)
    x[[0, 2, 0]].sum().backward()
    assert x.grad.tolist() == [[2, 2], [0, 0], [1, 1]]


def test_second_order():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x[[0, 0, 2]] ** 3).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [6, 0, 27]
    assert second.tolist() == [12, 0, 18]


@pytest.mark.parametrize("index", [0, slice(0, 1), (0, Ellipsis), [0], torch.tensor([True, False])])
def test_assignment_cuts_and_passes_gradients(index):
    x = torch.ones(2, 3, requires_grad=True)
    value = torch.full((3,), 2.0, requires_grad=True)
    y = x * 3
    y[index] = value
    y.sum().backward()
    assert y.tolist() == [[2, 2, 2], [3, 3, 3]]
    assert x.grad.tolist() == [[0, 0, 0], [3, 3, 3]]
    assert value.grad.tolist() == [1, 1, 1]


def test_assignment_of_numbers():
    x = torch.zeros(3, dtype=torch.int32)
    x[0], x[[1]], x[x == 0] = 2.7, True, 5
    assert x.tolist() == [2, 1, 5]
    with pytest.raises(RuntimeError, match="cannot be converted to type int without overflow"):
        x[0] = 2**40
    with pytest.raises(RuntimeError, match="cannot be converted to type float without overflow"):
        torch.zeros(2)[0] = 1e300
    with pytest.raises(TypeError, match=r"can't assign a list to a torch\.IntTensor"):
        x[0] = [1]


def test_assignment_broadcasts_leading_ones_only():
    x = cube()
    x[0] = torch.ones(1, 1, 3, 4)
    x[[0, 1]] = torch.ones(1, 1, 2, 3, 4)
    assert x.sum().item() == 24
    with pytest.raises(RuntimeError, match="cannot be broadcast to indexing result"):
        x[[0, 1]] = torch.ones(5)
    with pytest.raises(RuntimeError, match="must match the existing size"):
        x[0] = torch.ones(5)
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[[0, 1]] = torch.ones(4, dtype=torch.float64)


def test_false_assigns_nothing():
    x = cube()
    x[False] = torch.ones(7)
    assert x.tolist() == cube().tolist()


def test_assignment_bumps_the_version_once():
    x = cube()
    x[0] = 1
    x[[1]] = 2.0
    assert x._version == 2


def test_iteration_and_containment():
    x = torch.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x and 5 not in x
    assert reversed(x).tolist() == [[3, 4], [1, 2]]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.tensor(1))
    with pytest.raises(TypeError, match="does not support deleting"):
        del x[0]
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        assert "a" in x


def test_subclass_sees_the_subscript():
    seen = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2, 2).as_subclass(Logged)
    assert type(x[0]) is Logged
    x[0] = 3
    assert seen == [torch.Tensor.__getitem__, torch.Tensor.__setitem__]


def test_view_of_view_offsets():
    x = torch.arange(60).reshape(3, 4, 5)[1:]
    y = x[:, 1::2][1, -1, 2:4]
    assert y.tolist() == [57, 58]
    assert y.storage_offset() == 57
    y[0] = -1
    assert x[1, 3, 2].item() == -1


def test_iteration_keeps_the_class():
    class Mine(torch.Tensor):
        pass

    rows = torch.arange(6.0).view(2, 3).as_subclass(Mine)
    assert [type(row) for row in rows] == [Mine, Mine]
    first, _ = rows
    assert type(first) is Mine and first.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="0-d"):
        iter(torch.tensor(1.0).as_subclass(Mine))


def test_overrides_see_iteration_as_unbind():
    seen = []

    class Telling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    list(torch.ones(2, 2).as_subclass(Telling))
    assert "unbind" in seen and "__iter__" not in seen


def test_classes_that_override_are_found_inside_of_entries():
    class Named:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, args[1]

        def __len__(self):
            raise AssertionError("nobody may look inside")

        __getitem__ = __iter__ = __len__

    name, x = Named(), torch.ones(2, 3)
    for index in (name, (name,), ((name, name), ...), [name, 0], (0, [name, name]), (name, 0, 0)):
        assert x[index] == ("__getitem__", index)
    x[(name, name), ...] = 3.0
    assert x.sum().item() == 6.0


@pytest.mark.parametrize(
    "value", [np.float64(3.7), np.int64(4), np.int32(3)], ids=lambda value: type(value).__name__
)
def test_numbers_of_numpy_that_torch_takes_are_assigned(value):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        x = torch.zeros(2, dtype=dtype)
        x[0], x[..., 1] = value, value
        assert torch.equal(x, torch.tensor([value.item()] * 2).to(dtype))


@pytest.mark.parametrize("value", [np.float32(2), np.bool_(True), np.complex64(1), np.array(5.0)])
def test_numbers_of_numpy_that_torch_refuses_are_refused(value):
    with pytest.raises(TypeError, match="can't assign a numpy"):
        torch.zeros(2)[0] = value


def test_masks_of_numpy_without_dims():
    x = torch.arange(3.0)
    assert x[np.array(True)].tolist() == [[0.0, 1.0, 2.0]]
    assert x[np.array(False)].shape == (0, 3)
    y = torch.zeros(2, 2)
    y[np.array(True), 1] = 5
    assert y.tolist() == [[0.0, 0.0], [5.0, 5.0]]
