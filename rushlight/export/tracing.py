"""A module as a graph of its state and of the leaves of its arguments.

The module's forward runs on fake tensors, twice: once to find what it writes and what its results
alias, once to be recorded. Which level the record is of is the altitude: whole composites and no
writes ("export"), the same with writes ("training"), or what composites do ("decomposed").
"""

from __future__ import annotations

import functools
import operator
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rushlight.amp.autocasting import CHOICES, uncached
from rushlight.aot.arguments import Duplicates
from rushlight.aot.compilation import FlatFunction
from rushlight.aot.export import refuse_wrappers, refuse_writes
from rushlight.aot.joint import GraphBuilder, Tracing, fresh_aliases, trace_inference
from rushlight.aot.metadata import Facts, collect_facts, kept_memory
from rushlight.aot.wrappers import Task
from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.compiler import EXPORTING
from rushlight.core.fake import FakeTensorMode
from rushlight.core.functional import FunctionalMode, FunctionalTensor, from_functional
from rushlight.core.op import OpOverload, find_overload
from rushlight.core.recording import Recorder
from rushlight.core.rng import default_generator
from rushlight.core.state import LAYER_AUTOCAST, LOCAL, changed
from rushlight.core.tensor import Tensor
from rushlight.export.checks import InputCheck
from rushlight.export.origins import FunctionNames, ProgramOrigins
from rushlight.export.state import Held
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.graph.graph import Graph
from rushlight.nn.module import Module
from rushlight.symbolic.numbers import SymInt

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)

__all__ = ["Altitude", "Traced", "exporting", "run_graph", "trace_module"]


@dataclass(frozen=True)
class Altitude:
    """What a graph is made of."""

    pre_dispatch: bool = True
    functional: bool = True
    decompositions: dict[Any, Any] = field(default_factory=dict)
    # Strict traces say which functions nodes come from.
    is_strict: bool = False
    # Paths of modules whose way of being called is to be known.
    watched: tuple[str, ...] = ()


@dataclass
class CallRecord:
    """How a module was called: what the graph has for its arguments and results."""

    inputs: list[Any]
    in_structure: TreeSpec
    outputs: list[Any] = field(default_factory=list)
    out_structure: Any = None


@dataclass
class Traced:
    """A graph with flat inputs: parameters, buffers, leaves; and flat outputs: what was written,
    then results."""

    module: GraphModule
    held: Held
    out_structure: TreeSpec
    # Places of the inputs whose new values lead the outputs; effects, whose tokens lead all.
    written: list[int]
    tokens: int
    mode: FakeTensorMode
    calls: dict[str, CallRecord]


@contextmanager
def exporting() -> Iterator[None]:
    """Inside, code that asks learns that it is being exported."""
    before = EXPORTING.active
    EXPORTING.active = True
    try:
        yield
    finally:
        EXPORTING.active = before


