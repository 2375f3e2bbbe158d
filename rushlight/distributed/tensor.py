"""torch.distributed.tensor: how a tensor lies on a mesh of devices, in words.

Placements compare and print as torch's do; tensors that lie so need process groups, and refuse.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.base.lazy import namespace

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Every device has a part, along the tensor's dimension `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Every device has all of it."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Every device has a part of a sum, or of another reduction, that is still to be made."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


__getattr__, __dir__ = namespace(
    __name__,
    refused={
        "RL0013": "DTensor distribute_module distribute_tensor empty full ones rand randn zeros"
    },
)
