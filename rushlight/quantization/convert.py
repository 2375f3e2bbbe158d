"""Models from floats to integers: layers are watched, then replaced by quantised ones."""

from __future__ import annotations

import copy
from collections import namedtuple
from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.nn.activation import ReLU
from rushlight.nn.dropout import Dropout
from rushlight.nn.flatten import Flatten
from rushlight.nn.linear import Identity, Linear
from rushlight.nn.module import Module
from rushlight.nn.pooling import AdaptiveAvgPool2d, MaxPool2d
from rushlight.nn.recurrent import LSTM
from rushlight.quantization import layers
from rushlight.quantization.observers import (
    FakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
)

__all__ = [
    "QConfig", "QuantWrapper", "convert", "default_dynamic_qconfig", "default_fake_quant",
    "default_observer", "default_per_channel_weight_observer", "default_qconfig",
    "default_weight_observer", "per_channel_dynamic_qconfig", "prepare", "propagate_qconfig_",
    "quantize", "quantize_dynamic",
]  # fmt: skip

QINT8, QUINT8 = dtypes.BY_NAME["qint8"], dtypes.BY_NAME["quint8"]


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """What watches a layer's results, and its weight: classes, or `Observer.with_args(...)`."""

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> Any:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(
    dtype=QINT8, qscheme=schemes.per_tensor_symmetric
)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=QINT8, qscheme=schemes.per_channel_symmetric
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=QUINT8, quant_min=0, quant_max=255, is_dynamic=True
)
default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=QUINT8,
    qscheme=schemes.per_tensor_affine, reduce_range=True,
)  # fmt: skip
default_qconfig = QConfig(default_observer, default_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)

# What takes quantised numbers as it is.
UNCHANGED = (ReLU, Dropout, Flatten, Identity, AdaptiveAvgPool2d, MaxPool2d)


def children_replaced(module: Any, replace: Any) -> Any:
    """The module, with those that `replace` answers for in place of its own."""
    made = replace(module)
    if made is not None:
        return made
    for name, child in list(module.named_children()):
        new = children_replaced(child, replace)
        if new is not child:
            setattr(module, name, new)
    return module


# -- dynamic ---------------------------------------------------------------------------------------


def quantize_dynamic(
    model: Any, qconfig_spec: Any = None, dtype: Any = QINT8, mapping: Any = None,
    inplace: bool = False,
) -> Any:  # fmt: skip
    """Linear layers and LSTMs with int8 weights; what they take is quantised as it comes.

    `qconfig_spec` is a set of classes and names of modules, or a dict from them to a `QConfig`.

    >>> import rushlight as torch
    >>> from rushlight.quantization import quantize_dynamic
    >>> quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(2, 2)))[0].weight().dtype
    torch.qint8
    """
    if dtype is not QINT8:
        raise MissingFeature(f"quantize_dynamic with {dtype}", "Use torch.qint8.", code="RL0012")
    if mapping is not None:
        raise MissingFeature("quantize_dynamic with a mapping of one's own", code="RL0012")
    if qconfig_spec is None:
        qconfig_spec = {Linear, LSTM}
    if not isinstance(qconfig_spec, dict):
        qconfig_spec = dict.fromkeys(qconfig_spec, default_dynamic_qconfig)
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    names = {id(module): name for name, module in model.named_modules()}

    def replace(module: Any) -> Any:
        config = qconfig_spec.get(names[id(module)], qconfig_spec.get(type(module)))
        if config is None or (names[id(module)] == "" and not isinstance(module, (Linear, LSTM))):
            return None
        if type(module) is Linear:
            return layers.DynamicLinear.from_float(module, config.weight())
        if type(module) is LSTM:
            if module.proj_size:
                raise MissingFeature("quantised LSTMs with projections", code="RL0012")
            return layers.LSTM(module, config.weight)
        raise MissingFeature(f"quantize_dynamic of {type(module).__name__}", code="RL0012")

    return children_replaced(model, replace)


# -- static ----------------------------------------------------------------------------------------


class QuantWrapper(Module):
    """A model between where numbers become quantised and where they become floats again."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        config = getattr(module, "qconfig", None)
        self.quant, self.dequant = layers.QuantStub(config), layers.DeQuantStub(config)
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        return self.dequant(self.module(self.quant(X)))


def propagate_qconfig_(
    module: Any, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None
) -> None:
    """Gives each module the `qconfig` of the one around it, where it has none of its own."""

    def spread(module: Any, config: Any) -> None:
        config = getattr(module, "qconfig", config) if "qconfig" in vars(module) else config
        module.qconfig = config
        for child in module.children():
            spread(child, config)

    if qconfig_dict:
        raise MissingFeature("a qconfig_dict", "Set `qconfig` of modules.", code="RL0012")
    spread(module, None)


def prepare(model: Any, inplace: bool = False, **kwargs: Any) -> Any:
    """The model with observers: call it with data, then `convert` it."""
    if kwargs:
        raise MissingFeature(f"prepare with {', '.join(kwargs)}", code="RL0012")
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    for module in list(model.modules()):
        if module.qconfig is not None and type(module) in (Linear, layers.QuantStub):
            module.activation_post_process = module.qconfig.activation()
            module.register_forward_hook(observe)
    return model


def observe(module: Any, given: Any, result: Any) -> Any:
    return module.activation_post_process(result)


def convert(module: Any, mapping: Any = None, inplace: bool = False, **kwargs: Any) -> Any:
    """The model with quantised layers for those that were watched."""
    if mapping is not None or kwargs:
        raise MissingFeature("convert with a mapping of one's own", code="RL0012")
    module = module if inplace else copy.deepcopy(module)

    def replace(each: Any) -> Any:
        config = getattr(each, "qconfig", None)
        if config is None or not callable(getattr(each, "forward", None)):
            return None
        if type(each) is Linear:
            return layers.Linear.from_float(each, config.weight())
        if type(each) is layers.QuantStub:
            scale, zero_point = each.activation_post_process.calculate_qparams()
            return layers.Quantize(scale, zero_point, each.activation_post_process.dtype)
        if type(each) is layers.DeQuantStub:
            return layers.DeQuantize()
        if (
            any(each.children())
            or type(each) in UNCHANGED
            or type(each).__module__.find(".nn.") < 0
        ):
            return None
        raise MissingFeature(f"convert of {type(each).__name__}", code="RL0012")

    made = children_replaced(module, replace)
    for each in made.modules():
        vars(each).pop("qconfig", None)
    return made


def quantize(
    model: Any, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False
) -> Any:
    """Watches the model while `run_fn(model, *run_args)` calls it, and converts it."""
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)
