"""Dropout of elements and of whole channels."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.opset import functions

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero elements with probability `p` while training, scaling the rest by 1/(1-p)."""
    check_probability(p)
    return (functions.dropout_ if inplace else functions.dropout)(input, p, training)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`dropout` to the lower limit of `selu`, keeping mean and variance."""
    check_probability(p)
    return (functions.alpha_dropout_ if inplace else functions.alpha_dropout)(input, p, training)


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """`alpha_dropout` of whole channels."""
    check_probability(p)
    run = functions.feature_alpha_dropout_ if inplace else functions.feature_alpha_dropout
    return run(input, p, training)


def channel_dropout(input: Any, p: float, training: bool, inplace: bool, batched: bool) -> Any:
    """`dropout` of whole channels; an input without a batch is a batch of one."""
    if batched:
        return (functions.feature_dropout_ if inplace else functions.feature_dropout)(
            input, p, training
        )
    if inplace:
        functions.feature_dropout_(input.unsqueeze(0), p, training)
        return input
    return functions.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)


def warn_of_dims(input: Any, count: int) -> None:
    dims = input.dim()
    if dims not in (count + 1, count + 2):
        warnings.warn(
            f"dropout{count}d: Received a {dims}-D input to dropout{count}d, which is deprecated "
            "and will result in an error in a future release. To retain the behavior and silence "
            f"this warning, please use dropout instead. Note that dropout{count}d exists to "
            f"provide channel-wise dropout on inputs with {count} spatial dimensions, a channel "
            f"dimension, and an optional batch dimension (i.e. {count + 1}D or {count + 2}D "
            "inputs).",
            stacklevel=4,
        )


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of (N, C, L) or (C, L)."""
    check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return channel_dropout(input, p, training, inplace, input.dim() == 3)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of (N, C, H, W)."""
    check_probability(p)
    warn_of_dims(input, 2)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )
    return channel_dropout(input, p, training, inplace, True)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    check_probability(p)
    warn_of_dims(input, 3)
    return channel_dropout(input, p, training, inplace, input.dim() == 5)
