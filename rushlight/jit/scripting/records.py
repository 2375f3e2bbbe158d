"""The methods that `dataclass` writes, as source: Python makes them without any."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from typing import Any, NamedTuple

# Method -> which of two values comes first, and what equal objects give.
ORDERS = {
    "__lt__": ("<", False),
    "__le__": ("<", True),
    "__gt__": (">", False),
    "__ge__": (">", True),
}
FACTORY = "Default factory initializers are not supported in TorchScript dataclasses"


class Written(NamedTuple):
    """A method's text, the objects that it names, and the defaults of its parameters."""

    text: str
    scope: dict[str, Any]
    defaults: dict[str, Any]


def written_methods(cls: Any) -> dict[str, Written]:
    """What a class of records has besides the methods of its body; {} for other classes."""
    if "__dataclass_fields__" not in vars(cls):
        return {}
    found = {"__init__": initializer(cls), "__eq__": equality(cls)}
    found |= {name: order(cls, name) for name in ORDERS}
    return {name: written for name, written in found.items() if name in vars(cls)}


def initializer(cls: Any) -> Written:
    scope: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    heads = ["self"]
    fields = {each.name: each for each in dataclasses.fields(cls)}
    passed: list[str] = []
    for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:
        if name in fields and fields[name].default_factory is not dataclasses.MISSING:
            raise NotImplementedError(FACTORY)  # torch: in these words.
        hint = parameter.annotation
        scope[f"_type_of_{name}"] = hint.type if isinstance(hint, dataclasses.InitVar) else hint
        heads.append(f"{name}: _type_of_{name}")
        if parameter.default is not inspect.Parameter.empty:
            defaults[name] = parameter.default
        if name not in fields:
            passed.append(name)
    lines = [f"self.{name} = {name}" for name, each in fields.items() if each.init]
    if hasattr(cls, "__post_init__"):
        lines.append(f"self.__post_init__({', '.join(passed)})")
    return Written(
        function_text(f"__init__({', '.join(heads)})", lines or ["pass"]), scope, defaults
    )


def equality(cls: Any) -> Written:
    return comparison(cls, "__eq__", ["if {a} != {b}:", "    return False"], True, "return False")


def order(cls: Any, name: str) -> Written:
    sign, result = ORDERS[name]
    lines = [
        f"if {{a}} {sign} {{b}}:",
        "    return True",
        f"elif {{b}} {sign} {{a}}:",
        "    return False",
    ]
    refusal = f"raise TypeError('Cannot compare {cls.__name__} with None')"
    return comparison(cls, name, lines, result, refusal)


def comparison(cls: Any, name: str, lines: list[str], result: bool, unlike: str) -> Written:
    """Field by field; `unlike` is what happens where one of two values is None."""
    body: list[str] = []
    for number, each in enumerate(dataclasses.fields(cls)):
        if not each.compare:
            continue
        a, b = f"a{number}", f"b{number}"
        body += [f"{a} = self.{each.name}", f"{b} = other.{each.name}"]
        own = [line.format(a=a, b=b) for line in lines]
        if may_be_none(each.type):
            inner = [f"    {line}" for line in own]
            unequal = [f"elif ({a} is None) != ({b} is None):", f"    {unlike}"]
            own = [f"if {a} is not None and {b} is not None:", *inner, *unequal]
        body += own
    body.append(f"return {result}")
    return Written(
        function_text(f"{name}(self, other: _own_class) -> bool", body), {"_own_class": cls}, {}
    )


def may_be_none(hint: Any) -> bool:
    if isinstance(hint, str):
        return "Optional" in hint or "None" in hint
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return is_union and type(None) in typing.get_args(hint)


def function_text(head: str, lines: list[str]) -> str:
    return "\n".join([f"def {head}:", *[f"    {line}" for line in lines], ""])
