"""torch.ao.quantization: layers with int8 weights, and what chooses their scales.

Dynamic quantisation of linear layers and LSTMs, and static quantisation of linear layers between
`QuantStub` and `DeQuantStub`. Other layers and quantisation of graphs are refused.
"""

from __future__ import annotations

from rushlight.quantization.convert import (
    QConfig,
    QuantWrapper,
    convert,
    default_dynamic_qconfig,
    default_fake_quant,
    default_observer,
    default_per_channel_weight_observer,
    default_qconfig,
    default_weight_observer,
    per_channel_dynamic_qconfig,
    prepare,
    propagate_qconfig_,
    quantize,
    quantize_dynamic,
)
from rushlight.quantization.layers import DeQuantStub, QuantStub
from rushlight.quantization.observers import (
    FakeQuantize,
    FakeQuantizeBase,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
)

__all__ = [
    "DeQuantStub",
    "FakeQuantize",
    "FakeQuantizeBase",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "QConfig",
    "QuantStub",
    "QuantWrapper",
    "convert",
    "default_dynamic_qconfig",
    "default_fake_quant",
    "default_observer",
    "default_per_channel_weight_observer",
    "default_qconfig",
    "default_weight_observer",
    "per_channel_dynamic_qconfig",
    "prepare",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
]
