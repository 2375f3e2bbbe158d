"""Scaled dot product attention: the op that chooses a form, and the forms.

The flash form walks over blocks of queries, so that no more than a block of scores exists at a
time, and keeps one number per query (the logarithm of its sum of exponentials) from which the
gradient finds the weights again. The math form is written over other ops. A query that may attend
to nothing gets zeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays.precision import cast, dtype_of, working
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.op import Tag
from rushlight.core.state import LOCAL
from rushlight.core.tensor import strides_of
from rushlight.opset.heavy import heavy_kernels
from rushlight.opset.kinds import CONTRACTION, OPAQUE, Spec
from rushlight.opset.registry import composite, find, op
from rushlight.opset.rules import aten, not_differentiable, sample

MATH, FLASH = 0, 1
# Whether a form may be chosen, by the number of its backend; `nn.attention` sets it.
ENABLED = {MATH: True, FLASH: True}
FLOATS = (dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.float16)
# Scores that may exist at a time in the flash form.
BLOCK = 1 << 21

# -- softmax of rows that may be masked out -------------------------------------------------------

safe_softmax = op(
    "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    batch="along",
    kind=OPAQUE,
    method=False,
    out=False,
    vjp=lambda grad, result, dim, self_dtype: aten._softmax_backward_data(
        grad, result, dim, self_dtype
    ),
)


@safe_softmax.shape
def _(self: Any, dim: int, dtype: Any) -> Any:
    geometry.wrap_dim(dim, self.dim())
    return Spec(self.shape, self._dtype if dtype is None else dtype)


@safe_softmax.kernel
def _(xp: Any, self: Any, dim: int, dtype: Any) -> Any:
    values = self if dtype is None else cast(self, dtype)
    result: Any = find("_softmax").rules["kernel"](xp, values, dim, False)
    if not self.size or dtypes.from_numpy(self.dtype).category != dtypes.FLOAT:
        return result
    wide = cast(self, working(dtypes.from_numpy(self.dtype)))
    empty = xp.all(xp.isneginf(wide), axis=dim if self.ndim else None, keepdims=True)
    return xp.where(empty, xp.zeros((), result.dtype), result) if empty.any() else result


@safe_softmax.samples
def _(make: Any) -> Any:
    yield make(3, 4), -1
    yield make.strided(2, 3, 2), 1
    yield make.special(3, 4), 1
    if make.dtype.category == dtypes.FLOAT:
        yield make(2, 3).fill_(-math.inf), -1
        yield make(), 0


# -- flash form: arrays ---------------------------------------------------------------------------


def scale_of(query: Any, scale: float | None) -> Any:
    if scale is not None:
        return scale
    size = query.shape[-1]
    if not isinstance(size, int):
        return size**-0.5
    return 1.0 / math.sqrt(size) if size else math.inf


class Blocks:
    """Operands of the flash form as (batch, key head, query head of it, row, column) arrays."""

    def __init__(
        self, query: Any, key: Any, value: Any, is_causal: bool, mask: Any, scale: float | None
    ) -> None:
        self.work = working(dtypes.from_numpy(query.dtype)).np
        batch, heads, self.rows = query.shape[:3]
        self.columns = key.shape[2]
        self.shape = (batch, key.shape[1], heads // max(key.shape[1], 1), self.rows)
        self.scale = self.work.type(scale_of(query, scale))
        self.query = self.grouped(query)
        self.key = key.astype(self.work, copy=False)[:, :, None]
        self.value = value.astype(self.work, copy=False)[:, :, None]
        self.is_causal = is_causal
        self.mask = mask
        if mask is not None:
            wide = mask.astype(self.work, copy=False)
            wide = wide.reshape((1,) * (4 - wide.ndim) + wide.shape)
            self.mask = self.grouped(wide) if wide.shape[1] == heads else wide[:, :, None]
            tail = (self.rows, self.columns)
            self.mask = np.broadcast_to(self.mask, (*self.mask.shape[:3], *tail))

    def grouped(self, array: Any) -> Any:
        """An array with a row of heads as one with heads by key head."""
        tail = array.shape[2:]
        wide = array.astype(self.work, copy=False)
        return wide.reshape(array.shape[0], *self.shape[1:3], *tail)

    def steps(self) -> Any:
        """(first row, last row, number of keys) of each block."""
        together = max(math.prod(self.shape[:3]) * self.columns, 1)
        size = max(BLOCK // together, 16)
        for start in range(0, self.rows, size):
            stop = min(start + size, self.rows)
            yield start, stop, min(stop, self.columns) if self.is_causal else self.columns

    def scores(self, start: int, stop: int, keys: int) -> Any:
        rows = self.query[..., start:stop, :] * self.scale
        found = np.matmul(rows, np.swapaxes(self.key[..., :keys, :], -1, -2))
        if self.mask is not None:
            found += self.mask[..., start:stop, :keys]
        if self.is_causal:
            # Keys before the block's first row are seen by all of its rows.
            late = ~np.tri(stop - start, max(keys - start, 0), dtype=np.bool_)
            np.copyto(found[..., start:], -np.inf, where=late)
        return found


flash = op(
    "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
    "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> "
    "(Tensor output, Tensor logsumexp)",
    kind=CONTRACTION,
    method=False,
    out=False,
    layout="shape",
    differentiable=["query", "key", "value"],
    non_differentiable=(1,),
)


def check_flash(query: Any, key: Any, value: Any, dropout_p: float, mask: Any) -> None:
    dtype = dtype_of(query)
    name = "scaled_dot_product_attention_flash_attention: "
    if dtype not in FLOATS:
        raise RuntimeError(
            f"{name}Expected data type in FP32, FP64, BF16, FP16, but got "
            f"{dtype.scalar_type_name} instead."
        )
    if any(len(t.shape) != 4 for t in (query, key, value)):
        raise RuntimeError(f"{name}Accept only 4 dims inputs shape of {{B, H, T, K}}")
    if dropout_p != 0.0:
        raise RuntimeError(f"{name}Currently do not support dropout > 0")
    if query.shape[3] != value.shape[3] or key.shape[3] != value.shape[3]:
        raise RuntimeError(f"{name}Q/K/V should have the same head size")
    if any(dtype_of(t) is not dtype for t in (key, value)):
        raise RuntimeError(f"{name}Q/K/V should have the same data type")
    if mask is not None and dtype_of(mask) not in (dtype, dtypes.float32):
        raise RuntimeError(f"{name}Attention mask is the same data type as query")
    if mask is not None and len(mask.shape) not in (2, 4):
        raise RuntimeError(f"{name}Attention mask dim in {{2, 4}}")
    if (
        key.shape[0] != query.shape[0]
        or not geometry.same_sizes(value.shape[:3], key.shape[:3])
        or not divides(query, key)
    ):
        raise RuntimeError(
            f"{name}key and value should have the batch size of the query, the same sizes, and a "
            f"number of heads that divides the query's, but got query "
            f"{geometry.show(query.shape)}, key {geometry.show(key.shape)} and value "
            f"{geometry.show(value.shape)}"
        )
    if mask is not None and not mask_fits(query, key, mask):
        raise RuntimeError(
            f"{name}attn_mask of size {geometry.show(mask.shape)} does not broadcast to "
            f"{geometry.show((*query.shape[:3], key.shape[2]))}"
        )


def divides(query: Any, key: Any) -> bool:
    """Whether every key head serves the same number of query heads."""
    heads = key.shape[1]
    if geometry.decided(query.shape[1] == heads):
        return True
    return not geometry.is_size(heads, 0) and geometry.required(query.shape[1] % heads == 0)


def mask_fits(query: Any, key: Any, mask: Any) -> bool:
    wanted = (*query.shape[:3], key.shape[2])[-len(mask.shape) :]
    return all(
        [
            geometry.is_size(m, 1) or geometry.decided(m == n)
            for m, n in zip(mask.shape, wanted, strict=True)
        ]
    )


@flash.shape
def _(
    query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, attn_mask: Any, scale: Any
) -> Any:
    check_flash(query, key, value, dropout_p, attn_mask)
    batch, heads, rows, _ = query.shape
    wide = dtypes.float32 if query._dtype.itemsize == 2 else query._dtype
    strides = geometry.like_strides(query.shape, strides_of(query))
    return (
        Spec(query.shape, query._dtype, strides),
        Spec((batch, heads, rows), wide, by_row((batch, heads, rows))),
    )


def native_kernels(query: Any, key: Any, *others: Any) -> Any:
    """The native kernels, for as many scores as there are; None where NumPy is to compute them."""
    if not query.size or not key.size:
        return None
    given = [other for other in others if other is not None]
    return heavy_kernels(query.size * key.shape[2], query, key, *given)


def by_row(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Strides of (batch, head, row, ...) in memory that goes by row before it goes by head."""
    _, heads, rows, *rest = shape
    size = geometry.numel(tuple(rest))
    inner = geometry.contiguous_strides(tuple(rest))
    return (rows * heads * size, size, heads * size, *inner)


