"""`FxGraphCache`: graphs that this process compiled, so that an equal one is not compiled again.

The key is of all that decides the native code: nodes with their sizes, strides and dtypes, example
inputs, constants by identity, settings. What a key cannot tell is compiled each time and counted as
bypassed. Under it lies the cache of object code on disk, which other processes share.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.aot.encoding import Unencodable, Writer, attribute
from rushlight.base.counters import counters
from rushlight.base.diskcache import key_of
from rushlight.base.errors import error
from rushlight.base.switches import changed_switches
from rushlight.codegen import Compiled, config, lower
from rushlight.codegen.cache import OBJECTS
from rushlight.codegen.program import is_written_late
from rushlight.core import process
from rushlight.core.dtype import get_default_dtype
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node

__all__ = ["BypassFxGraphCache", "FxGraphCache", "compiled_fx_graph_hash"]

# The graphs that are remembered; those that were not used for longest are forgotten.
MOST = 128


class BypassFxGraphCache(Exception):
    """A graph has no key; says why."""


class GraphWriter(Writer):
    """A graph as what its native code depends on. Constants are themselves, not their values: code
    reads them when it runs."""

    def graph(self, module: GraphModule) -> Any:
        return {key: part for key, part in super().graph(module).items() if key != "name"}

    def tensor(self, value: Tensor) -> Any:
        return super().tensor(value) if id(value) in self.attributes else geometry(value)

    def node(self, node: Node) -> Any:
        if isinstance(node.target, OpOverload) and node.target.kind.name == "CUSTOM":
            raise Unencodable(f"a call of {node.target.name()}, which may be registered anew")
        facts = (node.meta.get("val"), is_written_late(node))
        parts = (node.target, node.args, dict(node.kwargs), *facts)
        return [node.name, node.op, *[self.value(part) for part in parts]]


def constants_of(module: GraphModule) -> list[Tensor]:
    """The tensors that a graph holds, those of graphs in it included."""
    found: list[Tensor] = []
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = attribute(module, str(node.target))
            if isinstance(value, GraphModule):
                found += constants_of(value)
            elif isinstance(value, Tensor):
                found.append(value)
    return found


def geometry(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return repr(value)
    return [sizes_of(value), strides_of(value), value._dtype.name, str(value.device)]


def compiled_fx_graph_hash(
    gm: GraphModule,
    example_inputs: Sequence[Any] | None,
    fx_kwargs: Mapping[str, Any],
    inputs_to_check: Any,
) -> str:
    """The key of a graph that is compiled for inputs like these, while its constants live."""
    writer = GraphWriter({id(value): f"{id(value)}" for value in constants_of(gm)})
    inputs = None if example_inputs is None else [geometry(value) for value in example_inputs]
    settings = [
        get_default_dtype().name,
        process.get_deterministic_debug_mode(),
        process.get_float32_matmul_precision(),
        process.get_num_threads(),
        changed_switches(),
    ]
    try:
        text = json.dumps([writer.value(gm), inputs, repr(sorted(fx_kwargs.items())), settings])
    except (Unencodable, TypeError) as problem:
        raise error("RL0804", BypassFxGraphCache, what=str(problem)) from None
    return key_of(text)


class FxGraphCache:
    """The compiled graphs of this process."""

    # Key -> (code, the constants that the key names).
    entries: OrderedDict[str, tuple[Compiled, list[Tensor]]] = OrderedDict()
    lock = threading.Lock()

    @staticmethod
    def clear() -> None:
        """Forget all graphs, and the object code on disk."""
        FxGraphCache.forget()
        OBJECTS.clear()

    @staticmethod
    def forget() -> None:
        """Forget the graphs of this process."""
        with FxGraphCache.lock:
            FxGraphCache.entries.clear()

    @staticmethod
    def _lookup_graph(
        key: str, example_inputs: Sequence[Any] | None, local: bool, remote_cache: Any
    ) -> Compiled | None:
        """What was compiled under a key; `local` is whether this process is asked."""
        with FxGraphCache.lock:
            found = FxGraphCache.entries.get(key) if local else None
            if found is None:
                return None
            FxGraphCache.entries.move_to_end(key)
            return found[0]

    @staticmethod
    def _save_graph(key: str, compiled: Compiled, constants: list[Tensor]) -> None:
        with FxGraphCache.lock:
            FxGraphCache.entries[key] = compiled, constants
            if len(FxGraphCache.entries) > MOST:
                FxGraphCache.entries.popitem(last=False)

    @staticmethod
    def load(gm: GraphModule, example_inputs: Sequence[Any] | None) -> Compiled:
        """The native code of a graph, compiled or remembered."""
        if not config.fx_graph_cache:
            return lower(gm, example_inputs)
        try:
            key = compiled_fx_graph_hash(gm, example_inputs, {}, ())
        except BypassFxGraphCache:
            count("bypass")
            return lower(gm, example_inputs)
        found = FxGraphCache._lookup_graph(key, example_inputs, True, None)
        if found is not None:
            count("hit")
            return found
        count("miss")
        compiled = lower(gm, example_inputs)
        FxGraphCache._save_graph(key, compiled, constants_of(gm))
        return compiled


def count(event: str) -> None:
    counters["inductor"][f"fxgraph_cache_{event}"] += 1
