"""Attention of float32 arrays by native kernels, a head a chunk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.codegen.kernels import library
from rushlight.codegen.kernels.attention import ATTENTION, BLOCK, BLOCK_BACK
from rushlight.codegen.kernels.convolution import rounded
from rushlight.codegen.kernels.pool import threads
from rushlight.codegen.kernels.words import address

__all__ = ["attention", "attention_backward"]


def rows_together(array: Any) -> Any:
    """An array whose last dim lies densely, or a copy of it."""
    is_dense = array.shape[-1] == 1 or array.strides[-1] == array.itemsize
    return array if is_dense else np.ascontiguousarray(array)


def placed(name: str, array: Any) -> dict[str, int]:
    """The words of an operand of four dims."""
    steps = [step // array.itemsize for step in array.strides[:3]]
    words = dict(zip(("batch", "head", "row"), steps, strict=True))
    return {name: address(array), **{f"{name}_{word}": step for word, step in words.items()}}


def run(
    name: str, operands: dict[str, Any], mask: Any, scale: float, is_causal: bool, chunks: int,
    **arrays: Any,
) -> None:  # fmt: skip
    query, key = operands["q"], operands["k"]
    target = library.target()
    heads, rows, dim = query.shape[1:]
    columns = key.shape[2]
    wide = rounded(columns, target.panel) + target.lanes
    deep = rounded(dim, target.panel)
    block = BLOCK if name == "attention" else BLOCK_BACK
    at, sizes = 0, {}
    for part, size in (
        ("start", dim * wide), ("values_at", columns * deep), ("scores_at", block * wide),
        ("slopes_at", block * wide), ("turned_at", dim * wide), ("keys_at", columns * deep),
        ("queries_at", block * deep), ("grads_at", block * deep),
    ):  # fmt: skip
        sizes[part] = at
        at += rounded(size + target.panel, 64)
    del sizes["start"]
    words: dict[str, int] = {}
    for operand, array in operands.items():
        words |= placed(operand, array)
    factor, tap = np.array([scale], np.float32), np.zeros(1, np.int64)
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        mask = np.broadcast_to(mask, (*query.shape[:3], columns))
        mask = mask if columns == 1 or mask.strides[-1] == 4 else np.ascontiguousarray(mask)
        words |= placed("mask", mask)
    work = math.prod(query.shape) * columns * (2 if name == "attention" else 5)
    most = threads(chunks, work)
    scratch = buffers.empty((most * at,), np.float32, most * at * 4)
    found = ATTENTION.fill(
        **words, masks=int(mask is not None), scale=address(factor), scratch=address(scratch),
        scratch_step=at, heads=heads, share=heads // key.shape[1], rows=rows, columns=columns,
        dim=dim, causal=int(is_causal), wide=wide, deep=deep, zero_tap=address(tap), **sizes,
        **{word: address(array) for word, array in arrays.items()},
    )  # fmt: skip
    library.run(name, found, chunks, most, work)


def attention(
    query: Any, key: Any, value: Any, mask: Any, scale: float, is_causal: bool
) -> tuple[Any, Any]:
    """Results and, of each query, the logarithm of its sum of exponentials."""
    query, key, value = map(rows_together, (query, key, value))
    found = np.empty_like(query)
    found = found if found.strides[-1] == 4 else np.empty(query.shape, np.float32)
    top, total = (np.empty(query.shape[:3], np.float32) for _ in range(2))
    operands = {"q": query, "k": key, "v": value, "o": found}
    heads = math.prod(query.shape[:2])
    run("attention", operands, mask, scale, is_causal, heads, top=top, total=total)
    np.log(total, total)
    total += top
    return found, total


def attention_backward(
    grad: Any, query: Any, key: Any, value: Any, output: Any, level: Any, mask: Any, scale: float,
    is_causal: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    names = ("grad", "q", "k", "v", "o")
    given = (grad, query, key, value, output)
    operands = {name: rows_together(array) for name, array in zip(names, given, strict=True)}
    found = [np.empty(array.shape, np.float32) for array in (query, key, value)]
    operands |= dict(zip(("for_q", "for_k", "for_v"), found, strict=True))
    level = np.ascontiguousarray(level)
    heads = math.prod(key.shape[:2])
    run("attention_backward", operands, mask, scale, is_causal, heads, level=level)
    return found[0], found[1], found[2]
