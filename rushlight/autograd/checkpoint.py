"""Activation checkpointing: keep less in forward, recompute it in backward.

The non-reentrant form packs every saved tensor into a `Slot` that holds nothing. The first
unpack of a backward re-runs the region under hooks that fill, for this graph task, the slots in
the order in which they were made; a slot is emptied by its use. Inputs of a region are kept by a
node of their own, so that an enclosing region's hooks see them too.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from rushlight.autograd.backward import backward as run_backward
from rushlight.autograd.engine import current_graph_task_id, current_task
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import enable_grad, no_grad
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.core.modes import TorchDispatchMode
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.recording import Recorder
from rushlight.core.rng import default_generator
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor, set_requires_grad
from rushlight.opset import functions

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_early_stop",
]


class CheckpointError(RuntimeError):
    """A recomputation that did not repeat the forward it stands for."""


class StopRecomputation(Exception):
    """Everything a region saved has been recomputed."""


def noop_context_fn() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


# -- state that a recomputation restores -----------------------------------------------------------


class Surroundings:
    """Random state and autocast as they were when a region first ran."""

    __slots__ = ("autocast", "preserve", "rng")

    def __init__(self, preserve: bool) -> None:
        self.preserve = preserve
        self.rng = rng_state() if preserve else None
        self.autocast = LOCAL.state.autocast

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        rng = rng_state() if self.preserve else None
        if self.rng is not None:
            load_rng_state(self.rng)
        try:
            with changed(autocast=self.autocast):
                yield
        finally:
            if rng is not None:
                load_rng_state(rng)


def rng_state() -> bytes:
    return default_generator.state_bytes()


def load_rng_state(state: bytes) -> None:
    default_generator.load_state_bytes(state)


# -- reentrant -------------------------------------------------------------------------------------


def check_backward_validity(inputs: Any) -> None:
    """Warn where no input of a region needs a gradient."""
    if not any([isinstance(each, Tensor) and each.requires_grad for each in inputs]):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leaves with the values and flags of the inputs."""
    found = []
    for value in inputs:
        if isinstance(value, Tensor):
            leaf = value.detach()
            leaf.requires_grad = value.requires_grad
            found.append(leaf)
        else:
            found.append(value)
    return tuple(found)


