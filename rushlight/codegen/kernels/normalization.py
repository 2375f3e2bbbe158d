"""Batch norm of float32 arrays by native kernels, a channel a chunk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.codegen.kernels import library
from rushlight.codegen.kernels.convolution import Ints, dense, fresh, planned
from rushlight.codegen.kernels.lastnorms import LAST_NORM
from rushlight.codegen.kernels.norms import NORM
from rushlight.codegen.kernels.pool import threads
from rushlight.codegen.kernels.recipes import Recipe
from rushlight.codegen.kernels.words import address

__all__ = ["batch_norm", "batch_norm_backward", "gradients_last", "statistics_last"]

# What a place costs, in multiplications.
COST = 8
# Elements of a block of places with channels last: it is read twice while it is in the cache.
BLOCK = 1 << 12


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


# -- channels last ---------------------------------------------------------------------------------


@planned
def last_recipe(shape: Ints, name: str, whole: str, eps: float | None, *memory: str) -> Recipe:
    """Sums of blocks of places, then what they make together, of an operand and the arrays that
    `memory` names."""
    batch, channels, *places = shape
    count = batch * math.prod(places)
    block = min(max(BLOCK // channels, 1), count)
    blocks = -(-count // block)
    words = LAST_NORM.fill(channels=channels, places=count, block=block, blocks=blocks)
    recipe = Recipe()
    if eps is not None:
        added = np.array([eps], np.float64)
        recipe.kept += (added,)
        words[LAST_NORM.places["eps"]] = address(added)
    found: dict[str, Any] = {word: number for number, word in enumerate(memory, 1)}
    found |= {"x": 0, "parts": recipe.room(2 * blocks * channels)}
    recipe.then(name, LAST_NORM, words, blocks, count * channels * COST, **found)
    # Channel by channel, as the sums of one lie apart.
    recipe.then(whole, LAST_NORM, words, channels, blocks * channels * 4, **found)
    return recipe


def statistics_recipe(shape: Ints, eps: float) -> Recipe:
    return last_recipe(shape, "last_norm", "last_norm_whole", eps, "mean", "variance", "rstd")


def statistics_last(eps: float, x: Any, mean: Any, variance: Any, rstd: Any) -> None:
    """Mean, biased variance and 1 / standard deviation of channels that lie last, into arrays."""
    statistics_recipe(x.shape, eps).run(x, mean, variance, rstd)


def gradients_recipe(shape: Ints) -> Recipe:
    return last_recipe(
        shape, "last_norm_backward", "last_norm_gradients", None, "grad", "mean", "rstd",
        "for_weight", "for_bias",
    )  # fmt: skip


def gradients_last(grad: Any, x: Any, mean: Any, rstd: Any, for_weight: Any, for_bias: Any) -> None:
    """Gradients of weight and bias, into arrays."""
    gradients_recipe(x.shape).run(x, grad, mean, rstd, for_weight, for_bias)
