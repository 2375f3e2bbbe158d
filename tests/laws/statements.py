"""The laws of transforms, each a generator of comparisons `(what, left, right)` about a subject.

Both sides of a law are computed by different transforms, so neither is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import rushlight as torch
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor, strides_of, values_of, wrap
from rushlight.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from tests.laws.subjects import Subject, filler, name_of, reversed_order

__all__ = ["LAWS", "Comparison", "Law", "disagreement"]

Comparison = tuple[str, Any, Any]
Law = Callable[[Subject], Iterator[Comparison]]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def disagreement(left: Any, right: Any) -> str | None:
    """What tells two results apart; None when they agree to seven digits of the largest value."""
    first, second = leaves(left), leaves(right)
    if len(first) != len(second):
        return f"{len(first)} results against {len(second)}"
    scale = 1.0
    arrays = []
    for one, other in zip(first, second, strict=True):
        if one.dtype is not other.dtype or tuple(one.shape) != tuple(other.shape):
            return f"{one.dtype}{list(one.shape)} against {other.dtype}{list(other.shape)}"
        pair = [np.asarray(values_of(v.resolve_conj().resolve_neg())) for v in (one, other)]
        arrays.append(pair)
        for array in pair:
            finite = array[np.isfinite(array)]
            scale = max(scale, float(np.abs(finite).max(initial=0.0)))
    for number, (one, other) in enumerate(arrays):
        if not np.allclose(one, other, rtol=1e-7, atol=1e-7 * scale, equal_nan=True):
            worst = float(np.nanmax(np.abs(one - other), initial=0.0))
            return f"result {number} differs by {worst:.3g} at a scale of {scale:.3g}"
    return None


def every(subject: Subject) -> tuple[int, ...]:
    return tuple(range(len(subject.inputs)))


# -- 1: a batch is a stack -------------------------------------------------------------------------


# Their results depend on strides: every sample of a batch is given those of a sample alone.
READ_STRIDES = (
    "_reshape_alias", "_test_autograd_multiple_dispatch_view", "_unsafe_view", "as_strided",
    "as_strided_", "as_strided_copy", "as_strided_scatter", "view", "view_as", "view_as_complex",
    "view_as_complex_copy",
)  # fmt: skip


def batch_of(subject: Subject, value: Tensor, dim: int) -> tuple[Tensor, int]:
    """A tensor and itself in another order, stacked along `dim` or the last one before it."""
    arrays = [np.array(values_of(v)) for v in (value, reversed_order(value))]
    dim = min(dim, value.dim())
    if name_of(subject.op) in READ_STRIDES:
        strides = strides_of(value)
        extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, strides, strict=True))
        both = torch.empty_strided((2, *value.shape), (extent, *strides), dtype=value.dtype)
        both.copy_(wrap(np.stack(arrays), value.dtype))
        return both.movedim(0, dim), dim
    return wrap(np.ascontiguousarray(np.stack(arrays, dim)), value.dtype), dim


def samples_are_stacked(subject: Subject) -> Iterator[Comparison]:
    """vmap f = stack of f, for each input alone and all, along every dim, to every dim."""
    inputs, count = subject.inputs, len(subject.inputs)
    groups = [set(range(count))] + [{i} for i in range(count) if count > 1]
    for group in groups:
        if subject.op.mutated_positions and 0 not in group:
            continue  # refused: the target would have to hold all samples
        other = [reversed_order(v) if i in group else v for i, v in enumerate(inputs)]
        try:
            expected = [subject.function(*inputs), subject.function(*other)]
        except Exception:
            continue  # the other order is no argument of this op
        if [v.shape for v in expected[0]] != [v.shape for v in expected[1]]:
            continue
        for number, dim in enumerate((0, 1, -1)):
            pairs = [
                batch_of(subject, v, dim) if i in group else (v, None) for i, v in enumerate(inputs)
            ]
            dims = tuple([place for _, place in pairs])
            out = (0, -1, min([1, *[v.dim() for v in subject.outputs]]))[number]
            found = vmap(subject.function, in_dims=dims, out_dims=out)(*[v for v, _ in pairs])
            wanted = tuple([torch.stack(pair, out) for pair in zip(*expected, strict=True)])
            yield f"in_dims={dims} out_dims={out}", found, wanted


# -- 2, 7: modes -----------------------------------------------------------------------------------


def jacobians_agree(subject: Subject) -> Iterator[Comparison]:
    """jacfwd f = jacrev f."""
    chosen = every(subject)
    forward = jacfwd(subject.function, chosen)(*subject.inputs)
    yield "jacfwd, jacrev", forward, jacrev(subject.function, chosen)(*subject.inputs)


def hessians_agree(subject: Subject) -> Iterator[Comparison]:
    """The matrix of second derivatives is symmetric and the same in all orders of modes."""
    chosen = every(subject)
    first = hessian(subject.scalar, chosen)(*subject.inputs)
    flipped = []
    for i, row in enumerate(first):
        flipped.append([])
        for j in range(len(row)):
            rank, other = subject.inputs[i].dim(), subject.inputs[j].dim()
            order = (*range(other, other + rank), *range(other))
            flipped[-1].append(first[j][i].permute(order))
    yield "symmetric", first, flipped
    for outer, inner in ((jacrev, jacfwd), (jacfwd, jacfwd), (jacrev, jacrev)):
        found = outer(inner(subject.scalar, chosen), chosen)(*subject.inputs)
        yield f"{outer.__name__}({inner.__name__})", found, first


# -- 3, 4: products --------------------------------------------------------------------------------


def derivatives_commute(subject: Subject) -> Iterator[Comparison]:
    """jvp(grad f) = grad(jvp f)."""
    chosen, tangents = every(subject), subject.tangents()
    first = jvp(grad(subject.scalar, chosen), tuple(subject.inputs), tangents)[1]

    def pushed(*inputs: Any) -> Any:
        return jvp(subject.scalar, inputs, tangents)[1]

    yield "jvp(grad), grad(jvp)", first, grad(pushed, chosen)(*subject.inputs)


def inner(left: Any, right: Any) -> Any:
    parts = [(a * b).sum() for a, b in zip(left, right, strict=True)]
    return sum(parts, torch.zeros((), dtype=dtypes.float64))


def adjoint(function: Any, inputs: tuple[Any, ...], seed: int) -> tuple[Any, Any]:
    """<Jv, w> and <v, J'w>."""
    tangents = tuple([filler(value, seed + i) for i, value in enumerate(inputs)])
    outputs, pushed = jvp(function, inputs, tangents)
    cotangents = tuple([filler(value, seed + 50 + i) for i, value in enumerate(outputs)])
    pulled = vjp(function, *inputs)[1](cotangents)
    return inner(pushed, cotangents), inner(tangents, pulled)


