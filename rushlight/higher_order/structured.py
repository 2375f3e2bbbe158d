"""Control flow as ops: what `cond`, `map`, `while_loop`, `scan` and their kin have in common.

Such an op is called `op(*functions, *groups)`; a function gets the operands of all groups one after
another, and one slice along dim 0 of those in a sliced group. What functions close over joins the
last group while a graph is made. Untraced calls run the functions as they are, so that every
level and every history sees what they do; traced ones keep them as graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.function import Function, run_function
from rushlight.base import pytree
from rushlight.core.batching import VmapLevel, batched, unbatched
from rushlight.core.functional import FunctionalLevel, FunctionalMode
from rushlight.core.hop import HigherOrderOperator, asks_gradient
from rushlight.core.recording import Recorder, bind_fresh_symbols
from rushlight.core.state import LAYER_TRANSFORMS, LOCAL, changed
from rushlight.core.tensor import Tensor
from rushlight.func.derivatives import vjp
from rushlight.graph.graph import Graph
from rushlight.higher_order.subgraphs import (
    Functionalized,
    Watched,
    apart,
    is_traced,
    trace_functions,
    unwrapped,
)
from rushlight.opset import functions as ops

__all__ = ["Call", "ControlFlowOp", "gradient_of", "repeated", "slices_of", "stacked", "vectorized"]

Body = Callable[..., Any]
Operands = Sequence[Any]


class Call:
    """A call's functions, and how many operands each group has; the operands travel beside it."""

    def __init__(self, op: ControlFlowOp, functions: Sequence[Body], counts: Sequence[int]) -> None:
        self.op = op
        self.functions = functions
        self.counts = counts

    def groups(self, operands: Operands) -> list[list[Any]]:
        """The operands, group by group."""
        found, start = [], 0
        for count in self.counts:
            found.append(list(operands[start : start + count]))
            start += count
        return found

    def on(self, operands: Operands) -> tuple[Any, ...]:
        """The op's arguments."""
        return self.op.join(self.functions, self.groups(operands))


