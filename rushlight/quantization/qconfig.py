"""What watches layers and their weights: configurations, and those that torch has for engines."""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.nn.linear import Identity
from rushlight.nn.module import Module
from rushlight.quantization import fakes
from rushlight.quantization import observers as watch
from rushlight.quantization.observers import (
    QINT8,
    QUINT8,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    PlaceholderObserver,
)

__all__ = [
    "QConfig", "QConfigAny", "QConfigDynamic", "default_activation_only_qconfig",
    "default_debug_qconfig", "default_dynamic_qat_qconfig", "default_dynamic_qconfig",
    "default_embedding_qat_qconfig", "default_embedding_qat_qconfig_4bit",
    "default_per_channel_qconfig", "default_per_channel_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig", "default_qat_qconfig",
    "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig", "default_symmetric_qnnpack_qat_qconfig",
    "default_symmetric_qnnpack_qconfig", "default_weight_only_qconfig",
    "float16_dynamic_qconfig", "float16_static_qconfig", "float_qparams_weight_only_qconfig",
    "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict", "get_default_qconfig", "get_default_qconfig_dict",
    "per_channel_dynamic_qconfig", "qconfig_equals",
]  # fmt: skip


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """What watches a layer's results, and its weight: classes, or `Observer.with_args(...)`."""

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> Any:
        refuse_instances(cls.__name__, activation, weight)
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """torch's older name of a `QConfig` whose results stay floats."""

    __slots__ = ()

    def __new__(cls, activation: Any = Identity, weight: Any = Identity) -> Any:
        warnings.warn(
            "`QConfigDynamic` is going to be deprecated in PyTorch 1.12, please use `QConfig` "
            "instead",
            FutureWarning,
            stacklevel=2,
        )
        refuse_instances(cls.__name__, weight)
        return super().__new__(cls, activation, weight)


def refuse_instances(name: str, *given: Any) -> None:
    if any(isinstance(each, Module) for each in given):
        raise ValueError(
            f"{name} received observer instance, please pass observer class instead. Use "
            "MyObserver.with_args(x=1) to override arguments to constructor if needed"
        )


default_qconfig = QConfig(watch.default_observer, watch.default_weight_observer)
default_debug_qconfig = QConfig(watch.default_debug_observer, watch.default_weight_observer)
default_per_channel_qconfig = QConfig(
    watch.default_observer, watch.default_per_channel_weight_observer
)
default_dynamic_qconfig = QConfig(
    watch.default_dynamic_quant_observer, watch.default_weight_observer
)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=dtypes.float16, is_dynamic=True),
    PlaceholderObserver.with_args(dtype=dtypes.float16),
)
float16_static_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=dtypes.float16),
    PlaceholderObserver.with_args(dtype=dtypes.float16),
)
per_channel_dynamic_qconfig = QConfig(
    watch.default_dynamic_quant_observer, watch.default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    watch.default_placeholder_observer, watch.default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    watch.default_placeholder_observer, watch.default_float_qparams_observer_4bit
)
default_qat_qconfig = QConfig(fakes.default_fake_quant, fakes.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(
    fakes.default_dynamic_fake_quant, fakes.default_weight_fake_quant
)
default_weight_only_qconfig = QConfig(Identity, fakes.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fakes.default_fake_quant, Identity)
default_qat_qconfig_v2 = QConfig(
    fakes.default_fused_act_fake_quant, fakes.default_fused_wt_fake_quant
)
default_reuse_input_qconfig = QConfig(watch.default_reuse_input_observer, watch.NoopObserver)
default_embedding_qat_qconfig = QConfig(
    watch.NoopObserver.with_args(dtype=dtypes.float32), fakes.default_embedding_fake_quant
)
default_embedding_qat_qconfig_4bit = QConfig(
    watch.NoopObserver.with_args(dtype=dtypes.float32), fakes.default_embedding_fake_quant_4bit
)
default_quint8_weight_qconfig = QConfig(HistogramObserver, watch.MinMaxObserver)

# Results and weights of signed bytes, and steps that are not too small for XNNPACK.
SIGNED: dict[str, Any] = {"dtype": QINT8, "reduce_range": False, "eps": 2**-12}
default_symmetric_qnnpack_qconfig, default_per_channel_symmetric_qnnpack_qconfig = [
    QConfig(HistogramObserver.with_args(**SIGNED), weight)
    for weight in (
        watch.weight_observer_range_neg_127_to_127,
        watch.per_channel_weight_observer_range_neg_127_to_127,
    )
]
default_symmetric_qnnpack_qat_qconfig, default_per_channel_symmetric_qnnpack_qat_qconfig = [
    QConfig(
        fakes.FusedMovingAvgObsFakeQuantize.with_args(
            observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **SIGNED
        ),
        weight,
    )
    for weight in (
        fakes.fused_wt_fake_quant_range_neg_127_to_127,
        fakes.fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    )
]
_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=dtypes.float32),
    PlaceholderObserver.with_args(dtype=dtypes.float32),
)
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=QUINT8), None)