@flash.kernel
def _(
    xp: Any, query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, attn_mask: Any,
    scale: Any,
) -> Any:  # fmt: skip
    check_flash(query, key, value, dropout_p, attn_mask)
    kernels = native_kernels(query, key, value, attn_mask)
    if kernels is not None:
        factor = scale_of(query, scale)
        return kernels.attention(query, key, value, attn_mask, factor, is_causal)
    blocks = Blocks(query, key, value, is_causal, attn_mask, scale)
    output = xp.empty((*blocks.shape, query.shape[3]), blocks.work)
    logsumexp = xp.empty(blocks.shape, blocks.work)
    for start, stop, keys in blocks.steps():
        weights = blocks.scores(start, stop, keys)
        top = weights.max(axis=-1, keepdims=True, initial=-np.inf)
        top[xp.isneginf(top)] = 0
        weights -= top
        xp.exp(weights, weights)
        total = weights.sum(axis=-1, keepdims=True)
        total[total == 0] = 1
        part = xp.matmul(weights, blocks.value[..., :keys, :])
        part /= total
        output[..., start:stop, :] = part
        logsumexp[..., start:stop] = (xp.log(total) + top)[..., 0]
    shape = query.shape
    return output.reshape(shape).astype(query.dtype, copy=False), logsumexp.reshape(shape[:3])


