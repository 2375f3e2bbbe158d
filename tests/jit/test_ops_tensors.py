"""Operators that only graphs have on tensors: what they are asked for, and how they are made."""

import pytest

import rushlight as torch
from rushlight.jit.ir.operators import find_operator


def call(name, *args):
    return find_operator(name).call(*args)


X = torch.arange(6, dtype=torch.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("aten::size", (X,), [2, 3]),
        ("aten::size.int", (X, -1), 3),
        ("aten::stride", (X.t(),), [1, 3]),
        ("aten::stride.int", (X, 0), 3),
        ("aten::dim", (X,), 2),
        ("aten::numel", (X,), 6),
        ("aten::len.Tensor", (X,), 2),
        ("aten::is_contiguous", (X.t(),), False),
        ("aten::is_contiguous.memory_format", (X, 0), True),
        ("aten::is_floating_point", (X,), True),
        ("aten::is_complex", (X,), False),
        ("aten::is_leaf", (X,), True),
        ("aten::element_size", (X,), 4),
        ("aten::storage_offset", (X[1],), 3),
        ("prim::dtype", (X,), 6),
        ("prim::layout", (X,), 0),
        ("prim::device", (X,), torch.device("cpu")),
        ("prim::requires_grad", (X,), False),
        ("prim::is_cpu", (X,), True),
        ("prim::is_cuda", (X,), False),
        ("prim::is_xla", (X,), False),
        ("prim::is_nested", (X,), False),
        ("prim::is_sparse", (X,), False),
        ("prim::itemsize", (X,), 4),
        ("prim::nbytes", (X,), 24),
        ("prim::grad", (X,), None),
        ("prim::type", (torch.device("cpu"),), "cpu"),
        ("prim::index", (torch.device("cuda", 1),), 1),
        ("aten::promote_types", (3, 6), 6),
        ("aten::can_cast", (6, 3), False),
        ("aten::result_type.Scalar", (X, 2), 6),
        ("aten::_infer_size", ([2, 1], [1, 3]), [2, 3]),
        ("aten::_size_if_not_equal", ([2], [2]), None),
        ("aten::_size_if_not_equal", ([2], [3]), [2]),
        ("aten::_tensor_to_list", (torch.tensor([1, 2]),), [1, 2]),
        ("aten::is_grad_enabled", (), True),
        ("aten::is_scripting", (), True),
    ],
)
def test_facts(name, args, expected):
    result = call(name, *args)
    assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(
    ("name", "data", "dtype", "expected"),
    [
        ("aten::tensor.float", 1.5, None, torch.float32),
        ("aten::tensor.int", 1, None, torch.int64),
        ("aten::tensor.bool", True, None, torch.bool),
        ("aten::tensor.complex", 1j, None, torch.complex64),
        ("aten::tensor", [[1, 2], [3, 4]], None, torch.int64),
        ("aten::tensor", [1, 2], 7, torch.float64),
    ],
)
def test_tensors_of_numbers(name, data, dtype, expected):
    made = call(name, data, dtype, None, expected.is_floating_point)
    assert made.dtype is expected and made.tolist() == data
    assert made.requires_grad is expected.is_floating_point


def test_tensors_are_taken_as_they_are():
    assert call("aten::as_tensor", X, None, None) is X
    assert call("aten::as_tensor.list", [1.5], 7, None).dtype is torch.float64
    assert call("aten::cpu", X) is X
    assert call("aten::to.prim_dtype", X, None, False, False) is X
    assert call("aten::to.prim_dtype", X, 7, False, False).dtype is torch.float64
    assert (
        call("aten::to.prim_Device", X, torch.device("cpu"), 3, False, False).dtype is torch.int32
    )
    assert call("aten::to.prim_other", X, False, True) is not X


def test_indexing_by_lists_without_gaps():
    index = torch.tensor([1, 0])
    assert torch.equal(call("aten::index.Tensor_hacked_twin", X, [index]), X[[1, 0]])
    target = X.clone()
    value = torch.zeros(3)
    assert call("aten::index_put_.hacked_twin", target, [torch.tensor([1])], value, False) is target
    assert target[1].tolist() == [0, 0, 0]


def test_splits_by_sizes_give_a_list():
    parts = call("aten::split", X, [1, 2], 1)
    assert type(parts) is list and [tuple(part.shape) for part in parts] == [(2, 1), (2, 2)]


def test_in_place_operators_write():
    x = torch.tensor([6])
    assert call("aten::__iand__.Scalar", x, 3) is x and x.item() == 2
    y = torch.ones(2)
    assert call("aten::copy_.float", y, 2.5) is y and y.tolist() == [2.5, 2.5]
    z = torch.ones(2)
    assert call("aten::requires_grad_", z, True) is z and z.requires_grad


def test_gradients_asked_for_in_graphs():
    x = torch.ones(2, requires_grad=True)
    (grad,) = call("aten::grad", [(x * 3).sum()], [x], None, None, False, False)
    assert grad.tolist() == [3, 3]
    call("aten::backward", (x * 2).sum(), None, None, False)
    assert x.grad.tolist() == [2, 2]


def test_grad_mode_is_set():
    try:
        call("aten::set_grad_enabled", False)
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.parametrize(
    ("tensor", "depth", "code", "expected"),
    [
        (torch.tensor([[1, 2]]), 2, 0, [[1, 2]]),
        (torch.tensor(1.5), 0, 1, 1.5),
        (torch.tensor([True]), 1, 2, [True]),
    ],
)
def test_tensors_as_lists(tensor, depth, code, expected):
    assert call("prim::tolist", tensor, depth, code) == expected


def test_lists_of_another_shape_or_type_are_refused():
    with pytest.raises(RuntimeError, match="list dimension and runtime"):
        call("prim::tolist", torch.ones(2), 2, 1)
    with pytest.raises(RuntimeError, match="element type and runtime"):
        call("prim::tolist", torch.ones(2), 1, 0)


def test_warnings_are_the_users():
    with pytest.warns(UserWarning, match="look out"):
        call("aten::warn", "look out", 2)


def test_seeds():
    call("aten::manual_seed", 3)
    first = torch.rand(2)
    call("aten::manual_seed", 3)
    assert torch.equal(first, torch.rand(2))
