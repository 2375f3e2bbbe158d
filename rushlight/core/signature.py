"""The signature of an operator's public function, made of its schema when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any

__all__ = ["SchemaSignature"]

IN_ORDER, BY_NAME = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY


class SchemaSignature(Signature):
    """Of the first overload of an op; `input` is what functions call their first operand."""

    __slots__ = ("is_method", "made", "packet")

    def __init__(self, packet: Any, is_method: bool) -> None:
        self.packet = packet
        self.is_method = is_method
        self.made: Mapping[str, Parameter] | None = None
        self._return_annotation = Signature.empty

    @property
    def parameters(self) -> Any:
        if self.made is None:
            found = {each.name: each for each in self.read()}
            self.made = MappingProxyType(found)
        return self.made

    def read(self) -> list[Parameter]:
        schema = self.packet.candidates[0]._schema
        found = []
        for argument in schema.arguments:
            name = argument.name
            if name == "self" and not self.is_method:
                name = "input"
            has_default = argument.has_default_value()
            default = argument.default_value if has_default else Parameter.empty
            kind = BY_NAME if argument.kwarg_only else IN_ORDER
            found.append(Parameter(name, kind, default=default))
        first = self.packet.candidates[0]
        derives_out = first.options.get("out", True) and not first.is_view_op
        has_out = derives_out and not schema.is_mutable and bool(schema.returns)
        if has_out and not self.is_method and not any(each.name == "out" for each in found):
            found.append(Parameter("out", BY_NAME, default=None))
        return found

    def replace(self, **changes: Any) -> Any:
        return Signature(list(self.parameters.values())).replace(**changes)

    def __reduce__(self) -> Any:
        return Signature, (list(self.parameters.values()),)
