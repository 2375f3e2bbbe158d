"""Which quantised layer takes the place of which float one."""

from __future__ import annotations

import copy
from typing import Any

from rushlight import nn
from rushlight.nn import functional
from rushlight.nn.transformer import NonDynamicallyQuantizableLinear
from rushlight.quantization import (
    convs,
    dynamic,
    embeddings,
    fakes,
    functionals,
    memoryless,
    static,
    training,
)
from rushlight.quantization import intrinsic as nni
from rushlight.quantization.intrinsic import type_of
from rushlight.quantization.static import operator
from rushlight.quantization.stubs import DeQuantStub, QuantStub

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS",
    "DEFAULT_MODULE_TO_ACT_POST_PROCESS", "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS", "get_default_compare_output_module_list",
    "get_default_dynamic_quant_module_mappings", "get_default_float_to_quantized_operator_mappings",
    "get_default_qat_module_mappings", "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings", "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings", "get_embedding_static_quant_module_mappings",
    "get_quantized_operator", "get_static_quant_module_class",
]  # fmt: skip


def by_name(source: Any, target: Any, names: str) -> dict[Any, Any]:
    """Classes of one module to those of another that are called the same."""
    return {getattr(source, name): getattr(target, name) for name in names.split()}


CONVS = "Conv1d Conv2d Conv3d"
TRANSPOSED = "ConvTranspose1d ConvTranspose2d ConvTranspose3d"

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: static.Quantize,
    DeQuantStub: static.DeQuantize,
    **by_name(
        nn, static,
        "BatchNorm2d BatchNorm3d Dropout ELU GroupNorm Hardswish InstanceNorm1d InstanceNorm2d "
        "InstanceNorm3d LayerNorm LeakyReLU Linear ReLU6 PReLU",
    ),
    **by_name(nn, convs, f"{CONVS} {TRANSPOSED}"),
    **by_name(nn, embeddings, "Embedding EmbeddingBag"),
    NonDynamicallyQuantizableLinear: static.Linear,
    functionals.FloatFunctional: functionals.QFunctional,
    **by_name(nni, static, "BNReLU2d BNReLU3d LinearReLU LinearLeakyReLU LinearTanh"),
    **by_name(nni, convs, "ConvReLU1d ConvReLU2d ConvReLU3d ConvAdd2d ConvAddReLU2d"),
    **{getattr(training, f"ConvBn{n}d"): getattr(convs, f"Conv{n}d") for n in (1, 2, 3)},
    **{getattr(training, f"ConvBnReLU{n}d"): getattr(convs, f"ConvReLU{n}d") for n in (1, 2, 3)},
    **by_name(training, convs, "ConvReLU2d ConvReLU3d Conv2d Conv3d"),
    **by_name(training, static, "LinearReLU Linear"),
    training.LinearBn1d: static.Linear,
}  # fmt: skip

DEFAULT_QAT_MODULE_MAPPINGS: dict[Any, Any] = {
    **by_name(nn, training, "Conv2d Conv3d Linear"),
    NonDynamicallyQuantizableLinear: training.Linear,
    **by_name(
        nni, training,
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d "
        "ConvReLU3d LinearReLU LinearBn1d",
    ),
}  # fmt: skip

DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    **by_name(nn, dynamic, "GRUCell Linear LSTM GRU LSTMCell RNNCell"),
    memoryless.Linear: dynamic.Linear,
    NonDynamicallyQuantizableLinear: dynamic.Linear,
    nni.LinearReLU: dynamic.LinearReLU,
    **by_name(nn, embeddings, "EmbeddingBag Embedding"),
}

DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: dict[Any, Any] = {
    getattr(functional, name): operator(name)
    for name in ("elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu", "dropout")
}

DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict[Any, Any] = {
    nn.Hardsigmoid: fakes.default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: fakes.default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: fakes.default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: fakes.default_fixed_qparams_range_neg1to1_fake_quant,
}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """For `convert` after calibration or training."""
    return copy.copy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """For `prepare_qat`."""
    return copy.copy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """For `quantize_dynamic`."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """For `convert`, with embeddings that learnt to be quantised."""
    return {
        **DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        **by_name(training, embeddings, "EmbeddingBag Embedding"),
    }


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """For `prepare_qat`, with embeddings."""
    return {**DEFAULT_QAT_MODULE_MAPPINGS, **by_name(nn, training, "EmbeddingBag Embedding")}


def found_in(table: dict[Any, Any], cls: Any, additional: Any) -> Any:
    found = {**table, **(additional or {})}.get(cls)
    if found is None:
        raise AssertionError(
            f"Floating point module class {cls} does not have a corresponding quantized module "
            "class"
        )
    return found


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: Any = None,
    is_reference: bool = False,
) -> Any:  # fmt: skip
    """The quantised class of a float class."""
    table = DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    return found_in(table, float_module_class, additional_static_quant_mapping)


def get_dynamic_quant_module_class(
    float_module_class: Any, additional_dynamic_quant_mapping: Any = None
) -> Any:
    """The class with quantised weights of a float class."""
    table = DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    return found_in(table, float_module_class, additional_dynamic_quant_mapping)


def get_default_qconfig_propagation_list() -> set[Any]:
    """Classes whose results are watched."""
    return {
        *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, *DEFAULT_QAT_MODULE_MAPPINGS,
        *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, nn.Sequential,
    }  # fmt: skip


def get_default_compare_output_module_list() -> set[Any]:
    """Classes whose results are worth comparing before and after."""
    tables = (
        DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS,
        DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    )  # fmt: skip
    found: set[Any] = set()
    for table in tables:
        found |= {*table, *table.values()}
    return found


def get_default_float_to_quantized_operator_mappings() -> dict[Any, Any]:
    """Functions of floats, and what computes them of quantised tensors."""
    return copy.copy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op: Any) -> Any:
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def fixed_range_of(module: Any) -> Any:
    """What watches a module in training whose results fill a known range; None for others."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_of(module)) if module.training else None
