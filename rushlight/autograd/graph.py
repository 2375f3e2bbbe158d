"""The backward graph seen from outside: nodes, edges, saved-tensor hooks, multi-tensor hooks.

The rules of saving itself are in `core.node`; this module only pushes and pops hook pairs on
the thread's state and keeps the books of `allow_mutation_on_saved_tensors`.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.autograd.backward import GradientEdge, get_gradient_edge
from rushlight.autograd.engine import current_task, will_engine_execute_node
from rushlight.core.hooks import RemovableHandle
from rushlight.core.node import GraphNode, gradient_node, version_of
from rushlight.core.state import LOCAL
from rushlight.core.storage import VersionCounter
from rushlight.core.tensor import Tensor, storage_of, strides_of

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class Node(metaclass=ABCMeta):
    """What every `grad_fn` is an instance of, without having it among its base classes."""

    __slots__ = ()

    @abstractmethod
    def name(self) -> str:
        """The node's name, such as `MulBackward0`."""
        raise NotImplementedError

    @property
    @abstractmethod
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """One (node, output number) for each tensor input; (None, 0) where none is needed."""
        raise NotImplementedError

    @abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dictionary that lives as long as the node."""
        raise NotImplementedError

    @abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the node has run."""
        raise NotImplementedError

    @abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node runs."""
        raise NotImplementedError

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        if cls is Node and issubclass(subclass, GraphNode):
            return True
        return NotImplemented


# -- hooks on saved tensors -----------------------------------------------------------------------


class saved_tensors_hooks:
    """Save `pack_hook(tensor)` instead of tensors inside; backward asks `unpack_hook` for them.

    >>> import rushlight as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([12.])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Any:
        state = LOCAL.state
        if state.saved_hooks_disabled is not None:
            raise RuntimeError(state.saved_hooks_disabled)
        state.saved_hooks = (*state.saved_hooks, (self.pack_hook, self.unpack_hook))
        state.refresh()
        return None

    def __exit__(self, *args: object) -> None:
        state = LOCAL.state
        state.saved_hooks = state.saved_hooks[:-1]
        state.refresh()


def saved_tensors_hooks_enabled() -> bool:
    """Whether `saved_tensors_hooks` may be entered."""
    return LOCAL.state.saved_hooks_disabled is None


def forbid_saved_tensors_hooks(message: str) -> None:
    """From here on `saved_tensors_hooks` may not be entered: RuntimeError(message)."""
    LOCAL.state.saved_hooks_disabled = message


def allow_saved_tensors_hooks() -> None:
    """From here on `saved_tensors_hooks` may be entered."""
    LOCAL.state.saved_hooks_disabled = None


