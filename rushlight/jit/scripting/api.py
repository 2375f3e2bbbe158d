"""`torch.jit.script` and what goes with it: marks on functions, typed values, units of source."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from typing import Any, NamedTuple

from rushlight.jit import awaits, futures
from rushlight.jit.naming import qualified_name
from rushlight.jit.scripting.annotations import BroadcastingList, check_type, type_from_annotation
from rushlight.jit.scripting.classes import check_bases, compile_class, interface
from rushlight.jit.scripting.functions import add_overload, compile_called, overloads_of
from rushlight.jit.scripting.ignoring import export, ignore, unused
from rushlight.jit.switches import is_enabled

__all__ = [
    "Attribute",
    "BroadcastingList2",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "script",
    "script_if_tracing",
    "unused",
]


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Compile a function, a module or a class.

    A function gives a `ScriptFunction`, a module a `RecursiveScriptModule` with all that its
    `forward` and exported methods call, a class itself, which compiled code may use from then on,
    a list or a dict one that compiled code can write to.
    """
    from rushlight.jit.objects.functions import ScriptFunction
    from rushlight.jit.objects.modules import ScriptModule
    from rushlight.nn.module import Module

    if not is_enabled():
        return obj
    if optimize is not None:
        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()`"
            " instead",
            FutureWarning,
            stacklevel=2,
        )
    if isinstance(obj, ScriptModule | ScriptFunction):
        return obj
    if not inspect.isclass(obj):
        obj = prepared(obj, {})
    if isinstance(obj, Module):
        from rushlight.jit.scripting.recursive import script_module

        return script_module(obj)
    if isinstance(obj, list | dict):
        from rushlight.jit.objects.containers import ScriptDict, ScriptList

        return ScriptList(obj) if isinstance(obj, list) else ScriptDict(obj)
    if inspect.isclass(obj):
        # A frame keeps the names that it was asked for: asked only where they are needed.
        return script_class(obj, sys._getframe(_frames_up + 1).f_locals)
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        return script_function(obj)
    if callable(obj) and type(obj).__module__.startswith("rushlight."):
        return script_function(type(obj).__call__.__get__(obj))
    if hasattr(obj, "__dict__"):
        from rushlight.jit.objects.instances import script_object

        return script_object(obj, compile_class(type(obj), sys._getframe(_frames_up + 1).f_locals))
    raise TypeError(f"module, class, method, function, traceback, frame, or code object was expected, got {type(obj).__name__}")  # fmt: skip # noqa: E501


def prepared(module: Any, done: dict[int, Any]) -> Any:
    """An object, and all modules below it, as `__prepare_scriptable__` wants them compiled."""
    from rushlight.jit.objects.modules import ScriptModule
    from rushlight.nn.module import Module

    if module is None or isinstance(module, ScriptModule):
        return module
    found = done.get(id(module))
    if found is None:
        if isinstance(module, Module):
            check_initialised(module)
        prepare = getattr(module, "__prepare_scriptable__", None)
        found = done[id(module)] = module if prepare is None else prepare()
        children = found._modules if isinstance(found, Module) else {}
        for name, child in children.items():
            children[name] = prepared(child, done)
    return found


def check_initialised(module: Any) -> None:
    if "_modules" not in vars(module):
        cls = type(module)
        raise RuntimeError(
            f"'{cls.__module__}.{cls.__name__}' has not been initialized, did you forget to call "
            "'super()'?"
        )


def script_function(function: Any) -> Any:
    from rushlight.jit.objects.functions import ScriptFunction
    from rushlight.jit.scripting.library import script_form

    if hasattr(function, "__script_if_tracing_wrapper"):
        function = function.__original_fn
    form = script_form(function) or function
    if overloads_of(form):
        raise RuntimeError(
            f"Function {qualified_name(form)} cannot be directly compiled because it is "
            "overloaded. It must be used in a context of a function where its inputs can determine "
            "which overload to call."
        )
    compiled = compile_called(form)
    compiled.ensure_defined()
    made = ScriptFunction(compiled)
    vars(made).update(
        __doc__=function.__doc__, __name__="ScriptFunction", __qualname__="torch.jit.ScriptFunction"
    )
    return made


def script_class(cls: Any, local: Any) -> Any:
    from rushlight.nn.module import Module

    if issubclass(cls, Module):
        raise RuntimeError(
            f"Type '{cls}' cannot be compiled since it inherits from nn.Module, consider passing "
            "an instance instead"
        )
    from enum import Enum

    if not issubclass(cls, Enum):
        check_bases(cls)
        compile_class(cls, local)
    return cls


def script_if_tracing(function: Any) -> Any:
    """The function is compiled when it is first called inside a trace; else it is Python."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        from rushlight.jit.tracing.api import is_tracing

        if not is_tracing():
            return function(*args, **kwargs)
        return script(function)(*args, **kwargs)

    wrapper.__original_fn = function  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def annotate(the_type: Any, the_value: Any) -> Any:
    """`the_value`, which compiled code takes to be of `the_type`."""
    return the_value


def is_scripting() -> bool:
    """Whether this code runs compiled."""
    return False


def isinstance_(obj: Any, target_type: Any) -> bool:
    """`isinstance` that also knows `List[int]` and the like."""
    from rushlight.jit.runtime.values import has_type

    if isinstance(target_type, list | dict | set):
        raise RuntimeError(
            "The second argument to `torch.jit.isinstance` must be a type or a tuple of types"
        )
    targets = target_type if isinstance(target_type, tuple) else (target_type,)
    types = [check_type(each) or type_from_annotation(each) for each in targets]
    if isinstance(obj, list | dict | tuple) and not obj:
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager "
            "mode. For example, List[int] would become list and therefore falsely return True for "
            "List[float] or List[str].",
            stacklevel=2,
        )
    return has_type(obj, types)


isinstance_.__name__ = "isinstance"


def unwrap_optional(x: Any) -> Any:
    assert x is not None, "Unwrapping null optional"
    return x


class Attribute(NamedTuple):
    """A value with its type, for `ScriptModule.__init__`."""

    value: Any
    type: Any


def overload(function: Any) -> Any:
    """`@torch.jit._overload`."""
    return add_overload(function)


def overload_method(function: Any) -> Any:
    """`@torch.jit._overload_method`."""
    return add_overload(function)


BroadcastingList1 = BroadcastingList(1)
BroadcastingList2 = BroadcastingList(2)
BroadcastingList3 = BroadcastingList(3)

# Functions whose calls the compiler reads itself.
FORMS: dict[Any, str] = {
    annotate: "annotate",
    is_scripting: "is_scripting",
    isinstance_: "isinstance",
    unwrap_optional: "unwrap_optional",
    futures.fork: "fork",
    futures.wait: "wait",
    awaits._awaitable: "awaitable",
}
