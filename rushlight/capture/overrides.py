"""`__torch_function__` in captured code: modes that are entered there, and classes of arguments.

Whom a call asks, and with which arguments, the library itself says: the call is made on examples
under a mode that notes what it is told. The user's handler is then captured like other code. In a
graph there are plain tensors only: one of a subclass goes in as an alias, and comes out as one.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.capture.bytecode import BINARY, COMPARE
from rushlight.capture.operators import REFLECTED
from rushlight.capture.outcomes import Break, NeedBreak
from rushlight.capture.recording import examples_of
from rushlight.capture.sources import const
from rushlight.capture.tracer import raise_user
from rushlight.capture.values import NULL, Const, Dict, New, Obj, Seq, Tensor
from rushlight.core import modes
from rushlight.core.dispatch import DISABLED
from rushlight.core.operators import OP_OF
from rushlight.core.parameter import Parameter
from rushlight.core.state import Change, changed
from rushlight.core.tensor import KEEPS_BASE_TYPE
from rushlight.core.tensor import Tensor as RealTensor

__all__ = ["Overrides", "as_plain", "is_recast", "own_attribute", "special"]

DEFAULT = vars(RealTensor)["__torch_function__"].__func__
PLAIN = (RealTensor, Parameter)
BUILTIN = types.BuiltinFunctionType
# Contexts that switch overrides off, and whether those of modes, too.
SWITCHES: dict[Any, bool] = {
    modes.DisableTorchFunction: True,
    modes.DisableTorchFunctionSubclass: False,
}
ENTRY, EXIT = modes.TorchFunctionMode.__enter__, modes.TorchFunctionMode.__exit__


class Overrides:
    """Who is asked, at a point of captured code."""

    def __init__(self) -> None:
        # Modes that are entered, innermost last, and the step of each entry.
        self.modes: tuple[tuple[Any, int], ...] = ()
        self.classes_are_off = False
        self.modes_are_off = False
        # The step at which overrides were switched off by the program.
        self.switched_at: list[int] = []

    def refuse_open(self) -> None:
        """Generated code ends with nothing entered: capture ends before the entry."""
        steps = [*self.switched_at, *[step for _, step in self.modes]]
        if steps:
            raise NeedBreak(min(steps), "a graph that ends inside a mode of __torch_function__")

    @contextlib.contextmanager
    def within(self, **fields: Any) -> Iterator[None]:
        before = {name: getattr(self, name) for name in fields}
        vars(self).update(fields)
        try:
            yield
        finally:
            vars(self).update(before)


def as_plain(tensor: Any) -> Any:
    """The tensor without its class."""
    with changed(grad=True):
        return RealTensor.as_subclass(tensor, RealTensor)


def is_recast(cls: Any) -> bool:
    """Whether tensors of a class are plain ones in graphs."""
    return cls is not None and cls not in PLAIN and not hasattr(cls, "__tensor_flatten__")


def overrides_functions(cls: Any) -> bool:
    override = getattr(cls, "__torch_function__", None)
    return override not in (None, DISABLED) and cls not in PLAIN


def overriding(t: Any, args: list[Any]) -> list[Any]:
    """Arguments whose class overrides functions, subclasses before their bases."""
    found: list[Any] = []
    for a in args:
        v = t.real(a)
        for item in map(t.real, v.items) if isinstance(v, Seq) else (v,):
            if not isinstance(item, Tensor | New | Obj):
                continue
            cls = t.type_of(item)
            classes = list(map(t.type_of, found))
            if cls in classes or not overrides_functions(cls):
                continue
            place = next((n for n, other in enumerate(classes) if issubclass(cls, other)), None)
            found.insert(len(found) if place is None else place, item)
    return found


def home_of(cls: Any, name: str) -> Any:
    """The class of the user's that gives tensors of a class an attribute, or None."""
    for base in cls.__mro__:
        if base in PLAIN:
            return None
        if name in vars(base):
            return base
    return None


def found_in_class(t: Any, cls: Any, name: str) -> Any:
    """What a class of tensors that is the user's has under a name, guarded; NULL where it has the
    library's."""
    home = home_of(cls, name)
    if home is not None:
        found = vars(home)[name]
        t.guard_class_attr(cls, name, found)
        return found
    if hasattr(RealTensor, name):
        t.guard_class_attr(cls, name, inspect.getattr_static(RealTensor, name))
    else:
        t.guard("lacks", const(cls), name)
    return NULL


