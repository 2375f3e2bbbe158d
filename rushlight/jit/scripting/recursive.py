"""Modules from their Python: types of attributes, methods that are called, objects over them.

`script_module` gives a module a class (shared by modules that are alike), compiles `forward`, what
is exported, and all that those call, and makes the object that holds parameters and attributes.
"""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.base.errors import fail
from rushlight.jit.ir.types import NONE, ClassType, InterfaceType
from rushlight.jit.naming import qualified_name
from rushlight.jit.objects.cores import ModuleCore
from rushlight.jit.objects.modules import RecursiveScriptModule, ScriptModule
from rushlight.jit.scripting.attributes import Attributes, class_hints, read_attributes
from rushlight.jit.scripting.classes import CLASSES
from rushlight.jit.scripting.frontend import Parsed, check_function, parse_function, parse_text
from rushlight.jit.scripting.functions import (
    OVERLOADS,
    define_function,
    overload_key,
    with_signature,
)
from rushlight.jit.scripting.hooks import define_hooks, hooks_of
from rushlight.jit.scripting.ignoring import is_exported, is_ignored, is_unused
from rushlight.jit.scripting.library import layer_forms, layer_methods, overloaded_methods
from rushlight.jit.scripting.modulevalues import ModuleValue
from rushlight.jit.scripting.resolving import Resolver, resolver_of
from rushlight.jit.scripting.sources import SourceText, indentation_of
from rushlight.jit.unit import (
    PYTHON_UNIT,
    CompilationUnit,
    Function,
    Instance,
    without_mangles,
)
from rushlight.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from rushlight.nn.module import Module
from rushlight.nn.parameter import is_lazy


@dataclass(slots=True)
class Concrete:
    """A class of compiled modules, and what Python knows of it beyond its type.

    It outlives the module that it was made for: that one is not kept alive.
    """

    type: ClassType
    python_class: Any
    reference: Any
    facts: Attributes
    children: dict[str, Concrete] = field(default_factory=dict)
    # "list", "dict", "parameters", "parameter dict" or "".
    container: str = ""
    hooks: tuple[list[Any], list[Any]] = field(default_factory=lambda: ([], []))
    # Python function of a hook -> the compiled one.
    hook_functions: dict[Any, Function] = field(default_factory=dict)

    @property
    def module(self) -> Any:
        """The module that the class was made for, while it is there."""
        return self.reference()

    def method(self, name: str) -> Function | None:
        """A method by name; compiled when its schema is needed. None where there is none."""
        found: Function | None = self.type.methods.get(name)
        if found is not None:
            return found
        function = self.python_function(name)
        if function is None:
            return None
        parsed = parse_function(function, self.python_class)
        return self.add_method(name, parsed, resolver_of(function))

    def python_function(self, name: str) -> Any:
        """The Python function of a method, as it is compiled."""
        own = layer_methods(self.python_class).get(name)
        if own is not None:
            return own
        if name == "forward" and self.python_class.__dict__.get("forward") is not None:
            self.refuse_library_python()
        bound = getattr(self.module, name, None)
        function = getattr(bound, "__func__", None) or getattr(self.python_class, name, None)
        return inspect.unwrap(function) if inspect.isfunction(function) else None

    def refuse_library_python(self) -> None:
        """A layer of the package without a form says so: its Python is not meant to be compiled."""
        cls = self.python_class
        has_form = any([base in layer_forms() for base in cls.__mro__])
        if cls.__module__.startswith(("rushlight.nn.", "torch.nn.")) and not has_form:
            fail("RL1460", layer=f"nn.{cls.__name__}")

    def overloads(self, name: str) -> list[str]:
        """Names of the methods that stand for the declared signatures of a method."""
        own = overloaded_methods(self.python_class, name)
        if own:
            for each in own:
                self.method(each)
            return own
        function = self.python_function(name)
        declared = [] if function is None else OVERLOADS.get(overload_key(function), [])
        names = [f"{name}__{number}" for number in range(len(declared))]
        for each, head in zip(names, declared):
            if each not in self.type.methods:
                parsed, resolver = with_signature(head, function)
                self.add_method(each, parsed, resolver)
        return names

    def add_method(self, name: str, parsed: Parsed, resolver: Resolver) -> Function:
        method = self.type.methods[name] = self.make_function(name, parsed, resolver)
        return method

    def make_function(self, name: str, parsed: Parsed, resolver: Resolver) -> Function:
        """A function whose first argument is the module."""

        def define(made: Function) -> None:
            define_function(
                made, parsed, resolver, self.type, lambda value: ModuleValue(value, self)
            )

        return Function(f"{self.type.dotted}.{name}", define=define, unit=PYTHON_UNIT)

    def define_properties(self) -> None:
        """Properties of the user's class: a getter and a setter each."""
        if self.python_class.__module__.startswith(("rushlight.", "torch.")):
            return
        for name in dir(self.python_class):
            found = inspect.getattr_static(self.python_class, name, None)
            if isinstance(found, property) and name not in self.type.properties:
                self.add_property(name, found)

    def add_property(self, name: str, found: property) -> None:
        made: list[Function | None] = []
        for word, function in (("getter", found.fget), ("setter", found.fset)):
            if function is None or is_unused(function) or is_ignored(function):
                made.append(None)
                continue
            function = inspect.unwrap(function)
            if function.__module__.startswith(("rushlight.", "torch.")):
                return
            method = f"__{name}_{word}"
            parsed = parse_function(function, self.python_class)
            made.append(self.add_method(method, parsed, resolver_of(function)))
        if made[0] is not None:
            self.type.properties[name] = (made[0], made[1])

    def define(self, text: str, resolver: Resolver, source: SourceText | None = None) -> list[str]:
        """Methods from source text."""
        source = source or SourceText(text, indentation=indentation_of(text))
        names = []
        for node in parse_text(source).body:
            assert isinstance(node, ast.FunctionDef)
            check_function(node, source)
            defaults = default_values(node, resolver)
            self.add_method(node.name, Parsed(node, source, node.name, defaults), resolver)
            names.append(node.name)
        return names


