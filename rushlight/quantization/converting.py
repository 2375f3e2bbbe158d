"""Models from floats to integers: layers are watched or learn, then quantised ones replace them."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

from rushlight import nn
from rushlight.base.errors import MissingFeature
from rushlight.core import dtype as dtypes
from rushlight.nn.utils.parametrize import is_parametrized
from rushlight.quantization import mappings
from rushlight.quantization import qconfig as configs
from rushlight.quantization.functionals import FloatFunctional, QFunctional
from rushlight.quantization.intrinsic import _FusedModule, type_of
from rushlight.quantization.observers import QINT8, QUINT4X2, QUINT8, is_watching
from rushlight.quantization.stubs import DeQuantStub, QuantWrapper

__all__ = [
    "add_quant_dequant", "convert", "default_eval_fn", "get_default_custom_config_dict",
    "no_observer_set", "prepare", "prepare_qat", "propagate_qconfig_", "quantize",
    "quantize_dynamic", "quantize_qat", "swap_module",
]  # fmt: skip

# Layers that torch makes of several others before it watches them.
COMPOSED = (nn.LSTM, nn.MultiheadAttention)
CUSTOM_FROM = "float_to_observed_custom_module_class"
CUSTOM_TO = "observed_to_quantized_custom_module_class"


def get_default_custom_config_dict() -> dict[str, Any]:
    """Classes of one's own: what is watched in their place, and what that becomes."""
    return {CUSTOM_FROM: {}, CUSTOM_TO: {}}


def no_observer_set() -> set[Any]:
    """Classes whose results are not watched, for what is within them is."""
    return set()


def default_eval_fn(model: Any, calib_data: Any) -> None:
    """Calls the model with the inputs of pairs of input and target."""
    for data, _target in calib_data:
        model(data)


# -- who has which configuration -------------------------------------------------------------------


def propagate_qconfig_(
    module: Any, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None
) -> None:
    """Gives each module the `qconfig` of its name, its class, or of the module around it."""
    skipped = prepare_custom_config_dict or {}
    names = skipped.get("non_traceable_module_name", [])
    classes = skipped.get("non_traceable_module_class", [])

    def spread(module: Any, config: Any, prefix: str) -> None:
        table = qconfig_dict or {}
        config = table.get(prefix, table.get(type_of(module), config))
        config = getattr(module, "qconfig", config)
        configs.check_module(config, module)
        module.qconfig = config
        for name, child in module.named_children():
            if name not in names and type(child) not in classes:
                spread(child, config, f"{prefix}.{name}" if prefix else name)

    spread(module, None, "")


def has_config(module: Any) -> bool:
    return getattr(module, "qconfig", None) is not None


def children_of(module: Any) -> list[tuple[str, Any]]:
    """The parts of a module, but for the parametrisations of its weights."""
    skip = "parametrizations" if is_parametrized(module) else None
    return [(name, child) for name, child in module.named_children() if name != skip]


# -- watching --------------------------------------------------------------------------------------


def _observer_forward_hook(self: Any, input: Any, output: Any) -> Any:
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self: Any, input: Any) -> Any:
    return self.activation_post_process(input[0])


def watch(module: Any, make: Any = None) -> None:
    """Its results pass through an observer; where each is watched for itself, its inputs do."""
    if not has_config(module) or isinstance(module, DeQuantStub):
        return
    module.add_module("activation_post_process", (make or module.qconfig.activation)())
    if configs.is_memoryless(module.qconfig):
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def watch_all(module: Any, classes: Any, others: Any, custom: dict[Any, Any]) -> None:
    """Observers for a module and its parts, where these are of the classes."""
    for name, child in module.named_children():
        kind = type_of(child)
        fixed = mappings.fixed_range_of(child)
        if kind is nn.Dropout:
            continue
        if issubclass(kind, (FloatFunctional, QFunctional)):
            if has_config(child):
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _FusedModule) or kind in others:
            watch(child)
        elif fixed is not None:
            watch(child, fixed)
        elif has_config(child) and kind in custom:
            observed = custom[kind].from_float(child)
            setattr(module, name, observed)
            watch(observed)
        elif has_config(child) and kind in COMPOSED and kind in classes:
            raise MissingFeature(
                f"static quantisation of {kind.__name__}",
                "Set its qconfig to None, or use quantize_dynamic.",
                code="RL0012",
            )
        else:
            watch_all(child, classes, others, custom)
    alone = not children_of(module) or hasattr(module, "weight_fake_quant")
    if alone and not isinstance(module, nn.Sequential) and type_of(module) in classes:
        watch(module)


