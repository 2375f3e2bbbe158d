"""torch.nn.utils: helpers around modules and their parameters."""

from __future__ import annotations

from rushlight.base.lazy import namespace
from rushlight.nn.utils import rnn
from rushlight.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from rushlight.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

# Eager: these modules have the names of their functions, and the functions must win.
from rushlight.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from rushlight.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]

MODULES = (
    "fusion", "init", "memory_format", "parametrizations", "parametrize", "prune", "stateless",
)  # fmt: skip
HOMES = {
    "convert_conv2d_weight_memory_format": ".memory_format",
    "convert_conv3d_weight_memory_format": ".memory_format",
    "fuse_conv_bn_eval": ".fusion",
    "fuse_conv_bn_weights": ".fusion",
    "fuse_linear_bn_eval": ".fusion",
    "fuse_linear_bn_weights": ".fusion",
    "skip_init": ".init",
}

__getattr__, __dir__ = namespace(__name__, HOMES, MODULES)
