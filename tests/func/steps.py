"""The plain steps of random programs: each in the package's words and in the oracle's.

A step reads registers and adds one. `run` is the program as a user writes it, over the package
`T`; `value` is the same function of jets. Views give positions instead of a value, writes the new
content of their first operand. Invariant: no derivative is written here, for either side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.func import jets
from tests.func.custom import functions
from tests.func.jets import Jet, jet

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """`draw(rng, *shapes)` gives the parameters of a step on operands of these shapes, or None."""

    name: str
    run: Callable[..., Any]
    value: Callable[..., Any]
    count: int = 1
    draw: Callable[..., dict[str, Any] | None] = lambda rng, *shapes: {}
    kind: str = "pure"  # pure, view, write, factory, detach
    saves: bool = True  # may keep operands for its backward: they must not be written afterwards
    keeps: bool = True  # may keep its result
    weight: float = 1.0


OPS: dict[str, Op] = {}


def add(name: str, run: Any, value: Any, count: int = 1, draw: Any = None, **facts: Any) -> None:
    if draw is not None:
        facts["draw"] = draw
    OPS[name] = Op(name, run, value, count, **facts)


def constant(T: Any, array: np.ndarray) -> Any:
    return T.tensor(array.tolist(), dtype=T.float64).reshape(array.shape)


def integers(T: Any, array: np.ndarray) -> Any:
    return T.tensor(array.tolist(), dtype=T.int64).reshape(array.shape)


def truths(T: Any, array: np.ndarray) -> Any:
    return T.tensor(array.tolist(), dtype=T.bool).reshape(array.shape)


# -- what operands must be ------------------------------------------------------------------------


def broadcast(rng: Any, *shapes: Shape) -> dict[str, Any] | None:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return None
    return {}


def same(rng: Any, *shapes: Shape) -> dict[str, Any] | None:
    return {} if len(set(shapes)) == 1 else None


def along(rng: Any, shape: Shape, *more: Shape) -> dict[str, Any] | None:
    """A dim of the first operand, counted from either end."""
    if not shape:
        return None
    return {"dim": int(rng.integers(-len(shape), len(shape)))}


def along_wide(rng: Any, shape: Shape) -> dict[str, Any] | None:
    found = along(rng, shape)
    return found if found and shape[found["dim"]] > 1 else None


def along_keep(rng: Any, shape: Shape) -> dict[str, Any] | None:
    found = along(rng, shape)
    return found and {**found, "keepdim": bool(rng.integers(2))}


def square(rng: Any, shape: Shape, *more: Shape) -> dict[str, Any] | None:
    return {} if len(shape) == 2 and shape[0] == shape[1] else None


def square_and_vector(rng: Any, shape: Shape, other: Shape) -> dict[str, Any] | None:
    fits = len(other) in (1, 2) and other[0] == shape[0] if shape else False
    return square(rng, shape) if fits else None


def at_least(rank: int) -> Any:
    return lambda rng, shape: {} if len(shape) >= rank else None


def affine(x: Shape, w: Shape, b: Shape) -> dict[str, Any] | None:
    return {} if x and len(w) == 2 and w[1] == x[-1] and b == w[:1] else None


def products(rng: Any, one: Shape, two: Shape) -> dict[str, Any] | None:
    if not one or not two or max(len(one), len(two)) > 3:
        return None
    return {} if one[-1] == two[-2 if len(two) > 1 else -1] and one[:-2] == two[:-2] else None


# -- elementwise -----------------------------------------------------------------------------------

for _name in ("sin", "cos", "tanh", "sigmoid", "exp"):
    add(_name, lambda T, x, name=_name: getattr(T, name)(x), getattr(jets, _name))
add("neg", lambda T, x: -x, lambda x: -x, saves=False, keeps=False)
add("square", lambda T, x: x.square(), lambda x: x * x)
add("cube", lambda T, x: x**3, lambda x: x * x * x)
add("scaled", lambda T, x: 2.5 * x - 1.0, lambda x: x * 2.5 - 1.0, saves=False, keeps=False)
add("log", lambda T, x: (x * x + 1.0).log(), lambda x: jets.log(x * x + 1.0))
add("sqrt", lambda T, x: (x * x + 0.5).sqrt(), lambda x: jets.sqrt(x * x + 0.5))
add("rsqrt", lambda T, x: (x * x + 0.5).rsqrt(), lambda x: jets.power(x * x + 0.5, -0.5))
add("pow", lambda T, x: (x * x + 1.0).pow(1.5), lambda x: jets.power(x * x + 1.0, 1.5))
add("reciprocal", lambda T, x: 1.0 / (x * x + 1.0), lambda x: jets.reciprocal(x * x + 1.0))
add("expm1", lambda T, x: T.expm1(x), lambda x: jets.exp(x) - 1.0)
add("log1p", lambda T, x: T.log1p(x * x), lambda x: jets.log(x * x + 1.0))
add("softplus", lambda T, x: T.nn.functional.softplus(x), jets.softplus)
add("logsigmoid", lambda T, x: T.nn.functional.logsigmoid(x), lambda x: -jets.softplus(-x))
add("silu", lambda T, x: T.nn.functional.silu(x), lambda x: x * jets.sigmoid(x))
add("relu", lambda T, x: T.relu(x), lambda x: jets.maximum(x, 0.0))
add("abs", lambda T, x: x.abs(), lambda x: jets.maximum(x, -x))
add("clamp", lambda T, x: x.clamp(-0.5, 0.8), lambda x: jets.minimum(jets.maximum(x, -0.5), 0.8))
add(
    "elu",
    lambda T, x: T.nn.functional.elu(x, 0.7),
    lambda x: jets.choose(jets.is_positive(x), x, (jets.exp(x) - 1.0) * 0.7),
)
add(
    "leaky_relu",
    lambda T, x: T.nn.functional.leaky_relu(x, 0.1),
    lambda x: jets.choose(jets.is_positive(x), x, x * 0.1),
)
add("clone", lambda T, x: x.clone(), lambda x: x, saves=False, keeps=False, weight=3)
add("add", lambda T, x, y: x + y, lambda x, y: x + y, 2, broadcast, saves=False, keeps=False)
add("sub", lambda T, x, y: T.sub(x, y), lambda x, y: x - y, 2, broadcast, saves=False, keeps=False)
add("mul", lambda T, x, y: x * y, lambda x, y: x * y, 2, broadcast, keeps=False, weight=3)
add("div", lambda T, x, y: x / (y * y + 1.0), lambda x, y: x / (y * y + 1.0), 2, broadcast)
add("maximum", lambda T, x, y: T.maximum(x, y), jets.maximum, 2, broadcast)
add("minimum", lambda T, x, y: T.minimum(x, y), jets.minimum, 2, broadcast)
add(
    "where",
    lambda T, x, y: T.where(x > y, x.sin(), y * y),
    lambda x, y: jets.choose(jets.is_positive(x - y), jets.sin(x), y * y),
    2,
    broadcast,
)
add(
    "logaddexp",
    lambda T, x, y: T.logaddexp(x, y),
    lambda x, y: jets.log(jets.exp(x) + jets.exp(y)),
    2,
    broadcast,
)
add("lerp", lambda T, x, y, w: T.lerp(x, y, w), lambda x, y, w: x + w * (y - x), 3, same)
add(
    "addcmul",
    lambda T, x, y, z: T.addcmul(x, y, z, value=0.5),
    lambda x, y, z: x + y * z * 0.5,
    3,
    broadcast,
)
add(
    "clamp_tensors",
    lambda T, x, y, z: x.clamp(min=-y.abs(), max=z * z + 0.1),
    lambda x, y, z: jets.minimum(jets.maximum(x, -jets.maximum(y, -y)), z * z + 0.1),
    3,
    same,
)

# -- along dims ------------------------------------------------------------------------------------

add("sum", lambda T, x: x.sum(), lambda x: x.sum(), saves=False, keeps=False)
add("mean", lambda T, x: x.mean(), lambda x: x.mean(), saves=False, keeps=False)
for _name in ("sum", "mean"):
    add(
        f"{_name}_dim",
        lambda T, x, dim, keepdim, name=_name: getattr(x, name)(dim, keepdim),
        lambda x, dim, keepdim, name=_name: getattr(x, name)(dim, keepdim),
        draw=along_keep,
        saves=False,
        keeps=False,
    )
add("prod", lambda T, x, dim: x.prod(dim), jets.multiply_along, draw=along)
add("logsumexp", lambda T, x, dim: T.logsumexp(x, dim), jets.logsumexp, draw=along)
add("softmax", lambda T, x, dim: x.softmax(dim), jets.softmax, draw=along)
add(
    "log_softmax",
    lambda T, x, dim: T.log_softmax(x, dim),
    lambda x, dim: x - jets.logsumexp(x, dim, True),
    draw=along,
)
add(
    "var",
    lambda T, x, dim: x.var(dim),
    lambda x, dim: jets.variance(x, dim, 1),
    draw=along_wide,
)
add(
    "std",
    lambda T, x, dim: (x * 1.5).std(dim, correction=0),
    lambda x, dim: spread(jets.variance(x * 1.5, dim, 0)),
    draw=along_wide,
)
add(
    "norm",
    lambda T, x, dim: T.linalg.vector_norm(x, dim=dim),
    lambda x, dim: spread((x * x).sum(dim)),
    draw=along,
)


def spread(x: Jet) -> Jet:
    jets.away_from_zero(x.value)
    return jets.sqrt(x)


def largest(x: Jet, dim: int) -> Jet:
    by = np.take(jets.order_along(x, dim), [-1], axis=dim)
    return jets.take_along(x, by, dim).sum(dim)


add("amax", lambda T, x, dim: x.amax(dim), largest, draw=along)
add("max", lambda T, x, dim: x.max(dim).values, largest, draw=along)
add(
    "amin",
    lambda T, x, dim: T.amin(x, dim),
    lambda x, dim: -largest(-x, dim),
    draw=along,
    weight=0.5,
)
add(
    "sort",
    lambda T, x, dim: x.sort(dim)[0],
    lambda x, dim: jets.take_along(x, jets.order_along(x, dim), dim),
    draw=along,
)
add(
    "sort_by",
    lambda T, x, y, dim: y.gather(dim, x.argsort(dim)),
    lambda x, y, dim: jets.take_along(y, jets.order_along(x, dim), dim),
    2,
    lambda rng, x, y: along(rng, x) if x == y else None,
)


def running(x: Jet, dim: int, times: bool) -> Jet:
    found = []
    for i in range(x.shape[dim]):
        part = x.take(np.take(x.positions(), range(i + 1), axis=dim))
        found.append(jets.multiply_along(part, dim) if times else part.sum(dim))
    return jets.stack(found, dim % x.ndim)


add(
    "cumsum",
    lambda T, x, dim: x.cumsum(dim),
    lambda x, dim: running(x, dim, False),
    draw=along,
    saves=False,
    keeps=False,
)
add("cumprod", lambda T, x, dim: x.cumprod(dim), lambda x, dim: running(x, dim, True), draw=along)
add(
    "layer_norm",
    lambda T, x: T.nn.functional.layer_norm(x, x.shape[-1:], eps=0.01),
    lambda x: jets.layer_norm(x, 0.01),
    draw=at_least(1),
)
add(
    "layer_norm_affine",
    lambda T, x, w, b: T.nn.functional.layer_norm(x, x.shape[-1:], w, b, 0.01),
    lambda x, w, b: jets.layer_norm(x, 0.01) * w + b,
    3,
    lambda rng, x, w, b: {} if x and w == b == x[-1:] else None,
)

# -- matrices --------------------------------------------------------------------------------------


def multiply(x: Jet, y: Jet) -> Jet:
    one = x.reshape(1, *x.shape) if x.ndim == 1 else x
    two = y.reshape(*y.shape, 1) if y.ndim == 1 else y
    found = one @ two
    if x.ndim == 1:
        found = found.sum(-2)
    return found.sum(-1) if y.ndim == 1 else found


add("matmul", lambda T, x, y: x @ y, multiply, 2, products, weight=3)
add(
    "outer",
    lambda T, x, y: T.outer(x, y),
    lambda x, y: x.reshape(-1, 1) * y,
    2,
    lambda rng, x, y: {} if len(x) == len(y) == 1 else None,
)
add(
    "einsum",
    lambda T, x, y: T.einsum("ij,kj->ik", x, y),
    lambda x, y: x @ jets.transpose(y),
    2,
    lambda rng, x, y: {} if len(x) == len(y) == 2 and x[1] == y[1] else None,
)
add(
    "linear",
    lambda T, x, w, b: T.nn.functional.linear(x, w, b),
    lambda x, w, b: multiply(x, jets.transpose(w)) + b,
    3,
    lambda rng, x, w, b: affine(x, w, b),
    weight=8,
)


def regular(T: Any, a: Any) -> Any:
    return T.eye(a.shape[-1], dtype=T.float64) * 2.0 + a.tanh() * (1.0 / a.shape[-1])


def regular_jet(a: Jet) -> Jet:
    return jet(np.eye(a.shape[-1]) * 2.0) + jets.tanh(a) * (1.0 / a.shape[-1])


add(
    "solve",
    lambda T, a, b: T.linalg.solve(regular(T, a), b),
    lambda a, b: multiply(jets.inverse(regular_jet(a)), b),
    2,
    square_and_vector,
    weight=5,
)
add(
    "logdet", lambda T, a: T.logdet(regular(T, a)), lambda a: jets.logdet(regular_jet(a)), 1, square
)
add(
    "inverse",
    lambda T, a: regular(T, a).inverse(),
    lambda a: jets.inverse(regular_jet(a)),
    1,
    square,
)
add(
    "det",
    lambda T, a: T.linalg.det(regular(T, a)),
    lambda a: jets.exp(jets.logdet(regular_jet(a))),
    1,
    square,
)
add(
    "tril",
    lambda T, a: a.tril(),
    lambda a: a * np.tril(np.ones(a.shape)),
    draw=at_least(2),
    saves=False,
    keeps=False,
)

# -- views -----------------------------------------------------------------------------------------


def draw_select(rng: Any, shape: Shape) -> dict[str, Any] | None:
    found = along(rng, shape)
    return found and {**found, "at": int(rng.integers(shape[found["dim"]]))}


def draw_narrow(rng: Any, shape: Shape) -> dict[str, Any] | None:
    found = along_wide(rng, shape)
    if not found:
        return None
    start = int(rng.integers(shape[found["dim"]] - 1))
    return {
        **found,
        "start": start,
        "length": int(rng.integers(1, shape[found["dim"]] - start + 1)),
    }


VIEW = {"kind": "view", "saves": False, "keeps": False}
add(
    "select",
    lambda T, x, dim, at: x.select(dim, at),
    lambda i, dim, at: np.take(i, at, axis=dim),
    draw=draw_select,
    **VIEW,
)
add(
    "narrow",
    lambda T, x, dim, start, length: x.narrow(dim, start, length),
    lambda i, dim, start, length: np.take(i, range(start, start + length), axis=dim),
    draw=draw_narrow,
    **VIEW,
)
add("item", lambda T, x: x[0], lambda i: i[0], draw=at_least(1), **VIEW)
add("every_second", lambda T, x: x[..., ::2], lambda i: i[..., ::2], draw=at_least(1), **VIEW)
add(
    "transpose",
    lambda T, x: x.transpose(0, -1),
    lambda i: np.swapaxes(i, 0, -1),
    draw=at_least(2),
    **VIEW,
)
add("mT", lambda T, x: x.mT, lambda i: np.swapaxes(i, -1, -2), draw=at_least(2), **VIEW)
add(
    "unsqueeze",
    lambda T, x, dim: x.unsqueeze(dim),
    lambda i, dim: np.expand_dims(i, dim),
    draw=along,
    **VIEW,
)
add("view_as", lambda T, x: x.view_as(x), lambda i: i, **VIEW)
add(
    "flatten",
    lambda T, x: x.reshape(-1),
    lambda i: i.reshape(-1),
    draw=at_least(2),
    kind="reshape",
    saves=False,
)
add(
    "expand",
    lambda T, x: x.expand(2, *x.shape),
    lambda i: np.broadcast_to(i, (2, *i.shape)),
    kind="reshape",
    saves=False,
)
add("diagonal", lambda T, x: x.diagonal(), np.diagonal, draw=square, **VIEW)
add(
    "unbind",
    lambda T, x, dim: x.unbind(dim)[-1],
    lambda i, dim: np.take(i, -1, axis=dim),
    draw=along,
    kind="reshape",
    saves=False,
)
add(
    "chunk",
    lambda T, x, dim: x.chunk(2, dim)[0],
    lambda i, dim: np.array_split(i, 2, dim)[0],
    draw=along_wide,
    kind="reshape",
    saves=False,
)
add("detach", lambda T, x: x.detach(), lambda i: i, kind="detach", saves=False)

# -- joining and indexing --------------------------------------------------------------------------


def draw_join(rng: Any, one: Shape, two: Shape) -> dict[str, Any] | None:
    found = along(rng, one)
    if not found or len(two) != len(one):
        return None
    dim = found["dim"] % len(one)
    return found if one[:dim] + one[dim + 1 :] == two[:dim] + two[dim + 1 :] else None


def draw_stack(rng: Any, one: Shape, two: Shape) -> dict[str, Any] | None:
    return {"dim": int(rng.integers(-len(one) - 1, len(one) + 1))} if one == two else None


def draw_index(rng: Any, shape: Shape) -> dict[str, Any] | None:
    found = along(rng, shape)
    return found and {**found, "index": rng.integers(shape[found["dim"]], size=3)}


def draw_full_index(rng: Any, shape: Shape, *more: Shape) -> dict[str, Any] | None:
    """An index of the operand's shape; all operands have that shape."""
    found = along(rng, shape)
    if not found or any(one != shape for one in more):
        return None
    return {**found, "index": rng.integers(shape[found["dim"]], size=shape)}


