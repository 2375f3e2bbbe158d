"""One compilation: fake inputs, the dry run, tracing, partitioning, the user's compilers."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rushlight.aot import config
from rushlight.aot.arguments import Bases, Duplicates, check_late_writes, check_quiet_moves
from rushlight.aot.checking import check_backward, check_facts, check_forward, check_joint
from rushlight.aot.joint import (
    Decompositions,
    Function,
    Tracing,
    flat_parts,
    joint_inputs,
    storage_resize,
    trace_inference,
    trace_joint,
)
from rushlight.aot.metadata import Facts, check_subclasses, collect_facts, has_symbols
from rushlight.aot.runtime import Epilogue, InferenceRun, TrainingRun, unrecorded
from rushlight.aot.sizes import Sizes
from rushlight.aot.subclasses import flatten
from rushlight.aot.tracing import shape_environment, sizes_as_tuples
from rushlight.aot.wrappers import Chain, GradGuard, Task, Tokens, Wrapper
from rushlight.base import pytree
from rushlight.base.garbage import Undisturbed
from rushlight.base.pytree import TreeSpec
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.op import OpOverload
from rushlight.core.rng import default_generator
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.fx.graph_module import GraphModule
from rushlight.symbolic.numbers import NUMBERS

__all__ = [
    "Options",
    "Traced",
    "compile_flat",
    "compile_traced",
    "get_aot_compilation_context",
    "trace_flat",
]


# Who registers ops elsewhere may do anything in them.
PLAIN_NAMESPACES = ("aten", "prims")
# Bytes that the arguments of a backward have where a call of it costs more than its work.
SMALL = 1 << 20


@dataclass
class Options:
    """What a compilation was asked for."""

    fw_compiler: Callable[..., Any]
    bw_compiler: Callable[..., Any]
    inference_compiler: Callable[..., Any]
    partition_fn: Callable[..., Any]
    decompositions: Decompositions
    parameters: int = 0
    keep_writes: bool = False
    dynamic: bool = False


class FlatFunction:
    """A function of flat arguments with flat results; keeps the structure of the results."""

    def __init__(self, function: Callable[..., Any], structure: TreeSpec) -> None:
        self.function = function
        self.structure = structure
        self.out_structure: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(list(leaves), self.structure)
        return self.flattened(self.function(*args, **kwargs))

    def flattened(self, result: Any) -> list[Any]:
        found, self.out_structure = pytree.tree_flatten(sizes_as_tuples(result))
        return found

    def unflatten(self, outputs: list[Any]) -> Any:
        return pytree.tree_unflatten(outputs, self.out_structure)


class Context(threading.local):
    """Which graph this thread is compiling, for compilers that ask."""

    names: tuple[str, ...] = ()


CONTEXT = Context()
# How many graphs compilers were given; counted under the lock.
COMPILED = [0]
LOCK = threading.Lock()


@contextmanager
def compiling(name: str) -> Any:
    before = CONTEXT.names
    CONTEXT.names = (name,)
    try:
        yield
    finally:
        CONTEXT.names = before
        with LOCK:
            COMPILED[0] += 1


def get_aot_compilation_context() -> tuple[list[str], str, int]:
    """(names of the graphs being compiled, model name, how many graphs came before)."""
    return list(CONTEXT.names), "model", COMPILED[0]


@dataclass
class Traced:
    """What compilers are given, and what surrounds their results. Nothing in it refers to the
    function that was traced."""

    wrappers: list[Wrapper]
    facts: Facts
    forward: GraphModule
    # None for a function without gradients.
    backward: GraphModule | None = None


def compile_flat(
    function: Function, args: Sequence[Any], options: Options, number: int
) -> Callable[[list[Any]], list[Any]]:
    """Compile a function of flat arguments for these example arguments."""
    return compile_traced(trace_flat(function, args, options, number), options, number)


def trace_flat(function: Function, args: Sequence[Any], options: Options, number: int) -> Traced:
    """The graphs of a function of flat arguments for these example arguments."""
    check_arguments(args)
    mode = mode_for(args, options.dynamic)
    fakes = [
        fake_argument(mode, value, place, options.parameters) for place, value in enumerate(args)
    ]
    random_state = default_generator.snapshot()
    state = LOCAL.state
    # Whatever the function switches.
    with Undisturbed(), changed(grad=state.grad, autocast=state.autocast, profiler=None):
        try:
            training = state.grad and any(
                isinstance(value, Tensor) and value.requires_grad for value in args
            )
            with mode:
                facts = collect_facts(function, fakes, options.keep_writes)
            default_generator.restore(random_state)
            task = Task(function, args, fakes, facts, mode, number, options.keep_writes)
            wrappers: list[Wrapper] = []
            if config.debug_assert:
                wrappers.append(GradGuard.plan(number, args))
            for step in (Duplicates, Bases):
                found = step.plan(task)
                if found is not None:
                    task = found.rewrite(task)
                    default_generator.restore(random_state)
                    wrappers.append(found)
                    if config.debug_assert:
                        check_facts(task)
            graphs = trace_graphs(task, options, training)
            found = Duplicates.plan(task)
            if found is not None:
                # Only the backward writes them.
                task = found.rewrite(task)
                wrappers.append(found)
                graphs = trace_graphs(task, options, training)
            check_late_writes(task)
            check_quiet_moves(task)
            last = Epilogue.behind(wrappers, task.facts, Sizes.of(task.fakes))
            return Traced([*wrappers, last], task.facts, *graphs)
        finally:
            default_generator.restore(random_state)


def compile_traced(
    traced: Traced, options: Options, number: int
) -> Callable[[list[Any]], list[Any]]:
    """Give graphs to their compilers."""
    state = LOCAL.state
    random_state = default_generator.snapshot()
    with changed(grad=state.grad, autocast=state.autocast, profiler=None):
        try:
            compile_core = compile_inference if traced.backward is None else compile_training
            return Chain(traced.wrappers, compile_core(traced, options, number))
        finally:
            default_generator.restore(random_state)


def check_arguments(args: Sequence[Any]) -> None:
    from rushlight.core.device import device, layout, memory_format
    from rushlight.core.dtype import dtype

    known = (
        Tensor, int, float, complex, bool, str, type(None), device, dtype, layout, memory_format,
        *NUMBERS,
    )  # fmt: skip
    for value in args:
        if not isinstance(value, known):
            raise AssertionError(
                f"Expected inputs to be tensors, numbers, strings or None, got {type(value)}"
            )


def mode_for(args: Sequence[Any], dynamic: bool) -> FakeTensorMode:
    """The fake mode that inputs belong to, the active one, or a new one."""
    for part in flat_parts(args):
        if isinstance(part, FakeTensor):
            return part.fake_mode
    if LOCAL.state.fake is not None:
        return LOCAL.state.fake
    return FakeTensorMode(shape_env=shape_environment(required=True) if dynamic else None)


def fake_argument(mode: FakeTensorMode, value: Any, place: int, parameters: int) -> Any:
    if not isinstance(value, Tensor) or all([isinstance(v, FakeTensor) for v in flatten(value)]):
        return value
    static = True if place < parameters else None
    return mode.from_tensor(value, static_shapes=static, source=f"args[{place}]")


def trace_graphs(
    task: Task, options: Options, training: bool
) -> tuple[GraphModule, GraphModule | None]:
    facts = task.facts
    if facts.has_subclasses:
        check_subclasses(task.fakes, facts)
    facts.training = training and facts.needs_gradients
    trace = trace_training if facts.training else trace_without_gradients
    return trace(task, options)


def trace_without_gradients(task: Task, options: Options) -> tuple[GraphModule, None]:
    tracing = Tracing(task.mode, options.decompositions)
    graph = trace_inference(task.function, task.fakes, task.facts, tracing)
    if config.debug_assert and not task.facts.has_subclasses:
        check_forward(graph, flat_parts(task.fakes), task.facts, task.mode)
    return graph, None


def trace_training(task: Task, options: Options) -> tuple[GraphModule, GraphModule]:
    fakes, facts, mode = task.fakes, task.facts, task.mode
    joint = trace_joint(task.function, fakes, facts, Tracing(mode, options.decompositions))
    checks = config.debug_assert and not facts.has_subclasses
    if checks:
        check_joint(joint, fakes, facts, mode)
    forward, backward = options.partition_fn(
        joint,
        list(joint_inputs(fakes, facts)),
        num_fwd_outputs=len(facts.tokens) + facts.graph_count,
    )
    if checks:
        check_forward(forward, fakes, facts, mode)
        check_backward(backward, examples_of(backward), fakes, facts, mode)
    return forward, backward


def examples_of(graph: GraphModule) -> list[Any]:
    """What the inputs of a graph are like."""
    return [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]


def compile_inference(traced: Traced, options: Options, number: int) -> Callable[[list[Any]], Any]:
    with compiling(f"{number}_inference"):
        compiled = options.inference_compiler(traced.forward, examples_of(traced.forward))
    facts = traced.facts
    return InferenceRun(Tokens(len(facts.tokens)).around(unrecorded(compiled)), facts)


def compile_training(traced: Traced, options: Options, number: int) -> Callable[[list[Any]], Any]:
    backward = traced.backward
    assert backward is not None
    facts = traced.facts
    examples = examples_of(backward)
    numbers = sum([isinstance(value, NUMBERS) for value in examples])
    with compiling(f"{number}_forward"):
        compiled_forward = options.fw_compiler(traced.forward, examples_of(traced.forward))

    def compile_backward() -> Callable[[list[Any]], Any]:
        with compiling(f"{number}_backward"):
            compiled = unrecorded(options.bw_compiler(backward, examples))
        return Tokens(len(facts.backward_tokens), last=True).around(compiled)

    compiled_backward = Late(compile_backward)
    if numbers:
        compiled_backward()
    run_forward = Tokens(len(facts.tokens)).around(unrecorded(compiled_forward))
    asks = any([node.target is storage_resize() for node in backward.graph.nodes])
    plain = not numbers and not facts.backward_tokens and is_plain_math(backward)
    return TrainingRun(run_forward, compiled_backward, facts, numbers, asks, plain)


def is_plain_math(backward: GraphModule) -> bool:
    """Whether a graph computes little, and that from the elements of its inputs alone."""
    size = 0
    for node in backward.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val")
            if not isinstance(value, Tensor) or has_symbols(sizes_of(value)):
                return False
            size += value.nbytes
        elif node.op == "call_function" and node.target is not operator.getitem:
            op: Any = node.target
            if not isinstance(op, OpOverload) or op.namespace not in PLAIN_NAMESPACES:
                return False
            if op.mutated_positions or "nondeterministic_seeded" in op.tags:
                return False
        elif node.op not in ("call_function", "output"):
            return False
    return size <= SMALL


class Late:
    """A value made on first use; other threads wait for it."""

    __slots__ = ("lock", "made", "make")

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make: Callable[[], Any] | None = make
        self.made: Any = None
        self.lock = threading.RLock()

    def __call__(self) -> Any:
        if self.make is not None:
            with self.lock:
                if self.make is not None:
                    self.made = self.make()
                    self.make = None
        return self.made