def own_attribute(t: Any, v: Tensor, cls: Any, name: str, on_tensor: dict[str, Any]) -> Any:
    """What a tensor's class has of its own under a name; NULL where that is not what is read."""
    found = found_in_class(t, cls, name)
    if found is NULL:
        return NULL
    if name in on_tensor and not isinstance(found, property):
        return NULL
    return t.bind(found, v, cls, const(cls).attr(name))


def methods_of(f: Any) -> tuple[str, str]:
    """The methods that an operator asks of its first and of its second operand."""
    name = f.__name__.strip("_")
    return f"__{name}__", REFLECTED.get(f, f"__r{name}__")


BINARIES: list[Any] = [*BINARY.values(), *COMPARE.values(), operator.getitem, operator.setitem]
UNARIES: list[Any] = [operator.neg, operator.pos, operator.invert, abs]
METHODS: dict[Any, tuple[str, str]] = {f: methods_of(f) for f in BINARIES}
METHODS |= {f: (methods_of(f)[0], "") for f in UNARIES}


def by_method(t: Any, target: Any, args: list[Any]) -> Any:
    """The result of an operator that the class of an operand has a method for; None for others."""
    places = [place for place, name in enumerate(METHODS[target][: len(args)]) if name]
    kinds = [t.type_of(t.real(a)) for a in args]
    if len(places) == 2 and kinds[0] is not kinds[1] and issubclass(kinds[1], kinds[0]):
        first, second = (home_of(cls, METHODS[target][1]) for cls in kinds)
        if second is not first:
            places.reverse()
    for place in places:
        v, cls, name = t.real(args[place]), kinds[place], METHODS[target][place]
        if not isinstance(v, Tensor) or cls in PLAIN:
            continue
        method = found_in_class(t, cls, name)
        if method is NULL:
            continue
        others = [*args[:place], *args[place + 1 :]]
        found = t.real(t.call(t.bind(method, v, cls, const(cls).attr(name)), others, {}))
        if not is_declined(found):
            return found
    return None


