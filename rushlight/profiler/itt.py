"""torch.profiler.itt: there is no ITT collector."""

from __future__ import annotations

from typing import NoReturn

from rushlight.base.errors import MissingFeature

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    return False


def refuse(name: str) -> NoReturn:
    raise MissingFeature(
        f"profiler.itt.{name}", "Label code with profiler.record_function.", code="RL1203"
    )


def range_push(msg: str) -> None:
    refuse("range_push")


def range_pop() -> None:
    refuse("range_pop")


def range(msg: str, *args: object, **kwargs: object) -> None:
    refuse("range")


def mark(msg: str) -> None:
    refuse("mark")
