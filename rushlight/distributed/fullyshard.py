"""fully_shard: parameters, gradients and optimiser state are spread, and whole only where needed.

A module's parameters are DTensors. Its forward gathers them, as the results of a differentiable
function whose backward scatters the sum of gradients; afterwards only parts remain. What the graph
saves of a whole parameter is kept as a note and gathered again when the backward asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import no_grad
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.base import pytree
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.dtensor import DTensor, distribute_tensor
from rushlight.distributed.errors import refuse
from rushlight.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy
from rushlight.distributed.mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.placements import Placement, Replicate, Shard
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.setup import get_world_size
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = ["FSDPModule", "fully_shard", "register_fsdp_forward_method"]


class Spread:
    """A parameter, its places in modules, and its whole while that is needed."""

    def __init__(self, places: list[tuple[Module, str]], mesh: DeviceMesh) -> None:
        self.places = places
        self.mesh = mesh
        module, name = places[0]
        parameter: Any = module._parameters[name]
        where: list[Placement] = [Replicate()] * (mesh.ndim - 1)
        spread = distribute_tensor(parameter.detach(), mesh, [*where, Shard(0)])
        self.own = Parameter(spread, requires_grad=parameter.requires_grad)
        self.shape = tuple(parameter.shape)
        self.group = mesh.get_group(mesh.ndim - 1)
        self.rows = -(-self.shape[0] // self.group.size())
        self.row = parameter[:1].numel()
        self.whole: Tensor | None = None
        self.put(self.own)

    def put(self, value: Any) -> None:
        for module, name in self.places:
            module._parameters[name] = value

    @property
    def count(self) -> int:
        """The elements of a part, as all parts travel."""
        return self.rows * self.row


class Bundle:
    """Parameters of one module and dtype, which travel together."""

    def __init__(self, spread: list[Spread], state: State) -> None:
        self.spread = spread
        self.state = state
        self.mesh = spread[0].mesh
        self.group = spread[0].group
        self.count = sum([each.count for each in spread])

    def gather(self) -> None:
        """Make all parameters whole, by one collective."""
        if self.spread[0].whole is not None:
            return
        dtype = self.state.policy.param_dtype or self.spread[0].own.dtype
        with no_grad():
            sent = functions.zeros(self.count, dtype=dtype)
            begin = 0
            for each in self.spread:
                local = each.own.detach()._local
                sent[begin : begin + local.numel()] = local.reshape(-1)
                begin += each.count
            size = self.group.size()
            parts = functions.empty([size, self.count], dtype=dtype)
            collectives.all_gather_into_tensor(parts, sent, self.group)
            begin = 0
            for each in self.spread:
                flat = parts[:, begin : begin + each.count].reshape(-1)
                begin += each.count
                # Each has memory of its own, by which it is known where the graph saves it.
                flat = flat.clone() if size == 1 else flat
                each.whole = flat[: each.shape[0] * each.row].view(each.shape)

    def scatter(self, gradients: Any) -> list[DTensor]:
        """This process's parts of the mean gradients, by one collective."""
        policy = self.state.policy
        size = self.group.size()
        dtype = policy.reduce_dtype or gradients[0].dtype
        with no_grad():
            sent = functions.zeros([size, self.count], dtype=dtype)
            begin = 0
            for each, gradient in zip(self.spread, gradients):
                rows = gradient.reshape(-1)
                for index in range(size):
                    piece = rows[index * each.count : (index + 1) * each.count]
                    sent[index, begin : begin + piece.numel()] = piece
                begin += each.count
            part = functions.empty(self.count, dtype=dtype)
            collectives.reduce_scatter_tensor(part, sent, ReduceOp.AVG, self.group)
            for dim in range(self.mesh.ndim - 1):
                collectives.all_reduce(part, ReduceOp.AVG, self.mesh.get_group(dim))
            found = []
            begin = 0
            for each in self.spread:
                kept = each.own._local
                own = part[begin : begin + kept.numel()].clone().view(kept.shape).to(kept.dtype)
                found.append(DTensor(own, self.mesh, each.own.placements, each.shape))
                begin += each.count
        return found

    def drop(self) -> None:
        for each in self.spread:
            each.whole = None


