"""Higher-order ops in captured code: a call is one node, with its functions as graphs.

The public functions over these ops (`cond`, `scan`, `flex_attention` ...) are captured like the
user's code, down to the call of the op itself. Tensors that a function closes over become inputs of
its graph, and operands of the call.
"""

from __future__ import annotations

from typing import Any

from rushlight.capture.bodies import Body, add_call, unbatched
from rushlight.capture.function import graph_module
from rushlight.capture.outcomes import Break
from rushlight.capture.values import Const, Dict, Number, Obj, Seq, Tensor
from rushlight.core.dtype import int64
from rushlight.higher_order.attention import IndexByTensors, flex_attention
from rushlight.higher_order.cond import cond_op
from rushlight.higher_order.loops import while_loop_op
from rushlight.higher_order.mapping import map_impl
from rushlight.higher_order.regions import tag_activation_checkpoint, wrap
from rushlight.higher_order.scans import associative_scan_op, scan_op
from rushlight.higher_order.structured import ControlFlowOp

__all__ = ["call", "checkpoint_call"]

# torch: what the graphs of functions are called.
NAMES: dict[Any, tuple[str, ...]] = {
    associative_scan_op: ("associative_scan_combine_fn",),
    cond_op: ("cond_true", "cond_false"),
    map_impl: ("map_body",),
    scan_op: ("scan_combine_fn",),
    while_loop_op: ("cond_fn", "body_fn"),
}


