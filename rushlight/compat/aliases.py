"""Private torch paths, and the rushlight objects they stand for. Data only.

ALIASES maps a torch module path to
- a string: the rushlight module that is this module (state may be set on it), or
- a dict {attribute: "module:attribute"}; "module" alone gives the module itself, "refuses RL0000"
  what raises that code when it is used; the key "*" names a module that answers for other names.
  Where rushlight has a module of that path the dict adds to it, and the module's own names win;
  otherwise a module is built from it.
Names of features that are not there yet have the target ABSENT: asking for one is a MissingFeature.
A leading dot stands for `rushlight`. Targets are looked up on first access and then kept: no
line for a variable that is reassigned. Parents need no line of their own.
"""

from __future__ import annotations

from rushlight.compat.compile_aliases import COMPILE_ALIASES
from rushlight.compat.distributed_aliases import DISTRIBUTED
from rushlight.compat.finder import ABSENT, REFUSES, Entry
from rushlight.compat.helper_aliases import HELPER_ALIASES
from rushlight.compat.jit_aliases import MODULES, NATIVE
from rushlight.compat.public_aliases import PUBLIC_ALIASES, ROOT
from rushlight.compat.quantization_aliases import HIDDEN_TOOLS, QUANTIZATION_ALIASES


def same(module: str, names: str) -> dict[str, str]:
    """Names that are called the same in `module`."""
    return {name: f"{module}:{name}" for name in names.split()}


def bare(module: str, names: str) -> dict[str, str]:
    """Names that `module` has without torch's leading underscore."""
    return {name: f"{module}:{name.lstrip('_')}" for name in names.split()}


def absent(names: str) -> dict[str, str]:
    """Names that rushlight knows and does not have."""
    return dict.fromkeys(names.split(), ABSENT)


# Operators that torch.functional dresses in Python.
_UNDRESSED = same(
    ".opset.functions",
    "block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum istft meshgrid norm "
    "split stft tensordot unique_consecutive unique_dim",
)

# `functorch` lives in torch.func and a few private places; rushlight has no package of that name.
ROOTS = {"torch": "rushlight", "functorch": "rushlight.functorch"}

_AOT = "aot_function aot_module aot_module_simplified compiled_function compiled_module"
_PARTITION = "default_partition min_cut_rematerialization_partition"
_SYMBOLS = (
    "ShapeEnv DimDynamic SymbolicContext StatelessSymbolicContext StatefulSymbolicContext SymNode "
    "ShapeGuard RuntimeAssert ConstraintViolationError GuardOnDataDependentSymNode "
    "PendingUnbackedSymbolNotFound SymInt SymFloat SymBool guard_int guard_float guard_bool "
    "guard_scalar guard_size_oblivious guard_or_false guard_or_true statically_known_true "
    "statically_known_false definitely_true definitely_false expect_true hint_int has_hint "
    "is_symbolic is_concrete_int is_concrete_float is_concrete_bool free_symbols has_free_symbols "
    "sym_and sym_or sym_eq has_static_value guarding_hint_or_throw optimization_hint "
    "has_symbolic_sizes_strides is_nested_int "
    "free_unbacked_symbols has_free_unbacked_symbols CallMethodKey ConvertIntKey DivideByKey"
)

_PROXY = (
    "ProxyTorchDispatchMode disable_proxy_modes_tracing get_innermost_proxy_mode get_proxy_mode "
    "maybe_disable_fake_tensor_mode"
)
_TABLES = ".aot.decompositions.tables"
_REGIONS = (
    "strict_mode tag_activation_checkpoint wrap wrap_activation_checkpoint "
    "wrap_with_set_grad_enabled"
)
_OURS = ".compat.private"
_SELFTEST = ".opset.other.selftest"
_NN_MODULES = (
    "activation adaptive channelshuffle container distance flatten fold linear normalization "
    "padding pixelshuffle pooling rnn sparse transformer upsampling"
)
# The modules that torch has one distribution each in.
_DISTRIBUTIONS = (
    "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exponential "
    "fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal independent "
    "inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
    "lowrank_multivariate_normal mixture_same_family multinomial negative_binomial normal "
    "one_hot_categorical pareto poisson studentT transformed_distribution uniform von_mises "
    "weibull wishart"
)

# torch._C._dispatch_NAME -> the function of library.dispatcher.
_DISPATCH = (
    ("has_kernel", "has_kernel"),
    ("has_kernel_for_dispatch_key", "has_kernel_for_key"),
    ("has_kernel_for_any_dispatch_key", "has_kernel_for_any_key"),
    ("has_computed_kernel_for_dispatch_key", "has_computed_kernel_for_key"),
    ("kernel_for_dispatch_key_is_fallthrough", "is_fallthrough"),
    ("keys", "keys_of_tensor"),
    ("dump", "dump"),
    ("dump_table", "dump_table"),
    ("check_invariants", "check_invariants"),
    ("check_all_invariants", "check_all_invariants"),
    ("find_dangling_impls", "find_dangling_impls"),
    ("get_all_op_names", "all_op_names"),
    ("get_registrations_for_dispatch_key", "registrations_for_key"),
    ("print_registrations_for_dispatch_key", "print_registrations_for_key"),
    ("find_schema_or_throw", "find_schema"),
    ("key_name", "key_name"),
    ("key_parse", "key_parse"),
    ("key_set", "key_set"),
    ("keyset_full", "keyset_full"),
    ("keyset_to_string", "keyset_to_string"),
    ("num_backends", "num_backends"),
    ("is_alias_key", "is_alias_key"),
    ("is_included_in_alias", "is_included_in_alias"),
    ("isTensorSubclassLike", "is_subclass_like"),
    ("get_backend_keyset_from_autograd", "backend_keyset_from_autograd"),
    ("tls_is_dispatch_key_excluded", "is_key_excluded"),
    ("tls_is_dispatch_key_included", "is_key_included"),
    ("tls_set_dispatch_key_excluded", "set_key_excluded"),
    ("tls_local_include_set", "included_keys"),
    ("tls_local_exclude_set", "excluded_keys"),
)