class Gather(Function):
    """The whole parameters of a bundle."""

    @staticmethod
    def forward(ctx: Any, bundle: Bundle, *own: DTensor) -> Any:
        ctx.bundle = bundle
        bundle.gather()
        whole = [each.whole.view(each.shape) for each in bundle.spread]  # type: ignore[union-attr]
        frozen = [one for one, each in zip(whole, own) if not each.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return tuple(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        bundle = ctx.bundle
        # No formula needs the whole after this one.
        if bundle.state.reshards_after_backward:
            bundle.drop()
        found = bundle.scatter(grads)
        return None, *[
            one if each.own.requires_grad else None for one, each in zip(found, bundle.spread)
        ]


class Note:
    """What the graph keeps of a tensor in a whole parameter's memory: how to see it there."""

    __slots__ = ("bundle", "geometry", "spread")

    def __init__(self, bundle: Bundle, spread: Spread, tensor: Tensor) -> None:
        self.bundle = bundle
        self.spread = spread
        self.geometry = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


class State:
    """What `fully_shard` knows of a module."""

    def __init__(
        self,
        module: Module,
        parameters: list[Spread],
        policy: MixedPrecisionPolicy,
        reshards: bool,
    ) -> None:
        self.module = module
        self.policy = policy
        by_dtype: dict[Any, list[Spread]] = {}
        for each in parameters:
            by_dtype.setdefault(each.own.dtype, []).append(each)
        self.bundles = [Bundle(each, self) for each in by_dtype.values()]
        self.reshards_after_forward = reshards
        self.reshards_after_backward = True
        self.depth = 0

    def pack(self, tensor: Tensor) -> Any:
        if not isinstance(tensor, DTensor):
            place = tensor.untyped_storage().data_ptr()
            for bundle in self.bundles:
                for spread in bundle.spread:
                    whole = spread.whole
                    if whole is not None and whole.untyped_storage().data_ptr() == place:
                        return Note(bundle, spread, tensor)
        return tensor

    def unpack(self, kept: Any) -> Tensor:
        if not isinstance(kept, Note):
            found: Tensor = kept
            return found
        kept.bundle.gather()
        assert kept.spread.whole is not None
        return kept.spread.whole.as_strided(*kept.geometry)

    def unshard(self) -> None:
        for bundle in self.bundles:
            shown = Gather.apply(bundle, *[spread.own for spread in bundle.spread])
            for spread, whole in zip(bundle.spread, shown):
                spread.put(whole)

    def reshard(self, frees: bool) -> None:
        for bundle in self.bundles:
            for spread in bundle.spread:
                spread.put(spread.own)
            if frees:
                bundle.drop()


def cast(values: Any, dtype: Any) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(dtype)
        return value

    return values if dtype is None else pytree.tree_map(one, values)


class FSDPModule:
    """What `fully_shard` adds to a module's class."""

    _fully_sharded: State

    def run_sharded(self, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A method, with whole parameters."""
        state = self._fully_sharded
        policy = state.policy
        if policy.cast_forward_inputs and policy.param_dtype is not None:
            args, kwargs = cast(args, policy.param_dtype), cast(kwargs, policy.param_dtype)
        if state.depth:
            return method(*args, **kwargs)
        state.depth += 1
        try:
            state.unshard()
            if state.reshards_after_forward:
                with saved_tensors_hooks(state.pack, state.unpack):
                    output = method(*args, **kwargs)
            else:
                output = method(*args, **kwargs)
        finally:
            state.depth -= 1
            state.reshard(state.reshards_after_forward)
        return cast(output, policy.output_dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = super().forward  # type: ignore[misc]
        return self.run_sharded(inner, args, kwargs)

    def unshard(self, async_op: bool = False) -> None:
        """Make the parameters whole until `reshard`."""
        refuse("unshard", async_op=async_op)
        self._fully_sharded.unshard()

    def reshard(self) -> None:
        self._fully_sharded.reshard(True)

    def set_reshard_after_forward(self, value: bool, recurse: bool = True) -> None:
        self.each(lambda state: setattr(state, "reshards_after_forward", value), recurse)

    def set_reshard_after_backward(self, value: bool, recurse: bool = True) -> None:
        self.each(lambda state: setattr(state, "reshards_after_backward", value), recurse)

    def each(self, change: Callable[[State], None], recurse: bool) -> None:
        found: Any = self
        for module in found.modules() if recurse else [self]:
            if isinstance(module, FSDPModule):
                change(module._fully_sharded)


def fully_shard(
    module: Module,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Parameter] | None = None,
) -> Any:
    """Spread a module's parameters over processes; inner modules first, the whole model last.

    With a mesh of two dims, the first one replicates.
    """
    if isinstance(module, FSDPModule):
        raise ValueError("fully_shard has been applied to this module before")
    refuse("fully_shard", shard_placement_fn=shard_placement_fn)
    chosen = mesh or init_device_mesh("cpu", (get_world_size(),))
    places: dict[int, list[tuple[Module, str]]] = {}
    ignored = {id(parameter) for parameter in ignored_params or ()}
    for inner in module.modules():
        for name, parameter in inner._parameters.items():
            if parameter is None or id(parameter) in ignored or isinstance(parameter, DTensor):
                continue
            places.setdefault(id(parameter), []).append((inner, name))
    spread = [Spread(each, chosen) for each in places.values()]
    # torch: the outermost module's parameters are needed again at once.
    reshards = reshard_after_forward is None or bool(reshard_after_forward)
    cls = type(module)
    module.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
    state = State(module, spread, mp_policy or MixedPrecisionPolicy(), reshards)
    object.__setattr__(module, "_fully_sharded", state)
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Give another method than `forward` whole parameters."""
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)

    def run(*args: Any, **kwargs: Any) -> Any:
        return module.run_sharded(method, args, kwargs)

    object.__setattr__(module, method_name, run)
