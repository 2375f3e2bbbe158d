"""`nn.Module` in capture: attributes from its tables, containers, calls with hooks."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.capture.iterators import Items
from rushlight.capture.outcomes import Break, UserRaise
from rushlight.capture.sources import const
from rushlight.capture.tracer import raise_user
from rushlight.capture.values import Const, Dict, Lazy, New, Obj, Seq
from rushlight.core.hooks import NOTED
from rushlight.func.stateless import functional_call
from rushlight.nn.containers import ModuleList, Sequential
from rushlight.nn.module import (
    GLOBAL_BACKWARD_HOOKS,
    GLOBAL_BACKWARD_PRE_HOOKS,
    GLOBAL_FORWARD_HOOKS,
    GLOBAL_FORWARD_PRE_HOOKS,
    Module,
)

__all__ = ["attribute", "call", "has_plain_forward", "is_called_plainly", "items", "walked"]

TABLES = ("_parameters", "_buffers", "_modules")
GLOBAL_HOOKS = (
    GLOBAL_FORWARD_HOOKS,
    GLOBAL_FORWARD_PRE_HOOKS,
    GLOBAL_BACKWARD_HOOKS,
    GLOBAL_BACKWARD_PRE_HOOKS,
)
CALL: Any = Module.__call__
OWN_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def attribute(t: Any, module: Obj, name: str) -> Any:
    """What a module's tables hold under a name; None where the general rules apply."""
    value = module.value
    if name in value.__dict__:
        return None
    if (id(value), name) in t.world.replaced:
        return t.world.replaced[id(value), name]
    cls = type(value)
    if inspect.getattr_static(cls, name, None) is None:
        # What the class has goes first.
        for table in TABLES:
            found = value.__dict__.get(table)
            if found and name in found:
                if not t.world.is_library(cls):
                    t.guard("lacks", const(cls), name)
                return Lazy(found[name], module.source.attr(table).item(name))
    is_missing = inspect.getattr_static(cls, name, None) is None and not hasattr(cls, name)
    if is_missing and cls.__getattr__ is Module.__getattr__:
        t.guard("lacks", module.source, name)
        message = f"'{cls.__name__}' object has no attribute '{name}'"
        raise raise_user(AttributeError, message)
    return None


def items(t: Any, module: Obj) -> list[Any] | None:
    """The children of a container that is iterated like a list."""
    value = module.value
    if not isinstance(value, Sequential | ModuleList):
        return None
    if type(value).__iter__ not in (Sequential.__iter__, ModuleList.__iter__):
        return None
    source, found = module.source.attr("_modules"), value._modules
    keys_of(t, source, found)
    return [Lazy(child, source.item(name)) for name, child in found.items()]


def list_slice(t: Any, module: Obj, part: slice) -> Any:
    """A part of a ModuleList, which is another one."""
    found = items(t, module) if type(module.value) is ModuleList else None
    return None if found is None else Seq(ModuleList, found[part])


def keys_of(t: Any, source: Any, table: dict[str, Any]) -> list[str]:
    """The names in a table of a module; guarded."""
    names = list(table)
    t.guard("text", source, lambda e, k: f"[*{e}] != {k.constant(names)}")
    return names


def walk(t: Any, module: Any, source: Any, prefix: str, recurses: bool, seen: set[int]) -> Any:
    """(path, module, source) of a module and of those in it, each once."""
    if id(module) in seen:
        return
    seen.add(id(module))
    yield prefix, module, source
    if not recurses:
        return
    inner = source.attr("_modules")
    for name in keys_of(t, inner, module._modules):
        child = module._modules[name]
        place = inner.item(name)
        # That it is the same one, or None, is a fact.
        t.wrap(child, place)
        if child is not None:
            path = f"{prefix}.{name}" if prefix else name
            yield from walk(t, child, place, path, True, seen)


def members(table: str, is_named: bool) -> Callable[[Any, Obj, str, bool, bool], Iterator[Any]]:
    """Parameters or buffers, with their names or without."""

    def run(t: Any, module: Obj, prefix: str, recurse: bool, remove_duplicate: bool) -> Any:
        seen: set[int] = set()
        for path, owner, source in walk(t, module.value, module.source, prefix, recurse, set()):
            place = source.attr(table)
            for name in keys_of(t, place, getattr(owner, table)):
                value = getattr(owner, table)[name]
                found = t.wrap(value, place.item(name))
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                full = f"{path}.{name}" if path else name
                yield Seq(tuple, [Const(full), found]) if is_named else found

    return run


def children(is_named: bool) -> Callable[..., Iterator[Any]]:
    def run(t: Any, module: Obj) -> Any:
        place, table, seen = module.source.attr("_modules"), module.value._modules, set()
        for name in keys_of(t, place, table):
            found = t.wrap(table[name], place.item(name))
            if table[name] is not None and id(table[name]) not in seen:
                seen.add(id(table[name]))
                yield Seq(tuple, [Const(name), found]) if is_named else found

    return run


