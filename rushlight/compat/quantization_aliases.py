"""The modules of torch.ao, their older paths, and where rushlight keeps what they name. Data only.

torch has each class in a module of its own below `modules`; see `aliases` for the form.
"""

from __future__ import annotations

from rushlight.compat.finder import REFUSES, Entry

MISSING = REFUSES + "RL0012"
PACKAGE = ".quantization"


def all_of(module: str, names: str = "") -> dict[str, str]:
    """What a module of rushlight's has, with the names that refuse when they are used."""
    return {"*": f"{PACKAGE}.{module}".rstrip("."), **dict.fromkeys(names.split(), MISSING)}


def named(module: str, names: str) -> dict[str, str]:
    return {name: f"{PACKAGE}.{module}:{name}" for name in names.split()}


_JIT = (
    "convert_dynamic_jit convert_jit fuse_conv_bn_jit prepare_dynamic_jit prepare_jit "
    "quantize_dynamic_jit quantize_jit script_qconfig script_qconfig_dict"
)
_SPARSE = (
    "get_default_dynamic_sparse_quant_module_mappings "
    "get_default_static_sparse_quant_module_mappings"
)
_CUSTOM = "ConvertCustomConfig FuseCustomConfig PrepareCustomConfig"
_BACKENDS = (
    "BackendConfig BackendPatternConfig DTypeConfig DTypeWithConstraints ObservationType "
    "get_fbgemm_backend_config get_native_backend_config get_native_backend_config_dict "
    "get_onednn_backend_config get_qnnpack_backend_config get_tensorrt_backend_config "
    "get_x86_backend_config"
)
_UNHELPFUL = (
    "NodePattern check_node determine_qparams get_fqn_to_example_inputs "
    "get_swapped_custom_module_class"
)
_REFERENCE = "get_default_static_quant_reference_module_mappings"
_LATER = (
    "AffineQuantizedObserverBase Granularity MappingType PerAxis PerBlock PerGroup PerRow "
    "PerTensor PerToken TorchAODType ZeroPointDomain get_block_size"
)
_OBSERVERS = {
    **all_of("observers", _LATER),
    "_PartialWrapper": f"{PACKAGE}.observers:Made",
    "_is_activation_post_process": f"{PACKAGE}.observers:is_watching",
    "_with_args": f"{PACKAGE}.observers:with_args",
}
_CONVERTING = all_of("converting")
_FUSING = all_of("fusing")
_MAPPINGS = {
    **all_of("mappings", f"{_SPARSE} {_REFERENCE}"),
    **named("converting", "no_observer_set"),
}
# Modules of torch.ao.quantization, and of torch.quantization.
_TOOLS: dict[str, dict[str, str]] = {
    "": {
        "*": PACKAGE,
        **dict.fromkeys(f"{_JIT} {_SPARSE} {_REFERENCE} {_LATER}".split(), MISSING),
        **named("fusing", "fuse_modules fuse_modules_qat fuse_known_modules"),
        **named("converting", "quantize"),
        **named("utils", "MatchAllNode Pattern QuantType get_combined_dict"),
        "ObserverOrFakeQuantize": f"{PACKAGE}.observers:ObserverBase",
        "WeightObserver": MISSING,
    },
    ".observer": _OBSERVERS,
    ".fake_quantize": all_of("fakes"),
    "._learnable_fake_quantize": named("fakes", "_LearnableFakeQuantize"),
    ".qconfig": {
        **all_of("qconfig"),
        "_activation_is_memoryless": f"{PACKAGE}.qconfig:is_memoryless",
    },
    ".qconfig_mapping": all_of("qconfig_mapping"),
    ".stubs": all_of("stubs"),
    ".fuse_modules": _FUSING,
    ".fuser_method_mappings": _FUSING,
    ".quantization_mappings": _MAPPINGS,
    ".quantize": _CONVERTING,
    ".quantize_jit": dict.fromkeys(_JIT.split(), MISSING),
    ".quantize_fx": {
        **all_of("graphs", "BackendConfig get_tensorrt_backend_config"),
        **named("qconfig_mapping", "QConfigMapping"),
        **named("graphs.customs", _CUSTOM),
        **dict.fromkeys(["ObservedGraphModule", "GraphModule"], ".fx:GraphModule"),
        "Scope": ".fx.proxy:Scope",
        "ScopeContextManager": ".fx.proxy:ScopeContextManager",
    },
    ".fx.custom_config": named("graphs.customs", _CUSTOM),
    ".fx.graph_module": {"ObservedGraphModule": ".fx:GraphModule"},
    ".backend_config": dict.fromkeys(_BACKENDS.split(), MISSING),
    ".utils": all_of("utils", _UNHELPFUL),
    ".quant_type": named("utils", "QuantType"),
    "._correct_bias": dict.fromkeys(["bias_correction", "MeanShadowLogger"], MISSING),
    "._equalize": dict.fromkeys(["cross_layer_equalization", "equalize"], MISSING),
    ".quantize_pt2e": dict.fromkeys(["convert_pt2e", "prepare_pt2e", "prepare_qat_pt2e"], MISSING),
}

