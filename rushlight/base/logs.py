"""What Rushlight tells the user while it works: `RUSHLIGHT_LOGS=graph_breaks,guards,recompiles`.

Topics are graph_breaks, guards, recompiles, graph_code, kernel, fusion and memory. Lines go to
stderr.
"""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from typing import Any

from rushlight.base.config import config

__all__ = [
    "TOPICS", "get_artifact_logger", "is_on", "log_api_usage_metadata", "log_api_usage_once",
    "set_logs", "warning_once", "write",
]  # fmt: skip

TOPICS = ("graph_breaks", "guards", "recompiles", "graph_code", "kernel", "fusion", "memory")
# torch's other names of topics.
OTHER_NAMES = {
    "graph": "graph_code",
    "graph_code_verbose": "graph_code",
    "kernel_code": "kernel",
    "output_code": "kernel",
    "recompiles_verbose": "recompiles",
}
# torch's topics of which nothing is told here, and its parts that take a level.
UNTOLD = frozenset(
    [
        "aot_graphs",
        "aot_joint_graph",
        "autotuning",
        "benchmarking",
        "bytecode",
        "caching",
        "compiled_autograd",
        "compiled_autograd_verbose",
        "compute_dependencies",
        "cudagraph_static_inputs",
        "cudagraphs",
        "ddp_graphs",
        "graph_region_expansion",
        "graph_sizes",
        "hierarchical_compile",
        "incremental",
        "inductor_metrics",
        "ir_post_fusion",
        "ir_pre_fusion",
        "onnx_diagnostics",
        "overlap",
        "perf_hints",
        "post_grad_graphs",
        "pre_grad_graphs",
        "schedule",
        "side_effects",
        "sym_node",
        "trace_bytecode",
        "trace_call",
        "trace_source",
    ]
)
PARTS = frozenset(
    [
        "all",
        "aot",
        "autograd",
        "c10d",
        "ddp",
        "distributed",
        "dtensor",
        "dynamic",
        "dynamo",
        "export",
        "fsdp",
        "inductor",
        "onnx",
    ]
)


def is_on(topic: str) -> bool:
    """Whether the user asked for a topic."""
    chosen = config.logs
    return bool(chosen) and topic in [name.strip() for name in chosen.split(",")]


def write(topic: str, text: str) -> None:
    """Tell the user about a topic, where asked for."""
    if is_on(topic):
        for line in text.strip("\n").splitlines():
            print(f"[{topic}] {line}", file=sys.stderr)


def set_logs(
    *,
    all: int | None = None,  # torch's name
    modules: dict[str, int | bool] | None = None,
    **topics: Any,
) -> None:
    """torch: choose what is told: topics by True, parts of the library by a level of `logging`.

    Nothing is told but what is chosen. Of torch's topics, `bytecode` and the like have no
    counterpart here; a warning says so. Parts that are told at DEBUG level tell all topics.
    """
    chosen = dict.fromkeys(name for name, value in topics.items() if name not in PARTS and value)
    for name, value in topics.items():
        if name in PARTS:
            continue
        if name not in TOPICS and name not in OTHER_NAMES and name not in UNTOLD:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
        if not isinstance(value, bool):
            raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
    levels = {**(modules or {}), **{k: v for k, v in topics.items() if k in PARTS}, "torch": all}
    for name, level in levels.items():
        if level is None or isinstance(level, bool):
            continue
        logging.getLogger("torch" if name in PARTS else name).setLevel(level)
        if level <= logging.DEBUG:
            chosen |= dict.fromkeys(TOPICS)
    untold = [name for name in chosen if name in UNTOLD]
    if untold:
        warnings.warn(
            f"Rushlight tells nothing of {', '.join(untold)}; its topics are {', '.join(TOPICS)}",
            stacklevel=2,
        )
    wanted = dict.fromkeys(OTHER_NAMES.get(name, name) for name in chosen if name not in UNTOLD)
    config.logs = ",".join(wanted)


def get_artifact_logger(module_qname: str, artifact_name: str) -> logging.Logger:
    """torch: the logger of a module's for one topic."""
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


@functools.lru_cache(None)
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """torch: warn by a logger, the first time."""
    logger_obj.warning(*args, **kwargs)


def log_api_usage_once(event: str) -> None:
    """torch: libraries say what of them is used. Nobody is told here."""


def log_api_usage_metadata(event: str, metadata_map: dict[str, str]) -> None:
    """torch: as `log_api_usage_once`, with particulars."""
