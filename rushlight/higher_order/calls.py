"""Ops that call one other op, and stand for it in graphs: its rules for most layers.

`record_call` and `functionalize_call` are right for every op whose operands are plain arguments and
that changes none of them.
"""

from __future__ import annotations

from typing import Any

from rushlight.autograd.function import DelayedError
from rushlight.base import pytree
from rushlight.core.functional import FunctionalMode
from rushlight.core.hop import HigherOrderOperator, asks_gradient
from rushlight.core.recording import Recorder
from rushlight.core.tensor import Tensor
from rushlight.higher_order.subgraphs import unwrapped

__all__ = ["CallOp"]


class CallOp(HigherOrderOperator):
    """An op over another op: `compute` runs it on values, on fakes and at levels alike."""

    def __init__(self, name: str) -> None:
        super().__init__(name, cacheable=True)
        self.rules.update(
            eager=self.compute,
            autograd=self.differentiate,
            functional=self.functionalize,
            proxy=self.record,
            fake=self.at_layer,
            batch=self.at_layer,
        )

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def at_layer(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        """The call in its parts, each of which passes the layer."""
        return self.compute(*args, **kwargs)

    def differentiate(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the call itself; asking for its gradient is refused."""
        result = self.go_on(*args, **kwargs)
        if not asks_gradient((args, kwargs)):
            return result
        refuse = DelayedError(f"Autograd not implemented for {self._name}", 1)
        return pytree.tree_map(
            lambda value: refuse(value.requires_grad_()) if is_inexact(value) else value, result
        )

    def functionalize(self, mode: FunctionalMode, *args: Any, **kwargs: Any) -> Any:
        values, named = unwrapped((args, kwargs))
        with mode.below():
            result = self.dispatch(*values, **named)
        return mode.wrapped(result)

    def record(self, recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        inputs = tuple(recorder.node_of(value) for value in args)
        named = {name: recorder.node_of(value) for name, value in kwargs.items()}
        node = recorder.call_node(self, inputs, named, self._name)
        with recorder.below():
            result = self.dispatch(*args, **kwargs)
        recorder.track(result, node)
        return result


def is_inexact(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())
