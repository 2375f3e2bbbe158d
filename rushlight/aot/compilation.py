"""One compilation: fake inputs, the dry run, tracing, partitioning, the user's compilers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rushlight.aot import config
from rushlight.aot.checking import (
    check_backward,
    check_forward,
    check_joint,
    refuse_new_gradients,
)
from rushlight.aot.joint import Decompositions, Function, trace_inference, trace_joint
from rushlight.aot.metadata import Facts, collect_facts
from rushlight.aot.runtime import Boxed, training_function, with_epilogue
from rushlight.aot.tracing import shape_environment
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
    fakes = [fake_argument(mode, value, place, options) for place, value in enumerate(args)]
    random_state = (default_generator._seed, default_generator._offset)
    state = LOCAL.state
    # Whatever the function switches.
    with changed(grad=state.grad, autocast=state.autocast):
        try:
            with mode:
                training = state.grad and any(
                    isinstance(value, Tensor) and value.requires_grad for value in args
                )
                facts = collect_facts(function, fakes, options.keep_writes)
                default_generator._put(*random_state)
            facts.training = training and facts.needs_gradients
            if facts.training:
                run = compile_training(function, fakes, facts, mode, options, number)
            else:
                run = compile_inference(function, fakes, facts, mode, options, number)
        finally:
            default_generator._put(*random_state)
    compiled = with_epilogue(run, facts, facts.training)
    return refuse_new_gradients(compiled, args, number) if config.debug_assert else compiled


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


def fake_argument(mode: FakeTensorMode, value: Any, place: int, options: Options) -> Any:
    if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
        return value
    static = True if place < options.parameters else None
    return mode.from_tensor(value, static_shapes=static, source=f"args[{place}]")


def compile_inference(
    function: Function,
    fakes: Sequence[Any],
    facts: Facts,
    mode: FakeTensorMode,
    options: Options,
    number: int,
) -> Callable[[list[Any]], Any]:
    graph = trace_inference(function, fakes, facts, mode, options.decompositions)
    if config.debug_assert:
        check_forward(graph, fakes, facts, mode)
    with compiling(f"{number}_inference"):
        compiled = options.inference_compiler(graph, list(fakes))
    return Boxed(compiled)


def compile_training(
    function: Function,
    fakes: Sequence[Any],
    facts: Facts,
    mode: FakeTensorMode,
    options: Options,
    number: int,
) -> Callable[[list[Any]], Any]:
    joint = trace_joint(function, fakes, facts, mode, options.decompositions)
    if config.debug_assert:
        check_joint(joint, fakes, facts, mode)
    forward, backward = options.partition_fn(
        joint, [list(fakes), list(facts.tangents)], num_fwd_outputs=facts.forward_count
    )
    placeholders = [node for node in backward.graph.nodes if node.op == "placeholder"]
    numbers = sum(isinstance(node.meta.get("val"), NUMBERS) for node in placeholders)
    if config.debug_assert:
        check_forward(forward, fakes, facts, mode)
        check_backward(backward, [node.meta.get("val") for node in placeholders], fakes, mode)
    with compiling(f"{number}_forward"):
        compiled_forward = options.fw_compiler(forward, list(fakes))
    compiled_backward = Late(
        lambda: compile_backward(backward, placeholders, mode, options, number)
    )
    if numbers:
        compiled_backward()
    return training_function(Boxed(compiled_forward), compiled_backward, facts, numbers)


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
    """A value made on first use."""

    __slots__ = ("made", "make")

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make: Callable[[], Any] | None = make
        self.made: Any = None

    def __call__(self) -> Any:
        if self.make is not None:
            self.made = self.make()
            self.make = None
        return self.made