def prepare(
    model: Any, inplace: bool = False, allow_list: Any = None,
    observer_non_leaf_module_list: Any = None, prepare_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The model with observers: call it with data, then `convert` it."""
    custom = (prepare_custom_config_dict or {}).get(CUSTOM_FROM, {})
    model = model if inplace else copy.deepcopy(model)
    classes = allow_list
    if classes is None:
        classes = mappings.get_default_qconfig_propagation_list()
    propagate_qconfig_(model)
    if not any(has_config(module) for module in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration "
            "through `qconfig_dict` or by assigning the `.qconfig` attribute directly on "
            "submodules",
            stacklevel=2,
        )
    watch_all(model, classes, observer_non_leaf_module_list or (), custom)
    return model


def prepare_qat(model: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """The model with layers whose weights are rounded, and whose results are: train it."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    if mapping is None:
        mapping = mappings.get_default_qat_module_mappings()
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


def add_quant_dequant(module: Any) -> Any:
    """Stubs around each layer that has a configuration."""
    if not children_of(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


# -- replacing -------------------------------------------------------------------------------------


def swap_module(
    mod: Any, mapping: Any, custom_module_class_mapping: Any,
    use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """What takes the place of a module, with its hooks; the module itself where nothing does."""
    if not has_config(mod):
        return mod
    kind = type_of(mod)
    if kind in custom_module_class_mapping:
        made = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        make = mapping[kind].from_float
        # Classes of users may know nothing of this.
        knows = "use_precomputed_fake_quant" in inspect.signature(make).parameters
        options = {"use_precomputed_fake_quant": use_precomputed_fake_quant} if knows else {}
        made = make(mod, **options)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            made.register_forward_hook(hook)
    return made


def replace_parts(module: Any, mapping: Any, custom: Any, precomputed: bool) -> None:
    made = {}
    for name, child in module.named_children():
        if not isinstance(child, _FusedModule) and type_of(child) not in custom:
            replace_parts(child, mapping, custom, precomputed)
        made[name] = swap_module(child, mapping, custom, precomputed)
    for name, child in made.items():
        module._modules[name] = child


def convert(
    module: Any, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True,
    is_reference: bool = False, convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """The model with quantised layers for those that were watched."""
    if is_reference:
        raise MissingFeature(
            "convert to reference modules", "Leave out is_reference.", code="RL0012"
        )
    module = module if inplace else copy.deepcopy(module)
    if mapping is None:
        mapping = mappings.get_default_static_quant_module_mappings()
    custom = (convert_custom_config_dict or {}).get(CUSTOM_TO, {})
    replace_parts(module, mapping, custom, use_precomputed_fake_quant)
    if remove_qconfig:
        forget(module)
    return module


def forget(module: Any) -> None:
    """No configuration and no observer in a module and its parts."""
    for child in module.children():
        forget(child)
    vars(module).pop("qconfig", None)
    if is_watching(getattr(module, "activation_post_process", None)):
        del module.activation_post_process
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        ours = (_observer_forward_pre_hook, _observer_forward_hook)
        for number in [number for number, hook in hooks.items() if hook in ours]:
            del hooks[number]


# -- in one call -----------------------------------------------------------------------------------


def quantize(
    model: Any, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False
) -> Any:
    """Watches the model while `run_fn(model, *run_args)` calls it, and converts it."""
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Any, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """Trains the model by `run_fn(model, *run_args)` with rounded weights, and converts it."""
    model = model if inplace else copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


RECURRENT = (nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
# What is quantised without being named, and how.
DYNAMIC: dict[Any, Any] = {
    QINT8: ((nn.Linear, *RECURRENT), configs.default_dynamic_qconfig),
    dtypes.float16: ((nn.Linear, *RECURRENT), configs.float16_dynamic_qconfig),
    QUINT8: ((nn.EmbeddingBag, nn.Embedding), configs.float_qparams_weight_only_qconfig),
    QUINT4X2: ((nn.EmbeddingBag,), configs.float_qparams_weight_only_qconfig_4bit),
}


def quantize_dynamic(
    model: Any, qconfig_spec: Any = None, dtype: Any = QINT8, mapping: Any = None,
    inplace: bool = False,
) -> Any:  # fmt: skip
    """Layers with int8 weights; what they take is quantised as it comes.

    `qconfig_spec` is a set of classes and names of modules, or a dict from them to a `QConfig`.

    >>> import rushlight as torch
    >>> from rushlight.quantization import quantize_dynamic
    >>> quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(2, 2)))[0].weight().dtype
    torch.qint8
    """
    if not isinstance(qconfig_spec, dict):
        if dtype not in DYNAMIC:
            raise ValueError(
                f"Don't know how to quantize with default settings for {dtype}. Provide full "
                "qconfig please"
            )
        usual, config = DYNAMIC[dtype]
        qconfig_spec = dict.fromkeys(usual if qconfig_spec is None else qconfig_spec, config)
    if mapping is None:
        mapping = mappings.get_default_dynamic_quant_module_mappings()
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model
