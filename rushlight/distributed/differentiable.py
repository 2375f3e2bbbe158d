"""torch.distributed.nn: collectives that gradients pass through, in the shape of the plain ones."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import functional
from rushlight.distributed.groups import the_group
from rushlight.distributed.reductions import ReduceOp

__all__ = ["all_gather", "all_reduce", "broadcast", "reduce_scatter"]


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """A tensor combined over all processes."""
    return functional.all_reduce(tensor, op.name.lower(), group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Every process's tensor."""
    found = the_group(group, "all_gather")
    if found is None:
        raise RuntimeError("this rank is not in the process group")
    whole = functional.all_gather_tensor(tensor.unsqueeze(0), 0, group)
    return tuple(whole.unbind(0))


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Lists combined over all processes; the tensor of this one, also written into `output`."""
    from rushlight.opset import functions

    stacked = functions.stack(list(input_list))
    found = functional.reduce_scatter_tensor(stacked, op.name.lower(), 0, group)
    own: Tensor = found.squeeze(0)
    output.detach().copy_(own.detach())
    return own


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The root's tensor."""
    found = the_group(group, "broadcast")
    if found is None:
        raise RuntimeError("this rank is not in the process group")
    return functional.broadcast(tensor, found.members.index(src), group)
