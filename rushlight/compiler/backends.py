"""Backends of `torch.compile`: functions of a GraphModule and example inputs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base.counters import counters
from rushlight.capture.exc import InvalidBackend
from rushlight.capture.recording import NATIVE
from rushlight.core.fake import DynamicOutputShapeException, UnsupportedFakeTensorException

__all__ = ["aot_autograd", "list_backends", "lookup_backend", "register_backend"]

Backend = Callable[..., Any]

BACKENDS: dict[str, tuple[Backend, tuple[str, ...]]] = {}
# Where packages offer backends: ours, and the one that packages for torch use.
ENTRY_POINTS = ("rushlight_backends", "torch_dynamo_backends")


def register_backend(
    compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Give a backend a name; usable as a decorator."""
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    name = name or compiler_fn.__name__
    if name in BACKENDS:
        raise AssertionError(f"duplicate name: {name}")
    BACKENDS[name] = (compiler_fn, tuple(tags))
    return compiler_fn


class Default:
    """The backend that `torch.compile` takes where none is named."""

    backend: Any = "inductor"


def get_default_backend() -> Any:
    return Default.backend


def set_default_backend(backend: Any) -> None:
    """Name the backend that `torch.compile` takes where none is named."""
    lookup_backend(backend)
    Default.backend = backend


def offered_by_packages() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for group in ENTRY_POINTS for point in entry_points(group=group)}


def lookup_backend(backend: Any) -> Backend:
    """A backend by name; a function stands for itself."""
    if not isinstance(backend, str):
        found: Backend = backend
        return found
    if backend not in BACKENDS:
        point = offered_by_packages().get(backend)
        if point is None:
            raise InvalidBackend(backend)
        register_backend(point.load(), name=backend)
    return BACKENDS[backend][0]


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names of backends, without those that carry one of the tags."""
    excluded = set(exclude_tags or ())
    known = [name for name, (_, tags) in BACKENDS.items() if not excluded & set(tags)]
    return sorted({*known, *offered_by_packages()})


# -- the backends of the project -------------------------------------------------------------------


@register_backend(tags=("debug",))
def eager(gm: Any, example_inputs: Sequence[Any]) -> Any:
    """Run the graph as it was captured."""
    return gm.forward


def through_aot(gm: Any, inputs: Sequence[Any], compiler: Backend, **options: Any) -> Any:
    """Forward and backward graphs of functional ops, each given to `compiler`."""
    from rushlight.aot.api import aot_module_simplified

    if any(node.meta.get(NATIVE) for node in gm.graph.nodes):
        from rushlight.compiler.parts import in_parts

        return in_parts(gm, lambda part, given: through_aot(part, given, compiler, **options))
    try:
        return aot_module_simplified(gm, inputs, compiler, is_guarded=True, **options)
    except (UnsupportedFakeTensorException, DynamicOutputShapeException):
        # Gradients of other layouts, for example, or of as many elements as data tell.
        pass
    except NotImplementedError as failure:
        if getattr(failure, "code", None) != "RL0702":
            raise
        # A write to elements that repeat.
    counters["stats"]["graphs that run as they were captured"] += 1
    return gm.forward


def aot_autograd(**options: Any) -> Backend:
    """A backend of compilers of functional graphs: `fw_compiler`, and `bw_compiler`, `partition_fn`
    and what else `aot_module_simplified` takes."""
    if "fw_compiler" not in options:
        raise TypeError("aot_autograd() needs a fw_compiler")

    def backend(gm: Any, example_inputs: Sequence[Any], **tuning: Any) -> Any:
        wanted = {**options, **tuning}
        compiler = wanted.pop("fw_compiler")
        wanted["bw_compiler"] = wanted.get("bw_compiler") or compiler
        wanted["inference_compiler"] = wanted.get("inference_compiler") or compiler
        return through_aot(gm, example_inputs, compiler, **wanted)

    return backend


@register_backend(tags=("debug",))
def aot_eager(gm: Any, example_inputs: Sequence[Any]) -> Any:
    """Split into functional forward and backward graphs, and run those as they are."""
    from rushlight.aot.compilers import nop

    return through_aot(gm, example_inputs, nop)


@register_backend(tags=("debug",))
def aot_eager_decomp_partition(gm: Any, example_inputs: Sequence[Any]) -> Any:
    """As the default backend, up to the code generator."""
    from rushlight.aot.compilers import nop

    return through_aot(gm, example_inputs, nop, **default_options())


@register_backend
def inductor(gm: Any, example_inputs: Sequence[Any]) -> Any:
    """The default: functional graphs as native code."""
    from rushlight.codegen import config
    from rushlight.compiler import compile_graph
    from rushlight.compiler.channels import in_partitions

    # Writes stay in the graph: code makes new values in the place of the old ones.
    options = {
        "partition_fn": in_partitions,
        "inference_compiler": compile_inference,
        "keep_inference_input_mutations": True,
    }
    kept = config.fx_graph_cache
    return through_aot(gm, example_inputs, compile_graph, keeps_graphs=kept, **options)


def compile_inference(gm: Any, example_inputs: Sequence[Any]) -> Any:
    """A graph without a backward as native code."""
    from rushlight.compiler import compile_graph
    from rushlight.compiler.channels import put_channels_last

    put_channels_last(gm)
    return compile_graph(gm, example_inputs)


def default_options() -> dict[str, Any]:
    from rushlight.aot.partition import min_cut_rematerialization_partition

    return {"partition_fn": min_cut_rematerialization_partition}


def is_compile_supported(device_type: str) -> bool:
    """Whether `torch.compile` makes machine code for a device: what that needs is installed."""
    from rushlight.codegen.native import can_compile

    return device_type.partition(":")[0] == "cpu" and can_compile()