def draw_permutation(rng: Any, shape: Shape, *more: Shape) -> dict[str, Any] | None:
    """An index that names no place twice."""
    found = along(rng, shape)
    if not found or any(one != shape for one in more):
        return None
    dim = found["dim"] % len(shape)
    order = np.argsort(rng.random(shape), axis=dim)
    return {**found, "index": order}


def draw_mask(rng: Any, shape: Shape, *more: Shape) -> dict[str, Any] | None:
    if any(one != shape for one in more):
        return None
    return {"mask": rng.random(shape) < 0.5}


JOIN = {"saves": False, "keeps": False}
add(
    "cat",
    lambda T, x, y, dim: T.cat([x, y], dim),
    lambda x, y, dim: jets.concatenate([x, y], dim),
    2,
    draw_join,
    **JOIN,
)
add(
    "stack",
    lambda T, x, y, dim: T.stack([x, y], dim),
    lambda x, y, dim: jets.stack([x, y], dim),
    2,
    draw_stack,
    **JOIN,
)
add(
    "flip",
    lambda T, x, dim: x.flip(dim),
    lambda x, dim: x.take(np.flip(x.positions(), dim)),
    draw=along,
    **JOIN,
)
add(
    "roll",
    lambda T, x, dim: x.roll(1, dim),
    lambda x, dim: x.take(np.roll(x.positions(), 1, dim)),
    draw=along,
    **JOIN,
)
add(
    "pad",
    lambda T, x: T.nn.functional.pad(x, (1, 0), value=0.3),
    lambda x: jets.concatenate([jet(np.full((*x.shape[:-1], 1), 0.3)), x], -1),
    draw=at_least(1),
    **JOIN,
)
add(
    "index_select",
    lambda T, x, dim, index: x.index_select(dim, integers(T, index)),
    lambda x, dim, index: x.take(np.take(x.positions(), index, axis=dim)),
    draw=draw_index,
    **JOIN,
)
add(
    "fancy",
    lambda T, x, dim, index: x.movedim(dim, 0)[integers(T, index)],
    lambda x, dim, index: x.take(np.moveaxis(x.positions(), dim, 0)[index]),
    draw=draw_index,
    **JOIN,
)
add(
    "gather",
    lambda T, x, dim, index: x.gather(dim, integers(T, index)),
    lambda x, dim, index: jets.take_along(x, index, dim),
    draw=draw_full_index,
)


