"""`out_dtype`: an op whose result has another dtype than its operands give it."""

from __future__ import annotations

from typing import Any

from rushlight.base import pytree
from rushlight.core.hop import asks_gradient
from rushlight.core.op import OpOverload
from rushlight.core.promotion import promote_types
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.higher_order.calls import CallOp
from rushlight.opset import families, registry

__all__ = ["out_dtype"]


def allowed() -> list[OpOverload]:
    families.load_all()
    return [op for op in registry.registered() if op.options.get("out_dtype")]


class OutDtype(CallOp):
    """`out_dtype(op, dtype, *args)`: computed and returned in the wider of its dtypes."""

    def __call__(self, op: Any, output_dtype: Any, *args: Any) -> Any:
        if not isinstance(op, OpOverload):
            raise ValueError("out_dtype's first argument must be an OpOverload")
        if op._schema.is_mutable:
            raise ValueError("out_dtype's first argument needs to be a functional operator")
        returns = [str(entry.type) for entry in op._schema.returns]
        if returns != ["Tensor"]:
            raise ValueError(
                "out_dtype's can only apply to ops that return a single tensor"
                f"Instead got {returns}"
            )
        if not op.options.get("out_dtype"):
            raise ValueError(f"out_dtype only allows the following operators: {allowed()}.")
        return super().__call__(op, output_dtype, *args)

    def compute(self, op: OpOverload, output_dtype: Any, *args: Any) -> Any:
        wide = output_dtype
        for value in pytree.tree_leaves(args):
            if isinstance(value, Tensor):
                wide = promote_types(wide, value.dtype)
        given = pytree.tree_map(
            lambda value: value.to(wide) if isinstance(value, Tensor) else value, args
        )
        return op(*given).to(output_dtype)

    def differentiate(self, *args: Any, **kwargs: Any) -> Any:
        """Casts and op have gradients of their own, so that the call is taken apart where one is
        asked for."""
        if LOCAL.state.transforms or asks_gradient(args):
            return self.compute(*args)
        return self.go_on(*args)


out_dtype = OutDtype("out_dtype")
