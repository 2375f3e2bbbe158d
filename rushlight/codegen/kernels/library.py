"""The module of all heavy kernels: compiled once, and run with the words of a call."""

from __future__ import annotations

from functools import cache
from typing import Any

from rushlight.codegen.kernels import link
from rushlight.codegen.kernels.attention import attention_texts
from rushlight.codegen.kernels.chain import chain_texts
from rushlight.codegen.kernels.depthwise import depthwise_texts
from rushlight.codegen.kernels.direct import direct_texts
from rushlight.codegen.kernels.emit import Target
from rushlight.codegen.kernels.last import last_texts
from rushlight.codegen.kernels.lastnorms import last_norm_texts
from rushlight.codegen.kernels.layout import layout_texts
from rushlight.codegen.kernels.norms import norm_texts
from rushlight.codegen.kernels.pool import pool
from rushlight.codegen.kernels.products import product_texts
from rushlight.codegen.kernels.winograd import winograd_texts
from rushlight.codegen.kernels.words import address

__all__ = ["DRIVERS", "driver", "run", "target", "texts"]

DRIVERS = (
    "direct", "direct_weights", "sum_weights", "winograd", "winograd_filters", "winograd_sum",
    "winograd_weights", "depthwise", "depthwise_weights", "norm", "norm_backward",
    "attention", "attention_backward", "last", "last_weights", "last_sum", "last_pack",
    "turn_samples", "last_norm", "last_norm_backward", "last_norm_whole", "last_norm_gradients",
    "chained",
)  # fmt: skip


def target() -> Target:
    return link.machine().target


def texts(wanted: Target) -> list[str]:
    families = (
        product_texts, layout_texts, direct_texts, winograd_texts, depthwise_texts, norm_texts,
        attention_texts, last_texts, last_norm_texts, chain_texts,
    )  # fmt: skip
    return [text for family in families for text in family(wanted)]


@cache
def driver(name: str, machine: link.Linking) -> int:
    return machine.functions("heavy", texts, DRIVERS)[name]


def run(name: str, words: Any, chunks: int, most: int, work: int) -> None:
    """All chunks of a driver on at most so many threads; `work` is how many multiplications."""
    pool().run(driver(name, link.machine()), address(words), chunks, most, work)