# Modules that a function of their package hides: naming them must not bring them out.
_HOPS = "associative_scan cond flex_attention map out_dtype scan strict_mode while_loop wrap"
HIDDEN = frozenset(
    (
        "torch.autograd.gradcheck",
        "torch.export.unflatten",
        "torch.multiprocessing.spawn",
        "torch.nn.parallel.data_parallel",
        "torch.nn.parallel.parallel_apply",
        "torch.nn.parallel.replicate",
        *[f"torch._higher_order_ops.{name}" for name in _HOPS.split()],
        *HIDDEN_TOOLS,
    )
)

ALIASES: dict[str, Entry] = {
    # ------------------------------------------------------------ torch itself
    "torch": {
        **ROOT,
        **bare(_SELFTEST, "_test_autograd_multiple_dispatch"),
        **bare(_SELFTEST, "_test_autograd_multiple_dispatch_view"),
        **bare(_SELFTEST, "_test_autograd_multiple_dispatch_view_copy"),
        **bare(".symbolic.checks", "_check _check_index _check_is_size _check_not_implemented"),
        **bare(".symbolic.checks", "_check_type _check_value _check_with"),
        **bare(_OURS, "_check_tensor_all _check_tensor_all_with _shape_as_tensor"),
        "StorageBase": ".core.storage:Storage",
        "_segment_reduce": ".opset.functions:segment_reduce",
    },
    "torch._utils": {
        "is_compiling": ".compiler:is_compiling",
        **bare(_OURS, "_element_size _get_available_device_type _get_device_index"),
        **bare(_OURS, "_get_device_module"),
        **bare(".compat.pickles", "_rebuild_parameter _rebuild_parameter_with_state"),
        **bare(".compat.pickles", "_rebuild_tensor_v2 _rebuild_tensor_v3"),
        "_rebuild_tensor": ".compat.pickles:rebuild_plain",
        "_rebuild_qtensor": ".io.quantized:rebuild",
        "_rebuild_nested_tensor": ".io.nested:rebuild_packed",
        "_rebuild_sparse_tensor": ".io.rebuild:rebuild_sparse",
        "_rebuild_meta_tensor_no_storage": ".io.rebuild:rebuild_meta",
        "_rebuild_wrapper_subclass": ".io.rebuild:rebuild_wrapper",
        # torch: pickles name memory formats `torch._utils:torch.channels_last`.
        "torch": ".",
        **same(".data.failure", "ExceptionWrapper KeyErrorMessage"),
    },
    "torch.storage": {"_load_from_bytes": ".compat.pickles:load_from_bytes"},
    "torch._vmap_internals": {"_vmap": ".func.vmap:plain_vmap", "vmap": ".func.vmap:former_vmap"},
    "torch._tensor_str": {
        "PRINT_OPTS": ".core.format:_options",
        "_tensor_str": ".core.format:body_str",
        "_str": ".core.format:tensor_str",
        "printoptions": ".core.format:printoptions",
    },
    "torch.nested._internal.nested_tensor": {"_rebuild_njt": ".io.nested:rebuild_jagged"},
    "torch._tensor": {
        "Tensor": ".core.tensor:Tensor",
        "_rebuild_from_type_v2": ".compat.pickles:rebuild_from_type_v2",
    },
    "torch._guards": same(".core.fake", "active_fake_mode"),
    "torch._prims_common": same(_OURS, "is_contiguous_or_false"),
    "torch._ops": {
        **same(".core.op", "OpOverload OpOverloadPacket"),
        "ops": ".ops",
        "_OpNamespace": ".ops:OpNamespace",
        **same(".core.hop", "HigherOrderOperator"),
        "OperatorBase": ".core.op:OpOverload",
        "DispatchKey": ".core.keys:DispatchKey",
        "dl_open_guard": ".library.dispatcher:dl_open_guard",
    },
    "torch._jit_internal": {
        "_copy_to_script_wrapper": f"{_OURS}:copy_to_script_wrapper",
        "*": ".jit",
    },
    "torch._decomp": same(
        _TABLES,
        "core_aten_decompositions decomposition_table get_decompositions "
        "global_decomposition_table register_decomposition remove_decompositions",
    ),
    # ------------------------------------------------------------ torch._C
    "torch._C": {
        **NATIVE,
        **same(".", "is_grad_enabled Size Generator device dtype layout"),
        **same(".", "memory_format is_inference_mode_enabled"),
        **same(".cpu", "Stream Event"),
        "FunctionSchema": ".base.schema:Schema",
        "TensorBase": ".core.tensor:Tensor",
        "_TensorMeta": ".core.tensor:TensorType",
        "_TensorBase": ".core.tensor:Tensor",
        "_VariableFunctionsClass": ".",
        "_WeakTensorRef": ".autograd.graph:WeakTensorRef",
        "_LinAlgError": ".base.errors:LinAlgError",
        "_set_grad_enabled": ".autograd.grad_mode:write_grad",
        "_set_fwd_grad_enabled": ".autograd.forward_ad:_set_fwd_grad_enabled",
        "_is_fwd_grad_enabled": ".autograd.forward_ad:_is_fwd_grad_enabled",
        **bare(".core.state", "_stash_obj_in_tls _get_obj_in_tls _is_key_in_tls"),
        **bare(".autograd.engine", "_will_engine_execute_node _current_graph_task_id"),
        **bare(".autograd.engine", "_current_graph_task_execution_order _current_autograd_node"),
        **same(".core.modes", "DisableTorchFunction DisableTorchFunctionSubclass"),
        **bare(".core.modes", "_disabled_torch_function_impl _disabled_torch_dispatch_impl"),
        **bare(".core.modes", "_len_torch_dispatch_stack _len_torch_function_stack"),
        "_DisableTorchDispatch": ".core.modes:DisableTorchDispatch",
        **same(".core.keys", "DispatchKey DispatchKeySet"),
        **bare(".core.keys", "_AutoDispatchBelowAutograd _AutoDispatchBelowADInplaceOrView"),
        **bare(".core.keys", "_ExcludeDispatchKeyGuard _IncludeDispatchKeyGuard"),
        **bare(".core.keys", "_ForceDispatchKeyGuard"),
        **same(".build", "has_lapack has_mkl has_openmp has_spectral"),
        **{f"_dispatch_{name}": f".library.dispatcher:{target}" for name, target in _DISPATCH},
        **same(".library.dispatcher", "parse_schema"),
        **same(".build", "has_lapack has_mkl has_openmp has_spectral"),
        "_get_schema": ".library.dispatcher:get_schema",
        "_overlaps": ".library.dispatcher:overlap",
        "_parse_dispatch_key": ".library.dispatcher:key_parse",
        "_jit_get_all_schemas": ".library.dispatcher:all_schemas",
        "_jit_get_schemas_for_operator": ".library.dispatcher:schemas_of",
        **bare(".library.pydispatch", "_EnablePythonDispatcher _DisablePythonDispatcher"),
        "_SchemaInfo": ".library.schema_check:SchemaInfo",
        "Argument": ".base.schema:Argument",
        "_after_autograd_keyset": ".core.keys:AFTER_AUTOGRAD",
        "_after_ADInplaceOrView_keyset": ".core.keys:AFTER_VIEWS",
        "_RestorePythonTLSSnapshot": ".core.modes:enable_reentrant_dispatch",
        "_DisableAutocast": ".amp:DisableAutocast",
        "_are_functorch_transforms_active": ".func.nesting:has_levels",
        "_DisableFuncTorch": ".func.nesting:without_levels",
        **bare(".func.nesting", "_debug_only_display_vmap_fallback_warnings"),
        **bare(".func.nesting", "_debug_only_are_vmap_fallback_warnings_enabled"),
        **bare(_OURS, "_get_accelerator _get_default_device _get_privateuse1_backend_name"),
        **bare(_OURS, "_is_alias_of _is_torch_function_mode_enabled"),
        **bare(".base.logs", "_log_api_usage_once _log_api_usage_metadata"),
    },
    "torch._C._functions": {
        **same(".core.node", "AccumulateGrad"),
        **same(".core.history", "CopySlices"),
        **same(".autograd.function", "DelayedError UndefinedGrad"),
    },
    "torch._C._autograd": {
        "SavedTensor": ".core.node:SavedTensor",
        "_saved_tensors_hooks_is_enabled": ".autograd.graph:saved_tensors_hooks_enabled",
        "_saved_tensors_hooks_disable": ".autograd.graph:forbid_saved_tensors_hooks",
        "_saved_tensors_hooks_enable": ".autograd.graph:allow_saved_tensors_hooks",
        "_unsafe_set_version_counter": ".autograd.graph:unsafe_set_version_counter",
        **bare(".autograd.profiler", "_profiler_enabled"),
    },
    "torch._C._nn": {
        **bare(_SELFTEST, "_test_warn_in_autograd"),
        "pad_sequence": ".nn.utils.rnn:pad_sequence",
        "_parse_to": ".nn.module:parse_to",
        # Operators that torch.nn.functional has under other names.
        **same(
            ".opset.functions",
            "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d "
            "_upsample_nearest_exact2d _upsample_nearest_exact3d col2im cross_entropy_loss gelu_ "
            "hardsigmoid_ hardswish_ im2col log_sigmoid mish_ nll_loss_nd nll_loss2d "
            "reflection_pad1d reflection_pad2d reflection_pad3d relu6_ replication_pad1d "
            "replication_pad2d replication_pad3d rrelu_with_noise silu_ upsample_bicubic2d "
            "upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d "
            "upsample_nearest3d upsample_trilinear3d",
        ),
        "*": ".nn.functional",
    },
    "torch._VF": {**_UNDRESSED, "*": "."},
    "torch._C._VariableFunctions": {**_UNDRESSED, "*": "."},
    "torch._C._linalg": {"*": ".linalg"},
    "torch.nn.utils.prune": {
        "_compute_norm": ".nn.utils.prune:norms_along",
        "_compute_nparams_toprune": ".nn.utils.prune:count_to_prune",
        "_validate_pruning_amount": ".nn.utils.prune:check_count",
        "_validate_pruning_amount_init": ".nn.utils.prune:check_amount",
        "_validate_pruning_dim": ".nn.utils.prune:check_dim",
        "_validate_structured_pruning": ".nn.utils.prune:check_structured",
    },
    "torch._C._fft": {"*": ".fft"},
    "torch._C._special": {"*": ".special"},
    "torch.cuda.amp": ".amp.cuda",
    "torch.cpu.amp": ".amp.cpu",
    "torch.amp.autocast_mode": {
        "_cast": ".amp.custom:cast_tree",
        "_enter_autocast": ".amp.autocasting:enter_autocast",
        "_exit_autocast": ".amp.autocasting:exit_autocast",
        "*": ".amp",
    },
    "torch.amp.grad_scaler": {"*": ".amp"},
    "torch.profiler.profiler": {
        "_default_schedule_fn": ".profiler.stepped:record_always",
        "*": ".profiler",
    },
    # ------------------------------------------------------------ torch.autograd
    "torch.autograd": {
        "_calculate_shape": ".autograd.backward:calculate_shape",
        "_profiler_enabled": ".autograd.profiler:profiler_enabled",
        "_force_original_view_tracking": ".autograd.graph:force_original_view_tracking",
        "_unsafe_preserve_version_counter": (".autograd.graph:unsafe_preserve_version_counter"),
        "SavedTensor": ".core.node:SavedTensor",
        "anomaly_mode": ".autograd.anomaly",
    },
    "torch.autograd.anomaly_mode": ".autograd.anomaly",
    "torch.autograd.gradcheck": ".autograd.checking",
    "torch.autograd._functions": {"Resize": ".autograd.function:Resize"},
    "torch.autograd._functions.tensor": {"Resize": ".autograd.function:Resize"},
    "torch.autograd.function": bare(".autograd.function", "_SingleLevelFunction"),
    "torch.autograd.variable": {"Variable": ".autograd:Variable"},
    # ------------------------------------------------------------ torch.utils
    "torch.utils._pytree": ".base.pytree",
    "torch.utils._cxx_pytree": ".base.pytree",
    "torch.utils._foreach_utils": bare(
        ".optim.grouping",
        "_device_has_foreach_support _get_foreach_kernels_supported_devices "
        "_get_fused_kernels_supported_devices _group_tensors_by_device_and_dtype "
        "_has_foreach_support",
    ),
    "torch.utils._mode_utils": same(".core.modes", "no_dispatch"),
    "torch.utils._python_dispatch": {
        **same(".core.modes", "TorchDispatchMode return_and_correct_aliasing"),
        **same(".core.modes", "is_traceable_wrapper_subclass transform_subclass"),
        **bare(".core.modes", "_get_current_dispatch_mode _get_current_dispatch_mode_stack"),
        **bare(".core.modes", "_disable_current_modes _pop_mode_temporarily"),
        **same(".core.modes", "BaseTorchDispatchMode is_traceable_wrapper_subclass_type"),
    },
    "torch.overrides": bare(
        ".core.modes", "_get_current_function_mode _get_current_function_mode_stack"
    ),
    "torch.utils._contextlib": {
        "_DecoratorContextManager": ".autograd.grad_mode:Mode",
        "_NoParamDecoratorContextManager": ".autograd.grad_mode:NoParameterMode",
        **absent("context_decorator"),
    },
    "torch.utils.data": {"_DatasetKind": ".data.fetch:DatasetKind"},
    "torch.utils.data.dataloader": {
        "_DatasetKind": ".data.fetch:DatasetKind",
        "_BaseDataLoaderIter": ".data.iteration:LoaderIterator",
        "_SingleProcessDataLoaderIter": ".data.iteration:SingleIterator",
        "_MultiProcessingDataLoaderIter": ".data.iteration:WorkerIterator",
        "_InfiniteConstantSampler": ".data.sampler:EndlessSampler",
        "ExceptionWrapper": ".data.failure:ExceptionWrapper",
        **same(".data.loader", "BatchSampler RandomSampler SequentialSampler IterableDataset"),
        **same(".data.dataset", "Dataset"),
        **same(".data.sampler", "Sampler"),
    },
    "torch.utils.data._utils.collate": ".data.collate",
    "torch.utils.data._utils.pin_memory": same(".data.collate", "pin_memory"),
    "torch.utils.data._utils.worker": {
        **same(".data.worker", "WorkerInfo get_worker_info"),
        "_generate_state": ".data.worker:words_of_seed",
    },
    "torch.hub": {"_get_torch_home": ".hub:get_home", "tqdm": ".hub:tqdm"},
    "torch.utils.data._utils.fetch": {
        "_MapDatasetFetcher": ".data.fetch:MapFetcher",
        "_IterableDatasetFetcher": ".data.fetch:IterableFetcher",
    },
    # ------------------------------------------------------------ shapes, fakes, make_fx
    "torch._subclasses": {
        **same(".core.fake", "FakeTensor FakeTensorMode"),
        **absent("CrossRefFakeMode"),
    },
    "torch._subclasses.fake_tensor": {
        **same(".core.fake", "FakeTensor FakeTensorMode DynamicOutputShapeException is_fake"),
        **same(".core.fake", "DataDependentOutputException UnsupportedFakeTensorException"),
    },
    "torch._subclasses.schema_check_mode": ".library.schema_check",
    "torch._subclasses.functional_tensor": {
        **same(".core.functional", "FunctionalTensor"),
        **absent("FunctionalTensorMode"),
    },
    "torch.fx._pytree": ".graph.specs",
    "torch.fx._symbolic_trace": {
        "*": ".fx.tracing",
        "_wrapped_fns_to_patch": ".fx.tracing:WRAPPED_FUNCTIONS",
        "_wrapped_methods_to_patch": ".fx.tracing:WRAPPED_METHODS",
    },
    "torch.fx.graph_module": {
        **bare(".fx.graph_module", "_assign_attr _copy_attr _get_attr"),
        "_CodeOnlyModule": ".fx.graph_module:StateHolder",
        "_USER_PRESERVED_ATTRIBUTES_KEY": ".fx.graph_module:PRESERVED",
        "reduce_package_graph_module": "refuses RL0019",
    },
    "torch.fx.experimental.proxy_tensor": {
        **same(".aot.tracing", "make_fx is_sym_node"),
        **same(".aot.proxy", _PROXY),
    },
    "torch.fx.experimental.const_fold": ".fx.passes.const_fold",
    "torch.fx.experimental.normalize": ".fx.passes.normalize",
    "torch.fx.experimental.rewriter": ".fx.passes.rewriter",
    "torch.fx.experimental.symbolic_shapes": {
        **same(".symbolic", _SYMBOLS),
        "_constrain_range_for_size": ".symbolic:constrain_range_for_size",
        "constrain_range": ".symbolic:constrain_range",
        **same(".symbolic.constraints", "RelaxedUnspecConstraint StrictMinMaxConstraint"),
    },
    "torch.fx.experimental.sym_node": same(".symbolic", "SymNode"),
    "torch.utils._sympy.functions": same(
        ".symbolic", "FloorDiv CleanDiv Mod Max Min IntTrueDiv FloatTrueDiv ToFloat"
    ),
    "torch.utils._sympy.value_ranges": same(".symbolic", "ValueRanges ValueRangeError"),
    # ------------------------------------------------------------ higher-order ops
    "torch._higher_order_ops": {
        **same(".higher_order.cond", "cond"),
        **same(".higher_order.loops", "while_loop"),
        **same(".higher_order.mapping", "map"),
        **same(".higher_order.scans", "scan associative_scan"),
        **same(".higher_order.precision", "out_dtype"),
        **same(".higher_order.regions", _REGIONS),
        **same(".higher_order.writes", "auto_functionalized"),
        **same(".higher_order.effects", "with_effects"),
        **same(".higher_order.attention", "flex_attention"),
        **same(".amp.regions", "wrap_with_autocast"),
    },
    "torch._higher_order_ops.cond": same(".higher_order.cond", "cond cond_op"),
    "torch._higher_order_ops.map": same(".higher_order.mapping", "map map_impl"),
    "torch._higher_order_ops.while_loop": same(".higher_order.loops", "while_loop while_loop_op"),
    "torch._higher_order_ops.scan": same(".higher_order.scans", "scan scan_op"),
    "torch._higher_order_ops.associative_scan": same(
        ".higher_order.scans", "associative_scan associative_scan_op"
    ),
    "torch._higher_order_ops.out_dtype": same(".higher_order.precision", "out_dtype"),
    "torch._higher_order_ops.strict_mode": same(
        ".higher_order.regions", "strict_mode strict_mode_op"
    ),
    "torch._higher_order_ops.wrap": {
        **same(".higher_order.regions", _REGIONS),
        **same(".amp.regions", "wrap_with_autocast"),
    },
    "torch._higher_order_ops.auto_functionalize": same(
        ".higher_order.writes", "auto_functionalized"
    ),
    "torch._higher_order_ops.effects": {
        **same(".higher_order.effects", "with_effects"),
        "_EffectType": ".higher_order.effects:EffectType",
        "_register_effectful_op": ".higher_order.effects:register_effectful_op",
        "_get_effect": ".higher_order.effects:effect_of",
        "new_token_tensor": ".higher_order.effects:new_token",
    },
    "torch._higher_order_ops.flex_attention": same(".higher_order.attention", "flex_attention"),
    # ------------------------------------------------------------ compile
    **COMPILE_ALIASES,
    "torch._inductor": {
        "cudagraph_mark_step_begin": ".compiler:cudagraph_mark_step_begin",
        **same(_OURS, "list_mode_options"),
        **same(".deploy.faces", "aoti_compile_and_package aoti_load_package"),
        "aot_compile": ".deploy.faces:compile_graph_ahead",
    },
    "torch._inductor.package": {
        "load_package": ".deploy.faces:aoti_load_package",
        "AOTICompiledModel": ".deploy.loading:LoadedPackage",
    },
    "torch._inductor.config": ".codegen.config",
    "torch._inductor.decomposition": same(_TABLES, "decompositions select_decomp_table"),
    "torch._inductor.codecache": same(
        ".compiler.graphcache", "BypassFxGraphCache FxGraphCache compiled_fx_graph_hash"
    ),
    # ------------------------------------------------------------ ahead-of-time autograd, functorch
    "torch._functorch.config": ".aot.config",
    "torch._functorch.predispatch": {
        **bare(
            ".func.nesting",
            "_add_batch_dim _remove_batch_dim _vmap_decrement_nesting _vmap_increment_nesting",
        ),
        **same(".func.nesting", "lazy_load_decompositions"),
    },
    "torch._functorch.aot_autograd": ".aot.api",
    "torch._functorch._aot_autograd.autograd_cache": same(
        ".aot.cache", "AOTAutogradCache BypassAOTAutogradCache autograd_cache_key"
    ),
    "torch._functorch.partitioners": same(".aot.partition", _PARTITION),
    "torch._functorch.vmap": {
        "vmap": ".func:vmap",
        "_add_batch_dim": ".func.nesting:add_batch_dim",
        "_remove_batch_dim": ".func.nesting:remove_batch_dim",
        "is_batchedtensor": ".func.unwrapping:is_batched",
        **bare(".func.nesting", "_vmap_increment_nesting _vmap_decrement_nesting"),
        **bare(_OURS, "_maybe_remove_batch_dim"),
        **bare(".base.pytree", "_broadcast_to_and_flatten"),
        **same(".base.pytree", "tree_flatten tree_unflatten"),
        "_get_name": ".func.vmap:name_of",
        "Tensor": ".core.tensor:Tensor",
    },
    "torch._functorch.apis": {
        **same(".func", "vmap grad grad_and_value"),
        "chunk_vmap": ".compat.functorch:chunk_vmap",
    },
    "torch._functorch.eager_transforms": {
        "*": ".func",
        **bare(".func.nesting", "_wrap_for_grad _unwrap_for_grad"),
        "get_unwrapped": ".func.unwrapping:unwrapped",
        **bare(".func.checks", "_slice_argnums"),
    },
    "torch._functorch.functional_call": {
        **same(".func", "functional_call stack_module_state"),
        "construct_stacked_leaf": ".func.stateless:stacked_leaf",
    },
    "torch._functorch.batch_norm_replacement": same(".func", "replace_all_batch_norm_modules_"),
    "torch._functorch.make_functional": {"*": ".compat.make_functional"},
    "torch._functorch.deprecated": {"*": ".compat.functorch"},
    "torch._functorch.python_key": {"make_fx": ".aot.tracing:make_fx"},
    "torch._functorch.compilers": {"*": ".aot.compilers"},
    "torch._functorch.einops": {"rearrange": ".func:rearrange"},
    "torch._functorch.utils": {
        "unwrap_dead_wrappers": ".func.unwrapping:unwrap_dead_wrappers",
        # torch: lifts a refusal of `_SingleLevelFunction` inside of transforms.
        "enable_single_level_autograd_function": "contextlib:nullcontext",
    },
    "torch._functorch.pyfunctorch": {
        **same(".func.nesting", "TransformType RandomnessType"),
        "retrieve_current_functorch_interpreter": ".func.nesting:find_innermost",
        "retrieve_all_functorch_interpreters": ".func.nesting:list_levels",
    },
    "torch._functorch.autograd_function": {
        **same(".core.batching", "VmapInfo"),
        **same(".higher_order.regions", "autograd_function_apply"),
    },
    "torch._C._functorch": {
        **same(".func.nesting", "TransformType RandomnessType current_level"),
        **bare(".func.nesting", "_add_batch_dim _remove_batch_dim _unwrap_batched"),
        **bare(".func.nesting", "_vmap_increment_nesting _vmap_decrement_nesting"),
        **bare(".func.nesting", "_grad_increment_nesting _grad_decrement_nesting"),
        **bare(".func.nesting", "_jvp_increment_nesting _jvp_decrement_nesting"),
        **bare(".func.nesting", "_wrap_for_grad _unwrap_for_grad"),
        "CInterpreter": ".func.nesting:Interpreter",
        "maybe_current_level": ".func.nesting:find_current_level",
        "peek_interpreter_stack": ".func.nesting:find_innermost",
        "get_interpreter_stack": ".func.nesting:list_levels",
        "get_unwrapped": ".func.unwrapping:unwrapped",
        "is_batchedtensor": ".func.unwrapping:is_batched",
        "is_gradtrackingtensor": ".func.unwrapping:is_tracking",
        "is_functionaltensor": ".func.unwrapping:is_functional",
        "is_functorch_wrapped_tensor": ".func.unwrapping:is_wrapped",
        "is_dead_tensor_wrapper": ".func.unwrapping:is_dead",
        "unwrap_if_dead": ".func.unwrapping:unwrap_if_dead",
        "maybe_get_level": ".func.unwrapping:level_of",
        "dlevel": ".func.unwrapping:depth_of",
        **bare(
            ".func.nesting",
            "_set_vmap_fallback_enabled _is_vmap_fallback_enabled "
            "_set_vmap_fallback_warning_enabled",
        ),
        "maybe_get_bdim": ".func.unwrapping:batch_axis",
    },
    "functorch": {
        "*": ".compat.functorch",
        "make_fx": ".aot.tracing:make_fx",
        "__version__": ".:__version__",
    },
    "functorch.dim": ".func.dim",
    "functorch.einops": {"rearrange": ".func:rearrange"},
    "functorch.einops.rearrange": {"rearrange": ".func:rearrange"},
    "functorch._src.vmap": bare(
        ".func.nesting", "_add_batch_dim _remove_batch_dim _unwrap_batched"
    ),
    "functorch.compile": {
        **same(".aot.api", f"{_AOT} get_aot_compilation_context"),
        **same(".aot.compilers", "make_boxed_compiler make_boxed_func nop nnc_jit ts_compile"),
        **same(".aot.compilers", "memory_efficient_fusion"),
        **same(_TABLES, "default_decompositions get_decompositions"),
        "draw_graph": ".viz.programs:draw_graph",
        **absent("draw_graph_compile debug_compile minifier"),
        **absent("print_compile pythonkey_decompose get_aot_graph_name get_graph_being_compiled"),
        **same(".aot.partition", _PARTITION),
        "config": ".aot.config",
    },
    "functorch.experimental": {
        **same(".func", "functionalize hessian jacfwd jvp replace_all_batch_norm_modules_"),
        "chunk_vmap": ".compat.functorch:chunk_vmap",
    },
    "functorch.experimental.control_flow": {
        **same(".higher_order.cond", "cond"),
        **same(".higher_order.mapping", "map"),
    },
    # ------------------------------------------------------------ export
    "torch._export": {
        **same(".export.private", "capture_pre_autograd_graph"),
        **same(".deploy.faces", "aot_compile aot_load"),
    },
    "torch._export.utils": {
        **same(".export.private", "get_buffer get_param is_buffer is_param"),
        **same(".export.private", "get_lifted_tensor_constant is_lifted_tensor_constant"),
        **same(".export.records", "register_dataclass_as_pytree_node"),
    },
    "torch._export.verifier": ".export.verifier",
    "torch._export.converter": same(".export.converting", "TS2EPConverter"),
    "torch._export.tools": same(".export.reporting", "report_exportability"),
    "torch.export._swap": bare(".export.swapping", "_swap_modules"),
    "torch._export.pass_base": {
        "_ExportPassBaseDeprecatedDoNotUse": ".export.passes:GraphRebuilding",
    },
    "torch._export.passes.lift_constants_pass": same(".export.lifting", "lift_constants_pass"),
    "torch._export.serde.serialize": same(
        ".export.serde", "SerializeError SerializedArtifact deserialize serialize"
    ),
    "torch._export.serde.schema": same(".export.serde", "SCHEMA_VERSION TREESPEC_VERSION"),
    "torch.export.pt2_archive": same(".export.serde", "is_pt2_package"),
    "torch.export.pt2_archive._package": same(
        ".export.serde", "PT2ArchiveContents is_pt2_package load_pt2 package_pt2"
    ),
    "torch.export.graph_signature": ".export.signature",
    "torch.export.exported_program": {
        **same(".export.program", "ExportedProgram"),
        **same(".export.signature", "ModuleCallEntry ModuleCallSignature ConstantArgument"),
        **same(".export.signature", "CustomObjArgument ExportGraphSignature InputKind InputSpec"),
        **same(".export.signature", "OutputKind OutputSpec SymBoolArgument SymFloatArgument"),
        **same(".export.signature", "SymIntArgument TensorArgument TokenArgument"),
        "CustomDecompTable": ".export.decompositions:CustomDecompTable",
        **same(".export.decompositions", "default_decompositions"),
    },
    "torch.export._unlift": {
        "_unlift_exported_program_lifted_states": ".export.unlift:unlift_program",
    },
    "torch.export.unflatten": {
        **same(".export.unflattening", "FlatArgsAdapter InterpreterModule UnflattenedModule"),
        **same(".export.unflattening", "InterpreterModuleDispatcher unflatten"),
    },
    "torch.export.dynamic_shapes": {
        "Constraint": REFUSES + "RL0017",
        **same(".export", "AdditionalInputs Dim ShapesCollection dims dynamic_dim"),
        **same(".export", "refine_dynamic_shapes_from_suggested_fixes"),
        **bare(".export.dimensions", "_DerivedDim _DimHint _DimHintType"),
        "_Dim": ".export:Dim",
        "_combine_args": ".export.shapes:bound_arguments",
        "_IntWrapper": ".export.shapes:_IntWrapper",
    },
    "torch.export._draft_export": same(
        ".export.draft", "DraftExportReport FailureReport FailureType draft_export"
    ),
    "torch.export._trace": {
        "_export": ".export.private:export_at",
        "_export_for_training": ".export.private:export_for_training",
        "_export_to_torch_ir": ".export.private:export_to_torch_ir",
        "DEFAULT_EXPORT_DYNAMO_CONFIG": ".export.strict:DEFAULT_EXPORT_DYNAMO_CONFIG",
    },
    # ------------------------------------------------------------ jit, library
    "torch.library": {
        "_reserved_namespaces": ".library.registration:RESERVED",
    },
    "torch._custom_ops": {
        "custom_op": ".library.legacy:define_op",
        **same(".library.legacy", "impl impl_abstract impl_save_for_backward impl_backward"),
        "_destroy": ".library.legacy:destroy",
        "get_ctx": ".library:get_ctx",
    },
    "torch._custom_op.impl": {
        **same(".library.legacy", "custom_op CustomOp custom_op_from_existing get_op"),
        **same(".library.legacy", "global_registry parse_qualname RESERVED_NS supported_param"),
        **same(".library.legacy", "SUPPORTED_DEVICE_TYPE_TO_KEY validate_device_type"),
        **same(".library.legacy", "validate_function_matches_schema validate_namespace"),
        **same(".library.legacy", "validate_schema warn_deprecated"),
        "_find_custom_op": ".library.legacy:find_custom_op",
        "get_ctx": ".library:get_ctx",
        "infer_schema": ".library:infer_schema",
    },
    "torch._library": {
        **same(".library", "infer_schema triton_op"),
        "capture_triton": ".library:wrap_triton",
        "wrap_triton": ".library:wrap_triton",
        "register_fake_class": ".library.registration:register_fake_class",
    },
    "torch._library.custom_ops": same(".library.custom_ops", "CustomOpDef custom_op OPDEFS"),
    "torch._library.infer_schema": same(
        ".library.schemas",
        "infer_schema derived_types parse_return get_supported_param_types SUPPORTED_RETURN_TYPES",
    ),
    "torch._library.fake_impl": {"FakeImplCtx": ".library.registration:FakeContext"},
    "torch._library.fake_class_registry": same(
        ".library.registration", "register_fake_class deregister_fake_class has_fake_class"
    ),
    "torch._library.utils": {
        "parse_namespace": ".library.registration:parse_qualname",
        "lookup_op": ".library.registration:find_op",
        **same(".library.helpers", "is_builtin is_functional_schema fill_defaults zip_schema"),
        **same(".library.helpers", "is_tensor_like_type is_tensorlist_like_type"),
        **same(".library.helpers", "mutates_and_returns_first_arg has_kwarg_only_args"),
        **same(".library.helpers", "has_kwarg_only_tensors has_tensor_arg mutated_args_kwargs"),
        **same(".library.helpers", "can_generate_trivial_fake_impl get_device_arg_index"),
    },
    "torch._dispatch.python": same(
        ".library.pydispatch", "enable_python_dispatcher no_python_dispatcher"
    ),
    "torch.testing._internal.optests": {
        **same(".library", "opcheck OpCheckError"),
        "fake_check": ".library.checking:check_fake",
        "autograd_registration_check": ".library.checking:check_autograd_registration",
        "aot_autograd_check": ".library.checking:check_aot",
    },
    "torch.testing._internal.optests.generate_tests": same(".library", "opcheck OpCheckError"),
    "torch.jit.annotations": {
        **same(".jit.scripting.api", "BroadcastingList1 BroadcastingList2 BroadcastingList3"),
        **same("typing", "Any Dict List Optional Tuple Union"),
        "Future": ".futures:Future",
        "Module": ".nn.module:Module",
    },
    "torch.jit": {
        **bare(".jit", "_script_if_tracing"),
        **absent("_get_trace_graph"),
        **bare(".jit.futures", "_fork _wait"),
    },
    # ------------------------------------------------------------ old paths of public modules
    "torch.nn.modules": {"*": ".nn"},
    **{f"torch.nn.modules.{name}": {"*": ".nn"} for name in _NN_MODULES.split()},
    "torch.nn.modules.module": {
        "_global_backward_hooks": ".nn.module:GLOBAL_BACKWARD_HOOKS",
        "_global_backward_pre_hooks": ".nn.module:GLOBAL_BACKWARD_PRE_HOOKS",
        "_global_forward_hooks": ".nn.module:GLOBAL_FORWARD_HOOKS",
        "_global_forward_hooks_always_called": ".nn.module:GLOBAL_HOOKS_ALWAYS_CALLED",
        "_global_forward_hooks_with_kwargs": ".nn.module:GLOBAL_HOOKS_WITH_KWARGS",
        "_global_forward_pre_hooks": ".nn.module:GLOBAL_FORWARD_PRE_HOOKS",
        "_EXTRA_STATE_KEY_SUFFIX": ".nn.module:EXTRA_STATE",
        "_global_buffer_registration_hooks": ".nn.registration:BUFFER_HOOKS",
        "_global_module_registration_hooks": ".nn.registration:MODULE_HOOKS",
        "_global_parameter_registration_hooks": ".nn.registration:PARAMETER_HOOKS",
        "*": ".nn.module",
        **same(".nn.registration", "register_module_buffer_registration_hook"),
        **same(".nn.registration", "register_module_module_registration_hook"),
        **same(".nn.registration", "register_module_parameter_registration_hook"),
    },
    "torch.nn.modules.lazy": ".nn.lazy",
    "torch.nn.modules.batchnorm": {
        "_BatchNorm": ".nn.norm:BatchNorm",
        "_NormBase": ".nn.norm:ChannelNorm",
        "_LazyNormBase": ".nn.lazy:LazyNorm",
        "*": ".nn",
    },
    "torch.nn.modules.instancenorm": {"_InstanceNorm": ".nn.norm:InstanceNorm", "*": ".nn"},
    "torch.nn.modules.conv": {
        "_ConvNd": ".nn.conv:Convolution",
        "_ConvTransposeNd": ".nn.conv:Transposed",
        "_LazyConvXdMixin": ".nn.lazy:LazyConvolution",
        "*": ".nn",
    },
    "torch.nn.modules.utils": {
        **bare(".nn.sizes", "_ntuple _single _pair _triple _quadruple _reverse_repeat_tuple"),
        **same(".nn.parallel", "consume_prefix_in_state_dict_if_present"),
    },
    "torch.nn.utils._named_member_accessor": ".nn.utils.members",
    "torch.nn.modules.dropout": {"_DropoutNd": ".nn.dropout:DropoutKind", "*": ".nn"},
    "torch.nn.modules.loss": {
        "_Loss": ".nn.losses:Loss",
        "_WeightedLoss": ".nn.losses:WeightedLoss",
        "*": ".nn",
    },
    "torch.optim.optimizer": {
        **same(_OURS, "ParamsT required"),
        **bare(_OURS, "_default_to_fused_or_foreach _get_capturable_supported_devices"),
        **bare(_OURS, "_use_grad_for_differentiable"),
        "*": ".optim",
    },
    "torch.nn.init": {
        "_no_grad_fill_": ".nn.init:constant_",
        "_no_grad_normal_": ".nn.init:normal_",
        "_no_grad_uniform_": ".nn.init:uniform_",
        "_no_grad_zero_": ".nn.init:zeros_",
    },
    "torch.nn.modules.transformer": {
        "_get_activation_fn": ".nn.transformer:activation_of",
        "*": ".nn",
    },
    "torch.optim.lr_scheduler": {
        "EPOCH_DEPRECATION_WARNING": ".optim.schedule:EPOCH_GIVEN",
        "_enable_get_lr_call": ".optim.schedule:within_step",
        "_warn_get_lr_called_within_step": ".optim.schedule:check_within_step",
        "*": ".optim",
    },
    "torch.nn.utils.stateless": {
        "_functional_call": ".func.stateless:functional_call",
        "_reparametrize_module": ".func.stateless:replaced",
    },
    "torch.functional": {"*": "."},
    "torch.random": {"*": "."},
    "torch.distributions.kl": {
        "_kl_expfamily_expfamily": ".distributions.kl:kl_exponential_families",
    },
    "torch.distributions.transforms": same(".distributions.transform", "_InverseTransform"),
    "torch.distributions.utils": {
        **bare(".distributions.utils", "_standard_normal _sum_rightmost"),
    },
    **{f"torch.distributions.{name}": {"*": ".distributions"} for name in _DISTRIBUTIONS.split()},
    "torch.distributions.multivariate_normal": {
        "*": ".distributions",
        **bare(".distributions.multivariate", "_batch_mahalanobis _batch_mv"),
        **bare(".distributions.multivariate", "_precision_to_scale_tril"),
    },
    "torch.distributions.relaxed_bernoulli": {
        "*": ".distributions",
        **same(".distributions.relaxed", "LogitRelaxedBernoulli"),
    },
    "torch.distributions.relaxed_categorical": {
        "*": ".distributions",
        **same(".distributions.relaxed", "ExpRelaxedCategorical"),
    },
    "torch._weights_only_unpickler": {"UnpicklingError": ".base.errors:CheckpointError"},
}
for _table in (PUBLIC_ALIASES, QUANTIZATION_ALIASES, DISTRIBUTED, MODULES, HELPER_ALIASES):
    for _path, _entry in _table.items():
        _known = ALIASES.get(_path)
        both = isinstance(_known, dict) and not isinstance(_entry, str)
        ALIASES[_path] = {**_known, **_entry} if both else _entry
