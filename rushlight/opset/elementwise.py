"""Elementwise ops: what follows from an op being POINTWISE.

The kind derives broadcasting, promotion, strides, batching and lowering, and in-place and `out=`
forms that write where they may. Kernels are the ops' `scalar` texts over a math namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.arrays.casting import cast
from rushlight.arrays.numpy_ import MATH, as_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.core.promotion import DIM, WRAPPED, ZERO_DIM, result_type, scalar_dtype
from rushlight.core.tensor import Tensor, strides_of, wrap
from rushlight.opset.kinds import Kind, Spec, is_unusual, laid_out, tensors_in

__all__ = [
    "BOOL", "COMPLEX_TO_FLOAT", "DEFAULT", "HALVES", "INT_TO_FLOAT", "LONG", "POINTWISE",
    "Pointwise", "operand_rank", "scalar_array",
]  # fmt: skip

# How operand dtypes decide the result's.
DEFAULT = "default"  # torch's type promotion
INT_TO_FLOAT = "int_to_float"  # integers and bools compute in the default dtype
BOOL = "bool"  # compute in the common dtype, answer bool
COMPLEX_TO_FLOAT = "complex_to_float"  # complex operands give a real result
LONG = "long"  # answer int64
HALVES = frozenset((dtypes.float16, dtypes.bfloat16))


def operand_rank(tensor: Tensor) -> int:
    return DIM if tensor.dim() else ZERO_DIM


class Pointwise(Kind):
    """Elementwise ops: broadcasting, promotion, strides, in-place and out= forms derived."""

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "shape":
            return lambda *args: self.shape_of(op, args)
        if rule == "kernel":
            return op.options.get("scalar")
        if rule == "jvp":
            return derived_elementwise_jvp(op)
        return super().derive(op, rule)

    def batch_method(self, op: Any) -> str | None:
        return "elementwise"

    def lower_method(self, op: Any) -> str | None:
        return "text"

    def common_dtype(self, op: Any, args: tuple[Any, ...]) -> dtype:
        """What the operands promote to."""
        operands = []
        first: dtype | None = None
        uniform = True
        for position in op.tensor_positions:
            value = args[position]
            if isinstance(value, Tensor):
                if position in op.options.get("unpromoted", ()):
                    continue
                operands.append((value._dtype, operand_rank(value)))
                if first is None:
                    first = value._dtype
                elif value._dtype is not first:
                    uniform = False
            elif value is not None:
                operands.append((scalar_dtype(value), WRAPPED))
                uniform = False
        for position in op.options.get("promoted_scalars", ()):
            value = args[position]
            if value is not None:
                operands.append((scalar_dtype(value), WRAPPED))
                uniform = False
        return first if first is not None and uniform else result_type(operands)

    def dtypes_of(self, op: Any, args: tuple[Any, ...]) -> tuple[dtype, dtype]:
        """(dtype to compute in, dtype of the result)."""
        common = self.common_dtype(op, args)
        promote = op.options.get("promote", DEFAULT)
        check = op.options.get("check")
        if check is not None:
            check(common, args)
        allowed = op.options.get("dtypes")
        if allowed is not None and not allowed(common):
            # torch: sizes are looked at first.
            geometry.broadcast_shapes(*[tuple(t.shape) for t in tensors_in(args)])
            raise dtypes.unsupported(op.options.get("kernel_name", f"{op.base_name}_cpu"), common)
        if promote == DEFAULT:
            return common, common
        if promote == INT_TO_FLOAT:
            if common.category < dtypes.FLOAT:
                common = dtypes.get_default_dtype()
            return common, common
        if promote == BOOL:
            return common, dtypes.bool_
        if promote == COMPLEX_TO_FLOAT:
            return common, common.to_real()
        if promote == LONG:
            return common, dtypes.int64
        found: tuple[dtype, dtype] = promote(common, args)
        return found

    def geometry_of(self, op: Any, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """(broadcast shape, output strides)."""
        operands = []
        for position in op.tensor_positions:
            value = args[position]
            if isinstance(value, Tensor):
                operands.append((tuple(value.shape), strides_of(value)))
            elif value is not None:
                operands.append(((), ()))
        if op.options.get("swapped"):
            operands.reverse()
        shape = geometry.broadcast_shapes(*[sizes for sizes, _ in operands])
        layout = op.options.get("layout")
        if layout == "contiguous" or (callable(layout) and layout(*args) == "contiguous"):
            return shape, geometry.contiguous_strides(shape)
        return shape, geometry.elementwise_strides(shape, operands)

    def shape_of(self, op: Any, args: tuple[Any, ...]) -> Any:
        _, result = self.dtypes_of(op, args)
        shape, strides = self.geometry_of(op, args)
        count = len(op._schema.returns)
        if count > 1:
            return tuple([Spec(shape, result, strides) for _ in range(count)])
        return Spec(shape, result, strides)

    def compute(self, op: Any, args: tuple[Any, ...]) -> tuple[Any, dtype, bool]:
        """(raw kernel answer, result dtype, whether its layout is right by construction)."""
        compute, result = self.dtypes_of(op, args)
        widened = compute in HALVES and not op.options.get("native_halves")
        working = dtypes.float32 if widened else compute
        if compute in dtypes.FLOAT8 or compute is dtypes.complex32:
            raise NotImplementedError(
                f"\"{op.base_name}_cpu\" not implemented for '{compute.scalar_type_name}'"
            )
        arrays = list(args)
        contiguous = True
        as_is = op.options.get("unpromoted", ())
        # torch: only products and quotients keep a number at more than the operands' precision.
        rounded = compute is not working and not op.options.get("exact_scalars")
        number_dtype = compute if rounded else working
        for position in op.tensor_positions:
            value = args[position]
            if isinstance(value, Tensor):
                array = value._array
                if value._dtype is not working and position not in as_is:
                    source = value._dtype
                    narrows = compute is not working and source is not compute
                    if narrows and (rounded or position == 0 or array.ndim):
                        array, source = cast(array, source, compute), compute
                    array = cast(array, source, working)
                arrays[position] = array
                contiguous = contiguous and value._contig
            elif value is not None and type(value) in (int, float, bool, complex):
                arrays[position] = scalar_array(value, number_dtype).astype(working.np)
        for position in op.options.get("cast_scalars", ()):
            arrays[position] = scalar_array(args[position], working)
        for position in op.options.get("promoted_scalars", ()):
            if args[position] is not None:
                number = scalar_array(args[position], number_dtype)
                arrays[position] = number.astype(working.np)
        return op.rule("kernel")(MATH, *arrays), result, contiguous

    def make_backend(self, op: Any) -> Callable[..., Any]:
        singles = op.tensor_positions

        def backend(*args: Any) -> Any:
            for position in singles:
                tensor = args[position]
                if isinstance(tensor, Tensor) and tensor._ext is not None and is_unusual(args):
                    return self.unusual(op, args)
            try:
                value, result, contiguous = self.compute(op, args)
            except ValueError:
                value = None
            if value is None:
                # Broadcasting errors are worded by the shape rule, not as a consequence of NumPy's.
                self.geometry_of(op, args)
                value, result, contiguous = self.compute(op, args)
            if isinstance(value, tuple):
                half = result if result in HALVES else None
                kinds = [half if as_array(v).dtype.kind == "f" else None for v in value]
                pairs = zip(value, kinds, strict=True)
                return tuple([self.finish_one(op, args, v, kind, contiguous) for v, kind in pairs])
            return self.finish_one(op, args, value, result, contiguous)

        return backend

    def finish_one(
        self, op: Any, args: tuple[Any, ...], value: Any, result: dtype | None, contiguous: bool
    ) -> Tensor:
        array = as_array(value)
        if result is None:
            result = dtypes.from_numpy(array.dtype)
        elif array.dtype != result.np:
            array = cast(array, dtypes.from_numpy(array.dtype), result)
        if contiguous and array.flags.c_contiguous:
            return wrap(array, result)
        shape, strides = self.geometry_of(op, args)
        if array.shape != tuple(shape):
            array = np.broadcast_to(array, shape)
        return laid_out(array, strides, result)


def scalar_array(value: Any, kind: dtype) -> Any:
    """A Python number as a 0-d array of the computing dtype, wrapping as C casts do."""
    if kind.category == dtypes.INTEGER:
        bits = kind.itemsize * 8
        number = int(value) & ((1 << bits) - 1)
        if kind.is_signed and number >> (bits - 1):
            number -= 1 << bits
        return np.array(number, kind.np)
    if kind.category == dtypes.FLOAT and isinstance(value, complex):
        value = value.real
    return np.array(value, kind.np)


def derived_elementwise_jvp(op: Any) -> Any:
    """Forward mode of an elementwise op: its Jacobian is diagonal, so the vjp formula serves."""
    return "elementwise" if op.rules.get("vjp") is not None else None


POINTWISE = Pointwise("POINTWISE", "elementwise", recompute=True)
