"""One door: every operator call goes through here, layer by layer.

Order: __torch_function__ → transforms → pre-dispatch modes → autocast → autograd →
functionalization → dispatch modes → subclasses → proxy recording → fake (shape rules) → kernel.
A layer handles the call and re-enters below itself; the layers to pass by are the bits of
`ThreadState.excluded`. When no thread is in a special state and all operands are plain tensors,
`call` goes straight to `autograd_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rushlight.core import history, ports
from rushlight.core.binding import (
    Mismatch,
    bind_packet,
    mismatch_error,
    overload_error,
    rename_keywords,
)
from rushlight.core.node import needs_grad
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.operators import BITWISE, HANDED_OVER, OP_OF
from rushlight.core.state import (
    LAYER_AUTOCAST,
    LAYER_AUTOGRAD,
    LAYER_FAKE,
    LAYER_FUNCTION,
    LAYER_FUNCTION_MODES,
    LAYER_FUNCTIONAL,
    LAYER_MODES,
    LAYER_PRE,
    LAYER_PRE_FUNCTIONAL,
    LAYER_PRE_PROXY,
    LAYER_PROXY,
    LAYER_SUBCLASS,
    LAYER_TRANSFORMS,
    LOCAL,
    PROCESS,
    ThreadState,
    as_python,
    warn_once,
)
from rushlight.core.tensor import PLAIN, Tensor, disabled_torch_dispatch

if TYPE_CHECKING:
    from rushlight.core.node import GraphNode
    from rushlight.core.protocols import Args, Function, Kwargs
    from rushlight.core.state import Occupant

__all__ = [
    "call",
    "overload_call",
    "overridable",
    "packet_call",
    "redispatch",
    "try_function_override",
]

# Classes of the package that override no function: tensors of levels.
QUIET: set[type] = set()
INSIDE = LAYER_FUNCTION | LAYER_FUNCTION_MODES
# torch: operators that are ops themselves, which traces show.
OPERATORS_OF_THEIR_OWN = frozenset(
    f"__{prefix}{name}__" for name in BITWISE for prefix in ("", "i")
)


# -- API level -------------------------------------------------------------------------------------


def packet_call(
    packet: OpOverloadPacket, api: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A call by public name: overrides first, then the overload that fits."""
    if PROCESS.special:
        state = LOCAL.state
        if state.function_modes and not state.excluded & LAYER_FUNCTION_MODES:
            return call_function_mode(state, api, args, kwargs)
        if state.tracer is not None:
            name = getattr(api, "__name__", "")
            if name in OPERATORS_OF_THEIR_OWN:
                packet = ports.find_packet("aten", name)
    try:
        op, bound = bind_packet(packet, args, kwargs)
    except Mismatch:
        handled, value = try_function_override(api, args, kwargs)
        if handled:
            return value
        if api is packet:
            errors = [str(overload_error(op, args, kwargs)) for op in packet.candidates]
            raise RuntimeError(
                "Overloaded torch operator invoked from Python failed to match any schema:\n"
                + "\n\n".join(errors)
            ) from None
        method = vars(Tensor).get(getattr(api, "__name__", "")) is api
        raise mismatch_error(packet, args, kwargs, method) from None
    for position in op.tensor_positions:
        cls = type(bound[position])
        if (
            cls is not Tensor
            and cls not in PLAIN
            and cls not in QUIET
            and isinstance(bound[position], Tensor)
        ):
            handled, value = try_function_override(api, args, kwargs)
            if handled:
                return value
            break
    else:
        if op.list_positions and holds_subclass(op, bound):
            handled, value = try_function_override(api, args, kwargs)
            if handled:
                return value
    return call(op, bound)


def holds_subclass(op: OpOverload, bound: tuple[Any, ...]) -> bool:
    """Whether a list argument has a tensor of a class that may override the call."""
    for position in op.list_positions:
        for value in bound[position] or ():
            cls = type(value)
            if cls not in PLAIN and cls not in QUIET and value is not None:
                return True
    return False


