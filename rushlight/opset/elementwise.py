"""Elementwise ops: what follows from an op being POINTWISE.

The kind derives broadcasting, promotion, strides, batching and lowering, and in-place and `out=`
forms that write where they may. Kernels are the ops' `scalar` texts over a math namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rushlight.arrays.casting import cast, fill_number
from rushlight.arrays.numpy_ import MATH, as_array
from rushlight.arrays.precision import HALVES
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.core.promotion import DIM, WRAPPED, ZERO_DIM, result_type, scalar_dtype
from rushlight.core.tensor import Tensor, strides_of, wrap
from rushlight.opset.kinds import Kind, Spec, is_unusual, tensors_in
from rushlight.opset.large import LARGE, by_casting_door, fused, text_kernel
from rushlight.opset.results import lay_out, wrapped

__all__ = [
    "BOOL", "COMPLEX_TO_FLOAT", "DEFAULT", "INT_TO_FLOAT", "LONG", "NARROW", "PAIRS", "POINTWISE",
    "Plan", "Pointwise", "number_array", "operand_rank", "refuse_complex", "scalar_array",
]  # fmt: skip

# How operand dtypes decide the result's.
DEFAULT = "default"  # torch's type promotion
INT_TO_FLOAT = "int_to_float"  # integers and bools compute in the default dtype
BOOL = "bool"  # compute in the common dtype, answer bool
COMPLEX_TO_FLOAT = "complex_to_float"  # complex operands give a real result
LONG = "long"  # answer int64


NUMBERS = (int, float, bool, complex)
# Dtypes to keep numbers in, in which an op computes only where it says so (`narrow=`).
PAIRS = frozenset((dtypes.complex32,))
NARROW = PAIRS | dtypes.FLOAT8
# Dtypes in which every op computes as they are.
EVERYDAY = frozenset((dtypes.float32, dtypes.float64, dtypes.int64, dtypes.bool_))


CASTS_OF_NUMBERS = frozenset(("cast_scalars", "rounded_scalars", "promoted_scalars"))


def refuse_complex(message: str, error: type[Exception] = RuntimeError) -> Any:
    """A `check` of elementwise ops."""

    def check(common: dtype, args: tuple[Any, ...]) -> None:
        if common.category == dtypes.COMPLEX:
            raise error(message)

    return check


def operand_rank(tensor: Tensor) -> int:
    return DIM if tensor.dim() else ZERO_DIM


@cache
def casts_numbers(op: Any) -> bool:
    """Whether the op states casts of arguments that are numbers, in whatever dtype it computes."""
    return not CASTS_OF_NUMBERS.isdisjoint(op.options)


@cache
def wraps_a_number(op: Any) -> bool:
    """Whether a number that the op takes by its schema is an operand, a tensor without dims."""
    first = op._schema.arguments[:2]
    is_form = "Scalar" in op._overloadname and any([a.type.kind == "Scalar" for a in first])
    return is_form and not op.options.get("bare_numbers")


class Plan(NamedTuple):
    """The dtype that an elementwise op's text computes in, that of its result, and for each operand
    that is not in the former already the dtypes to take it through."""

    working: dtype
    result: dtype
    casts: list[tuple[int, tuple[dtype, ...]]]


class Pointwise(Kind):
    """Elementwise ops: broadcasting, promotion, strides, in-place and out= forms derived. A kind of
    its own, since its kernels take operands cast to a common dtype, and compiled loops its plan."""

    options: ClassVar[dict[str, str]] = {
        "scalar": "the op's text over a math namespace: scalar(m, *arguments)",
        "promote": "how operands' dtypes lead to the result's: DEFAULT, INT_TO_FLOAT, ...",
        "dtypes": "test of the common dtype; others are refused in the name of kernel_name",
        "kernel_name": "what the refusal of a dtype calls the op",
        "check": "function (common dtype, arguments) that refuses what the op does not take",
        "unpromoted": "positions of tensors that do not take part in promotion",
        "factors": "positions of numbers that wrap into the operands' integer dtype",
        "narrow": "dtypes made to keep numbers in, in which it computes all the same",
        "promoted_scalars": "positions of numbers that do, and are cast to the common dtype",
        "cast_scalars": "positions of numbers that are cast to the common dtype only",
        "exact_scalars": "numbers are not rounded to half precision first",
        "native_halves": "computed in half precision itself, not in float32 (or function of the "
        "arguments: whether it is)",
        "rounded_scalars": "positions of numbers that are rounded to the computing dtype",
        "bare_numbers": "numbers are no operands: they have no part in the result's strides",
        "swapped": "the last operand decides about the result's strides",
        "weak_numbers": "the kernel takes Python numbers as they are",
    }

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "shape":
            return lambda *args: self.shape_of(op, args)
        if rule == "kernel":
            text = op.options.get("scalar")
            return None if text is None else text_kernel(op, text)
        if rule == "jvp":
            return derived_elementwise_jvp(op)
        return super().derive(op, rule)

    def array_kernel(self, op: Any) -> Any:
        return op.rule("kernel")

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
        if common.category != dtypes.COMPLEX and complex in map(type, args):
            for value in args:
                if value.__class__ is complex and value.imag:
                    raise RuntimeError(
                        f"value cannot be converted to type {common.cpp_name} without overflow: "
                        f"{value} is complex and the operands are real"
                    )
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
        own: tuple[dtype, dtype] = promote(common, args)
        return own

    def geometry_of(
        self, op: Any, args: tuple[Any, ...], common: dtype | None = None
    ) -> tuple[Any, Any]:
        """(broadcast shape, output strides)."""
        if common is None:
            common, _ = self.dtypes_of(op, args)
        operands = []
        as_is = op.options.get("unpromoted", ())
        for position in op.tensor_positions:
            value = args[position]
            if isinstance(value, Tensor):
                sizes, strides = tuple(value.shape), strides_of(value)
                if value._dtype is not common and position not in as_is:
                    # torch: an operand is cast first, which makes its memory dense.
                    strides = geometry.like_strides(sizes, strides)
                operands.append((sizes, strides))
            elif value is not None:
                operands.append(((), ()))
        if wraps_a_number(op):
            operands.append(((), ()))
        if op.options.get("swapped"):
            operands.reverse()
        shape = geometry.broadcast_shapes(*[sizes for sizes, _ in operands])
        layout = op.options.get("layout")
        if layout == "contiguous" or (callable(layout) and layout(*args) == "contiguous"):
            return shape, geometry.contiguous_strides(shape)
        return shape, geometry.elementwise_strides(shape, operands)

    def shape_of(self, op: Any, args: tuple[Any, ...]) -> Any:
        common, result = self.dtypes_of(op, args)
        shape, strides = self.geometry_of(op, args, common)
        count = len(op._schema.returns)
        if count > 1:
            return tuple([Spec(shape, result, strides) for _ in range(count)])
        return Spec(shape, result, strides)

    def working_dtype(self, op: Any, compute: dtype, args: tuple[Any, ...]) -> dtype:
        """The dtype in which the op's text computes, for a dtype that operands promote to."""
        if compute in HALVES:
            native = op.options.get("native_halves", False)
            if not (native is True or (native and native(args))):
                return dtypes.float32
        elif compute in NARROW:
            if compute not in op.options.get("narrow", ()):
                raise dtypes.unsupported(f"{op.base_name}_cpu", compute)
            return dtypes.complex64 if compute in PAIRS else dtypes.float32
        return compute

    def plan(self, op: Any, args: tuple[Any, ...]) -> Plan:
        """How operands become what the op's text computes with."""
        compute, result = self.dtypes_of(op, args)
        working = compute if compute in EVERYDAY else self.working_dtype(op, compute, args)
        options = op.options
        number: tuple[dtype, ...] = (working,)
        widens = rounds = False
        if compute is not working:
            widens = True
            # torch: only products and quotients keep a number at more than the operands' precision.
            rounds = not options.get("exact_scalars")
            if rounds and compute not in PAIRS:
                number = (compute, working)
        as_is = options.get("unpromoted", ())
        casts: list[tuple[int, tuple[dtype, ...]]] = []
        for position in op.tensor_positions:
            value = args[position]
            if isinstance(value, Tensor):
                source = value._dtype
                if source is working or position in as_is:
                    continue
                narrows = widens and source is not compute
                if narrows and (rounds or position == 0 or value.dim()):
                    casts.append((position, (compute, working)))
                else:
                    casts.append((position, (working,)))
            elif value is not None:
                casts.append((position, number))
        if casts_numbers(op) or working.category == dtypes.INTEGER:
            casts += self.number_casts(op, args, compute, working, number)
        return Plan(working, result, casts)

    def number_casts(
        self,
        op: Any,
        args: tuple[Any, ...],
        compute: dtype,
        working: dtype,
        number: tuple[dtype, ...],
    ) -> list[tuple[int, tuple[dtype, ...]]]:
        """The casts of arguments that are numbers by the op's schema."""
        options = op.options
        casts: list[tuple[int, tuple[dtype, ...]]]
        casts = [(position, (working,)) for position in options.get("cast_scalars", ())]
        rounded = options.get("rounded_scalars", ())
        casts += [(position, (compute, working)) for position in rounded]
        promoted = options.get("promoted_scalars", ())
        casts += [(position, number) for position in promoted if args[position] is not None]
        if working.category == dtypes.INTEGER:
            # A negative number wraps into an unsigned type, as C has it; NumPy refuses it.
            for position in options.get("factors", ()):
                fill_number(args[position], working)  # refuses what no wrapping can fit
                casts.append((position, (working,)))
        return casts

    def compute(self, op: Any, args: tuple[Any, ...]) -> tuple[Any, dtype, bool]:
        """(raw kernel answer, result dtype, whether its layout is right by construction)."""
        plan = self.plan(op, args)
        arrays = list(args)
        contiguous = True
        for position in op.tensor_positions:
            value = args[position]
            if isinstance(value, Tensor):
                arrays[position] = value._array
                contiguous = contiguous and value._is_contiguous
        if plan.casts and contiguous and "scalar" in op.options:
            first = arrays[op.tensor_positions[0]]
            if type(first) is np.ndarray and first.size >= LARGE:
                found = self.compute_large(op, args, plan, arrays)
                if found is not None:
                    return found, plan.result, contiguous
        for position, chain in plan.casts:
            value = args[position]
            if isinstance(value, Tensor):
                array = cast(arrays[position], value._dtype, chain[0])
                if len(chain) > 1:
                    array = cast(array, chain[0], chain[1])
                arrays[position] = array
            elif type(value) in NUMBERS:
                arrays[position] = number_array(value, chain)
        return op.rule("kernel")(MATH, *arrays), plan.result, contiguous

    def compute_large(self, op: Any, args: tuple[Any, ...], plan: Plan, arrays: list[Any]) -> Any:
        """The answer of native code that converts operands and result itself, or None."""
        chains = []
        given = list(arrays)
        for position, chain in plan.casts:
            value = args[position]
            if isinstance(value, Tensor):
                chains.append((position, chain))
            elif type(value) in NUMBERS:
                given[position] = number_array(value, chain)
        return fused(op, op.options["scalar"], tuple(given), (tuple(chains), plan.result))

    def make_backend(self, op: Any) -> Callable[..., Any]:
        singles = op.tensor_positions
        doors = op.native_kernels.casting_doors

        def backend(*args: Any) -> Any:
            for position in singles:
                tensor = args[position]
                if isinstance(tensor, Tensor) and tensor._unusual is not None and is_unusual(args):
                    return self.unusual(op, args)
            if doors:
                # A door takes what went through the same plan before.
                arrays = [v._array if isinstance(v, Tensor) else v for v in args]
                found = by_casting_door(op, arrays)
                if found is not None:
                    return wrapped(found)
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
                return tuple(
                    [self.finish_one(op, args, v, dtype, contiguous) for v, dtype in pairs]
                )
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
        return lay_out(array, strides, result)


def number_array(value: Any, chain: tuple[dtype, ...]) -> Any:
    """A Python number as a 0-d array, taken through dtypes."""
    return scalar_array(value, chain[0]).astype(chain[-1].np)


def scalar_array(value: Any, dtype: dtype) -> Any:
    """A Python number as a 0-d array of the computing dtype, wrapping as C casts do."""
    if isinstance(value, complex) and dtype.category != dtypes.COMPLEX:
        value = value.real
    if dtype.category == dtypes.INTEGER:
        bits = dtype.itemsize * 8
        number = int(value) & ((1 << bits) - 1)
        if dtype.is_signed and number >> (bits - 1):
            number -= 1 << bits
        return np.array(number, dtype.np)
    return np.array(value, dtype.np)


def derived_elementwise_jvp(op: Any) -> Any:
    """Forward mode of an elementwise op: its Jacobian is diagonal, so the vjp formula serves."""
    return "elementwise" if op.rules.get("vjp") is not None else None


POINTWISE = Pointwise("POINTWISE", "elementwise", recompute=True)