def products_are_adjoint(subject: Subject) -> Iterator[Comparison]:
    """<v, J'w> = <Jv, w> for f, its jvp and vjp, and theirs."""
    function = subject.function
    inputs, tangents = tuple(subject.inputs), subject.tangents()
    cotangents = subject.cotangents()
    count = len(inputs)

    def push(of: Any, number: int) -> Any:
        return lambda *values: tuple(jvp(of, values[:number], values[number:])[1])

    def pull(of: Any, number: int) -> Any:
        return lambda *values: vjp(of, *values[:number])[1](tuple(values[number:]))

    forward, backward = push(function, count), pull(function, count)
    yield "f", *adjoint(function, inputs, 300)
    yield "jvp", *adjoint(forward, inputs + tangents, 400)
    yield "vjp", *adjoint(backward, inputs + cotangents, 500)
    second = tuple([filler(v, 600 + i) for i, v in enumerate(inputs + tangents)])
    yield (
        "vjp of jvp",
        *adjoint(pull(forward, 2 * count), inputs + tangents + subject.cotangents(7), 700),
    )
    yield "jvp of jvp", *adjoint(push(forward, 2 * count), inputs + tangents + second, 800)
    third = tuple([filler(v, 900 + i) for i, v in enumerate(inputs + cotangents)])
    number = count + len(cotangents)
    yield "jvp of vjp", *adjoint(push(backward, number), inputs + cotangents + third, 1000)


# -- 5: batches of gradients -----------------------------------------------------------------------


def gradients_are_batched(subject: Subject) -> Iterator[Comparison]:
    """vmap(grad f) = grad(sum of vmap f)."""
    others = [reversed_order(value) for value in subject.inputs]
    try:
        if not all(np.isfinite(values_of(v)).all() for v in subject.function(*others)):
            return
    except Exception:
        return  # the other order is no argument of this op
    chosen = every(subject)
    for dim in (0, -1):
        given = [batch_of(subject, value, dim)[0] for value in subject.inputs]
        each = vmap(grad(subject.scalar, chosen), in_dims=dim, out_dims=dim)(*given)

        def whole(*inputs: Any, dim: int = dim) -> Any:
            return vmap(subject.scalar, in_dims=dim)(*inputs).sum()

        yield f"along {dim}", each, grad(whole, chosen)(*given)


# -- 6: writes -------------------------------------------------------------------------------------


def functionalize_changes_nothing(subject: Subject) -> Iterator[Comparison]:
    """functionalize f = f, inside and outside of every other transform."""
    inputs, tangents, chosen = tuple(subject.inputs), subject.tangents(), every(subject)
    cotangents = subject.cotangents()
    batch = tuple([torch.stack([value, value]) for value in inputs])

    transforms: dict[str, Callable[[Any], tuple[Any, tuple[Any, ...]]]] = {
        "f": lambda f: (f, inputs),
        "jvp": lambda f: (lambda *x: jvp(f, x, tangents)[1], inputs),
        "vjp": lambda f: (lambda *x: vjp(f, *x)[1](cotangents), inputs),
        "vmap": lambda f: (vmap(f), batch),
        "jacrev": lambda f: (jacrev(f, chosen), inputs),
        "jacfwd": lambda f: (jacfwd(f, chosen), inputs),
        "vmap(vjp)": lambda f: (vmap(lambda *x: vjp(f, *x)[1](cotangents)), batch),
    }
    for name, transform in transforms.items():
        plain, given = transform(subject.function)
        wanted = plain(*given)
        yield (
            f"{name} of functionalize",
            transform(functionalize(subject.function))[0](*given),
            wanted,
        )
        yield f"functionalize of {name}", functionalize(plain)(*given), wanted


class Terms(NamedTuple):
    """A law, and how much of an op it is stated about."""

    law: Law
    samples: int  # in float64, half of it in complex128
    largest: int  # elements of all inputs together
    in_place: bool = False  # of the form that writes, where there is one


LAWS: dict[str, Terms] = {
    "samples_are_stacked": Terms(samples_are_stacked, 6, 100),
    "jacobians_agree": Terms(jacobians_agree, 6, 40),
    "derivatives_commute": Terms(derivatives_commute, 6, 100),
    "products_are_adjoint": Terms(products_are_adjoint, 2, 100),
    "gradients_are_batched": Terms(gradients_are_batched, 4, 100),
    "functionalize_changes_nothing": Terms(functionalize_changes_nothing, 2, 24, True),
    "hessians_agree": Terms(hessians_agree, 2, 16),
}
