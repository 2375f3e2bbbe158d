"""Batch rules of windows: the samples of a vmap become more images, or more groups of channels.

Images go where only images vary; where weights vary, every sample's channels are groups apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core import dispatch
from rushlight.core.tensor import Tensor
from rushlight.opset import functions as aten

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = [
    "affine_grid",
    "conv_tbc",
    "convolution",
    "convolution_backward",
    "fractional_pool",
    "padded",
    "resample_backward",
]


def merged(value: Any, axis: int) -> Any:
    """The batch axis, which comes first, merged into a dim of the samples."""
    return value.movedim(0, axis).flatten(axis, axis + 1)


def as_images(
    level: VmapLevel, op: OpOverload, args: tuple[Any, ...], places: tuple[int, ...]
) -> Any:
    """One call whose tensors at `places` hold the images of all samples."""
    moved = list(args)
    for place in places:
        moved[place] = level.full(args[place])

    def every() -> Any:
        for place in places:
            moved[place] = moved[place].flatten(0, 1)
        found = dispatch.call(op, tuple(moved))
        if isinstance(found, Tensor):
            return apart(found)
        return tuple([None if item is None else apart(item) for item in found])

    def apart(value: Any) -> Any:
        return value.unflatten(0, (level.size, value.shape[0] // level.size))

    return level.wrap(level.run(every))


def convolution(
    level: VmapLevel, op: OpOverload, input: Any, weight: Any, bias: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: Any,
) -> Any:  # fmt: skip
    options = (stride, padding, dilation, transposed, output_padding)
    args = (input, weight, bias, *options, groups)
    if op.out_positions or not level.size or input.dim() != weight.dim():
        return level.loop(op, args)
    if not level.holds(weight):
        if not level.holds(bias):
            return as_images(level, op, args, (0,))
        found = aten.convolution(input, weight, None, *options, groups)
        return found + bias.reshape((-1,) + (1,) * (weight.dim() - 2))
    kernels, offsets, images = level.full(weight), level.full(bias), level.front(input)

    def every() -> Any:
        shift = None if offsets is None else offsets.flatten(0, 1)
        if images is input and groups == 1 and not transposed:
            found = dispatch.call(op, (input, kernels.flatten(0, 1), shift, *options, 1))
        else:
            each = images if images is not input else input.expand((level.size, *input.shape))
            count = groups * level.size
            moved = (merged(each, 1), kernels.flatten(0, 1), shift, *options, count)
            found = dispatch.call(op, moved)
        return found.unflatten(1, (level.size, found.shape[1] // level.size))

    return level.wrap(level.run(every), 1)


def convolution_backward(
    level: VmapLevel, op: OpOverload,
    grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any,
    padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: Any, mask: Any,
) -> Any:  # fmt: skip
    options = (stride, padding, dilation, transposed, output_padding)
    args = (grad_output, input, weight, bias_sizes, *options, groups, mask)
    if not level.size or input.dim() != weight.dim():
        return level.loop(op, args)
    if not level.holds(weight) and not (mask[1] or mask[2]):
        return as_images(level, op, args, (0, 1))
    grads, images, kernels = level.full(grad_output), level.full(input), level.full(weight)
    sizes = None if bias_sizes is None else [size * level.size for size in bias_sizes]

    def every() -> Any:
        found = dispatch.call(
            op,
            (
                merged(grads, 1), merged(images, 1), kernels.flatten(0, 1), sizes, *options,
                groups * level.size, mask,
            ),
        )  # fmt: skip
        return [
            None if item is None else item.unflatten(axis, (level.size, -1)).movedim(axis, 0)
            for item, axis in zip(found, (1, 0, 0), strict=True)
        ]

    return tuple(level.wrap(level.run(every)))


def conv_tbc(level: VmapLevel, op: OpOverload, self: Any, weight: Any, bias: Any, pad: int) -> Any:
    if op.out_positions or (self.dim(), weight.dim(), bias.dim()) != (3, 3, 1):
        return level.loop(op, (self, weight, bias, pad))
    images, kernels = self.permute(1, 2, 0), weight.permute(2, 1, 0)
    found = aten.convolution(images, kernels, bias, [1], [pad], [1], False, [0], 1)
    return found.permute(2, 0, 1)


def padded(level: VmapLevel, op: OpOverload, *args: Any) -> Any:
    """Pads that repeat what lies at the edges, and their gradients."""
    rank = len(args[-1]) // 2 + 2
    places = tuple(range(len(args) - 1))
    ranks = {args[place].dim() for place in places}
    if ranks == {rank} and level.size:
        return as_images(level, op, args, places)
    if ranks != {rank - 1}:
        return level.loop(op, args)
    moved = tuple([level.full(args[place]) for place in places])
    return level.wrap(level.below(op, (*moved, args[-1])))


def resample_backward(
    level: VmapLevel,
    op: OpOverload,
    grad_output: Any,
    output_size: Any,
    input_size: Any,
    *rest: Any,
) -> Any:
    if not level.size or grad_output.dim() != len(input_size):
        return level.loop(op, (grad_output, output_size, input_size, *rest))
    sizes = (level.size * input_size[0], *input_size[1:])
    return as_images(level, op, (grad_output, output_size, sizes, *rest), (0,))


def affine_grid(
    level: VmapLevel, op: OpOverload, theta: Any, size: Any, align_corners: bool
) -> Any:
    if not level.size:
        return level.loop(op, (theta, size, align_corners))
    sizes = (level.size * size[0], *size[1:])
    return as_images(level, op, (theta, sizes, align_corners), (0,))


def fractional_pool(
    level: VmapLevel, op: OpOverload, self: Any, kernel_size: Any, output_size: Any,
    random_samples: Any,
) -> Any:  # fmt: skip
    """Every image keeps its random numbers, of which there may be more than images."""
    if op.out_positions or not level.size:
        return level.loop(op, (self, kernel_size, output_size, random_samples))
    is_single = self.dim() == len(kernel_size) + 1
    images = self.unsqueeze(0) if is_single else self
    args = (images, kernel_size, output_size, random_samples[: images.shape[0]])
    found = as_images(level, op, args, (0, 3))
    return tuple([value.squeeze(0) for value in found]) if is_single else found
