"""fully_shard: parameters, gradients and optimiser state are spread, and whole only where needed.

A module's parameters are DTensors. Its forward gathers them, as the results of a differentiable
function whose backward scatters the sum of gradients; afterwards only parts remain. What the graph
saves of a whole parameter is kept as a note. While a module computes, the parameters of the next
one come, and the gradients of the one before are on their way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from rushlight.autograd.engine import Engine, current_graph_task_id, current_task
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import is_grad_enabled, no_grad
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.base import pytree
from rushlight.core.dtype import dtype
from rushlight.core.parameter import Parameter
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.distributed.bundles import Bundle, Place, Returning, Spread
from rushlight.distributed.dtensor import DTensor
from rushlight.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy
from rushlight.distributed.mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.placements import Shard
from rushlight.distributed.setup import get_world_size
from rushlight.nn.module import Module

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


class Call:
    """One forward of a module, known for as long as its graph is."""

    __slots__ = ("__weakref__", "before", "left", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        # The call that ended before this one did: its backward comes next.
        self.before: weakref.ref[Call] | None = None
        # The bundles whose gradients have not come yet.
        self.left = 0

    def begin_backward(self) -> None:
        """Whole parameters for the backward; those of the next one are let come."""
        state = self.state
        tree = state.tree
        assert tree is not None
        tree.watch_end()
        if self.left:
            return
        self.left = len(state.bundles)
        state.running.add(self)
        if state.unshards_in_backward:
            for bundle in state.bundles:
                bundle.gather()
            # A forward that is computed again finds them where they were.
            state.show()
        before = None if self.before is None else self.before()
        ahead = [] if before is None else [before.state]
        for each in ahead if state.backward_ahead is None else state.backward_ahead:
            each.let_come()

    def end_backward(self) -> None:
        """One bundle more has its gradients."""
        self.left -= 1
        if self.left <= 0:
            self.left = 0
            self.state.running.discard(self)


class Gather(Function):
    """The whole parameters of a bundle."""

    @staticmethod
    def forward(ctx: Any, bundle: Bundle, call: Call, *own: DTensor) -> Any:
        ctx.bundle, ctx.call = bundle, call
        bundle.gather()
        whole = [each.whole.view(each.shape) for each in bundle.spread]  # type: ignore[union-attr]
        frozen = [one for one, each in zip(whole, own) if not each.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return tuple(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        bundle, call = ctx.bundle, ctx.call
        state: State = call.state
        call.end_backward()
        # No formula needs the whole after this one.
        if not state.running:
            state.reshard(state.reshards_after_backward)
        assert state.tree is not None
        return None, None, *state.tree.take(state, bundle, grads)


class Note:
    """What the graph keeps of a tensor in a whole parameter's memory: how to see it there."""

    __slots__ = ("bundle", "call", "geometry", "layout", "spread")

    def __init__(self, call: Call, bundle: Bundle, spread: Spread, tensor: Tensor) -> None:
        self.call = call
        self.bundle = bundle
        self.spread = spread
        local = tensor
        self.layout: Any = None
        if isinstance(tensor, DTensor):
            local = tensor._local
            self.layout = tensor._mesh, tensor._placements, tuple(tensor.shape)
        self.geometry = (tuple(local.shape), local.stride(), local.storage_offset())

    def read(self) -> Tensor:
        self.call.begin_backward()
        self.bundle.gather()
        assert self.spread.whole is not None
        local: Tensor = self.spread.whole.as_strided(*self.geometry)
        return local if self.layout is None else DTensor(local, *self.layout)