@contextmanager
def casting(
    op: OpOverload, args: tuple[Any, ...], nesting: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """Inside, an op runs on operands that autocast has cast, if as many blocks of autocast are
    entered as `nesting` says. So many surround a whole program, which has their casts for it will
    not be called under them; blocks inside of it become regions."""
    state = LOCAL.state
    cast = None
    is_meant = nesting is None or nesting == CHOICES.nesting
    if is_meant and state.autocast is not None and not state.excluded & LAYER_AUTOCAST:
        cast = state.autocast.cast(op, args)
    if cast is None:
        yield args
        return
    with changed(excluded=state.excluded | LAYER_AUTOCAST):
        yield cast


class CastingRecorder(Recorder):
    """Records ops with the casts of the ambient autocast."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.nesting = CHOICES.nesting

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        with casting(op, args, self.nesting) as args:
            return super().process(op, args)


class ExportMode(FunctionalMode):
    """Functionalization as programs have it: conversions are always copies, which nobody may write
    to, and what is made from Python numbers is detached."""

    def __init__(self) -> None:
        super().__init__(pre_dispatch=True)
        self.nesting = CHOICES.nesting

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        with casting(op, args, self.nesting) as args:
            return self.follow(op, args)

    def follow(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.namespace == "aten" and op.base_name in CONVERSIONS:
            return self.convert(op, args)
        if op.base_name == "lift_fresh_copy" and isinstance(args[0], FunctionalTensor):
            return super().process(find_overload("aten", "clone", "default"), (args[0], None))
        result = super().process(op, args)
        if op.base_name == "lift_fresh":
            return self.view(find_overload("aten", "detach", "default"), (result,))
        return result

    def convert(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        names = list(op.argument_names)
        if "copy" in names:
            place = names.index("copy")
            args = (*args[:place], True, *args[place + 1 :])
        result = super().process(op, args)
        if isinstance(result, FunctionalTensor):
            result.functional_storage.frozen = True
        return result


CONVERSIONS = ("to", "_to_copy")


class ProgramInterpreter(Interpreter):
    """Runs a graph so that what is recorded says what the graph's nodes say; graphs that
    higher-order ops call are run in the same way."""

    def __init__(self, module: Any) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.extra_traceback = False

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = self.fetch_attr(target)
        if isinstance(found, GraphModule):
            return ProgramFunction(found)
        return found

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target in COMPARISONS and isinstance(args[0], SymInt):
            # What the graph compares is compared again, also where it is known by now.
            with args[0].node.shape_env.keep_relations():
                return super().call_function(target, args, kwargs)
        return super().call_function(target, args, kwargs)


class ProgramFunction:
    """A graph that a higher-order op calls."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module

    def __call__(self, *args: Any) -> Any:
        return ProgramInterpreter(self.module).run(*args, enable_io_processing=False)


def run_graph(module: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a module whose forward is a graph, node by node."""
    from rushlight.graph.printing import _PyTreeCodeGen
    from rushlight.graph.specs import tree_flatten_spec

    codegen = module.graph._codegen
    interpreter = ProgramInterpreter(module)
    if not isinstance(codegen, _PyTreeCodeGen):
        return interpreter.run(*args, *kwargs.values(), enable_io_processing=False)
    info = codegen.pytree_info
    leaves = tree_flatten_spec((tuple(args), kwargs), info.in_spec)
    outputs = interpreter.run(*leaves, enable_io_processing=False)
    return outputs if info.out_spec is None else pytree.tree_unflatten(outputs, info.out_spec)


class CallWatch:
    """Notes the calls of some modules while they are recorded: those of `path` under `path`,
    `path@1`, .... Of a module that has several paths the first call counts for each."""

    def __init__(self, module: Module, paths: Sequence[str]) -> None:
        self.found: dict[str, CallRecord] = {}
        members = dict(module.named_modules(remove_duplicate=False))
        self.members = {path: members[path] for path in paths if path}
        named = Counter([id(member) for member in members.values()])
        self.shared = {path for path, member in self.members.items() if named[id(member)] > 1}
        # Path -> the calls that have not returned yet, and the number of all.
        self.open: dict[str, list[CallRecord]] = {}
        self.counts: Counter[str] = Counter()

    @contextmanager
    def active(self) -> Iterator[None]:
        handles = []
        if LOCAL.state.pre_proxy is not None or LOCAL.state.proxy is not None:
            for path, member in self.members.items():
                handles += [
                    member.register_forward_pre_hook(
                        functools.partial(self.note_call, path), with_kwargs=True
                    ),
                    member.register_forward_hook(functools.partial(self.note_result, path)),
                ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def note_call(self, path: str, module: Module, args: Any, kwargs: Any) -> None:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        record = CallRecord([node_for(leaf) for leaf in leaves], structure)
        self.open.setdefault(path, []).append(record)
        number = self.counts[path]
        self.counts[path] += 1
        if not number or path not in self.shared:
            self.found[f"{path}@{number}" if number else path] = record

    def note_result(self, path: str, module: Module, args: Any, result: Any) -> None:
        record = self.open[path].pop()
        leaves, record.out_structure = pytree.tree_flatten(result)
        record.outputs = [node_for(leaf) for leaf in leaves]


def node_for(value: Any) -> Any:
    """What the graph that is being recorded has for a value."""
    recorder = LOCAL.state.pre_proxy or LOCAL.state.proxy
    return recorder.node_of(from_functional(value)) if isinstance(value, Tensor) else value


class ModuleRun:
    """A module as a function of its tensors and of its arguments, all flat."""

    def __init__(self, module: Module, held: Held, is_strict: bool, watch: CallWatch) -> None:
        self.module = module
        self.held = held
        self.watch = watch
        self.names = FunctionNames(is_strict)

    def __call__(self, *given: Any, **kwargs: Any) -> Any:
        count = len(self.held.names)
        values = dict(zip(self.held.names, given[:count]))
        self.names.counts.clear()
        with self.held.placed(values):
            with self.names, self.watch.active():
                result = self.call(given[count:], kwargs)
            self.write_assigned(values)
        return result

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.module, GraphModule):
            for hook in self.module._forward_pre_hooks.values():
                if isinstance(hook, InputCheck):
                    # What a program was made for holds of one that is made of it.
                    hook(self.module, tuple(args), kwargs)
            return run_graph(self.module, args, kwargs)
        return self.module(*args, **kwargs)

    def write_assigned(self, values: dict[str, Any]) -> None:
        """A buffer that was assigned is written: programs have no other way to keep it."""
        for name in self.held.buffers:
            owner: Any = self.module
            *path, last = name.split(".")
            for part in path:
                owner = getattr(owner, part)
            now = owner._buffers.get(last)
            if isinstance(now, Tensor) and now is not values[name]:
                with changed(grad=False):
                    values[name].copy_(now)


def trace_module(
    module: Module,
    held: Held,
    leaves: Sequence[Any],
    structure: TreeSpec,
    mode: FakeTensorMode,
    altitude: Altitude,
) -> Traced:
    """The graph of a module for fake arguments."""
    watch = CallWatch(module, altitude.watched)
    function = ModuleRun(module, held, altitude.is_strict, watch)
    origins = ProgramOrigins(sys._getframe(), module, function.names)
    tensors = [mode.from_tensor(value, static_shapes=True) for value in held.tensors]
    state = LOCAL.state
    grad = state.grad if altitude.pre_dispatch else False
    random_state = default_generator.snapshot()
    make_mode = ExportMode if altitude.pre_dispatch else None
    tracing = Tracing(
        mode, altitude.decompositions, altitude.pre_dispatch, origins.describe, make_mode
    )
    args, kwargs = pytree.tree_unflatten(list(leaves), structure)
    given, whole = pytree.tree_flatten(((*tensors, *args), kwargs))
    flat = FlatFunction(function, whole)
    with (
        exporting(),
        changed(grad=grad, autocast=state.autocast, fake=None),
        uncached(),
        origins.noting_names(),
    ):
        try:
            if not altitude.functional:
                graph = trace_writing(flat, given, tracing)
                return Traced(graph, held, flat.out_structure, [], 0, mode, watch.found)
            with mode:
                facts = collect_facts(flat, given, False, altitude.pre_dispatch, make_mode)
            default_generator.restore(random_state)
            task = Task(flat, given, given, facts, mode, 0, keep_writes=False)
            if Duplicates.plan(task) is not None and drop_aliases(held):
                return trace_module(module, held, leaves, structure, mode, altitude)
            refuse_wrappers(task)
            refuse_writes(written_by_caller(facts, len(held.names)))
            origins.counts.clear()
            graph = trace_inference(flat, given, facts, tracing)
        finally:
            origins.calls.clear()
            default_generator.restore(random_state)
    return Traced(
        without_bases(graph, facts),
        held,
        flat.out_structure,
        facts.returned_inputs,
        len(facts.tokens),
        mode,
        watch.found,
    )


def drop_aliases(held: Held) -> bool:
    """Lift each tensor under one name; whether that makes a difference."""
    first: dict[int, str] = {}
    others: dict[str, str] = {}
    for name, value in {**held.parameters, **held.buffers}.items():
        if id(value) in first:
            others[name] = first[id(value)]
        first.setdefault(id(value), name)
    held.drop(others)
    return bool(others)


def written_by_caller(facts: Facts, lifted: int) -> Facts:
    """The facts as far as a write to a tensor that requires a gradient is refused: state may be
    written without grad mode."""
    inputs = [
        entry
        for place, entry in enumerate(facts.inputs)
        if place >= lifted or not entry.quiet or entry.writes_geometry
    ]
    return Facts(inputs, [], 0, [])


def without_bases(graph: GraphModule, facts: Facts) -> GraphModule:
    """A graph that returns only what was written and what the module returns."""
    if facts.bases:
        output = graph.graph.output_node()
        results: Any = output.args[0]
        output.args = (tuple(results[: len(results) - facts.bases]),)
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return graph


def trace_writing(flat: FlatFunction, given: Sequence[Any], tracing: Tracing) -> GraphModule:
    """The graph of a function that writes to its arguments where the function does."""
    builder = GraphBuilder(tracing)
    builder.recorder = CastingRecorder(Graph(), tracing.decompositions, tracing.pre_dispatch)
    builder.recorder.describe_origin = tracing.describe_origin
    args = fresh_aliases(given)
    for position, value in enumerate(args):
        builder.placeholder(f"arg{position}_1", value)
    with kept_memory(args):
        outputs = builder.run(lambda: flat(*args))
    return builder.finish(tuple(outputs))