def overridden(t: Any, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call that some handler is asked about; None where none is."""
    is_operator = op == "call_function" and type(target) is BUILTIN and target in METHODS
    if is_operator and any(isinstance(v, Tensor) and v.kind for v in map(t.real, args)):
        found = by_method(t, target, args)
        if found is not None:
            return found
    state: Overrides = t.world.overrides
    asked = () if state.modes_are_off else state.modes
    candidates = [] if state.classes_are_off else overriding(t, [*args, *kwargs.values()])
    if not asked and not candidates:
        return None
    if t.recording is not t.root:
        raise Break("an override in a function that is transformed")
    api, given, named = told(t, op, target, args, kwargs)
    types = Seq(tuple, [Obj(cls, const(cls)) for cls in map(t.type_of, candidates)])
    details = [Obj(api, const(api)), types, given, named]
    if asked:
        mode = asked[-1][0]
        with state.within(modes=asked[:-1]):
            found = t.real(t.call(t.type_attr(mode, "__torch_function__"), details, {}))
        if not is_declined(found):
            return found
    for v in candidates:
        cls = t.type_of(v)
        handler = t.getattr(Obj(cls, const(cls)), "__torch_function__")
        found = t.real(t.call(handler, details, {}))
        if not is_declined(found):
            return found
    raise raise_user(TypeError, f"no handler of __torch_function__ takes {api.__name__}")


def is_declined(v: Any) -> bool:
    return isinstance(v, Const) and v.value is NotImplemented


class Told(Exception):
    """What the library tells a mode."""


class Listener(modes.TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise Told(func, args, kwargs or {})


class StandIn:
    """In the place of an object that is no tensor."""

    __torch_function__ = DISABLED


def told(
    t: Any, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]
) -> tuple[Any, Seq, Dict]:
    """The function, and the arguments, that eager code hands to a handler."""
    known: dict[int, tuple[Any, Any]] = {}

    def example(a: Any) -> Any:
        v = t.real(a)
        if isinstance(v, Seq) and v.kind in (tuple, list):
            return v.kind(map(example, v.items))
        found = v.example if isinstance(v, Tensor) else None
        if isinstance(v, New) or (isinstance(v, Obj) and overrides_functions(type(v.value))):
            found = StandIn()
        if found is None:
            return examples_of(t.arg(v))
        known[id(found)] = (found, v)
        return found

    def variable(value: Any) -> Any:
        if id(value) in known:
            return known[id(value)][1]
        if type(value) in (tuple, list):
            return Seq(type(value), [variable(item) for item in value])
        return t.lift(value)

    given, named = [example(a) for a in args], {key: example(a) for key, a in kwargs.items()}
    call: Callable[..., Any] = target
    if op == "call_method":
        call = operator.methodcaller(target, *given[1:], **named)
        given, named = given[:1], {}
    try:
        with t.world.mode, Listener():
            call(*given, **named)
    except Told as message:
        api, positional, keywords = message.args
    except Exception as error:
        raise Break(f"{name_of(target)}: {error}") from error
    else:
        raise Break(f"{name_of(target)}, which asks no mode")
    if not is_the_call(target, api):
        raise Break(f"{name_of(target)}, which asks modes of {name_of(api)}")
    named_vars = Dict({key: variable(value) for key, value in keywords.items()})
    return api, Seq(tuple, [variable(value) for value in positional]), named_vars


def name_of(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def is_the_call(target: Any, api: Any) -> bool:
    """Whether a handler is told of the whole call, not of a part of it."""
    name = name_of(target)
    special_name = f"__{name.strip('_')}__"
    return api is target or name_of(api) in (name, special_name, OP_OF.get(special_name))


# -- calls with a meaning here ---------------------------------------------------------------------


def special(t: Any, f: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a function about overrides; None where it is none."""
    if f is DEFAULT:
        return run_default(t, *args, **kwargs)
    if f is modes.TorchFunctionMode.__init__:
        return Const(None)
    if f in (ENTRY, EXIT):
        return switch_mode(t, t.real(args[0]), f is ENTRY)
    if f in (Change.__enter__, Change.__exit__):
        manager = t.real(args[0])
        if isinstance(manager, New) and manager.cls in SWITCHES:
            return switch_off(t, manager, f is Change.__enter__)
    if f is RealTensor.as_subclass:
        return t.world.tensor_method(t, t.real(args[0]), "as_subclass", args[1:], kwargs)
    return None


def run_default(t: Any, cls: Any, f: Any, types: Any, args: Any = None, kwargs: Any = None) -> Any:
    """`Tensor.__torch_function__`: the function without overrides of classes, its results as
    tensors of the class."""
    cls = t.python(cls)
    if not all(issubclass(cls, other) for other in t.python(types)):
        return Const(NotImplemented)
    function = t.python(f)
    given = [] if args is None else t.iterate(args)
    named = {} if kwargs is None or not t.truth(kwargs) else dict(t.real(kwargs).items)
    with t.world.overrides.within(classes_are_off=True):
        found = t.call(Obj(function, const(function)), given, named)
    return found if function in KEEPS_BASE_TYPE else as_class(t, found, cls)


def as_class(t: Any, v: Any, cls: Any) -> Any:
    v = t.real(v)
    if isinstance(v, Tensor):
        return v if issubclass(t.type_of(v), cls) else recast(t, v, cls)
    if isinstance(v, Seq):
        return Seq(v.kind, [as_class(t, item, cls) for item in v.items])
    return v


def recast(t: Any, v: Tensor, cls: Any) -> Tensor:
    """The same tensor seen as an instance of another class."""
    if not issubclass(cls, RealTensor) or (cls is not RealTensor and not is_recast(cls)):
        raise Break(f"as_subclass of {cls.__name__}")
    if getattr(cls.__torch_dispatch__, "__func__", cls.__torch_dispatch__) is not (
        RealTensor.__torch_dispatch__
    ):
        raise Break(f"tensor subclass {cls.__name__}")
    made = Tensor(v.example, t.node(v))
    made.kind = cls
    made.strict = v.strict
    return made


def switch_mode(t: Any, mode: Any, is_entry: bool) -> Any:
    state = t.world.overrides
    if is_entry:
        state.modes = (*state.modes, (mode, t.position))
        return mode
    if not state.modes or state.modes[-1][0] is not mode:
        raise Break("a mode of __torch_function__ that was not entered here")
    state.modes = state.modes[:-1]
    return Const(None)


def switch_off(t: Any, manager: New, is_entry: bool) -> Any:
    state = t.world.overrides
    if is_entry:
        before = state.classes_are_off, state.modes_are_off
        manager.attrs["before"] = Const(before)
        state.switched_at.append(t.position)
        state.classes_are_off = True
        state.modes_are_off |= SWITCHES[manager.cls]
        return manager
    state.switched_at.pop()
    state.classes_are_off, state.modes_are_off = manager.attrs.pop("before").value
    return Const(None)
