"""Modules of torch.distributed: see `aliases`. What needs process groups refuses. Data only."""

from __future__ import annotations

from rushlight.compat.distributed_private import DISTRIBUTED_PRIVATE
from rushlight.compat.finder import REFUSES, Entry

_CODE = "RL0013"


def grouped(names: str) -> dict[str, str]:
    """Names that need process groups."""
    return dict.fromkeys(names.split(), REFUSES + _CODE)


DISTRIBUTED: dict[str, Entry] = {
    "torch.distributed.algorithms.ddp_comm_hooks": {"*": ".distributed.comm_hooks"},
    "torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook": grouped(
        "hook_with_zero_step hook_with_zero_step_interleaved"
    ),
    "torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks": {"*": ".distributed.comm_hooks"},
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks": {"*": ".distributed.comm_hooks"},
    "torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": grouped(
        "PostLocalSGDState post_localSGD_hook"
    ),
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook": {"*": ".distributed.powersgd"},
    "torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks": grouped(
        "quantization_perchannel_hook quantization_pertensor_hook"
    ),
    "torch.distributed.algorithms.join": {"*": ".distributed.join"},
    "torch.distributed.algorithms.model_averaging.averagers": grouped(
        "ModelAverager PeriodicModelAverager"
    ),
    "torch.distributed.algorithms.model_averaging.hierarchical_model_averager": grouped(
        "HierarchicalModelAverager"
    ),
    "torch.distributed.algorithms.model_averaging.utils": grouped(
        "average_parameters average_parameters_or_parameter_groups get_params_to_average"
    ),
    "torch.distributed.argparse_util": grouped("check_env env"),
    "torch.distributed.autograd": {
        **grouped("DistAutogradContext backward context get_gradients"),
        "is_available": ".distributed.rpc:is_available",
    },
    "torch.distributed.checkpoint.api": {"*": ".distributed.checkpoint"},
    "torch.distributed.checkpoint.default_planner": grouped(
        "DefaultLoadPlanner DefaultSavePlanner create_default_global_load_plan "
        "create_default_global_save_plan create_default_local_load_plan "
        "create_default_local_save_plan"
    ),
    "torch.distributed.checkpoint.filesystem": {
        **grouped("FileSystem FileSystemBase SerializationFormat"),
        "*": ".distributed.checkpoint",
    },
    "torch.distributed.checkpoint.format_utils": {
        **grouped(
            "BroadcastingTorchSaveReader DynamicMetaLoadPlanner _EmptyStateDictLoadPlanner "
            "_load_state_dict"
        ),
        "*": ".distributed.checkpoint",
    },
    "torch.distributed.checkpoint.hf_storage": grouped(
        "HuggingFaceStorageReader HuggingFaceStorageWriter"
    ),
    "torch.distributed.checkpoint.metadata": {"*": ".distributed.parts"},
    "torch.distributed.checkpoint.optimizer": grouped("load_sharded_optimizer_state_dict"),
    "torch.distributed.checkpoint.planner": grouped(
        "BytesIOWriteData LoadItemType LoadPlan LoadPlanner ReadItem SavePlan SavePlanner "
        "TensorWriteData WriteItem WriteItemType"
    ),
    "torch.distributed.checkpoint.planner_helpers": grouped("create_read_items_for_chunk_list"),
    "torch.distributed.checkpoint.quantized_hf_storage": grouped(
        "QuantizedHuggingFaceStorageReader"
    ),
    "torch.distributed.checkpoint.staging": grouped(
        "AsyncStager BlockingAsyncStager DefaultStager StagingOptions"
    ),
    "torch.distributed.checkpoint.state_dict": {
        **grouped(
            "DictValueType FQNS_T ListDictValueType OptimizerStateType PrimitiveType ValueType"
        ),
        "*": ".distributed.statedict",
    },
    "torch.distributed.checkpoint.state_dict_loader": {"*": ".distributed.checkpoint"},
    "torch.distributed.checkpoint.state_dict_saver": {
        **grouped("AsyncCheckpointerType AsyncSaveResponse"),
        "*": ".distributed.checkpoint",
    },
    "torch.distributed.checkpoint.stateful": {
        **grouped("StatefulT"),
        "*": ".distributed.checkpoint",
    },
    "torch.distributed.checkpoint.storage": grouped("StorageReader StorageWriter WriteResult"),
    "torch.distributed.checkpoint.utils": grouped("find_state_dict_object find_tensor_shard"),
    "torch.distributed.collective_utils": grouped(
        "SyncPayload all_gather all_gather_object_enforce_type broadcast"
    ),
    "torch.distributed.config": grouped("compile_on_one_rank use_torchcomms"),
    "torch.distributed.constants": {"*": ".distributed"},
    "torch.distributed.debug": grouped("start_debug_server stop_debug_server"),
    "torch.distributed.device_mesh": {"*": ".distributed.mesh"},
    "torch.distributed.distributed_c10d": {
        **grouped("_pg_map"),
        "_get_default_group": ".distributed.groups:default_group",
        "_get_default_store": ".distributed.groups:default_store",
        "GroupName": ".distributed.groups:GroupName",
        "*": ".distributed",
    },
    "torch.distributed.flight_recorder.components.builder": grouped(
        "build_collectives build_db build_groups_memberships transform_ft"
    ),
    "torch.distributed.flight_recorder.components.config_manager": grouped("JobConfig"),
    "torch.distributed.flight_recorder.components.fr_logger": grouped("FlightRecorderLogger"),
    "torch.distributed.flight_recorder.components.loader": grouped("read_dir read_dump"),
    "torch.distributed.flight_recorder.components.types": grouped(
        "Collective Database EntryState Group MatchInfo MatchState MatchStateRecord "
        "Membership NCCLCall Op Ref Traceback TypeInfo"
    ),
    "torch.distributed.flight_recorder.components.utils": grouped(
        "add_stack_id_in_entries align_trace_from_beginning check_current_entry_match "
        "check_no_missing_dump_files check_size_alltoall check_version error_analysis "
        "find_coalesced_group find_coalesced_group_with_non_p2p format_frame format_frames "
        "get_version_detail just_print_entries match_coalesced_groups "
        "match_coalesced_groups_with_non_p2p match_one_event"
    ),
    "torch.distributed.flight_recorder.fr_trace": grouped("main"),
    "torch.distributed.fsdp.api": {"*": ".distributed.fsdp"},
    "torch.distributed.fsdp.fully_sharded_data_parallel": {"*": ".distributed.fsdp"},
    "torch.distributed.fsdp.sharded_grad_scaler": {"*": ".distributed.fsdp"},
    "torch.distributed.fsdp.wrap": {"*": ".distributed.fsdp"},
    "torch.distributed.launch": {"*": ".distributed.run"},
    "torch.distributed.launcher.api": grouped("LaunchConfig elastic_launch launch_agent"),
    "torch.distributed.optim": grouped(
        "DistributedOptimizer PostLocalSGDOptimizer as_functional_optim"
    )
    | {"ZeroRedundancyOptimizer": ".distributed.zero:ZeroRedundancyOptimizer"},
    "torch.distributed.optim.optimizer": grouped("DistributedOptimizer"),
    "torch.distributed.optim.post_localSGD_optimizer": grouped("PostLocalSGDOptimizer"),
    "torch.distributed.optim.utils": grouped("as_functional_optim register_functional_optim"),
    "torch.distributed.optim.zero_redundancy_optimizer": {"*": ".distributed.zero"},
    "torch.distributed.rendezvous": {"*": ".distributed.meeting"},
    "torch.distributed.tensor.debug": grouped("CommDebugMode visualize_sharding"),
    "torch.distributed.tensor.device_mesh": {"*": ".distributed.mesh"},
    "torch.distributed.tensor.experimental": grouped(
        "context_parallel implicit_replication local_map register_sharding"
    ),
    "torch.distributed.tensor.parallel": {
        "loss_parallel": ".distributed.lossparallel:loss_parallel",
        "*": ".distributed.parallel",
    },
    "torch.distributed.tensor.parallel.api": {"*": ".distributed.parallel"},
    "torch.distributed.tensor.parallel.fsdp": grouped("DTensorExtensions"),
    "torch.distributed.tensor.parallel.input_reshard": grouped("input_reshard"),
    "torch.distributed.tensor.parallel.loss": {"*": ".distributed.lossparallel"},
    "torch.distributed.tensor.parallel.style": {"*": ".distributed.parallel"},
    "torch.distributed.tensor.placement_types": {
        **grouped("_StridedShard"),
        "*": ".distributed.placements",
    },
    **DISTRIBUTED_PRIVATE,
}
