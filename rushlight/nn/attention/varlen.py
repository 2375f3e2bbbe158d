"""Attention over sequences of several lengths that lie one after another."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.base.errors import MissingFeature
from rushlight.core.dtype import float32
from rushlight.opset import functions

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What `varlen_attn` returns besides."""

    lse: bool = False


def varlen_attn(
    query: Any,
    key: Any,
    value: Any,
    cu_seq_q: Any,
    cu_seq_k: Any,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Any = None,
    block_table: Any = None,
    num_splits: int | None = None,
) -> Any:
    """Attention within each sequence: `query` is [places, heads, size], and `cu_seq_q` says where
    the sequences begin and end. `window_size` is how far back and ahead a place may look; -1 is any
    distance. The last places of both sides belong together.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention.varlen import varlen_attn
    >>> x, ends = torch.ones(3, 1, 2), torch.tensor([0, 1, 3], dtype=torch.int32)
    >>> varlen_attn(x, x, x, ends, ends, 2, 2).shape
    torch.Size([3, 1, 2])
    """
    for name, given in (("seqused_k", seqused_k), ("block_table", block_table)):
        if given is not None:
            raise MissingFeature(f"varlen_attn({name}=...)", code="RL0011")
    starts_q = cu_seq_q.tolist()
    starts_k = starts_q if cu_seq_k is None else cu_seq_k.tolist()
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if enable_gqa and query.shape[1] != key.shape[1]:
        repeats = query.shape[1] // key.shape[1]
        key, value = (each.repeat_interleave(repeats, 1) for each in (key, value))
    outputs, totals = [], []
    for i in range(len(starts_q) - 1):
        q = query[starts_q[i] : starts_q[i + 1]].transpose(0, 1)
        k, v = (each[starts_k[i] : starts_k[i + 1]].transpose(0, 1) for each in (key, value))
        scores = (q @ k.transpose(1, 2)).to(float32) * scale
        hidden = beyond(window_size, q.shape[1], k.shape[1])
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        total = functions.logsumexp(scores, -1, True)
        weights = (scores - total).exp().nan_to_num(0.0)
        outputs.append((weights.to(v.dtype) @ v).transpose(0, 1))
        totals.append(total.squeeze(-1).transpose(0, 1))
    out = functions.cat(outputs, 0)
    if return_aux is not None and return_aux.lse:
        return out, functions.cat(totals, 0)
    return out


def beyond(window: tuple[int, int], rows: int, columns: int) -> Any:
    """Where a window of places does not look; None where it looks everywhere."""
    back, ahead = window
    if back < 0 and ahead < 0:
        return None
    distance = functions.arange(columns) - (functions.arange(rows).unsqueeze(1) + columns - rows)
    hidden = functions.zeros_like(distance).bool()
    if back >= 0:
        hidden = hidden | (distance < -back)
    if ahead >= 0:
        hidden = hidden | (distance > ahead)
    return hidden


def varlen_attn_out(out: Any, *args: Any, **options: Any) -> Any:
    """`varlen_attn`, its result written into `out`."""
    found = varlen_attn(*args, **options)
    if isinstance(found, tuple):
        out.copy_(found[0])
        return out, found[1]
    return out.copy_(found)