class disable_saved_tensors_hooks:
    """Inside, entering `saved_tensors_hooks` raises RuntimeError(error_message)."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message
        self.previous: list[str | None] = []

    def __enter__(self) -> None:
        state = LOCAL.state
        if state.saved_hooks:
            raise RuntimeError(self.message)
        self.previous.append(state.saved_hooks_disabled)
        state.saved_hooks_disabled = self.message

    def __exit__(self, *args: object) -> None:
        LOCAL.state.saved_hooks_disabled = self.previous.pop()

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with disable_saved_tensors_hooks(self.message):
                return function(*args, **kwargs)

        return inside


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in host memory; backward moves them back to their device."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> tuple[Any, Any]:
            # A copy in any case: moving to where a tensor already is would only alias it.
            return tensor.device, tensor.to("cpu", copy=True)

        def unpack(packed: tuple[Any, Any]) -> Any:
            place, tensor = packed
            return tensor.to(place, non_blocking=pin_memory)

        super().__init__(pack, unpack)


# -- mutation of saved tensors --------------------------------------------------------------------


class Handle:
    """What a node holds for a saved tensor inside `allow_mutation_on_saved_tensors`."""

    __slots__ = ("__weakref__",)


class MutationContext:
    """The books: which tensors are saved, at which version, and what was cloned for them.

    Nodes hold the only strong references to handles, so entries go when graphs go. `original`
    keeps aliases without history: a tensor's own history could lead back to its handle.
    """

    def __init__(self) -> None:
        self.cloned: weakref.WeakKeyDictionary[Handle, Any] = weakref.WeakKeyDictionary()
        self.original: weakref.WeakKeyDictionary[Handle, Any] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[Any, Handle] = (
            weakref.WeakValueDictionary()
        )
        self.sid_to_tid: dict[tuple[int, int], set[Any]] = {}

    def clear(self) -> None:
        self.cloned.clear()
        self.original.clear()
        self.tid_to_weakhandle.clear()
        self.sid_to_tid.clear()

    def pack(self, tensor: Any) -> Handle:
        sid = memory_id(tensor)
        tid = (id(tensor), sid, tuple(tensor.shape), strides_of(tensor), tensor._offset)
        handle = self.tid_to_weakhandle.get(tid)
        if handle is None:
            handle = self.tid_to_weakhandle[tid] = Handle()
            self.original[handle] = tensor._alias()
            self.sid_to_tid.setdefault(sid, set()).add(tid)
        return handle

    def unpack(self, handle: Handle) -> Any:
        if handle in self.cloned:
            return self.cloned[handle]
        if handle not in self.original:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in "
                "which the graph was originally recorded."
            )
        return self.original[handle]

    def clone_before_write(self, tensor: Any) -> None:
        """Give every tensor saved from this memory at this version a copy of its own."""
        for tid in self.sid_to_tid.pop(memory_id(tensor), ()):
            handle = self.tid_to_weakhandle.get(tid)
            if handle is not None and handle not in self.cloned:
                self.cloned[handle] = self.original.pop(handle).clone()


def memory_id(tensor: Any) -> tuple[int, int]:
    """A value of a piece of memory: all aliases of a tensor share it until the next write."""
    strided = tensor._array is not None
    return id(storage_of(tensor) if strided else tensor), version_of(tensor)


@contextmanager
def allow_mutation_on_saved_tensors() -> Any:
    """Inside, a tensor that some graph saved may be written to: the graph keeps a copy."""
    from rushlight.core.modes import TorchDispatchMode

    state = LOCAL.state
    if state.stash.get("allow_mutation"):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    books = MutationContext()

    class CloneBeforeWrite(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            for position, argument in enumerate(func._schema.arguments):
                alias = argument.alias_info
                if alias is None or not alias.is_write:
                    continue
                value = args[position] if position < len(args) else kwargs.get(argument.name)
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, Tensor):
                        books.clone_before_write(tensor)
            return func(*args, **kwargs)

    with CloneBeforeWrite(), saved_tensors_hooks(books.pack, books.unpack):
        state.stash["allow_mutation"] = True
        try:
            yield books
        finally:
            books.clear()
            state.stash["allow_mutation"] = False


# -- hooks on several tensors ---------------------------------------------------------------------


class MultiHandle(RemovableHandle):
    """Removes one hook from each of several tensors."""

    handles: tuple[RemovableHandle, ...]

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


class Arrivals:
    """The gradients that a multi-grad hook has seen in one graph task."""

    __slots__ = ("expected", "grads", "seen")

    def __init__(self, count: int) -> None:
        self.grads: list[Any] = [None] * count
        self.expected = -1
        self.seen = 0


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` when the gradients of all of `tensors` (mode "any": of one) have been computed.

    Mode "all" waits for those tensors that the running backward will reach, and passes the list
    of gradients, None for the others; mode "any" passes the first gradient. Either is called at
    most once in each backward.
    """
    modes = ("all", "any")
    if mode not in modes:
        raise ValueError(f"Expects mode to be one of {modes} but got {mode}")
    lock = threading.Lock()
    key = object()  # this registration's place in a task's notes
    if mode == "any":

        def first(grad: Any) -> None:
            task = current_task()
            assert task is not None
            with lock:
                seen = task.notes.get(key, False)
                task.notes[key] = True
            if not seen:
                fn(grad)

        return MultiHandle(tuple([t.register_hook(first) for t in tensors if t.requires_grad]))

    nodes = [gradient_node(tensor) for tensor in tensors]

    def hook_for(position: int) -> Callable[[Any], None]:
        def arrived(grad: Any) -> None:
            task = current_task()
            assert task is not None
            with lock:
                arrivals = task.notes.get(key)
                if arrivals is None:
                    arrivals = task.notes[key] = Arrivals(len(nodes))
                    arrivals.expected = sum([will_engine_execute_node(node) for node in nodes])
                arrivals.grads[position] = grad
                arrivals.seen += 1
                complete = arrivals.seen == arrivals.expected
            if complete:
                fn(arrivals.grads)

        return arrived

    return MultiHandle(
        tuple([tensor.register_hook(hook_for(i)) for i, tensor in enumerate(tensors)])
    )


# -- versions, view replay ------------------------------------------------------------------------


def increment_version(tensor: Any) -> None:
    """Tell autograd that a tensor's memory was written to behind its back."""
    from rushlight.core.history import bump_version

    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if each.is_inference() and not LOCAL.state.inference:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can "
                "make a clone to get a normal tensor before doing inplace update."
            )
        bump_version(each)


def as_tensors(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def unsafe_set_version_counter(tensors: Any, versions: int | Iterable[int]) -> None:
    """Set the version of one tensor, or of several, without a write."""
    given = (versions,) if isinstance(versions, int) else tuple(versions)
    for tensor, version in zip(as_tensors(tensors), given, strict=True):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        if tensor._counter is None:
            tensor._counter = VersionCounter()
        tensor._counter.value = version


class unsafe_preserve_version_counter:
    """On exit, give tensors back the versions they had at construction."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = as_tensors(tensors)
        self.versions = tuple([tensor._version for tensor in self.tensors])

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: object) -> None:
        unsafe_set_version_counter(self.tensors, self.versions)


def is_view_replay_enabled() -> bool:
    """Whether stale views are regenerated by their own ops rather than by as_strided."""
    return LOCAL.state.view_replay


class force_original_view_tracking:
    """Set view replay at once; as a context manager, restore it afterwards."""

    def __init__(self, mode: bool) -> None:
        self.previous = LOCAL.state.view_replay
        self.mode = mode
        LOCAL.state.view_replay = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: object) -> None:
        LOCAL.state.view_replay = self.previous

    def clone(self) -> Any:
        return type(self)(self.mode)


class WeakTensorRef:
    """A weak reference to a tensor that can be asked whether it has died."""

    __slots__ = ("ref",)

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()

    def expired(self) -> bool:
        return self.ref() is None


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Nothing can be warned of: gradients here come from no streams."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Nothing to override: no graph of a device's calls is captured here."""
