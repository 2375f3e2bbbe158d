"""DistributedDataParallel: every process computes on its part of a batch, gradients are averaged.

Gradients are gathered in buckets, in the order in which they become ready. The reduction of a
bucket begins with its last gradient, while the backward pass goes on; the pass ends by waiting for
all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.autograd.engine import Engine
from rushlight.autograd.grad_mode import is_grad_enabled, no_grad
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.errors import refuse
from rushlight.distributed.groups import ProcessGroup, the_group
from rushlight.distributed.join import Join, Joinable, JoinHook, count
from rushlight.distributed.objects import all_gather_object, broadcast_object_list
from rushlight.distributed.reductions import ReduceOp
from rushlight.futures import Future
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = ["DistributedDataParallel", "GradBucket"]

MEGABYTE = 1 << 20
# torch: the first bucket is small, so that communication begins early.
FIRST_BUCKET = 1.0


class GradBucket:
    """The gradients of some parameters as one vector; what communication hooks are given."""

    def __init__(self, index: int, parameters: list[Tensor], is_last: bool) -> None:
        self._index = index
        self._parameters = parameters
        self._is_last = is_last
        first = parameters[0]
        count = sum([parameter.numel() for parameter in parameters])
        self.values: Tensor = functions.zeros(count, dtype=first.dtype)
        self.views: list[Tensor] = []
        begin = 0
        for parameter in parameters:
            end = begin + parameter.numel()
            self.views.append(self.values[begin:end].view(parameter.shape))
            begin = end
        self.missing = len(parameters)

    def index(self) -> int:
        return self._index

    def buffer(self) -> Tensor:
        return self.values

    def set_buffer(self, tensor: Tensor) -> None:
        self.values.copy_(tensor)

    def gradients(self) -> list[Tensor]:
        return self.views

    def parameters(self) -> list[Tensor]:
        return self._parameters

    def is_last(self) -> bool:
        return self._is_last


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are the average over all processes of a group.

    Parameters and buffers begin as rank 0's.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        super().__init__()
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with GPU "
                f"modules, but got device_ids {device_ids}, output_device {output_device}, and "
                "module parameters on the CPU: leave both out"
            )
        refuse(
            "DistributedDataParallel",
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            mixed_precision=mixed_precision,
            skip_all_reduce_unused_params=skip_all_reduce_unused_params,
        )
        if device_mesh is not None:
            process_group = device_mesh.get_group()
        found = the_group(process_group, "DistributedDataParallel")
        if found is None:
            raise RuntimeError("DistributedDataParallel: this rank is not in the process group")
        self.module = module
        self.process_group = found
        self.device_ids = None
        self.output_device = None
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        self.watched = {
            name: parameter
            for name, parameter in module.named_parameters()
            if parameter.requires_grad and name not in ignored
        }
        if not self.watched:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        self.buffers_kept = [
            buffer for name, buffer in module.named_buffers() if name not in ignored
        ]
        self.names = {id(parameter): name for name, parameter in self.watched.items()}
        self.bucket_bytes = (25 if bucket_cap_mb is None else bucket_cap_mb) * MEGABYTE
        self.reduce: Callable[[GradBucket], Any] = self.reduce_mean
        # By how many the sums of gradients are divided.
        self.divisor = found.size()
        self.hook_given = False
        if init_sync:
            self.verify_shapes()
            self.broadcast_state([*self.watched.values(), *self.buffers_kept])
        self.buckets: list[GradBucket] = []
        self.places: dict[int, tuple[GradBucket, int]] = {}
        # Gradients as they came in a pass: buckets follow the first order that has them all.
        self.order: list[Tensor] = []
        self.rebuilt = False
        self.make_buckets(list(reversed(self.watched.values())))
        self.under_way: list[tuple[GradBucket, Any]] = []
        self.next_bucket = 0
        self.expected: set[int] | None = None
        self.ready: set[int] = set()
        self.preparing = False
        self.pending = False
        self.unused: set[int] = set()
        self.divide_by_all = True
        for parameter in self.watched.values():
            parameter.register_post_accumulate_grad_hook(self.on_gradient)

    # -- state at the beginning -----------------------------------------------------------------

    def verify_shapes(self) -> None:
        """The same parameters in all processes, or an error that names one."""
        own = [(name, tuple(p.shape), str(p.dtype)) for name, p in self.watched.items()]
        every: list[Any] = [None] * self.process_group.size()
        all_gather_object(every, own, self.process_group)
        for rank, theirs in zip(self.process_group.members, every):
            if theirs == own:
                continue
            mine, other = next(
                (
                    pair
                    for pair in zip([*own, None], [*theirs, None], strict=False)
                    if pair[0] != pair[1]
                ),
                (len(own), len(theirs)),
            )
            own_rank = self.process_group.world.rank
            raise RuntimeError(
                f"DDP expects same model across all ranks, but rank {own_rank} "
                f"has {mine} where rank {rank} has {other}"
            )

    def broadcast_state(self, tensors: list[Tensor], root: int = 0) -> None:
        with no_grad():
            works = [
                collectives.broadcast(
                    each.detach(), group=self.process_group, group_src=root, async_op=True
                )
                for each in tensors
            ]
            for work in works:
                work.wait()

    # -- buckets ----------------------------------------------------------------------------------

    def make_buckets(self, parameters: list[Tensor]) -> None:
        """Neighbours of one dtype, up to the wanted size."""
        groups: list[list[Tensor]] = []
        sizes: dict[Any, tuple[list[Tensor], float]] = {}
        for parameter in parameters:
            size = parameter.numel() * parameter.element_size()
            limit = min(self.bucket_bytes, FIRST_BUCKET * MEGABYTE) if not groups else None
            current = sizes.get(parameter.dtype)
            if current is None or current[1] + size > (limit or self.bucket_bytes):
                members: list[Tensor] = []
                groups.append(members)
                current = (members, 0.0)
            current[0].append(parameter)
            sizes[parameter.dtype] = (current[0], current[1] + size)
        last = len(groups) - 1
        self.buckets = [GradBucket(i, each, i == last) for i, each in enumerate(groups)]
        self.places = {
            id(parameter): (bucket, position)
            for bucket in self.buckets
            for position, parameter in enumerate(bucket.parameters())
        }

    def rebuild(self) -> None:
        """Buckets in the order in which rank 0's gradients came."""
        # Where some may be unused, processes would not agree that all have come.
        if self.rebuilt or self.find_unused_parameters or len(self.order) != len(self.watched):
            return
        self.rebuilt = True
        order = [[self.names[id(parameter)] for parameter in self.order]]
        broadcast_object_list(order, group=self.process_group, group_src=0)
        self.make_buckets([self.watched[name] for name in order[0]])

    def reduce_mean(self, bucket: GradBucket) -> Future:
        """The reduction of a bucket where no hook is given."""
        values, divisor = bucket.buffer(), self.divisor
        work = collectives.all_reduce(values, group=self.process_group, async_op=True)

        def divide(done: Future) -> Tensor:
            with no_grad():
                mean: Tensor = done.value()[0].div_(divisor)
                return mean

        future: Future = work.get_future().then(divide)
        return future

    # -- a pass -----------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        active = Join.notify_join_context(self)
        root = 0
        if active is not None:
            count(int(syncs), self.process_group)
            root = self.highest(self.process_group.me)
            self.divisor = self.process_group.size() if self.divide_by_all else active
        elif syncs:
            self.rebuild()
        if self.broadcast_buffers and self.require_forward_param_sync and self.buffers_kept:
            self.broadcast_state(self.buffers_kept, root)
        output = self.module(*inputs, **kwargs)
        if syncs:
            self.prepare(output)
            self.require_forward_param_sync = True
        else:
            self.preparing = False
            self.require_forward_param_sync = False
        return output

    def prepare(self, output: Any) -> None:
        """Before a backward: which gradients will come."""
        self.preparing = True
        self.pending = False
        self.next_bucket = 0
        self.under_way = []
        self.ready = set()
        self.order = []
        for bucket in self.buckets:
            bucket.missing = len(bucket.parameters())
        unused: set[int] = set()
        if self.find_unused_parameters and not (self.static_graph and self.expected is not None):
            used = reached(output)
            unused = {key for key in self.places if key not in used}
            self.expected = set(self.places) - unused
        elif self.static_graph and self.expected is not None:
            unused = set(self.places) - self.expected
        self.unused = unused
        for key in unused:
            self.mark(key, None)

    def on_gradient(self, parameter: Tensor) -> None:
        if not self.preparing:
            return
        if not self.pending:
            # The whole backward pass ends with what is waited for.
            self.pending = True
            Engine().queue_callback(self.finish)
        key = id(parameter)
        if key in self.ready:
            if self.static_graph:
                return
            raise RuntimeError(
                f"Expected to mark a variable ready only once: parameter "
                f"{self.names[key]!r} got a second gradient in one backward of "
                "DistributedDataParallel. Use static_graph=True, or no_sync() for all but the last."
            )
        if not self.rebuilt:
            self.order.append(parameter)
        self.mark(key, parameter.grad)

    def mark(self, key: int, gradient: Tensor | None) -> None:
        """A gradient has come, or will not come."""
        self.ready.add(key)
        bucket, position = self.places[key]
        view = bucket.views[position]
        with no_grad():
            if gradient is None:
                view.zero_()
            elif gradient is not view:
                view.copy_(gradient)
        bucket.missing -= 1
        # In the order of buckets, for all processes must agree.
        while self.next_bucket < len(self.buckets) and not self.buckets[self.next_bucket].missing:
            self.start(self.buckets[self.next_bucket])
            self.next_bucket += 1

    def start(self, bucket: GradBucket) -> None:
        with no_grad():
            self.under_way.append((bucket, self.reduce(bucket)))

    def finish(self) -> None:
        """At the end of a backward: wait, and hand the averages out."""
        if not self.preparing:
            return
        self.preparing = False
        if self.next_bucket < len(self.buckets):
            missing = [self.names[key] for key in self.places if key not in self.ready]
            if not self.static_graph:
                raise RuntimeError(
                    "Expected to have finished reduction in the prior iteration before starting a "
                    f"new one: no gradient came for {', '.join(missing)}. If they are not used in "
                    "the forward pass, pass find_unused_parameters=True to "
                    "DistributedDataParallel."
                )
            self.expected = set(self.ready)
            for key in set(self.places) - self.ready:
                self.unused.add(key)
                self.mark(key, None)
        elif self.static_graph and self.expected is None:
            self.expected = set(self.ready)
        everywhere = self.used_anywhere()
        with no_grad():
            for bucket, future in self.under_way:
                result = future.wait()
                if isinstance(result, (list, tuple)):
                    result = result[0]
                if result is not bucket.values:
                    bucket.values.copy_(result)
                for parameter, view in zip(bucket.parameters(), bucket.views):
                    if id(parameter) in everywhere:
                        self.hand_out(parameter, view)
        self.under_way = []

    def used_anywhere(self) -> set[int]:
        """The parameters that some process has used: others keep the gradients they had."""
        if not self.find_unused_parameters or self.static_graph:
            return set(self.places) - (self.unused if self.static_graph else set())
        keys = list(self.places)
        used = functions.zeros(len(keys), dtype=self.buckets[0].values.dtype)
        for index, key in enumerate(keys):
            if key not in self.unused:
                used[index] = 1
        collectives.all_reduce(used, ReduceOp.MAX, self.process_group)
        return {key for key, is_used in zip(keys, used.tolist()) if is_used}

    def hand_out(self, parameter: Tensor, view: Tensor) -> None:
        if self.gradient_as_bucket_view:
            parameter.grad = view
        elif parameter.grad is None:
            parameter.grad = view.clone()
        else:
            parameter.grad.copy_(view)

    # -- what users call --------------------------------------------------------------------------

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients add up in each process by itself."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Reduce buckets by `hook(state, bucket)`, which answers a future of the bucket's mean."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.hook_given:
            raise RuntimeError("register_comm_hook can only be called once.")
        self.hook_given = True
        self.reduce = lambda bucket: hook(state, bucket)

    def _set_static_graph(self) -> None:
        self.static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = names

    # -- uneven inputs ----------------------------------------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """Within it processes may have different numbers of inputs."""
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        # Processes that make no step of their own know no order of gradients.
        self.rebuilt = True
        self.divide_by_all = kwargs.get("divide_by_initial_world_size", True)
        return ShadowPass(self)

    def highest(self, mine: int) -> int:
        """The highest position that a process of the group names."""
        found = functions.full((1,), mine)
        collectives.all_reduce(found, ReduceOp.MAX, self.process_group)
        return int(found.item())

    def shadow(self) -> None:
        """The collectives of a step, with nothing to add."""
        syncs = count(0, self.process_group) > 0
        root = self.highest(-1)
        if self.broadcast_buffers and self.require_forward_param_sync and self.buffers_kept:
            self.broadcast_state(self.buffers_kept, root)
        self.require_forward_param_sync = syncs
        if not syncs:
            return
        self.under_way = []
        self.unused = set(self.places)
        for bucket in self.buckets:
            with no_grad():
                bucket.values.zero_()
            self.start(bucket)
        self.used_anywhere()
        for _, future in self.under_way:
            future.wait()
        self.under_way = []

    @property
    def join_device(self) -> Any:
        return next(iter(self.watched.values())).device

    @property
    def join_process_group(self) -> ProcessGroup:
        return self.process_group


class ShadowPass(JoinHook):
    """What a process without inputs does while others train: the same collectives, with zeros."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        self.ddp.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All end with the parameters and buffers of one that trained to the end."""
        ddp = self.ddp
        ddp.divisor = ddp.process_group.size()
        root = ddp.highest(ddp.process_group.me if is_last_joiner else -1)
        ddp.broadcast_state([*ddp.watched.values(), *ddp.buffers_kept], root)


def reached(output: Any) -> set[int]:
    """The parameters, by identity, that a backward from `output` gives gradients."""
    found: set[int] = set()
    seen: set[Any] = set()
    stack = [tensor.grad_fn or tensor for tensor in tensors_in(output) if tensor.requires_grad]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, Tensor):
            found.add(id(node))
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        stack.extend([following for following, _ in node.next_functions])
    return found


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name))
