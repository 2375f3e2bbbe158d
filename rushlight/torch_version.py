"""torch.torch_version: a version that compares as versions do, and is a text all the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["TorchVersion"]

# Words of releases before the final one, in their order.
STAGES = {"dev": -4, "a": -3, "b": -2, "rc": -1}
TAIL = re.compile(
    r"(?:(?P<stage>a|b|rc)(?P<count>\d+))?(?:\.post(?P<post>\d+))?(?:\.dev(?P<dev>\d+))?"
)


def key_of(version: Any) -> tuple[Any, ...]:
    """What orders versions: release, then stage and number; a local part comes last."""
    if not isinstance(version, str):
        version = ".".join(map(str, version))
    public, _, local = version.partition("+")
    release = re.match(r"v?(\d+(?:\.\d+)*)", public)
    if release is None:
        raise ValueError(f"Invalid version: {version!r}")
    numbers = [int(part) for part in release[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    tail = TAIL.fullmatch(public[release.end() :].replace("-", "."))
    if tail is None:
        raise ValueError(f"Invalid version: {version!r}")
    stage = (STAGES[tail["stage"]], int(tail["count"])) if tail["stage"] else (0, 0)
    if tail["dev"] and not tail["stage"] and not tail["post"]:
        stage = (STAGES["dev"], 0)
    after = int(tail["post"]) if tail["post"] else -1
    before = int(tail["dev"]) if tail["dev"] else float("inf")
    return tuple(numbers), stage, after, before, local


class TorchVersion(str):
    """A version as text, which compares by its numbers with versions, texts and sequences.

    >>> from rushlight.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.6", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def compare(self, other: Any, way: Callable[[Any, Any], bool], name: str) -> bool:
        try:
            theirs = key_of(other if isinstance(other, (str, Iterable)) else str(other))
        except ValueError:
            # What is no version is compared as text.
            return bool(getattr(str, name)(self, str(other)))
        return way(key_of(str(self)), theirs)

    def __lt__(self, other: Any) -> bool:
        return self.compare(other, lambda a, b: a < b, "__lt__")

    def __le__(self, other: Any) -> bool:
        return self.compare(other, lambda a, b: a <= b, "__le__")

    def __gt__(self, other: Any) -> bool:
        return self.compare(other, lambda a, b: a > b, "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self.compare(other, lambda a, b: a >= b, "__ge__")

    def __eq__(self, other: Any) -> bool:
        return self.compare(other, lambda a, b: a == b, "__eq__")

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = str.__hash__
