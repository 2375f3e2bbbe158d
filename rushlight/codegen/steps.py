"""Convolution and batch norm of images whose channels lie last in memory, in programs of loops.

A convolution is a step that calls native kernels on arrays. Of batch norm only the sums over places
are such a step; what it does to each element is an expression, which loops fuse with what follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rushlight.codegen.expressions import Expression
from rushlight.codegen.extents import is_static
from rushlight.codegen.loops import Buffer, Ints, restrided
from rushlight.codegen.lowerings import Lowering, method
from rushlight.core import dtype as dtypes
from rushlight.core import geometry

if TYPE_CHECKING:
    from rushlight.codegen.kernels.recipes import Recipe
    from rushlight.codegen.values import Value
    from rushlight.core.op import OpOverload

__all__ = ["Native", "last_strides", "lies_last"]


# Recipes that make up a step, each with the buffers that it takes.
Recipes = list[tuple["Recipe", list[Buffer]]]
Maybe = Sequence[Buffer | None]


class Native:
    """A step that runs native kernels: `function` of the arrays of what it reads and writes. Where
    `recipes` answers, given the same, segments of native code run it."""

    __slots__ = ("function", "given", "made", "make_recipes", "name", "parts")

    is_barrier = False

    def __init__(
        self,
        name: str,
        function: Callable[..., None],
        given: Maybe,
        made: Maybe,
        make_recipes: Callable[..., Recipes | None],
    ) -> None:
        self.name = name
        self.function = function
        self.given = given
        self.made = made
        self.make_recipes = make_recipes
        # Each recipe's template, its buffers, and scratch memory behind them.
        self.parts: list[tuple[Any, list[Buffer]]] | None = None

    @property
    def label(self) -> str:
        return f"aten::{self.name}"

    def reads(self) -> set[Buffer]:
        return {buffer for buffer in self.given if buffer is not None}

    def writes(self) -> set[Buffer]:
        return {buffer for buffer in self.made if buffer is not None}

    def prepare(self, fresh: Callable[[str], str], count: int) -> bool:
        """Make ready for a segment, on at most so many threads; whether that can be."""
        places = [None if buffer is None else buffer.memory for buffer in (*self.given, *self.made)]
        recipes = self.make_recipes(*places)
        if recipes is None:
            return False
        self.parts = []
        for recipe, buffers in recipes:
            template, nbytes = recipe.template(count)
            scratch = Buffer(fresh("s"), dtypes.uint8, (nbytes,), (1,), "temporary")
            self.parts.append((template, [*buffers, scratch]))
        return True

    def buffers(self) -> list[Buffer]:
        """Memory that a segment has for it."""
        parts = self.parts or ()
        return list(dict.fromkeys([buffer for _, buffers in parts for buffer in buffers]))

    def __str__(self) -> str:
        made = ", ".join(["_" if buffer is None else buffer.name for buffer in self.made])
        return f"{made} = {self.name}({', '.join(map(str, self.given))})"


def is_dense(*buffers: Buffer | None) -> bool:
    return all([b is None or b.strides == geometry.contiguous_strides(b.shape) for b in buffers])


def are_last(*buffers: Buffer | None) -> bool:
    return all([b is None or lies_last(b.shape, b.strides) for b in buffers])


def last_strides(shape: Ints) -> Ints:
    """Strides of dense memory with channels last."""
    _, channels, height, width = shape
    return (channels * height * width, 1, width * channels, channels)


def lies_last(shape: Ints, strides: Ints) -> bool:
    """Whether an image of these strides has its channels last, and not in any other way too."""
    if len(shape) != 4 or not is_static((*shape, *strides)) or 0 in shape:
        return False
    dense = geometry.contiguous_strides(shape)
    return strides == last_strides(shape) != dense and shape[1] > 1 and shape[2] * shape[3] > 1


def needs_last(build: Lowering, *values: Value) -> None:
    for value in values:
        # A view that was copied lies in the usual order.
        memory = value if value.buffer is None else value.buffer
        if value.dtype is not dtypes.float32 or not lies_last(memory.shape, memory.strides):
            build.refuse("channels that do not lie last")
    if not build.program.runs_steps:
        build.refuse("kernels that are not there")


def needs_float(build: Lowering, *values: Value | None) -> None:
    for value in values:
        if value is not None and (value.dtype is not dtypes.float32 or value.expr is None):
            build.refuse(f"{value.dtype}")


def native(
    build: Lowering,
    name: str,
    function: Callable[..., None],
    given: Sequence[Value | None],
    results: Sequence[tuple[Ints, Ints] | None],
    make_recipes: Callable[..., Recipes | None],
) -> list[Any]:
    """Add a step; its results, of given sizes and strides, as expressions."""
    program = build.program
    read = [
        None if value is None else program.realise(value, lies_last(value.shape, value.strides))
        for value in given
    ]
    made = [
        None if facts is None else Buffer(program.fresh("h"), dtypes.float32, *facts, "temporary")
        for facts in results
    ]
    program.steps.append(Native(name, function, read, made, make_recipes))
    return [None if buffer is None else build.m.load(buffer, buffer.strides, 0) for buffer in made]


# -- convolution -----------------------------------------------------------------------------------


def sizes_of(values: Any, count: int) -> Ints:
    """One integer for each spatial dim."""
    found = [values] if type(values) is int else list(values)
    return tuple([int(value) for value in (found * count if len(found) == 1 else found)])


# Stride, padding and dilation, and how many groups.
Options = tuple[Ints, Ints, Ints, int]


def options_of(stride: Any, padding: Any, dilation: Any, groups: int) -> Options:
    return sizes_of(stride, 2), sizes_of(padding, 2), sizes_of(dilation, 2), groups


def convolve(options: Options, x: Any, w: Any, bias: Any, y: Any) -> None:
    from rushlight.codegen.kernels.channelslast import results_last

    results_last(x, w, bias, y, *options)


def convolve_recipes(
    options: Options, x: Buffer, w: Buffer, bias: Buffer | None, y: Buffer
) -> Recipes | None:
    from rushlight.codegen.kernels.channelslast import results_recipe

    stride, padding, dilation, groups = options
    if groups != 1 or not are_last(x, y) or not is_dense(w, bias):
        return None
    places, is_biased = y.shape[2:], bias is not None
    recipe = results_recipe(x.shape, w.shape, places, stride, padding, dilation, is_biased)
    return [(recipe, [x, w, y, *([] if bias is None else [bias])])]


@method
def convolved(
    build: Lowering, op: OpOverload, input: Value, weight: Value, bias: Value | None, stride: Any,
    padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Expression:  # fmt: skip
    shape, strides, _ = build.program.facts(build.val)
    if transposed or not lies_last(shape, strides):
        build.refuse("channels that do not lie last")
    needs_last(build, input)
    needs_float(build, weight, bias)
    options = options_of(stride, padding, dilation, groups)
    (found,) = native(
        build, op.base_name, partial(convolve, options), (input, weight, bias),
        ((shape, strides),), partial(convolve_recipes, options),
    )  # fmt: skip
    return found  # type: ignore[no-any-return]


def convolve_backward(
    options: Options, grad: Any, x: Any, w: Any, for_input: Any, for_weight: Any
) -> None:
    from rushlight.codegen.kernels.channelslast import input_gradient_last, weight_gradient_last

    if for_input is not None:
        input_gradient_last(grad, w, for_input, *options)
    if for_weight is not None:
        weight_gradient_last(x, grad, for_weight, *options)


def convolve_backward_recipes(
    options: Options, grad: Buffer, x: Buffer, w: Buffer, for_input: Buffer | None,
    for_weight: Buffer | None,
) -> Recipes | None:  # fmt: skip
    from rushlight.codegen.kernels.channelslast import gradient_recipe, weights_recipe

    *steps, groups = options
    if groups != 1 or not are_last(grad, x, for_input) or not is_dense(w, for_weight):
        return None
    found: list[tuple[Recipe | None, list[Buffer]]] = []
    if for_input is not None:
        recipe = gradient_recipe(grad.shape, w.shape, for_input.shape[2:], *steps)
        found.append((recipe, [grad, w, for_input]))
    if for_weight is not None:
        recipe = weights_recipe(x.shape, grad.shape, w.shape[2:], *steps)
        found.append((recipe, [x, grad, for_weight]))
    known = [(recipe, buffers) for recipe, buffers in found if recipe is not None]
    return known if len(known) == len(found) else None


@method
def convolution_gradients(
    build: Lowering, op: OpOverload, grad: Value, input: Value, weight: Value, bias_sizes: Any,
    stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int,
    mask: Any,
) -> Any:  # fmt: skip
    if transposed:
        build.refuse("a transposed convolution")
    needs_last(build, grad, input)
    needs_float(build, weight)
    program = build.program
    facts: list[Any] = [None, None]
    if mask[0]:
        facts[0] = program.facts(build.val[0])[:2]
        if not lies_last(*facts[0]):
            build.refuse("channels that do not lie last")
    if mask[1]:
        facts[1] = weight.shape, geometry.contiguous_strides(weight.shape)
    options = options_of(stride, padding, dilation, groups)
    for_input, for_weight = native(
        build, op.base_name, partial(convolve_backward, options), (grad, input, weight),
        tuple(facts), partial(convolve_backward_recipes, options),
    )  # fmt: skip
    for_bias = None
    if mask[2]:
        axes = (0, 2, 3)
        total = build.fold("sum", build.plain(grad), grad.shape, axes)
        for_bias = build.without(total, axes)
    return for_input, for_weight, for_bias


# -- batch norm ------------------------------------------------------------------------------------


def over_channels(expr: Expression) -> Expression:
    """A number for each channel as one for each place."""
    return restrided(expr, lambda strides, offset: ((0, strides[0], 0, 0), offset))


def statistics(eps: float, *arrays: Any) -> None:
    from rushlight.codegen.kernels.normalization import statistics_last

    statistics_last(eps, *arrays)


def gradients(*arrays: Any) -> None:
    from rushlight.codegen.kernels.normalization import gradients_last

    gradients_last(*arrays)


def statistics_recipes(eps: float, x: Buffer, *vectors: Buffer) -> Recipes | None:
    from rushlight.codegen.kernels.normalization import statistics_recipe

    if not are_last(x) or not is_dense(*vectors):
        return None
    return [(statistics_recipe(x.shape, eps), [x, *vectors])]


def gradients_recipes(grad: Buffer, x: Buffer, *vectors: Buffer) -> Recipes | None:
    from rushlight.codegen.kernels.normalization import gradients_recipe

    if not are_last(grad, x) or not is_dense(*vectors):
        return None
    return [(gradients_recipe(x.shape), [x, grad, *vectors])]


def scaled(
    build: Lowering, input: Value, mean: Expression, rstd: Expression, weight: Value | None,
    bias: Value | None,
) -> Expression:  # fmt: skip
    m = build.m
    factor = factor_of(build, rstd, weight, input.shape[1:2])
    found = (build.plain(input) - over_channels(mean)) * over_channels(factor)
    return found if bias is None else m.add(found, over_channels(build.plain(bias)))


def factor_of(build: Lowering, rstd: Expression, weight: Value | None, shape: Ints) -> Expression:
    return rstd if weight is None else build.stored(rstd * build.plain(weight), shape)


def known_rstd(build: Lowering, variance: Value, eps: float) -> Expression:
    m = build.m
    wide = m.add(m.cast(build.plain(variance), dtypes.float64), m.const(eps, dtypes.float64))
    found = m.divide(m.const(1.0, dtypes.float64), m.sqrt(wide))
    return build.stored(m.cast(found, dtypes.float32), variance.shape)


def moved(build: Lowering, running: Value, found: Expression, momentum: float) -> Expression:
    m = build.m
    kept = m.multiply(build.plain(running), m.const(1 - momentum, dtypes.float32))
    return m.add(kept, m.multiply(found, m.const(momentum, dtypes.float32)))


@method
def normalised_by_batch(
    build: Lowering, op: OpOverload, input: Value, weight: Value | None, bias: Value | None,
    running_mean: Value, running_var: Value, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Results, and the running statistics after the batch."""
    needs_last(build, input)
    needs_float(build, weight, bias, running_mean, running_var)
    count = math.prod(input.shape) // input.shape[1]
    if not training or count < 2:
        build.refuse("statistics that are given")
    vector = input.shape[1:2], (1,)
    mean, variance, rstd = native(
        build, "batch_norm_statistics", partial(statistics, eps), (input,), (vector,) * 3,
        partial(statistics_recipes, eps),
    )  # fmt: skip
    y = scaled(build, input, mean, rstd, weight, bias)
    unbiased = build.m.multiply(variance, build.m.const(count / (count - 1), dtypes.float32))
    kept = (
        moved(build, running_mean, mean, momentum),
        moved(build, running_var, unbiased, momentum),
    )
    return y, mean, rstd, *kept


