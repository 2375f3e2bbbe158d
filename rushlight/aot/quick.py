"""Calls of compiled graphs that need nothing done around them, as one generated function.

Where a function writes no input, gives no alias and is made of plain tensors, a call is: run the
forward, and where gradients are wanted make the node. `quick_call` writes that out for a
compilation; whenever a mode is on that may want more, the general way is taken. The node is the one
that the general way makes, and so is what it does when it is asked for gradients of gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import asarray

from rushlight.aot.runtime import (
    CompiledFunction,
    Epilogue,
    InferenceRun,
    TrainingRun,
    sees_to_modes,
    tangent,
    unlinked,
)
from rushlight.aot.wrappers import Chain, GradGuard, Wrapper
from rushlight.autograd.programs import GraphCall
from rushlight.core.device import cpu as CPU
from rushlight.core.node import edge, next_sequence, output_meta, pack, pack_output, unpack
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import PLAIN, Tensor, wrap
from rushlight.fx.graph_module import GraphModule

__all__ = ["quick_call"]

BASE: Any = CompiledFunction._backward_cls


class QuickBackward(BASE):  # type: ignore[misc]
    """The node of a compiled call without anything unusual: fields that never change stand here."""

    node_hooks = None
    node_extra = None
    to_save = None
    saved_for_forward = None
    dirty_tensors = None
    non_differentiable = None
    materialize_grads = False
    _materialize_non_diff_grads = True
    function_freed = False
    function_ran = False
    numbers: Any = ()
    lost = ()

    @property
    def formula(self) -> Any:
        return self.plan.formula

    @property
    def results(self) -> list[Any]:
        """What zeros for missing gradients are like."""
        metas = [self.output_metas[number] for number in self.plan.tangent_places]
        return [
            [(shape, dtype, CPU if unusual is None else unusual.device)]
            for shape, dtype, unusual in metas
        ]

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        if not any([grad is not None for grad in grads]):
            return (None,) * len(self.next_nodes)
        state = LOCAL.state
        slots = self.saved_slots
        if state.witness is not None and self.formula and sees_to_modes(self.plan.backward()):
            # Nothing else is active then.
            return self.witnessed(grads, state.witness)
        if state.grad or slots is None or state.layers:
            return BASE.apply(self, grads, needs)  # type: ignore[no-any-return]
        self.function_ran = True
        plan = self.plan
        args = [*self.numbers]
        entry: Any = None
        for entry in slots:
            # A plain tensor that nobody has touched is what was saved.
            if type(entry) in PLAIN and entry._counter is None and entry._autograd is None:
                args.append(entry)
            else:
                args.append(unpack(self, entry))
        for number, place in enumerate(plan.tangent_places):
            grad = grads[place]
            if type(grad) not in PLAIN or grad._unusual is not None:
                grad = tangent(grad, self.results[number][0])
            elif not grad._is_contiguous:
                grad = wrap(asarray(grad._array, order="C"), grad._dtype)
            args.append(grad)
        tasks = state.tasks
        if tasks and not tasks[-1].keep_graph:
            # Nobody asks for what was saved again: it goes as soon as the graph has used it.
            slots = entry = grad = None
            self.release()
        found: tuple[Any, ...] = plan.gradients(plan.backward()(args))
        return found

    def witnessed(self, grads: tuple[Any, ...], witness: Any) -> tuple[Any, ...]:
        """The same as one kernel, for who records kernels."""
        plan = self.plan
        given = [unpack(self, entry) for entry in self.saved_slots]
        for number, place in enumerate(plan.tangent_places):
            grad = grads[place]
            if type(grad) not in PLAIN or grad._unusual is not None:
                grad = tangent(grad, self.results[number][0])
            given.append(grad)
        found: tuple[Any, ...] = plan.gradients(witness(plan.formula, tuple(given)))
        return found


QuickBackward.__name__ = QuickBackward.__qualname__ = BASE.__name__
QuickBackward.__module__ = BASE.__module__


def graph_call(plan: TrainingRun) -> GraphCall:
    """The backward of a plan as one kernel."""
    count = len(plan.tangent_places)

    def run(*given: Any) -> Any:
        tangents = [
            grad if grad._is_contiguous else wrap(asarray(grad._array, order="C"), grad._dtype)
            for grad in given[len(given) - count :]
        ]
        return plan.backward()([*given[: len(given) - count], *tangents])

    return GraphCall(run)


def kept(tensor: Any, node: Any) -> Any:
    """What a node keeps of a tensor that is not just new: an output of its own, an alias."""
    if tensor._node is node:
        return pack_output(tensor, tensor._output_nr, node)
    return pack(unlinked(tensor), node)


def quick_call(
    chain: Callable[[list[Any]], Any], forward: GraphModule
) -> Callable[..., Any] | None:
    """A compiled function of flat arguments, which are what guards say; None where it has to go
    the general way. `forward` is the graph that was compiled."""
    if not isinstance(chain, Chain):
        return None
    *before, epilogue = chain.wrappers
    if not isinstance(epilogue, Epilogue) or not leaves_results(epilogue):
        return None
    core = chain.core
    found = None
    if isinstance(core, InferenceRun):
        found = quick_inference(core)
    elif isinstance(core, TrainingRun):
        found = quick_training(core, chain, forward)
    if found is None or not before:
        return found
    return checked(found, before[0]) if [type(step) for step in before] == [GradGuard] else None


def checked(call: Callable[..., Any], guard: Wrapper) -> Callable[..., Any]:
    """A call whose arguments are looked at first."""

    def run(*args: Any) -> Any:
        guard.before([*args])
        return call(*args)

    return run


def leaves_results(epilogue: Epilogue) -> bool:
    """Whether a call's results are the graph's."""
    facts = epilogue.facts
    return not (
        epilogue.writes
        or epilogue.rebuilt
        or epilogue.needed
        or facts.bases
        or facts.has_subclasses
        or facts.tokens
        or facts.backward_tokens
        or facts.grad_mode_after is not None
        or any([entry.is_changed and not entry.kept_in_graph for entry in facts.inputs])
        or any([entry.symbolic_dims or entry.is_split or entry.is_view for entry in facts.outputs])
    )


def quick_inference(core: InferenceRun) -> Callable[..., Any] | None:
    run = core.graph
    if not sees_to_modes(run):
        return None
    return lambda *args: run([*args])


def quick_training(
    plan: TrainingRun, slow: Callable[[list[Any]], Any], forward: GraphModule
) -> Callable[..., Any] | None:
    facts = plan.facts
    if not sees_to_modes(plan.forward) or plan.gives_up_memory or plan.asks_for_memory:
        return None
    if plan.kept or plan.hidden or plan.repeated or plan.views or facts.result_layouts is not None:
        return None
    nodes = list(forward.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    is_tensor = [isinstance(node.meta.get("val"), Tensor) for node in inputs]
    needs = [entry.requires_grad for entry in facts.inputs]
    places = [place for place, found in enumerate(is_tensor) if found]
    # What the backward gives for arguments that are no tensors is nothing.
    plan.tensor_inputs = None if all(is_tensor) else places
    if plan.is_plain_math and facts.gradient_layouts is None:
        plan.formula = graph_call(plan)
    scope: dict[str, Any] = {
        "process": PROCESS,
        "slow": slow,
        "run": plan.forward,
        "new": QuickBackward.__new__,
        "kind": QuickBackward,
        "next_sequence": next_sequence,
        "edge": edge,
        "pack": pack,
        "kept": kept,
        "output_meta": output_meta,
        "plan": plan,
        "inputs": (False, *is_tensor),
        "needs": (False, *needs),
        "opaque": frozenset(range(plan.count)).difference(plan.tangent_places),
    }
    lines = call_lines(plan, inputs, places, nodes[-1].args[0])
    given = ", ".join([f"x{place}" for place in range(len(inputs))])
    text = f"def call({given}):\n" + "".join([f"    {line}\n" for line in lines])
    exec(compile(text, "<rushlight call of a compiled graph>", "exec"), scope)
    made: Callable[..., Any] = scope["call"]
    return made


def call_lines(plan: TrainingRun, inputs: list[Any], places: list[int], results: Any) -> list[str]:
    """The body of a call. `places` are the arguments that are tensors."""
    count, needs = plan.count, [entry.requires_grad for entry in plan.facts.inputs]
    first_number = len(results) - plan.saved_numbers
    given = ", ".join([f"x{place}" for place in range(len(inputs))])
    names = [f"r{place}" for place in range(len(results))]
    is_tensor = [entry.is_tensor for entry in plan.facts.outputs]
    edges = [f"edge(x{place})" if needs[place] else "None" for place in places]
    metas = [
        f"({name}._array.shape, {name}._dtype, None) if {name}._unusual is None "
        f"else output_meta({name})"
        if is_tensor[place]
        else "None"
        for place, name in enumerate(names[:count])
    ]
    lines = [
        "if process.special:",
        f"    return slow([{given}])",
        f"{joined(names)} = run([{given}])",
        "node = new(kind)",
        "node.sequence_nr = next_sequence()",
        f"node.next_nodes = ({joined(edges)})",
        f"node.next_nrs = ({joined([f'x{place}._output_nr' for place in places])})",
        "node.function_inputs = inputs",
        "node.needs_input_grad = needs",
        "node.function_opaque_grads = opaque",
        f"node.output_metas = ({joined(metas)})",
        "node.plan = plan",
    ]
    for place in plan.tangent_places:
        name = names[place]
        lines += [
            f"if {name}._view is not None: {name} = {name}.detach()",
            f"{name}._node = node",
            f"{name}._output_nr = {place}",
            f"{name}._requires_grad = True",
        ]
    slots = []
    for result, name in zip(results[count:first_number], names[count:]):
        if result in inputs:
            slots.append(f"pack({name}, node)")
        else:
            is_new = f"{name}._node is None and {name}._counter is None and {name}._view is None"
            slots.append(f"{name} if {is_new} else kept({name}, node)")
    lines.append(f"node.saved_slots = [{', '.join(slots)}]")
    if plan.saved_numbers:
        lines.append(f"node.numbers = ({joined(names[first_number:])})")
    return [*lines, f"return ({joined(names[:count])})"]


def joined(parts: list[str]) -> str:
    return "".join([f"{part}, " for part in parts])
