"""`make_fx`: run a function once and keep the operators that reached the bottom as a graph.

Inputs are real tensors, fakes of fixed size, or fakes with symbolic sizes. The function is left as
it is: what it does above the recording layer (autograd, transforms, functionalization) is gone
from the graph, and what it writes in place stays in place.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FunctionType
from typing import TYPE_CHECKING, Any

from rushlight.amp.autocasting import uncached
from rushlight.base import pytree
from rushlight.base.errors import MissingExtra
from rushlight.base.garbage import Undisturbed
from rushlight.base.pytree import TreeSpec
from rushlight.core import ports
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.recording import Recorder, describe
from rushlight.core.size import Size
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.origins import Origins
from rushlight.fx.traceback import preserve_node_meta
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.graph.printing import _PyTreeCodeGen, _PyTreeInfo
from rushlight.nn.module import Module
from rushlight.symbolic.numbers import NUMBERS

if TYPE_CHECKING:
    from rushlight.symbolic.shapeenv import ShapeEnv

__all__ = ["is_sym_node", "make_fx"]

MODES = ("real", "fake", "symbolic")


def make_fx(
    f: Callable[..., Any],
    decomposition_table: dict[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
) -> Callable[..., GraphModule]:
    """A function that, called with example inputs, returns the graph of `f` as a module.

    `record_module_stack` and `record_stack_traces` let nodes say which modules were being called
    and where in the program: `meta["nn_module_stack"]`, `stack_trace`.

    >>> import rushlight as torch
    >>> print(make_fx(lambda x: x.sin() * 2)(torch.ones(3)).code.strip())
    def forward(self, x_1):
        sin = torch.ops.aten.sin.default(x_1);  x_1 = None
        mul = torch.ops.aten.mul.Tensor(sin, 2);  sin = None
        return mul
    """
    if tracing_mode not in MODES:
        raise AssertionError(f"tracing_mode must be one of {MODES}, got {tracing_mode!r}")

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        leaves, structure = pytree.tree_flatten(args)
        mode = fake_mode_for(leaves, tracing_mode, _allow_non_fake_inputs)
        if mode is not None:
            leaves = [fake_input(mode, leaf, place) for place, leaf in enumerate(leaves)]
        recorder = Recorder(Graph(), decomposition_table, pre_dispatch)
        names, defaults = parameter_names(f, len(args))
        place_inputs(recorder, leaves, structure, names, defaults)
        with ExitStack() as stack:
            stack.enter_context(Undisturbed())
            stack.enter_context(uncached())
            if mode is not None:
                stack.enter_context(mode)
            if record_module_stack or record_stack_traces:
                frame = sys._getframe()
                origins = Origins(frame, f, record_module_stack, record_stack_traces)
                recorder.describe_origin = origins.describe
                stack.enter_context(preserve_node_meta())
            stack.enter_context(recorder)
            result = f(*pytree.tree_unflatten(leaves, structure))
            place_outputs(recorder, result, structure, names)
        made = GraphModule(attribute_owner(recorder), recorder.graph, class_name(f))
        if mode is not None and mode.shape_env is not None:
            made.shape_env = mode.shape_env
        return made

    return traced


def fake_mode_for(leaves: list[Any], tracing_mode: str, allow_real: bool) -> FakeTensorMode | None:
    """The fake mode to trace in: the one that inputs belong to already, or a new one."""
    if tracing_mode == "real":
        return None
    for leaf in leaves:
        if isinstance(leaf, FakeTensor):
            return leaf.fake_mode
    active = LOCAL.state.fake
    if active is not None:
        return active
    return FakeTensorMode(
        allow_non_fake_inputs=allow_real,
        shape_env=shape_environment(required=tracing_mode == "symbolic"),
        static_shapes=tracing_mode == "fake",
    )


def shape_environment(required: bool, **options: Any) -> ShapeEnv | None:
    """A ShapeEnv; None where symbols are not required and cannot be had."""
    try:
        from rushlight.symbolic.shapeenv import ShapeEnv
    except MissingExtra:
        if required:
            raise
        return None
    return ShapeEnv(**options)


def fake_input(mode: FakeTensorMode, leaf: Any, place: int) -> Any:
    if isinstance(leaf, Tensor):
        return mode.from_tensor(leaf, source=f"input{place}")
    if type(leaf) is int and mode.shape_env is not None and not mode.static_shapes:
        return mode.shape_env.create_symintnode(
            mode.shape_env.create_symbol(leaf, f"input{place}", positive=None), hint=leaf
        )
    return leaf


# -- inputs and outputs ----------------------------------------------------------------------------


def parameter_names(f: Callable[..., Any], count: int) -> tuple[list[str], list[Any]]:
    """The names and defaults of the first `count` parameters; `arg0`, ... where `f` does not name
    them."""
    anonymous = [f"arg{place}" for place in range(count)], [inspect.Parameter.empty] * count
    function = inspect.unwrap(f)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return anonymous
    if isinstance(f, Module) and not hasattr(type(f).forward, "__wrapped__"):
        parameters = list(inspect.signature(f.forward).parameters.values())
    elif not hasattr(function, "__code__") or is_stub(function):
        return anonymous
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return anonymous
    named = [p for p in parameters if p.kind in kinds]
    if len(named) < count:
        return anonymous
    return [p.name for p in named[:count]], [p.default for p in named[:count]]


def is_stub(function: FunctionType) -> bool:
    """Whether a function was generated from an op's record: its parameters are the schema's."""
    return str(function.__code__.co_filename).startswith("<rushlight")


def place_inputs(
    recorder: Recorder,
    leaves: list[Any],
    structure: TreeSpec,
    names: list[str],
    defaults: list[Any],
) -> None:
    """A placeholder for every leaf, named after the parameter that it belongs to."""
    position = 0
    empty = inspect.Parameter.empty
    for name, default, child in zip(names, defaults, structure.children()):
        for number in range(1, child.num_leaves + 1):
            leaf = leaves[position]
            given = () if default is empty else (default,)
            node = recorder.graph.create_node("placeholder", f"{name}_{number}", given)
            if isinstance(leaf, (Tensor, *NUMBERS)):
                recorder.track(leaf, node)
            else:
                describe(node, leaf)
            position += 1
    if not all(child.is_leaf() for child in structure.children()):
        recorder.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, structure, None)))


def place_outputs(recorder: Recorder, result: Any, structure: TreeSpec, names: list[str]) -> None:
    graph = recorder.graph
    if isinstance(graph._codegen, _PyTreeCodeGen):
        leaves, out_structure = pytree.tree_flatten(result)
        graph._codegen.pytree_info = _PyTreeInfo(names, structure, out_structure)
        result = leaves
    graph.output(outputs_of(recorder, result))


def sizes_as_tuples(result: Any) -> Any:
    """Results of a function, where a `Size` is a tuple of numbers."""
    return pytree.tree_map(lambda leaf: tuple(leaf) if isinstance(leaf, Size) else leaf, result)


def outputs_of(recorder: Recorder, result: Any) -> Any:
    return pytree.tree_map(lambda leaf: output_of(recorder, leaf), result)


def output_of(recorder: Recorder, leaf: Any) -> Any:
    if isinstance(leaf, Size):
        return tuple([output_of(recorder, entry) for entry in leaf])
    return recorder.node_of(leaf) if isinstance(leaf, (Tensor, *NUMBERS)) else leaf


def attribute_owner(recorder: Recorder) -> Module:
    """A module that holds the constants a graph refers to."""
    owner = Module()
    for name, value in recorder.attributes.items():
        setattr(owner, name, value)
    return owner


def graph_module(recorder: Recorder, outputs: Any, name: str) -> GraphModule:
    """What a recorder has seen, ended by these outputs."""
    recorder.graph.output(outputs_of(recorder, outputs))
    return GraphModule(attribute_owner(recorder), recorder.graph, name)


ports.fill(graph_module=graph_module)


def class_name(f: Callable[..., Any]) -> str:
    if isinstance(f, Module):
        return type(f).__name__
    return str(getattr(f, "__name__", "<lambda>"))


def is_sym_node(node: Node) -> bool:
    """Whether a graph node stands for a symbolic number."""
    return isinstance(node.meta.get("val"), NUMBERS)
