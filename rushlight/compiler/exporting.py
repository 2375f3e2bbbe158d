"""`torch._dynamo.export`: a function captured whole, as a module that is called like it.

What the function reads beside its arguments becomes part of the module; arguments that are no
tensors are the constants that they were. Sizes are symbols unless the program fixes them.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.base import pytree
from rushlight.capture.cache import Options
from rushlight.capture.exc import Unsupported, UserError, UserErrorType
from rushlight.capture.function import graph_module
from rushlight.capture.guards import described
from rushlight.capture.outcomes import Break
from rushlight.capture.recording import EXAMPLE
from rushlight.capture.sources import fetch
from rushlight.capture.values import Const, Dict, Lazy, Number, Seq, Tensor
from rushlight.compiler import config
from rushlight.compiler.compiling import OptimizedModule, entry, make_capture
from rushlight.core.tensor import Tensor as RealTensor
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.printing import _PyTreeCodeGen, _PyTreeInfo
from rushlight.nn.module import Module

__all__ = ["ExportResult", "export"]

CONTROL_FLOW = (
    "Dynamic control flow is not supported at the moment. Please use torch.cond to explicitly "
    "capture the control flow."
)


class ExportResult(NamedTuple):
    """The module, and what it takes for granted, in words."""

    graph_module: Any
    guards: list[str]


class Captured(BaseException):
    """Ends a call that was only to be captured; carries the result. Nobody may catch it."""


def export(
    f: Callable[..., Any],
    *extra_args: Any,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: dict[Any, Any] | None = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: Any = None,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    **extra_kwargs: Any,
) -> Any:
    """torch: call the result with arguments to have `f` as a module of one graph.

    `aten_graph` takes operators apart into those of the core, `dynamic_shapes` says which sizes are
    symbols (the others are then constants), `same_signature` False leaves the graph as captured.
    """
    if decomposition_table is not None and not aten_graph:
        raise AssertionError(
            "Specifying a decomposition_table table or tracing mode is illegal without setting "
            "aten_graph=True"
        )
    if pre_dispatch and not aten_graph:
        raise AssertionError("pre_dispatch=True can only be used when aten_graph=True")
    is_static = assume_static_by_default or dynamic_shapes is not None

    def run(*args: Any, **kwargs: Any) -> ExportResult:
        marked = mark_sizes(f, dynamic_shapes, args, kwargs)
        try:
            found = captured(f, args, kwargs, is_static)
        finally:
            for tensor, before in marked:
                tensor.__dict__.clear()
                tensor.__dict__.update(before)
        gm = flat_module(found, args, kwargs) if same_signature else graph_module(found.recording)
        if aten_graph:
            options = {"decomposition_table": decomposition_table, "pre_dispatch": pre_dispatch}
            gm = taken_apart(gm, args, kwargs, found, tracing_mode, options)
        if same_signature:
            names = parameter_names(f, args, kwargs)
            inputs = pytree.tree_structure((args, kwargs))
            gm.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, inputs, found.structure)))
            gm.recompile()
        return ExportResult(gm, found.guards)

    if extra_args or extra_kwargs:
        warnings.warn(
            "export(f, *args, **kwargs) is deprecated, use export(f)(*args, **kwargs) instead.",
            FutureWarning,
            stacklevel=2,
        )
        return run(*extra_args, **extra_kwargs)
    return run


# -- capture ---------------------------------------------------------------------------------------


class Finding:
    """What a capture came to: the graph, values of its inputs, and leaves of the result, which are
    nodes or constants."""

    def __init__(self, t: Any, result: Any, scope: dict[str, Any]) -> None:
        self.t = t
        t.world.check_wanted()
        nested = self.plain(result)
        self.leaves, self.structure = pytree.tree_flatten(nested)
        recording = self.recording = t.root
        t.world.balance(t)
        recording.graph.output(tuple(x.node for x in self.leaves if isinstance(x, Result)))
        recording.drop_unused_parts()
        # Values of inputs; for a size, its tensor and the dim.
        self.values: dict[Any, Any] = {}
        self.sizes: dict[Any, tuple[Any, int]] = {}
        for node, source in recording.sources.items():
            if source.kind == "size":
                self.sizes[node] = fetch(source.base, scope), source.key
            else:
                self.values[node] = fetch(source, scope)
        self.guards = [described(guard) for guard in t.guards]

    def plain(self, v: Any) -> Any:
        """A result, with nodes in the place of what the graph gives."""
        v = self.t.real(v) if isinstance(v, Lazy) else v
        if isinstance(v, Tensor | Number):
            return Result(self.t.node(v))
        if isinstance(v, Const):
            return v.value
        if isinstance(v, Seq) and v.kind in (list, tuple):
            return v.kind(map(self.plain, v.items))
        if isinstance(v, Seq):
            return v.kind._make(map(self.plain, v.items))  # type: ignore[attr-defined]
        if isinstance(v, Dict):
            found = {key: self.plain(item) for key, item in v.items.items()}
            return found if v.kind is dict else v.kind(found)
        raise Break(f"a result of kind {self.t.type_of(v).__name__} cannot be exported")


class Result:
    """A leaf of the result that the graph gives."""

    def __init__(self, node: Any) -> None:
        self.node = node


def captured(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_static: bool) -> Finding:
    options = Options(fullgraph=True, dynamic=not is_static)

    def end(t: Any, result: Any, scope: dict[str, Any]) -> None:
        raise Captured(Finding(t, result, scope))

    capture = make_capture("eager", options)
    options.keeps_numbers = options.keeps_floats = lambda: True
    options.on_result = end
    made = OptimizedModule(f, capture) if isinstance(f, Module) else entry(f, capture)
    try:
        with config.patch(suppress_errors=False):
            made(*args, **kwargs)
    except Captured as found:
        return found.args[0]  # type: ignore[no-any-return]
    except Unsupported as error:
        if getattr(error, "code", "") == "RL0750":
            text = f"{CONTROL_FLOW} {error}"
            raise UserError(UserErrorType.DYNAMIC_CONTROL_FLOW, text) from error
        raise
    name = getattr(f, "__qualname__", type(f).__name__)
    raise Unsupported(f"{name} is not captured here: it is disabled, or runs inside of a mode")


def mark_sizes(f: Any, shapes: Any, args: Any, kwargs: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Mark the sizes that `dynamic_shapes` names; the tensors, and what they had before."""
    from rushlight.compiler.sizes import mark_dynamic

    if shapes is None:
        return []
    bound = inspect.signature(f.forward if isinstance(f, Module) else f).bind(*args, **kwargs)
    given = [shapes] if not isinstance(shapes, dict) else [shapes.get(n) for n in bound.arguments]
    values = list(bound.arguments.values())
    if isinstance(shapes, (tuple, list)):
        given, values = list(shapes), list(args)
    marked = []
    for tensor, spec in sized(list(values), given):
        marked.append((tensor, dict(tensor.__dict__)))
        dims = spec.items() if isinstance(spec, dict) else enumerate(spec)
        for dim, size in dims:
            if size is not None and not isinstance(size, int):
                low, high = getattr(size, "min", None), getattr(size, "max", None)
                mark_dynamic(tensor, dim, min=low, max=high)
    return marked


