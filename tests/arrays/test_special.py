"""Special functions against values of 30 digits, in float64 and float32."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rushlight.arrays import special

CASES = [
    ("erf", (0.3,), 0.32862675945912742763891404786675658),
    ("erf", (2.5,), 0.99959304798255504106043578426002508),
    ("erfc", (0.3,), 0.67137324054087257236108595213324342),
    ("erfc", (10.0,), 2.0884875837625447570007862949577886e-45),
    ("erfcx", (-2.0,), 108.94090438997797983930834061046),
    ("erfcx", (25.0,), 0.022549572432641371),
    ("erfinv", (1e-10,), 8.8622692545275801364908374167057e-11),
    ("erfinv", (0.9,), 1.1630871536766741628440954340547),
    ("ndtri", (1e-300,), -37.047096299361199237),
    ("lgamma", (1.0 + 2.0**-30,), -5.3757397843110444569e-10),
    ("lgamma", (100.5,), 361.43554046777762156),
    ("lgamma", (-2.5,), -0.05624371649767405),
    ("digamma", (1.5,), 0.036489973978576520559023667001244),
    ("digamma", (-1.5,), 0.70315664064524318722569033366791),
    ("zeta", (3.0, 1.0), 1.2020569031595942853997381615114),
    ("igamma", (2.5, 3.0), 0.69378108158672159912),
    ("igammac", (2.5, 30.0), 1.2154569777183038948e-11),
    ("igamma", (1000.0, 990.0), 0.379521378537963941201888627987),
    ("i0", (3.0,), 4.8807925858650244),
    ("i1e", (20.0,), 0.087506222183288673),
]


@pytest.mark.parametrize(("name", "args", "expected"), CASES)
def test_values(name, args, expected):
    function = getattr(special, name)
    wide = function(*[np.array([x]) for x in args])
    assert wide.dtype == np.float64
    assert wide[0] == pytest.approx(expected, rel=1e-13, abs=0.0)
    if abs(expected) > 1e-30 and all(float(np.float32(x)) == x for x in args):
        narrow = function(*[np.array([x], np.float32) for x in args])
        assert narrow.dtype == np.float32
        assert narrow[0] == pytest.approx(expected, rel=3e-7, abs=0.0)


def test_limits():
    x = np.array([0.0, math.inf, -math.inf, math.nan])
    assert np.array_equal(special.erf(x), [0, 1, -1, math.nan], equal_nan=True)
    assert np.array_equal(special.erfc(x), [1, 0, 2, math.nan], equal_nan=True)
    assert np.array_equal(special.lgamma(x), [math.inf, math.inf, math.inf, math.nan], True)
    assert np.array_equal(special.erfinv(np.array([1.0, -1.0])), [math.inf, -math.inf])
    assert np.isnan(special.erfinv(np.array([1.5]))).all()
    assert special.polygamma(1, np.array([math.inf]))[0] == 0.0


def test_polygamma_reflects():
    # trigamma(x) + trigamma(1 - x) = (pi / sin(pi x)) ** 2
    x = np.array([-0.3, 0.2])
    both = special.polygamma(1, x) + special.polygamma(1, 1 - x)
    assert both == pytest.approx((math.pi / np.sin(math.pi * x)) ** 2, rel=1e-13)


def test_erf_in_float32():
    x = np.linspace(-4.5, 4.5, 20001, dtype=np.float32)
    wide = special.erf(x.astype(np.float64))
    assert np.abs(special.erf(x) - wide).max() < 1.0e-7
    assert np.abs(special.erf(x)).max() == 1.0


RANGES = {
    "erfc": (-6.0, 10.5),
    "erfinv": (-1.0, 1.0),
    "lgamma": (-4.5, 60.0),
}


@pytest.mark.parametrize("name", RANGES)
def test_float32_has_a_formula_as_good_as_that_of_float64(name):
    function = getattr(special, name)
    low, high = RANGES[name]
    edges = [0.0, -0.0, 1.0, -1.0, 2.0, 1.0 - 2.0**-24, 1.0 + 2.0**-23, 2.0**-140, 1e-30]
    edges += [3.0, -3.0, 1e35, -np.inf, np.inf, np.nan]
    x = np.concatenate([np.linspace(low, high, 4001), edges]).astype(np.float32)
    found, wide = function(x), function(x.astype(np.float64))
    with np.errstate(over="ignore"):
        wanted = wide.astype(np.float32)
    assert found.dtype == np.float32
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    units = np.abs(found[~same].astype(np.float64) - wide[~same]) / np.spacing(
        np.abs(wanted[~same])
    )
    assert units.size == 0 or units.max() < 1.5
    # One by one, in another order in memory, and in the company of others: the same bits.
    singles = [function(value.reshape(())) for value in x[::97]]
    assert all(value.shape == () for value in singles)
    assert np.array(singles, np.float32).tobytes() == found[::97].tobytes()
    assert function(x[::-1])[::-1].tobytes() == found.tobytes()
    assert function(x[:0]).shape == (0,)
