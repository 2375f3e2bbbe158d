"""torch.distributed.tensor: tensors over the processes of a mesh, and how they lie there."""

from __future__ import annotations

from rushlight.base.lazy import namespace
from rushlight.distributed.placements import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

HOMES = {
    "rushlight.distributed.dtensor": "DTensor distribute_module distribute_tensor empty full ones "
    "rand randn zeros",
    "rushlight.distributed.mesh": "DeviceMesh init_device_mesh",
}

__getattr__, __dir__ = namespace(
    __name__, {name: home for home, names in HOMES.items() for name in names.split()}
)
