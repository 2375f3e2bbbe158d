"""The module of all heavy kernels: compiled once, and run with the words of a call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from rushlight.codegen.kernels import link
from rushlight.codegen.kernels.depthwise import depthwise_texts
from rushlight.codegen.kernels.direct import direct_texts
from rushlight.codegen.kernels.emit import Target
from rushlight.codegen.kernels.layout import layout_texts
from rushlight.codegen.kernels.products import product_texts
from rushlight.codegen.kernels.winograd import winograd_texts

__all__ = ["run", "target", "workers"]

DRIVERS = (
    "direct", "direct_weights", "sum_weights", "winograd", "winograd_filters", "winograd_sum",
    "winograd_weights", "depthwise", "depthwise_weights",
)  # fmt: skip


def target() -> Target:
    return link.machine().target


def texts(wanted: Target) -> list[str]:
    families = (product_texts, layout_texts, direct_texts, winograd_texts, depthwise_texts)
    return [text for family in families for text in family(wanted)]


KIND = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@cache
def driver(name: str, machine: link.Machine) -> Callable[..., None]:
    return KIND(machine.functions("heavy", texts, DRIVERS)[name])


def workers(chunks: int) -> int:
    """How many may work at once."""
    return 1


def run(name: str, words: Any, chunks: int, work: int) -> None:
    """All chunks of a driver."""
    function, place = driver(name, link.machine()), words.ctypes.data
    for chunk in range(chunks):
        function(place, chunk, 0)