@flash.vjp
def _(
    grad: Any, query: Any, key: Any, value: Any, output: Any, logsumexp: Any, dropout_p: Any,
    is_causal: Any, attn_mask: Any, scale: Any, needs: Any,
) -> Any:  # fmt: skip
    if LOCAL.state.follows_gradients():
        return by_ops(grad, query, key, value, is_causal, attn_mask, scale)
    return flash_backward(
        grad, query, key, value, output, logsumexp, dropout_p, is_causal, attn_mask=attn_mask,
        scale=scale,
    )  # fmt: skip


def weights_of(query: Any, keys: Any, is_causal: bool, mask: Any, factor: Any) -> Any:
    scores = (query * factor).matmul(keys.transpose(-2, -1))
    if mask is not None:
        scores = scores + mask.to(query._dtype)
    if is_causal:
        scores = scores + causal_mask(query, keys)
    return aten._safe_softmax(scores, -1)


def by_ops(
    grad: Any, query: Any, key: Any, value: Any, is_causal: bool, mask: Any, scale: Any
) -> Any:
    """The gradients over ops that have derivatives themselves."""
    factor = scale_of(query, scale)
    heads = key.shape[1]
    group = query.shape[1] // heads
    keys, values = repeated(query, key), repeated(query, value)
    weights = weights_of(query, keys, is_causal, mask, factor)
    slope = grad.matmul(values.transpose(-2, -1))
    slope = weights * (slope - (slope * weights).sum(-1, True)) * factor
    for_key = slope.transpose(-2, -1).matmul(query)
    for_value = weights.transpose(-2, -1).matmul(grad)
    if group != 1:
        for_key, for_value = (
            part.unflatten(1, (heads, group)).sum(2) for part in (for_key, for_value)
        )
    return slope.matmul(keys), for_key, for_value


