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
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rushlight.arrays.numpy_ import as_array
from rushlight.base.errors import MissingFeature, error
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import cpu
from rushlight.core.dtype import dtype
from rushlight.core.storage import Storage
from rushlight.core.tensor import (
    Tensor,
    Unusual,
    alias_array,
    shell,
    storage_of,
    strides_of,
    values_of,
    wrap,
    wrap_strided,
)

__all__ = [
    "CONTRACTION",
    "CREATION",
    "GATHER",
    "LINALG",
    "LOSS",
    "NATIVE",
    "OPAQUE",
    "RANDOM",
    "REARRANGEMENT",
    "REDUCTION",
    "SCAN",
    "SCATTER",
    "SORT",
    "STATEMENT",
    "VIEW",
    "WINDOW",
    "Kind",
    "Spec",
]

ndarray = np.ndarray
# Arguments that say which dims of the first tensor are meant.
DIMS = frozenset(("dim", "dim0", "dim1", "dim2", "dims", "dimension"))


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
    return geometry.contiguous_strides(spec.shape) if spec.strides is None else spec.strides


def shell_of(spec: Any, place: Any) -> Any:
    """Shape-rule answers as tensors without memory."""
    if isinstance(spec, Spec):
        return shell(spec.shape, spec.strides, spec.dtype, place)
    if spec is None:
        return None
    items = [shell_of(item, place) for item in spec]
    return items if isinstance(spec, list) else tuple(items)


def lay_out(array: Any, strides: tuple[int, ...], dtype: dtype) -> Tensor:
    """A fresh array's values in memory with exactly these strides."""
    width = dtype.itemsize
    wanted = tuple([step * width for step in strides])
    if array.flags.c_contiguous and strides == geometry.contiguous_strides(array.shape):
        return wrap(array.reshape(-1).reshape(array.shape) if 1 in array.shape else array, dtype)
    storage = Storage(np.empty(geometry.storage_extent(array.shape, strides, 0) * width, np.uint8))
    target = alias_array(storage, dtype, array.shape, strides, 0)
    if target.strides != wanted and array.size:
        raise AssertionError((target.strides, wanted))
    target[...] = array
    result = wrap_strided(target, dtype, storage)
    if array.size == 0:
        unusual = result._unusual = Unusual()
        unusual.sizes, unusual.strides = tuple(array.shape), strides
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
    if (
        isinstance(value, Tensor)
        and value._unusual is not None
        and (value._unusual.conj or value._unusual.neg)
    ):
        array = values_of(value)
        return lay_out(array, geometry.like_strides(array.shape, strides_of(value)), value._dtype)
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


def is_lazy(tensor: Any) -> bool:
    """Whether a tensor's array is missing or does not say its values as they are."""
    unusual = None if tensor is None else tensor._unusual
    return unusual is not None and (
        tensor._array is None or unusual.conj or unusual.neg or unusual.parts is not None
    )


def is_unusual(args: tuple[Any, ...]) -> bool:
    return any([is_lazy(tensor) for tensor in tensors_in(args)])


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
        cls.direct = cls.make_backend is Kind.make_backend and cls.finish is Kind.finish

    def __init__(
        self,
        name: str,
        layout: str = "contiguous",
        *,
        along_dims: bool = False,
        recompute: bool = False,
    ) -> None:
        self.name = name
        self.layout = layout
        # Whether dims that a call names are all that it does not map over.
        self.along_dims = along_dims
        # Whether computing a result again is cheaper than keeping it for a backward pass.
        self.recompute = recompute
        if layout == "elementwise":
            self.direct = False

    @cached_property
    def checked(self) -> Checked:
        """This kind for ops whose shape rule checks the call before the kernel runs."""
        return Checked(self)

    def __repr__(self) -> str:
        return self.name

    def derive(self, op: Any, rule: str) -> Any:
        """A rule that follows from the kind; None when nothing does. Batching and lowering are
        named: `opset.batching` and `codegen.lowerings` hold the methods."""
        if rule == "batch":
            return self.batch_method(op)
        if rule == "lower":
            return self.lower_method(op)
        if rule == "sparse" and op.options.get("zero_preserving"):
            return lambda *args: map_sparse_values(op, *args)
        return None

    def batch_method(self, op: Any) -> str | None:
        if "trailing" in op.options:
            return "trailing"
        if "dynamic_output_shape" in op.tags:
            return "dynamic"
        return "along" if self.along_dims and DIMS.intersection(op.argument_names) else None

    def lower_method(self, op: Any) -> str | None:
        return None

    def run_shape(self, op: Any, args: tuple[Any, ...]) -> Any:
        shape = op.rule("shape")
        if shape is None:
            raise error("RL0401", NotImplementedError, op=op.name())
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
        if any(t._unusual is not None and t._unusual.parts is not None for t in tensors):
            sparse = (op.rule if op.functional is None else op.rules.get)("sparse")
            if sparse is None:
                layout = next(
                    t.layout for t in tensors if t._unusual is not None and t._unusual.parts
                )
                raise error("RL0503", NotImplementedError, op=op.name(), layout=layout)
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
                raise error("RL0404", NotImplementedError, op=name)

            return missing
        singles = op.tensor_positions
        lists = op.list_positions
        layout = op.options.get("layout", self.layout)

        def backend(*args: Any) -> Any:
            arrays = list(args)
            for position in singles:
                tensor = args[position]
                if isinstance(tensor, Tensor):
                    if tensor._unusual is not None and is_unusual(args):
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
            if source._is_contiguous:
                return result_tensor(value)
            strides = geometry.like_strides(source.shape, strides_of(source))
            return tree_laid_out(value, strides)
        if layout == "elementwise":
            return elementwise_layout(args, value)
        specs = op.rule("shape")(*args)
        return with_specs(value, specs)

    def compute_checked(self, op: Any, kernel: Any, arrays: list[Any], specs: Any) -> Any:
        """(kernel answer, specs to lay it out by) of a call that the shape rule has checked."""
        return kernel(np, *arrays), specs


