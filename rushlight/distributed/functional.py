"""Functional collectives: operators that answer new tensors, so that they can be differentiated and
traced.

They are operators of the namespace `_c10d_functional`, with the name of their group as an argument:
a traced graph holds them as calls. Their gradients are collectives of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import ProcessGroup, the_group, the_world
from rushlight.distributed.mesh import DeviceMesh
from rushlight.distributed.reductions import ReduceOp
from rushlight.library import custom_op
from rushlight.opset import functions

__all__ = [
    "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd", "wait_tensor",
]  # fmt: skip

REDUCTIONS = {op.name.lower(): op for op in ReduceOp}


def group_of(name: str) -> ProcessGroup:
    found = the_world().groups.get(name)
    if found is None:
        raise RuntimeError(f"there is no process group {name!r} here")
    return found


def name_of(group: Any) -> str:
    """The name of a group, however it is given: itself, its name, a mesh, ranks."""
    if isinstance(group, str):
        return group
    if isinstance(group, DeviceMesh):
        return group.get_group().key
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1]).key
    found = the_group(group, "a functional collective")
    if found is None:
        raise RuntimeError("this rank is not in the process group")
    return found.key


def reduction(name: str) -> ReduceOp:
    found = REDUCTIONS.get(name.lower())
    if found is None:
        raise ValueError(f"reduceOp must be one of {', '.join(REDUCTIONS)}, got {name!r}")
    return found


# -- operators -------------------------------------------------------------------------------------


def reduce_now(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    out: Tensor = input.clone()
    collectives.all_reduce(out, reduction(reduce_op), group_of(group_name))
    return out


def gather_now(input: Tensor, group_size: int, group_name: str) -> Tensor:
    out: Tensor = input.new_empty([input.shape[0] * group_size, *input.shape[1:]])
    collectives.all_gather_into_tensor(out, input.contiguous(), group_of(group_name))
    return out


def scatter_now(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    out: Tensor = input.new_empty([input.shape[0] // group_size, *input.shape[1:]])
    found = group_of(group_name)
    collectives.reduce_scatter_tensor(out, input.contiguous(), reduction(reduce_op), found)
    return out


def exchange_now(
    input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int],
    group_name: str,
) -> Tensor:  # fmt: skip
    out: Tensor = input.new_empty([sum(output_split_sizes), *input.shape[1:]])
    given = list(output_split_sizes), list(input_split_sizes)
    collectives.all_to_all_single(out, input.contiguous(), *given, group_of(group_name))
    return out


def broadcast_now(input: Tensor, src: int, group_name: str) -> Tensor:
    out: Tensor = input.clone()
    collectives.broadcast(out, group=group_of(group_name), group_src=src)
    return out


def reduce_shape(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    made: Tensor = functions.empty_like(input)
    return made


def gather_shape(input: Tensor, group_size: int, group_name: str) -> Tensor:
    made: Tensor = input.new_empty([input.shape[0] * group_size, *input.shape[1:]])
    return made


def scatter_shape(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    made: Tensor = input.new_empty([input.shape[0] // group_size, *input.shape[1:]])
    return made


def exchange_shape(
    input: Tensor, output_split_sizes: Any, input_split_sizes: Any, group_name: str
) -> Tensor:
    made: Tensor = input.new_empty([sum(output_split_sizes), *input.shape[1:]])
    return made


def broadcast_shape(input: Tensor, src: int, group_name: str) -> Tensor:
    made: Tensor = functions.empty_like(input)
    return made


# -- gradients -------------------------------------------------------------------------------------


def keep_options(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.options = inputs[1:]


def linear(op: str) -> None:
    if op.lower() not in ("sum", "avg"):
        raise RuntimeError(f"the gradient of a reduction by {op!r} is not defined")


def reduce_gradient(ctx: Any, grad: Tensor) -> Any:
    op, name = ctx.options
    linear(op)
    return reduce_op(grad, op, name), None, None


def gather_gradient(ctx: Any, grad: Tensor) -> Any:
    size, name = ctx.options
    return scatter_op(grad, "sum", size, name), None, None


def scatter_gradient(ctx: Any, grad: Tensor) -> Any:
    op, size, name = ctx.options
    linear(op)
    whole = gather_op(grad, size, name)
    return (whole / size if op.lower() == "avg" else whole), None, None, None


def exchange_gradient(ctx: Any, grad: Tensor) -> Any:
    taken, sent, name = ctx.options
    return exchange_op(grad, sent, taken, name), None, None, None


def broadcast_gradient(ctx: Any, grad: Tensor) -> Any:
    root, name = ctx.options
    total = reduce_op(grad, "sum", name)
    return (total if group_of(name).me == root else functions.zeros_like(total)), None, None


def operator(name: str, now: Any, shape: Any, gradient: Any) -> Callable[..., Tensor]:
    made = custom_op(f"_c10d_functional::{name}", now, mutates_args=())
    made.register_fake(shape)
    made.register_autograd(gradient, setup_context=keep_options)
    found: Callable[..., Tensor] = made
    return found


reduce_op = operator("all_reduce", reduce_now, reduce_shape, reduce_gradient)
gather_op = operator("all_gather_into_tensor", gather_now, gather_shape, gather_gradient)
scatter_op = operator("reduce_scatter_tensor", scatter_now, scatter_shape, scatter_gradient)
exchange_op = operator("all_to_all_single", exchange_now, exchange_shape, exchange_gradient)
broadcast_op = operator("broadcast", broadcast_now, broadcast_shape, broadcast_gradient)


# -- functions -------------------------------------------------------------------------------------


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """A tensor combined over all processes."""
    return reduce_op(self, reduceOp, name_of(group))


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """Every process's tensor, one after the other along a dim."""
    name = name_of(group)
    moved = self.movedim(gather_dim, 0)
    found = gather_op(moved, group_of(name).size(), name)
    back: Tensor = found.movedim(0, gather_dim)
    return back


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """A tensor combined over all processes, of which each keeps a part along a dim."""
    name = name_of(group)
    size = group_of(name).size()
    if self.shape[scatter_dim] % size:
        raise RuntimeError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of "
            f"group_size {size}"
        )
    found = scatter_op(self.movedim(scatter_dim, 0), reduceOp, size, name)
    back: Tensor = found.movedim(0, scatter_dim)
    return back


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Parts of a tensor to all processes, by rows; the parts received."""
    name = name_of(group)
    size = group_of(name).size()
    even = [self.shape[0] // size] * size
    return exchange_op(self, output_split_sizes or even, input_split_sizes or even, name)


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of a process of the group."""
    return broadcast_op(self, src, name_of(group))


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: its values are there already."""
    return tensor


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