class State:
    """What `fully_shard` knows of a module."""

    def __init__(
        self, modules: list[Module], bundles: list[Bundle], policy: MixedPrecisionPolicy,
        reshards: bool | None,
    ) -> None:  # fmt: skip
        # Most often one; several are whole from the first one's forward to the last one's.
        self.modules = modules
        self.policy = policy
        self.waiting: list[Module] = []
        self.call: Call | None = None
        self.bundles = bundles
        # None: unless this is the outermost one, whose parameters are needed again at once.
        self.reshards: bool | None = reshards
        self.reshards_after_backward = True
        self.unshards_in_backward = True
        self.syncs = True
        self.sums_replicas = True
        self.factor: float | None = None
        self.forward_ahead: list[State] | None = None
        self.backward_ahead: list[State] | None = None
        self.tree: Tree | None = None
        self.depth = 0
        # Whole parameters by the memory they are in, while a forward runs.
        self.known: dict[int, tuple[Bundle, Spread]] = {}
        # The calls whose backward has begun.
        self.running: set[Call] = set()

    @property
    def reshards_after_forward(self) -> bool:
        if self.reshards is not None:
            return self.reshards
        return self.tree is None or self.tree.root is not self

    def let_come(self) -> None:
        for bundle in self.bundles:
            bundle.begin()
            if bundle.coming is not None and self.tree is not None:
                self.tree.ahead.append(bundle)

    def pack(self, call: Call, tensor: Tensor) -> Any:
        local = tensor._local if isinstance(tensor, DTensor) else tensor
        found = self.known.get(local.untyped_storage().data_ptr())
        return tensor if found is None else Note(call, *found, tensor)

    def unshard(self, call: Call) -> None:
        # All are begun before one is waited for.
        for bundle in self.bundles:
            bundle.begin()
        for bundle in self.bundles:
            shown = Gather.apply(bundle, call, *[spread.own for spread in bundle.spread])
            for spread, whole in zip(bundle.spread, shown):
                spread.show(whole)
                self.known[whole.untyped_storage().data_ptr()] = bundle, spread

    def show(self) -> None:
        """The values of whole parameters, without history."""
        for bundle in self.bundles:
            for spread in bundle.spread:
                if spread.whole is not None:
                    seen = spread.whole.detach()
                    spread.show(seen.requires_grad_(spread.own.requires_grad))

    def reshard(self, frees: bool) -> None:
        self.known = {}
        for bundle in self.bundles:
            for spread in bundle.spread:
                spread.put(spread.own)
            if frees:
                bundle.drop()


def saves_by_itself() -> bool:
    """Whether nobody else is asked what the graph saves, as checkpointing is."""
    hooks = LOCAL.state.saved_hooks
    return not hooks or hooks[-1][1] is unpack


def unpack(kept: Any) -> Tensor:
    found: Tensor = kept.read() if isinstance(kept, Note) else kept
    return found