@flash.jvp
def _(
    query_t: Any, key_t: Any, value_t: Any, query: Any, key: Any, value: Any, is_causal: bool,
    attn_mask: Any, scale: Any,
) -> Any:  # fmt: skip
    factor = scale_of(query, scale)
    keys, values = repeated(query, key), repeated(query, value)
    weights = weights_of(query, keys, is_causal, attn_mask, factor)
    scores: Any = None
    if query_t is not None:
        scores = query_t.matmul(keys.transpose(-2, -1)) * factor
    if key_t is not None:
        part = query.matmul(repeated(query, key_t).transpose(-2, -1)) * factor
        scores = part if scores is None else scores + part
    if scores is None:
        return weights.matmul(repeated(query, value_t)), None
    level = (weights * scores).sum(-1, True)
    tangent = (weights * (scores - level)).matmul(values)
    if value_t is not None:
        tangent = tangent + weights.matmul(repeated(query, value_t))
    return tangent, None


def flash_samples(make: Any) -> Any:
    if make.dtype not in FLOATS:
        return
    yield make(1, 2, 3, 2), make(1, 2, 4, 2), make(1, 2, 4, 2)
    yield make(2, 1, 3, 2), make(2, 1, 3, 2), make(2, 1, 3, 2), 0.0, True
    yield sample(
        make(1, 2, 3, 2), make(1, 2, 2, 2), make(1, 2, 2, 2), attn_mask=make(3, 2), scale=0.7
    )
    yield sample(
        make(1, 2, 2, 2), make(1, 2, 3, 2), make(1, 2, 3, 2), 0.0, True, attn_mask=make(1, 1, 2, 3)
    )
    yield make(1, 3, 2, 2).transpose(1, 2), make(1, 2, 3, 2), make(1, 3, 2, 2).transpose(1, 2)


flash.samples = flash_samples
flash.errors = lambda make: [
    (RuntimeError, (make(2, 3, 2), make(2, 3, 2), make(2, 3, 2))),
    (RuntimeError, (make(1, 2, 3, 2), make(1, 2, 3, 2), make(1, 2, 3, 3))),
    (RuntimeError, (make(1, 2, 3, 2), make(1, 2, 3, 2), make(1, 2, 3, 2), 0.5)),
    (RuntimeError, (make.ints(1, 2, 3, 2), make.ints(1, 2, 3, 2), make.ints(1, 2, 3, 2))),
]

flash_backward = op(
    "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, "
    "Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
    "Tensor? attn_mask=None, float? scale=None) -> "
    "(Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    kind=CONTRACTION,
    method=False,
    out=False,
    layout="shape",
    vjp=not_differentiable("aten::_scaled_dot_product_flash_attention_for_cpu_backward"),
    differentiable=["grad_out", "query", "key", "value", "out", "logsumexp"],
)


@flash_backward.shape
def _(
    grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, dropout_p: float,
    is_causal: bool, attn_mask: Any, scale: Any,
) -> Any:  # fmt: skip
    check_flash(query, key, value, dropout_p, attn_mask)
    return tuple([Spec(t.shape, t._dtype, by_row(t.shape)) for t in (query, key, value)])