def scattered(x: Jet, src: Jet, dim: int, index: np.ndarray, adds: bool) -> Jet:
    """Each place of the index has a matrix of zeros and ones, so that the sum is linear."""
    onto = np.zeros((x.positions().size, x.positions().size))
    target = x.positions()
    grid = list(np.indices(x.shape))
    grid[dim] = index
    onto[target[tuple(grid)].reshape(-1), np.arange(onto.shape[1])] = 1
    moved = (jet(onto) @ src.reshape(-1, 1)).reshape(*x.shape)
    if adds:
        return x + moved
    return jets.choose(onto.sum(1).reshape(x.shape) > 0, moved, x)


add(
    "scatter",
    lambda T, x, y, dim, index: x.scatter(dim, integers(T, index), y),
    lambda x, y, dim, index: scattered(x, y, dim, index, False),
    2,
    draw_permutation,
    **JOIN,
)
# What `add` is told of adding at an index, after the call.
SCATTER_ADD: Any = (
    lambda x, y, dim, index: scattered(x, y, dim, index, True), 2, draw_full_index,
)  # fmt: skip
add(
    "scatter_add",
    lambda T, x, y, dim, index: x.scatter_add(dim, integers(T, index), y),
    *SCATTER_ADD,
    **JOIN,
)
add(
    "index_add",
    lambda T, x, y, index: x.index_add(0, integers(T, index), y, alpha=2),
    lambda x, y, index: scattered(
        x, y * 2.0, 0, np.broadcast_to(index.reshape(-1, *(1,) * (x.ndim - 1)), x.shape), True
    ),
    2,
    lambda rng, x, y: {"index": rng.integers(x[0], size=x[0])} if x and x == y else None,
    **JOIN,
)
add(
    "masked_fill",
    lambda T, x, mask: x.masked_fill(truths(T, mask), 0.7),
    lambda x, mask: jets.choose(mask, 0.7, x),
    draw=draw_mask,
    **JOIN,
)
add(
    "masked_fill_computed",
    lambda T, x: x.masked_fill(x > 0.1, 0.7) * x,
    lambda x: jets.choose(jets.is_positive(x - 0.1), 0.7, x) * x,
)
add(
    "where_constant",
    lambda T, x, y, mask: T.where(truths(T, mask), x, y),
    lambda x, y, mask: jets.choose(mask, x, y),
    2,
    draw_mask,
    **JOIN,
)
add(
    "embedding",
    lambda T, w, index: T.nn.functional.embedding(integers(T, index), w),
    lambda w, index: w.take(w.positions()[index]),
    draw=lambda rng, w: {"index": rng.integers(w[0], size=2)} if len(w) == 2 else None,
    **JOIN,
)
add(
    "cross_entropy",
    lambda T, x, target: T.nn.functional.cross_entropy(x, integers(T, target)),
    lambda x, target: (
        jets.logsumexp(x, 1) - x.take(x.positions()[np.arange(len(target)), target])
    ).mean(),
    draw=lambda rng, x: {"target": rng.integers(x[1], size=x[0])} if len(x) == 2 else None,
)
add(
    "mse_loss",
    lambda T, x, y: T.nn.functional.mse_loss(x, y),
    lambda x, y: ((x - y) * (x - y)).mean(),
    2,
    same,
)

