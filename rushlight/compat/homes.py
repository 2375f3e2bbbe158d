"""Where torch defines what is defined here: module -> torch's module -> names. Written by
tools/write_homes.py."""

from __future__ import annotations

# fmt: off
HOMES: dict[str, dict[str, str]] = {
    "rushlight.accelerator": {
        "torch.accelerator": (
            "current_accelerator current_device_idx current_device_index current_stream "
            "device_count device_index get_device_capability is_available set_device_idx "
            "set_device_index set_stream synchronize"
        ),
        "torch.accelerator.graphs": "Graph",
        "torch.accelerator.memory": (
            "empty_cache empty_host_cache get_memory_info max_memory_allocated "
            "max_memory_reserved memory_allocated memory_reserved memory_stats "
            "reset_accumulated_memory_stats reset_peak_memory_stats"
        ),
    },
    "rushlight.algorithms.lobpcg": {
        "torch": "lobpcg",
    },
    "rushlight.algorithms.lowrank": {
        "torch.functional": "pca_lowrank svd_lowrank",
    },
    "rushlight.amp.autocasting": {
        "torch": (
            "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache "
            "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype "
            "is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled "
            "set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled "
            "set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype"
        ),
        "torch.amp.autocast_mode": "autocast is_autocast_available",
    },
    "rushlight.amp.cpu": {
        "torch.cpu.amp.autocast_mode": "autocast",
    },
    "rushlight.amp.cuda": {
        "torch.cuda.amp.autocast_mode": "autocast",
        "torch.cuda.amp.common": "amp_definitely_not_available",
    },
    "rushlight.amp.custom": {
        "torch.amp.autocast_mode": "custom_bwd custom_fwd",
    },
    "rushlight.amp.scaler": {
        "torch.amp.grad_scaler": "GradScaler OptState",
    },
    "rushlight.aot.proxy": {
        "torch.fx.experimental.proxy_tensor": "get_proxy_mode",
    },
    "rushlight.aot.tracing": {
        "torch.fx.experimental.proxy_tensor": "make_fx",
    },
    "rushlight.autograd": {
        "torch.autograd.variable": "Variable",
    },
    "rushlight.autograd.anomaly": {
        "torch": "is_anomaly_check_nan_enabled is_anomaly_enabled set_anomaly_enabled",
        "torch.autograd.anomaly_mode": "detect_anomaly set_detect_anomaly",
    },
    "rushlight.autograd.backward": {
        "torch.autograd": "backward grad",
        "torch.autograd.graph": "GradientEdge get_gradient_edge",
    },
    "rushlight.autograd.checking": {
        "torch.autograd.gradcheck": (
            "GradcheckError get_analytical_jacobian get_numerical_jacobian "
            "get_numerical_jacobian_wrt_specific_input gradcheck gradgradcheck"
        ),
    },
    "rushlight.autograd.checkpoint": {
        "torch.utils.checkpoint": (
            "CheckpointError CheckpointFunction CheckpointPolicy GraphExecGroup "
            "SelectiveCheckpointContext check_backward_validity checkpoint "
            "checkpoint_sequential create_selective_checkpoint_contexts detach_variable "
            "noop_context_fn set_checkpoint_early_stop"
        ),
    },
    "rushlight.autograd.forward_ad": {
        "torch.autograd.forward_ad": (
            "UnpackedDualTensor dual_level enter_dual_level exit_dual_level make_dual "
            "unpack_dual"
        ),
    },
    "rushlight.autograd.function": {
        "torch.autograd.function": (
            "BackwardCFunction Function FunctionCtx FunctionMeta InplaceFunction "
            "once_differentiable"
        ),
    },
    "rushlight.autograd.functional": {
        "torch.autograd.functional": "hessian hvp jacobian jvp vhp vjp",
    },
    "rushlight.autograd.grad_mode": {
        "torch": "is_grad_enabled is_inference_mode_enabled",
        "torch.autograd.grad_mode": (
            "enable_grad inference_mode no_grad set_grad_enabled set_multithreading_enabled"
        ),
    },
    "rushlight.autograd.graph": {
        "torch.autograd.graph": (
            "Node allow_mutation_on_saved_tensors disable_saved_tensors_hooks increment_version "
            "register_multi_grad_hook save_on_cpu saved_tensors_hooks"
        ),
    },
    "rushlight.backends": {
        "torch.backends.mha": "set_fastpath_enabled",
        "torch.backends.mkl": "verbose",
    },
    "rushlight.backends.cuda": {
        "torch.backends.cuda": (
            "SDPAParams blas_workspace_size cuBLASModule cuFFTPlanCache "
            "cuFFTPlanCacheAttrContextProp cuFFTPlanCacheManager cublas_workspace_size "
            "cublaslt_workspace_size"
        ),
    },
    "rushlight.base.errors": {
        "torch": "AcceleratorError FatalError OutOfMemoryError",
    },
    "rushlight.base.naming": {
        "torch": "typename",
    },
    "rushlight.base.schema": {
        "torch": "Argument",
    },
    "rushlight.base.signatures": {
        "torch.optim.adadelta": "adadelta",
        "torch.optim.adagrad": "adagrad",
        "torch.optim.adam": "adam",
        "torch.optim.adamax": "adamax",
        "torch.optim.adamw": "adamw",
        "torch.optim.asgd": "asgd",
        "torch.optim.nadam": "nadam",
        "torch.optim.radam": "radam",
        "torch.optim.rmsprop": "rmsprop",
        "torch.optim.rprop": "rprop",
        "torch.optim.sgd": "sgd",
    },
    "rushlight.build": {
        "torch": "get_device_module is_vulkan_available",
    },
    "rushlight.capture.marks": {
        "torch.compiler": (
            "allow_in_graph assume_constant_result disable nested_compile_region "
            "substitute_in_graph"
        ),
    },
    "rushlight.capture.stances": {
        "torch.compiler": "set_stance",
    },
    "rushlight.compiler": {
        "torch.compiler": (
            "compile cudagraph_mark_step_begin get_default_backend is_compiling "
            "is_dynamo_compiling is_exporting list_backends reset set_default_backend"
        ),
    },
    "rushlight.compiler.compiling": {
        "torch": "compile",
    },
    "rushlight.core.attributes": {
        "torch.utils": "swap_tensors",
    },
    "rushlight.core.construct": {
        "torch": "as_tensor asarray from_numpy frombuffer set_default_tensor_type tensor",
    },
    "rushlight.core.device": {
        "torch": "device layout memory_format",
    },
    "rushlight.core.dtype": {
        "torch": "dtype finfo get_default_dtype iinfo",
    },
    "rushlight.core.format": {
        "torch": "set_printoptions",
    },
    "rushlight.core.hooks": {
        "torch.utils.hooks": "RemovableHandle",
    },
    "rushlight.core.interop": {
        "torch.utils.dlpack": "from_dlpack",
    },
    "rushlight.core.keys": {
        "torch": "ExcludeDispatchKeyGuard",
    },
    "rushlight.core.mapped": {
        "torch": "from_file",
    },
    "rushlight.core.modes": {
        "torch._C": "DisableTorchFunction DisableTorchFunctionSubclass",
        "torch.overrides": "enable_reentrant_dispatch",
    },
    "rushlight.core.op": {
        "torch": "Tag",
    },
    "rushlight.core.parameter": {
        "torch.nn.parameter": "Parameter",
    },
    "rushlight.core.process": {
        "torch": (
            "are_deterministic_algorithms_enabled get_deterministic_debug_mode "
            "get_float32_matmul_precision get_num_interop_threads get_num_threads "
            "init_num_threads is_deterministic_algorithms_warn_only_enabled "
            "set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
            "set_num_interop_threads set_num_threads use_deterministic_algorithms"
        ),
    },
    "rushlight.core.promotion": {
        "torch": "can_cast promote_types",
    },
    "rushlight.core.recording": {
        "torch.fx.passes.shape_prop": "TensorMetadata",
    },
    "rushlight.core.return_types": {
        "torch.return_types": "pytree_register_structseq",
    },
    "rushlight.core.rng": {
        "torch._C": "Generator",
    },
    "rushlight.core.schemes": {
        "torch": "qscheme",
    },
    "rushlight.core.size": {
        "torch": "Size",
    },
    "rushlight.core.state": {
        "torch": "is_warn_always_enabled set_warn_always",
    },
    "rushlight.core.tensor": {
        "torch": "Tensor",
    },
    "rushlight.core.typedstorage": {
        "torch.storage": "TypedStorage",
    },
    "rushlight.cpu": {
        "torch.cpu": (
            "Event Stream StreamContext current_device current_stream device_count "
            "get_capabilities is_available is_initialized set_device stream synchronize"
        ),
    },
    "rushlight.cuda": {
        "torch.cuda": (
            "BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor "
            "CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage CudaError "
            "DeferredCudaCallError DoubleStorage DoubleTensor FloatStorage FloatTensor "
            "GreenContext HalfStorage HalfTensor IntStorage IntTensor LongStorage LongTensor "
            "ShortStorage ShortTensor StreamContext can_device_access_peer check_error "
            "clock_rate cudaStatus cudart current_blas_handle current_device "
            "current_solver_handle current_stream default_stream device device_count "
            "device_memory_used device_of get_arch_list get_device_capability get_device_name "
            "get_device_properties get_gencode_flags get_stream_from_external "
            "get_sync_debug_mode init ipc_collect is_available is_bf16_supported is_initialized "
            "is_tf32_supported memory_usage power_draw set_device set_stream "
            "set_sync_debug_mode stream synchronize temperature utilization"
        ),
        "torch.cuda.graphs": (
            "CUDAGraph graph graph_pool_handle is_current_stream_capturing "
            "make_graphed_callables"
        ),
        "torch.cuda.memory": (
            "CUDAPluggableAllocator MemPool caching_allocator_alloc caching_allocator_delete "
            "caching_allocator_disabled caching_allocator_enable change_current_allocator "
            "empty_cache get_allocator_backend get_per_process_memory_fraction "
            "host_memory_stats list_gpu_processes mem_get_info memory_snapshot memory_stats "
            "memory_summary reset_peak_host_memory_stats reset_peak_memory_stats "
            "set_per_process_memory_fraction use_mem_pool zero"
        ),
        "torch.cuda.random": (
            "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed "
            "seed_all set_rng_state set_rng_state_all"
        ),
        "torch.cuda.streams": "Event ExternalStream Stream",
    },
    "rushlight.cuda.comm": {
        "torch.cuda.comm": (
            "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter"
        ),
    },
    "rushlight.cuda.gds": {
        "torch.cuda.gds": "GdsFile gds_deregister_buffer gds_register_buffer",
    },
    "rushlight.cuda.green_contexts": {
        "torch.cuda.green_contexts": "GreenContext",
    },
    "rushlight.cuda.nccl": {
        "torch.cuda.nccl": "all_gather all_reduce broadcast reduce reduce_scatter",
    },
    "rushlight.cuda.nvtx": {
        "torch.cuda.nvtx": "mark range range_end range_pop range_push range_start",
    },
    "rushlight.cuda.profiler": {
        "torch.cuda.profiler": "profile start stop",
    },
    "rushlight.cuda.sparse": {
        "torch.cuda.sparse": (
            "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor "
            "LongTensor ShortTensor"
        ),
    },
    "rushlight.data.collate": {
        "torch.utils.data._utils.collate": "default_collate default_convert",
    },
    "rushlight.data.dataset": {
        "torch.utils.data.dataset": (
            "ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset "
            "TensorDataset random_split"
        ),
    },
    "rushlight.data.distributed": {
        "torch.utils.data.distributed": "DistributedSampler",
    },
    "rushlight.data.loader": {
        "torch.utils.data.dataloader": "DataLoader",
    },
    "rushlight.data.pipes": {
        "torch.utils.data": (
            "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation "
            "functional_datapipe guaranteed_datapipes_determinism non_deterministic "
            "runtime_validation runtime_validation_disabled"
        ),
    },
    "rushlight.data.sampler": {
        "torch.utils.data.sampler": (
            "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler "
            "WeightedRandomSampler"
        ),
    },
    "rushlight.data.worker": {
        "torch.utils.data._utils.worker": "get_worker_info",
    },
    "rushlight.distributed": {
        "torch.distributed": (
            "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError "
            "breakpoint is_available"
        ),
        "torch.distributed.device_mesh": "DeviceMesh init_device_mesh",
        "torch.distributed.distributed_c10d": (
            "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions Backend BackendConfig "
            "BarrierOptions BroadcastOptions DebugLevel GatherOptions GroupMember P2POp "
            "PrefixStore ProcessGroup ProcessGroupGloo ReduceOp ReduceOptions "
            "ReduceScatterOptions ScatterOptions Store Work all_gather all_gather_coalesced "
            "all_gather_into_tensor all_gather_object all_gather_single all_reduce "
            "all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv "
            "broadcast broadcast_object_list destroy_process_group gather gather_object "
            "get_backend get_backend_config get_debug_level get_default_backend_for_device "
            "get_global_rank get_group_rank get_node_local_rank get_pg_count "
            "get_process_group_ranks get_rank get_world_size init_process_group irecv "
            "is_backend_available is_initialized is_mpi_available is_torchelastic_launched "
            "isend monitored_barrier new_group new_subgroups new_subgroups_by_enumeration "
            "record_comm recv recv_object_list reduce reduce_scatter reduce_scatter_single "
            "reduce_scatter_tensor scatter scatter_object_list send send_object_list "
            "shrink_group split_group supports_complex"
        ),
    },
    "rushlight.distributed.fsdp": {
        "torch.distributed.fsdp": (
            "CPUOffloadPolicy DataParallelMeshDims FSDPModule MixedPrecisionPolicy "
            "OffloadPolicy UnshardHandle fully_shard register_fsdp_forward_method "
            "share_comm_ctx"
        ),
        "torch.distributed.fsdp.api": (
            "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig "
            "LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision OptimStateDictConfig "
            "ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy "
            "StateDictConfig StateDictSettings StateDictType"
        ),
        "torch.distributed.fsdp.fully_sharded_data_parallel": (
            "FullyShardedDataParallel OptimStateKeyType"
        ),
        "torch.distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
        "torch.distributed.fsdp.wrap": (
            "CustomPolicy ModuleWrapPolicy always_wrap_policy enable_wrap "
            "lambda_auto_wrap_policy size_based_auto_wrap_policy transformer_auto_wrap_policy"
        ),
    },
    "rushlight.distributed.tensor": {
        "torch.distributed.tensor": (
            "DTensor distribute_module distribute_tensor empty full ones rand randn zeros"
        ),
        "torch.distributed.tensor.placement_types": "Partial Placement Replicate Shard",
    },
    "rushlight.distributions.compound": {
        "torch.distributions.independent": "Independent",
        "torch.distributions.mixture_same_family": "MixtureSameFamily",
        "torch.distributions.transformed_distribution": "TransformedDistribution",
    },
    "rushlight.distributions.constraint_registry": {
        "torch.distributions.constraint_registry": "ConstraintRegistry",
    },
    "rushlight.distributions.constraints": {
        "torch.distributions.constraints": (
            "Constraint MixtureSameFamilyConstraint _Cat _DependentProperty _GreaterThan "
            "_GreaterThanEq _HalfOpenInterval _IndependentConstraint _IntegerInterval _Interval "
            "_LessThan _Multinomial _Stack is_dependent"
        ),
    },
    "rushlight.distributions.continuous": {
        "torch.distributions.beta": "Beta",
        "torch.distributions.cauchy": "Cauchy",
        "torch.distributions.chi2": "Chi2",
        "torch.distributions.dirichlet": "Dirichlet",
        "torch.distributions.exponential": "Exponential",
        "torch.distributions.fishersnedecor": "FisherSnedecor",
        "torch.distributions.gamma": "Gamma",
        "torch.distributions.generalized_pareto": "GeneralizedPareto",
        "torch.distributions.laplace": "Laplace",
        "torch.distributions.normal": "Normal",
        "torch.distributions.studentT": "StudentT",
        "torch.distributions.uniform": "Uniform",
        "torch.distributions.von_mises": "VonMises",
    },
    "rushlight.distributions.derived": {
        "torch.distributions.gumbel": "Gumbel",
        "torch.distributions.half_cauchy": "HalfCauchy",
        "torch.distributions.half_normal": "HalfNormal",
        "torch.distributions.inverse_gamma": "InverseGamma",
        "torch.distributions.kumaraswamy": "Kumaraswamy",
        "torch.distributions.log_normal": "LogNormal",
        "torch.distributions.logistic_normal": "LogisticNormal",
        "torch.distributions.pareto": "Pareto",
        "torch.distributions.weibull": "Weibull",
    },
    "rushlight.distributions.discrete": {
        "torch.distributions.bernoulli": "Bernoulli",
        "torch.distributions.binomial": "Binomial",
        "torch.distributions.categorical": "Categorical",
        "torch.distributions.geometric": "Geometric",
        "torch.distributions.multinomial": "Multinomial",
        "torch.distributions.negative_binomial": "NegativeBinomial",
        "torch.distributions.one_hot_categorical": (
            "OneHotCategorical OneHotCategoricalStraightThrough"
        ),
        "torch.distributions.poisson": "Poisson",
    },
    "rushlight.distributions.distribution": {
        "torch.distributions.distribution": "Distribution",
    },
    "rushlight.distributions.exp_family": {
        "torch.distributions.exp_family": "ExponentialFamily",
    },
    "rushlight.distributions.kl": {
        "torch.distributions.kl": "kl_divergence register_kl",
    },
    "rushlight.distributions.multivariate": {
        "torch.distributions.lkj_cholesky": "LKJCholesky",
        "torch.distributions.lowrank_multivariate_normal": "LowRankMultivariateNormal",
        "torch.distributions.multivariate_normal": "MultivariateNormal",
        "torch.distributions.wishart": "Wishart",
    },
    "rushlight.distributions.relaxed": {
        "torch.distributions.continuous_bernoulli": "ContinuousBernoulli",
        "torch.distributions.relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
        "torch.distributions.relaxed_categorical": (
            "ExpRelaxedCategorical RelaxedOneHotCategorical"
        ),
    },
    "rushlight.distributions.transform": {
        "torch.distributions.transforms": (
            "CatTransform ComposeTransform IndependentTransform StackTransform Transform"
        ),
    },
    "rushlight.distributions.transforms": {
        "torch.distributions.transforms": (
            "AbsTransform AffineTransform CorrCholeskyTransform CumulativeDistributionTransform "
            "ExpTransform LowerCholeskyTransform PositiveDefiniteTransform PowerTransform "
            "ReshapeTransform SigmoidTransform SoftmaxTransform SoftplusTransform "
            "StickBreakingTransform TanhTransform"
        ),
    },
    "rushlight.distributions.utils": {
        "torch.distributions.utils": (
            "broadcast_all clamp_probs lazy_property logits_to_probs probs_to_logits "
            "tril_matrix_to_vec vec_to_tril_matrix"
        ),
    },
    "rushlight.export.decompositions": {
        "torch.export.decomp_utils": "CustomDecompTable",
        "torch.export.exported_program": "default_decompositions",
    },
    "rushlight.export.dimensions": {
        "torch.export.dynamic_shapes": "Dim dims",
    },
    "rushlight.export.draft": {
        "torch.export": "draft_export",
    },
    "rushlight.export.driver": {
        "torch.export": "export",
    },
    "rushlight.export.fixes": {
        "torch.export.dynamic_shapes": "refine_dynamic_shapes_from_suggested_fixes",
    },
    "rushlight.export.program": {
        "torch.export.exported_program": "ExportedProgram",
    },
    "rushlight.export.records": {
        "torch.export": "register_dataclass",
    },
    "rushlight.export.serde.archive": {
        "torch.export": "load save",
    },
    "rushlight.export.shapes": {
        "torch.export.dynamic_shapes": "AdditionalInputs ShapesCollection",
    },
    "rushlight.export.signature": {
        "torch.export.exported_program": "ModuleCallEntry ModuleCallSignature",
        "torch.export.graph_signature": (
            "ConstantArgument CustomObjArgument ExportBackwardSignature ExportGraphSignature "
            "InputKind InputSpec OutputKind OutputSpec SymBoolArgument SymFloatArgument "
            "SymIntArgument TensorArgument"
        ),
    },
    "rushlight.export.unflattening": {
        "torch.export.unflatten": (
            "FlatArgsAdapter InterpreterModule UnflattenedModule unflatten"
        ),
    },
    "rushlight.func.derivatives": {
        "torch.func": "grad grad_and_value hessian jacfwd jacrev jvp vjp",
    },
    "rushlight.func.functionalization": {
        "torch.func": "functionalize",
    },
    "rushlight.func.linearization": {
        "torch.func": "linearize",
    },
    "rushlight.func.rearrangement": {
        "torch.func": "rearrange",
    },
    "rushlight.func.stateless": {
        "torch.func": "functional_call replace_all_batch_norm_modules_ stack_module_state",
    },
    "rushlight.func.unwrapping": {
        "torch.func": "debug_unwrap",
    },
    "rushlight.func.vmap": {
        "torch.func": "vmap",
    },
    "rushlight.functional": {
        "torch.functional": (
            "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod "
            "meshgrid"
        ),
    },
    "rushlight.futures": {
        "torch": "Future",
        "torch.futures": "collect_all wait_all",
    },
    "rushlight.fx.annotate": {
        "torch.fx.annotate": "annotate",
    },
    "rushlight.fx.graph": {
        "torch.fx.graph": "CodeGen Graph PythonCode",
    },
    "rushlight.fx.graph_module": {
        "torch.fx.graph_module": "GraphModule reduce_graph_module",
    },
    "rushlight.fx.immutable_collections": {
        "torch.fx.immutable_collections": "immutable_dict immutable_list",
    },
    "rushlight.fx.interpreter": {
        "torch.fx.interpreter": "Interpreter Transformer",
    },
    "rushlight.fx.node": {
        "torch.fx.node": "Node",
    },
    "rushlight.fx.operator_schemas": {
        "torch.fx.operator_schemas": (
            "ArgsKwargsPair check_for_mutable_operation create_type_hint "
            "get_signature_for_torch_op normalize_function normalize_module type_matches"
        ),
    },
    "rushlight.fx.passes.const_fold": {
        "torch.fx.experimental.const_fold": (
            "FoldedGraphModule get_unique_attr_name_in_module split_const_subgraphs"
        ),
    },
    "rushlight.fx.passes.dialect.common.cse_pass": {
        "torch.fx.passes.dialect.common.cse_pass": "CSEPass get_CSE_banned_ops",
    },
    "rushlight.fx.passes.fake_tensor_prop": {
        "torch.fx.passes.fake_tensor_prop": "FakeTensorProp",
    },
    "rushlight.fx.passes.graph_drawer": {
        "torch.fx.passes.graph_drawer": "FxGraphDrawer",
    },
    "rushlight.fx.passes.graph_manipulation": {
        "torch.fx.passes.graph_manipulation": (
            "get_size_of_all_nodes get_size_of_node get_tensor_meta replace_target_nodes_with "
            "size_bytes"
        ),
    },
    "rushlight.fx.passes.infra.partitioner": {
        "torch.fx.passes.infra.partitioner": "CapabilityBasedPartitioner Partition",
    },
    "rushlight.fx.passes.infra.pass_base": {
        "torch.fx.passes.infra.pass_base": "PassBase PassResult",
    },
    "rushlight.fx.passes.infra.pass_manager": {
        "torch.fx.passes.infra.pass_manager": (
            "PassManager pass_result_wrapper this_before_that_pass_constraint"
        ),
    },
    "rushlight.fx.passes.merge_matmul": {
        "torch.fx.experimental.merge_matmul": (
            "are_nodes_independent may_depend_on merge_matmul split_result_tensors"
        ),
    },
    "rushlight.fx.passes.normalize": {
        "torch.fx.experimental.normalize": "NormalizeArgs NormalizeOperators",
    },
    "rushlight.fx.passes.operator_support": {
        "torch.fx.passes.operator_support": (
            "OpSupports OperatorSupport OperatorSupportBase any_chain chain create_op_support"
        ),
    },
    "rushlight.fx.passes.optimization": {
        "torch.fx.experimental.optimization": (
            "UnionFind extract_subgraph fuse matches_module_pattern optimize_for_inference "
            "remove_dropout replace_node_module reset_modules"
        ),
    },
    "rushlight.fx.passes.pass_manager": {
        "torch.fx.passes.pass_manager": (
            "PassManager inplace_wrapper log_hook loop_pass these_before_those_pass_constraint "
            "this_before_that_pass_constraint"
        ),
    },
    "rushlight.fx.passes.rewriter": {
        "torch.fx.experimental.rewriter": "AST_Rewriter RewritingTracer",
    },
    "rushlight.fx.passes.runtime_assert": {
        "torch.fx.passes.runtime_assert": "insert_deferred_runtime_asserts",
    },
    "rushlight.fx.passes.shape_prop": {
        "torch.fx.passes.shape_prop": "ShapeProp",
    },
    "rushlight.fx.passes.split_module": {
        "torch.fx.passes.split_module": "Partition split_module",
    },
    "rushlight.fx.passes.split_utils": {
        "torch.fx.passes.split_utils": (
            "Component getattr_recursive setattr_recursive split_by_tags"
        ),
    },
    "rushlight.fx.passes.tools_common": {
        "torch.fx.passes.tools_common": (
            "FxNetAccFusionsFinder get_acc_ops_name get_node_target is_node_output_tensor "
            "legalize_graph stable_topological_sort"
        ),
    },
    "rushlight.fx.passes.utils.common": {
        "torch.fx.passes.utils.common": "HolderModule compare_graphs lift_subgraph_as_module",
    },
    "rushlight.fx.passes.utils.fuser_utils": {
        "torch.fx.passes.utils.fuser_utils": (
            "erase_nodes fuse_as_graphmodule fuse_by_partitions insert_subgm topo_sort "
            "validate_partition"
        ),
    },
    "rushlight.fx.passes.utils.matcher_utils": {
        "torch.fx.passes.utils.matcher_utils": "InternalMatch SubgraphMatcher",
    },
    "rushlight.fx.passes.utils.source_matcher_utils": {
        "torch.fx.passes.utils.source_matcher_utils": (
            "SourcePartition check_subgraphs_connected get_source_partitions"
        ),
    },
    "rushlight.fx.proxy": {
        "torch.fx.proxy": (
            "Attribute GraphAppendingTracer ParameterProxy Proxy Scope ScopeContextManager "
            "TraceError TracerBase"
        ),
    },
    "rushlight.fx.subgraph_rewriter": {
        "torch.fx.subgraph_rewriter": (
            "Match ReplacedPatterns replace_pattern replace_pattern_with_filters"
        ),
    },
    "rushlight.fx.tensor_type": {
        "torch.fx.tensor_type": "TensorType is_consistent is_more_precise",
    },
    "rushlight.fx.traceback": {
        "torch.fx.traceback": (
            "annotate annotate_fn format_stack get_current_meta has_preserved_node_meta "
            "preserve_node_meta reset_grad_fn_seq_nr set_current_meta set_grad_fn_seq_nr "
            "set_stack_trace"
        ),
    },
    "rushlight.fx.tracing": {
        "torch.fx._symbolic_trace": "Tracer symbolic_trace wrap",
    },
    "rushlight.graph.node": {
        "torch.fx.node": "has_side_effect map_aggregate map_arg",
    },
    "rushlight.higher_order.cond": {
        "torch": "cond",
    },
    "rushlight.hub": {
        "torch.hub": (
            "download_url_to_file get_dir help list load load_state_dict_from_url set_dir"
        ),
    },
    "rushlight.io.checkpoint": {
        "torch.serialization": (
            "add_safe_globals clear_safe_globals get_safe_globals "
            "get_unsafe_globals_in_checkpoint load safe_globals save"
        ),
    },
    "rushlight.io.places": {
        "torch.serialization": "default_restore_location location_tag register_package",
    },
    "rushlight.jit.archive.reading": {
        "torch.jit": "load",
    },
    "rushlight.jit.archive.writing": {
        "torch.jit": "save",
    },
    "rushlight.jit.futures": {
        "torch": "fork wait",
    },
    "rushlight.jit.ir.graph": {
        "torch": "Block Graph Node Use Value",
    },
    "rushlight.jit.ir.parsing": {
        "torch": "parse_ir",
    },
    "rushlight.jit.ir.types": {
        "torch": (
            "AnyType AwaitType BoolType ClassType ComplexType DeviceObjType DictType EnumType "
            "FloatType FutureType IntType InterfaceType ListType NoneType NumberType "
            "OptionalType PyObjectType RRefType StreamObjType StringType SymBoolType SymIntType "
            "TensorType TupleType Type UnionType"
        ),
    },
    "rushlight.jit.objects.containers": {
        "torch": "ScriptDict ScriptList",
    },
    "rushlight.jit.objects.functions": {
        "torch": "ScriptMethod",
        "torch.jit": "ScriptFunction",
    },
    "rushlight.jit.objects.modules": {
        "torch": "ScriptModule",
    },
    "rushlight.jit.passes.freezing": {
        "torch.jit": "freeze optimize_for_inference",
    },
    "rushlight.jit.runtime.errors": {
        "torch.jit": "Error",
    },
    "rushlight.jit.scripting.api": {
        "torch.jit": "Attribute annotate script script_if_tracing",
    },
    "rushlight.jit.scripting.classes": {
        "torch.jit": "interface",
    },
    "rushlight.jit.scripting.ignoring": {
        "torch._jit_internal": "export ignore unused",
    },
    "rushlight.jit.scripting.units": {
        "torch.jit": "CompilationUnit",
    },
    "rushlight.jit.settings": {
        "torch.jit": (
            "enable_onednn_fusion export_opnames onednn_fusion_enabled set_fusion_strategy "
            "strict_fusion"
        ),
    },
    "rushlight.jit.tracing.api": {
        "torch.jit": "trace trace_module",
    },
    "rushlight.jit.unit": {
        "torch": "CompilationUnit",
    },
    "rushlight.library": {
        "torch.library": "Library",
    },
    "rushlight.library.custom_ops": {
        "torch.library": "custom_op",
    },
    "rushlight.library.dispatcher": {
        "torch": "parse_schema",
    },
    "rushlight.library.registration": {
        "torch.library": (
            "define fallthrough_kernel get_ctx get_kernel impl impl_abstract register_autocast "
            "register_fake register_torch_dispatch register_vmap triton_op wrap_triton"
        ),
    },
    "rushlight.library.schemas": {
        "torch.library": "infer_schema",
    },
    "rushlight.masked": {
        "torch.masked": (
            "amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median "
            "norm normalize prod softmax softmin std sum var"
        ),
        "torch.masked.maskedtensor.core": "MaskedTensor is_masked_tensor",
        "torch.masked.maskedtensor.creation": "as_masked_tensor masked_tensor",
    },
    "rushlight.monitor": {
        "torch": "AggregationType",
        "torch.monitor": "TensorboardEventHandler",
    },
    "rushlight.multiprocessing": {
        "torch.multiprocessing": (
            "get_all_sharing_strategies get_sharing_strategy set_sharing_strategy"
        ),
        "torch.multiprocessing.spawn": (
            "ProcessContext ProcessException ProcessExitedException ProcessRaisedException "
            "spawn start_processes"
        ),
    },
    "rushlight.nn.activation": {
        "torch.nn.modules.activation": (
            "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
            "LogSoftmax Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin "
            "Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
        ),
    },
    "rushlight.nn.attention": {
        "torch.nn.attention": (
            "SDPBackend activate_flash_attention_impl current_flash_attention_impl "
            "list_flash_attention_impls register_flash_attention_impl "
            "restore_flash_attention_impl sdpa_kernel"
        ),
    },
    "rushlight.nn.attention.bias": {
        "torch.nn.attention.bias": (
            "CausalBias CausalVariant causal_lower_right causal_upper_left"
        ),
    },
    "rushlight.nn.attention.flex_attention": {
        "torch.nn.attention.flex_attention": (
            "AuxOutput AuxRequest BlockMask and_masks create_block_mask create_mask "
            "flex_attention noop_mask or_masks"
        ),
    },
    "rushlight.nn.attention.varlen": {
        "torch.nn.attention.varlen": "AuxRequest varlen_attn varlen_attn_out",
    },
    "rushlight.nn.containers": {
        "torch.nn.modules.container": (
            "Container ModuleDict ModuleList ParameterDict ParameterList Sequential"
        ),
    },
    "rushlight.nn.conv": {
        "torch.nn.modules.conv": (
            "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"
        ),
    },
    "rushlight.nn.dropout": {
        "torch.nn.modules.dropout": (
            "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout"
        ),
    },
    "rushlight.nn.embedding": {
        "torch.nn.modules.sparse": "Embedding EmbeddingBag",
    },
    "rushlight.nn.flatten": {
        "torch.nn.modules.flatten": "Flatten Unflatten",
    },
    "rushlight.nn.functional": {
        "torch.nn.functional": (
            "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
            "adaptive_max_pool1d_with_indices adaptive_max_pool2d "
            "adaptive_max_pool2d_with_indices adaptive_max_pool3d "
            "adaptive_max_pool3d_with_indices affine_grid alpha_dropout batch_norm "
            "binary_cross_entropy binary_cross_entropy_with_logits celu cosine_embedding_loss "
            "cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu embedding "
            "embedding_bag feature_alpha_dropout fold fractional_max_pool2d "
            "fractional_max_pool2d_with_indices fractional_max_pool3d "
            "fractional_max_pool3d_with_indices gaussian_nll_loss glu grid_sample group_norm "
            "gumbel_softmax hardsigmoid hardswish hardtanh hinge_embedding_loss huber_loss "
            "instance_norm interpolate kl_div l1_loss layer_norm leaky_relu "
            "linear_cross_entropy local_response_norm log_softmax lp_pool1d lp_pool2d lp_pool3d "
            "margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d "
            "max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d "
            "max_unpool2d max_unpool3d mish mse_loss multi_head_attention_forward "
            "multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss "
            "normalize pad poisson_nll_loss relu relu6 rms_norm rrelu scaled_grouped_mm "
            "scaled_mm selu silu smooth_l1_loss soft_margin_loss softmax softmin softsign "
            "tanhshrink threshold triplet_margin_loss triplet_margin_with_distance_loss unfold "
            "upsample upsample_bilinear upsample_nearest"
        ),
    },
    "rushlight.nn.functional.activation": {
        "torch.nn.functional": "sigmoid tanh",
    },
    "rushlight.nn.functional.grouped": {
        "torch.nn.functional": "ScalingType SwizzleType assert_int_or_pair grouped_mm",
    },
    "rushlight.nn.grad": {
        "torch.nn.grad": (
            "conv1d_input conv1d_weight conv2d_input conv2d_weight conv3d_input conv3d_weight"
        ),
    },
    "rushlight.nn.init": {
        "torch.nn.init": (
            "calculate_gain constant constant_ dirac dirac_ eye eye_ kaiming_normal "
            "kaiming_normal_ kaiming_uniform kaiming_uniform_ normal normal_ ones_ orthogonal "
            "orthogonal_ sparse sparse_ trunc_normal_ uniform uniform_ xavier_normal "
            "xavier_normal_ xavier_uniform xavier_uniform_ zeros_"
        ),
    },
    "rushlight.nn.lazy": {
        "torch.nn.modules.batchnorm": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d",
        "torch.nn.modules.conv": (
            "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
            "LazyConvTranspose3d"
        ),
        "torch.nn.modules.instancenorm": (
            "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d"
        ),
        "torch.nn.modules.lazy": "LazyModuleMixin",
        "torch.nn.modules.linear": "LazyLinear",
    },
    "rushlight.nn.linear": {
        "torch.nn.modules.linear": "Bilinear Identity Linear",
    },
    "rushlight.nn.losses": {
        "torch.nn.modules.adaptive": "AdaptiveLogSoftmaxWithLoss",
        "torch.nn.modules.distance": "CosineSimilarity PairwiseDistance",
        "torch.nn.modules.loss": (
            "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss "
            "HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss LinearCrossEntropyLoss MSELoss "
            "MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss "
            "NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
            "TripletMarginWithDistanceLoss"
        ),
    },
    "rushlight.nn.module": {
        "torch.nn.modules.module": (
            "Module register_module_forward_hook register_module_forward_pre_hook "
            "register_module_full_backward_hook register_module_full_backward_pre_hook"
        ),
        "torch.nn.parameter": "Buffer",
    },
    "rushlight.nn.norm": {
        "torch.nn.modules.batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm",
        "torch.nn.modules.instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d",
        "torch.nn.modules.normalization": (
            "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm"
        ),
    },
    "rushlight.nn.padding": {
        "torch.nn.modules.padding": (
            "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d "
            "ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d "
            "ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d"
        ),
    },
    "rushlight.nn.parallel": {
        "torch.nn.modules.utils": "consume_prefix_in_state_dict_if_present",
        "torch.nn.parallel.data_parallel": "DataParallel data_parallel",
        "torch.nn.parallel.distributed": "DistributedDataParallel",
        "torch.nn.parallel.parallel_apply": "get_a_var parallel_apply",
        "torch.nn.parallel.replicate": "replicate",
        "torch.nn.parallel.scatter_gather": "gather scatter scatter_kwargs",
    },
    "rushlight.nn.parameter": {
        "torch.nn.parameter": (
            "UninitializedBuffer UninitializedParameter UninitializedTensorMixin is_lazy"
        ),
    },
    "rushlight.nn.pooling": {
        "torch.nn.modules.pooling": (
            "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
            "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d "
            "FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d "
            "MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d"
        ),
    },
    "rushlight.nn.recurrent": {
        "torch.nn.modules.loss": "CTCLoss",
        "torch.nn.modules.rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
    },
    "rushlight.nn.registration": {
        "torch.nn.modules.module": (
            "register_module_buffer_registration_hook register_module_module_registration_hook "
            "register_module_parameter_registration_hook"
        ),
    },
    "rushlight.nn.sizes": {
        "torch.nn": "factory_kwargs",
    },
    "rushlight.nn.transformer": {
        "torch.nn.modules.activation": "MultiheadAttention",
        "torch.nn.modules.transformer": (
            "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
            "TransformerEncoderLayer"
        ),
    },
    "rushlight.nn.upsampling": {
        "torch.nn.modules.channelshuffle": "ChannelShuffle",
        "torch.nn.modules.fold": "Fold Unfold",
        "torch.nn.modules.pixelshuffle": "PixelShuffle PixelUnshuffle",
        "torch.nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    },
    "rushlight.nn.utils.clip_grad": {
        "torch.nn.utils.clip_grad": (
            "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ "
            "get_total_norm"
        ),
    },
    "rushlight.nn.utils.convert_parameters": {
        "torch.nn.utils.convert_parameters": "parameters_to_vector vector_to_parameters",
    },
    "rushlight.nn.utils.fusion": {
        "torch.nn.utils.fusion": (
            "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights"
        ),
    },
    "rushlight.nn.utils.init": {
        "torch.nn.utils.init": "skip_init",
    },
    "rushlight.nn.utils.memory_format": {
        "torch.nn.utils.memory_format": (
            "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format"
        ),
    },
    "rushlight.nn.utils.parametrizations": {
        "torch.nn.utils.parametrizations": "orthogonal spectral_norm weight_norm",
    },
    "rushlight.nn.utils.parametrize": {
        "torch.nn.utils.parametrize": (
            "ParametrizationList cached is_parametrized register_parametrization "
            "remove_parametrizations transfer_parametrizations_and_params "
            "type_before_parametrizations"
        ),
    },
    "rushlight.nn.utils.prune": {
        "torch.nn.utils.prune": (
            "BasePruningMethod CustomFromMask Identity L1Unstructured LnStructured "
            "PruningContainer RandomStructured RandomUnstructured custom_from_mask "
            "global_unstructured identity is_pruned l1_unstructured ln_structured "
            "random_structured random_unstructured remove"
        ),
    },
    "rushlight.nn.utils.rnn": {
        "torch.nn.utils.rnn": (
            "PackedSequence invert_permutation pack_padded_sequence pack_sequence "
            "pad_packed_sequence pad_sequence unpack_sequence unpad_sequence"
        ),
    },
    "rushlight.nn.utils.spectral_norm": {
        "torch.nn.utils.spectral_norm": (
            "SpectralNorm SpectralNormLoadStateDictPreHook SpectralNormStateDictHook "
            "remove_spectral_norm spectral_norm"
        ),
    },
    "rushlight.nn.utils.stateless": {
        "torch.nn.utils.stateless": "functional_call",
    },
    "rushlight.nn.utils.weight_norm": {
        "torch.nn.utils.weight_norm": "WeightNorm remove_weight_norm weight_norm",
    },
    "rushlight.opset.creation.create": {
        "torch": (
            "detach_ get_default_device get_device is_complex is_conj is_floating_point "
            "is_inference is_neg is_signed is_storage numel result_type set_default_device"
        ),
    },
    "rushlight.opset.creation.random": {
        "torch.random": "fork_rng get_rng_state initial_seed manual_seed seed set_rng_state",
    },
    "rushlight.opset.creation.series": {
        "torch": "range",
    },
    "rushlight.opset.creation.sizes": {
        "torch.functional": "broadcast_shapes unravel_index",
    },
    "rushlight.opset.fourier.shorttime": {
        "torch.functional": "stft",
    },
    "rushlight.opset.functions": {
        "torch._C._nn": (
            "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear one_hot "
            "scaled_dot_product_attention softplus softshrink"
        ),
        "torch.nn.functional": (
            "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d "
            "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity "
            "hardshrink native_channel_shuffle pairwise_distance pdist pixel_shuffle "
            "pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_"
        ),
    },
    "rushlight.opset.indexing.index": {
        "torch": "nonzero",
    },
    "rushlight.opset.linalg.factor": {
        "torch.functional": "lu",
    },
    "rushlight.opset.other.refused": {
        "torch": "dequantize",
    },
    "rushlight.opset.product.einsum": {
        "torch.functional": "einsum",
    },
    "rushlight.opset.product.products": {
        "torch.functional": "cdist chain_matmul tensordot",
    },
    "rushlight.opset.reduction.magnitudes": {
        "torch.functional": "norm",
    },
    "rushlight.opset.reduction.sort": {
        "torch.functional": "unique unique_consecutive",
    },
    "rushlight.opset.sparse.compressed": {
        "torch": (
            "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_csc_tensor "
            "sparse_csr_tensor"
        ),
    },
    "rushlight.opset.sparse.coo": {
        "torch": "sparse_coo_tensor",
    },
    "rushlight.optim.adadelta": {
        "torch.optim.adadelta": "Adadelta",
    },
    "rushlight.optim.adafactor": {
        "torch.optim": "Adafactor",
    },
    "rushlight.optim.adagrad": {
        "torch.optim.adagrad": "Adagrad",
    },
    "rushlight.optim.adam": {
        "torch.optim.adam": "Adam",
        "torch.optim.adamw": "AdamW",
    },
    "rushlight.optim.adamax": {
        "torch.optim.adamax": "Adamax",
    },
    "rushlight.optim.asgd": {
        "torch.optim.asgd": "ASGD",
    },
    "rushlight.optim.cyclic": {
        "torch.optim.lr_scheduler": "CyclicLR OneCycleLR",
    },
    "rushlight.optim.lbfgs": {
        "torch.optim.lbfgs": "LBFGS",
    },
    "rushlight.optim.lr_scheduler": {
        "torch.optim.lr_scheduler": (
            "ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts "
            "ExponentialLR LambdaLR LinearLR MultiStepLR MultiplicativeLR PolynomialLR "
            "ReduceLROnPlateau SequentialLR StepLR"
        ),
    },
    "rushlight.optim.muon": {
        "torch.optim": "Muon",
    },
    "rushlight.optim.nadam": {
        "torch.optim.nadam": "NAdam",
    },
    "rushlight.optim.optimizer": {
        "torch.optim.optimizer": (
            "Optimizer register_optimizer_step_post_hook register_optimizer_step_pre_hook"
        ),
    },
    "rushlight.optim.radam": {
        "torch.optim.radam": "RAdam",
    },
    "rushlight.optim.rmsprop": {
        "torch.optim.rmsprop": "RMSprop",
    },
    "rushlight.optim.rprop": {
        "torch.optim.rprop": "Rprop",
    },
    "rushlight.optim.schedule": {
        "torch.optim.lr_scheduler": "LRScheduler",
    },
    "rushlight.optim.sgd": {
        "torch.optim.sgd": "SGD",
    },
    "rushlight.optim.sparse_adam": {
        "torch.optim.sparse_adam": "SparseAdam",
    },
    "rushlight.optim.swa_utils": {
        "torch.optim.swa_utils": (
            "AveragedModel SWALR get_ema_avg_fn get_ema_multi_avg_fn get_swa_avg_fn "
            "get_swa_multi_avg_fn update_bn"
        ),
    },
    "rushlight.overrides": {
        "torch.overrides": (
            "get_ignored_functions get_overridable_functions get_testing_overrides "
            "handle_torch_function has_torch_function is_tensor_like "
            "is_tensor_method_or_property resolve_name wrap_torch_function"
        ),
    },
    "rushlight.profiler": {
        "torch.profiler": "kineto_available",
        "torch.profiler.profiler": "ExecutionTraceObserver",
    },
    "rushlight.profiler.devices": {
        "torch.profiler": "DeviceType",
        "torch.utils.dlpack": "DLDeviceType",
    },
    "rushlight.profiler.events": {
        "torch.autograd.profiler_util": "EventList FunctionEvent FunctionEventAvg Interval",
    },
    "rushlight.profiler.itt": {
        "torch.profiler.itt": "is_available mark range range_pop range_push",
    },
    "rushlight.profiler.recorder": {
        "torch.autograd.profiler": "record_function",
    },
    "rushlight.profiler.session": {
        "torch.autograd.profiler": "emit_itt emit_nvtx profile",
    },
    "rushlight.profiler.stepped": {
        "torch.profiler": "ProfilerActivity",
        "torch.profiler.profiler": (
            "ProfilerAction profile schedule supported_activities tensorboard_trace_handler"
        ),
    },
    "rushlight.quasirandom": {
        "torch.quasirandom": "SobolEngine",
    },
    "rushlight.random": {
        "torch.random": "thread_safe_generator",
    },
    "rushlight.serialization": {
        "torch.serialization": (
            "LoadEndianness SourceChangeWarning get_crc32_options get_default_load_endianness "
            "get_default_mmap_options set_crc32_options set_default_load_endianness "
            "set_default_mmap_options"
        ),
    },
    "rushlight.signal.windows": {
        "torch.signal.windows.windows": (
            "bartlett blackman cosine exponential gaussian general_cosine general_hamming "
            "hamming hann kaiser nuttall"
        ),
    },
    "rushlight.sparse": {
        "torch.sparse": (
            "addmm as_sparse_gradcheck check_sparse_tensor_invariants log_softmax mm softmax "
            "sum"
        ),
    },
    "rushlight.storage": {
        "torch": (
            "BoolStorage ByteStorage CharStorage DoubleStorage FloatStorage IntStorage "
            "LongStorage ShortStorage"
        ),
    },
    "rushlight.subclasses.nested": {
        "torch.nested": "as_nested_tensor nested_tensor to_padded_tensor",
    },
    "rushlight.symbolic.bindings": {
        "torch.fx.experimental.symbolic_shapes": "ConvertIntKey",
    },
    "rushlight.symbolic.node": {
        "torch.fx.experimental.sym_node": "SymNode",
    },
    "rushlight.symbolic.numbers": {
        "torch": (
            "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt "
            "sym_sum"
        ),
    },
    "rushlight.symbolic.queries": {
        "torch.fx.experimental.symbolic_shapes": (
            "free_symbols guard_float guard_int guard_or_false guard_or_true guard_scalar "
            "guard_size_oblivious guarding_hint_or_throw has_free_symbols "
            "has_free_unbacked_symbols has_static_value has_symbolic_sizes_strides "
            "is_concrete_bool is_concrete_float is_concrete_int is_nested_int optimization_hint "
            "statically_known_false statically_known_true sym_and sym_eq sym_or"
        ),
    },
    "rushlight.symbolic.shapeenv": {
        "torch.fx.experimental.symbolic_shapes": (
            "ShapeEnv StatefulSymbolicContext StatelessSymbolicContext SymbolicContext"
        ),
    },
    "rushlight.testing.file_check": {
        "torch": "FileCheck",
    },
    "rushlight.torch_version": {
        "torch.torch_version": "TorchVersion",
    },
    "rushlight.utils": {
        "torch.utils": "set_module",
        "torch.utils.backend_registration": "rename_privateuse1_backend",
    },
    "rushlight.utils.backcompat": {
        "torch.utils.backcompat": "Warning",
    },
    "rushlight.utils.checkpoint": {
        "torch.utils.checkpoint": (
            "DefaultDeviceType get_device_states set_checkpoint_debug_enabled set_device_states"
        ),
    },
    "rushlight.utils.debug_log": {
        "torch.utils.debug_log": "debug_grad_log",
    },
    "rushlight.utils.file_baton": {
        "torch.utils.file_baton": "FileBaton",
    },
    "rushlight.utils.flop_counter": {
        "torch.utils.flop_counter": "FlopCounterMode register_flop_formula",
    },
    "rushlight.utils.hooks": {
        "torch.utils.hooks": "unserializable_hook warn_if_has_hooks",
    },
    "rushlight.utils.module_tracker": {
        "torch.utils.module_tracker": "ModuleTracker",
    },
    "rushlight.utils.weak": {
        "torch.utils.weak": "WeakIdKeyDictionary WeakIdRef",
    },
}
