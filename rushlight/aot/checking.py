"""What `config.debug_assert` checks: the dry run's facts hold for every graph made from them.

Each graph, traced or cut, runs once more on fake tensors under functionalization. Which inputs it
writes and what it returns is found anew, and compared with what the facts promise the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.aot.metadata import Facts, collect_facts
from rushlight.aot.wrappers import Task
from rushlight.core.fake import FakeTensorMode
from rushlight.core.rng import default_generator
from rushlight.core.state import changed
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.fx.graph_module import GraphModule
from rushlight.higher_order.effects import new_token

__all__ = ["check_backward", "check_facts", "check_forward", "check_joint"]


def check_facts(task: Task) -> None:
    """A rewritten task: its facts must be those that another dry run finds."""
    found = task.with_facts().facts
    for name in ("inputs", "bases", "returned_inputs", "grad_mode_after", "tokens"):
        expected, again = getattr(task.facts, name), getattr(found, name)
        if expected != again:
            complain("rewritten", f"{name} {expected}", f"{again}")
    for place, (expected, again) in enumerate(zip(task.facts.outputs, found.outputs, strict=True)):
        if (expected.kind, expected.base) != (again.kind, again.base):
            complain("rewritten", f"output {place} {expected}", f"{again}")


def check_forward(
    graph: GraphModule, args: Sequence[Any], facts: Facts, mode: FakeTensorMode
) -> None:
    """The forward graph, or the only one."""
    count = len(facts.tokens)

    def without_tokens(*inputs: Any) -> list[Any]:
        return list(graph(*tokens_of(count), *inputs))[count:]

    outputs, written = run_again(without_tokens, args, mode)
    compare_writes("forward", written, facts)
    if len(outputs) < facts.forward_count:
        complain("forward", f"{facts.forward_count} results", f"{len(outputs)}")
    compare_outputs("forward", outputs, facts)


def check_joint(
    graph: GraphModule, args: Sequence[Any], facts: Facts, mode: FakeTensorMode
) -> None:
    """Forward and backward together: one gradient, or None, follows for each input."""
    count, early, late = len(args), len(facts.tokens), len(facts.backward_tokens)

    def flat(*inputs: Any) -> list[Any]:
        primals, tangents = inputs[:count], inputs[count:]
        forward, backward = graph([*tokens_of(early), *primals], [*tangents, *tokens_of(late)])
        return [*forward[early:], *backward[: len(backward) - late]]

    outputs, written = run_again(flat, [*args, *facts.tangents], mode)
    compare_writes("joint", written - set(facts.written_in_backward), facts)
    expected = facts.forward_count + count
    if len(outputs) != expected:
        complain("joint", f"{expected} results", f"{len(outputs)}")
    compare_outputs("joint", outputs, facts)
    compare_gradients("joint", outputs[facts.forward_count :], args, facts)


def check_backward(
    graph: GraphModule,
    inputs: Sequence[Any],
    args: Sequence[Any],
    facts: Facts,
    mode: FakeTensorMode,
) -> None:
    """The backward graph: it writes no more inputs than the backward of the function does."""
    late = len(facts.backward_tokens)

    def without_tokens(*inputs: Any) -> list[Any]:
        results = list(graph(*inputs))
        return results[: len(results) - late]

    outputs, written = run_again(without_tokens, inputs, mode)
    if len(written) != len(facts.written_in_backward):
        expected = f"{len(facts.written_in_backward)} inputs to be written"
        complain("backward", expected, f"inputs {sorted(written)} are")
    if len(outputs) != len(args):
        complain("backward", f"{len(args)} results", f"{len(outputs)}")
    compare_gradients("backward", outputs, args, facts)


def tokens_of(count: int) -> list[Any]:
    return [new_token() for _ in range(count)]


def run_again(
    function: Callable[..., Any], args: Sequence[Any], mode: FakeTensorMode
) -> tuple[list[Any], set[int]]:
    """(results, positions of the inputs that were written)."""
    outputs: list[Any] = []

    def keep_outputs(*inputs: Any) -> list[Any]:
        outputs[:] = function(*inputs)
        return outputs

    random_state = default_generator.snapshot()
    try:
        with changed(grad=False), mode:
            # Graphs are below autograd: what is written is a view of nothing.
            plain = [value.detach() if isinstance(value, Tensor) else value for value in args]
            found = collect_facts(keep_outputs, plain, keep_writes=True)
    finally:
        default_generator.restore(random_state)
    written = {
        place
        for place, entry in enumerate(found.inputs)
        if entry.writes_data or entry.writes_geometry or entry.sets_storage
    }
    return outputs, written


def compare_writes(name: str, written: set[int], facts: Facts) -> None:
    expected = {
        place
        for place, entry in enumerate(facts.inputs)
        if entry.kept_in_graph
        and ((entry.writes_data and not entry.gives_up_memory) or entry.sets_storage)
    }
    if written != expected:
        complain(name, f"writes of the inputs {sorted(expected)}", f"{sorted(written)}")


def compare_outputs(name: str, outputs: Sequence[Any], facts: Facts) -> None:
    first = len(facts.returned_inputs)
    for place, entry in enumerate(facts.outputs):
        if isinstance(outputs[first + place], Tensor) != entry.is_tensor:
            expected = "a tensor" if entry.is_tensor else "no tensor"
            complain(name, f"{expected} as output {place}", f"{type(outputs[first + place])}")


def compare_gradients(
    name: str, gradients: Sequence[Any], args: Sequence[Any], facts: Facts
) -> None:
    for place, (value, source, entry) in enumerate(zip(gradients, args, facts.inputs)):
        if isinstance(value, Tensor) and (
            not isinstance(source, Tensor)
            or (len(sizes_of(value)) != len(sizes_of(source)) and not entry.is_moved_leaf)
            or value.dtype != source.dtype
        ):
            complain(name, f"a gradient like input {place}", f"{value.shape}, {value.dtype}")


def complain(name: str, expected: str, found: str) -> None:
    raise AssertionError(
        f"The {name} graph is not what the dry run promised: expected {expected}, found {found}. "
        "This is an error of rushlight.aot, not of the compiled function."
    )
