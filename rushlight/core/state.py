"""The thread-local state bundle and the one flag that lets the hot path skip it.

Every mode (grad, inference, dispatch modes, saved-tensor hooks ...) lives in `ThreadState`.
`PROCESS.special` counts threads whose bundle is not in its default state, so a stub that
reads zero there knows that no thread-local needs to be looked at. Invariant: every change
of a bundle's fields ends in `ThreadState.refresh()`. `changed` does both, and undoes them; code
that runs for every call writes the same out, restoring fields before it calls anything: a signal
may raise in any call.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.core.fake import FakeTensorMode

__all__ = ["LAYER_AUTOGRAD", "LAYER_FUNCTION", "LAYER_MODES", "LOCAL", "PROCESS", "ThreadState"]
__all__ += ["Change", "Occupant", "changed", "excluding"]

# Bits of ThreadState.excluded: layers that a call made by this thread passes by.
LAYER_FUNCTION = 1  # __torch_function__ of subclasses
LAYER_FUNCTION_MODES = 2  # TorchFunctionMode stack
LAYER_TRANSFORMS = 4
LAYER_AUTOCAST = 8
LAYER_AUTOGRAD = 16
LAYER_MODES = 32  # TorchDispatchMode stack
LAYER_SUBCLASS = 64  # __torch_dispatch__ of subclasses
LAYER_PRE = 512  # pre-dispatch modes: composites are still whole there
LAYER_FUNCTIONAL = 1024  # writes and views become values
LAYER_PROXY = 2048  # calls are recorded in a graph
LAYER_FAKE = 4096  # shape rules instead of kernels
LAYER_PRE_FUNCTIONAL = 8192  # functionalization and recording above autograd
LAYER_PRE_PROXY = 16384
LAYER_INPLACE_OR_VIEW = 32768  # users' kernels of the key ADInplaceOrView
# What a call made from below a layer passes by: that layer and everything above it.
BELOW_PRE_FUNCTIONAL = LAYER_TRANSFORMS | LAYER_PRE | LAYER_PRE_FUNCTIONAL
BELOW_PRE_PROXY = BELOW_PRE_FUNCTIONAL | LAYER_PRE_PROXY
ABOVE_AUTOGRAD = BELOW_PRE_PROXY | LAYER_AUTOCAST
BELOW_AUTOGRAD = ABOVE_AUTOGRAD | LAYER_AUTOGRAD
BELOW_SUBCLASS = BELOW_AUTOGRAD | LAYER_MODES | LAYER_SUBCLASS
BELOW_FUNCTIONAL = BELOW_SUBCLASS | LAYER_FUNCTIONAL
BELOW_PROXY = BELOW_FUNCTIONAL | LAYER_PROXY
BELOW_FAKE = BELOW_PROXY | LAYER_FAKE
# Excluding overrides alone does not leave the fast path: packet_call checks them itself.
OVERRIDES = LAYER_FUNCTION | LAYER_FUNCTION_MODES
# Set beside LAYER_FUNCTION and LAYER_FUNCTION_MODES by Python code that switches overrides off. A
# composite's body sets those two alone, so that a handler called from inside can lift them again.
# Each lies USER_SHIFT bits above the one it stands beside.
USER_SHIFT = 7
USER_FUNCTION = LAYER_FUNCTION << USER_SHIFT
USER_FUNCTION_MODES = LAYER_FUNCTION_MODES << USER_SHIFT
USER_OVERRIDES = USER_FUNCTION | USER_FUNCTION_MODES


def as_python(excluded: int) -> int:
    """The bits for Python code called back from below the API level: overrides are off there only
    if Python code switched them off."""
    return excluded & ~OVERRIDES | (excluded & USER_OVERRIDES) >> USER_SHIFT


class Process:
    """Process-wide counters read by the hot path."""

    __slots__ = ("lock", "special", "threads", "warn_always")

    def __init__(self) -> None:
        self.special = 0
        # Threads that have ever had a state; never falls.
        self.threads = 0
        # Whether warnings meant to appear once appear every time.
        self.warn_always = False
        self.lock = threading.Lock()


PROCESS = Process()


class ThreadState:
    """Modes of one thread; snapshotted and installed elsewhere by the engine."""

    __slots__ = (
        "anomaly",
        "anomaly_check_nan",
        "autocast",
        "below",
        "counted",
        "default_device",
        "dispatch_modes",
        "duals",
        "entered",
        "excluded",
        "fake",
        "forward_enabled",
        "forward_guard",
        "forward_level",
        "function_modes",
        "functional",
        "grad",
        "inference",
        "layers",
        "multithreading",
        "node_meta",
        "others",
        "owner",
        "pre_functional",
        "pre_modes",
        "pre_proxy",
        "profiler",
        "proxy",
        "saved_hooks",
        "saved_hooks_disabled",
        "stash",
        "tasks",
        "tracer",
        "transforms",
        "view_replay",
        "witness",
    )

    def __init__(self) -> None:
        self.grad = True
        self.inference = False
        self.excluded = 0
        self.function_modes: tuple[Any, ...] = ()
        self.dispatch_modes: tuple[Any, ...] = ()
        self.pre_modes: tuple[Any, ...] = ()
        # Occupants of their layer: objects with `process(op, args)`.
        self.pre_functional: Any = None
        self.pre_proxy: Any = None
        self.functional: Any = None
        self.proxy: Any = None
        # The trace of `jit` that occupies `pre_proxy`, if one does.
        self.tracer: Any = None
        self.fake: FakeTensorMode | None = None
        self.transforms: tuple[Any, ...] = ()
        # The level of differentiation whose call the autograd layer is recording, if not plain.
        self.owner: Any = None
        self.autocast: Any = None
        self.default_device: Any = None
        self.saved_hooks: tuple[Any, ...] = ()
        self.saved_hooks_disabled: str | None = None
        # The level of forward mode (`core.duals`), and its number while tangents are pushed.
        self.duals: Any = None
        self.forward_level = -1
        self.forward_enabled = True
        self.anomaly = False
        self.anomaly_check_nan = True
        # What looks at the results of forward calls in anomaly mode: `guard(op, args, state)`.
        self.forward_guard: Any = None
        self.profiler: Any = None
        # Called with each kernel's op, arguments and result. It is no layer: whoever asks what is
        # below autograd is not told of it.
        self.witness: Any = None
        # What nodes of graphs that are recorded now inherit; None where nobody asked for it.
        self.node_meta: dict[str, Any] | None = None
        self.view_replay = False
        self.multithreading = True
        self.stash: dict[str, Any] = {}
        self.tasks: tuple[Any, ...] = ()
        # (context manager, what was before) of those that are open in this thread, innermost last.
        self.entered: list[tuple[Any, Any]] = []
        # Whether a layer below autograd is occupied.
        self.below = False
        # Whether a layer is, and whether one apart from transforms is.
        self.layers = False
        self.others = False
        self.counted = False

    def follows_gradients(self) -> bool:
        """Whether what a gradient formula computes may be differentiated again: it is recorded, or
        a transform or a dual level takes derivatives of it, for which grad mode says nothing."""
        return self.grad or bool(self.transforms) or self.duals is not None

    def sees_aliases(self) -> bool:
        """Whether a mode or a recorder is to be told of tensors that are made over others' memory
        without a call. torch: a trace of `jit` is not, and takes them for constants."""
        return bool(
            self.proxy is not None
            or (self.pre_proxy is not None and self.tracer is None)
            or self.dispatch_modes
            or self.pre_modes
        )

    def set_grad(self, value: bool) -> None:
        """Switch grad mode; the cheaper form of a write and `refresh`."""
        self.grad = value
        special = self.layers or not value or self.excluded != 0
        if special is not self.counted:
            with PROCESS.lock:
                self.counted = special
                PROCESS.special += 1 if special else -1

    def refresh(self) -> None:
        """Recompute `below`, `layers`, `others` and this thread's share of `PROCESS.special`."""
        below = self.below = bool(
            self.dispatch_modes
            or self.functional is not None
            or self.proxy is not None
            or self.fake is not None
        )
        others = self.others = bool(
            below
            or self.inference
            or self.excluded & ~OVERRIDES
            or self.function_modes
            or self.pre_modes
            or self.pre_functional is not None
            or self.pre_proxy is not None
            or self.autocast is not None
            or self.default_device is not None
            or self.saved_hooks
            or self.forward_level >= 0
            or self.anomaly
            or self.profiler is not None
            or self.witness is not None
        )
        self.layers = others or bool(self.transforms)
        special = self.layers or not self.grad or self.excluded != 0
        if special is not self.counted:
            with PROCESS.lock:
                self.counted = special
                PROCESS.special += 1 if special else -1

    def descend(self, under: tuple[Any, ...]) -> None:
        """Let calls start at transforms further down, until `ascend`. The thread goes on being
        counted as special meanwhile: a call then looks at `layers`, and finds what holds."""
        self.transforms = under
        if not under:
            self.layers = self.others
        if not self.counted:
            self.refresh()

    def ascend(self, transforms: tuple[Any, ...]) -> None:
        """Go back to the transforms that `descend` came from, or on to more of them."""
        self.transforms = transforms
        self.layers = True
        if not (transforms and self.counted):
            self.refresh()

    def leave(self, manager: Any) -> Any:
        """What was before `manager` was entered; see `entered`."""
        entered = self.entered
        # The last one, unless generators are suspended inside their blocks.
        place = len(entered) - 1
        while entered[place][0] is not manager:
            place -= 1
        return entered.pop(place)[1]

    def snapshot(self) -> dict[str, Any]:
        """The fields another thread needs to behave like this one."""
        return {name: getattr(self, name) for name in SNAPSHOT_FIELDS}

    def install(self, fields: dict[str, Any]) -> None:
        """Take over the fields of a snapshot."""
        for name, value in fields.items():
            setattr(self, name, value)
        self.refresh()


