"""Ready-made compilers of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.aot.api import aot_function, aot_module
from rushlight.aot.partition import min_cut_rematerialization_partition
from rushlight.aot.runtime import make_boxed_compiler, make_boxed_func
from rushlight.fx.graph_module import GraphModule
from rushlight.nn.module import Module

__all__ = [
    "make_boxed_compiler",
    "make_boxed_func",
    "memory_efficient_fusion",
    "nnc_jit",
    "nop",
    "ts_compile",
]


def nop(fx_g: GraphModule, _: Sequence[Any]) -> GraphModule:
    """A compiler that runs the graph as it is."""
    return fx_g


def ts_compile(fx_g: GraphModule, inps: Sequence[Any]) -> GraphModule:
    """torch: the scripting compiler; here graphs run as they are."""
    return fx_g


def nnc_jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, compiled ahead of time at its first call."""
    return aot_function(f, ts_compile)


def memory_efficient_fusion(fn: Callable[..., Any], **kwargs: Any) -> Any:
    """A function or module compiled so that its backward recomputes what is cheap."""
    config = {
        "fw_compiler": ts_compile,
        "bw_compiler": ts_compile,
        "partition_fn": min_cut_rematerialization_partition,
        **kwargs,
    }
    return aot_module(fn, **config) if isinstance(fn, Module) else aot_function(fn, **config)
