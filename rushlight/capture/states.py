"""States of the library that captured code switches: grad mode, inference mode, autocast.

A switch is a node of the graph. Code that is compiled ahead of time holds its effect and drops the
node, so generated code itself writes the state that holds behind the graph. A context that is open
there is one that was entered: its exit finds what was before.
"""

from __future__ import annotations

import types
from typing import Any

from rushlight.amp import autocasting
from rushlight.amp.autocasting import CHOICES, CPU_DTYPES, Caster, autocast
from rushlight.autograd import grad_mode
from rushlight.autograd.grad_mode import write_grad
from rushlight.autograd.graph import (
    allow_saved_tensors_hooks,
    disable_saved_tensors_hooks,
    forbid_saved_tensors_hooks,
    saved_tensors_hooks_enabled,
)
from rushlight.capture.outcomes import Break
from rushlight.capture.sources import const
from rushlight.capture.values import Const, New, Obj, Seq
from rushlight.core import dtype as dtypes
from rushlight.core import process
from rushlight.core.state import LOCAL, OVERRIDES, changed

__all__ = [
    "CONTEXTS", "SWITCHES", "balance", "construct", "current", "fields_of", "obstacle", "reopen",
    "special", "token", "unwatched", "write",
]  # fmt: skip

Modes = dict[str, Any]


def current() -> Modes:
    """The states that capture follows, as they are now."""
    state = LOCAL.state
    chosen = (
        state.autocast is not None,
        autocasting.get_autocast_dtype("cpu"),
        CHOICES.caches,
    )
    return {"grad": state.grad, "inference": state.inference, "autocast": chosen}


def write(modes: Modes) -> None:
    """Bring the thread into a state."""
    write_inference(modes["inference"], modes["grad"])
    write_autocast(*modes["autocast"])
    if "forbidden" in modes:
        LOCAL.state.saved_hooks_disabled = modes["forbidden"]


def write_inference(inference: bool, grad: bool) -> None:
    """Switch inference mode, and grad mode with it."""
    state = LOCAL.state
    state.inference, state.grad = inference, grad
    state.refresh()


def write_autocast(enabled: bool, dtype: Any, caches: bool) -> None:
    """Switch autocast for the CPU."""
    CHOICES.caches = caches
    CHOICES.dtypes["cpu"] = dtype
    if not enabled and not CHOICES.nesting:
        autocasting.clear_autocast_cache()
    autocasting.set_autocast_enabled("cpu", enabled)


def fields_of(modes: Modes) -> dict[str, Any]:
    """Modes as fields of the thread's state."""
    enabled, dtype, _ = modes["autocast"]
    caster = Caster(dtype, False, {}) if enabled else None
    return {"grad": modes["grad"], "inference": modes["inference"], "autocast": caster}


def obstacle() -> str | None:
    """What is active now that changes the meaning of calls, and that capture does not follow."""
    state = LOCAL.state
    if not state.layers:
        return None
    reasons = {
        "a transform of torch.func": state.transforms,
        "a mode of __torch_function__": state.function_modes,
        "a mode of __torch_dispatch__": state.dispatch_modes or state.pre_modes,
        "a tracer": state.below or state.pre_functional or state.pre_proxy,
        "hooks of saved tensors": state.saved_hooks,
        "forward mode": state.forward_level >= 0,
        "anomaly detection": state.anomaly,
        "a witness of kernels": state.witness is not None,
        "switched-off layers": state.excluded & ~OVERRIDES,
    }
    return next((reason for reason, is_active in reasons.items() if is_active), None)


def unwatched() -> changed:
    """A context in which no profiler is told of calls."""
    return changed(profiler=None)


def token() -> Any:
    """All of the thread's state that compiled code depends on."""
    return list(current().values()), LOCAL.state.default_device, obstacle()


def reopen(manager: Any, before: Any) -> None:
    """Note a context as entered: its exit goes back to `before`. No recorder was told."""
    LOCAL.state.entered.append((manager, (*before, None)))
    autocasting.autocast_increment_nesting()


def before_of(manager: Any) -> Any:
    """What was before a context was entered that is open now."""
    entered = LOCAL.state.entered
    return next((before[:3] for other, before in reversed(entered) if other is manager), None)


GRAD_MODES: dict[type, bool | None] = {
    grad_mode.no_grad: False,
    grad_mode.enable_grad: True,
    grad_mode.set_grad_enabled: None,
}
FORBIDS = disable_saved_tensors_hooks
CONTEXTS: set[type] = {*GRAD_MODES, grad_mode.inference_mode, autocast, FORBIDS}
# The nodes that switch states.
SWITCHES: set[Any] = {
    write_grad, write_inference, write_autocast,
    forbid_saved_tensors_hooks, allow_saved_tensors_hooks,
}  # fmt: skip


