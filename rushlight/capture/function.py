"""`autograd.Function` in capture: forward and backward as two bodies of one higher-order call.

The context is an instance of an ordinary Python class, made and read like any other object during
capture: "attribute writes are recorded, not executed" needs no code of its own. Where the captured
backward could disagree with the real one, capture ends instead.
"""

from __future__ import annotations

import functools
from typing import Any

from rushlight.autograd.function import (
    DEFAULT_SETUP,
    DEFAULT_VJP,
    Function,
    FunctionCtx,
)
from rushlight.autograd.grad_mode import write_grad
from rushlight.capture import marks
from rushlight.capture.outcomes import Break
from rushlight.capture.recording import EXAMPLE, Recording
from rushlight.capture.sources import const
from rushlight.capture.values import Const, New, Obj, Proxy, Seq, Tensor

__all__ = ["TraceContext", "capture_function", "graph_module"]

DEFAULT_JVP = Function.jvp


class TraceContext:
    """What `forward` and `backward` see as `ctx` while they are captured."""

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def graph_module(recording: Recording) -> Any:
    """A recording as a module that runs its graph."""
    from rushlight.fx.graph_module import GraphModule

    return GraphModule(recording.attributes, recording.graph)


def requires_grad(v: Any) -> bool:
    return isinstance(v, Tensor) and bool(v.example.requires_grad)