class Recorded(Function):
    """A traced call with its gradient, which is a call of ops again (`ControlFlowOp.pullback`)."""

    @classmethod
    def apply(cls, call: Call, *operands: Any) -> Any:
        """How levels of differentiation run the call below themselves."""
        return tuple(call.op.dispatch(*call.on(operands)))

    @staticmethod
    def forward(call: Call, *operands: Any) -> Any:
        return tuple(call.op.go_on(*call.on(operands)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.call, *operands = inputs
        ctx.others = [None if isinstance(value, Tensor) else value for value in operands]
        kept = [value if isinstance(value, Tensor) else None for value in operands]
        ctx.save_for_backward(*kept, *output)
        ctx.save_for_forward(*kept, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors
        count = len(ctx.others)
        operands = [o if v is None else v for v, o in zip(saved[:count], ctx.others, strict=True)]
        needs = ctx.needs_input_grad[1:]
        found = ctx.call.op.pullback(ctx.call, operands, saved[count:], grads, needs)
        return (None, *found)

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        """Tangents are computed below the level that pushes them."""
        level = LOCAL.state.transforms[-1]
        saved = [level.lower(value) for value in ctx.saved_tensors]
        count = len(ctx.others)
        operands = [o if v is None else v for v, o in zip(saved[:count], ctx.others, strict=True)]
        moved = [level.lower(tangent) for tangent in tangents]
        return tuple(level.run(ctx.call.op.pushforward, ctx.call, operands, saved[count:], moved))


class ControlFlowOp(HigherOrderOperator):
    """An op over functions and groups of operands."""

    # Numbers of the groups whose operands are sliced along dim 0.
    sliced: tuple[int, ...] = ()

    def __init__(self, name: str, graphs: Sequence[str], *, node_name: str | None = None) -> None:
        super().__init__(name, cacheable=True)
        # What the functions' graphs are called in the module of a traced call.
        self.graphs = graphs
        self.node_name = node_name or name
        self.rules.update(
            eager=self.compute,
            autograd=self.differentiate,
            functional=self.functionalize,
            proxy=self.record,
            fake=self.infer,
            batch=self.vectorize,
        )

    # -- what an op states -------------------------------------------------------------------------

    def compute(self, *args: Any) -> Any:
        """The call on values; functions run at whatever levels are active."""
        raise NotImplementedError

    def infer(self, mode: Any, *args: Any) -> Any:
        """The call on tensors without values."""
        raise NotImplementedError

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        """One gradient for each operand, None where none is needed."""
        raise NotImplementedError

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(functions, groups) of a call's arguments."""
        count = len(self.graphs)
        return list(args[:count]), [list(group) for group in args[count:]]

    def join(self, functions: Sequence[Any], groups: Sequence[Any]) -> tuple[Any, ...]:
        return (*functions, *groups)

    def arguments(self, groups: Sequence[Operands]) -> list[Any]:
        """What the functions get, given the operands, or slices of those that are sliced."""
        return [value for group in groups for value in group]

    def is_stacked(self, counts: Sequence[int], number: int) -> bool:
        """Whether a result has one slice for each slice of the operands."""
        return bool(self.sliced)

    def check_traced(self, counts: Sequence[int], operands: Operands, outputs: Operands) -> None:
        """Refuse functions whose results cannot be results of the op."""

    # -- layers ------------------------------------------------------------------------------------

    def differentiate(self, *args: Any) -> Any:
        if not is_traced(args):
            # Functions are differentiable themselves, in what they close over too.
            return self.compute(*args)
        functions, groups = self.split(args)
        state = LOCAL.state
        if state.pre_functional is None and state.pre_proxy is None:
            # Above autograd, what functions close over are operands.
            functions = [Watched(self._name, function) for function in functions]
        if not asks_gradient(groups) and not LOCAL.state.transforms:
            return self.go_on(*self.join(functions, groups))
        operands = [value for group in groups for value in group]
        call = Call(self, functions, [len(group) for group in groups])
        given = (call, *operands)
        if not state.transforms:
            return run_function(Recorded, given, {}, True, state)
        return state.transforms[-1].apply_function(Recorded, given, {}, None, False)

    def functionalize(self, mode: FunctionalMode, *args: Any) -> Any:
        functions, groups = self.split(args)
        if isinstance(mode, FunctionalLevel) and not is_traced(unwrapped(groups)):
            return self.compute(*args)
        functions = [Functionalized(mode, self._name, function) for function in functions]
        with mode.below():
            result = self.dispatch(*self.join(functions, unwrapped(groups)))
        return mode.wrapped(result)

    def record(self, recorder: Recorder, *args: Any) -> Any:
        functions, groups = self.split(args)
        with recorder.below():
            examples = self.examples(groups)
        traced = trace_functions(recorder, functions, examples)
        self.check_traced([len(group) for group in groups], examples, traced.outputs)
        groups[-1] = [*groups[-1], *traced.lifted]
        names = zip(self.graphs, traced.modules, strict=True)
        graphs = [recorder.submodule(name, module) for name, module in names]
        call = self.join(graphs, [self.noted(recorder, group) for group in groups])
        node = recorder.call_node(self, call, name=self.node_name)
        # How many of the operands the functions close over: the last ones.
        node.meta["captured"] = len(traced.lifted)
        if any([has_effects(module.graph) for module in traced.modules]):
            node.meta["has_effects"] = True
        with recorder.below():
            result = self.dispatch(*self.join(traced.modules, groups))
        recorder.track(result, node)
        bind_fresh_symbols(node, result)
        return result

    def examples(self, groups: Sequence[Operands]) -> list[Any]:
        """What functions are traced with."""
        return self.arguments(self.sliced_groups(groups))

    def noted(self, recorder: Recorder, group: Operands) -> Any:
        return [recorder.node_of(value) for value in group]

    def sliced_groups(self, groups: Sequence[Operands]) -> list[Operands]:
        return [
            [first_slice(value) for value in group] if number in self.sliced else group
            for number, group in enumerate(groups)
        ]

    def vectorize(self, level: VmapLevel, *args: Any) -> Any:
        if not is_traced(args):
            return self.compute(*args)
        functions, groups = self.split(args)
        values = [self.placed(level, number, group) for number, group in enumerate(groups)]
        functions = [at_level(level, function) for function in functions]
        result = level.run(lambda: self.dispatch(*self.join(functions, values)))
        counts = [len(group) for group in groups]
        return tuple(
            batched(value, int(self.is_stacked(counts, number)), level.level)
            if isinstance(value, Tensor)
            else value
            for number, value in enumerate(result)
        )

    def placed(self, level: VmapLevel, number: int, group: Operands) -> list[Any]:
        """A group's operands below a vmap: slices come first, and a batch axis follows them."""
        return [placed(level, value, int(number in self.sliced)) for value in group]

    # -- forward mode ------------------------------------------------------------------------------

    def pushforward(
        self, call: Call, operands: Operands, results: Operands, tangents: Operands
    ) -> list[Any]:
        """The results' tangents. The pullback is linear in the gradients it is given; transposed
        again it takes tangents of operands to tangents of results."""
        needs = [tangent is not None for tangent in tangents]
        moving = [is_differentiable(value) for value in results]

        def transposed(*cotangents: Any) -> Any:
            given = iter(cotangents)
            grads = [next(given) if moves else None for moves in moving]
            found = self.pullback(call, operands, results, grads, needs)
            return tuple(grad for grad in found if grad is not None)

        zeros = [ops.zeros_like(value) for value in results if is_differentiable(value)]
        _, transpose = vjp(transposed, *zeros)
        found = iter(transpose(tuple(tangent for tangent in tangents if tangent is not None)))
        return [next(found) if moves else None for moves in moving]


def has_effects(graph: Graph) -> bool:
    """Whether a graph is run for more than its results."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return any([node.is_impure(impure_random=False) for node in calls])


def is_differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def first_slice(value: Any) -> Any:
    return value.select(0, 0) if isinstance(value, Tensor) else value


def placed(level: VmapLevel, value: Any, axis: int) -> Any:
    """An operand as the levels below have it, repeated along the batch where it does not vary."""
    if not isinstance(value, Tensor):
        return value
    return level.run(lambda: unbatched(value, level.level, level.size, axis))


def at_level(level: VmapLevel, function: Body) -> Body:
    """The function on whole batches, batch axis first in operands and results."""

    def run(*args: Any) -> Any:
        state = LOCAL.state
        active, inner = state.transforms, level
        if active != level.under:
            # Somebody below differentiates the function: its level comes before this one.
            inner = VmapLevel(len(active) + 1, level.size, level.randomness, level.plain)
        given = [batched(v, 0, inner.level) if isinstance(v, Tensor) else v for v in args]
        excluded = state.excluded & ~LAYER_TRANSFORMS
        with changed(transforms=(*active, inner), excluded=excluded):
            outputs = function(*given)
        return pytree.tree_map(lambda value: placed(inner, value, 0), outputs)

    return run


def vectorized(function: Body) -> Body:
    """A function that uses `vmap`, as rules below that layer may call it."""

    def run(*args: Any) -> Any:
        with changed(excluded=LOCAL.state.excluded & ~LAYER_TRANSFORMS):
            return function(*args)

    return run


# -- slices ----------------------------------------------------------------------------------------


def slices_of(group: Operands, number: int) -> list[Any]:
    return [value.select(0, number) if isinstance(value, Tensor) else value for value in group]


def stacked(rows: Sequence[Operands]) -> tuple[Any, ...]:
    """Results of one run for each slice, joined along a new dim in front."""
    columns = zip(*rows, strict=True)
    return tuple(
        ops.stack(list(column)) if isinstance(column[0], Tensor) else column[0]
        for column in columns
    )


def repeated(values: Operands, count: Any) -> tuple[Any, ...]:
    """What `stacked` gives, by shapes: `count` slices like the given ones."""
    return tuple(
        value.new_empty((count, *value.shape)) if isinstance(value, Tensor) else value
        for value in values
    )


def filled(values: Operands, grads: Operands) -> list[Any]:
    """Gradients of results, zeros where there are none."""
    return [
        ops.zeros_like(value) if grad is None else grad
        for value, grad in zip(values, grads, strict=True)
    ]


# -- gradients -------------------------------------------------------------------------------------


def gradient_of(function: Body, count: int, needs: Sequence[bool]) -> Body:
    """The function's gradient for the operands that need one, by running it again: it takes its
    `count` operands and a gradient for each result. It is differentiable in all of them."""
    places = [place for place, need in enumerate(needs) if need]

    def run(*given: Any) -> Any:
        moving: list[bool] = []

        def of_needed(*values: Any) -> Any:
            full = list(given[:count])
            for place, value in zip(places, values, strict=True):
                full[place] = value
            outputs = function(*full)
            moving[:] = [is_differentiable(value) for value in outputs]
            return tuple(value for value, moves in zip(outputs, moving) if moves)

        _, pull = vjp(of_needed, *[given[place] for place in places])
        found = pull(tuple(grad for grad, moves in zip(given[count:], moving) if moves))
        return apart(found, given)

    return run