def sized(value: Any, spec: Any) -> list[tuple[Any, Any]]:
    """(tensor, what is said of its sizes) of all tensors."""
    if spec is None:
        return []
    if isinstance(value, RealTensor):
        return [(value, spec)]
    pairs = zip(value, spec) if isinstance(value, (tuple, list)) else []
    if isinstance(value, dict):
        pairs = [(item, spec.get(key)) for key, item in value.items()]
    return [found for item, own in pairs for found in sized(item, own)]


# -- the module ------------------------------------------------------------------------------------


def parameter_names(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """What the arguments of a call are called."""
    signature = inspect.signature(f.forward if isinstance(f, Module) else f)
    names = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = len(args) - len(names)
            names += [f"{parameter.name}_{number}" for number in range(more)]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return [*names[: len(args)], *kwargs]


def flat_module(found: Finding, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The graph with the leaves of the arguments as inputs, and all else within."""
    leaves = pytree.tree_leaves((args, kwargs))
    recording, graph = found.recording, Graph()
    attributes = dict(recording.attributes)
    # torch: an input is called what it was captured as, where it was.
    names = {
        place: node.name
        for node, value in found.values.items()
        if (place := place_of(value, leaves)) is not None
    }
    inputs = [
        graph.create_node("placeholder", f"arg{place}", name=names.get(place))
        for place in range(len(leaves))
    ]

    def reached(value: Any, name: str) -> Any:
        """The node of a tensor."""
        place = place_of(value, leaves)
        if place is not None:
            return inputs[place]
        attributes[name] = value
        return graph.get_attr(name)

    made = {node: reached(value, node.name.lstrip("_")) for node, value in found.values.items()}
    for node, example in made.items():
        example.meta.setdefault("val", node.meta[EXAMPLE])
    for node, (tensor, dim) in found.sizes.items():
        owner = next((made[n] for n, value in found.values.items() if value is tensor), None)
        if owner is None:
            owner = reached(tensor, f"{node.name.lstrip('_')}_tensor")
        made[node] = graph.call_method("size", (owner, dim))
    for node in recording.graph.nodes:
        if node.op not in ("placeholder", "output"):
            made[node] = graph.node_copy(node, lambda n: made[n])
    graph.output([made[leaf.node] if isinstance(leaf, Result) else leaf for leaf in found.leaves])
    return GraphModule(attributes, graph)


def place_of(value: Any, leaves: list[Any]) -> int | None:
    """Which of the arguments a tensor is."""
    places = (place for place, leaf in enumerate(leaves) if leaf is value)
    return next(places, None) if isinstance(value, RealTensor) else None


def taken_apart(
    gm: Any, args: Any, kwargs: Any, found: Finding, tracing_mode: str, options: dict[str, Any]
) -> Any:
    """The graph in operators of the core."""
    from rushlight.aot.tracing import make_fx

    leaves = pytree.tree_leaves((args, kwargs))

    def run(*values: Any) -> Any:
        return gm(*values)

    made = make_fx(run, tracing_mode=tracing_mode, _allow_non_fake_inputs=True, **options)(*leaves)
    for node in made.graph.nodes:
        if node.op == "output":
            node.args = (list(node.args[0]),) if isinstance(node.args[0], tuple) else node.args
    return made