def capture_function(t: Any, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of `cls.apply(*args)`."""
    args = [t.real(a) for a in args]
    if cls in marks.ALLOWED:
        return t.record("call_function", cls.apply, args, kwargs)
    if cls.jvp is not DEFAULT_JVP or cls.vjp is not DEFAULT_VJP:
        raise Break(f"Function {cls.__name__} with jvp or vjp")
    if kwargs:
        raise Break("Function.apply with keyword arguments")
    for name in ("forward", "backward", "setup_context"):
        t.guard_class_attr(cls, name, vars(cls).get(name))
    context = New(TraceContext)
    context.attrs["needs_input_grad"] = Const(tuple(requires_grad(a) for a in args))
    if t.grad and any(map(requires_grad, args)):
        return Application(t, cls, args, context).captured()
    return inlined(t, cls, args, context)


def run_forward(t: Any, cls: Any, args: list[Any], context: New) -> Any:
    owner = Obj(cls, const(cls))
    forward = t.getattr(owner, "forward")
    if cls.setup_context is DEFAULT_SETUP:
        return t.real(t.call(forward, [context, *args], {}))
    result = t.real(t.call(forward, args, {}))
    t.call(t.getattr(owner, "setup_context"), [context, Seq(tuple, list(args)), result], {})
    return result


def inlined(t: Any, cls: Any, args: list[Any], context: New) -> Any:
    """Forward alone, without gradients, as `apply` runs it."""
    before, t.grad = t.grad, False
    last = next(reversed(t.recording.graph.nodes), None)
    result = run_forward(t, cls, args, context)
    t.grad = before
    if before:
        switch_off_around(t, last)
    marked = context.attrs.get("dirty_tensors")
    dirty = [] if marked is None else list(map(t.real, marked.items))
    given = list(map(t.real, result.items if isinstance(result, Seq) else [result]))
    if not all(v in args and v in given for v in dirty):
        raise Break("mark_dirty")

    def one(v: Any) -> Any:
        # An input that is returned comes back as another object.
        v = t.real(v)
        is_passed = v in args and v not in dirty
        return t.record("call_method", "view_as", [v, v], {}) if is_passed else v

    if isinstance(result, Seq) and result.kind is tuple:
        return Seq(tuple, [one(v) if isinstance(v, Tensor) else v for v in result.items])
    return one(result) if isinstance(result, Tensor) else result


def switch_off_around(t: Any, last: Any) -> None:
    """Switch gradients off for the nodes behind `last`, where any of them would record some."""
    nodes = list(t.recording.graph.nodes)
    made = [
        node for node in nodes[nodes.index(last) + 1 if last else 0 :] if node.op != "placeholder"
    ]
    inputs = [x.meta.get(EXAMPLE) for node in made for x in node.all_input_nodes]
    if not any(getattr(example, "requires_grad", False) for example in inputs):
        return
    with t.recording.graph.inserting_before(made[0]):
        t.recording.graph.call_function(t.world.set_grad, (False,))
    t.has_switches = True
    t.recording.add("call_function", t.world.set_grad, [True], {}, None)


class Application:
    """One call of `apply` that records gradients."""

    def __init__(self, t: Any, cls: Any, args: list[Any], context: New) -> None:
        self.t = t
        self.cls = cls
        self.args = args
        self.context = context
        self.outer: Recording = t.recording
        self.fwd = t.body(t.recording)
        self.bwd = t.body(self.fwd)
        self.tensors = [a for a in args if isinstance(a, Proxy)]
        self.given = [t.node(a) for a in self.tensors]

    def captured(self) -> Any:
        t = self.t
        grad, effects = t.grad, len(t.effects)
        try:
            t.grad = False
            result = self.trace_forward()
            results = self.results_of(result)
            found = self.trace_backward(results)
        finally:
            t.recording, t.grad = self.outer, grad
        if len(t.effects) != effects:
            raise Break("side effect in a Function body")
        self.finish_backward(found)
        self.finish_forward(result, results)
        return self.emit(result, results)

    def trace_forward(self) -> Any:
        fwd = self.t.recording = self.fwd
        fwd.add_input("function_ctx", None)
        for node in self.given:
            if node in fwd.lifted:
                fwd.add_input(node.name, node.meta[EXAMPLE])  # the same tensor once more
            else:
                fwd.lift(node)
        result = run_forward(self.t, self.cls, self.args, self.context)
        attrs = self.context.attrs
        if "dirty_tensors" in attrs:
            raise Break("mark_dirty")
        materializes = attrs.get("materialize_grads")
        if materializes is not None and not self.t.truth(materializes):
            # Which gradients are there is known when backward runs, not now.
            raise Break("set_materialize_grads(False)")
        return result

    def results_of(self, result: Any) -> list[Any]:
        t = self.t
        items = result.items if isinstance(result, Seq) and result.kind is tuple else [result]
        results = [t.real(item) for item in items]
        if not all(isinstance(item, Tensor) for item in results):
            raise Break("Function output that is no tensor")
        return results

    def trace_backward(self, results: list[Any]) -> Any:
        t, bwd = self.t, self.bwd
        t.recording = bwd
        bwd.add_input("function_ctx", None)
        grads = []
        for item in results:
            example = item.example
            grad = Tensor(example, bwd.add_input(t.node(item).name, example))
            grad.strict = True
            grads.append(grad)
        bwd.add("call_function", write_grad, [False], {}, None)
        backward = t.getattr(Obj(self.cls, const(self.cls)), "backward")
        found = t.real(t.call(backward, [self.context, *grads], {}))
        bwd.add("call_function", write_grad, [True], {}, None)
        return found

    def finish_backward(self, found: Any) -> None:
        """Give the body of backward one result for each tensor argument."""
        t = self.t
        is_tuple = isinstance(found, Seq) and found.kind is tuple
        grads = [t.real(g) for g in (found.items if is_tuple else [found])]
        count = len(self.args)
        if len(grads) < count or not all(map(is_none, grads[count:])):
            # An error of the backward pass, which may never run.
            given = [self.cls.__name__, count, len(grads)]
            self.bwd.add("call_function", refuse_count, given, {}, None)
            grads += [Const(None)] * (count - len(grads))
        wanted = []
        for a, grad in zip(self.args, grads):
            if not isinstance(grad, Tensor) and not is_none(grad):
                raise Break("gradient that is no tensor")
            if isinstance(a, Proxy):
                wanted.append(None if is_none(grad) else self.bwd.lift(t.node(grad)))
            elif not is_none(grad):
                raise Break("gradient for an argument that is no tensor")
        self.bwd.graph.output(tuple(wanted) if is_tuple else wanted[0])

    def finish_forward(self, result: Any, results: list[Any]) -> None:
        """The body of forward gives its outputs, and what backward takes from it."""
        fwd, t = self.fwd, self.t
        nodes = [fwd.lift(t.node(item)) for item in results]
        kept = [fwd.lift(node) for node in self.bwd.lifted]
        fwd.graph.output((tuple(nodes) if isinstance(result, Seq) else nodes[0], kept))

    def emit(self, result: Any, results: list[Any]) -> Any:
        from rushlight.higher_order.regions import autograd_function_apply

        t, outer = self.t, self.outer
        outer.add("call_function", FunctionCtx, [], {}, None)
        bodies, number = [], t.world.bodies["fwd_body"]
        t.world.bodies["fwd_body"] += 1
        for name, body in (("fwd_body", self.fwd), ("bwd_body", self.bwd)):
            module = graph_module(body)
            module.meta["shown_as"] = "GraphModule"
            bodies.append(outer.add_attribute(f"{name}_{number}", module))
        extra = [node for node in self.fwd.lifted if node not in self.given]
        options: dict[str, Any] = {
            "args_tensor_mask": [isinstance(a, Proxy) for a in self.args],
        }
        opaque = self.opaque_outputs(results)
        if opaque:
            options["non_differentiable_idx"] = opaque
        examples = tuple(
            self.output_example(item, number not in opaque) for number, item in enumerate(results)
        )
        example = examples if isinstance(result, Seq) else examples[0]
        node = outer.add(
            "call_function",
            autograd_function_apply,
            [*bodies, *self.given, *extra],
            options,
            example,
        )
        return t.outputs(node, example)

    def opaque_outputs(self, results: list[Any]) -> list[int]:
        """Positions of outputs that carry no gradient."""
        marked = self.context.attrs.get("non_differentiable")
        vars_ = [self.t.real(v) for v in marked.items] if marked is not None else []
        return [number for number, item in enumerate(results) if item in vars_]

    def output_example(self, item: Tensor, is_differentiable: bool) -> Any:
        kind = item.example.dtype
        flag = is_differentiable and (kind.is_floating_point or kind.is_complex)
        make = functools.partial(item.example.detach().requires_grad_, flag)
        return self.t.world.run("call_function", make, [], {}, {**self.t.modes, "grad": True})


def refuse_count(name: str, expected: int, got: int) -> None:
    raise RuntimeError(
        f"function {name}Backward returned an incorrect number of gradients (expected {expected}, "
        f"got {got})"
    )


def is_none(v: Any) -> bool:
    return isinstance(v, Const) and v.value is None