def default_values(node: ast.FunctionDef, resolver: Resolver) -> dict[str, Any]:
    """Defaults of a function from source text."""
    from rushlight.jit.scripting.emitter import all_arguments

    names = [each.arg for each in all_arguments(node)]
    first = len(names) - len(node.args.kwonlyargs) - len(node.args.defaults)
    return {
        names[first + place]: resolver.evaluate(ast.unparse(default))
        for place, default in enumerate(node.args.defaults)
    }


# -- classes of modules ----------------------------------------------------------------------------

# Python class -> classes of compiled modules, each with what sets it apart.
SHARED: dict[Any, list[tuple[Any, Concrete]]] = {}


class Building:
    """One call of `script`: modules that are shared become objects that are shared."""

    def __init__(self, share: bool = True, only_exports: bool = False) -> None:
        self.share = share
        self.only_exports = only_exports
        self.concrete: dict[int, Concrete] = {}
        self.made: dict[int, Any] = {}
        self.waiting: list[tuple[Concrete, list[str]]] = []
        self.added: list[Any] = []
        # Modules are compared by identity while this lives.
        self.alive: list[Any] = []

    def concrete_of(self, module: Any) -> Concrete:
        found = self.concrete.get(id(module))
        if found is None:
            self.alive.append(module)
            found = self.concrete[id(module)] = self.build(module)
        return found

    def build(self, module: Any) -> Concrete:
        if isinstance(module, ScriptModule) and hasattr(module, "_c"):
            return existing(module)
        check_parameters_known(module)
        children = {
            name: self.concrete_of(child)
            for name, child in module._modules.items()
            if child is not None
        }
        facts = read_attributes(module)
        hooks = [id(hook) for each in hooks_of(module) for hook in each]
        inner = [(name, id(c.type)) for name, c in children.items()]
        key = (facts.key(), tuple(inner), tuple(hooks))
        alike = SHARED.setdefault(type(module), [])
        if self.share:
            for other, concrete in alike:
                if other == key:
                    return concrete
        type_ = ClassType(PYTHON_UNIT.claim(qualified_name(type(module))), is_module=True)
        PYTHON_UNIT.add_type(type_)
        type_.parameters |= facts.parameters
        type_.buffers |= facts.buffers
        type_.attributes.update(facts.types)
        type_.constants.update(facts.constants)
        for name, child in module._modules.items():
            hint = class_hints(type(module)).get(name)
            offered = CLASSES.get(hint) if isinstance(hint, type) else None
            if isinstance(offered, InterfaceType):
                type_.attributes[name] = offered
            else:
                type_.attributes[name] = NONE if child is None else children[name].type
        concrete = make_concrete(type_, module, facts, children)
        if self.share:
            alike.append((key, concrete))
            self.added.append(type(module))
        define_container_methods(concrete)
        names = methods_to_compile(module)
        if self.only_exports:
            names = [name for name in names if name != "forward"]
        self.waiting.append((concrete, names))
        return concrete

    def compile(self) -> None:
        """Compiles what modules offer; classes found on the way come last."""
        try:
            self.compile_waiting()
        except BaseException:
            # What could not be compiled is not shared: the next attempt tells why again.
            made = [concrete.type for concrete in self.concrete.values()]
            for cls in self.added:
                SHARED[cls] = [each for each in SHARED[cls] if each[1].type not in made]
            raise

    def compile_waiting(self) -> None:
        while self.waiting:
            concrete, names = self.waiting.pop(0)
            concrete.define_properties()
            for name in names:
                if concrete.overloads(name):
                    functions = [concrete.type.methods[n] for n in concrete.overloads(name)]
                else:
                    found = concrete.method(name)
                    functions = [] if found is None else [found]
                for function in functions:
                    function.ensure_defined()
            for function in list(concrete.type.methods.values()):
                function.ensure_defined()
            define_hooks(concrete)

    def instance_of(self, module: Any) -> Instance:
        found = self.made.get(id(module))
        if found is not None:
            return found  # type: ignore[no-any-return]
        core = getattr(module, "_c", None)
        if isinstance(core, ModuleCore):
            return core.instance
        concrete = self.concrete_of(module)
        made = self.made[id(module)] = Instance(concrete.type)
        facts = read_attributes(module)
        made.values.update(facts.held())
        for name, child in module._modules.items():
            made.values[name] = None if child is None else self.instance_of(child)
        return made