SNAPSHOT_FIELDS = tuple(
    name
    for name in ThreadState.__slots__
    if name not in ("below", "counted", "entered", "layers", "others", "tasks")
)


# Fields that a thread's state starts with, where they are not the defaults.
STARTING: dict[str, Any] = {}


class Local(threading.local):
    """Holder of each thread's `ThreadState`."""

    def __init__(self) -> None:
        with PROCESS.lock:
            PROCESS.threads += 1
        self.state = ThreadState()
        if STARTING:
            self.state.install(STARTING)
        self.guard = ExitGuard(self.state)


class ExitGuard:
    """Gives back a thread's share of `PROCESS.special` when the thread ends inside a mode."""

    __slots__ = ("state",)

    def __init__(self, state: ThreadState) -> None:
        self.state = state

    def __del__(self) -> None:
        if self.state.counted:
            self.state.counted = False
            with PROCESS.lock:
                PROCESS.special -= 1


LOCAL = Local()


class changed:
    """Fields of the thread's state have other values inside: `with changed(grad=False):`.

    What the body does to other fields stays. Gives the state.
    """

    __slots__ = ("before", "fields", "state")

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __enter__(self) -> ThreadState:
        state = self.state = LOCAL.state
        fields = self.fields
        before: dict[str, Any] = {}
        self.before = before
        try:
            for name in fields:
                before[name] = getattr(state, name)
                setattr(state, name, fields[name])
            state.refresh()
        except BaseException:
            restore(state, before)
            raise
        return state

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        state = self.state
        before = self.before
        try:
            for name in before:
                setattr(state, name, before[name])
            state.refresh()
        except BaseException:
            restore(state, before)
            raise


