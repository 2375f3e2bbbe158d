"""dtype singletons, limits and the default dtype."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from rushlight.core import dtype as dtypes
from rushlight.core.dtype import dtype, finfo, iinfo


@pytest.fixture
def default_restored():
    yield
    dtypes.set_default_dtype(dtypes.float32)


def test_members_are_singletons():
    for member in dtypes.ALL:
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is member
        assert repr(member) == str(member) == f"torch.{member.name}"
        assert member.np.itemsize == member.itemsize
        assert member.np.char == member.char
        assert dtypes.from_numpy(member.np) is member
    with pytest.raises(TypeError, match=r"cannot create 'torch\.dtype' instances"):
        dtype()


def test_aliases():
    assert dtypes.by_name("float") is dtypes.float32
    assert dtypes.by_name("int") is dtypes.int32
    assert dtypes.by_name("bool") is dtypes.bool_
    assert dtypes.long is dtypes.int64


def test_attributes():
    assert not dtypes.bool_.is_signed
    assert not dtypes.uint32.is_signed
    assert dtypes.int8.is_signed
    assert dtypes.complex64.is_signed
    assert [d.name for d in dtypes.ALL if d.scalar_fast] == [
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
    assert dtypes.bfloat16.legacy_tensor_name == "BFloat16Tensor"
    assert dtypes.uint8.legacy_tensor_name == "ByteTensor"
    with pytest.raises(AttributeError, match=r"'torch\.dtype' object has no attribute 'shape'"):
        _ = dtypes.int8.shape


def test_real_and_complex():
    assert dtypes.complex128.to_real() is dtypes.float64
    assert dtypes.bfloat16.to_complex() is dtypes.complex64
    assert dtypes.float16.to_complex() is dtypes.complex32
    assert dtypes.int8.to_real() is dtypes.int8
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Long"):
        dtypes.int64.to_complex()


def test_from_numpy():
    assert dtypes.from_numpy(np.dtype("longlong")) is dtypes.int64
    for refused in ("U3", "object", ">f4", "datetime64[s]"):
        with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type numpy\."):
            dtypes.from_numpy(np.dtype(refused))


def test_ml_dtypes_is_imported_on_first_use():
    program = (
        "import sys; from rushlight.core import dtype as d; before = 'ml_dtypes' in sys.modules;"
        "d.bfloat16.np; print(before, 'ml_dtypes' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_finfo():
    half = finfo(dtypes.float16)
    assert (half.bits, half.max, half.min, half.eps) == (16, 65504.0, -65504.0, 0.0009765625)
    assert repr(finfo(dtypes.bfloat16)) == (
        "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125,"
        " smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=bfloat16)"
    )
    for member in (dtypes.float32, dtypes.float64):
        limits, expected = finfo(member), np.finfo(member.np)
        assert limits.max == expected.max
        assert limits.eps == expected.eps
        assert limits.tiny == expected.tiny
    assert finfo(dtypes.complex64) == finfo() == finfo(dtypes.float32)
    assert finfo(dtypes.float8_e5m2fnuz).tiny == 3.0517578125e-05
    with pytest.raises(TypeError, match=r"requires a floating point input type\. Use torch\.iinfo"):
        finfo(dtypes.int32)
    with pytest.raises(TypeError, match=r"must be torch\.dtype, not int"):
        finfo(3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(finfo())


def test_iinfo():
    assert repr(iinfo(dtypes.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    for member in dtypes.ALL:
        if member.category == dtypes.INTEGER:
            limits, expected = iinfo(member), np.iinfo(member.np)
            assert (limits.min, limits.max, limits.bits) == (
                expected.min,
                expected.max,
                expected.bits,
            )
    with pytest.raises(TypeError, match=r"torch\.bool is not supported by torch\.iinfo"):
        iinfo(dtypes.bool_)
    with pytest.raises(TypeError, match="requires an integer input type"):
        iinfo(dtypes.complex64)


def test_default_dtype(default_restored):
    dtypes.set_default_dtype(dtypes.float64)
    assert dtypes.get_default_dtype() is dtypes.float64
    assert dtypes.default_complex_dtype is dtypes.complex128
    with pytest.raises(TypeError, match="^only floating-point types are supported"):
        dtypes.set_default_dtype(dtypes.int32)
    with pytest.raises(TypeError, match="invalid dtype object"):
        dtypes.set_default_dtype("float32")
    with pytest.raises(TypeError, match="couldn't find storage object Float8_e5m2Storage"):
        dtypes.set_default_dtype(dtypes.float8_e5m2)
    assert dtypes.get_default_dtype() is dtypes.float64