def existing(module: Any) -> Concrete:
    """The class of a module that is compiled already."""
    instance = module._c.instance
    children = {
        name: existing(child) for name, child in module._modules.items() if hasattr(child, "_c")
    }
    return make_concrete(instance.type, module, Attributes(), children)


CONTAINERS = {
    "list": (ModuleList, Sequential),
    "dict": (ModuleDict,),
    "parameters": (ParameterList,),
    "parameter dict": (ParameterDict,),
}


def container_kind(module: Any) -> str:
    """Which word of `CONTAINERS` a module is; "" for other modules."""
    return next((word for word, found in CONTAINERS.items() if isinstance(module, found)), "")


def make_concrete(
    type_: ClassType, module: Any, facts: Attributes, children: dict[str, Concrete]
) -> Concrete:
    kind = ""
    for word, found in CONTAINERS.items():
        names = [f"torch.nn.modules.container.{cls.__name__}" for cls in found]
        if isinstance(module, found) or without_mangles(type_.dotted).endswith(tuple(names)):
            kind = word
    reference = weakref.ref(module)
    facts = replace(facts, values={})
    return Concrete(type_, type(module), reference, facts, children, kind, hooks_of(module))


def methods_to_compile(module: Any) -> list[str]:
    names: list[str] = []
    forward = getattr(module, "forward", None)
    own = getattr(forward, "__func__", forward)
    if own is not Module.forward and not is_ignored(forward) and not is_unused(forward):
        names.append("forward")
    cls = type(module)
    for name in dir(cls):
        if name == "forward":
            continue
        try:
            target = inspect.getattr_static(cls, name)
        except AttributeError:
            continue
        if inspect.isfunction(target) and is_exported(target):
            names.append(name)
    return names


