"""Type promotion: the whole table, and the ranks of operands."""

import numpy as np
import pytest

from rushlight.core import dtype as dtypes
from rushlight.core.promotion import (
    DIM,
    WRAPPED,
    ZERO_DIM,
    can_cast,
    promote_types,
    result_dtype2,
    result_dtype_scalar,
    result_type,
    scalar_dtype,
)

TABLE = """
b8    b8   u8   i8   i16  i32  i64  -    f16  bf16 f32  f64  c32  c64  c128
u8    u8   u8   i16  i16  i32  i64  -    f16  bf16 f32  f64  c32  c64  c128
i8    i8   i16  i8   i16  i32  i64  -    f16  bf16 f32  f64  c32  c64  c128
i16   i16  i16  i16  i16  i32  i64  -    f16  bf16 f32  f64  c32  c64  c128
i32   i32  i32  i32  i32  i32  i64  -    f16  bf16 f32  f64  c32  c64  c128
i64   i64  i64  i64  i64  i64  i64  -    f16  bf16 f32  f64  c32  c64  c128
u16   -    -    -    -    -    -    u16  f16  bf16 f32  f64  -    -    -
f16   f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c32  c64  c128
bf16  bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c64  c128
f32   f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c64  c128
f64   f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128 c128
c32   c32  c32  c32  c32  c32  c32  -    c32  c64  c64  c128 c32  c64  c128
c64   c64  c64  c64  c64  c64  c64  -    c64  c64  c64  c128 c64  c64  c128
c128  c128 c128 c128 c128 c128 c128 -    c128 c128 c128 c128 c128 c128 c128
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
BY_ABBR = {member.abbr: member for member in dtypes.ALL}
MEMBERS = [BY_ABBR[row[0]] for row in ROWS]


@pytest.fixture
def default_restored():
    yield
    dtypes.set_default_dtype(dtypes.float32)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_table(row):
    a = BY_ABBR[row[0]]
    for b, expected in zip(MEMBERS, row[1:], strict=True):
        if expected == "-":
            with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types"):
                promote_types(a, b)
        else:
            assert promote_types(a, b) is BY_ABBR[expected]


def test_float8_promotes_with_itself_only():
    assert promote_types(dtypes.float8_e5m2, dtypes.float8_e5m2) is dtypes.float8_e5m2
    message = "Float8 Types is not supported, attempted to promote Float and Float8_e5m2"
    with pytest.raises(RuntimeError, match=message):
        promote_types(dtypes.float32, dtypes.float8_e5m2)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types"):
        promote_types(dtypes.uint16, dtypes.float8_e4m3fn)


def test_unsigned_types_do_not_mix():
    message = "attempted to promote UInt16 and UInt32"
    with pytest.raises(RuntimeError, match=message):
        promote_types(dtypes.uint16, dtypes.uint32)


def test_arguments_must_be_dtypes():
    with pytest.raises(TypeError, match=r"'type2' \(position 2\) must be torch.dtype, not int"):
        promote_types(dtypes.float32, 3)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ([("int8", DIM), ("int64", ZERO_DIM)], "int8"),
        ([("int8", DIM), ("float64", ZERO_DIM)], "float64"),
        ([("int8", DIM), ("float64", WRAPPED)], "float32"),
        ([("bool", DIM), ("int64", WRAPPED)], "int64"),
        ([("float16", DIM), ("float64", ZERO_DIM)], "float16"),
        ([("float16", DIM), ("complex128", ZERO_DIM)], "complex32"),
        ([("bfloat16", DIM), ("complex64", WRAPPED)], "complex64"),
        ([("float32", ZERO_DIM), ("float64", WRAPPED)], "float32"),
        ([("int32", ZERO_DIM), ("float16", ZERO_DIM)], "float16"),
        ([("uint16", DIM), ("complex64", ZERO_DIM)], "complex64"),
        ([("int8", DIM), ("int16", DIM), ("float64", WRAPPED)], "float32"),
        ([("float8_e5m2", DIM), ("float64", WRAPPED)], "float8_e5m2"),
        ([("int64", WRAPPED), ("float64", WRAPPED)], "float32"),
    ],
)
def test_ranks(operands, expected):
    described = [(dtypes.by_name(name), rank) for name, rank in operands]
    assert result_type(described).name == expected
    assert result_type(described[::-1]).name == expected


def test_two_tensors_agree_with_the_general_rule():
    for a in MEMBERS:
        for b in MEMBERS:
            for a_is_dim in (True, False):
                for b_is_dim in (True, False):
                    ranks = [
                        (a, DIM if a_is_dim else ZERO_DIM),
                        (b, DIM if b_is_dim else ZERO_DIM),
                    ]
                    try:
                        expected = result_type(ranks)
                    except RuntimeError:
                        with pytest.raises(RuntimeError, match="Promotion for"):
                            result_dtype2(a, a_is_dim, b, b_is_dim)
                    else:
                        assert result_dtype2(a, a_is_dim, b, b_is_dim) is expected


def test_numbers(default_restored):
    assert scalar_dtype(True) is dtypes.bool_
    assert scalar_dtype(3) is dtypes.int64
    assert scalar_dtype(3.0) is dtypes.float32
    assert scalar_dtype(3j) is dtypes.complex64
    assert scalar_dtype(np.float64(3)) is dtypes.float32
    assert scalar_dtype(np.uint8(3)) is dtypes.int64
    assert scalar_dtype(np.True_) is dtypes.bool_
    assert result_dtype_scalar(dtypes.int32, 1.5) is dtypes.float32
    dtypes.set_default_dtype(dtypes.float64)
    assert scalar_dtype(3.0) is dtypes.float64
    assert scalar_dtype(3j) is dtypes.complex128
    assert result_dtype_scalar(dtypes.int32, 1.5) is dtypes.float64
    assert result_dtype_scalar(dtypes.float32, 1.5) is dtypes.float32
    assert result_dtype_scalar(dtypes.float32, 1j) is dtypes.complex64
    assert result_dtype_scalar(dtypes.bool_, 1) is dtypes.int64
    assert result_dtype_scalar(dtypes.uint8, True) is dtypes.uint8
    with pytest.raises(TypeError, match="expected a number, got str"):
        scalar_dtype("3")


def test_can_cast():
    assert can_cast(dtypes.int64, dtypes.uint8)
    assert can_cast(dtypes.float64, dtypes.float16)
    assert can_cast(dtypes.bool_, dtypes.int8)
    assert not can_cast(dtypes.float16, dtypes.int64)
    assert not can_cast(dtypes.complex64, dtypes.float64)
    assert not can_cast(dtypes.uint8, dtypes.bool_)
