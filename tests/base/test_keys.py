"""Exact keys: values are the same only if their types and bits are."""

from __future__ import annotations

import copy
import itertools
import math
import struct

import numpy as np
import pytest

from rushlight.base.keys import exact_key

OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
VALUES = (
    0, 1, True, False, 0.0, -0.0, 1.0, math.nan, OTHER_NAN, -math.nan, math.inf, 0j, 1 + 0j,
    complex(0.0, -0.0), complex(-0.0, 0.0), None, "", "0", b"", (), [], {}, (0,), [0], (0.0,),
    (-0.0,), (False,), ((0,),), {"a": 0}, {"a": 0.0}, slice(0), slice(0.0), slice(0, None), int,
    np.float32(0), np.float64(0), np.float32(-0.0), np.zeros(2), -np.zeros(2), np.zeros((2, 1)),
)  # fmt: skip


def test_different_values_have_different_keys():
    for one, other in itertools.combinations(VALUES, 2):
        assert exact_key(one) != exact_key(other), (one, other)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_has_one_key_that_can_be_hashed(value):
    again = copy.deepcopy(value)
    assert exact_key(value) == exact_key(again)
    assert hash(exact_key(value)) == hash(exact_key(again))
