"""Result types with named fields: what `torch.max(x, 0)` and other ops of several named results
return. A class is made once per op name and is a pytree node of its own.

`return_type(name, *fields)` makes or finds a class; stubs wrap by it whatever plain tuple an op
with named returns gives, so that kernels and `ops.aten` calls know only tuples.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rushlight.base.lazy import namespace
from rushlight.base.pytree import register_sequence_node
from rushlight.core import ports

if TYPE_CHECKING:
    from rushlight.core.op import OpOverloadPacket

__all__ = ["ReturnType", "return_type"]

CLASSES: dict[str, type[ReturnType]] = {}


class ReturnType(tuple[Any, ...]):
    """A tuple whose items can also be read by name."""

    __slots__ = ()

    fields: tuple[str, ...] = ()
    n_fields = 0
    n_sequence_fields = 0
    n_unnamed_fields = 0

    def __new__(cls, items: Any, /) -> Any:
        made = tuple.__new__(cls, items)
        if len(made) != cls.n_fields:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {cls.n_fields}-sequence "
                f"({len(made)}-sequence given)"
            )
        return made

    def __repr__(self) -> str:
        inside = ",\n".join([f"{f}={v!r}" for f, v in zip(self.fields, self, strict=True)])
        return f"torch.return_types.{type(self).__name__}(\n{inside})"

    def __reduce__(self) -> Any:
        return rebuild, (type(self).__name__, self.fields, tuple(self))


def rebuild(name: str, fields: tuple[str, ...], items: tuple[Any, ...]) -> Any:
    return return_type(name, *fields)(items)


def return_type(name: str, *fields: str) -> Any:
    """The class `torch.return_types.<name>` with these fields."""
    found = CLASSES.get(name)
    if found is None:
        members: dict[str, Any] = {
            field: property(itemgetter(position)) for position, field in enumerate(fields)
        }
        count = len(fields)
        members.update(
            __slots__=(),
            __module__="torch.return_types",
            fields=fields,
            n_fields=count,
            n_sequence_fields=count,
        )
        found = CLASSES[name] = type(name, (ReturnType,), members)
        register_sequence_node(found)
    return found


def named_result(packet: OpOverloadPacket) -> Any:
    """The result class of a packet's public function; None where results have no names."""
    for op in packet.candidates:
        names = [entry.name for entry in op._schema.returns]
        if len(names) > 1 and all(names):
            return return_type(packet.base_name, *names)
    return None


def class_for(result_class: Any, out: Any) -> Any:
    """torch: results that were written into `out=` have a class of their own."""
    if out is None:
        return result_class
    return return_type(f"{result_class.__name__}_out", *result_class.fields)


def find_class(name: str) -> Any:
    """The result class of the function `name`, or None; `max_out` is that of `max(..., out=)`."""
    if name == "all_return_types":
        return ports.all_return_types()
    found = CLASSES.get(name)
    if found is None and name.endswith("_out"):
        plain = find_class(name.removesuffix("_out"))
        found = None if plain is None else return_type(name, *plain.fields)
    elif found is None and not name.startswith("__"):
        try:
            found = named_result(ports.find_packet("aten", name))
        except LookupError:
            found = None
    return found


def pytree_register_structseq(cls: Any) -> None:
    """Make a class of results a node of pytrees; those above are."""
    if not issubclass(cls, ReturnType):
        register_sequence_node(cls)


__getattr__, __dir__ = namespace(__name__, make=find_class, names=CLASSES, keep=False)
