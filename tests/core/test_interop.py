"""NumPy, DLPack, pickling and copying."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import rushlight as rl


def test_numpy_shares_memory() -> None:
    x = rl.zeros(2, 3)
    x.t().numpy()[2, 1] = 7.0
    assert x.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 7.0]]
    assert np.asarray(x, np.int64).dtype == np.int64


@pytest.mark.parametrize("alias", [lambda x: x, lambda x: x.detach(), lambda x: x.view(3)[1:]])
def test_memory_that_an_array_shares_does_not_move(alias: Any) -> None:
    x = rl.arange(3.0)
    array = alias(x).numpy()
    assert not x.untyped_storage().resizable()
    with pytest.raises(RuntimeError, match="storage that is not resizable"):
        x.resize_(6)
    x.resize_(2).zero_()
    assert array[0] == 0.0 and array[-1] == 2.0
    # A copy, and a number's, leave the memory alone.
    y = rl.arange(3.0)
    y.tolist(), np.array(y.clone())
    assert y.resize_(6).shape == (6,)


def test_numpy_refuses_what_it_cannot_show() -> None:
    x = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead."):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    with rl.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="unsupported ScalarType BFloat16"):
        rl.ones(2, dtype=rl.bfloat16).numpy()
    with pytest.raises(TypeError, match="can't convert meta device type tensor"):
        rl.ones(2, device="meta").numpy()
    with pytest.raises(RuntimeError, match="conjugate bit"):
        rl.tensor([1j]).conj().numpy()


@pytest.mark.parametrize("protocol", range(6))
def test_pickle(protocol: int) -> None:
    base = rl.arange(6.0).view(2, 3)
    given = [base.t(), base[1], rl.ones(2, dtype=rl.bfloat16), rl.ones(1, requires_grad=True)]
    found = pickle.loads(pickle.dumps(given, protocol))
    assert found[0].stride() == (1, 3)
    assert [x.tolist() for x in found] == [x.tolist() for x in given]
    assert [x.dtype for x in found] == [x.dtype for x in given]
    assert [x.requires_grad for x in found] == [False, False, False, True]
    found[0][0, 1] = 9.0
    assert found[1][0].item() == 9.0


def test_deepcopy() -> None:
    x = rl.ones(3, requires_grad=True)
    x.grad = rl.ones(3)
    x.note = "kept"
    y = copy.deepcopy(x)
    assert y.requires_grad and y.grad.tolist() == [1.0] * 3 and y.note == "kept"
    base = rl.arange(4.0)
    first, second = copy.deepcopy([base, base[1:]])
    first[1] = 9.0
    assert second[0].item() == 9.0 and base[1].item() == 1.0
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_deepcopy_keeps_the_class() -> None:
    parameter = rl.nn.Parameter(rl.ones(2))
    assert type(copy.deepcopy(parameter)) is type(parameter)

    class Mine(rl.Tensor):
        pass

    assert type(copy.deepcopy(rl.ones(2).as_subclass(Mine))) is Mine


def test_dlpack_both_ways() -> None:
    array = np.zeros(3, np.float32)
    x = rl.from_dlpack(array)
    x[0] = 5.0
    assert array[0] == 5.0
    seen = np.from_dlpack(x)
    assert seen.tolist() == [5.0, 0.0, 0.0]
    from rushlight.utils.dlpack import from_dlpack, to_dlpack

    assert from_dlpack(to_dlpack(x)).tolist() == [5.0, 0.0, 0.0]
    with pytest.raises(BufferError, match="require gradient"):
        rl.ones(1, requires_grad=True).__dlpack__()


def test_format() -> None:
    assert f"{rl.tensor(3.14159):.2f}" == "3.14"
    assert f"{rl.tensor([1.0])}" == "tensor([1.])"
    with pytest.raises(TypeError):
        format(rl.tensor([1.0]), ".2f")


def unpickled(values: object) -> rl.Tensor:
    return rl.from_numpy(pickle.loads(pickle.dumps(np.asarray(values))))


def test_unpickled_arrays_keep_their_precision() -> None:
    big = 2**24
    assert unpickled([big + 1, big]).unique().tolist() == [big, big + 1]
    assert unpickled([big + 1.0, big]).sort()[1].tolist() == [1, 0]
    assert unpickled([big + 1j, big]).real.tolist() == [big, big]
    assert rl.searchsorted(unpickled([big, big + 1.0]), unpickled([big + 1.0])).tolist() == [1]
    index, ones = rl.tensor([0, 0]), rl.ones(2, dtype=rl.int64)
    assert unpickled([big]).index_add_(0, index, ones).tolist() == [big + 2]
    assert unpickled([big]).scatter_add_(0, index, ones).tolist() == [big + 2]
    assert unpickled([big]).index_put_((index,), ones, accumulate=True).tolist() == [big + 2]
    assert unpickled([big + 1]).numpy().dtype.isbuiltin == 1


def test_arrays_with_metadata_are_like_others() -> None:
    marked = np.array([2.0**24 + 1, 2.0**24], np.dtype(np.float64, metadata={"unit": "m"}))
    assert rl.from_numpy(marked).sort()[1].tolist() == [1, 0]
    assert rl.tensor(marked).unique().numel() == 2


def test_equality_with_arrays() -> None:
    x = rl.arange(3)
    assert (x == np.array([0, 5, 2])).tolist() == [True, False, True]
    assert (np.array([[0], [1]]) == x).tolist() == [[True, False, False], [False, True, False]]
    assert (x.float().requires_grad_() == np.zeros(3)).tolist() == [True, False, False]
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match"):
        x == np.zeros(2)  # noqa: B015
    assert (x == np.array(["a"])) is False
    assert x.__ne__(np.zeros(3)) is NotImplemented
    assert x.__eq__([0, 1, 2]) is NotImplemented


@pytest.mark.parametrize(
    "make",
    [
        lambda: rl.from_numpy(np.zeros(3)),
        lambda: rl.from_numpy(np.zeros((3, 2))[:, 0]),
        lambda: rl.from_numpy(np.zeros((0, 3))),
        lambda: rl.as_tensor(np.zeros(3)),
        lambda: rl.from_dlpack(np.zeros(3)),
        lambda: rl.frombuffer(bytearray(24), dtype=rl.float64),
        lambda: rl.zeros(3).double().share_memory_(),
    ],
)
def test_memory_of_others_does_not_grow(make) -> None:
    x = make()
    assert not x.untyped_storage().resizable()
    with pytest.raises(RuntimeError, match=r"not resizable.*Resize a clone"):
        x.resize_(6)
    with pytest.raises(RuntimeError, match="not resizable"):
        rl.zeros(2, dtype=rl.float64).set_(x.untyped_storage(), 0, (9,))
    assert x.clone().resize_(6).shape == (6,)


def test_memory_of_others_is_resized_within_its_length() -> None:
    array = np.zeros((2, 3))
    rl.from_numpy(array).resize_(4).fill_(1)
    assert array.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert rl.tensor(array).resize_(9).shape == (9,)


def test_gradients_are_kept_in_the_dtype_of_their_leaf() -> None:
    leaf = rl.zeros(2, dtype=rl.float64, requires_grad=True)
    assert leaf.grad_dtype is rl.float64
    leaf.grad_dtype = rl.float64
    with pytest.raises(NotImplementedError, match="RL0001"):
        leaf.grad_dtype = rl.float16
    with pytest.raises(RuntimeError, match="only be accessed on leaf"):
        (leaf * 2).grad_dtype
    with pytest.raises(RuntimeError, match="only be set on leaf"):
        (leaf * 2).grad_dtype = rl.float64