def define_container_methods(concrete: Concrete) -> None:
    """What compiled code asks of containers of modules."""
    module = concrete.module
    if concrete.container not in ("list", "dict"):
        return
    texts = {"__len__": f"def __len__(self):\n    return {len(module)}\n"}
    if isinstance(module, ModuleDict):
        answer = f"str(key) in {list(module.keys())!r}" if len(module) else "False"
        texts["__contains__"] = f"def __contains__(self, key: str):\n    return {answer}\n"
    for name, text in texts.items():
        if name not in concrete.type.methods:
            concrete.define(text, Resolver({}))


# -- modules ---------------------------------------------------------------------------------------


def script_module(module: Any, share: bool = True, methods: Sequence[str] = ()) -> Any:
    """The compiled form of a module."""
    check_module_initialized(module)
    building = Building(share)
    concrete = building.concrete_of(module)
    if methods:
        building.waiting.append((concrete, list(methods)))
    building.compile()
    return wrapped(module, building)


def compile_exports(module: Any, unit: CompilationUnit) -> Any:
    """The compiled form of a module whose `forward` will be traced: what it exports."""
    building = Building(share=False, only_exports=True)
    building.concrete_of(module)
    building.compile()
    return wrapped(module, building)


def wrapped(module: Any, building: Building) -> RecursiveScriptModule:
    instance = building.instance_of(module)
    made = RecursiveScriptModule(instance)
    copy_python_members(module, made, building)
    return made


def copy_python_members(module: Any, made: Any, building: Building) -> None:
    """What stays Python goes along: ignored methods, and attributes that have no type."""
    made.__dict__["_container"] = container_kind(module)
    for name, child in module._modules.items():
        if child is None:
            continue
        inner = made._modules.modules.get(name)
        if inner is not None and not isinstance(child, ScriptModule):
            copy_python_members(child, inner, building)
        elif isinstance(child, ScriptModule):
            made._modules.modules[name] = child
    fields = made.__dict__
    for name, value in module.__dict__.items():
        if name not in fields and not made._c.hasattr(name) and not name.startswith("_"):
            fields[name] = value
    cls = type(module)
    for name in dir(cls):
        target = inspect.getattr_static(cls, name, None)
        if inspect.isfunction(target) and (is_ignored(target) or is_unused(target)):
            # A method may have been set on the module itself.
            own = getattr(getattr(module, name), "__func__", target)
            fields[name] = own.__get__(made)


def check_module_initialized(module: Any) -> None:
    if "_parameters" not in vars(module) and not isinstance(module, ScriptModule):
        raise RuntimeError(
            f"'{type(module).__module__}.{type(module).__name__}' has not been initialized, did "
            "you forget to call 'super()'?"
        )


def check_parameters_known(module: Any) -> None:
    """Refuses a module whose parameters get their sizes from the first call."""
    for kind, members in (("parameters", module._parameters), ("buffers", module._buffers)):
        for name, value in members.items():
            if is_lazy(value):
                cls = type(module)
                home = qualified_name(cls).removeprefix("__torch__.").rpartition(".")[0]
                home = (
                    home if cls.__module__.startswith(("rushlight.", "torch.")) else cls.__module__
                )
                raise RuntimeError(
                    f"'{home}.{cls.__name__}' has uninitialized {kind} {name}. Did you forget to "
                    "run a forward pass?"
                )
