"""What programs ask of tracing and converting graphs beside configurations."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import MissingFeature

__all__ = [
    "ConvertCustomConfig",
    "FuseCustomConfig",
    "PrepareCustomConfig",
    "options_of",
    "refuse_others",
]


class CustomConfig:
    """Options by name, which `set_NAME` sets. Keys of torch's dicts are in `keys`."""

    keys: dict[str, str] = {}

    def __init__(self) -> None:
        for name in self.keys.values():
            setattr(self, name, {} if name.endswith("mapping") else [])

    def set(self, name: str, value: Any) -> Any:
        setattr(self, name, value)
        return self

    def set_preserved_attributes(self, attributes: list[str]) -> Any:
        """Attributes that the new model has too."""
        return self.set("preserved_attributes", attributes)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Any:
        made = cls()
        for key, name in cls.keys.items():
            if key in given:
                setattr(made, name, given[key])
        return made

    def to_dict(self) -> dict[str, Any]:
        return {key: getattr(self, name) for key, name in self.keys.items() if getattr(self, name)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"


class FuseCustomConfig(CustomConfig):
    keys = {"preserved_attributes": "preserved_attributes"}


class ConvertCustomConfig(CustomConfig):
    keys = {
        "observed_to_quantized_custom_module_class": "observed_to_quantized_mapping",
        "preserved_attributes": "preserved_attributes",
    }

    def set_observed_to_quantized_mapping(
        self, observed_class: type, quantized_class: type, quant_type: Any = 1
    ) -> Any:
        self.observed_to_quantized_mapping: dict[Any, Any]
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = (
            quantized_class
        )
        return self


class PrepareCustomConfig(CustomConfig):
    keys = {
        "float_to_observed_custom_module_class": "float_to_observed_mapping",
        "non_traceable_module_name": "non_traceable_module_names",
        "non_traceable_module_class": "non_traceable_module_classes",
        "input_quantized_idxs": "input_quantized_indexes",
        "output_quantized_idxs": "output_quantized_indexes",
        "preserved_attributes": "preserved_attributes",
        "standalone_module_name": "standalone_module_names",
        "standalone_module_class": "standalone_module_classes",
    }

    def set_non_traceable_module_names(self, module_names: list[str]) -> Any:
        """Modules that stay whole."""
        return self.set("non_traceable_module_names", module_names)

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> Any:
        """Classes of modules that stay whole."""
        return self.set("non_traceable_module_classes", module_classes)

    def set_input_quantized_indexes(self, indexes: list[int]) -> Any:
        return self.set("input_quantized_indexes", indexes)

    def set_output_quantized_indexes(self, indexes: list[int]) -> Any:
        return self.set("output_quantized_indexes", indexes)

    def set_standalone_module_name(self, module_name: str, *options: Any) -> Any:
        return self.set("standalone_module_names", [module_name])

    def set_standalone_module_class(self, module_class: type, *options: Any) -> Any:
        return self.set("standalone_module_classes", [module_class])

    def set_float_to_observed_mapping(
        self, float_class: type, observed_class: type, quant_type: Any = 1
    ) -> Any:
        self.float_to_observed_mapping: dict[Any, Any]
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self


# What nothing here does.
UNDONE = (
    "float_to_observed_mapping", "input_quantized_indexes", "output_quantized_indexes",
    "standalone_module_names", "standalone_module_classes", "observed_to_quantized_mapping",
)  # fmt: skip


def options_of(config: Any, cls: Any) -> Any:
    """The options of a configuration or a dict; those that would not be followed are refused."""
    if config is None:
        config = cls()
    elif isinstance(config, dict):
        config = cls.from_dict(config)
    for name in UNDONE:
        if getattr(config, name, None):
            raise MissingFeature(f"{name} of {cls.__name__}", code="RL0012")
    return config


def refuse_others(**given: Any) -> None:
    """Arguments of torch's that would change something and are not followed."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise MissingFeature(f"{name} in quantize_fx", f"Leave out {name}.", code="RL0012")
