"""What Rushlight tells the user while it works: `RUSHLIGHT_LOGS=graph_breaks,guards,recompiles`.

Topics are graph_breaks, guards, recompiles, graph_code, kernel, fusion and memory. Lines go to
stderr.
"""

from __future__ import annotations

import sys

from rushlight.base.config import config

__all__ = ["TOPICS", "is_on", "log_api_usage_metadata", "log_api_usage_once", "write"]

TOPICS = ("graph_breaks", "guards", "recompiles", "graph_code", "kernel", "fusion", "memory")


def is_on(topic: str) -> bool:
    """Whether the user asked for a topic."""
    chosen = config.logs
    return bool(chosen) and topic in [name.strip() for name in chosen.split(",")]


def write(topic: str, text: str) -> None:
    """Tell the user about a topic, where asked for."""
    if is_on(topic):
        for line in text.strip("\n").splitlines():
            print(f"[{topic}] {line}", file=sys.stderr)


def log_api_usage_once(event: str) -> None:
    """torch: libraries say what of them is used. Nobody is told here."""


def log_api_usage_metadata(event: str, metadata_map: dict[str, str]) -> None:
    """torch: as `log_api_usage_once`, with particulars."""