@flash_backward.kernel
def _(
    xp: Any, grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any,
    dropout_p: float, is_causal: bool, attn_mask: Any, scale: Any,
) -> Any:  # fmt: skip
    kernels = native_kernels(query, key, value, attn_mask, grad_out, out)
    if kernels is not None:
        factor = scale_of(query, scale)
        operands = grad_out, query, key, value, out, logsumexp, attn_mask
        return kernels.attention_backward(*operands, factor, is_causal)
    blocks = Blocks(query, key, value, is_causal, attn_mask, scale)
    grad = blocks.grouped(grad_out)
    level = blocks.grouped(logsumexp)[..., None]
    share = (grad * blocks.grouped(out)).sum(axis=-1, keepdims=True)
    for_query = xp.empty_like(blocks.query, order="C")
    for_key = xp.zeros(key.shape, blocks.work)
    for_value = xp.zeros(value.shape, blocks.work)
    for start, stop, keys in blocks.steps():
        weights = blocks.scores(start, stop, keys)
        weights -= level[..., start:stop, :]
        xp.exp(weights, weights)
        part = grad[..., start:stop, :]
        turned = xp.swapaxes(weights, -1, -2)
        for_value[..., :keys, :] += xp.matmul(turned, part).sum(axis=2)
        slope = xp.matmul(part, xp.swapaxes(blocks.value[..., :keys, :], -1, -2))
        slope -= share[..., start:stop, :]
        slope *= weights
        slope *= blocks.scale
        for_query[..., start:stop, :] = xp.matmul(slope, blocks.key[..., :keys, :])
        rows = blocks.query[..., start:stop, :]
        for_key[..., :keys, :] += xp.matmul(xp.swapaxes(slope, -1, -2), rows).sum(axis=2)
    found = (for_query.reshape(query.shape), for_key, for_value)
    return tuple([part.astype(query.dtype, copy=False) for part in found])


@flash_backward.samples
def _(make: Any) -> Any:
    for case in flash_samples(make):
        args = case.args if not isinstance(case, tuple) else case
        options = {} if isinstance(case, tuple) else case.kwargs
        query, key, value, *rest = args
        output, logsumexp = flash(query, key, value, *rest, **options)
        rest = rest or [0.0, False]
        grad = make(*query.shape)
        yield sample(grad, query, key, value, output, logsumexp, *rest, **options)


def fold_samples(level: Any, op: Any, *args: Any) -> Any:
    """Every sample of a vmap at once: samples become part of the batch."""
    count = 3 if op is flash else 6
    mask = args[-2]
    # A mask that is the same for the whole batch serves all samples as it is.
    varies = level.has_batched((mask,)) or (
        mask is not None and mask.dim() == 4 and mask.shape[0] != 1
    )
    if varies and mask.dim() not in (2, 4):
        return level.loop(op, args)
    operands = [level.full(operand) for operand in args[:count]]
    sizes = operands[0].shape[:2]
    every_mask = level.full(mask, 4) if varies else mask

    def every() -> Any:
        own = every_mask
        if varies:
            own = own.expand((*sizes, *own.shape[2:])).flatten(0, 1)
        rest = (*args[count:-2], own, args[-1])
        found = call(op, (*[each.flatten(0, 1) for each in operands], *rest))
        return tuple([part.unflatten(0, sizes) for part in found])

    return level.wrap(level.run(every))


flash.batch = flash_backward.batch = fold_samples

# -- math form ------------------------------------------------------------------------------------


def times(tensor: Any, factor: Any) -> Any:
    return find("mul", "Scalar")(tensor, factor)


def repeated(query: Any, tensor: Any) -> Any:
    """Key or value heads repeated, so that every query head has one."""
    group = query.shape[-3] // tensor.shape[-3]
    if geometry.decided(group == 1):
        return tensor
    return tensor.repeat_interleave(group, -3)


def additive(mask: Any, query: Any) -> Any:
    """What a mask adds to scores: nothing where it is true, -inf where it is false."""
    kinds = {"dtype": query._dtype, "device": query.device}
    return aten.where(
        mask, aten.scalar_tensor(0.0, **kinds), aten.scalar_tensor(-math.inf, **kinds)
    )