class Tree:
    """The sharded modules of a model: the order of their calls, and what is under way."""

    def __init__(self, root: State) -> None:
        self.root = root
        self.states = list({
            id(module._fully_sharded): module._fully_sharded
            for outer in root.modules
            for module in outer.modules()
            if isinstance(module, FSDPModule)
        }.values())  # fmt: skip
        for state in self.states:
            state.tree = self
        self.depth = 0
        # Modules in the order of their forwards: the last time, and now.
        self.order: list[State] = []
        self.now: list[State] = []
        self.last: weakref.ref[Call] | None = None
        # Bundles that were let come because others came before them the last time.
        self.ahead: list[Bundle] = []
        self.returning: list[Returning] = []
        self.task = -1

    # -- forward -------------------------------------------------------------------------------

    def enter(self, state: State, module: Any) -> Call:
        if state.call is not None and module in state.waiting:
            # Another one of its modules came before.
            state.waiting.remove(module)
            self.depth += 1
            return state.call
        call = Call(state)
        if current_graph_task_id() >= 0:
            # What is computed again for a backward: its call is one of long ago.
            state.unshard(call)
            self.depth += 1
            return call
        if self.depth == 0:
            self.begin_forward()
        if len(state.modules) > 1:
            state.call = call
            state.waiting = [each for each in state.modules if each is not module]
        place = len(self.now)
        self.now.append(state)
        state.unshard(call)
        ahead = state.forward_ahead
        if ahead is None:
            ahead = self.order[place + 1 : place + 2] if self.order[: place + 1] == self.now else []
        for each in ahead:
            each.let_come()
        self.depth += 1
        return call

    def leave(self, call: Call, output: Any) -> None:
        self.depth -= 1
        state = call.state
        if current_graph_task_id() >= 0:
            self.leave_again(state)
            return
        keeps = is_grad_enabled()
        if state.waiting and self.depth:
            self.watch(call, output)
            return
        state.call, state.waiting = None, []
        state.reshard(state.reshards_after_forward or not keeps)
        if keeps:
            call.before = self.last
            self.last = weakref.ref(call)
            self.watch(call, output)
        if self.depth == 0:
            self.order, self.now = self.now, []
            self.drop_ahead()

    def watch(self, call: Call, output: Any) -> None:
        """Be told when the backward of a module begins."""
        if is_grad_enabled():
            for leaf in pytree.tree_leaves(output):
                if isinstance(leaf, Tensor) and leaf.requires_grad:
                    leaf.register_hook(lambda gradient: call.begin_backward())

    def leave_again(self, state: State) -> None:
        """A forward that was computed again for a backward, maybe not to its end, is over."""
        if state.running:
            state.show()
        else:
            state.reshard(True)

    def abort(self, state: State) -> None:
        """A forward has failed."""
        self.depth -= 1
        if current_graph_task_id() >= 0:
            self.leave_again(state)
            return
        state.reshard(True)
        if self.depth == 0:
            self.now = []
            self.drop_ahead()

    def begin_forward(self) -> None:
        self.now = []
        self.last = None
        for state in self.states:
            if state.call is not None:
                # Some of its modules had no forward the last time.
                state.call, state.waiting = None, []
                state.reshard(True)
            for bundle in state.bundles:
                bundle.drop_changed()

    def drop_ahead(self) -> None:
        """What was let come and not needed would be out of date another time."""
        for bundle in self.ahead:
            bundle.coming = None
        self.ahead = []

    # -- backward ------------------------------------------------------------------------------

    def watch_end(self) -> None:
        task = current_graph_task_id()
        if task != self.task and task >= 0:
            self.task = task
            Engine().queue_callback(self.finish)

    def take(self, state: State, bundle: Bundle, gradients: Any) -> list[Any]:
        """Let gradients travel; what the engine is to add by itself is answered."""
        if not state.syncs:
            with no_grad():
                for each, gradient in zip(bundle.spread, gradients):
                    whole = gradient.to(state.policy.reduce_dtype or gradient.dtype)
                    each.kept = whole.clone() if each.kept is None else each.kept + whole
            return [None] * len(bundle.spread)
        if any([each.kept is not None for each in bundle.spread]):
            with no_grad():
                gradients = [
                    gradient if each.kept is None else each.kept + gradient
                    for each, gradient in zip(bundle.spread, gradients)
                ]
            for each in bundle.spread:
                each.kept = None
        self.watch_end()
        # One at a time is under way: its memory is another whole.
        self.collect()
        self.returning = [Returning(bundle, gradients, state.factor, state.sums_replicas)]
        task = current_task()
        if task is not None and task.accumulates and not any(map(has_hooks, bundle.spread)):
            return [None] * len(bundle.spread)
        (returning,), self.returning = self.returning, []
        return [
            one if each.own.requires_grad else None
            for one, each in zip(returning.finish(), bundle.spread)
        ]

    def collect(self) -> None:
        """Gradients that have come are added to the parameters'."""
        every, self.returning = self.returning, []
        for returning in every:
            for each, gradient in zip(returning.bundle.spread, returning.finish()):
                own = each.own
                if gradient is None or not own.requires_grad:
                    continue
                if own.grad is None:
                    own.grad = gradient
                else:
                    with no_grad():
                        own.grad.add_(gradient)

    def finish(self) -> None:
        """The end of a backward."""
        self.task = -1
        self.collect()
        self.drop_ahead()
        for state in self.states:
            for call in state.running:
                call.left = 0
            state.running.clear()
            state.reshard(state.reshards_after_backward)

    def reset(self) -> None:
        """After a forward or backward that failed."""
        self.depth, self.task, self.now, self.last = 0, -1, [], None
        self.returning = []
        self.drop_ahead()
        for state in self.states:
            state.depth = 0
            state.running.clear()
            state.reshard(True)


def has_hooks(spread: Spread) -> bool:
    """Whether something is called with a parameter's gradient on its way to it."""
    known = spread.own._autograd
    return known is not None and (known.hooks is not None or known.post_accumulate is not None)


def cast(values: Any, wanted: dtype | None) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(wanted)
        return value

    return values if wanted is None else pytree.tree_map(one, values)