# -- factories and writes --------------------------------------------------------------------------

FACTORY = {"kind": "factory", "saves": False, "keeps": False, "weight": 2}
add(
    "zeros",
    lambda T, x: T.zeros(x.shape, dtype=T.float64),
    lambda x: jet(np.zeros(x.shape)),
    **FACTORY,
)
add("new_zeros", lambda T, x: x.new_zeros(x.shape), lambda x: jet(np.zeros(x.shape)), **FACTORY)
add("zeros_like", lambda T, x: T.zeros_like(x), lambda x: jet(np.zeros(x.shape)), **FACTORY)
add(
    "full",
    lambda T, x: T.full(x.shape, 0.4, dtype=T.float64),
    lambda x: jet(np.full(x.shape, 0.4)),
    **FACTORY,
)
add("ones_like", lambda T, x: T.ones_like(x), lambda x: jet(np.ones(x.shape)), **FACTORY)


def onto(rng: Any, *shapes: Shape) -> dict[str, Any] | None:
    """The others broadcast to the first."""
    if broadcast(rng, *shapes) is None:
        return None
    return {} if np.broadcast_shapes(*shapes) == shapes[0] else None


def assign(T: Any, x: Any, y: Any) -> Any:
    x[:] = y
    return x


def assign_part(T: Any, x: Any, y: Any) -> Any:
    x[0] = y
    return x


