"""The text of classes and functions, sorted into the files of an archive.

`Sources` starts at a class or function, writes it, and goes on with whatever its text names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.jit.archive.code import Printer
from rushlight.jit.ir.constants import type_of
from rushlight.jit.ir.types import (
    ClassType,
    EnumType,
    InterfaceType,
    NamedType,
    TupleType,
    Type,
)
from rushlight.jit.unit import Function


def qualified(thing: Any) -> str:
    """The dotted name of a class, named tuple or function."""
    if isinstance(thing, NamedType):
        return thing.dotted
    return str(thing.name)


class Sources:
    """Texts by package; `constants` is what they refer to by number."""

    def __init__(self) -> None:
        self.constants: list[Any] = []
        self.texts: dict[str, list[str]] = {}
        self.written: dict[str, Any] = {}
        # The kinds of nodes in all of them.
        self.kinds: set[str] = set()

    def add(self, things: Iterable[Any]) -> None:
        """Writes these and all that they name."""
        waiting = list(things)
        while waiting:
            thing = waiting.pop(0)
            name = qualified(thing)
            if name in self.written:
                continue
            self.written[name] = thing
            printer = Printer(self.constants, must_be_readable=True)
            text = self.text(printer, thing)
            self.kinds |= printer.kinds
            package, _, _ = name.rpartition(".")
            self.texts.setdefault(package or "__torch__", []).append(text)
            waiting += printer.used

    def files(self) -> dict[str, str]:
        """The path of every file under `code/`, and its text."""
        return {
            f"{package.replace('.', '/')}.py": "".join(parts)
            for package, parts in self.texts.items()
        }

    def text(self, printer: Printer, thing: Any) -> str:
        if isinstance(thing, ClassType):
            return class_text(printer, thing)
        if isinstance(thing, InterfaceType):
            return interface_text(printer, thing)
        if isinstance(thing, EnumType):
            return enumeration_text(printer, thing)
        if isinstance(thing, TupleType):
            return named_tuple_text(printer, thing)
        assert isinstance(thing, Function)
        name = thing.name.rpartition(".")[2]
        return printer.function(name, thing.graph, thing.schema)


def attribute_line(printer: Printer, name: str, type_: Type) -> str:
    text = printer.type(type_)
    if name.isidentifier():
        return f"  {name} : {text}\n"
    return f'  __annotations__["{name}"] = {text}\n'


def listed(names: Iterable[str]) -> str:
    return f"[{''.join([f'{chr(34)}{name}{chr(34)}, ' for name in names])}]"


def class_text(printer: Printer, cls: ClassType) -> str:
    lines = [f"class {cls.name()}{'(Module)' if cls.is_module else ''}:\n"]
    if cls.is_module:
        names = list(cls.attributes)
        parameters = [name for name in names if name in cls.parameters]
        buffers = [name for name in names if name in cls.buffers]
        lines.append(f"  __parameters__ = {listed(parameters)}\n")
        lines.append(f"  __buffers__ = {listed(buffers)}\n")
        for field, hooks in (("pre", cls.pre_hooks), ("", cls.hooks)):
            if hooks:
                word = f"__forward_{field + '_' if field else ''}hooks__"
                lines.append(f"  {word} = {listed([hook.short_name for hook in hooks])}\n")
    lines += [attribute_line(printer, name, type_) for name, type_ in cls.attributes.items()]
    for name, value in cls.constants.items():
        type_ = type_of(value)
        text = printer.constant(value, type_)
        lines.append(f"  {name} : Final[{printer.type(type_)}] = {text}\n")
    # torch: hooks after `forward` come first.
    for method in (*cls.methods.values(), *dict.fromkeys((*cls.hooks, *cls.pre_hooks))):
        name = method.short_name
        lines.append(printer.function(name, method.graph, method.schema, cls.dotted, depth=1))
    if len(lines) == 1:
        lines.append("  pass\n")
    return "".join(lines)


def interface_text(printer: Printer, interface: InterfaceType) -> str:
    base = "ModuleInterface" if interface.is_module else "Interface"
    lines = [f"class {interface.name()}({base}):\n"]
    for name, schema in interface.methods.items():
        arguments = "".join(
            [f", {each.name}: {printer.type(each.type)}" for each in schema.arguments[1:]]
        )
        result = printer.type(schema.returns[0].type)
        lines.append(f"  def {name}(self{arguments}) -> {result}:\n    pass\n")
    return "".join(lines)


def enumeration_text(printer: Printer, enumeration: EnumType) -> str:
    lines = [f"class {enumeration.name()}(Enum):\n"]
    for name, value in enumeration.members.items():
        lines.append(f"  {name} = {printer.constant(value, enumeration.value_type)}\n")
    return "".join(lines)


def named_tuple_text(printer: Printer, type_: TupleType) -> str:
    lines = [f"class {type_.name.rpartition('.')[2]}(NamedTuple):\n"]
    first_default = len(type_.fields) - len(type_.defaults)
    for place, (name, item) in enumerate(zip(type_.fields, type_.items)):
        line = f"  {name} : {printer.type(item)}"
        if place >= first_default:
            line += f" = {printer.constant(type_.defaults[place - first_default], item)}"
        lines.append(line + "\n")
    return "".join(lines)
