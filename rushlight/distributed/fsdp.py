"""torch.distributed.fsdp: `fully_shard`, and the choices that sharded training takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from rushlight.base.lazy import namespace
from rushlight.core.dtype import dtype
from rushlight.nn import ModuleDict, ModuleList, MultiheadAttention
from rushlight.nn.module import Module
from rushlight.nn.norm import BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "CustomPolicy", "DataParallelMeshDims",
    "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy", "ModuleWrapPolicy",
    "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType", "always_wrap_policy", "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
]  # fmt: skip

# torch: policies by size wrap no container that is never called, and no attention.
CONTAINERS = {ModuleList, ModuleDict}
LEAVES = {MultiheadAttention}


class ShardingStrategy(Enum):
    """What of parameters, gradients and optimiser states is spread."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the parameters of the next layer are gathered in a backward."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """Whose view of the parameters a state dict is."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What the keys of an optimiser's state are."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """The dtypes that parameters, reductions and buffers have in a forward."""

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    buffer_dtype: dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Module]] = (BatchNorm,)


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes that `fully_shard` computes in."""

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    output_dtype: dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Whether parameters rest in the CPU's memory."""

    offload_params: bool = False


@dataclass
class OffloadPolicy:
    """No offloading."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters rest in the CPU's memory."""

    pin_memory: bool = True


@dataclass
class DataParallelMeshDims:
    """The dimensions of a mesh that shard and that replicate."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None


@dataclass
class StateDictConfig:
    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    pass


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


# -------------------------------------------------------------------- which modules are wrapped


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], Any]
) -> bool:
    """The modules that `lambda_fn` is true of; everything is looked into."""
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:
    """The modules of the given classes; everything is looked into."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Modules with so many parameters that are not wrapped yet."""
    leaves = LEAVES if force_leaf_modules is None else force_leaf_modules
    excluded = CONTAINERS if exclude_wrap_modules is None else exclude_wrap_modules
    if nonwrapped_numel < min_num_params:
        return False
    return not isinstance(module, tuple(leaves if recurse else excluded))


class ModuleWrapPolicy:
    """Wraps the modules of the given classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"<ModuleWrapPolicy>({self._module_classes})"


class CustomPolicy:
    """Wraps what a function says: no, yes, or yes with options of its own."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn


HOME = "rushlight.distributed.fullyshard"

__getattr__, __dir__ = namespace(
    __name__,
    {
        "FSDPModule": HOME,
        "UnshardHandle": HOME,
        "fully_shard": HOME,
        "register_fsdp_forward_method": HOME,
    },
    refused={
        "RL0013": "FullyShardedDataParallel ShardedGradScaler enable_wrap share_comm_ctx wrap"
    },
)
