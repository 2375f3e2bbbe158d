"""Public names of torch's that rushlight keeps elsewhere, or refuses. Data only; see `aliases`."""

from __future__ import annotations

from rushlight.compat.finder import REFUSES, Entry

DEVICE, QUANTIZED, GROUP, VENDOR = "RL0011", "RL0012", "RL0013", "RL0014"
CPP, RUNTIME, COMPILER, STORED = "RL0015", "RL0016", "RL0017", "RL0019"


def named(module: str, names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names.split()}


def refuse(code: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), REFUSES + code)


_JIT_TYPES = (
    "AnyType AwaitType BoolType ClassType ComplexType DeviceObjType DictType EnumType FloatType "
    "FutureType IntType InterfaceType ListType NoneType NumberType OptionalType PyObjectType "
    "RRefType StreamObjType StringType SymBoolType SymIntType TensorType TupleType Type UnionType"
)


# What stands in torch itself.
ROOT: dict[str, str] = {
    "torch": ".",
    **named(".jit.ir.types", _JIT_TYPES),
    **named(".jit.ir.graph", "Block Graph Node Use Value"),
    **named(".jit.objects.functions", "ScriptFunction ScriptMethod"),
    **named(".jit.objects.containers", "ScriptDict ScriptList"),
    **named(".jit.objects.modules", "ScriptModule"),
    **named(".jit.unit", "CompilationUnit"),
    **named(".jit.ir.parsing", "parse_ir"),
    **named(".jit", "fork wait"),
    **named(".testing.file_check", "FileCheck"),
    **named(".core.keys", "DispatchKey DispatchKeySet"),
    "ExcludeDispatchKeyGuard": ".core.keys:ExcludeDispatchKeyGuard",
    **named(".core.modes", "DisableTorchFunction DisableTorchFunctionSubclass"),
    **named(".base.schema", "Argument"),
    "FunctionSchema": ".base.schema:Schema",
    **named(".library.dispatcher", "parse_schema"),
    **named(".futures", "Future"),
    **named(".base.errors", "OutOfMemoryError"),
    **named(".random", "thread_safe_generator"),
    **named(".monitor", "AggregationType"),
    **named(
        ".amp.autocasting",
        "get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled "
        "is_autocast_xla_enabled set_autocast_ipu_dtype set_autocast_ipu_enabled "
        "set_autocast_xla_dtype set_autocast_xla_enabled",
    ),
    "AcceleratorError": ".base.errors:AcceleratorError",
    "FatalError": ".base.errors:FatalError",
    "JITException": ".jit.runtime.errors:Error",
    "ErrorReport": REFUSES + RUNTIME,
    "ScriptObject": ".quantization.operators.packed:ScriptObject",
    "cpp": REFUSES + CPP,
    "cudnn_is_acceptable": ".backends:cudnn.is_acceptable",
    "AVG": ".monitor:AggregationType.AVG",
    "SUM": ".monitor:AggregationType.SUM",
    **refuse(
        RUNTIME,
        "AliasDb ArgumentSpec BufferDict CallStack Capsule "
        "Code CompleteArgumentSpec ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable "
        "DeserializationStorageContext ExecutionPlan Gradient GraphExecutorState IODescriptor "
        "LiteScriptModule LockingLogger ModuleDict NoopLogger OperatorInfo "
        "ParameterDict ScriptClass ScriptClassFunction ScriptDictIterator ScriptDictKeyIterator "
        "ScriptListIterator ScriptModuleSerializer ScriptObjectProperty "
        "SerializationStorageContext StaticModule TracingState "
        "import_ir_module import_ir_module_from_buffer merge_type_from_type_comment "
        "parse_type_comment",
    ),
    **named(".io.records", "PyTorchFileReader PyTorchFileWriter"),
    **named(".core.streams", "Event Stream"),
    **named(".utils.throughput_benchmark", "BenchmarkConfig BenchmarkExecutionStats"),
    **named(".utils.throughput_benchmark", "ThroughputBenchmark"),
    **refuse(
        DEVICE,
        "batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt "
        "batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats",
    ),
    **refuse(
        VENDOR,
        "cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu "
        "cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler "
        "miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu "
        "miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn "
        "mkldnn_adaptive_avg_pool2d mkldnn_linear_backward_weights "
        "mkldnn_max_pool2d mkldnn_max_pool3d",
    ),
    **refuse(QUANTIZED, "choose_qparams_optimized"),
    **refuse("RL0001", "indices_copy"),
    **named(".jit.ir.inferred", "InferredType unify_type_list"),
}

