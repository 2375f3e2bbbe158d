"""NumPy, DLPack, pickling and copying."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import rushlight as rl


def test_numpy_shares_memory() -> None:
    x = rl.zeros(2, 3)
    x.t().numpy()[2, 1] = 7.0
    assert x.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 7.0]]
    assert np.asarray(x, np.int64).dtype == np.int64


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