# -- by engine -------------------------------------------------------------------------------------

# Whether results use seven bits, and whether weights have a scale for each channel.
ENGINES = {
    "fbgemm": (True, True), "x86": (True, True), "qnnpack": (False, False),
    "onednn": (False, True),
}  # fmt: skip


def facts_of(backend: str) -> tuple[bool, bool]:
    if backend not in ENGINES:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {list(ENGINES)}"
        )
    return ENGINES[backend]


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """What watches a model before it is converted."""
    short, by_channel = facts_of(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version number "
            "must be 0"
        )
    weight = (
        watch.default_per_channel_weight_observer if by_channel else watch.default_weight_observer
    )
    return QConfig(HistogramObserver.with_args(reduce_range=short), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """What rounds a model's numbers while it learns."""
    short, by_channel = facts_of(backend)
    if version == 0:
        made, weights = fakes.FakeQuantize, (
            fakes.default_weight_fake_quant, fakes.default_per_channel_weight_fake_quant,
        )  # fmt: skip
    elif version == 1:
        made, weights = fakes.FusedMovingAvgObsFakeQuantize, (
            fakes.default_fused_wt_fake_quant, fakes.default_fused_per_channel_wt_fake_quant,
        )  # fmt: skip
    else:
        raise AssertionError(
            f"Version number: {version} in get_default_qat_qconfig is not supported. Version "
            "number must be 0 or 1"
        )
    range_of = {} if backend == "onednn" else {"reduce_range": short}
    activation = made.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **range_of
    )
    return QConfig(activation, weights[by_channel])


def as_dict(name: str, mapping: Any) -> Any:
    warnings.warn(
        f"`torch.ao.quantization.{name}_dict` is deprecated and will be removed in a future "
        f"version. Please use `torch.ao.quantization.{name}_mapping` instead.",
        FutureWarning,
        stacklevel=3,
    )
    return mapping.to_dict()


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    from rushlight.quantization.qconfig_mapping import get_default_qconfig_mapping

    return as_dict("get_default_qconfig", get_default_qconfig_mapping(backend, version))


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    from rushlight.quantization.qconfig_mapping import get_default_qat_qconfig_mapping

    return as_dict("get_default_qat_qconfig", get_default_qat_qconfig_mapping(backend, version))


# -- comparing them --------------------------------------------------------------------------------


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two configurations would make the same."""
    return bool(q1 == q2)


def is_memoryless(qconfig: Any) -> bool:
    """Whether results are watched each for itself, and so before the layer and not after it."""
    watching = qconfig.activation()
    watching = getattr(watching, "activation_post_process", watching)
    return bool(getattr(watching, "averaging_constant", None) == 1)


def check_module(qconfig: Any, module: Any) -> None:
    """Refuses what torch's quantised layers cannot compute."""
    if qconfig is None or qconfig.weight is None or not hasattr(module, "output_padding"):
        return
    if getattr(module, "transposed", False):
        by_channel = (watch.PerChannelMinMaxObserver,)
        if isinstance(qconfig.weight(), by_channel):
            raise AssertionError(
                "Per channel weight observer is not supported yet for ConvTranspose{n}d."
            )