class CheckpointFunction(Function):
    """Runs without a graph; backward re-runs with one and backpropagates through it."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        if not any(isinstance(value, Tensor) and value.requires_grad for value in args):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
            )
        ctx.run_function = run_function
        ctx.surroundings = Surroundings(preserve_rng_state)
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        ctx.inputs = [None if isinstance(value, Tensor) else value for value in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        task = current_task()
        if task is not None and task.needed is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.inputs)
        for place, value in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = value
        leaves = detach_variable(tuple(inputs))
        with ctx.surroundings.restored(), enable_grad():
            outputs = ctx.run_function(*leaves)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        wanted = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not wanted:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        run_backward([output for output, _ in wanted], [grad for _, grad in wanted])
        return (
            None,
            None,
            *[leaf.grad if isinstance(leaf, Tensor) else None for leaf in leaves],
        )


# -- non-reentrant ---------------------------------------------------------------------------------


class Slot:
    """What a node keeps in the place of a saved tensor; weakly known to its region."""

    __slots__ = ("__weakref__", "used", "values")

    def __init__(self) -> None:
        # By graph task: the recomputed tensor, until it is used.
        self.values: dict[int, Any] = {}
        self.used: set[int] = set()


early_stop_default = True


class set_checkpoint_early_stop:
    """Whether regions made inside stop their recomputation once nothing more is needed."""

    def __init__(self, enable: bool) -> None:
        self.enable = enable

    def __enter__(self) -> None:
        global early_stop_default
        self.previous = early_stop_default
        early_stop_default = self.enable

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        global early_stop_default
        early_stop_default = self.previous


def described(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


# Tasks without an engine (direct access to a saved tensor) get numbers of their own.
outside_tasks = itertools.count(-2, -1)


class GraphExecGroup:
    """Within it, several backwards count as one: a region is recomputed once for all of them."""

    def __enter__(self) -> None:
        if GROUP.current is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested")
        # Numbers of graph tasks are not negative, and -1 means none.
        self.number = -1 - next(group_numbers)
        GROUP.current = self

    def __exit__(self, *details: Any) -> None:
        GROUP.current = None


class CurrentGroup(threading.local):
    current: GraphExecGroup | None = None


GROUP = CurrentGroup()
group_numbers = itertools.count(1)


class Region:
    """One checkpointed call: its slots, and how to fill them again."""

    def __init__(self, rerun: Callable[..., Any], check: bool, early_stop: bool) -> None:
        self.rerun = rerun
        self.check = check
        self.early_stop = early_stop
        self.inputs: Any = None
        self.slots: list[Any] = []
        self.descriptions: list[dict[str, Any]] = []
        self.counts: dict[int, int] = defaultdict(int)
        self.recomputed: set[int] = set()
        self.completed = False
        self.found: dict[int, list[Any]] = {}

    def pack(self, tensor: Any) -> Slot:
        slot = Slot()
        self.slots.append(weakref.ref(slot))
        if self.check:
            self.descriptions.append(described(tensor))
        return slot

    def unpack(self, slot: Slot) -> Any:
        group = GROUP.current
        task = current_graph_task_id() if group is None else group.number
        if task == -1:
            task = next(outside_tasks)
        if task not in self.recomputed:
            self.recompute(task)
        if task in slot.used:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                "unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do "
                "so only once. Otherwise please open an issue with details on your use case."
            )
        if task not in slot.values:
            raise CheckpointError(
                "torch.utils.checkpoint: the recomputation of a region did not save a tensor that "
                "its forward had saved. The checkpointed function must run the same operations "
                "each time it is called."
            )
        slot.used.add(task)
        return slot.values.pop(task)

    def recompute(self, task: int) -> None:
        args = restore_inputs(self.inputs)
        stopped = contextlib.suppress(StopRecomputation)
        with stopped, RecomputeHooks(weakref.ref(self), task), enable_grad():
            self.rerun(*args)
        self.recomputed.add(task)
        self.verify(task)

    def refill(self, tensor: Any, task: int) -> Any:
        """A tensor saved during recomputation goes to the slot of the same position."""
        position = self.counts[task]
        self.counts[task] += 1
        # The slot must not keep the graph of the recomputation.
        value = tensor.detach()
        if position >= len(self.slots):
            return value
        slot = self.slots[position]()
        if slot is not None:
            slot.values[task] = value
        if self.check:
            self.found.setdefault(task, []).append(described(tensor))
        if self.early_stop and self.completed and self.counts[task] == len(self.slots):
            raise StopRecomputation
        return tensor.detach()

    def verify(self, task: int) -> None:
        """Compare what the recomputation saved with what the forward had saved."""
        if not self.completed:
            return
        if self.counts[task] != len(self.slots):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\nNumber of tensors saved during forward: "
                f"{len(self.slots)}\nNumber of tensors saved during recomputation: "
                f"{self.counts[task]}.\nThe checkpointed function must do the same each time."
            )
        found = self.found.pop(task, [])
        differing = [
            f"tensor at position {position}:\nsaved metadata: {before}\n"
            f"recomputed metadata: {after}"
            for position, (before, after) in enumerate(zip(self.descriptions, found, strict=False))
            if before != after
        ]
        if differing:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass.\n" + "\n".join(differing)
            )


class RecomputeHooks(saved_tensors_hooks):
    """Hooks in force while a region is re-run."""

    def __init__(self, region: Any, task: int) -> None:
        def pack(tensor: Any) -> Any:
            found = region()
            return tensor.detach() if found is None else found.refill(tensor, task)

        super().__init__(pack, lambda tensor: tensor)


class SaveInputs(Function):
    """A node that does nothing but keep a region's inputs, subject to the hooks around it."""

    @staticmethod
    def forward(*args: Any) -> Any:
        return functions.empty((0,))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        rest = inputs[1:]
        ctx.places = [i for i, value in enumerate(rest) if isinstance(value, Tensor)]
        ctx.others = [None if isinstance(value, Tensor) else value for value in rest]
        ctx.save_for_backward(*[rest[i] for i in ctx.places])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("the inputs of a checkpointed region do not take part in backward")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return functions.zeros((0,))