def balance(t: Any) -> None:
    """Let a graph end in the state it began in: backends run it more than once."""
    entry = t.entry_modes
    if t.modes.get("forbidden") != entry.get("forbidden"):
        forbid(t, t.root.add, entry["forbidden"])
    if t.modes["autocast"] != entry["autocast"]:
        t.root.add("call_function", write_autocast, list(entry["autocast"]), {}, None)
    if t.modes["inference"] != entry["inference"]:
        given = [entry["inference"], entry["grad"]]
        t.root.add("call_function", write_inference, given, {}, None)
    elif entry["grad"] and not t.modes["grad"]:
        t.root.add("call_function", write_grad, [entry["grad"]], {}, None)


def forbid(t: Any, add: Any, message: str | None) -> None:
    """A node that lets `saved_tensors_hooks` be entered, or not."""
    if message is None:
        add("call_function", allow_saved_tensors_hooks, [], {}, None)
    else:
        add("call_function", forbid_saved_tensors_hooks, [message], {}, None)


# -- contexts in captured code ---------------------------------------------------------------------


def construct(t: Any, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A context that is made during capture, or a function that it is put around."""
    if cls is autocast:
        return make_autocast(t, args, kwargs)
    if cls is grad_mode.inference_mode:
        mode = t.real(args[0] if args else kwargs.get("mode", Const(True)))
        if not isinstance(mode, Const):
            return t.call(construct(t, cls, [], {}), [mode], {})
        return New(cls, {"mode": mode, "previous": Const((False, True))})
    if cls is FORBIDS:
        return New(cls, {"message": [*args, *kwargs.values()][0], "previous": Seq(list, [])})
    fields: dict[str, Any] = {"previous": Const(t.grad)}
    if cls is grad_mode.set_grad_enabled:
        given = [*args, *kwargs.values()]
        mode = t.truth(given[0])
        fields["mode"] = Const(mode)
        t.set_grad(mode)
    elif args:
        return t.call(New(cls, fields), args, {})
    return New(cls, fields)


def make_autocast(t: Any, args: list[Any], kwargs: dict[str, Any]) -> New:
    names = ("device_type", "dtype", "enabled", "cache_enabled")
    given = {name: t.python(v) for name, v in [*zip(names, args), *kwargs.items()]}
    _, dtype, caches = t.modes["autocast"]
    is_enabled = given.get("enabled", True)
    dtype = dtype if given.get("dtype") is None else given["dtype"]
    is_plain = given.get("device_type") == "cpu" and dtype in CPU_DTYPES
    if is_enabled and not is_plain:
        raise Break("autocast that warns")
    chosen = given.get("cache_enabled")
    fields = {
        "device": given["device_type"],
        "fast_dtype": dtype,
        "_cache_enabled": caches if chosen is None else chosen,
        "_enabled": is_enabled,
    }
    return New(autocast, {name: Const(value) for name, value in fields.items()})


def call(t: Any, function: Any, args: list[Any]) -> Any:
    """The result of a method of a context, or None where `function` is none."""
    found = METHODS.get(function) if type(function) is types.FunctionType else None
    if found is None:
        return None
    cls, is_entry = found
    manager = t.real(args[0])
    if not isinstance(manager, New | Obj):
        raise Break(f"context of kind {type(manager).__name__}")
    if cls is autocast:
        switch_autocast(t, manager, is_entry)
        return manager if is_entry else Const(False)
    if cls is FORBIDS:
        switch_forbidden(t, manager, is_entry)
    elif cls is grad_mode.inference_mode:
        switch_inference(t, manager, is_entry)
    elif not is_entry:
        t.set_grad(t.python(t.getattr(manager, "previous")))
    elif GRAD_MODES[cls] is None:
        t.set_grad(t.python(t.getattr(manager, "mode")))
    else:
        t.write_attribute(manager, "previous", Const(t.set_grad(GRAD_MODES[cls])))
    return Const(None)


def switch_inference(t: Any, manager: Any, is_entry: bool) -> None:
    if is_entry:
        before = Const((t.modes["inference"], t.modes["grad"]))
        mode = t.python(t.getattr(manager, "mode"))
        t.write_attribute(manager, "previous", before)
        inference, grad = mode, not mode
    else:
        inference, grad = t.python(t.getattr(manager, "previous"))
    changed = {"inference": inference, "grad": grad}
    t.switch(changed, write_inference, [inference, grad])


def forbidden() -> str | None:
    """What `saved_tensors_hooks` would raise."""
    return LOCAL.state.saved_hooks_disabled


def ask_forbidden(t: Any) -> None:
    """Follow whether `saved_tensors_hooks` may be entered, which few programs ask."""
    if "forbidden" in t.modes:
        return
    found = forbidden()
    t.entry_modes = {**t.entry_modes, "forbidden": found}
    t.modes = {**t.modes, "forbidden": found}
    t.guards.append(("text", const(forbidden), lambda e, names: f"{e}() != {found!r}"))


def switch_forbidden(t: Any, manager: Any, is_entry: bool) -> None:
    ask_forbidden(t)
    before = t.real(t.getattr(manager, "previous"))
    if is_entry:
        message = t.python(t.getattr(manager, "message"))
        before.items.append(Const(t.modes["forbidden"]))
    else:
        message = t.python(before.items.pop())
    t.mutated(before)
    if message != t.modes["forbidden"]:
        forbid(t, t.recording.add, message)
        t.modes, t.has_switches = {**t.modes, "forbidden": message}, True


def switch_autocast(t: Any, manager: Any, is_entry: bool) -> None:
    before = t.modes["autocast"]
    if is_entry:
        names = ("_enabled", "fast_dtype", "_cache_enabled", "device")
        *chosen, place = [t.python(t.getattr(manager, name)) for name in names]
        after = tuple(chosen) if place == "cpu" else before
        t.entered.append((manager, before))
    else:
        after = leave_autocast(t, manager)
    if after != before:
        t.switch({"autocast": after}, write_autocast, list(after))


def leave_autocast(t: Any, manager: Any) -> Any:
    """What was before a context that is left now."""
    for number, (other, before) in reversed(list(enumerate(t.entered))):
        if other is manager:
            del t.entered[number]
            return before
    if not isinstance(manager, Obj):
        raise Break("autocast that was not entered")
    found = before_of(manager.value)
    if found is None:
        raise Break("autocast that was not entered")

    def test(text: str, names: Any) -> str:
        return f"{names.constant(before_of)}({text}) != {names.constant(found)}"

    t.guards.append(("text", manager.source, test))
    t.effect(("exit", id(manager.value)), "exit", manager)
    return found


METHODS: dict[Any, tuple[type, bool]] = {
    vars(cls)[name]: (cls, name == "__enter__")
    for cls in CONTEXTS
    for name in ("__enter__", "__exit__")
}
# Questions about states, answered from what capture follows.
QUESTIONS: dict[Any, Any] = {
    grad_mode.is_grad_enabled: lambda modes, *args: modes["grad"],
    grad_mode.is_inference_mode_enabled: lambda modes, *args: modes["inference"],
    autocasting.is_autocast_cpu_enabled: lambda modes, *args: modes["autocast"][0],
    autocasting.get_autocast_cpu_dtype: lambda modes, *args: modes["autocast"][1],
    autocasting.is_autocast_cache_enabled: lambda modes, *args: modes["autocast"][2],
    autocasting.is_autocast_enabled: lambda modes, *args: (
        modes["autocast"][0] if args == ("cpu",) else autocasting.is_autocast_enabled(*args)
    ),
    autocasting.get_autocast_dtype: lambda modes, *args: (
        modes["autocast"][1] if args == ("cpu",) else autocasting.get_autocast_dtype(*args)
    ),
}


# Functions that read a state of the process, which capture does not follow.
ASKED: set[Any] = {
    dtypes.get_default_dtype, process.are_deterministic_algorithms_enabled,
    process.get_deterministic_debug_mode, process.get_float32_matmul_precision,
    process.is_deterministic_algorithms_warn_only_enabled, process.get_num_threads,
}  # fmt: skip


def special(t: Any, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a function that switches or reads a state; None where it is none."""
    if function in QUESTIONS:
        given = [t.python(v) for v in [*args, *kwargs.values()]]
        return t.lift(QUESTIONS[function](t.modes, *given))
    if function is saved_tensors_hooks_enabled:
        ask_forbidden(t)
        return Const(t.modes["forbidden"] is None)
    if function is write_grad:
        t.set_grad(t.truth(args[0]))
        return Const(None)
    if function in ASKED:
        found = function()

        def test(text: str, names: Any) -> str:
            return f"{text}() != {names.constant(found)}"

        t.guards.append(("text", const(function), test))
        return t.lift(found)
    return call(t, function, args)
