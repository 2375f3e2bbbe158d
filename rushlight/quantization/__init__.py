"""torch.ao.quantization: models from floats to integers, and what chooses their scales.

Three ways: weights alone, with inputs that are quantised as they come (`quantize_dynamic`); whole
models that are watched first (`prepare`, `convert`); and models that learn with rounded numbers
(`prepare_qat`, `convert`). Every name is imported when first used.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace

# Module -> the names of torch.ao.quantization that it has.
NAMES = {
    ".observers": (
        "FixedQParamsObserver HistogramObserver MinMaxObserver MovingAverageMinMaxObserver "
        "MovingAveragePerChannelMinMaxObserver NoopObserver ObserverBase PerChannelMinMaxObserver "
        "PlaceholderObserver RecordingObserver ReuseInputObserver UniformQuantizationObserverBase "
        "default_affine_fixed_qparams_observer default_debug_observer "
        "default_dynamic_quant_observer default_fixed_qparams_range_0to1_observer "
        "default_fixed_qparams_range_neg1to1_observer default_float_qparams_observer "
        "default_float_qparams_observer_4bit default_histogram_observer default_observer "
        "default_per_channel_weight_observer default_placeholder_observer "
        "default_reuse_input_observer default_symmetric_fixed_qparams_observer "
        "default_weight_observer get_observer_state_dict load_observer_state_dict "
        "per_channel_weight_observer_range_neg_127_to_127 weight_observer_range_neg_127_to_127"
    ),
    ".fakes": (
        "FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FusedMovingAvgObsFakeQuantize "
        "default_affine_fixed_qparams_fake_quant default_dynamic_fake_quant "
        "default_embedding_fake_quant default_embedding_fake_quant_4bit default_fake_quant "
        "default_fixed_qparams_range_0to1_fake_quant "
        "default_fixed_qparams_range_neg1to1_fake_quant default_fused_act_fake_quant "
        "default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant "
        "default_histogram_fake_quant default_per_channel_weight_fake_quant "
        "default_symmetric_fixed_qparams_fake_quant default_weight_fake_quant disable_fake_quant "
        "disable_observer enable_fake_quant enable_observer "
        "fused_per_channel_wt_fake_quant_range_neg_127_to_127 "
        "fused_wt_fake_quant_range_neg_127_to_127"
    ),
    ".qconfig": (
        "QConfig QConfigAny QConfigDynamic default_activation_only_qconfig default_debug_qconfig "
        "default_dynamic_qat_qconfig default_dynamic_qconfig default_embedding_qat_qconfig "
        "default_embedding_qat_qconfig_4bit default_per_channel_qconfig "
        "default_per_channel_symmetric_qnnpack_qat_qconfig "
        "default_per_channel_symmetric_qnnpack_qconfig default_qat_qconfig "
        "default_qat_qconfig_v2 default_qconfig default_quint8_weight_qconfig "
        "default_reuse_input_qconfig default_symmetric_qnnpack_qat_qconfig "
        "default_symmetric_qnnpack_qconfig default_weight_only_qconfig float16_dynamic_qconfig "
        "float16_static_qconfig float_qparams_weight_only_qconfig "
        "float_qparams_weight_only_qconfig_4bit get_default_qat_qconfig "
        "get_default_qat_qconfig_dict get_default_qconfig get_default_qconfig_dict "
        "per_channel_dynamic_qconfig qconfig_equals"
    ),
    ".qconfig_mapping": (
        "QConfigMapping get_default_qat_qconfig_mapping get_default_qconfig_mapping"
    ),
    ".stubs": "DeQuantStub QuantStub QuantWrapper",
    ".fusing": (
        "fuse_conv_bn fuse_conv_bn_relu fuse_convtranspose_bn fuse_linear_bn fuse_modules "
        "fuse_modules_qat get_fuser_method get_fuser_method_new"
    ),
    ".mappings": (
        "get_default_compare_output_module_list get_default_dynamic_quant_module_mappings "
        "get_default_float_to_quantized_operator_mappings get_default_qat_module_mappings "
        "get_default_qconfig_propagation_list get_default_static_quant_module_mappings "
        "get_dynamic_quant_module_class get_embedding_qat_module_mappings "
        "get_embedding_static_quant_module_mappings get_quantized_operator "
        "get_static_quant_module_class"
    ),
    ".converting": (
        "add_quant_dequant convert default_eval_fn get_default_custom_config_dict "
        "no_observer_set prepare prepare_qat propagate_qconfig_ quantize quantize_dynamic "
        "quantize_qat swap_module"
    ),
}
HOMES = {name: module for module, names in NAMES.items() for name in names.split()}

__all__ = list(HOMES)

__getattr__, __dir__ = namespace(__name__, HOMES)