def restore_inputs(keeper: Any) -> list[Any]:
    node = keeper.grad_fn
    args = list(node.others)
    for place, value in zip(node.places, node.saved_tensors, strict=True):
        requires_grad = value.requires_grad
        args[place] = value.detach().requires_grad_() if requires_grad else value
    return args


@contextlib.contextmanager
def without_reentrancy(
    function: Any,
    preserve_rng_state: bool,
    context_fn: Any,
    determinism_check: str,
    kwargs: dict[str, Any],
    args: tuple[Any, ...],
) -> Iterator[None]:
    """Around the first run of a region."""
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    forward_context, recompute_context = context_fn()
    surroundings = Surroundings(preserve_rng_state)

    def rerun(*inputs: Any) -> None:
        with surroundings.restored(), recompute_context:
            function(*inputs, **kwargs)

    state = LOCAL.state
    if state.transforms and state.saved_hooks_disabled is None:
        # A sample of a batch does not outlive its vmap: everything is kept, nothing run again.
        with forward_context:
            yield
        return
    region = Region(rerun, determinism_check == "default", early_stop_default)
    dummy = functions.empty((0,))
    set_requires_grad(dummy, True)
    region.inputs = SaveInputs.apply(dummy, *args)
    if region.inputs.grad_fn is None:
        # No graph is being recorded: nothing will be asked for again.
        with forward_context:
            yield
        return
    with saved_tensors_hooks(region.pack, region.unpack), forward_context:
        yield
    region.completed = True


