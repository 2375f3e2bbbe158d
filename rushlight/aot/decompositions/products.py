"""Products, and attention, as programs over core ops."""

from __future__ import annotations

import math
from typing import Any

from rushlight.aot.decompositions.moving import matrix_product, swapped, view_or_copy
from rushlight.aot.decompositions.texts import as_tensor, cast, wide
from rushlight.aot.decompositions.written import program
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset.network.loss import promoted as result_type
from rushlight.opset.product.recurrent import LSTM
from rushlight.opset.rules import aten

__all__: list[str] = []


def added(self: Tensor, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * self + alpha * product, where nothing of `self` is read for a beta of zero."""
    if alpha != 1:
        product = aten.mul(product, alpha)
    if beta == 0:
        return product
    return aten.add(product, self if beta == 1 else aten.mul(self, beta))


@program("addmm")
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return added(self, aten.mm(mat1, mat2), beta, alpha)


@program("baddbmm")
def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return added(self, aten.bmm(batch1, batch2), beta, alpha)


@program("addbmm")
def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return added(self, aten.sum(aten.bmm(batch1, batch2), [0]), beta, alpha)


@program("mv")
def mv(self: Tensor, vec: Tensor) -> Any:
    return aten.squeeze(aten.mm(self, aten.unsqueeze(vec, 1)), 1)


@program("addmv")
def addmv(self: Tensor, mat: Any, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return added(self, mv(mat, vec), beta, alpha)


@program("addr")
def addr(self: Tensor, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = aten.mul(aten.unsqueeze(vec1, 1), vec2)
    if self.dtype is dtypes.bool_ and product.dtype is dtypes.bool_:
        found = product if alpha else aten.full_like(product, False)
        return aten.logical_or(self, found) if beta else found
    return added(self, product, beta, alpha)


@program("dot")
def dot(self: Tensor, tensor: Tensor) -> Any:
    return cast(aten.sum(aten.mul(wide(self), wide(tensor)), [0]), self.dtype)


@program("vdot")
def vdot(self: Tensor, other: Tensor) -> Any:
    return dot(aten._conj_physical(self) if self.dtype.is_complex else self, other)


@program("linalg_cross")
def linalg_cross(self: Tensor, other: Tensor, *, dim: int = -1) -> Any:
    index = aten.arange(0, 3, 1, device=self.device)
    one = aten.remainder(aten.add(index, 1), 3)
    two = aten.remainder(aten.add(index, 2), 3)
    a, b = wide(self), wide(other)
    left = aten.mul(aten.index_select(a, dim, one), aten.index_select(b, dim, two))
    right = aten.mul(aten.index_select(a, dim, two), aten.index_select(b, dim, one))
    return cast(aten.sub(left, right), result_type(self, other))


@program("_scaled_dot_product_flash_attention_for_cpu")
def attention(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: Any = None,
) -> Any:
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    q, k, v = wide(query), wide(key), wide(value)
    if key.shape[1] != query.shape[1]:
        k, v = repeated(k, query.shape[1]), repeated(v, query.shape[1])
    scores = matrix_product(aten.mul(q, factor), aten.permute(k, swapped(k.dim(), -2, -1)))
    if is_causal:
        row = aten.unsqueeze(aten.arange(0, scores.shape[-2], 1, device=query.device), -1)
        column = aten.arange(0, scores.shape[-1], 1, device=query.device)
        scores = aten.where(aten.le(column, row), scores, as_tensor(-math.inf, scores))
    if attn_mask is not None:
        scores = aten.add(scores, wide(attn_mask))
    top = aten.amax(scores, [-1], True)
    powers = aten.exp(aten.sub(scores, top))
    total = aten.sum(powers, [-1], True)
    result = matrix_product(aten.div(powers, total), v)
    # In memory the heads of one place lie together.
    laid_out = view_or_copy(aten.clone(aten.permute(result, [0, 2, 1, 3])), [
        result.shape[0], result.shape[2], result.shape[1], result.shape[3],
    ])  # fmt: skip
    output = aten.permute(laid_out, [0, 2, 1, 3])
    sums = aten.add(aten.squeeze(top, -1), aten.log(aten.squeeze(total, -1)))
    return cast(output, query.dtype), sums


def repeated(x: Any, heads: Any) -> Any:
    """Heads for groups of queries: each as many times as a group has members."""
    batch, groups, *rest = x.shape
    members = heads // groups
    wide_view = aten.expand(aten.unsqueeze(x, 2), [batch, groups, members, *rest])
    return view_or_copy(aten.clone(wide_view), [batch, heads, *rest])


@program("mkldnn_rnn_layer")
def mkldnn_rnn_layer(
    input: Tensor, weight0: Any, weight1: Any, weight2: Any, weight3: Any, hx_: Any, cx_: Any,
    reverse: bool, batch_sizes: Any, mode: int, hidden_size: int, num_layers: int,
    has_biases: bool, bidirectional: bool, batch_first: bool, train: bool,
) -> Any:  # fmt: skip
    """A layer of LSTM, step by step; its workspace is what the layer's gradient reads. Over texts
    of any length it stays whole."""
    if type(input.shape[0]) is not int:
        return NotImplemented
    if mode != LSTM or batch_sizes or input.dtype.itemsize == 2:
        return NotImplemented
    shares = aten.linear(input, weight0, weight2 if has_biases else None)
    hidden, cell, outputs, kept = hx_, cx_, [], []
    for share in reversed(shares.unbind(0)) if reverse else shares.unbind(0):
        own = aten.linear(hidden, weight1, weight3 if has_biases else None)
        enter, keep, value, leave = aten.unsafe_chunk(own + share, 4, 1)
        enter, keep, leave = enter.sigmoid(), keep.sigmoid(), leave.sigmoid()
        value = value.tanh()
        cell = keep * cell + enter * value
        hidden = leave * cell.tanh()
        outputs.append(hidden)
        kept.append(aten.cat([enter, keep, value, leave, cell], 1))
    if reverse:
        outputs.reverse()
        kept.reverse()
    rows = input.shape[0] * input.shape[1]
    space = aten.cat(kept, 0) if train else aten.new_empty(input, (rows, 0))
    return aten.stack(outputs, 0), hidden, cell, space
