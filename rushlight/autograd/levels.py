"""The levels of `grad` and `jvp`: what an op call leaves behind on their tensors.

A `GradLevel` records nodes and views, a `JvpLevel` pushes tangents; both run the call itself on the
values of the levels below (see `core.levels`).
"""

from __future__ import annotations

from typing import Any

from rushlight.autograd.forward import any_tangent, push, set_tangent
from rushlight.autograd.function import run_function
from rushlight.base.errors import error
from rushlight.core import dispatch, history
from rushlight.core import node as nodes
from rushlight.core.duals import DualLevel, keep_tangent, tangent_of
from rushlight.core.levels import Level, LevelTensor, alive
from rushlight.core.op import OpOverload
from rushlight.core.state import LOCAL, changed
from rushlight.core.tensor import Tensor

__all__ = ["GradLevel", "JvpLevel"]


class RecordingLevel(Level):
    """A level that gives custom Functions a history, as it does ops."""

    def apply_function(
        self, cls: Any, args: tuple[Any, ...], kwargs: Any, direct: Any, has_rule: bool
    ) -> Any:
        """A custom Function: the levels below see it as a Function too."""
        if not any([self.is_own(value) for value in args]):
            return self.run(lambda: cls.apply(*args, **kwargs))
        lifted = tuple([self.captured(v) if isinstance(v, Tensor) else v for v in args])
        return run_function(cls, lifted, kwargs, True, LOCAL.state, self)

    def forward(self, cls: Any, args: tuple[Any, ...], grad: bool, forward_enabled: bool) -> Any:
        """A Function's forward, as a call of the Function below."""
        values = [self.lower(value) for value in args]
        known = {id(self.lower(v)): v for v in args if self.is_own(v)}
        with changed(grad=grad, forward_enabled=forward_enabled):
            return self.lifted_result(self.run(lambda: cls.apply(*values)), known)


class GradLevel(RecordingLevel):
    """Reverse mode: calls are recorded as nodes on this level's tensors."""

    transform = "Grad"

    def enter(self, state: Any) -> None:
        state.grad = True

    def input(self, value: Any) -> Any:
        """A leaf of this level."""
        made = self.lift(alive(value))
        made._requires_grad = True
        return made

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        state = LOCAL.state
        if state.others or not op.makes_one_tensor:
            return super().process(op, args)
        # The same for the commonest calls, in one pass over the operands.
        values = list(args)
        own = others = False
        for position in op.tensor_positions:
            value = args[position]
            if type(value) is LevelTensor and value._owner is self:
                own = True
                values[position] = value._value
            elif isinstance(value, Tensor):
                others = True
        if not own:
            return super().process(op, args)
        if others:
            args = self.lifted(op, args)
            for position in op.tensor_positions:
                values[position] = self.lower(args[position])
        node = None
        if state.grad:
            for position in op.differentiable_positions:
                value = args[position]
                if isinstance(value, Tensor) and (
                    value._requires_grad or (value._view is not None and nodes.needs_grad(value))
                ):
                    node = op.grad_rule.make_node(*args)
                    break
        result = self.below(op, values)
        for position in op.tensor_positions:
            if values[position] is result:
                result = args[position]
                break
        else:
            result = self.lift(result)
        if node is not None:
            history.attach(op, node, result)
        return result

    def record(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        state = LOCAL.state
        if not (state.others or op.mutated_positions):
            return self.record_result(op, args, state.grad)
        before = state.owner
        state.owner = self
        try:
            return dispatch.autograd_call(op, args, state.grad, state)
        finally:
            state.owner = before

    def record_result(self, op: OpOverload, args: tuple[Any, ...], grad: bool) -> Any:
        """`autograd_call` where nothing is written and no other layer looks on."""
        node = None
        if grad:
            for position in op.differentiable_positions:
                value = args[position]
                if isinstance(value, (list, tuple)):
                    wanted = any([isinstance(t, Tensor) and nodes.needs_grad(t) for t in value])
                else:
                    wanted = isinstance(value, Tensor) and nodes.needs_grad(value)
                if wanted:
                    node = op.grad_rule.make_node(*args)
                    break
        result = self.backend(op, args)
        if op.is_view_op:
            history.record_view(op, args, result, grad, None)
        if node is not None:
            history.attach(op, node, result)
        return result

    def root(self, tensor: Any) -> Any:
        """(node, output number) where the gradient of a result arrives; None if it needs none.
        Asked for while the level is on the stack: a stale view is brought up to date here."""
        if not self.is_own(tensor) or not tensor.requires_grad:
            return None
        node = nodes.gradient_node(tensor)
        return node, tensor._output_nr if tensor.grad_fn is not None else 0


class JvpLevel(RecordingLevel):
    """Forward mode: calls push the tangents that this level's tensors carry."""

    transform = "Jvp"

    def __init__(self) -> None:
        super().__init__()
        self.grad_below = True
        self.duals = DualLevel(self.level)
        self.is_pushing = True

    def enter(self, state: Any) -> None:
        # A level begun inside of a Function's forward pushes like any other.
        state.forward_enabled = True

    def dual(self, primal: Any, tangent: Any) -> Any:
        made = self.lift(alive(primal))
        set_tangent(made, tangent)
        return made

    def tangent(self, tensor: Any) -> Any:
        return tangent_of(tensor) if self.is_own(tensor) else None

    def record(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        original = args
        pushing = self.is_pushing and LOCAL.state.forward_enabled and any_tangent(op, args)
        if pushing and op.out_positions:
            raise error("RL0602", NotImplementedError, op=op.base_name)
        if pushing and op.options.get("manual"):
            raise error(
                "RL0601", NotImplementedError, op=op.base_name, reason="it replaces memory."
            )
        if pushing and op.mutated_positions and op.replayed_as is None:
            target = args[op.mutated_positions[0]]
            copy = self.lift(self.run(lambda: target._value.clone()))
            existing = self.tangent(target)
            if existing is not None:
                keep_tangent(copy, self.run(lambda: existing.clone()))
            original = (copy, *args[1:])
        result = self.backend(op, args)
        if op.mutated_positions:
            target = args[op.mutated_positions[0]]
            history.bump_version(target)
            if op.replayed_as is not None:
                history.take_view_history(target, None, op.replayed_as, args[1:])
            result = target if op._schema.returns else None
            if pushing:
                self.run(push, op, original, target)
            return result
        if op.is_view_op:
            history.record_view(op, args, result, True, None)
        if pushing:
            self.run(push, op, args, result)
        return result
