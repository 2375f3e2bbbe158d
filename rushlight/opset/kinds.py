"""Kinds of ops: the mechanics that follow from what sort of op it is.

A kind derives rules that a record does not give (shape, jvp, batching, samples) and makes the
backend: the function on tensors that runs the kernel below every layer. Kernels see ndarrays
only; results come back contiguous unless the op's `layout` option says otherwise:
"contiguous" (default), "elementwise", "like" (strides of the first tensor as empty_like would
give them), "shape" (strides of the shape rule), "kernel" (whatever the kernel returned) or "value"
(the kernel's answer is no tensor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from rushlight.arrays.casting import cast, fill_number
from rushlight.arrays.numpy_ import MATH, as_array
from rushlight.base.errors import MissingFeature
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import cpu
from rushlight.core.dtype import dtype
from rushlight.core.promotion import DIM, WRAPPED, ZERO_DIM, result_type, scalar_dtype
from rushlight.core.storage import Storage
from rushlight.core.tensor import (
    Ext,
    Tensor,
    alias_array,
    shell,
    storage_of,
    strides_of,
    values_of,
    wrap,
    wrap_strided,
)
from rushlight.opset import families

__all__ = [
    "CONTRACTION",
    "CREATION",
    "GATHER",
    "LINALG",
    "OPAQUE",
    "POINTWISE",
    "RANDOM",
    "REDUCTION",
    "SCATTER",
    "SORT",
    "VIEW",
    "WINDOW",
    "Kind",
    "Spec",
]

ndarray = np.ndarray


class Spec:
    """What a shape rule answers for one result: sizes, dtype, and strides unless contiguous."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, shape: Any, dtype: dtype, strides: Any = None) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = None if strides is None else tuple(strides)

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype}, strides={self.strides})"


def strides_for(spec: Spec) -> tuple[Any, ...]:
    found: tuple[Any, ...] = (
        geometry.contiguous_strides(spec.shape) if spec.strides is None else spec.strides
    )
    return found


