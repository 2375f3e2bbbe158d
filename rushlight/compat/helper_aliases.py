"""Private names of torch that stand for `helpers` and for others' public names. Data only."""

from __future__ import annotations

from rushlight.compat.finder import Entry

_OURS = ".compat.helpers"


def bare(names: str, module: str = _OURS) -> dict[str, str]:
    return {name: f"{module}:{name.lstrip('_')}" for name in names.split()}


_SIZES = bare("_single _pair _triple", ".nn.sizes")
_FUNCTIONAL = {
    **_SIZES,
    **bare("_list_with_default _none_or_dtype _get_softmax_dim _verify_batch_size _in_projection"),
    "_canonical_mask": ".nn.attention:canonical_mask",
    "_mha_shape_check": ".nn.attention:check_ranks",
    "_in_projection_packed": ".nn.attention:project_together",
}
_OPTIMISERS = {
    **bare("_get_value _view_as_real _get_scalar_dtype _to_scalar _disable_dynamo_if_unsupported"),
    "_stack_if_compiling": f"{_OURS}:unchanged",
}

HELPER_ALIASES: dict[str, Entry] = {
    "torch._utils": {
        **bare(
            "_flatten_dense_tensors _unflatten_dense_tensors _take_tensors _reorder_tensors_as "
            "_import_dotted_name classproperty"
        ),
    },
    "torch.utils.data.dataloader": bare("_collate_fn_t _worker_init_fn_t"),
    "torch.nn.modules.utils": bare("_list_with_default"),
    "torch.nn.modules.module": bare("_addindent"),
    "torch.nn.modules.container": bare("_addindent"),
    "torch.nn.modules.conv": {
        "_ConvTransposeMixin": ".nn.conv:Transposed",
        **_SIZES,
        **bare("_reverse_repeat_tuple", ".nn.sizes"),
    },
    "torch.nn.modules.pooling": {
        **_SIZES,
        "_AvgPoolNd": ".nn.pooling:AnyAvgPool",
        "_MaxPoolNd": ".nn.pooling:MaxPool",
        "_MaxUnpoolNd": ".nn.pooling:MaxUnpool",
        "_LPPoolNd": ".nn.pooling:LPPool",
        "_AdaptiveAvgPoolNd": ".nn.pooling:AdaptiveAvgPool",
        "_AdaptiveMaxPoolNd": ".nn.pooling:AdaptiveMaxPool",
        "*": ".nn",
    },
    "torch.nn.modules.padding": {
        "_CircularPadNd": ".nn.padding:CircularPad",
        "_ConstantPadNd": ".nn.padding:ConstantPad",
        "_ReflectionPadNd": ".nn.padding:ReflectionPad",
        "_ReplicationPadNd": ".nn.padding:ReplicationPad",
        "*": ".nn",
    },
    "torch.nn.modules.linear": {
        "NonDynamicallyQuantizableLinear": ".nn.transformer:NonDynamicallyQuantizableLinear",
        "*": ".nn",
    },
    "torch.nn._reduction": {
        "get_enum": ".nn.functional.loss:reduction_number",
        "legacy_get_string": ".nn.functional.loss:legacy_reduction",
    },
    "torch.nn.utils.stateless": bare("_reparametrize_module"),
    "torch.distributions.transforms": bare("_clipped_sigmoid", ".distributions.transforms"),
    "torch.functional": {"F": ".nn.functional"},
    "torch": {
        "legacy_contiguous_format": ".core.device:contiguous_format",
        **bare("eig lstsq matrix_rank solve symeig _has_compatible_shallow_copy_type"),
        "_disable_dynamo": ".compiler:disable",
    },
    "torch.utils._triton": bare("has_triton"),
    "torch._tensor_str": bare("_add_suffixes _str_intern"),
    "torch.amp.grad_scaler": {"_refresh_per_optimizer_state": ".amp.scaler:fresh_state"},
    "torch.optim.optimizer": {**_OPTIMISERS, "StateDict": "builtins:dict"},
    "torch.optim._functional": ".optim.functional",
    "torch.utils.tensorboard.writer": {"SummaryWriter": ".utils.tensorboard:SummaryWriter"},
    "torch.utils.tensorboard.summary": {"hparams": ".utils.tensorboard:hparams"},
    "torch.utils.tensorboard._convert_np": {"make_np": ".utils.tensorboard:as_array"},
    "torch.onnx": {
        "TrainingMode": ".onnx.modes:TrainingMode",
        "OperatorExportTypes": ".onnx.modes:OperatorExportTypes",
    },
    "torch._subclasses.fake_tensor": {
        "unset_fake_temporarily": ".core.fake:unset_fake_temporarily",
    },
    "torch.nn.modules.transformer": {
        "_get_clones": f"{_OURS}:clones",
        "_get_seq_len": f"{_OURS}:seq_len",
        "_detect_is_causal_mask": f"{_OURS}:detect_is_causal_mask",
        "_generate_square_subsequent_mask": ".nn.transformer:subsequent_mask",
    },
    "torch.nn.modules.rnn": {"apply_permutation": f"{_OURS}:apply_permutation", "*": ".nn"},
    "torch.nn.functional": _FUNCTIONAL,
    "torch.nn.init": {"_no_grad_trunc_normal_": ".nn.init:trunc_normal_"},
    "torch.nn.utils.clip_grad": {
        "_clip_grads_with_norm_": ".nn.utils.clip_grad:clip_grads_with_norm_",
        "_get_total_norm": ".nn.utils.clip_grad:get_total_norm",
    },
    "torch.nn.parameter": {
        **bare("_disabled_torch_function_impl", ".core.modes"),
        "_ParameterMeta": ".core.parameter:ParameterType",
    },
    "torch._C": {"_is_tracing": ".jit:is_tracing", **bare("_get_cudnn_enabled")},
    "torch.nn.parallel.distributed": bare("_find_tensors"),
    "torch.optim.adam": _OPTIMISERS,
    "torch.optim.sgd": _OPTIMISERS,
    "torch.serialization": {
        **bare("_is_path _is_zipfile"),
        "_get_layout": ".io.rebuild:layout_of",
    },
    "torch.utils.checkpoint": bare("_get_autocast_kwargs _infer_device_type"),
    "torch.fx.node": {"_get_qualified_name": ".graph.names:qualified_name"},
    "torch.fx.graph": {
        "_get_qualified_name": ".graph.names:qualified_name",
        "_snake_case": ".graph.names:snake_case",
    },
    "torch.cuda": {"_get_device_index": ".compat.private:get_device_index"},
    "torch.cuda._utils": {"_get_device_index": ".compat.private:get_device_index"},
    "torch._jit_internal": bare(
        "BroadcastingList1 BroadcastingList2 BroadcastingList3 BroadcastingList4 BroadcastingList5 "
        "BroadcastingList6"
    ),
}
