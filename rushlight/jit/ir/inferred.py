"""Types that were looked for: found, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.jit.ir.relations import unify

__all__ = ["InferredType", "unify_type_list"]


class InferredType:
    """A type, or the reason why there is none."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def success(self) -> bool:
        return not isinstance(self._found, str)

    def type(self) -> Any:
        if not self.success():
            raise RuntimeError(
                "Tried to get the type from an InferredType but the type is null. Reason: "
                f"{self._found}"
            )
        return self._found

    def reason(self) -> str:
        if self.success():
            raise RuntimeError("the type was inferred: there is no reason why not")
        return str(self._found)


def unify_type_list(types: Sequence[Any]) -> Any:
    """The type that all are."""
    if not types:
        raise RuntimeError("Cannot get unified type from empty list")
    result = types[0]
    for number, each in enumerate(types[1:], 1):
        found = unify(result, each)
        if found is None:
            raise RuntimeError(
                f"Could not unify type list since element {number} of type {each} did not match "
                f"the types before it ({result})"
            )
        result = found
    return result