def assign_part_jet(x: Jet, y: Jet) -> Jet:
    first = y.expand(x.shape[1:]).reshape(1, *x.shape[1:])
    return jets.concatenate([first, x.take(x.positions()[1:])], 0)


WRITE = {"kind": "write", "saves": False, "keeps": False, "weight": 6}
add("add_", lambda T, x, y: x.add_(y), lambda x, y: x + y, 2, onto, **WRITE)
add("sub_", lambda T, x, y: x.sub_(y, alpha=2), lambda x, y: x - y * 2.0, 2, onto, **WRITE)
add("copy_", lambda T, x, y: x.copy_(y), lambda x, y: y.expand(x.shape), 2, onto, **WRITE)
add(
    "assign",
    assign,
    lambda x, y: y.expand(x.shape),
    2,
    lambda rng, x, y: onto(rng, x, y) if x else None,
    **WRITE,
)
add(
    "assign_part",
    assign_part,
    assign_part_jet,
    2,
    lambda rng, x, y: onto(rng, x[1:], y) if x else None,
    **WRITE,
)
add("zero_", lambda T, x: x.zero_(), lambda x: x * 0.0, **WRITE)
add("fill_", lambda T, x: x.fill_(0.6), lambda x: jet(np.full(x.shape, 0.6)), **WRITE)
add("scale_", lambda T, x: x.mul_(1.5), lambda x: x * 1.5, **WRITE)
SAVING = {**WRITE, "saves": True}
add("mul_", lambda T, x, y: x.mul_(y), lambda x, y: x * y, 2, onto, **SAVING)
add("addcmul_", lambda T, x, y, z: x.addcmul_(y, z), lambda x, y, z: x + y * z, 3, onto, **SAVING)
add("div_", lambda T, x, y: x.div_(y * y + 1.0), lambda x, y: x / (y * y + 1.0), 2, onto, **SAVING)
add("sin_", lambda T, x: x.sin_(), jets.sin, **SAVING)
add("tanh_", lambda T, x: x.tanh_(), jets.tanh, **{**SAVING, "keeps": True})
add("relu_", lambda T, x: x.relu_(), lambda x: jets.maximum(x, 0.0), **{**SAVING, "keeps": True})
add("clamp_", lambda T, x: x.clamp_(min=-0.3), lambda x: jets.maximum(x, -0.3), **SAVING)
add(
    "masked_fill_",
    lambda T, x, mask: x.masked_fill_(truths(T, mask), 0.2),
    lambda x, mask: jets.choose(mask, 0.2, x),
    draw=draw_mask,
    **WRITE,
)
add(
    "scatter_add_",
    lambda T, x, y, dim, index: x.scatter_add_(dim, integers(T, index), y),
    *SCATTER_ADD,
    **WRITE,
)
add(
    "index_put_",
    lambda T, x, y, index: x.index_put_((integers(T, index),), y, accumulate=True),
    lambda x, y, index: scattered(
        x, y, 0, np.broadcast_to(index.reshape(-1, *(1,) * (x.ndim - 1)), x.shape), True
    ),
    2,
    lambda rng, x, y: {"index": rng.integers(x[0], size=x[0])} if x and x == y else None,
    **WRITE,
)

