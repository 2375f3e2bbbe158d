"""Factorisations against the products they stand for, batched and larger than one block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rushlight.arrays import factoring

SIZES = [(1, 1), (3, 3), (5, 2), (2, 5), (40, 40), (50, 35), (35, 50), (2, 3, 4, 4), (0, 3, 3)]
KINDS = ["f8", "c16"]


def draw(shape: Any, kind: str) -> Any:
    random = np.random.default_rng(7)
    values = random.standard_normal(shape)
    if kind == "c16":
        values = values + 1j * random.standard_normal(shape)
    return values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SIZES)
def test_lu_multiplies_to_the_rows_in_order(shape: Any, kind: str) -> None:
    array = draw(shape, kind)
    factors, pivots, info = factoring.lu_factor(array)
    rows, rank = shape[-2], min(shape[-2:])
    lower = np.tril(factors[..., :rank], -1) + np.eye(rows, rank)
    upper = np.triu(factors[..., :rank, :])
    order = factoring.order_of(pivots, rows)
    np.testing.assert_allclose(lower @ upper, np.take_along_axis(array, order[..., None], -2))
    assert pivots.dtype == info.dtype == np.int32
    assert not info.any()
    # Pivots are the largest by |re| + |im|, which bounds the absolute value by sqrt(2).
    assert np.abs(np.tril(lower, -1)).max(initial=0) <= 2**0.5


def test_info_names_the_first_zero_pivot() -> None:
    array = np.array([[[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]])
    factors, pivots, info = factoring.lu_factor(array)
    assert info.tolist() == [2, 1, 0]
    assert pivots.tolist() == [[1, 2], [1, 2], [2, 2]]
    assert np.isfinite(factors).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjointed", [False, True])
def test_lu_solve(kind: str, adjointed: bool) -> None:
    array, values = draw((2, 40, 40), kind), draw((40, 3), kind)
    factors, pivots, _ = factoring.lu_factor(array)
    found = factoring.lu_solve(factors, pivots, values, adjointed)
    matrix = factoring.adjoint(array) if adjointed else array
    np.testing.assert_allclose(matrix @ found, np.broadcast_to(values, found.shape), atol=1e-9)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_substitution_reads_one_triangle(upper: bool, unit: bool) -> None:
    array, values = draw((37, 37), "f8") * 0.1 + 2 * np.eye(37), draw((2, 37, 2), "f8")
    triangle = np.triu(array) if upper else np.tril(array)
    if unit:
        np.fill_diagonal(triangle, 1)
    found = factoring.substitute(array, values, upper, unit)
    np.testing.assert_allclose(triangle @ found, values, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_cholesky_stops_at_the_first_minor_that_is_not_positive(kind: str) -> None:
    good = np.eye(3) * 4
    bad = np.array([[4.0, 2, 1], [2, -1, 5], [1, 5, 9]])
    found, info = factoring.cholesky(np.stack([good, bad]).astype(kind))
    assert info.tolist() == [0, 2]
    assert found[0].real.tolist() == (np.eye(3) * 2).tolist()
    assert found[1].real.tolist() == [[2, 0, 0], [1, -2, 0], [0.5, 5, 9]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl_solves_what_it_factored(kind: str, hermitian: bool) -> None:
    base = draw((3, 12, 12), kind)
    turned = factoring.adjoint(base) if hermitian else base.swapaxes(-1, -2)
    # A zero diagonal needs blocks of two rows.
    matrix = (base + turned) * (1 - np.eye(12))
    values = draw((3, 12, 2), kind)
    factors, pivots, info = factoring.ldl_factor(matrix, hermitian)
    assert not info.any()
    assert (pivots < 0).any()
    found = factoring.ldl_solve(factors, pivots, values, hermitian)
    np.testing.assert_allclose(matrix @ found, values, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_reflectors_make_the_factor_that_numpy_makes(kind: str) -> None:
    array, values = draw((2, 6, 4), kind), draw((2, 6, 3), kind)
    raw, factors = np.linalg.qr(array, mode="raw")
    vectors = raw.swapaxes(-1, -2)
    whole = np.linalg.qr(array, mode="complete")[0]
    found = factoring.reflector_product(vectors, factors)
    np.testing.assert_allclose(found, whole[..., :4], atol=1e-12)
    for left, adjointed in ((True, False), (True, True), (False, False), (False, True)):
        given = values if left else values.swapaxes(-1, -2)
        side = factoring.adjoint(whole) if adjointed else whole
        wanted = side @ given if left else given @ side
        got = factoring.apply_reflectors(vectors, factors, given, left, adjointed)
        np.testing.assert_allclose(got, wanted, atol=1e-12)