_STEPS = "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd"
STEP_FUNCTIONS = {
    f"torch.optim.{name}": named(".optim.functional", name) for name in _STEPS.split()
}

PUBLIC_ALIASES: dict[str, Entry] = {
    # ------------------------------------------------------------ names of modules that exist
    "torch.fft": named(".core.tensor", "Tensor"),
    "torch.jit": named(".jit.unit", "CompilationUnit"),
    "torch.utils.dlpack": named(".profiler.devices", "DLDeviceType"),
    "torch.autograd.graph": refuse(COMPILER, "region_activation_memory_budget"),
    "torch.autograd.grad_mode": refuse(COMPILER, "enforce_grad_layout_policy"),
    "torch.autograd.function": refuse("RL0001", "NestedIOFunction"),
    "torch.autograd.profiler_util": named(
        ".profiler.helpers", "EventMetadata FormattedTimesMixin Kernel MemRecordsAcc StringTable"
    ),
    "torch.autograd.profiler": {
        **named(".profiler.helpers", "EnforceUnique KinetoStepTracker MemRecordsAcc"),
        **refuse(RUNTIME, "load_nvprof parse_nvprof_trace"),
    },
    "torch.compiler": refuse(
        COMPILER,
        "keep_portable_guards_unsafe keep_tensor_guards_unsafe load_cache_artifacts "
        "load_compiled_function save_cache_artifacts set_enable_guard_collectives "
        "skip_all_guards_unsafe skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe "
        "skip_guard_on_inbuilt_nn_modules_unsafe wrap_numpy",
    ),
    "torch.export": refuse(COMPILER, "Constraint"),
    "torch.export.custom_obj": refuse(COMPILER, "ScriptObjectMeta"),
    "torch.export.decomp_utils": named(".export", "CustomDecompTable"),
    "torch.export.passes": named(".export.passes", "move_to_device_pass"),
    "torch.nn.modules.linear_cross_entropy_options": refuse("RL0001", "LinearCrossEntropyOptions"),
    "torch.nn.modules": refuse("RL0001", "LinearCrossEntropyOptions"),
    "torch.multiprocessing.pool": {
        "Pool": "multiprocessing.pool:Pool",
        **refuse("RL0001", "clean_worker"),
    },
    "torch.serialization": {
        **named(
            ".io.names",
            "StorageType check_module_version_greater_or_equal normalize_storage_type "
            "storage_to_tensor_type",
        ),
        **refuse(STORED, "skip_data"),
        **refuse(DEVICE, "validate_hpu_device"),
        **named(".compat.helpers", "validate_cuda_device"),
        **named("tempfile", "mkdtemp"),
    },
    "torch.sparse": {
        **refuse(
            DEVICE,
            "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT "
            "SparseSemiStructuredTensorCUTLASS to_sparse_semi_structured",
        ),
        "solve": ".sparse:spsolve",
    },
    "torch.fx.passes.splitter_base": {"*": ".fx.passes.splitter_base"},
    "torch.fx.passes.param_fetch": {"*": ".fx.passes.param_fetch"},
    "torch.fx.passes.regional_inductor": refuse(COMPILER, "regional_inductor"),
    "torch.fx.passes.regional_inductor_invoke_subgraph": refuse(
        COMPILER, "regional_inductor_invoke_subgraph"
    ),
    "torch.fx.passes.reinplace": refuse(COMPILER, "reinplace"),
    "torch.fx.experimental.meta_tracer": ".fx.passes.meta_tracer",
    "torch.fx.experimental.dynamic_spec": {
        **refuse(
            COMPILER,
            "DictSpec IntVar IntermediateSpec LeafIntSpec LeafSpec ObjectSpec ParamsSpec SeqSpec "
            "ShapeVar ShapesSpec TensorSpec",
        ),
        **named(".fx.symbols", "STATIC"),
    },
    "torch.fx.experimental.recording": refuse(
        COMPILER,
        "FakeTensorMeta NotEqualError ShapeEnvEvent record_shapeenv_event "
        "replay_shape_env_events shape_env_check_state_equal",
    ),
    "torch.fx.experimental.schema_type_annotation": refuse(STORED, "AnnotateTypesWithSchema"),
    "torch.fx.proxy": refuse(COMPILER, "MetaProxy"),
    "torch.fx.traceback": named(
        ".fx.provenance",
        "NodeSource NodeSourceAction get_current_replay_node get_graph_provenance_json "
        "set_current_replay_node",
    ),
    "torch.fx.passes.split_module": named(".fx.passes.annotating", "split_module_simple"),
    "torch.fx.passes.split_utils": refuse(STORED, "move_non_tensor_nodes_on_boundary"),
    "torch.fx.experimental.symbolic_shapes": {
        **named(
            ".fx.symbols",
            "CURRENT_NODE_KEY SHAPEENV_EVENT_KEY SymIntEqByExpr check_consistent create_contiguous "
            "is_symbol_binding_fx_node",
        ),
        **refuse(
            COMPILER,
            "SYMPY_INTERP Specialization SubclassSymbolicContext SymIntSymbolicContext TrackedFake "
            "ValueRangesSLoc canonicalize_bool_expr compute_unbacked_bindings is_accessor_node "
            "rebind_unbacked resolve_unbacked_bindings",
        ),
    },
    "torch.fx.experimental.proxy_tensor": {
        **refuse(
            COMPILER,
            "DecompositionInterpreter PythonKeyTracer dispatch_trace handle_sym_dispatch "
            "maybe_disable_thunkify maybe_enable_thunkify selective_decompose",
        ),
        **named(".types", "py_sym_types"),
    },
    "torch.fx.experimental.sym_node": {
        **named(
            ".fx.symbols",
            "magic_methods method_to_operator sym_acos sym_asin sym_atan sym_cos sym_cosh sym_log2 "
            "sym_sin sym_sinh sym_tan sym_tanh",
        ),
        **refuse(COMPILER, "DynamicInt"),
        **named(".symbolic.numbers", "sym_sqrt"),
    },
    "torch.fx.experimental.optimization": {
        "*": ".fx.passes.optimization",
        **refuse(VENDOR, "MklSubgraph gen_mkl_autotuner modules_to_mkldnn use_mkl_length"),
    },
    "torch.package": refuse(
        "RL0001",
        "Directory EmptyMatchError GlobGroup Importer ObjMismatchError ObjNotFoundError "
        "OrderedImporter PackageExporter PackageImporter PackagingError find_file_dependencies "
        "is_from_package sys_importer",
    ),
    "torch.nested._internal.nested_tensor": {
        "NestedTensor": ".subclasses.jagged:JaggedTensor",
        **named(".subclasses.jagged", "nested_tensor_from_jagged"),
    },
    "torch.nn.attention.flex_attention": {
        "_DEFAULT_SPARSE_BLOCK_SIZE": ".nn.attention.flex_attention:DEFAULT_BLOCK",
        **refuse(COMPILER, "FlexKernelOptions"),
    },
    "torch.utils.data.backward_compatibility": named(".data.graphs", "worker_init_fn"),
    "torch.utils.data.graph": named(".data.graphs", "traverse traverse_dps"),
    "torch.utils.data.graph_settings": named(
        ".data.graphs",
        "apply_random_seed apply_sharding apply_shuffle_seed apply_shuffle_settings "
        "get_all_graph_pipes",
    ),
    "torch.multiprocessing.reductions": {
        **named(
            ".data.reductions",
            "SharedCache StorageWeakRef fd_id rebuild_meta_tensor rebuild_sparse_compressed_tensor "
            "rebuild_sparse_coo_tensor rebuild_storage_empty rebuild_tensor rebuild_typed_storage "
            "rebuild_typed_storage_child reduce_sparse_tensor reduce_tensor reduce_typed_storage "
            "reduce_typed_storage_child shared_cache",
        ),
        **refuse(
            "RL0001",
            "init_reductions rebuild_cuda_tensor rebuild_event rebuild_nested_tensor "
            "rebuild_storage_fd rebuild_storage_filename reduce_event reduce_nested_tensor "
            "reduce_storage storage_from_cache",
        ),
    },
    "torch.amp.autocast_mode": named(".amp.autocasting", "autocast_decorator"),
    "torch.amp.grad_scaler": named(".amp.scaler", "OptState"),
    "torch.autograd": {
        **refuse("RL0001", "NestedIOFunction"),
        **refuse(COMPILER, "enforce_grad_layout_policy"),
    },
    "torch.autograd.variable": {"VariableMeta": ".autograd:VariableType"},
    "torch.optim": named(".optim.swapping", "swap_in_optimizer_params_and_state"),
    "torch.overrides": refuse(COMPILER, "redispatch_function"),
    # ------------------------------------------------------------ devices
    **{f"torch.cuda.{name}": {"*": ".cuda"} for name in ("graphs", "memory", "random", "streams")},
    "torch.cuda.amp.autocast_mode": {"*": ".amp.cuda"},
    "torch.cuda.amp.grad_scaler": {"*": ".amp.cuda"},
    "torch.cuda.amp": ".amp.cuda",
    "torch.cuda.amp.common": named(".amp.cuda", "amp_definitely_not_available"),
    "torch.cpu.amp.autocast_mode": {"*": ".amp.cpu"},
    "torch.cpu.amp.grad_scaler": {"*": ".amp.cpu"},
    "torch.accelerator.graphs": {"*": ".accelerator"},
    "torch.accelerator.memory": {"*": ".accelerator"},
    "torch.mtia": ".xpu",
    # ------------------------------------------------------------ files of public modules
    "torch.signal.windows.windows": {"*": ".signal.windows"},
    "torch.masked.maskedtensor": {"*": ".masked"},
    "torch.masked.maskedtensor.core": {"*": ".masked"},
    "torch.masked.maskedtensor.creation": {"*": ".masked"},
    "torch.nn.parallel.data_parallel": {"*": ".nn.parallel"},
    "torch.nn.parallel.parallel_apply": {"*": ".nn.parallel"},
    "torch.nn.parallel.replicate": {"*": ".nn.parallel"},
    "torch.nn.parallel.scatter_gather": {"*": ".nn.parallel"},
    "torch.nn.parallel.distributed": {"*": ".nn.parallel"},
    "torch.nn.parallel.comm": refuse(
        DEVICE, "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter"
    ),
    "torch.multiprocessing.spawn": {
        "*": ".multiprocessing",
        "SpawnContext": ".multiprocessing:ProcessContext",
    },
    "torch.multiprocessing.queue": {
        **named("multiprocessing.queues", "Queue SimpleQueue"),
        **refuse("RL0001", "ConnectionWrapper"),
    },
    "torch.fx.passes.pass_manager": ".fx.passes.pass_manager",
    "torch.fx.experimental.merge_matmul": ".fx.passes.merge_matmul",
    "torch.fx.experimental.debug": named(".fx.passes.annotating", "set_trace"),
    "torch.fx.passes.utils.matcher_with_name_node_map_utils": named(
        ".fx.passes.annotating", "SubgraphMatcherWithNameNodeMap"
    ),
    "torch.fx.passes.annotate_getitem_nodes": named(
        ".fx.passes.annotating", "annotate_getitem_nodes"
    ),
    "torch.fx.passes.graph_transform_observer": refuse(STORED, "GraphTransformObserver"),
    "torch.backends.xeon.run_cpu": refuse(VENDOR, "create_args main"),
    "torch.optim.adamw": {"AdamW": ".optim:AdamW", **STEP_FUNCTIONS["torch.optim.adamw"]},
    **{path: names for path, names in STEP_FUNCTIONS.items() if path != "torch.optim.adamw"},
    "torch.autograd.profiler_legacy": named(".autograd.profiler", "profile"),
    "torch.jit.generate_bytecode": refuse(RUNTIME, "format_bytecode generate_upgraders_bytecode"),
    "torch.jit.unsupported_tensor_ops": refuse(RUNTIME, "execWrapper"),
    "torch.utils.model_zoo": {
        **named(".hub", "download_url_to_file load_state_dict_from_url"),
        "load_url": ".hub:load_state_dict_from_url",
        "tqdm": ".hub:tqdm",
    },
    "torch.utils.backend_registration": {
        "rename_privateuse1_backend": ".utils:rename_privateuse1_backend",
        **refuse(DEVICE, "generate_methods_for_privateuse1_backend"),
    },
    "torch.utils.benchmark.utils": {"*": ".utils.benchmark"},
    "torch.utils.benchmark.utils.common": {"*": ".utils.benchmark"},
    "torch.utils.benchmark.utils.timer": {"*": ".utils.benchmark"},
    "torch.utils.cpp_backtrace": refuse(CPP, "get_cpp_backtrace"),
    "torch.utils.mkldnn": refuse(
        VENDOR,
        "MkldnnBatchNorm MkldnnConv1d MkldnnConv2d MkldnnConv3d MkldnnLinear MkldnnPrelu to_mkldnn",
    ),
    "torch.nn.cpp": refuse(CPP, "ModuleWrapper OrderedDictWrapper"),
    "torch.sparse.semi_structured": {"*": ".sparse"},
    "torch.numa.binding": refuse(DEVICE, "AffinityMode NumaOptions"),
}