# -- the end of a program --------------------------------------------------------------------------


def collect(T: Any, last: Any, *others: Any) -> Any:
    """The last register and what else was computed, so that all of it has derivatives."""
    return (last + 1.0) * sum(((one * one).sum() * 0.2 for one in others), 1.0)


def collect_jet(last: Jet, *others: Jet) -> Jet:
    return (last + 1.0) * sum(((one * one).sum() * 0.2 for one in others), jet(1.0))


add("collect", collect, collect_jet, weight=0.0)

# -- modules and custom Functions ------------------------------------------------------------------


WIDEST = 6


@functools.cache
def modules(T: Any) -> dict[str, Any]:
    made: dict[Any, Any] = {}
    for wide in range(1, WIDEST + 1):
        for tall in range(1, WIDEST + 1):
            block = T.nn.Sequential(T.nn.Linear(wide, tall, dtype=T.float64), T.nn.Tanh())
            made[wide, tall] = block
    return made


def call_module(T: Any, x: Any, w: Any, b: Any) -> Any:
    block = modules(T)[w.shape[1], w.shape[0]]
    return T.func.functional_call(block, {"0.weight": w, "0.bias": b}, (x,))


add(
    "module",
    call_module,
    lambda x, w, b: jets.tanh(multiply(x, jets.transpose(w)) + b),
    3,
    lambda rng, x, w, b: affine(x, w, b) if max(w, default=0) <= WIDEST else None,
    weight=8,
)


def call(name: str) -> Any:
    return lambda T, *args: functions(T)[name].apply(*args)


def use_pair(T: Any, x: Any, y: Any) -> Any:
    one, two = functions(T)["Pair"].apply(x, y)
    return one + two


add("Sine", call("Sine"), jets.sin)
add("Product", call("Product"), lambda x, y: x * y, 2, same)
add("Exponential", call("Exponential"), jets.exp, weight=0.3)
add("Doubled", call("Doubled"), lambda x: x + x.nilpotent())
add("Pair", use_pair, lambda x, y: x * y + jets.cos(x), 2, same)
add("Inner", call("Inner"), jets.cos)