# C++'s names of element types, as some of torch's messages print them.
CPP_TYPES = {
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def cpp_type(kind: dtype) -> str:
    return CPP_TYPES.get(kind.name, kind.name)


def shell_of(spec: Any, place: Any) -> Any:
    """Shape-rule answers as tensors without memory."""
    if isinstance(spec, Spec):
        return shell(spec.shape, spec.strides, spec.dtype, place)
    if spec is None:
        return None
    items = [shell_of(item, place) for item in spec]
    return items if isinstance(spec, list) else tuple(items)


def laid_out(array: Any, strides: tuple[int, ...], kind: dtype) -> Tensor:
    """A fresh array's values in memory with exactly these strides."""
    width = kind.itemsize
    wanted = tuple([step * width for step in strides])
    if array.flags.c_contiguous and strides == geometry.contiguous_strides(array.shape):
        return wrap(array.reshape(-1).reshape(array.shape) if 1 in array.shape else array, kind)
    storage = Storage(np.empty(geometry.storage_extent(array.shape, strides, 0) * width, np.uint8))
    target = alias_array(storage, kind, array.shape, strides, 0)
    if target.strides != wanted and array.size:
        raise AssertionError((target.strides, wanted))
    target[...] = array
    result = wrap_strided(target, kind, storage)
    if array.size == 0:
        ext = result._ext = Ext()
        ext.sizes, ext.strides = tuple(array.shape), strides
    return result


def result_tensor(value: Any) -> Any:
    """A kernel's answer (array, scalar, or sequence of them) as contiguous tensors."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return type(value)([result_tensor(item) for item in value])
    array = as_array(value)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    elif 1 in array.shape:
        # NumPy calls an array contiguous whatever its strides along dimensions of size 1.
        array = array.reshape(-1).reshape(array.shape)
    return wrap(array, dtypes.from_numpy(array.dtype))


def resolved(value: Any) -> Any:
    """A tensor whose lazy bits are applied; anything else as it is."""
    if isinstance(value, Tensor) and value._ext is not None and (value._ext.conj or value._ext.neg):
        array = values_of(value)
        return laid_out(array, geometry.like_strides(array.shape, strides_of(value)), value._dtype)
    if isinstance(value, list):
        return [resolved(item) for item in value]
    return value


def tensors_in(args: tuple[Any, ...]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in args:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [item for item in value if isinstance(item, Tensor)]
    return found


def is_unusual(args: tuple[Any, ...]) -> bool:
    for tensor in tensors_in(args):
        ext = tensor._ext
        if ext is not None and (
            tensor._array is None or ext.conj or ext.neg or ext.parts is not None
        ):
            return True
    return False


def common_device(op: Any, tensors: list[Tensor]) -> Any:
    """The device of all operands; a 0-dim CPU tensor may meet any device."""
    place = None
    for tensor in tensors:
        found = tensor.device
        if tensor.dim() == 0 and found is cpu:
            continue
        if place is None:
            place = found
        elif found != place:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, "
                f"{place} and {found}! (when checking arguments for {op.name()})"
            )
    return cpu if place is None else place


class Kind:
    """Defaults for an op that states its rules itself."""

    # Whether the backend is no more than the kernel, so that a stub may call that itself.
    direct = True
    # Facts that ops of this kind may state beside `core.op.OPTIONS`: name -> what it says.
    options: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        cls.direct = False

    def __init__(self, name: str, layout: str = "contiguous") -> None:
        self.name = name
        self.layout = layout

    def __repr__(self) -> str:
        return self.name

    def derive(self, op: Any, rule: str) -> Any:
        """A rule that follows from the kind; None when nothing does."""
        return None

    def run_shape(self, op: Any, args: tuple[Any, ...]) -> Any:
        shape = op.rule("shape")
        if shape is None:
            raise NotImplementedError(
                f"{op.name()}: no shape rule, so it cannot run on tensors without values "
                "(device='meta')."
            )
        return shape(*args)

    def shells(self, op: Any, args: tuple[Any, ...], specs: Any = None) -> Any:
        """What the op would return, without values: `specs`, or what its shape rule answers."""
        found = self.run_shape(op, args) if specs is None else specs
        return shell_of(found, self.place(op, args))

    def place(self, op: Any, args: tuple[Any, ...]) -> Any:
        """Where the op's results live."""
        names = op.argument_names
        asked = args[names.index("device")] if "device" in names else None
        return common_device(op, tensors_in(args)) if asked is None else asked

    def unusual(self, op: Any, args: tuple[Any, ...]) -> Any:
        """Operands without an array, with lazy bits, or sparse."""
        tensors = tensors_in(args)
        if any(t._ext is not None and t._ext.parts is not None for t in tensors):
            families.load_rules("sparse")
            sparse = op.rules.get("sparse")
            if sparse is None:
                layout = next(t.layout for t in tensors if t._ext is not None and t._ext.parts)
                raise NotImplementedError(
                    f"Could not run '{op.name()}' with arguments of layout {layout}: this operator "
                    "has no rule for sparse tensors. Convert them with to_dense() first."
                )
            return sparse(*args)
        place = common_device(op, tensors)
        if any(t._array is None for t in tensors):
            return shell_of(self.run_shape(op, args), place)
        return op.backend(*[resolved(value) for value in args])

    def make_backend(self, op: Any) -> Callable[..., Any]:
        kernel = op.rule("kernel")
        if kernel is None:
            name = op.name()

            def missing(*args: Any) -> Any:
                raise NotImplementedError(f"{name} has no kernel")

            return missing
        singles = op.tensor_positions
        lists = op.list_positions
        layout = op.options.get("layout", self.layout)

        def backend(*args: Any) -> Any:
            arrays = list(args)
            for position in singles:
                tensor = args[position]
                if isinstance(tensor, Tensor):
                    if tensor._ext is not None and is_unusual(args):
                        return self.unusual(op, args)
                    arrays[position] = tensor._array
            for position in lists:
                items = args[position]
                if items is not None:
                    if is_unusual(args):
                        return self.unusual(op, args)
                    arrays[position] = [None if t is None else t._array for t in items]
            value = kernel(np, *arrays)
            return self.finish(op, args, value, layout)

        return backend

    def finish(self, op: Any, args: tuple[Any, ...], value: Any, layout: str) -> Any:
        """Kernel results as tensors with torch's strides."""
        if layout == "contiguous":
            return result_tensor(value)
        if layout == "value":
            return value
        if layout == "kernel":
            return kernel_layout(value)
        if layout == "like":
            source = next(a for a in args if isinstance(a, Tensor))
            if source._contig:
                return result_tensor(value)
            strides = geometry.like_strides(source.shape, strides_of(source))
            return tree_laid_out(value, strides)
        specs = op.rule("shape")(*args)
        return with_specs(value, specs)


def kernel_layout(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([kernel_layout(item) for item in value])
    array = as_array(value)
    kind = dtypes.from_numpy(array.dtype)
    if array.flags.c_contiguous:
        return wrap(array, kind)
    return laid_out(array, tuple([step // kind.itemsize for step in array.strides]), kind)


def tree_laid_out(value: Any, strides: tuple[int, ...]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([tree_laid_out(item, strides) for item in value])
    array = as_array(value)
    return laid_out(array, strides, dtypes.from_numpy(array.dtype))


def with_specs(value: Any, specs: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        pairs = zip(value, specs, strict=True)
        return type(value)([with_specs(item, spec) for item, spec in pairs])
    array = as_array(value)
    return laid_out(array, strides_for(specs), dtypes.from_numpy(array.dtype))


# -- creation --------------------------------------------------------------------------------------


class Creation(Kind):
    """Ops that make a tensor from sizes, or after another tensor: the `device` argument says
    where, and values exist only on the CPU. Kernels see a tensor without array as it is."""

    def make_backend(self, op: Any) -> Callable[..., Any]:
        kernel = op.rule("kernel")
        names = op.argument_names
        device_at = names.index("device") if "device" in names else None
        layout_at = names.index("layout") if "layout" in names else None
        singles = op.tensor_positions
        layout = op.options.get("layout", self.layout)

        def backend(*args: Any) -> Any:
            place = None if device_at is None else args[device_at]
            source = args[singles[0]] if singles else None
            shapes_only = False
            if isinstance(source, Tensor):
                if source._ext is not None and source._ext.parts is not None:
                    return self.unusual(op, args)
                if place is None:
                    place = source.device
                shapes_only = source._array is None and (
                    place == source.device or source.handling_layer != 0
                )
            if shapes_only or (place is not None and place.type == "meta"):
                asked = None if layout_at is None else args[layout_at]
                if asked is not None and asked.name != "strided":
                    raise no_sparse_shells(op.base_name)
                return shell_of(self.run_shape(op, args), place)
            if place is not None and place.type != "cpu":
                refuse_device(place)
            if layout_at is not None and args[layout_at] is not None:
                of_layout = op.rules.get("layouts")
                if of_layout is not None and args[layout_at].name != "strided":
                    return of_layout(*args)
                refuse_layout(op, args[layout_at])
            arrays = list(args)
            for position in singles:
                tensor = args[position]
                if isinstance(tensor, Tensor) and tensor._array is not None:
                    arrays[position] = values_of(tensor)
            return self.finish(op, args, kernel(np, *arrays), layout)

        return backend


def refuse_device(place: Any) -> None:
    if place.type == "cuda":
        # torch: the class and words of a build without CUDA.
        raise AssertionError("Torch not compiled with CUDA enabled")
    raise NotImplementedError(f"no tensors can be made on device '{place}'; use 'cpu' or 'meta'")


def no_sparse_shells(name: str) -> MissingFeature:
    return MissingFeature(
        f"sparse tensors on device 'meta' ({name})", "Leave the device out, or use layout strided."
    )


def refuse_layout(op: Any, given: Any) -> None:
    if given.name != "strided":
        raise NotImplementedError(
            f"{op.base_name}(): layout {given} is not supported; only torch.strided tensors can be "
            "made this way"
        )


# -- pointwise -------------------------------------------------------------------------------------

# How operand dtypes decide the result's.
DEFAULT = "default"  # torch's type promotion
INT_TO_FLOAT = "int_to_float"  # integers and bools compute in the default dtype
BOOL = "bool"  # compute in the common dtype, answer bool
COMPLEX_TO_FLOAT = "complex_to_float"  # complex operands give a real result
LONG = "long"  # answer int64
HALVES = frozenset((dtypes.float16, dtypes.bfloat16))
# Dtypes to keep numbers in, in which an op computes only where it says so (`narrow=`).
PAIRS = frozenset((dtypes.complex32,))
NARROW = PAIRS | dtypes.FLOAT8


def operand_rank(tensor: Tensor) -> int:
    return DIM if tensor.dim() else ZERO_DIM


def working_dtype(op: Any, compute: dtype, args: tuple[Any, ...]) -> dtype:
    """What arrays of the computing dtype are brought to: halves are rounded at the end only,
    unless the op says that it rounds at every step (`native_halves`)."""
    if compute not in HALVES:
        return compute
    native = op.options.get("native_halves", False)
    return compute if native is True or (native and native(args)) else dtypes.float32


class Pointwise(Kind):
    """Elementwise ops: broadcasting, promotion, strides, in-place and out= forms derived."""

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
        "swapped": "the last operand decides about the result's strides",
        "weak_numbers": "the kernel takes Python numbers as they are",
    }

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "shape":
            return lambda *args: self.shape_of(op, args)
        if rule == "kernel":
            return op.options.get("scalar")
        if rule == "jvp":
            return derived_elementwise_jvp(op)
        if rule == "batch":
            return "elementwise"
        return None

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
        for value in args:
            if value.__class__ is complex and value.imag and common.category != dtypes.COMPLEX:
                raise RuntimeError(
                    f"value cannot be converted to type {cpp_type(common)} without overflow: "
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
        working = working_dtype(op, compute, args)
        if compute in NARROW:
            if compute not in op.options.get("narrow", ()):
                raise dtypes.unsupported(f"{op.base_name}_cpu", compute)
            working = dtypes.complex64 if compute in PAIRS else dtypes.float32
        arrays = list(args)
        contiguous = True
        as_is = op.options.get("unpromoted", ())
        # torch: only products and quotients keep a number at more than the operands' precision.
        rounded = compute is not working and not op.options.get("exact_scalars")
        number_dtype = compute if rounded and compute not in PAIRS else working
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
        for position in op.options.get("rounded_scalars", ()):
            arrays[position] = scalar_array(args[position], compute).astype(working.np)
        if working.category == dtypes.INTEGER:
            # A negative number wraps into an unsigned type, as C has it; NumPy refuses it.
            for position in op.options.get("factors", ()):
                arrays[position] = fill_number(args[position], working)
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
    if isinstance(value, complex) and kind.category != dtypes.COMPLEX:
        value = value.real
    if kind.category == dtypes.INTEGER:
        bits = kind.itemsize * 8
        number = int(value) & ((1 << bits) - 1)
        if kind.is_signed and number >> (bits - 1):
            number -= 1 << bits
        return np.array(number, kind.np)
    return np.array(value, kind.np)


def derived_elementwise_jvp(op: Any) -> Any:
    """Forward mode of an elementwise op: its Jacobian is diagonal, so the vjp formula serves."""
    return "elementwise" if op.rules.get("vjp") is not None else None


# -- views -----------------------------------------------------------------------------------------


class View(Kind):
    """Ops that alias their first argument. The `shape` rule answers (sizes, strides, offset), with
    a dtype as fourth entry for views that change it, or a list of these for several views."""

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "kernel":
            return op.rules.get("shape")
        if rule == "jvp":
            return "linear" if op.rules.get("vjp") is not None else None
        if rule == "batch":
            return lambda level, *args: batched_view(op, level, args)
        if rule == "inverse":
            return lambda source, changed, *args: scattered(op, source, changed, args)
        return None

    def make_backend(self, op: Any) -> Callable[..., Any]:
        shape = op.rule("shape")

        def backend(*args: Any) -> Any:
            source = args[0]
            if source._ext is not None and source._ext.parts is not None:
                return self.unusual(op, args)
            found = shape(*args)
            if isinstance(found, list):
                return [make_view(source, *entry) for entry in found]
            return make_view(source, *found)

        return backend


def scattered(op: Any, source: Any, changed: Any, args: tuple[Any, ...]) -> Any:
    """The inverse of a view that has none of its own: where its elements lie in memory."""
    several = any(entry.type.kind == "List" for entry in op._schema.returns)
    found = op.rule("shape")(source, *(args[1:] if several else args))
    sizes, strides, offset = (found[args[0]] if several else found)[:3]
    return source.as_strided_scatter(changed, sizes, strides, offset)


def batched_view(op: Any, level: Any, args: tuple[Any, ...]) -> Any:
    """A view of every sample at once, so that writes to it reach the samples."""
    batch = args[0]
    axis: Any = getattr(batch, "_axis", None)
    values = None if axis is None else batch._value
    if values is None or values._array is None or values._ext is not None or not level.size:
        return level.loop(op, args)
    if op.options.get("untracked"):
        if len(args) > 1:
            return level.loop(op, args)
        return level.wrap(level.below(op, (level.front(batch),)))

    def every() -> Any:
        found = op.rule("shape")(values.select(axis, 0), *args[1:])
        step = strides_of(values)[axis]
        made = [
            values.as_strided((level.size, *sizes), (step, *strides), offset)
            for sizes, strides, offset in (found if isinstance(found, list) else [found])
        ]
        return made if isinstance(found, list) else made[0]

    return level.wrap(level.run(every))


def make_view(
    source: Tensor, sizes: Any, strides: Any, offset: Any, kind: dtype | None = None
) -> Tensor:
    """An alias of `source` with another geometry; base and version are recorded above."""
    if kind is None:
        kind = source._dtype
    ext = source._ext
    if ext is None:
        storage = source._storage
        if storage is None:
            storage = storage_of(source)
        if 0 not in sizes and storage.nbytes_:
            width = kind.itemsize
            steps = strides if width == 1 else [step * width for step in strides]
            array = ndarray(sizes, kind.np, storage.buffer, offset * width, steps)
            result = wrap(array, kind)
            result._storage = storage
            result._offset = offset
            result._contig = strides == geometry.contiguous_strides(sizes)
            return result
    if source._array is None:
        result = shell(tuple(sizes), strides, kind, source.device, offset)
        if ext is not None and result._ext is not None:
            result._ext.conj, result._ext.neg, result._ext.layout = ext.conj, ext.neg, ext.layout
            result._ext.inference = ext.inference
        result._storage = storage_of(source)
        return result
    sizes = tuple(sizes)
    if ext is not None and ext.sizes is not None:
        ext = ext.copy()
        ext.sizes = ext.strides = None
        if not (ext.conj or ext.neg or ext.inference):
            ext = None
    storage = storage_of(source)
    array = alias_array(storage, kind, sizes, strides, offset)
    result = wrap(array, kind)
    result._storage = storage
    result._offset = offset
    result._ext = ext
    if array.size == 0:
        result._contig = False
        result._ext = Ext() if ext is None else ext.copy()
        result._ext.sizes, result._ext.strides = sizes, tuple(strides)
    else:
        result._contig = tuple(strides) == geometry.contiguous_strides(sizes)
    return result


POINTWISE = Pointwise("POINTWISE", "elementwise")
VIEW = View("VIEW")
REDUCTION = Kind("REDUCTION")
GATHER = Kind("GATHER")
SCATTER = Kind("SCATTER")
CONTRACTION = Kind("CONTRACTION")
WINDOW = Kind("WINDOW")
CREATION = Creation("CREATION")
RANDOM = Creation("RANDOM")
SORT = Kind("SORT")
LINALG = Kind("LINALG")
OPAQUE = Kind("OPAQUE")