class Checked(Kind):
    """Another kind's ops with the shape rule run first, which checks the call and says how the
    kernel's answer is laid out. What the other kind derives holds here too."""

    def __init__(self, of: Kind) -> None:
        super().__init__(of.name, recompute=of.recompute)
        self.of = of
        self.options = of.options  # type: ignore[misc]

    def derive(self, op: Any, rule: str) -> Any:
        return self.of.derive(op, rule)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        shape, kernel = op.rule("shape"), op.rule("kernel")
        singles, lists = op.tensor_positions, op.list_positions
        compute = self.of.compute_checked

        def backend(*args: Any) -> Any:
            arrays = list(args)
            for position in singles:
                tensor = args[position]
                if isinstance(tensor, Tensor):
                    if tensor._unusual is not None and is_lazy(tensor):
                        return self.unusual(op, args)
                    arrays[position] = tensor._array
            for position in lists:
                if args[position] is not None:
                    if is_unusual(args):
                        return self.unusual(op, args)
                    arrays[position] = [None if t is None else t._array for t in args[position]]
            specs = shape(*args)
            return with_specs(*compute(op, kernel, arrays, specs))

        return backend


class Native(Kind):
    """Ops whose kernel takes tensors as they are and answers what the op returns."""

    options: ClassVar[dict[str, str]] = {
        "needs_values": "why it cannot run on tensors without values",
    }

    def derive(self, op: Any, rule: str) -> Any:
        return None if op.functional is None else op.functional.rule(rule)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        kernel: Callable[..., Any] = op.rules["kernel"]
        reason = op.options.get("needs_values")
        if reason is None:
            return kernel
        name = op.name()

        def backend(*args: Any) -> Any:
            for tensor in tensors_in(args):
                if tensor._array is None and (
                    tensor._unusual is None or tensor._unusual.parts is None
                ):
                    raise error("RL0505", NotImplementedError, op=name, reason=reason)
            return kernel(*args)

        return backend


def elementwise_layout(args: tuple[Any, ...], value: Any) -> Tensor:
    """A kernel's answer laid out in memory as an elementwise result of the tensors would be."""
    array = as_array(value)
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    if not array.ndim or all([tensor._is_contiguous for tensor in tensors]):
        result: Tensor = result_tensor(array)
        return result
    # Tensors without dims, such as the gradient of a reduced loss, have no say in the layout.
    operands = [(tuple(t.shape), strides_of(t)) for t in tensors if t.dim()]
    strides = geometry.elementwise_strides(array.shape, operands)
    return lay_out(array, strides, dtypes.from_numpy(array.dtype))


def map_sparse_values(op: Any, *args: Any) -> Any:
    from rushlight.opset.sparse.math import map_values

    return map_values(op, *args)


