"""Functions on tensors that modules are made of: torch's public names."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace
from rushlight.nn.functional import (
    activation,
    dropouts,
    embeddings,
    image,
    loss,
    norm,
    padding,
    pool,
)
from rushlight.nn.functional.activation import *  # noqa: F403
from rushlight.nn.functional.activation import sigmoid as sigmoid
from rushlight.nn.functional.activation import tanh as tanh
from rushlight.nn.functional.dropouts import *  # noqa: F403
from rushlight.nn.functional.embeddings import *  # noqa: F403
from rushlight.nn.functional.image import *  # noqa: F403
from rushlight.nn.functional.loss import *  # noqa: F403
from rushlight.nn.functional.norm import *  # noqa: F403
from rushlight.nn.functional.padding import *  # noqa: F403
from rushlight.nn.functional.pool import *  # noqa: F403
from rushlight.nn.offering import offered
from rushlight.opset import functions

__all__ = [
    *activation.__all__,
    *dropouts.__all__,
    *embeddings.__all__,
    *image.__all__,
    *loss.__all__,
    *norm.__all__,
    *padding.__all__,
    *pool.__all__,
]

# Operators that are functions here under the same name; anything else is defined below.
SAME = frozenset(
    (
        "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear",
        "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
        "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "gelu", "hardshrink", "linear",
        "logsigmoid", "native_channel_shuffle", "one_hot", "pairwise_distance", "pdist",
        "pixel_shuffle", "pixel_unshuffle", "prelu", "scaled_dot_product_attention", "softplus",
        "softshrink",
        "celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_",
    )
)  # fmt: skip


def _find(name: str) -> Any:
    """A function that is an operator, or that is loaded when first used."""
    if name == "multi_head_attention_forward":
        from rushlight.nn.attention import multi_head_attention_forward

        return offered(multi_head_attention_forward, __name__)
    if name in SAME:
        return getattr(functions, "log_sigmoid" if name == "logsigmoid" else name)
    return None


__getattr__, __dir__ = namespace(
    __name__, modules={"grad": "rushlight.nn.grad"}, make=_find, names=SAME
)


for public in __all__:
    globals()[public] = offered(globals()[public], __name__)