class UnshardHandle:
    """Parameters that are on their way to be whole."""

    def __init__(self, state: State) -> None:
        self.state: State | None = state

    def wait(self) -> None:
        state, self.state = self.state, None
        if state is not None:
            state.unshard(Call(state))


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
        tree = state.tree or Tree(state)
        call = tree.enter(state, self)
        state.depth += 1
        try:
            if state.reshards_after_forward and is_grad_enabled() and saves_by_itself():
                with saved_tensors_hooks(lambda tensor: state.pack(call, tensor), unpack):
                    output = method(*args, **kwargs)
            else:
                output = method(*args, **kwargs)
            output = cast(output, policy.output_dtype)
        except BaseException:
            tree.abort(state)
            raise
        finally:
            state.depth -= 1
        tree.leave(call, output)
        return output

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inner = super().__call__  # type: ignore[misc]
        return self.run_sharded(inner, args, kwargs)

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Make the parameters whole until `reshard`; with `async_op`, once the answer is awaited
        or the forward begins."""
        state = self._fully_sharded
        for bundle in state.bundles:
            bundle.begin()
        handle = UnshardHandle(state)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        self._fully_sharded.reshard(True)

    def reset_iter_state(self) -> None:
        tree = self._fully_sharded.tree
        if tree is not None:
            tree.reset()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.reshard()
        return super()._apply(*args, **kwargs)  # type: ignore[misc]

    # -- choices -------------------------------------------------------------------------------

    def set_reshard_after_forward(self, value: bool, recurse: bool = True) -> None:
        self.set_all("reshards", value, recurse)

    def set_reshard_after_backward(self, value: bool, *, recurse: bool = True) -> None:
        self.set_all("reshards_after_backward", value, recurse)

    def set_requires_gradient_sync(self, value: bool, *, recurse: bool = True) -> None:
        """Whether gradients are scattered, or kept whole and added up for a later backward."""
        self.set_all("syncs", value, recurse)

    def set_requires_all_reduce(self, value: bool, *, recurse: bool = True) -> None:
        """Whether replicas add their gradients, or keep theirs for a later backward."""
        self.set_all("sums_replicas", value, recurse)

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Every backward ends as the last one does: nothing is under way between two."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Gradients are sums, divided by this instead of the number of processes."""
        self.set_all("factor", factor, False)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Means are sums that are divided afterwards, always."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        self.set_all("unshards_in_backward", unshard_in_backward, False)

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Whose parameters come during this module's forward; else those of the module that came
        next the last time."""
        self.set_all("forward_ahead", states_of(modules), False)

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Whose parameters come during this module's backward; else those of the module whose
        forward ended before."""
        self.set_all("backward_ahead", states_of(modules), False)

    def set_all(self, name: str, value: Any, recurse: bool) -> None:
        found: Any = self
        for module in found.modules() if recurse else [self]:
            if isinstance(module, FSDPModule):
                setattr(module._fully_sharded, name, value)


def states_of(modules: list[FSDPModule]) -> list[State]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"fully_shard has not been applied to {type(module).__name__}")
    return [module._fully_sharded for module in modules]


def fully_shard(
    module: Module | list[Module],
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Parameter] | None = None,
) -> Any:
    """Spread a module's parameters over processes; inner modules first, the whole model last.

    With a mesh of two dims, the first one replicates. `shard_placement_fn` says along which of its
    dims a parameter is split, if not the first. Parameters that tensor parallelism has split are
    split further: both meshes must be parts of one. The parameters of a list of modules travel
    together.
    """
    roots = [module] if isinstance(module, Module) else list(module)
    if any([isinstance(each, FSDPModule) for each in roots]):
        raise ValueError("fully_shard has been applied to this module before")
    chosen = mesh or init_device_mesh("cpu", (get_world_size(),))
    policy = mp_policy or MixedPrecisionPolicy()
    places: dict[int, list[Place]] = {}
    left_out = {id(parameter) for parameter in ignored_params or ()}
    for inner in dict.fromkeys([inner for root in roots for inner in root.modules()]):
        if isinstance(inner, FSDPModule):
            for bundle in inner._fully_sharded.bundles:
                left_out.update([id(spread.own) for spread in bundle.spread])
        for name, parameter in inner._parameters.items():
            if parameter is not None and id(parameter) not in left_out:
                places.setdefault(id(parameter), []).append((inner, name))
    by_dtype: dict[dtype, list[Spread]] = {}
    for each in places.values():
        spread = Spread(each, chosen, shard_placement_fn)
        by_dtype.setdefault(spread.own.dtype, []).append(spread)
    bundles = [Bundle(each, chosen, policy) for each in by_dtype.values()]
    reshards = None if reshard_after_forward is None else bool(reshard_after_forward)
    state = State(roots, bundles, policy, reshards)
    for root in roots:
        cls = type(root)
        root.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {})
        object.__setattr__(root, "_fully_sharded", state)
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Give another method than `forward` whole parameters."""
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)

    def run(*args: Any, **kwargs: Any) -> Any:
        return module.run_sharded(method, args, kwargs)

    object.__setattr__(module, method_name, run)