def restore(state: ThreadState, before: dict[str, Any]) -> None:
    """Put fields back after a signal came between."""
    for name, value in before.items():
        setattr(state, name, value)
    state.refresh()


def active_tracer() -> Any:
    """The trace of `jit` that records what this thread calls; None where none does."""
    state = LOCAL.state
    return None if state.excluded & LAYER_PRE_PROXY else state.tracer


def excluding(layers: int) -> changed:
    """Calls made inside pass the given layers by too."""
    return changed(excluded=LOCAL.state.excluded | layers)


class Change:
    """Base of context managers that change fields of the state.

    One object may be entered again inside itself, and by several threads at once: what was before
    is kept by the thread.
    """

    def fields(self, state: ThreadState) -> dict[str, Any]:
        """What the fields are inside."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        state = LOCAL.state
        fields = self.fields(state)
        before = {name: getattr(state, name) for name in fields}
        state.entered.append((self, before))
        try:
            state.install(fields)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        state = LOCAL.state
        before = state.leave(self)
        try:
            state.install(before)
        except BaseException:
            restore(state, before)
            raise


class Occupant(Change):
    """A mode that has a layer of its own: the field `slot` of the state while it is active. Calls
    that it makes go on below itself, wherever it sits: they pass `covered` by."""

    slot = ""
    covered = 0

    def below(self) -> changed:
        """Where an occupant continues, as a context."""
        return changed(excluded=LOCAL.state.excluded | self.covered)

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {self.slot: self}


def stash_obj_in_tls(key: str, value: object) -> None:
    """Keep an object where code run by this thread's backwards finds it too."""
    LOCAL.state.stash[key] = value


def get_obj_in_tls(key: str) -> Any:
    return LOCAL.state.stash[key]


def is_key_in_tls(key: str) -> bool:
    return key in LOCAL.state.stash


def set_warn_always(b: bool) -> None:
    """Whether warnings that appear once in a process appear every time."""
    PROCESS.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    return PROCESS.warn_always


WARNED: set[str] = set()


def warn_once(key: str, message: str, stacklevel: int = 4) -> None:
    """Warn the first time in a process, or every time where `set_warn_always` asks for it."""
    if key not in WARNED or PROCESS.warn_always:
        WARNED.add(key)
        import warnings

        warnings.warn(message, UserWarning, stacklevel=stacklevel)