def causal_mask(query: Any, key: Any) -> Any:
    shape = (query.shape[-2], key.shape[-2])
    lower = aten.ones(shape, dtype=dtypes.bool_, device=query.device).tril()
    return additive(lower, query)


@composite(
    "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, "
    "Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
    method=False,
    out=False,
)
def by_math(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool,
    dropout_mask: Any, scale: Any, enable_gqa: bool,
) -> Any:  # fmt: skip
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )
    dtype = query._dtype
    if dtype.itemsize == 2:
        query, key, value = (t.to(dtypes.float32) for t in (query, key, value))
    whole = scale_of(query, scale)
    # Half of the scale on either side keeps scores in range; a negative one would have no root.
    half = math.sqrt(abs(whole)) if isinstance(whole, float | int) else whole**0.5
    source = times(query, -half if isinstance(whole, float | int) and whole < 0 else half)
    if is_causal:
        attn_mask = causal_mask(query, key)
    if enable_gqa:
        check_groups(query, key, value)
        key, value = repeated(query, key), repeated(query, value)
    weights = source.matmul(times(key.transpose(-2, -1), half))
    if attn_mask is not None:
        weights = weights + attn_mask
    weights = aten._safe_softmax(weights, -1)
    if dropout_p > 0.0:
        if dropout_mask is not None:
            kept = weights.masked_fill(dropout_mask.logical_not(), 0.0)
            output = kept.matmul(value * (1.0 / (1.0 - dropout_p)))
            return output.to(dtype), weights.to(dtype)
        weights = aten.dropout(weights, dropout_p, True)
    shown = weights.to(dtype)
    return weights.matmul(value).to(dtype), shown


def check_groups(query: Any, key: Any, value: Any) -> None:
    if any(not divides_heads(query.shape[-3], t.shape[-3]) for t in (key, value)):
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")


def divides_heads(heads: Any, fewer: Any) -> bool:
    return bool(fewer != 0 and heads % fewer == 0)


@by_math.samples
def _(make: Any) -> Any:
    if make.dtype not in FLOATS:
        return
    yield make(2, 3, 2), make(2, 4, 2), make(2, 4, 3)
    yield sample(make(3, 2), make(3, 2), make(3, 2), is_causal=True)
    yield sample(make(1, 2, 3, 2), make(1, 1, 2, 2), make(1, 1, 2, 2), enable_gqa=True, scale=0.5)
    yield make(2, 3, 2), make(2, 2, 2), make(2, 2, 2), make.mask(3, 2)


# -- the choice -----------------------------------------------------------------------------------


def check_operands(query: Any, key: Any, value: Any, mask: Any) -> None:
    if any(t._dtype is not query._dtype for t in (key, value)):
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query._dtype.cpp_name} key.dtype: {key._dtype.cpp_name} and value.dtype: "
            f"{value._dtype.cpp_name} instead."
        )
    if any(t.device != query.device for t in (key, value)):
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query.device} key.device: {key.device} and value.device: {value.device} instead."
        )
    if any(t.dim() < 2 for t in (query, key, value)):
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()} key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if mask is None:
        return
    if mask._dtype not in (dtypes.bool_, dtypes.float32, query._dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {mask._dtype.cpp_name} and  query.dtype: "
            f"{query._dtype.cpp_name} instead."
        )
    if mask.dim() < 2:
        geometry.wrap_dim(-2, mask.dim())


def takes_flash(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, gqa: bool) -> bool:
    """Whether the flash form can do it."""
    return bool(
        query._dtype in FLOATS
        and dropout_p == 0.0
        and LOCAL.state.forward_level < 0
        and all([t.dim() == 4 for t in (query, key, value)])
        and query.shape[0] == key.shape[0] == value.shape[0]
        and geometry.same_sizes(key.shape[1:3], value.shape[1:3])
        and (divides(query, key) if gqa else query.shape[1] == key.shape[1])
        and query.shape[3] == key.shape[3] == value.shape[3]
        and all([strides_of(t)[3] == 1 for t in (query, key, value)])
        and (mask is None or fits_flash(query, key, mask))
    )


