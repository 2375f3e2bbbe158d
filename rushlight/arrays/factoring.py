"""Factorisations and triangular systems that numpy.linalg does not have: LU with its pivots, LDL,
Householder reflectors, substitution.

Arrays are batches of matrices, (..., rows, columns), of float32, float64 or their complex kinds;
loops run over columns, never over the batch. Pivots count from 1, `info` is 0 or the number of the
first column that failed, as in LAPACK.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.arrays import lapack

__all__ = [
    "adjoint", "apply_reflectors", "cholesky", "ldl_factor", "ldl_solve", "lu_factor", "lu_solve",
    "order_of", "reflector_product", "substitute",
]  # fmt: skip

# Up to this width columns are worked off one by one; wider parts are halved, so that most of the
# work is done by matrix products.
NARROW = 16


def adjoint(array: Any) -> Any:
    """The conjugate transpose of each matrix."""
    turned = np.swapaxes(array, -1, -2)
    return turned.conj() if array.dtype.kind == "c" else turned


def magnitude(array: Any) -> Any:
    """What pivots are compared by; for complex numbers the sum that LAPACK takes."""
    if array.dtype.kind == "c":
        return np.abs(array.real) + np.abs(array.imag)
    return np.abs(array)


def stacked(array: Any) -> Any:
    """A fresh copy with one batch axis."""
    return np.array(array, order="C").reshape((prod(array.shape[:-2]), *array.shape[-2:]))


# -- substitution ----------------------------------------------------------------------------------


def substitute(matrix: Any, values: Any, upper: bool, unit: bool = False) -> Any:
    """X of `matrix @ X = values`, reading one triangle of `matrix`; batches broadcast."""
    batch = np.broadcast_shapes(matrix.shape[:-2], values.shape[:-2])
    result = np.array(np.broadcast_to(values, batch + values.shape[-2:]), order="C")
    with np.errstate(all="ignore"):
        substitute_within(matrix, result, upper, unit)
    return result


def substitute_within(matrix: Any, values: Any, upper: bool, unit: bool) -> None:
    size = matrix.shape[-1]
    if size <= NARROW:
        for row in range(size - 1, -1, -1) if upper else range(size):
            known = slice(row + 1, size) if upper else slice(0, row)
            if known.start < known.stop:
                part = matrix[..., row : row + 1, known] @ values[..., known, :]
                values[..., row, :] -= part[..., 0, :]
            if not unit:
                values[..., row, :] /= matrix[..., row, row, None]
        return
    half = size // 2
    first, second = slice(0, half), slice(half, size)
    if upper:
        first, second = second, first
    substitute_within(matrix[..., first, first], values[..., first, :], upper, unit)
    values[..., second, :] -= matrix[..., second, first] @ values[..., first, :]
    substitute_within(matrix[..., second, second], values[..., second, :], upper, unit)


# -- LU --------------------------------------------------------------------------------------------


def swap_rows(block: Any, pivots: Any, start: int, stop: int) -> None:
    """Do the row exchanges of columns [start, stop) in a part of the matrices."""
    every = np.arange(len(block))
    for row in range(start, stop):
        other = pivots[:, row] - 1
        kept = block[:, row].copy()
        block[:, row] = block[every, other]
        block[every, other] = kept


def factor_columns(work: Any, pivots: Any, start: int, stop: int) -> None:
    """LU of the columns [start, stop) below row `start`; exchanges stay within these columns."""
    if stop - start <= NARROW:
        for column in range(start, stop):
            below = work[:, column:, column]
            pivots[:, column] = magnitude(below).argmax(1) + column + 1
            swap_rows(work[:, :, start:stop], pivots, column, column + 1)
            pivot = work[:, column, column]
            factors = work[:, column + 1 :, column]
            factors /= np.where(pivot == 0, 1, pivot)[:, None]
            rest = work[:, column, column + 1 : stop]
            work[:, column + 1 :, column + 1 : stop] -= factors[:, :, None] * rest[:, None, :]
        return
    middle = (start + stop) // 2
    factor_columns(work, pivots, start, middle)
    complete_rows(work, pivots, start, middle, stop)
    factor_columns(work, pivots, middle, stop)
    swap_rows(work[:, :, start:middle], pivots, middle, stop)


def complete_rows(work: Any, pivots: Any, start: int, middle: int, stop: int) -> None:
    """Bring columns [middle, stop) up to date with the factored columns [start, middle)."""
    right = work[:, :, middle:stop]
    swap_rows(right, pivots, start, middle)
    rows = right[:, start:middle]
    substitute_within(work[:, start:middle, start:middle], rows, False, True)
    right[:, middle:] -= work[:, middle:, start:middle] @ rows


def lu_factor(array: Any) -> tuple[Any, Any, Any]:
    """(L and U in one matrix, pivots, info), with the largest element of a column as pivot."""
    found = lapack.factored(array)
    if found is not None:
        return found
    rows, columns = array.shape[-2:]
    rank = min(rows, columns)
    work = stacked(array)
    pivots = np.empty((len(work), rank), np.int32)
    with np.errstate(all="ignore"):
        factor_columns(work, pivots, 0, rank)
        if columns > rank:
            complete_rows(work, pivots, 0, rank, columns)
    batch = array.shape[:-2]
    info = first_of(np.diagonal(work, axis1=1, axis2=2) == 0)
    return work.reshape(array.shape), pivots.reshape((*batch, rank)), info.reshape(batch)


def first_of(failed: Any) -> Any:
    """The number of the first True in each row, counting from 1; 0 where there is none."""
    if failed.shape[1] == 0:
        return np.zeros(len(failed), np.int32)
    return np.where(failed.any(1), failed.argmax(1) + 1, 0).astype(np.int32)


def order_of(pivots: Any, rows: int) -> Any:
    """The order of rows that a sequence of exchanges leads to: `A[order] = L @ U`."""
    flat = pivots.reshape((prod(pivots.shape[:-1]), pivots.shape[-1]))
    order = np.empty((len(flat), rows), np.int64)
    order[...] = np.arange(rows)
    swap_rows(order[:, :, None], flat, 0, flat.shape[1])
    return order.reshape((*pivots.shape[:-1], rows))


def permuted(array: Any, order: Any, back: bool) -> Any:
    """Rows in an order, or from there back in place."""
    batch = np.broadcast_shapes(array.shape[:-2], order.shape[:-1])
    index = np.argsort(order, axis=-1) if back else order
    index = np.broadcast_to(index, batch + order.shape[-1:])[..., None]
    return np.take_along_axis(np.broadcast_to(array, batch + array.shape[-2:]), index, -2)


def lu_solve(factors: Any, pivots: Any, values: Any, adjointed: bool) -> Any:
    """X of `A @ X = values`, or of `A^H @ X = values`, from the factors of A."""
    quick = lapack.solved(factors, pivots, values, adjointed)
    if quick is not None:
        return quick
    order = order_of(pivots, factors.shape[-1])
    if adjointed:
        turned = adjoint(factors)
        found = substitute(turned, values, upper=False)
        return permuted(substitute(turned, found, upper=True, unit=True), order, back=True)
    found = substitute(factors, permuted(values, order, back=False), upper=False, unit=True)
    return substitute(factors, found, upper=True)


# -- Cholesky --------------------------------------------------------------------------------------


def cholesky(array: Any) -> tuple[Any, Any]:
    """(L, info), reading the lower triangle. Where a minor is not positive, what was done up to
    there stands beside the untouched rest."""
    batch = array.shape[:-2]
    try:
        found = np.linalg.cholesky(array)
        # Not every LAPACK sees that a nan is not positive.
        if not np.isnan(np.diagonal(found, 0, -2, -1)).any():
            return found, np.zeros(batch, np.int32)
    except np.linalg.LinAlgError:
        pass
    work = np.tril(stacked(array))
    info = np.zeros(len(work), np.int32)
    for column in range(array.shape[-1]):
        done = work[:, column, :column]
        square = work[:, column, column].real - (done * done.conj()).real.sum(1)
        good = (info == 0) & (square > 0)
        stopped = (info == 0) & ~good
        info[stopped] = column + 1
        work[stopped, column, column] = square[stopped]
        if not good.any():
            break
        root = np.sqrt(square[good])
        below = work[good, column + 1 :, column]
        below -= (work[good, column + 1 :, :column] @ done[good].conj()[:, :, None])[:, :, 0]
        work[good, column, column] = root
        work[good, column + 1 :, column] = below / root[:, None]
    return work.reshape(array.shape), info.reshape(batch)


# -- Householder reflectors ------------------------------------------------------------------------


def reflect(block: Any, below: Any, factor: Any) -> None:
    """block <- (I - factor v v^H) @ block, where v is 1 above `below`."""
    vector = np.concatenate([np.ones((len(below), 1), below.dtype), below], 1)[:, :, None]
    block -= (factor[:, None, None] * vector) @ (adjoint(vector) @ block)


def reflector_product(vectors: Any, factors: Any) -> Any:
    """The first columns, as many as `vectors` has, of the product of its reflectors."""
    columns = vectors.shape[-1]
    flat = stacked(vectors)
    scale = factors.reshape((len(flat), factors.shape[-1]))
    result = np.zeros(flat.shape, vectors.dtype)
    result[:, range(columns), range(columns)] = 1
    for column in range(factors.shape[-1] - 1, -1, -1):
        below = flat[:, column + 1 :, column]
        reflect(result[:, column:, column:], below, scale[:, column])
    return result.reshape(vectors.shape)


def apply_reflectors(vectors: Any, factors: Any, values: Any, left: bool, adjointed: bool) -> Any:
    """Q @ values, Q^H @ values, values @ Q or values @ Q^H, without making Q."""
    if not left:
        return adjoint(apply_reflectors(vectors, factors, adjoint(values), True, not adjointed))
    flat = stacked(vectors)
    result = stacked(values)
    scale = factors.reshape((len(flat), factors.shape[-1]))
    count = scale.shape[1]
    for column in range(count) if adjointed else range(count - 1, -1, -1):
        factor = scale[:, column].conj() if adjointed else scale[:, column]
        reflect(result[:, column:], flat[:, column + 1 :, column], factor)
    return result.reshape(values.shape)


# -- LDL -------------------------------------------------------------------------------------------

# Bunch and Kaufman's bound, which keeps the growth of elements in check.
GROWTH = (1 + 17**0.5) / 8


def exchange(work: Any, chosen: Any, start: int, first: Any, second: Any) -> None:
    """Exchange two rows, and the same columns, of the part from `start` on."""
    for axis in (1, 2):
        part = work[chosen, start:, start:]
        part = part if axis == 1 else part.swapaxes(1, 2)
        every = np.arange(len(chosen))
        kept = part[every, first - start].copy()
        part[every, first - start] = part[every, second - start]
        part[every, second - start] = kept
        work[chosen, start:, start:] = part if axis == 1 else part.swapaxes(1, 2)


def ldl_factor(array: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """(L and D in the lower triangle, pivots, info), reading the lower triangle. A block of D
    with two rows has the same negative number for a pivot in both."""
    size = array.shape[-1]
    hermitian = hermitian and array.dtype.kind == "c"
    by_routine = lapack.symmetric(array, hermitian)
    if by_routine is not None:
        return by_routine
    low = np.tril(stacked(array), -1)
    work = low + (adjoint(low) if hermitian else low.swapaxes(1, 2))
    diagonal = np.diagonal(array, axis1=-2, axis2=-1).reshape((len(work), size))
    work[:, range(size), range(size)] = diagonal.real if hermitian else diagonal
    pivots = np.zeros((len(work), size), np.int32)
    info = np.zeros(len(work), np.int32)
    with np.errstate(all="ignore"):
        for column in range(size):
            ldl_column(work, pivots, info, column)
    result = np.tril(work)
    batch = array.shape[:-2]
    return result.reshape(array.shape), pivots.reshape((*batch, size)), info.reshape(batch)


def ldl_column(work: Any, pivots: Any, info: Any, column: int) -> None:
    """One step for the matrices in which `column` is not the second of a pair."""
    size = work.shape[-1]
    chosen = np.nonzero(pivots[:, column] == 0)[0]
    part = work[chosen, column:, column:]
    every = np.arange(len(chosen))
    sizes = magnitude(part)
    own = sizes[:, 0, 0]
    other = np.zeros(len(chosen), np.int64)
    pair = np.zeros(len(chosen), bool)
    empty = own == 0
    if column + 1 < size:
        largest = sizes[:, 1:, 0].max(1)
        place = sizes[:, 1:, 0].argmax(1) + 1
        across = sizes[every, place]
        across[every, place] = 0
        widest = across.max(1)
        empty &= largest == 0
        keeps = empty | (own >= GROWTH * largest) | (own >= GROWTH * largest * (largest / widest))
        other = np.where(keeps, 0, place)
        pair = ~keeps & ~(sizes[every, place, place] >= GROWTH * widest)
    info[chosen[empty & (info[chosen] == 0)]] = column + 1
    other += column
    exchange(work, chosen, column, column + pair, other)
    pivots[chosen, column] = np.where(pair, -other - 1, other + 1)
    single = chosen[~pair & ~empty]
    below = work[single, column + 1 :, column]
    scaled = below / work[single, column, column, None]
    row = work[single, column, column + 1 :]
    work[single, column + 1 :, column + 1 :] -= scaled[:, :, None] * row[:, None, :]
    work[single, column + 1 :, column] = scaled
    if pair.any():
        double = chosen[pair]
        pivots[double, column + 1] = pivots[double, column]
        after = slice(column + 2, size)
        both = slice(column, column + 2)
        block = work[double, both, both]
        weights = work[double, after, both] @ inverse_of_pairs(block)
        work[double, after, after] -= weights @ work[double, both, after]
        work[double, after, both] = weights


def inverse_of_pairs(block: Any) -> Any:
    """Inverses of 2x2 matrices."""
    result = np.empty_like(block)
    result[:, 0, 0], result[:, 1, 1] = block[:, 1, 1], block[:, 0, 0]
    result[:, 0, 1], result[:, 1, 0] = -block[:, 0, 1], -block[:, 1, 0]
    determinant = block[:, 0, 0] * block[:, 1, 1] - block[:, 0, 1] * block[:, 1, 0]
    return result / determinant[:, None, None]


def ldl_solve(factors: Any, pivots: Any, values: Any, hermitian: bool) -> Any:
    """X of `A @ X = values` from the factors of a symmetric or Hermitian A."""
    size = factors.shape[-1]
    flat = stacked(factors)
    exchanges = pivots.reshape((len(flat), size))
    lower = np.tril(flat, -1)
    diagonal = np.diagonal(flat, axis1=1, axis2=2).copy()
    if hermitian and flat.dtype.kind == "c":
        diagonal = diagonal.real.astype(flat.dtype)
    beside = np.zeros_like(diagonal)  # row i: D[i + 1, i]
    order = np.empty((len(flat), size), np.int64)
    order[...] = np.arange(size)
    every = np.arange(len(flat))
    second = np.zeros(len(flat), bool)
    for column in range(size):
        pair = (exchanges[:, column] < 0) & ~second
        if pair.any():
            beside[pair, column] = lower[pair, column + 1, column]
            lower[pair, column + 1, column] = 0
        here = np.where(second, column, column + pair)
        other = np.where(second, column, np.abs(exchanges[:, column]) - 1)
        for part in (order, lower[:, :, :column]):
            kept = part[every, here].copy()
            part[every, here] = part[every, other]
            part[every, other] = kept
        second = pair
    batch = factors.shape[:-2]
    order = order.reshape((*batch, size))
    lower = lower.reshape(factors.shape)
    found = substitute(lower, permuted(values, order, back=False), upper=False, unit=True)
    found = solve_blocks(diagonal, beside, found, batch, hermitian)
    turned = adjoint(lower) if hermitian else lower.swapaxes(-1, -2)
    return permuted(substitute(turned, found, upper=True, unit=True), order, back=True)


def solve_blocks(diagonal: Any, beside: Any, values: Any, batch: Any, hermitian: bool) -> Any:
    """X of `D @ X = values`, where D has blocks of one or two rows."""
    size = diagonal.shape[-1]
    shape = (*batch, size, 1)
    low = np.roll(beside, 1, -1)  # row i: D[i, i - 1]
    high = beside.conj() if hermitian else beside  # row i: D[i, i + 1]
    first, second = beside != 0, low != 0
    partner = np.where(
        first, np.roll(diagonal, -1, -1), np.where(second, np.roll(diagonal, 1, -1), 1)
    )
    across = np.where(first, high, np.where(second, low, 0))
    product = (beside * high).real if hermitian else beside * high
    product = np.where(second, np.roll(product, 1, -1), product)
    neighbour = np.where(first.reshape(shape), np.roll(values, -1, -2), np.roll(values, 1, -2))
    with np.errstate(all="ignore"):
        determinant = diagonal * partner - product
        found = values * partner.reshape(shape) - neighbour * across.reshape(shape)
        return found / determinant.reshape(shape)
