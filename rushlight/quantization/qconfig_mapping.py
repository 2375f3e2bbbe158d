"""Which configuration each part of a model has: by its class or function, its name, its place."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from rushlight import nn
from rushlight.nn import functional
from rushlight.opset import registry
from rushlight.quantization import fakes
from rushlight.quantization import observers as watch
from rushlight.quantization.qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

# The ways to name parts, the weakest first, and what torch's dicts call them.
STYLES = {
    "global_qconfig": "", "object_type_qconfigs": "object_type",
    "module_name_regex_qconfigs": "module_name_regex", "module_name_qconfigs": "module_name",
    "module_name_object_type_order_qconfigs": "module_name_object_type_order",
}  # fmt: skip


class QConfigMapping:
    """Configurations of parts of a model. Names win over classes, and these over what is global."""

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Any, Any] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[Any, Any] = OrderedDict()

    def set_global(self, global_qconfig: Any) -> QConfigMapping:
        """Of all that has no configuration of its own."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: Any) -> QConfigMapping:
        """Of a class of modules, a function, or a method by its name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: Any) -> QConfigMapping:
        """Of modules whose names match; the expression that was set first wins."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> QConfigMapping:
        """Of the module of this name, and those within it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Any, index: int, qconfig: Any
    ) -> QConfigMapping:
        """Of the n-th call of a class or function within a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self) -> str:
        lines = []
        for style in STYLES:
            found = getattr(self, style)
            lines.append(f"\n {style}")
            if isinstance(found, OrderedDict) and found:
                lines += [f"\n  {key}: {qconfig}" for key, qconfig in found.items()]
            else:
                lines.append(f"\n  {found}")
        return f"QConfigMapping ({''.join(lines)}\n)"

    def to_dict(self) -> dict[str, Any]:
        """As torch's older programs write it."""
        made: dict[str, Any] = {}
        for style, key in STYLES.items():
            found = getattr(self, style)
            if key.endswith("order"):
                made[key] = [(*parts, qconfig) for parts, qconfig in found.items()]
            else:
                made[key] = list(found.items()) if key else found
        return made

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        made = cls().set_global(qconfig_dict.get(""))
        for key in list(STYLES.values())[1:]:
            for entry in qconfig_dict.get(key, ()):
                getattr(made, f"set_{key}")(*entry)
        return made


def fixed_ranges() -> dict[Any, Any]:
    """What has a known range, and what says so."""
    upper, both = (
        watch.default_fixed_qparams_range_0to1_observer,
        watch.default_fixed_qparams_range_neg1to1_observer,
    )
    return {
        nn.Hardsigmoid: upper, functional.hardsigmoid: upper, "hardsigmoid": upper,
        "hardsigmoid_": upper, nn.Sigmoid: upper, registry.public("sigmoid"): upper,
        "sigmoid": upper, "sigmoid_": upper, nn.Softmax: upper, nn.Tanh: both,
        registry.public("tanh"): both, "tanh": both, "tanh_": both,
    }  # fmt: skip


def mapping_of(qconfig: Any, is_qat: bool, backend: str) -> QConfigMapping:
    weight = fakes.default_weight_fake_quant if is_qat else watch.default_weight_observer
    made = QConfigMapping().set_global(qconfig)
    made.set_object_type("reshape", default_reuse_input_qconfig)
    # These engines have no scale for each channel where a convolution is transposed.
    by_tensor = backend in ("fbgemm", "x86")
    transposed = QConfig(qconfig.activation, weight) if by_tensor else qconfig
    for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d):
        made.set_object_type(kind, transposed)
    for dims in (1, 2, 3):
        made.set_object_type(getattr(functional, f"conv_transpose{dims}d"), transposed)
    unweighted = QConfig(qconfig.activation, watch.default_placeholder_observer)
    for norm in (functional.layer_norm, nn.LayerNorm):
        made.set_object_type(norm, unweighted)
    made.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    for op, observer in fixed_ranges().items():
        activation = (
            fakes.FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
        )
        made.set_object_type(op, QConfig(activation, weight))
    return made


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """What watches a model's parts before it is converted."""
    return mapping_of(get_default_qconfig(backend, version), False, backend)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """What rounds a model's parts while it learns."""
    return mapping_of(get_default_qat_qconfig(backend, version), True, backend)


def everywhere(made: QConfigMapping, qconfig: Any) -> QConfigMapping:
    """The mapping with one configuration but for what has a known range."""
    known = fixed_ranges()
    made.set_global(qconfig)
    for part in made.object_type_qconfigs:
        if part not in known:
            made.set_object_type(part, qconfig)
    return made


def _get_symmetric_qnnpack_qconfig_mapping() -> QConfigMapping:
    made = get_default_qconfig_mapping("qnnpack")
    return everywhere(made, default_symmetric_qnnpack_qconfig)


def _get_symmetric_qnnpack_qat_qconfig_mapping() -> QConfigMapping:
    made = get_default_qat_qconfig_mapping("qnnpack")
    return everywhere(made, default_symmetric_qnnpack_qat_qconfig)
