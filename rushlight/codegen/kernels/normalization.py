"""Batch norm of float32 arrays by native kernels, a channel a chunk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.codegen.kernels import library
from rushlight.codegen.kernels.convolution import address, dense, fresh
from rushlight.codegen.kernels.norms import NORM
from rushlight.codegen.kernels.pool import threads

__all__ = ["batch_norm", "batch_norm_backward"]

# What a place costs, in multiplications.
COST = 8


def parameter(value: Any, channels: int, number: float) -> Any:
    return np.full(channels, number, np.float32) if value is None else dense(value)


def run(name: str, x: Any, trains: bool, wants: bool, **memory: Any) -> None:
    channels = x.shape[1]
    words = NORM.fill(
        samples=x.shape[0], channels=channels, places=math.prod(x.shape[2:]), trains=int(trains),
        wants=int(wants), x=address(x), **{word: address(array) for word, array in memory.items()},
    )  # fmt: skip
    work = x.size * COST
    library.run(name, words, channels, threads(channels, work), work)


def batch_norm(x: Any, weight: Any, bias: Any, given: Any, eps: float) -> tuple[Any, ...]:
    """Results, mean, biased variance and 1 / standard deviation; with `given` statistics (mean,
    1 / standard deviation) these are used and no others computed."""
    x, channels = dense(x), x.shape[1]
    y = fresh(x.shape)
    mean, variance, rstd = [np.empty(channels, np.float32) for _ in range(3)]
    if given is not None:
        mean, rstd = map(dense, given)
    scale, shift = parameter(weight, channels, 1), parameter(bias, channels, 0)
    added = np.array([eps], np.float64)
    run("norm", x, given is None, True, y=y, weight=scale, bias=shift, mean=mean,
        variance=variance, rstd=rstd, eps=added)  # fmt: skip
    return y, mean, variance, rstd


def batch_norm_backward(
    grad: Any, x: Any, weight: Any, mean: Any, rstd: Any, trains: bool, wants: bool
) -> tuple[Any, Any, Any]:
    """Gradients of the input, where it `wants` one, the weight and the bias."""
    x, grad, channels = dense(x), dense(grad), x.shape[1]
    found = fresh(x.shape) if wants else None
    for_weight, for_bias = [np.empty(channels, np.float32) for _ in range(2)]
    memory = {"for_input": found} if wants else {}
    scale = parameter(weight, channels, 1)
    run("norm_backward", x, trains, wants, grad=grad, weight=scale, mean=dense(mean),
        rstd=dense(rstd), for_weight=for_weight, for_bias=for_bias, **memory)  # fmt: skip
    return found, for_weight, for_bias