class Lifted:
    """A function captured on variables as they are: inputs of its graph are the tensors and numbers
    that it uses."""

    def __init__(self, t: Any, f: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.t = t
        outer, effects = t.recording, len(t.effects)
        self.recording = t.recording = t.body(outer)
        try:
            self.result = t.real(t.call(f, args, kwargs))
        finally:
            t.recording = outer
        if len(t.effects) != effects:
            raise Break(
                "HigherOrderOperator: Mutating a variable not in the current scope (SideEffects)"
            )
        self.outputs: list[Any] = []
        self.collect(self.result)

    def collect(self, v: Any) -> None:
        """The tensors and numbers of a result."""
        v = self.t.real(v)
        if isinstance(v, Tensor) or (isinstance(v, Number) and v.node is not None):
            self.outputs.append(v)
        elif isinstance(v, Seq | Dict):
            for item in v.items.values() if isinstance(v, Dict) else v.items:
                self.collect(item)
        elif not isinstance(v, Const):
            raise Break(f"a higher-order call whose function gives a {type(v).__name__}")

    def uses(self, nodes: list[Any]) -> None:
        """Take what another function uses as inputs too, in the same order."""
        body = self.recording
        body.reorder([body.lift(node) for node in nodes])

    def module(self) -> Any:
        body = self.recording
        nodes = [body.lift(self.t.node(v)) for v in self.outputs]
        body.graph.output(tuple(nodes))
        return graph_module(body)

    def result_of(self, found: Any) -> Any:
        """The result, with what the call gives in the place of what the function gives."""
        given = iter(found)

        def changed(v: Any) -> Any:
            v = self.t.real(v)
            if isinstance(v, Tensor) or (isinstance(v, Number) and v.node is not None):
                return next(given)
            if isinstance(v, Seq):
                return Seq(v.kind, [changed(item) for item in v.items])
            if isinstance(v, Dict):
                return Dict({key: changed(item) for key, item in v.items.items()}, kind=v.kind)
            return v

        return changed(self.result)


def lifts(bodies: list[Any]) -> list[Any]:
    """What functions use of the outside, each once. Results that are of the outside count."""
    for body in bodies:
        for v in body.outputs:
            body.recording.lift(body.t.node(v))
    return list({node: None for body in bodies for node in body.recording.lifted})


def call(t: Any, f: Obj, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call of a higher-order op."""
    op = f.value
    if op is wrap:
        return call_region(t, wrap, args[0], args[1:], kwargs, {})
    if op is flex_attention:
        return call_attention(t, args)
    if isinstance(op, ControlFlowOp) and not kwargs:
        return call_control(t, op, args)
    raise Break(f"higher-order op {op.name()}")


def call_region(
    t: Any, op: Any, f: Any, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any]
) -> Any:
    """`op(function, *what it uses, **options)`."""
    body = Lifted(t, f, args, kwargs)
    used = lifts([body])
    found = add_call(t, op, [("wrap_body", body)], lambda graph: (graph, *used), options)
    return body.result_of(found.items)


CHECKPOINT_OPTIONS = {"use_reentrant", "preserve_rng_state", "determinism_check", "debug"}


def checkpoint_call(t: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`torch.utils.checkpoint.checkpoint`."""
    options = {key: t.python(v) for key, v in kwargs.items() if key in CHECKPOINT_OPTIONS}
    named = {key: v for key, v in kwargs.items() if key not in options}
    if options.get("use_reentrant") is not False or "context_fn" in named:
        raise Break("checkpoint with options")
    return call_region(t, tag_activation_checkpoint, args[0], args[1:], named, options)


def call_control(t: Any, op: ControlFlowOp, args: list[Any]) -> Any:
    functions, groups = op.split([listed(t, a) for a in args])
    if op is cond_op:
        return call_cond(t, functions, *groups)
    operands = [[tensor(t, op, v) for v in group] for group in groups]
    examples = [[v.example for v in group] for group in operands]
    for number in op.sliced:
        examples[number] = unbatched(t, examples[number], (0,) * len(examples[number]))
    given, examples = op.arguments(operands), op.arguments(examples)
    bodies = [Body(t, function, given, examples) for function in functions]
    for body in bodies:
        body.gives_one = isinstance(body.shape, int)
    return emit_control(t, op, bodies, operands)


def listed(t: Any, v: Any) -> Any:
    v = t.real(v)
    return list(v.items) if isinstance(v, Seq) else v


def tensor(t: Any, op: Any, v: Any) -> Any:
    v = t.real(v)
    if not isinstance(v, Tensor):
        raise Break(f"{op.name()} of a {t.type_of(v).__name__}")
    return v


def emit_control(t: Any, op: ControlFlowOp, bodies: list[Any], groups: list[list[Any]]) -> Any:
    used = lifts(bodies)
    for body in bodies:
        if body.recording.writes:
            raise Break(f"a write in a function of {op.name()}")
        body.uses(used)
    nodes: list[Any] = [[t.arg(v) for v in group] for group in groups]
    nodes[-1] = tuple([*nodes[-1], *used])
    names = NAMES.get(op, op.graphs)

    def arguments(*graphs: Any) -> tuple[Any, ...]:
        return op.join(graphs, nodes)

    return add_call(t, op, list(zip(names, bodies, strict=True)), arguments, {})


def call_cond(t: Any, functions: list[Any], pred: list[Any], operands: list[Any]) -> Any:
    """One of two functions. Operands that neither uses are left out."""
    chosen = t.real(pred[0])
    if isinstance(chosen, Const):
        return t.call(functions[0 if chosen.value else 1], operands, {})
    bodies = [Lifted(t, function, operands, {}) for function in functions]
    if len(bodies[0].outputs) != len(bodies[1].outputs):
        raise Break("cond of branches with different results")
    found = emit_control(t, cond_op, bodies, [[chosen], []])
    return bodies[0].result_of(found.items)


def call_attention(t: Any, args: list[Any]) -> Any:
    """`flex_attention`: its functions get a score and four numbers of positions."""
    query, key, value, score_mod, block_mask, scale, options, *more = args
    if any(t.iterate(group) for group in more):
        raise Break("flex_attention with buffers")
    operands = [tensor(t, flex_attention, v) for v in (query, key, value)]
    *mask, mask_mod = t.iterate(block_mask)
    example = operands[0].example

    def number(dtype: Any) -> Any:
        given = [example, ()]
        return t.world.run("call_method", "new_zeros", given, {"dtype": dtype}, t.modes)

    positions = [number(int64) for _ in range(4)]
    inputs = [Tensor(x, None) for x in (number(example.dtype), *positions)]
    with t.world.calling_under(IndexByTensors):
        bodies = [
            Body(t, f, given, [v.example for v in given])
            for f, given in ((score_mod, inputs), (mask_mod, inputs[1:]))
        ]
    used = [lifts([body]) for body in bodies]
    for body, nodes in zip(bodies, used, strict=True):
        body.gives_one = True
        body.uses(nodes)
    before = [t.arg(v) for v in operands]
    rest = [t.arg(v) for v in mask]
    named = [t.arg(scale), t.arg(options)]

    def arguments(score: Any, mask_fn: Any) -> tuple[Any, ...]:
        return (*before, score, (*rest, mask_fn), *named, tuple(used[0]), tuple(used[1]))

    parts = [("score_mod", bodies[0]), ("mask_fn", bodies[1])]
    return add_call(t, flex_attention, parts, arguments, {})