def kernel_layout(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([kernel_layout(item) for item in value])
    array = as_array(value)
    dtype = dtypes.from_numpy(array.dtype)
    if array.flags.c_contiguous:
        return wrap(array, dtype)
    return lay_out(array, tuple([step // dtype.itemsize for step in array.strides]), dtype)


def tree_laid_out(value: Any, strides: tuple[int, ...]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([tree_laid_out(item, strides) for item in value])
    array = as_array(value)
    return lay_out(array, strides, dtypes.from_numpy(array.dtype))


def with_specs(value: Any, specs: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        pairs = zip(value, specs, strict=True)
        return type(value)([with_specs(item, spec) for item, spec in pairs])
    array = as_array(value)
    return lay_out(array, strides_for(specs), dtypes.from_numpy(array.dtype))


# -- reductions and products -----------------------------------------------------------------------


class Reduction(Kind):
    """Ops that fold dims: all of them, those of a `dim` argument, or its one dim."""

    options: ClassVar[dict[str, str]] = {
        "over_dim": "(name, overload) of the op with a dim that one without amounts to",
        "empty_dims_are_all": "False where an empty list of dims folds nothing",
        "fold": "sum, prod, mean, max, min, any, all or count, where it is no more than that",
        "answers": "function (dtype of the operand, `dtype` argument) that says the result's, "
        "where the shape follows from dims alone",
    }

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "shape" and "answers" in op.options:
            return lambda *args: self.shape_of(op, args)
        return super().derive(op, rule)

    def shape_of(self, op: Any, args: tuple[Any, ...]) -> Spec:
        source = args[0]
        given = dict(zip(op.argument_names, args, strict=True))
        dtype = op.options["answers"](source._dtype, given.get("dtype"))
        dim = given.get("dim")
        if type(dim) is tuple and not dim and not op.options.get("empty_dims_are_all", True):
            return Spec(source.shape, dtype)
        dims = (dim,) if type(dim) is int else dim
        return Spec(geometry.reduced_shape(source.shape, dims, given.get("keepdim", False)), dtype)

    def batch_method(self, op: Any) -> str | None:
        return "reduction"

    def lower_method(self, op: Any) -> str | None:
        return "folded" if "fold" in op.options else None


class Contraction(Kind):
    """Products."""

    options: ClassVar[dict[str, str]] = {
        "ranks": "numbers of dims of the two factors of a matrix product",
        "conjugates": "whether the first factor is conjugated",
    }

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "jvp" and "ranks" in op.options:
            return "multilinear"
        return super().derive(op, rule)

    def batch_method(self, op: Any) -> str | None:
        if "ranks" not in op.options:
            return None
        return "multiplied" if len(op.tensor_positions) == 2 else "multiplied_and_added"

    def lower_method(self, op: Any) -> str | None:
        return None if 1 in op.options.get("ranks", (1,)) else self.batch_method(op)


class Loss(Kind):
    """An elementwise map of its tensors followed by a reduction."""

    def batch_method(self, op: Any) -> str | None:
        return "loss" if "reduction" in op.argument_names else None


# -- windows and matrices --------------------------------------------------------------------------


class Window(Kind):
    """Ops on windows that slide over the last dims."""

    options: ClassVar[dict[str, str]] = {
        "fold": "number of dims of a batch: the samples of a vmap become one",
    }

    def batch_method(self, op: Any) -> str | None:
        return "folded" if "fold" in op.options else None


# What NumPy's functions on matrices take.
COMPUTABLE = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))


class Linalg(Kind):
    """Ops on batches of matrices."""

    options: ClassVar[dict[str, str]] = {
        "ranks": "numbers of dims that a matrix, or what goes with it, has in each tensor argument",
        "any_dtype": "the kernel takes every dtype as it is",
    }

    def batch_method(self, op: Any) -> str | None:
        return "over_matrices" if "ranks" in op.options else None

    def compute_checked(self, op: Any, kernel: Any, arrays: list[Any], specs: Any) -> Any:
        single = dtypes.from_numpy(arrays[0].dtype) not in COMPUTABLE
        if single and not op.options.get("any_dtype", False):
            return compute_in_single(kernel, arrays, specs)
        value = kernel(np, *arrays)
        if isinstance(value, tuple):
            # Where values decide about sizes, the shape rule tells those of the usual case.
            specs = tuple(map(fitted, specs, value))
        return value, specs


def fitted(spec: Spec, array: Any) -> Spec:
    return spec if spec.shape == array.shape else Spec(array.shape, spec.dtype)


def compute_in_single(kernel: Any, arrays: list[Any], specs: Any) -> tuple[Any, Any]:
    """The results for empty matrices of a dtype that NumPy's functions do not take."""
    dtype = arrays[0].dtype
    single: list[Any] = [
        item.astype(np.float32) if isinstance(item, np.ndarray) and item.dtype == dtype else item
        for item in arrays
    ]
    value = kernel(np, *single)
    if not isinstance(value, tuple):
        return value.astype(specs.dtype.np), specs
    pairs = zip(value, specs, strict=True)
    return tuple([item.astype(spec.dtype.np) for item, spec in pairs]), specs


# -- creation --------------------------------------------------------------------------------------


class Creation(Kind):
    """Ops that make a tensor from sizes, or after another tensor: the `device` argument says
    where, and values exist only on the CPU. Kernels see a tensor without array as it is."""

    options: ClassVar[dict[str, str]] = {
        "fill": "the number that every element is, or the argument that says it",
    }

    def batch_method(self, op: Any) -> str | None:
        if not op.tensor_positions or "nondeterministic_seeded" in op.tags:
            return None
        return "resized" if "size" in op.argument_names else "straight"

    def lower_method(self, op: Any) -> str | None:
        return "filled" if "fill" in op.options else None

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
                if source._unusual is not None and source._unusual.parts is not None:
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
        raise error("RL1209", AssertionError)
    raise error("RL1202", NotImplementedError, device=place)


def no_sparse_shells(name: str) -> MissingFeature:
    return MissingFeature(f"sparse tensors on device 'meta' ({name})", code="RL0506")


def refuse_layout(op: Any, given: Any) -> None:
    if given.name != "strided":
        raise error("RL0504", NotImplementedError, op=op.base_name, layout=given)


# -- views -----------------------------------------------------------------------------------------


class View(Kind):
    """Ops that alias their first argument. The `shape` rule answers (sizes, strides, offset), with
    a dtype as fourth entry for views that change it, or a list of these for several views."""

    options: ClassVar[dict[str, str]] = {
        "reshapes": "its strides follow from its sizes and those of its operand",
    }

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "kernel":
            return op.rules.get("shape")
        if rule == "jvp":
            return "linear" if op.rules.get("vjp") is not None else None
        if rule == "inverse":
            return lambda source, changed, *args: scattered(op, source, changed, args)
        return super().derive(op, rule)

    def batch_method(self, op: Any) -> str | None:
        return super().batch_method(op) or "view"

    def lower_method(self, op: Any) -> str | None:
        return "view"

    def make_backend(self, op: Any) -> Callable[..., Any]:
        shape = op.rule("shape")

        def backend(*args: Any) -> Any:
            source = args[0]
            if source._unusual is not None and source._unusual.parts is not None:
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


def make_view(
    source: Tensor, sizes: Any, strides: Any, offset: Any, dtype: dtype | None = None
) -> Tensor:
    """An alias of `source` with another geometry; base and version are recorded above."""
    if dtype is None:
        dtype = source._dtype
    unusual = source._unusual
    if unusual is None:
        storage = source._storage
        if storage is None:
            storage = storage_of(source)
        if 0 not in sizes and storage.nbytes_:
            width = dtype.itemsize
            steps = strides if width == 1 else [step * width for step in strides]
            array = ndarray(sizes, dtype.np, storage.buffer, offset * width, steps)
            result = wrap(array, dtype)
            result._storage = storage
            result._offset = offset
            result._is_contiguous = strides == geometry.contiguous_strides(sizes)
            return result
    if source._array is None:
        result = shell(tuple(sizes), strides, dtype, source.device, offset)
        if unusual is not None and result._unusual is not None:
            result._unusual.conj, result._unusual.neg, result._unusual.layout = (
                unusual.conj,
                unusual.neg,
                unusual.layout,
            )
            result._unusual.inference = unusual.inference
        result._storage = storage_of(source)
        return result
    sizes = tuple(sizes)
    if unusual is not None and unusual.sizes is not None:
        unusual = unusual.copy()
        unusual.sizes = unusual.strides = None
        if not (unusual.conj or unusual.neg or unusual.inference):
            unusual = None
    storage = storage_of(source)
    array = alias_array(storage, dtype, sizes, strides, offset)
    result = wrap(array, dtype)
    result._storage = storage
    result._offset = offset
    result._unusual = unusual
    if array.size == 0:
        result._is_contiguous = False
        result._unusual = Unusual() if unusual is None else unusual.copy()
        result._unusual.sizes, result._unusual.strides = sizes, tuple(strides)
    else:
        result._is_contiguous = tuple(strides) == geometry.contiguous_strides(sizes)
    return result


VIEW = View("VIEW", along_dims=True, recompute=True)
REDUCTION = Reduction("REDUCTION", recompute=True)
# What accumulates along a dim.
SCAN = Kind("SCAN", along_dims=True)
GATHER = Kind("GATHER", along_dims=True, recompute=True)
SCATTER = Kind("SCATTER", along_dims=True)
# Whole elements move.
REARRANGEMENT = Kind("REARRANGEMENT", along_dims=True, recompute=True).checked
CONTRACTION = Contraction("CONTRACTION")
WINDOW = Window("WINDOW")
LOSS = Loss("LOSS", "elementwise")
# Ops that return nothing: the kernel raises where a statement does not hold.
STATEMENT = Kind("STATEMENT", "value")
CREATION = Creation("CREATION", recompute=True)
RANDOM = Creation("RANDOM")
SORT = Kind("SORT", along_dims=True)
LINALG = Linalg("LINALG")
NATIVE = Native("NATIVE", "value")
OPAQUE = Kind("OPAQUE")
