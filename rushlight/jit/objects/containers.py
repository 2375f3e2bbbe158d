"""Lists and dicts that Python and compiled code share: `torch.jit.script([1, 2])`.

Compiled code gets the very object, so that what it writes is seen here; plain lists and dicts are
copied when they are passed. What Python reads from a shared one is a copy, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rushlight.jit.ir.constants import type_of
from rushlight.jit.ir.relations import unify_all, without_facts
from rushlight.jit.ir.types import TENSOR, DictType, ListType, Type
from rushlight.jit.objects.binding import CannotCast, cast_value
from rushlight.jit.objects.results import to_python
from rushlight.jit.ops.texts import value_text
from rushlight.jit.runtime.errors import Error


def shared_type(values: Iterable[Any], what: str) -> Type:
    """The type of all values, of none that of a tensor."""
    types = [without_facts(type_of(value)) for value in values]
    if not types:
        return TENSOR
    found: Type | None = unify_all(types)
    if found is None:
        names = list(dict.fromkeys([each.annotation_str for each in types]))
        raise Error(
            f"Unable to infer type of {what}: inputs to traced functions must have consistent "
            f"type. Found {names[0]} and {names[1]}"
        )
    return found


def checked(value: Any, type_: Type) -> Any:
    try:
        return cast_value(value, type_)
    except CannotCast as reason:
        raise TypeError(
            f"Expected a value of type '{type_.annotation_str}', but got one of type "
            f"'{type(value).__name__}': {reason}"
        ) from None


class ScriptList:
    """A list that compiled code can write to."""

    def __init__(self, values: Iterable[Any]) -> None:
        given = list(values)
        element = shared_type(given, "list")
        self._type = ListType(element)
        self._values = [checked(value, element) for value in given]

    def _check(self, value: Any) -> Any:
        return checked(value, self._type.element)

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(to_python(self._values))

    def __contains__(self, value: Any) -> bool:
        return self._check(value) in self._values

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made = ScriptList(())
            made._type, made._values = self._type, self._values[index]
            return made
        return to_python(self._values[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._values[index] = [self._check(each) for each in value]
        else:
            self._values[index] = self._check(value)

    def __delitem__(self, index: int) -> None:
        if isinstance(index, slice):
            raise TypeError("a ScriptList deletes one element at a time; got a slice")
        del self._values[index]

    def append(self, value: Any) -> None:
        self._values.append(self._check(value))

    def extend(self, values: Iterable[Any]) -> None:
        self._values += [self._check(value) for value in values]

    def insert(self, index: int, value: Any) -> None:
        self._values.insert(index, self._check(value))

    def pop(self, index: int = -1) -> Any:
        return to_python(self._values.pop(index))

    def remove(self, value: Any) -> None:
        self._values.remove(self._check(value))

    def count(self, value: Any) -> int:
        return self._values.count(self._check(value))

    def clear(self) -> None:
        self._values.clear()

    def __reduce__(self) -> Any:
        return ScriptList, (list(self._values),)

    def __repr__(self) -> str:
        return value_text(self._values)


class ScriptDict:
    """A dict that compiled code can write to."""

    def __init__(self, values: dict[Any, Any]) -> None:
        self._type = DictType(shared_type(values, "dict"), shared_type(values.values(), "dict"))
        self._values = {self._check_key(key): self._check(value) for key, value in values.items()}

    def _check_key(self, key: Any) -> Any:
        return checked(key, self._type.key)

    def _check(self, value: Any) -> Any:
        return checked(value, self._type.value)

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __contains__(self, key: Any) -> bool:
        return self._known_key(key) in self._values

    def _known_key(self, key: Any) -> Any:
        """A key to look for: one of another type is not there."""
        try:
            return self._check_key(key)
        except TypeError:
            raise KeyError(key) from None

    def __getitem__(self, key: Any) -> Any:
        return to_python(self._values[self._known_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[self._check_key(key)] = self._check(value)

    def __delitem__(self, key: Any) -> None:
        del self._values[self._check_key(key)]

    def keys(self) -> Iterator[Any]:
        return iter(self._values.keys())

    def items(self) -> Iterator[Any]:
        return iter(to_python(self._values).items())

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'torch.ScriptDict' object")

    def __repr__(self) -> str:
        return value_text(self._values)
