"""torch.distributed.nn: collectives that gradients pass through, in the shape of the plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.autograd.function import Function
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, functional
from rushlight.distributed.groups import ProcessGroup, the_group
from rushlight.distributed.reductions import ReduceOp
from rushlight.opset import functions

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]  # fmt: skip


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


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Parts of a tensor to all processes, by rows; the parts received, also in `output`."""
    found = functional.all_to_all_single(input, output_split_sizes, input_split_sizes, group)
    output.detach().copy_(found.detach())
    return found


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Each process's i-th tensor to process i; what comes, also in the tensors of the list."""
    flat: Any = functions.cat([each.reshape(-1) for each in input_tensor_list])
    sent = [each.numel() for each in input_tensor_list]
    taken = [each.numel() for each in output_tensor_list]
    parts = functional.all_to_all_single(flat, taken, sent, group).split(taken)
    found = [part.view(each.shape) for part, each in zip(parts, output_tensor_list)]
    for each, part in zip(output_tensor_list, found):
        each.detach().copy_(part.detach())
    return tuple(found)


def member(group: Any, caller: str) -> ProcessGroup:
    found = the_group(group, caller)
    if found is None:
        raise RuntimeError("this rank is not in the process group")
    return found


def gathered(own: Tensor, root: int, group: ProcessGroup) -> list[Tensor]:
    """All tensors at the root; zeros elsewhere."""
    parts = [functions.zeros_like(own) for _ in range(group.size())]
    collectives.gather(
        own.contiguous(), parts if group.me == root else None, None, group, group_dst=root
    )
    return parts


def scattered(parts: Sequence[Tensor], root: int, group: ProcessGroup) -> Tensor:
    """One of the root's tensors."""
    own: Tensor = functions.zeros_like(parts[0])
    given = [each.contiguous() for each in parts] if group.me == root else None
    collectives.scatter(own, given, None, group, group_src=root)
    return own


class Gather(Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, root: int, group: ProcessGroup) -> Any:
        ctx.root, ctx.group = root, group
        return tuple(gathered(own, root, group))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return scattered(grads, ctx.root, ctx.group), None, None


class Scatter(Function):
    @staticmethod
    def forward(ctx: Any, root: int, group: ProcessGroup, *parts: Tensor) -> Any:
        ctx.root, ctx.group = root, group
        return scattered(parts, root, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *gathered(grad, ctx.root, ctx.group)


class Reduce(Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, root: int, op: Any, group: ProcessGroup) -> Any:
        ctx.root, ctx.group = root, group
        found = own.clone()
        collectives.reduce(found, None, op, group, group_dst=root)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        own = grad.clone()
        collectives.broadcast(own, None, ctx.group, group_src=ctx.root)
        return own, None, None, None


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Every process's tensor at `dst`; zeros elsewhere."""
    found = member(group, "gather")
    parts: tuple[Tensor, ...] = Gather.apply(tensor, found.members.index(dst), found)
    return parts


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """The tensor that `src` has for this process."""
    found = member(group, "scatter")
    own: Tensor = Scatter.apply(found.members.index(src), found, *tensors)
    return own


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Tensors combined at `dst`; its own elsewhere."""
    found = member(group, "reduce")
    total: Tensor = Reduce.apply(tensor, found.members.index(dst), op, found)
    return total
