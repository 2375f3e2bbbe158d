"""Which calls in graphs are computed of quantised numbers, and whose scales their results have.

A result has a scale of its own, that of its input, or one that is known before.
"""

from __future__ import annotations

import operator
from typing import Any

from rushlight import nn
from rushlight.nn import functional
from rushlight.opset import functions, registry
from rushlight.quantization import intrinsic as nni
from rushlight.quantization import training

__all__ = [
    "FIXED", "JOINING", "OWN", "RELU", "SHARED", "WEIGHTED", "is_relu", "kind_of", "quantised_op",
]  # fmt: skip


def each(names: str, *modules: Any) -> set[Any]:
    """What the modules have of these names; graphs may name a function by either."""
    found = set()
    for name in names.split():
        for module in modules:
            value = getattr(module, name, None)
            if value is not None:
                found.add(value)
    return found


def public(names: str) -> set[Any]:
    """Functions of torch itself."""
    return {found for found in map(registry.public, names.split()) if found is not None}


_DIMS = (1, 2, 3)
LINEAR: set[Any] = {
    nn.Linear, nni.LinearReLU, nni.LinearBn1d, training.Linear, training.LinearReLU,
    training.LinearBn1d,
}  # fmt: skip
# Modules with weights that are quantised too.
WEIGHTED: set[Any] = {
    *LINEAR,
    *[getattr(nn, f"Conv{n}d") for n in _DIMS],
    *[getattr(nn, f"ConvTranspose{n}d") for n in _DIMS],
    *[getattr(nni, f"{name}{n}d") for name in ("ConvReLU", "ConvBn", "ConvBnReLU") for n in _DIMS],
    *[
        getattr(training, f"{name}{n}d")
        for name in ("Conv", "ConvReLU", "ConvBn", "ConvBnReLU")
        for n in _DIMS
    ],
}  # fmt: skip
CONVOLUTIONS = " ".join([f"{name}{n}d" for name in ("conv", "conv_transpose") for n in _DIMS])
FUNCTIONS_WITH_WEIGHTS = each(f"linear {CONVOLUTIONS}", functional, functions) | public(
    CONVOLUTIONS
)

SUMS = {operator.add, operator.iadd, *public("add"), functions.add}
PRODUCTS = {operator.mul, operator.imul, *public("mul"), functions.mul}
MATRICES = {operator.matmul, *public("matmul"), functions.matmul}
# Function -> the operator that computes it of quantised numbers by a scale of its own.
BY_SCALE: dict[Any, str] = {
    **dict.fromkeys(SUMS, "add"), **dict.fromkeys(PRODUCTS, "mul"),
    **dict.fromkeys(MATRICES, "matmul"),
    **{
        getattr(functional, name): name
        for name in ("elu", "hardswish", "leaky_relu", "instance_norm", "layer_norm", "dropout")
    },
}  # fmt: skip
OWN: set[Any] = {
    *WEIGHTED, *BY_SCALE,
    *each(
        "ELU LeakyReLU Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d Dropout PReLU "
        "LayerNorm BatchNorm2d BatchNorm3d", nn,
    ),
    nni.BNReLU2d, nni.BNReLU3d,
}  # fmt: skip

# Results within a range that is known.
FIXED: set[Any] = {
    *each("Hardsigmoid Sigmoid Softmax Tanh", nn), functional.hardsigmoid,
    *public("sigmoid tanh"), *each("sigmoid tanh", functional, functions),
    "hardsigmoid", "hardsigmoid_", "sigmoid", "sigmoid_", "tanh", "tanh_",
}  # fmt: skip

JOINING = {*public("cat stack concat"), *each("cat stack", functions)}
_SHARED_FUNCTIONS = (
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d hardtanh hardtanh_ interpolate "
    "max_pool1d max_pool2d max_pool3d pixel_shuffle pixel_unshuffle relu relu6 avg_pool1d "
    "avg_pool2d avg_pool3d clamp flatten mean narrow repeat_interleave transpose squeeze unsqueeze"
)
_SHARED_MODULES = (
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AvgPool1d AvgPool2d AvgPool3d Hardtanh "
    "Identity MaxPool1d MaxPool2d MaxPool3d PixelShuffle PixelUnshuffle ReLU ReLU6"
)
_SHARED_METHODS = (
    "contiguous clamp detach detach_ mean permute repeat repeat_interleave reshape resize_ relu "
    "relu_ squeeze squeeze_ transpose unsqueeze unsqueeze_ view"
)
SHARED: set[Any] = JOINING | each(_SHARED_MODULES, nn) | set(_SHARED_METHODS.split())
SHARED |= each(_SHARED_FUNCTIONS, functional, functions) | public(_SHARED_FUNCTIONS)
RELU: set[Any] = {nn.ReLU, *each("relu relu_", functional, functions), *public("relu relu_")}
RELU |= {"relu", "relu_"}


def kind_of(node: Any, modules: dict[str, Any]) -> Any:
    """What a node calls: a class of modules, a function, or a method's name."""
    if node.op == "call_module":
        return type(modules.get(node.target))
    return node.target if node.op in ("call_function", "call_method") else None


def is_relu(node: Any, modules: dict[str, Any]) -> bool:
    return kind_of(node, modules) in RELU


def quantised_op(node: Any) -> str | None:
    """The name of the operator by whose scale the result is, of functions that have one."""
    return BY_SCALE.get(node.target) if node.op == "call_function" else None