_FLOAT = all_of("intrinsic")
_NORMED = named(
    "training",
    "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU1d ConvReLU2d "
    "ConvReLU3d freeze_bn_stats update_bn_stats",
)
_LINEAR_NORM = named("training", "LinearBn1d")
_LINEAR_RELU = named("training", "LinearReLU")
_BN_RELU = named("static", "BNReLU2d BNReLU3d")
_CONV_ADD = named("convs", "ConvAdd2d ConvAddReLU2d")
_CONV_RELU = named("convs", "ConvReLU1d ConvReLU2d ConvReLU3d")
_FUSED_LINEAR = named("static", "LinearLeakyReLU LinearReLU LinearTanh")
_CONVS = "Conv1d Conv2d Conv3d"
_SIX_CONVS = f"{_CONVS} ConvTranspose1d ConvTranspose2d ConvTranspose3d"
_CELLS = "GRU GRUCell LSTM LSTMCell RNNCell"
_QUANTIZED_PARTS: dict[str, dict[str, str]] = {
    "activation": {
        **named("static", "ELU Hardswish LeakyReLU PReLU ReLU6 Sigmoid Softmax"),
        "MultiheadAttention": MISSING,
    },
    "batchnorm": named("static", "BatchNorm2d BatchNorm3d"),
    "conv": named("convs", _SIX_CONVS),
    "dropout": named("static", "Dropout"),
    "embedding_ops": all_of("embeddings"),
    "functional_modules": all_of("functionals"),
    "linear": named("static", "Linear LinearPackedParams"),
    "normalization": named(
        "static", "GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm"
    ),
    "rnn": {"LSTM": MISSING},
    "utils": {
        **named("weighted", "WeightedQuantizedModule"),
        "_quantize_weight": f"{PACKAGE}.weighted:quantized_weight",
    },
}
_QUANTIZED = {
    **{
        name: target
        for part, names in _QUANTIZED_PARTS.items()
        if part not in ("embedding_ops", "functional_modules", "utils")
        for name, target in names.items()
        if name != "LinearPackedParams"
    },
    **named("embeddings", "Embedding EmbeddingBag"),
    **named("functionals", "FXFloatFunctional FloatFunctional QFunctional"),
    **named("static", "DeQuantize Quantize"),
    "MaxPool2d": ".nn:MaxPool2d",
}
_DYNAMIC = named("dynamic", f"{_SIX_CONVS} {_CELLS} Linear")
_QAT = {**named("training", f"{_CONVS} Embedding EmbeddingBag Linear")}
_QUANTIZABLE = dict.fromkeys(["LSTM", "LSTMCell", "MultiheadAttention"], MISSING)
_REFERENCE_MODULES = dict.fromkeys(
    (
        f"{_SIX_CONVS} Embedding EmbeddingBag {_CELLS} Linear RNNBase RNNCellBase "
        "ReferenceQuantizedModule get_quantized_weight"
    ).split(),
    MISSING,
)
# Modules of torch.ao.nn, and of torch.nn; a list has its own module and one called `modules`.
_LAYERS: dict[str, dict[str, str]] = {
    "intrinsic.modules.fused": {**_FLOAT, **named("intrinsic", "_FusedModule")},
    "intrinsic.qat.modules.conv_fused": _NORMED,
    "intrinsic.qat.modules.linear_fused": _LINEAR_NORM,
    "intrinsic.qat.modules.linear_relu": _LINEAR_RELU,
    "intrinsic.quantized.modules.bn_relu": _BN_RELU,
    "intrinsic.quantized.modules.conv_add": _CONV_ADD,
    "intrinsic.quantized.modules.conv_relu": _CONV_RELU,
    "intrinsic.quantized.modules.linear_relu": _FUSED_LINEAR,
    "intrinsic.quantized.dynamic.modules.linear_relu": named("dynamic", "LinearReLU"),
    "qat.modules.conv": named("training", _CONVS),
    "qat.modules.embedding_ops": named("training", "Embedding EmbeddingBag"),
    "qat.modules.linear": named("training", "Linear"),
    "qat.dynamic.modules.linear": named("memoryless", "Linear"),
    **{f"quantized.modules.{part}": names for part, names in _QUANTIZED_PARTS.items()},
    "quantized.dynamic.modules.conv": named("dynamic", _SIX_CONVS),
    "quantized.dynamic.modules.linear": named("dynamic", "Linear"),
    "quantized.dynamic.modules.rnn": named(
        "dynamic", f"{_CELLS} PackedParameter RNNBase RNNCellBase pack_weight_bias"
    ),
    "quantized.functional": all_of("functional"),
    "quantizable.modules.activation": dict.fromkeys(["MultiheadAttention"], MISSING),
    "quantizable.modules.rnn": dict.fromkeys(["LSTM", "LSTMCell"], MISSING),
    **{
        f"quantized.{name}.modules.{part}": _REFERENCE_MODULES
        for name in ("reference", "_reference")
        for part in ("conv", "linear", "rnn", "sparse", "utils")
    },
    **{
        f"{path}{below}": names
        for path, names in {
            "intrinsic": {**_FLOAT, **named("intrinsic", "_FusedModule")},
            "intrinsic.qat": {**_NORMED, **_LINEAR_NORM, **_LINEAR_RELU},
            "intrinsic.quantized": {**_BN_RELU, **_CONV_ADD, **_CONV_RELU, **_FUSED_LINEAR},
            "intrinsic.quantized.dynamic": named("dynamic", "LinearReLU"),
            "qat": _QAT,
            "qat.dynamic": named("memoryless", "Linear"),
            "quantizable": _QUANTIZABLE,
            "quantized": _QUANTIZED,
            "quantized.dynamic": _DYNAMIC,
            "quantized.reference": _REFERENCE_MODULES,
            "quantized._reference": _REFERENCE_MODULES,
        }.items()
        for below in ("", ".modules")
    },
}

QUANTIZATION_ALIASES: dict[str, Entry] = {
    **{
        root + module: names
        for root in ("torch.ao.quantization", "torch.quantization")
        for module, names in _TOOLS.items()
    },
    **{
        f"{root}.{module}": names
        for root in ("torch.ao.nn", "torch.nn")
        for module, names in _LAYERS.items()
    },
}
# Modules whose names are those of functions in the package around them.
HIDDEN_TOOLS = [
    f"{root}.{name}"
    for root in ("torch.ao.quantization", "torch.quantization")
    for name in ("fuse_modules", "quantize")
]

_COMPARING = (
    "Logger NSTracer OutputLogger Shadow ShadowLogger add_loggers add_shadow_loggers "
    "compare_model_outputs compare_model_stub compare_weights "
    "extend_logger_results_with_comparison extract_logger_info extract_shadow_logger_info "
    "extract_weights get_logger_dict get_matching_activations prepare_model_outputs "
    "prepare_model_with_stubs"
)
QUANTIZATION_ALIASES |= {
    f"{root}.{name}": dict.fromkeys(_COMPARING.split(), MISSING)
    for root in ("torch.quantization", "torch.ao.ns")
    for name in ("_numeric_suite", "_numeric_suite_fx")
}