def overload_call(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of one overload object."""
    if PROCESS.special:
        state = LOCAL.state
        if state.function_modes and not state.excluded & LAYER_FUNCTION_MODES:
            return call_function_mode(state, op, args, kwargs)
    if kwargs or not all(map(is_plain, args)):
        handled, value = try_function_override(op, args, kwargs)
        if handled:
            return value
    try:
        bound = op.bind(*args, **kwargs)
    except TypeError:
        renamed = rename_keywords(op.packet, kwargs)
        if renamed is not None:
            return overload_call(op, args, renamed)
        raise overload_error(op, args, kwargs) from None
    return call(op, bound)


def translate_api(api: Function) -> Any:
    """The function object that an override is told about."""
    name = getattr(api, "__name__", "")
    if name in HANDED_OVER and vars(Tensor).get(name) is api:
        return getattr(Tensor, OP_OF[name])
    return api


def call_function_mode(state: ThreadState, api: Function, args: Args, kwargs: Kwargs) -> Any:
    """Give the call to the innermost TorchFunctionMode, which is off while it runs."""
    modes = state.function_modes
    api = translate_api(api)
    try:
        state.function_modes = modes[:-1]
        state.refresh()
        # Classes that are switched off have no say.
        is_off = state.excluded & LAYER_FUNCTION
        types = () if is_off else tuple(type(value) for value in overriding(args, kwargs))
        value = mode_rule(modes[-1], "__torch_function__")(api, types, args, kwargs)
    finally:
        state.function_modes = modes
        state.refresh()
    if value is NotImplemented:
        handled, value = try_function_override(api, args, kwargs, modes[-1])
        if not handled:
            raise nobody_handles(api, "__torch_function__", modes[-1], ())
    return value


def mode_rule(mode: Any, name: str) -> Any:
    rule = getattr(mode, name)
    if isinstance(getattr(rule, "__self__", None), type):
        raise RuntimeError(
            f"Defining your mode's `{name}` as a classmethod is not supported, please make it a "
            "plain method"
        )
    return rule


def nobody_handles(api: Function, rule: str, mode: object, classes: Sequence[type]) -> TypeError:
    """What the user reads when every override returned NotImplemented."""
    if isinstance(api, OpOverload):
        name = f"torch._ops.{api}"
    else:
        name = f"torch.{getattr(api, '__name__', repr(api))}"
    asked = [] if mode is None else [f"  - mode object {mode!r}\n"]
    asked += [f"  - tensor subclass {cls!r}\n" for cls in classes]
    found = TypeError(
        f"Multiple dispatch failed for '{name}'; all {rule} handlers returned NotImplemented:\n\n"
        + "".join(asked)
    )
    # Python's operators ask the other operand then.
    found.is_declined = True  # type: ignore[attr-defined]
    return found


def overriding(args: Args, kwargs: Kwargs) -> list[Any]:
    """Arguments whose type overrides functions, subclasses before their bases."""
    found: list[Any] = []
    classes: list[type] = []

    def consider(value: object) -> None:
        cls = type(value)
        if cls is Tensor or cls in PLAIN or cls in classes:
            return
        override = getattr(cls, "__torch_function__", None)
        if override is None or override is DISABLED:
            return
        place = len(found)
        for position, other in enumerate(classes):
            if issubclass(cls, other):
                place = position
                break
        found.insert(place, value)
        classes.insert(place, cls)

    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            for item in value:
                consider(item)
        else:
            consider(value)
    return found


def disabled_torch_function(
    func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
) -> Any:
    """A `__torch_function__` for subclasses that want none."""
    return NotImplemented


DISABLED = disabled_torch_function


def try_function_override(
    api: Function, args: Args, kwargs: Kwargs, mode: object = None
) -> tuple[bool, Any]:
    """Let the `__torch_function__` of an argument handle the call. `mode` has declined it."""
    if PROCESS.special and LOCAL.state.excluded & LAYER_FUNCTION:
        return False, None
    candidates = overriding(args, kwargs)
    if not candidates:
        return False, None
    types = tuple(type(value) for value in candidates)
    api = translate_api(api)
    for value in candidates:
        result = rule_of(value, "__torch_function__")(api, types, args, kwargs)
        if result is not NotImplemented:
            return True, result
    raise nobody_handles(api, "__torch_function__", mode, types)


def rule_of(value: Any, name: str) -> Any:
    """What an operand says to calls; torch: a plain method is bound to it."""
    rule = getattr(value, name)
    if name == "__torch_function__" and getattr(rule, "__self__", None) is value:
        warn_once(
            f"plain {name}",
            f"Defining your `{name}` as a plain method is deprecated and will be an error in "
            "future, please define it as a classmethod.",
        )
    return rule


# What most arguments are that are no tensors, and what never overrides a function.
ORDINARY = frozenset((bool, int, float, str, tuple, list, type(None)))


def is_plain(value: object) -> bool:
    """Whether nothing in an argument can override a function; lists are looked into."""
    cls = type(value)
    if cls is list or cls is tuple:
        return all(map(is_plain, value))  # type: ignore[call-overload]
    return cls in PLAIN or cls in ORDINARY


def overridable(function: Function) -> Function:
    """A public function or method that is not an op: modes and subclasses see it first, with the
    arguments as the caller wrote them."""

    def outer(*args: Any, **kwargs: Any) -> Any:
        if PROCESS.special and LOCAL.state.function_modes:
            return ask(outer, function, args, kwargs)
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) not in PLAIN and type(value) not in ORDINARY:
                return ask(outer, function, args, kwargs)
        return function(*args, **kwargs)

    outer.__name__ = function.__name__
    outer.__qualname__ = function.__qualname__
    outer.__doc__ = function.__doc__
    outer.__module__ = function.__module__
    outer.__wrapped__ = function  # type: ignore[attr-defined]
    return outer


def ask(public: Function, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of `public`, by a mode or a subclass among the arguments if there is one; else by
    `function`."""
    if PROCESS.special:
        state = LOCAL.state
        if state.function_modes and not state.excluded & LAYER_FUNCTION_MODES:
            return call_function_mode(state, public, args, kwargs)
    handled, result = try_function_override(public, args, kwargs)
    return result if handled else function(*args, **kwargs)


# -- below the API ---------------------------------------------------------------------------------


def call(op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Run an overload on bound arguments, through whatever layers are active."""
    grad = True
    if PROCESS.special:
        state = LOCAL.state
        if state.layers:
            return call_layers(op, args, state)
        grad = state.grad
    for position in op.tensor_positions:
        value = args[position]
        cls = type(value)
        if cls is not Tensor and cls not in PLAIN and isinstance(value, Tensor):
            return call_layers(op, args, LOCAL.state)
    for position in op.list_positions:
        for value in args[position] or ():
            cls = type(value)
            if cls is not Tensor and cls not in PLAIN and isinstance(value, Tensor):
                return call_layers(op, args, LOCAL.state)
    return autograd_call(op, args, grad, None)


def call_layers(op: OpOverload, args: tuple[Any, ...], state: ThreadState) -> Any:
    """The general path: transforms, pre-dispatch, autocast, autograd, then `below_autograd`."""
    excluded = state.excluded
    if state.transforms and not excluded & LAYER_TRANSFORMS:
        return state.transforms[-1].process(op, args)
    if ports.has_dead(op, args):
        return call(op, ports.revived(op, args))
    if state.pre_modes and not excluded & LAYER_PRE:
        return call_mode(op, args, state, "pre_modes")
    if state.pre_functional is not None and not excluded & LAYER_PRE_FUNCTIONAL:
        return state.pre_functional.process(op, args)
    if state.pre_proxy is not None and not excluded & LAYER_PRE_PROXY:
        return state.pre_proxy.process(op, args)
    if state.autocast is not None and not excluded & LAYER_AUTOCAST:
        own = op.options.get("autocast_kernel")
        if own is not None:
            return own(*args)
        cast = state.autocast.cast(op, args)
        if cast is not None:
            # As a whole: what a composite does below is not cast again.
            return redispatch(op, cast, LAYER_AUTOCAST)
    if state.profiler is not None:
        return state.profiler.record(op, args, lambda: after_autocast(op, args, state))
    return after_autocast(op, args, state)


def after_autocast(op: OpOverload, args: tuple[Any, ...], state: ThreadState) -> Any:
    if state.excluded & LAYER_AUTOGRAD:
        return below_autograd(op, args)
    return autograd_call(op, args, state.grad, state)


def go_on(op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Run an overload below an occupant that has switched the layers above itself off."""
    if LOCAL.state.excluded & LAYER_AUTOGRAD:
        return below_autograd(op, args)
    return call(op, args)


def redispatch(op: OpOverload, args: tuple[Any, ...], excluded: int) -> Any:
    """Run an overload with more layers switched off."""
    state = LOCAL.state
    before = state.excluded
    try:
        state.excluded = before | excluded
        state.refresh()
        return call(op, args)
    finally:
        state.excluded = before
        state.refresh()


def run_body(op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Decompose a composite: its body's calls start at the top again, less the API level."""
    body = op.body
    assert body is not None
    if not PROCESS.special:
        for position in op.tensor_positions:
            value = args[position]
            if type(value) is not Tensor and type(value) not in PLAIN and value is not None:
                break
        else:
            return body(*args)
    state = LOCAL.state
    if state.functional is not None:
        body = op.options.get("functional_body", body)
    before = state.excluded
    if before & INSIDE == INSIDE:
        return body(*args)
    try:
        state.excluded = before | INSIDE
        # Overrides are no layer: they only make the thread special, which it often is already.
        if not state.counted:
            state.refresh()
        return body(*args)
    finally:
        state.excluded = before
        if not (state.layers and state.counted):
            state.refresh()


def autograd_call(
    op: OpOverload, args: tuple[Any, ...], grad: bool, state: ThreadState | None
) -> Any:
    """The autograd layer. `state` is None when no other layer is active.

    Inputs are saved before the kernel runs; views, version bumps and nodes are recorded after.
    """
    if op.body is not None:
        return run_body(op, args)
    if op.mutated_positions:
        return history.mutating_call(op, args, grad, state)
    node = None
    if grad:
        for position in op.differentiable_positions:
            value = args[position]
            if value is None:
                continue
            if isinstance(value, Tensor):
                if value._requires_grad or needs_grad(value):
                    if value._unusual is None or not history.only_inference(op, args):
                        node = op.grad_rule.make_node(*args)
                    break
            elif isinstance(value, (list, tuple)) and any(
                [isinstance(t, Tensor) and needs_grad(t) for t in value]
            ):
                node = op.grad_rule.make_node(*args)
                break
    result = op.backend(*args) if state is None else run_below(op, args, state, node)
    if op.is_view_op:
        if state is not None and state.below:
            result = seen_again(op, result, state)
        history.record_view(op, args, result, grad, state)
    if node is not None:
        history.attach(op, node, result)
        if state is not None and state.anomaly:
            history.note_creation(node, state)
    if state is not None and state.forward_level >= 0:
        ports.push_tangents(op, args, result, state)
    return result


def seen_again(op: OpOverload, result: Any, state: ThreadState) -> Any:
    """torch, up to 2.5: modes see `detach` twice, the second time on the first result; below
    functionalization there is one more."""
    if op.options.get("seen_again"):
        for _ in range(1 if state.functional is None else 2):
            result = run_below(op, (result,), state)
    return result


def run_below(
    op: OpOverload, args: tuple[Any, ...], state: ThreadState, node: GraphNode | None = None
) -> Any:
    """Continue below autograd, which stays off for every call made from there. `node` is what the
    call is recorded as."""
    if node is not None and state.node_meta is not None:
        history.note_meta(node, state)
    if state.owner is not None:
        return state.owner.backend(op, args)
    if state.forward_guard is not None and not state.tasks:
        return state.forward_guard(op, args, state)
    if not (state.below or layers_of(op, args)):
        return backend_call(op, args, state)
    before = state.excluded
    try:
        state.excluded = before | LAYER_AUTOGRAD
        state.refresh()
        return below_autograd(op, args)
    finally:
        state.excluded = before
        state.refresh()


def layers_of(op: OpOverload, args: tuple[Any, ...]) -> int:
    """The layers that operands ask for by their class, as bits of `ThreadState.excluded`."""
    found = 0
    for position in op.tensor_positions:
        cls = type(args[position])
        if cls is not Tensor and cls not in PLAIN:
            found |= layer_of(cls)
    for position in op.list_positions:
        for value in args[position] or ():
            cls = type(value)
            if cls is not Tensor and cls not in PLAIN:
                found |= layer_of(cls)
    return found


def layer_of(cls: type) -> int:
    """The layer that handles calls on tensors of this class; 0 for anything else."""
    if not issubclass(cls, Tensor):
        return 0
    own: int = cls.handling_layer
    if own:
        return own
    return LAYER_SUBCLASS if dispatches(cls) else 0


def dispatches(cls: type) -> bool:
    """Whether a class defines `__torch_dispatch__`."""
    rule = getattr(cls, "__torch_dispatch__", None)
    if rule is disabled_torch_dispatch or rule is None or rule is DISABLED:
        return False
    return issubclass(cls, Tensor)


def below_autograd(op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Dispatch modes, subclasses, functionalization, proxy recording, fake, then the backend."""
    state = LOCAL.state
    if op.body is not None and not op.autograd_only:
        return run_body(op, args)
    asked = layers_of(op, args)
    open_to = ~state.excluded
    if state.dispatch_modes and open_to & LAYER_MODES:
        own = op.options.get("python_kernel")
        return call_mode(op, args, state, "dispatch_modes") if own is None else own(*args)
    if asked & LAYER_SUBCLASS and open_to & LAYER_SUBCLASS:
        own = op.options.get("python_kernel")
        return call_subclass(op, args, state) if own is None else own(*args)
    return below_python(op, args, state, asked)


def below_python(op: OpOverload, args: tuple[Any, ...], state: ThreadState, asked: int) -> Any:
    """Functionalization, proxy recording, fake, the backend. `asked`: what `layers_of` says."""
    open_to = ~state.excluded
    if open_to & LAYER_FUNCTIONAL and (state.functional is not None or asked & LAYER_FUNCTIONAL):
        return occupant(state.functional, LAYER_FUNCTIONAL, op, args).process(op, args)
    if state.proxy is not None and open_to & LAYER_PROXY:
        return state.proxy.process(op, args)
    if open_to & LAYER_FAKE and (state.fake is not None or asked & LAYER_FAKE):
        return occupant(state.fake, LAYER_FAKE, op, args).process(op, args)
    return backend_call(op, args, state)


def occupant(active: Occupant | None, layer: int, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """What handles a layer: the active mode, or the one that an operand belongs to."""
    if active is not None:
        return active
    candidates = [args[position] for position in op.tensor_positions]
    for position in op.list_positions:
        candidates += args[position] or ()
    return next(
        tensor.handling_mode
        for tensor in candidates
        if isinstance(tensor, Tensor) and tensor.handling_layer == layer
    )


def backend_call(op: OpOverload, args: tuple[Any, ...], state: ThreadState) -> Any:
    """Run the kernel; results made in inference mode carry its mark."""
    witness = state.witness
    if witness is not None:
        return witness(op, args)
    result = op.backend(*args)
    if state.inference and not op.mutated_positions:
        history.mark_inference(result)
    return result


def call_mode(op: OpOverload, args: tuple[Any, ...], state: ThreadState, stack: str) -> Any:
    """Give the call to the innermost mode of a stack, which is off while it runs."""
    modes = getattr(state, stack)
    excluded = state.excluded
    try:
        setattr(state, stack, modes[:-1])
        state.excluded = as_python(excluded)
        state.refresh()
        positional, keywords = torch_arguments(op, args)
        types = tuple(dict.fromkeys(type(value) for value in subclass_operands(op, args)))
        rule = dispatch_rule(op, type(modes[-1]), modes[-1])
        rule = rule or mode_rule(modes[-1], "__torch_dispatch__")
        value = rule(op, types, positional, keywords)
    finally:
        setattr(state, stack, modes)
        state.excluded = excluded
        state.refresh()
    return call_subclass(op, args, state, modes[-1]) if value is NotImplemented else value


def dispatch_rule(op: OpOverload, cls: type, receiver: object) -> Callable[..., Any] | None:
    """What a user registered for an op and a class, in the place of its `__torch_dispatch__`."""
    registered = op.options.get("torch_dispatch")
    rule = None if registered is None else registered.get(cls)
    return None if rule is None else partial(rule, receiver)


def subclass_operands(op: OpOverload, args: tuple[Any, ...]) -> list[Any]:
    found = []
    for position in op.tensor_positions:
        value = args[position]
        if isinstance(value, Tensor) and dispatches(type(value)):
            found.append(value)
    for position in op.list_positions:
        found += [v for v in args[position] or () if isinstance(v, Tensor) and dispatches(type(v))]
    return found


def call_subclass(
    op: OpOverload, args: tuple[Any, ...], state: ThreadState, mode: object = None
) -> Any:
    """Let the operands' `__torch_dispatch__` handle the call, subclasses before their bases. `mode`
    has declined it."""
    operands = subclass_operands(op, args)
    classes: list[type] = []
    asked: list[Any] = []
    for value in operands:
        cls = type(value)
        if cls not in classes:
            place = next((i for i, k in enumerate(classes) if issubclass(cls, k)), len(classes))
            classes.insert(place, cls)
            asked.insert(place, value)
    positional, keywords = torch_arguments(op, args)
    excluded = state.excluded
    try:
        # Python code runs here: functions called on plain tensors may be overridden again.
        state.excluded = as_python(excluded)
        state.refresh()
        for cls, value in zip(classes, asked, strict=True):
            rule = dispatch_rule(op, cls, cls) or rule_of(value, "__torch_dispatch__")
            result = rule(op, tuple(classes), positional, keywords)
            if result is not NotImplemented:
                return result
    finally:
        state.excluded = excluded
        state.refresh()
    raise nobody_handles(op, "__torch_dispatch__", mode, classes)


def data_of(tensor: Tensor) -> Any:
    """`tensor.data`, which counts the writes to it by itself. A class that handles calls detaches
    it, and so does whoever sees all that is done."""
    cls = type(tensor)
    is_handled = dispatches(cls) and not tensor.handling_layer
    # torch: to a trace of `jit.trace` data is a constant, which its checker tells of.
    is_seen = PROCESS.special and LOCAL.state.tracer is None and LOCAL.state.sees_aliases()
    if not is_handled and not is_seen:
        alias = tensor._alias(share_counter=False)
        return alias if cls is Tensor or cls in PLAIN else alias.as_subclass(cls)
    found = tensor.detach()
    found._counter = None if found._counter is tensor._counter else found._counter
    return found


def torch_arguments(
    op: OpOverload, args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bound arguments as `__torch_dispatch__` gets them: trailing defaults left out."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    keep = 0
    for value, (name, is_list, has_default, default) in zip(args, op.argument_facts):
        is_default = has_default and (value is default or same_default(default, value))
        if is_list and type(value) is tuple:
            value = list(value)
        if name is not None:
            if not is_default:
                keywords[name] = value
        else:
            positional.append(value)
            if not is_default:
                keep = len(positional)
    return tuple(positional[:keep]), keywords


def same_default(default: Any, value: Any) -> bool:
    if value is default:
        return True
    if isinstance(value, Tensor) or isinstance(default, Tensor):
        return False
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return False
    return type(value) is type(default) and bool(value == default)