@method
def normalised_as_known(
    build: Lowering, op: OpOverload, input: Value, weight: Value | None, bias: Value | None,
    running_mean: Value, running_var: Value, momentum: float, eps: float,
) -> Any:  # fmt: skip
    needs_last(build, input)
    needs_float(build, weight, bias, running_mean, running_var)
    rstd = known_rstd(build, running_var, eps)
    y = scaled(build, input, build.plain(running_mean), rstd, weight, bias)
    none = [build.m.const(0, dtypes.float32) for _ in range(2)]
    return y, *none


@method
def normalisation_gradients(
    build: Lowering, op: OpOverload, grad: Value, input: Value, weight: Value | None,
    running_mean: Value | None, running_var: Value | None, save_mean: Value | None,
    save_rstd: Value | None, train: bool, eps: float, mask: Any,
) -> Any:  # fmt: skip
    needs_last(build, grad, input)
    given = (save_mean, save_rstd) if train else (running_mean, running_var)
    needs_float(build, weight, *given)
    mean, spread = given
    assert mean is not None and spread is not None
    program, channels = build.program, input.shape[1:2]
    rstd = spread
    if not train:
        rstd = program.valued(known_rstd(build, spread, eps), channels)
    for_weight, for_bias = native(
        build, op.base_name, gradients, (grad, input, mean, rstd), ((channels, (1,)),) * 2,
        gradients_recipes,
    )  # fmt: skip
    found = build.plain(grad)
    if train:
        share = channels[0] / math.prod(input.shape)
        part = build.m.const(share, dtypes.float32)
        level = build.stored(for_bias * part, channels)
        slope = build.stored(for_weight * build.plain(rstd) * part, channels)
        apart = build.plain(input) - over_channels(build.plain(mean))
        found = found - over_channels(level) - apart * over_channels(slope)
    factor = factor_of(build, build.plain(rstd), weight, channels)
    for_input = found * over_channels(factor)
    results = (for_input, for_weight, for_bias)
    return tuple([expr if wanted else None for expr, wanted in zip(results, mask, strict=True)])
