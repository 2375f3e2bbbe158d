"""One compilation: fake inputs, the dry run, tracing, partitioning, the user's compilers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rushlight.aot import config
from rushlight.aot.arguments import Bases, Duplicates
from rushlight.aot.checking import check_backward, check_facts, check_forward, check_joint
from rushlight.aot.joint import (
    Decompositions,
    Function,
    Tracing,
    flat_parts,
    trace_inference,
    trace_joint,
)
from rushlight.aot.metadata import check_subclasses, collect_facts
from rushlight.aot.runtime import Boxed, Epilogue, InferenceRun, TrainingRun
from rushlight.aot.tracing import shape_environment, sizes_as_tuples
from rushlight.aot.wrappers import Chain, GradGuard, Task, Wrapper
from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.rng import default_generator
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["Options", "compile_flat", "get_aot_compilation_context"]


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


def compile_flat(
    function: Function, args: Sequence[Any], options: Options, number: int
) -> Callable[[list[Any]], list[Any]]:
    """Compile a function of flat arguments for these example arguments."""
    check_arguments(args)
    mode = mode_for(args, options.dynamic)
    fakes = [
        fake_argument(mode, value, place, options.parameters) for place, value in enumerate(args)
    ]
    random_state = (default_generator._seed, default_generator._offset)
    state = LOCAL.state
    # Whatever the function switches.
    with changed(grad=state.grad, autocast=state.autocast):
        try:
            training = state.grad and any(
                isinstance(value, Tensor) and value.requires_grad for value in args
            )
            with mode:
                facts = collect_facts(function, fakes, options.keep_writes)
            default_generator._put(*random_state)
            task = Task(function, args, fakes, facts, mode, number, options.keep_writes)
            wrappers: list[Wrapper] = []
            if config.debug_assert:
                wrappers.append(GradGuard.plan(number, args))
            for step in (Duplicates, Bases):
                found = step.plan(task)
                if found is not None:
                    task = found.rewrite(task)
                    default_generator._put(*random_state)
                    wrappers.append(found)
                    if config.debug_assert:
                        check_facts(task)
            facts = task.facts
            if facts.has_subclasses:
                check_subclasses(task.fakes, facts)
            facts.training = training and facts.needs_gradients
            core = (
                compile_training(task, options)
                if facts.training
                else compile_inference(task, options)
            )
        finally:
            default_generator._put(*random_state)
    return Chain([*wrappers, Epilogue(facts)], core)


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
    for value in args:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    if LOCAL.state.fake is not None:
        return LOCAL.state.fake
    return FakeTensorMode(shape_env=shape_environment(required=True) if dynamic else None)


def fake_argument(mode: FakeTensorMode, value: Any, place: int, parameters: int) -> Any:
    if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
        return value
    static = True if place < parameters else None
    return mode.from_tensor(value, static_shapes=static, source=f"args[{place}]")


def compile_inference(task: Task, options: Options) -> Callable[[list[Any]], Any]:
    tracing = Tracing(task.mode, options.decompositions)
    graph = trace_inference(task.function, task.fakes, task.facts, tracing)
    flat = flat_parts(task.fakes)
    if config.debug_assert and not task.facts.has_subclasses:
        check_forward(graph, flat, task.facts, task.mode)
    with compiling(f"{task.number}_inference"):
        compiled = options.inference_compiler(graph, flat)
    return InferenceRun(Boxed(compiled), task.facts)


def compile_training(task: Task, options: Options) -> Callable[[list[Any]], Any]:
    fakes, facts, mode, number = task.fakes, task.facts, task.mode, task.number
    joint = trace_joint(task.function, fakes, facts, Tracing(mode, options.decompositions))
    checks = config.debug_assert and not facts.has_subclasses
    if checks:
        check_joint(joint, fakes, facts, mode)
    flat = flat_parts(fakes)
    forward, backward = options.partition_fn(
        joint, [flat, flat_parts(facts.tangents)], num_fwd_outputs=facts.graph_count
    )
    placeholders = [node for node in backward.graph.nodes if node.op == "placeholder"]
    numbers = sum(isinstance(node.meta.get("val"), NUMBERS) for node in placeholders)
    if checks:
        check_forward(forward, fakes, facts, mode)
        examples = [node.meta.get("val") for node in placeholders]
        check_backward(backward, examples, fakes, facts, mode)
    with compiling(f"{number}_forward"):
        compiled_forward = options.fw_compiler(forward, flat)
    compiled_backward = Late(
        lambda: compile_backward(backward, placeholders, mode, options, number)
    )
    if numbers:
        compiled_backward()
    return TrainingRun(Boxed(compiled_forward), compiled_backward, facts, numbers)


def compile_backward(
    graph: GraphModule,
    placeholders: Sequence[Node],
    mode: FakeTensorMode,
    options: Options,
    number: int,
) -> Callable[[list[Any]], Any]:
    examples = [node.meta.get("val") for node in placeholders]
    with compiling(f"{number}_backward"):
        return Boxed(options.bw_compiler(graph, examples))


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