def checkpoint(
    function: Any,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Any = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """Run `function` keeping only its inputs; backward recomputes the rest.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([-2.4784, -2.4784])
    """
    if use_reentrant is None:
        warn_reentrant("checkpoint")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if LOCAL.state.transforms or LOCAL.state.inference:
        # A transform keeps what it needs until it ends, inference mode records nothing: there is no
        # later backward to save for.
        with context_fn()[0]:
            return function(*args, **kwargs)
    recorder = LOCAL.state.proxy
    if recorder is not None and recorder.marks_regions:
        with marked(recorder, context_fn):
            return function(*args, **kwargs)
    region = without_reentrancy(function, preserve, context_fn, determinism_check, kwargs, args)
    with region:
        return function(*args, **kwargs)


# Regions of graphs that are being recorded.
region_numbers = itertools.count(1)


@contextlib.contextmanager
def marked(recorder: Recorder, context_fn: Callable[[], tuple[Any, Any]]) -> Iterator[None]:
    """Around a region that is being recorded: its nodes carry what the policy says of them, and
    who cuts the graph into forward and backward goes by that."""
    number = next(region_numbers)
    context, _ = context_fn()
    asked = context if isinstance(context, SelectiveMode) else None

    def marking(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        policy: Any = CheckpointPolicy.PREFER_RECOMPUTE
        if asked is not None and getattr(op, "base_name", op) not in IGNORED:
            told = SelectiveCheckpointContext(is_recompute=False)
            policy = asked.policy_fn(told, op, *args, **kwargs)
            if isinstance(policy, bool):
                policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        return {"recompute": policy, "ac_graph_id": number}

    before = recorder.marking
    recorder.marking = marking
    try:
        with contextlib.nullcontext() if asked is not None else context:
            yield
    finally:
        recorder.marking = before


def warn_reentrant(name: str) -> None:
    warnings.warn(
        f"torch.utils.checkpoint.{name}: the use_reentrant parameter should be passed explicitly. "
        "use_reentrant=False is recommended, but if you need to preserve the current default "
        "behavior, you can pass use_reentrant=True.",
        UserWarning,
        stacklevel=3,
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Checkpoint a chain of modules in segments; the last segment is kept as it is."""
    if use_reentrant is None:
        warn_reentrant("checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def part(start: int, end: int) -> Any:
        def run(value: Any) -> Any:
            for position in range(start, end + 1):
                value = chain[position](value)
            return value

        return run

    size = len(chain) // segments
    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            part(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return part(end + 1, len(chain) - 1)(input)


# -- selective -------------------------------------------------------------------------------------


class CheckpointPolicy(Enum):
    """What a policy answers for one op."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def saves(policy: Any) -> bool:
    if isinstance(policy, bool):
        return policy
    return policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class VersionedValue:
    """An output kept by the first run: detached, and checked for later writes."""

    __slots__ = ("val", "version")

    def __init__(self, value: Any) -> None:
        # An alias, not `detach`: inside a mode that would not share the version counter.
        self.val = value._alias() if isinstance(value, Tensor) else value
        self.version = value._version if isinstance(value, Tensor) else None

    def take(self, allow_mutation: bool) -> Any:
        if self.version is not None and self.val._version != self.version and not allow_mutation:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated"
            )
        return self.val


def map_values(function: Any, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([map_values(function, item) for item in value])
    return function(value)


# Ops that a policy is not asked about.
IGNORED = ("detach", "prim_device")


def ignored_ops() -> set[OpOverload]:
    """Operators that no policy is asked about."""
    from rushlight.opset.registry import packet

    return set(packet("detach").table.values())


class SelectiveMode(TorchDispatchMode):
    """Asks a policy about every op of a region."""

    is_recompute = False

    def __init__(self, policy_fn: Any, storage: Any) -> None:
        super().__init__()
        self.policy_fn = policy_fn
        self.storage = storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func.base_name in IGNORED:
            return func(*args, **kwargs)
        context = SelectiveCheckpointContext(is_recompute=self.is_recompute)
        if not saves(self.policy_fn(context, func, *args, **kwargs)):
            return func(*args, **kwargs)
        return self.saved(func, args, kwargs)

    def saved(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an op that the policy wants kept."""
        raise NotImplementedError


class _CachingTorchDispatchMode(SelectiveMode):
    """The first run: keep the outputs that the policy asks for."""

    def saved(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        self.storage[func].append(map_values(VersionedValue, result))
        return result


class _CachedTorchDispatchMode(SelectiveMode):
    """The recomputation: take kept outputs instead of running their ops."""

    is_recompute = True

    def __init__(self, policy_fn: Any, storage: Any, allow_cache_entry_mutation: bool) -> None:
        super().__init__(policy_fn, storage)
        self.allow_cache_entry_mutation = allow_cache_entry_mutation

    def saved(self, func: Any, args: Any, kwargs: Any) -> Any:
        kept = self.storage.get(func)
        if kept is None:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not kept:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        return map_values(lambda entry: entry.take(self.allow_cache_entry_mutation), kept.pop(0))


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Contexts for `checkpoint(context_fn=...)` that keep the outputs of chosen ops."""
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                more = (
                    "Please update the OpOverloadPacket to a specific OpOverload. For example, if "
                    "you have `torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type "
                    f"{type(op)}. {more}"
                )

        def policy_fn(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            if op in policy_fn_or_list:
                return CheckpointPolicy.MUST_SAVE
            return CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy_fn = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, list[Any]] = defaultdict(list)
    return (
        _CachingTorchDispatchMode(policy_fn, storage),
        _CachedTorchDispatchMode(policy_fn, storage, allow_cache_entry_mutation),
    )
