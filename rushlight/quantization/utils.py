"""torch.ao.quantization.utils: questions about configurations, schemes and ranges."""

from __future__ import annotations

import enum
from functools import reduce
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.quantization.observers import (
    PER_CHANNEL,
    PER_TENSOR,
    QINT8,
    QINT32,
    QUINT4X2,
    QUINT8,
    PlaceholderObserver,
    limits,
    was_run,
)

__all__ = [
    "DEPRECATION_WARNING",
    "MatchAllNode",
    "Pattern",
    "QuantType",
    "activation_dtype",
    "activation_is_dynamically_quantized",
    "activation_is_int8_quantized",
    "activation_is_int32_quantized",
    "activation_is_statically_quantized",
    "calculate_qmin_qmax",
    "check_min_max_valid",
    "get_combined_dict",
    "get_qconfig_dtypes",
    "get_qparam_dict",
    "get_quant_type",
    "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations",
    "is_per_channel",
    "is_per_tensor",
    "op_is_int8_dynamically_quantized",
    "to_underlying_dtype",
    "validate_qmin_qmax",
    "weight_dtype",
    "weight_is_quantized",
    "weight_is_statically_quantized",
]  # fmt: skip

DEPRECATION_WARNING = "torch.ao.quantization is deprecated; torchao is where it goes on."
# What a pattern of a graph is: a class or function, or tuples of them.
Pattern = Any

BYTES = (QUINT8, QINT8, dtypes.uint8, dtypes.int8)
FLOAT8 = (dtypes.float8_e5m2, dtypes.float8_e4m3fn)
STATIC = (*BYTES, QUINT4X2, QINT32, dtypes.int16, dtypes.int32, *FLOAT8)
UNDERLYING = {
    QUINT8: dtypes.uint8, QINT8: dtypes.int8, QINT32: dtypes.int32, QUINT4X2: dtypes.uint8,
    **{
        dtype: dtype
        for dtype in (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, *FLOAT8)
    },
}  # fmt: skip


class MatchAllNode:
    """Stands in patterns for any node."""


class QuantType(enum.IntEnum):
    """What of a layer is quantised, and when."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


def get_combined_dict(default_dict: Any, additional_dict: Any) -> Any:
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme: Any) -> bool:
    return qscheme in PER_TENSOR


def is_per_channel(qscheme: Any) -> bool:
    return qscheme in PER_CHANNEL


def getattr_from_fqn(obj: Any, fqn: str) -> Any:
    """An attribute of an attribute: `conv.weight` of a model."""
    return reduce(getattr, fqn.split("."), obj)


def to_underlying_dtype(qdtype: Any) -> Any:
    """The dtype of the integers that numbers become."""
    if qdtype not in UNDERLYING:
        raise AssertionError(f"Unsupported dtype: {qdtype}")
    return UNDERLYING[qdtype]


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """The scheme that an observer has chosen, as a dict."""
    watching = observer_or_fake_quant
    scheme = getattr(watching, "qscheme", None)
    if not scheme or isinstance(watching, PlaceholderObserver):
        return {"qscheme": None, "dtype": watching.dtype}
    found: dict[str, Any] = {"qscheme": schemes.per_tensor_affine, "dtype": watching.dtype}
    if is_per_channel(scheme):
        symmetric = scheme is schemes.per_channel_symmetric
        found["qscheme"] = schemes.per_channel_affine if symmetric else scheme
        found["axis"] = watching.ch_axis
    found["scale"], found["zero_point"] = watching.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(watching, name):
            found[name] = getattr(watching, name)
    return found


def required(qconfig: Any, what: str) -> Any:
    if qconfig is None:
        raise AssertionError(f"qconfig must be provided to {what}")
    return qconfig


def activation_dtype(qconfig: Any) -> Any:
    return required(qconfig, "determine activation dtype").activation().dtype


def weight_dtype(qconfig: Any) -> Any:
    return required(qconfig, "determine weight dtype").weight().dtype


def get_qconfig_dtypes(qconfig: Any) -> tuple[Any, Any, bool]:
    """The dtypes of results and weights, and whether results are quantised as they come."""
    activation = required(qconfig, "extract dtypes").activation()
    return activation.dtype, qconfig.weight().dtype, getattr(activation, "is_dynamic", False)


def activation_is_dynamically_quantized(qconfig: Any) -> bool:
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_statically_quantized(qconfig: Any) -> bool:
    known = activation_dtype(qconfig) in (*STATIC, dtypes.float16)
    return known and not activation_is_dynamically_quantized(qconfig)


def activation_is_int8_quantized(qconfig: Any) -> bool:
    return activation_dtype(qconfig) in BYTES


def activation_is_int32_quantized(qconfig: Any) -> bool:
    return activation_dtype(qconfig) in (QINT32, dtypes.int32)


def weight_is_quantized(qconfig: Any) -> bool:
    return weight_dtype(qconfig) in (*STATIC, dtypes.float16)


def weight_is_statically_quantized(qconfig: Any) -> bool:
    return weight_dtype(qconfig) in BYTES


def op_is_int8_dynamically_quantized(qconfig: Any) -> bool:
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    unsigned, signed = (QUINT8, dtypes.uint8), (QINT8, dtypes.int8)
    return activation in unsigned and weight in signed and dynamic


def get_quant_type(qconfig: Any) -> QuantType:
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    if weight in (*STATIC, dtypes.float16):
        if dynamic:
            return QuantType.DYNAMIC
        if activation in STATIC or (weight is dtypes.float16 and activation is weight):
            return QuantType.STATIC
        if weight in STATIC:
            return QuantType.WEIGHT_ONLY
    raise Exception(
        "Unrecognized dtype combination in get_quant_type: "
        f"activation({activation}),weight({weight})"
    )


def check_min_max_valid(min_val: Any, max_val: Any) -> bool:
    """Whether there is a range; it warns where nothing was seen yet."""
    return was_run(min_val, max_val)


def calculate_qmin_qmax(
    quant_min: Any, quant_max: Any, has_customized_qrange: bool, dtype: Any, reduce_range: bool
) -> tuple[int, int]:
    """The integers that numbers become."""
    given = (quant_min, quant_max) if has_customized_qrange else (None, None)
    return limits(dtype, *given, reduce_range)


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    limits(QUINT8, quant_min, quant_max, False)


def has_no_children_ignoring_parametrizations(module: Any) -> bool:
    return not [name for name in module._modules if name != "parametrizations"]