def inner_modules(is_named: bool) -> Callable[..., Iterator[Any]]:
    def run(t: Any, module: Obj) -> Any:
        for path, value, source in walk(t, module.value, module.source, "", True, set()):
            found = t.wrap(value, source)
            yield Seq(tuple, [Const(path), found]) if is_named else found

    return run


# Methods that walk through a module: parameters with their defaults, and the walk.
WALKS: dict[Any, tuple[dict[str, Any], Callable[..., Iterator[Any]]]] = {
    Module.children: ({}, children(False)),
    Module.named_children: ({}, children(True)),
    Module.modules: ({}, inner_modules(False)),
    Module.named_modules: ({}, inner_modules(True)),
}
for _name, _table in (("parameters", "_parameters"), ("buffers", "_buffers")):
    _rest: dict[str, Any] = {"recurse": True}
    WALKS[getattr(Module, _name)] = (_rest, members(_table, False))
    _rest = {"prefix": "", "recurse": True, "remove_duplicate": True}
    WALKS[getattr(Module, f"named_{_name}")] = (_rest, members(_table, True))


def walks_plainly(cls: type) -> bool:
    """Whether a class leaves the walks as they are."""
    return all(getattr(cls, f.__name__, None) is f for f in WALKS)


def walked(t: Any, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a method that walks through a module; None where `function` is none."""
    if function is functional_call:
        return call_with(t, *args, **kwargs)
    if function not in WALKS:
        return None
    if t.world.replaced:
        raise Break("a walk through a module inside functional_call")
    defaults, walk_through = WALKS[function]
    module = t.real(args[0])
    given = {key: t.python(v) for key, v in [*zip(defaults, args[1:]), *kwargs.items()]}
    if isinstance(module, Obj) and not walks_plainly(type(module.value)):
        return None
    if not isinstance(module, Obj) or len(args) - 1 > len(defaults) or set(given) - set(defaults):
        raise Break(f"Module.{function.__name__} with options")
    options = {**defaults, **given}
    if "recurse" in options:
        options = {"prefix": "", "remove_duplicate": True, **options}
    return Items(list(walk_through(t, module, **options)))


def call_with(
    t: Any, module: Any, given: Any, args: Any = None, kwargs: Any = None, **options: Any
) -> Any:
    """`functional_call`: the module reads the given tensors in the place of its own."""
    module, given = t.real(module), t.real(given)
    if options or not isinstance(module, Obj) or not isinstance(given, Dict):
        raise Break("functional_call with options")
    if not isinstance(module.value, Module) or shares_tensors(module.value):
        raise Break("functional_call of a module that holds a tensor twice")
    found = None if args is None else t.real(args)
    is_none = found is None or (isinstance(found, Const) and found.value is None)
    positional: list[Any] = [] if is_none else [found]
    if isinstance(found, Seq) and found.kind is tuple:
        positional = list(found.items)
    named = {} if kwargs is None or not t.truth(kwargs) else dict(t.real(kwargs).items)
    before = t.world.replaced
    replaced = dict(before)
    # That no tensor is there twice is a fact of all of them.
    list(members("_parameters", True)(t, module, "", True, False))
    list(members("_buffers", True)(t, module, "", True, False))
    for path, value in given.items.items():
        *outer, name = str(path).split(".")
        owner = module
        for step in outer:
            owner = t.real(t.getattr(owner, step))
        is_held = isinstance(owner, Obj) and isinstance(owner.value, Module)
        if not is_held or not any(name in getattr(owner.value, table) for table in TABLES[:2]):
            raise Break(f"functional_call with {path}")
        replaced[id(owner.value), name] = value
    t.world.replaced, effects = replaced, len(t.effects)
    try:
        result = t.call(module, positional, named)
    finally:
        t.world.replaced = before
    if len(t.effects) != effects:
        raise Break("functional_call of a module that writes")
    return result


def shares_tensors(module: Any) -> bool:
    """Whether a parameter or buffer has several names."""
    tensors = [*module.named_parameters(remove_duplicate=False)]
    tensors += module.named_buffers(remove_duplicate=False)
    return len({id(tensor) for _, tensor in tensors}) != len(tensors)


def has_backward_hooks(module: Any) -> bool:
    return bool(module._backward_hooks or module._backward_pre_hooks or any(GLOBAL_HOOKS))


def has_plain_forward(module: Any) -> bool:
    """Whether a call comes to the function `forward` of the module's class."""
    return "forward" not in module.__dict__ and isinstance(type(module).forward, types.FunctionType)


def is_called_plainly(module: Any) -> bool:
    """Whether a call is one of `forward` alone. Asked at each call of a compiled module."""
    if type(module).__call__ is not CALL:
        return False
    if not NOTED.hooks:
        return True
    fields = module.__dict__
    return not (
        fields["_forward_hooks"]
        or fields["_forward_pre_hooks"]
        or fields["_backward_hooks"]
        or fields["_backward_pre_hooks"]
        or GLOBAL_FORWARD_HOOKS
        or GLOBAL_FORWARD_PRE_HOOKS
        or GLOBAL_BACKWARD_HOOKS
        or GLOBAL_BACKWARD_PRE_HOOKS
    )


def is_module_call(function: Any) -> bool:
    """Whether a class of modules is called as modules are: hooks, and `forward` between them."""
    if function is CALL:
        return True
    graphs: Any = sys.modules.get("rushlight.fx.graph_module")
    # It adds the place in the graph to errors.
    return graphs is not None and function is graphs.GraphModule.__call__


def call(t: Any, module: Obj, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a module: its forward, between its hooks."""
    if isinstance(module, New):
        return call_made(t, module, args, kwargs)
    value = module.value
    if has_backward_hooks(value):
        raise Break("module with backward hooks")
    # Graph modules make it when they are first asked.
    getattr(type(value), "forward", None)
    t.guard("noted", const(NOTED), global_hooks_test)
    if not (value._forward_hooks or value._forward_pre_hooks):
        t.guard("noted", module.source, own_hooks_test)
        return t.call(t.getattr(module, "forward"), args, kwargs)
    for name in ("_backward_hooks", "_backward_pre_hooks"):
        t.guard("text", module.source.attr(name), lambda e, k: e)
    args, kwargs = run_pre_hooks(t, module, args, kwargs)
    try:
        result = t.call(t.getattr(module, "forward"), args, kwargs)
        return run_post_hooks(t, module, args, kwargs, result)
    except UserRaise:
        if value._forward_hooks_always_called:
            raise Break("a hook that is called behind an exception") from None
        raise


def call_made(t: Any, module: New, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a module that the program makes."""
    t.guard("noted", const(NOTED), global_hooks_test)
    tables = [t.real(module.attrs.get(name)) for name in OWN_HOOKS]
    if any(not isinstance(v, New) or v.table is None or v.table.items for v in tables):
        raise Break("a module that is made and given hooks")
    return t.call(t.getattr(module, "forward"), args, kwargs)


def own_hooks_test(text: str, names: Any) -> tuple[str, str]:
    """has no hooks"""
    tables = [f"{text}.{name}" for name in OWN_HOOKS]
    return f"{names.constant(NOTED)}.hooks", " or ".join(tables)


def global_hooks_test(text: str, names: Any) -> tuple[str, str]:
    """has no hooks for all modules"""
    return f"{text}.hooks", " or ".join(map(names.constant, GLOBAL_HOOKS))


def hooks_of(t: Any, module: Obj, name: str) -> list[tuple[int, Any]]:
    """The hooks in a table, guarded, by their numbers."""
    source, table = module.source.attr(name), getattr(module.value, name)
    numbers = list(table)
    t.guard("text", source, lambda e, k: f"[*{e}] != {k.constant(numbers)}")
    return [(number, Lazy(hook, source.item(number))) for number, hook in table.items()]


def is_flagged(t: Any, module: Obj, table: str, number: int) -> bool:
    source = module.source.attr(table)
    flag = number in getattr(module.value, table)
    negation = "not in" if flag else "in"
    t.guard("text", source, lambda e, k: f"{number} {negation} {e}")
    return flag


def run_pre_hooks(
    t: Any, module: Obj, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    for number, hook in hooks_of(t, module, "_forward_pre_hooks"):
        if is_flagged(t, module, "_forward_pre_hooks_with_kwargs", number):
            given = [module, Seq(tuple, list(args)), Dict(dict(kwargs))]
            found = t.real(t.call(hook, given, {}))
            if isinstance(found, Const) and found.value is None:
                continue
            new_args, new_kwargs = t.iterate(found)
            args, kwargs = t.iterate(new_args), dict(t.real(new_kwargs).items)
            continue
        found = t.real(t.call(hook, [module, Seq(tuple, list(args))], {}))
        if not (isinstance(found, Const) and found.value is None):
            is_tuple = isinstance(found, Seq) and found.kind is tuple
            args = list(found.items) if is_tuple else [found]
    return args, kwargs


def run_post_hooks(
    t: Any, module: Obj, args: list[Any], kwargs: dict[str, Any], result: Any
) -> Any:
    for number, hook in hooks_of(t, module, "_forward_hooks"):
        is_flagged(t, module, "_forward_hooks_always_called", number)
        given = [module, Seq(tuple, list(args))]
        if is_flagged(t, module, "_forward_hooks_with_kwargs", number):
            given.append(Dict(dict(kwargs)))
        found = t.real(t.call(hook, [*given, result], {}))
        if not (isinstance(found, Const) and found.value is None):
            result = found
    return result