def fits_flash(query: Any, key: Any, mask: Any) -> bool:
    return bool(
        not mask.requires_grad
        and mask._dtype in (dtypes.bool_, dtypes.float32, query._dtype)
        and mask.dim() in (2, 4)
        and mask_fits(query, key, mask)
    )


def chosen(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, gqa: bool) -> int:
    """The number of the form to use."""
    if ENABLED[FLASH] and takes_flash(query, key, value, mask, dropout_p, gqa):
        return FLASH
    if not ENABLED[MATH]:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to "
            "turning off both the math kernel and the fused kernels."
        )
    return MATH


@composite(
    "_fused_sdp_choice(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> int",
    method=False,
    out=False,
)
def choice(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Any,
    enable_gqa: bool,
) -> Any:  # fmt: skip
    check_operands(query, key, value, attn_mask)
    return chosen(query, key, value, attn_mask, dropout_p, enable_gqa)


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, "
    "bool enable_gqa=False) -> Tensor",
    functional=True,
    autocast="lower",
    method=False,
    function=None,
    out=False,
    tags=(Tag.nondeterministic_seeded,),
)
def attention(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Any,
    enable_gqa: bool,
) -> Any:  # fmt: skip
    check_operands(query, key, value, attn_mask)
    if any(geometry.is_size(size, 0) for t in (query, key, value) for size in t.shape[:-1]):
        zeros = aten.zeros(
            (*query.shape[:-1], value.shape[-1]), dtype=query._dtype, device=query.device
        )
        # torch: the operands stay part of the graph.
        return zeros + times(query.sum() + key.sum() + value.sum(), 0)
    form = chosen(query, key, value, attn_mask, dropout_p, enable_gqa)
    if attn_mask is not None and attn_mask._dtype is dtypes.bool_:
        attn_mask = additive(attn_mask, query)
    if form == FLASH:
        return aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )[0]
    return aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale,
        enable_gqa=enable_gqa,
    )[0]  # fmt: skip


def attention_samples(make: Any) -> Any:
    if make.dtype not in FLOATS:
        return
    yield make(1, 2, 3, 2), make(1, 2, 4, 2), make(1, 2, 4, 2)
    yield sample(make(1, 2, 3, 2), make(1, 2, 3, 2), make(1, 2, 3, 2), is_causal=True)
    yield sample(make(1, 4, 3, 2), make(1, 2, 2, 2), make(1, 2, 2, 2), enable_gqa=True)
    yield make(1, 2, 3, 2), make(1, 2, 2, 2), make(1, 2, 2, 2), make.mask(3, 2)
    yield sample(make(2, 3, 2), make(2, 3, 2), make(2, 3, 2), is_causal=True, scale=1.5)
    yield make(3, 2), make(4, 2), make(4, 3), make(3, 4)
    yield make.strided(1, 2, 3, 2), make(1, 2, 3, 2), make(1, 2, 3, 2)
    yield make(2, 0, 3), make(2, 2, 3), make(2, 2, 3)


attention.samples = attention_samples
attention.errors = lambda make: [
    (RuntimeError, (make(3), make(3), make(3))),
    (RuntimeError, (make(2, 3), make(2, 3, dtype=dtypes.float64), make(2, 3))),
    (RuntimeError, (make(2, 3), make(2, 3), make(2, 3), make.ints(2, 2))),
    (RuntimeError, (make(2, 3), make(2, 3), make(2, 3), None, 1.5)),
    (RuntimeError, (make(2, 3), make(2, 3), make(2, 3), make(2, 2), 0.0, True)),
    (RuntimeError, (make(2, 3), make(2, 4), make(2, 3))),
]
choice.samples = lambda make: (
    [(make(1, 2, 3, 2), make(1, 2, 4, 2), make(1, 2, 4, 2))] if make.dtype in FLOATS else []
)
