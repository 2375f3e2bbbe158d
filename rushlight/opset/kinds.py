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
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from rushlight.base.errors import MissingFeature, error
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import cpu
from rushlight.core.dtype import dtype
from rushlight.core.gradrule import parameters
from rushlight.core.tensor import Tensor, shell, sizes_of, strides_of, values_of, wrap
from rushlight.opset.large import array_kernel, by_door, is_large, is_lowered, lowered
from rushlight.opset.results import (
    Spec,
    elementwise_layout,
    kernel_layout,
    lay_out,
    make_view,
    no_memory,
    read_sizes,
    result_tensor,
    shell_of,
    strides_for,
    tree_laid_out,
    with_specs,
    wrapped,
)  # fmt: skip

__all__ = [
    "CONTRACTION", "CREATION", "GATHER", "LINALG", "LOSS", "NATIVE", "OPAQUE", "RANDOM",
    "REARRANGEMENT", "REDUCTION", "SCAN", "SCATTER", "SORT", "STATEMENT", "VIEW", "WINDOW", "Kind",
    "Spec",
]  # fmt: skip

ndarray = np.ndarray
# Arguments that say which dims of the first tensor are meant.
DIMS = frozenset(("dim", "dim0", "dim1", "dim2", "dims", "dimension"))


def resolved(value: Any) -> Any:
    """A tensor whose lazy bits are applied; anything else as it is."""
    if (
        isinstance(value, Tensor)
        and value._unusual is not None
        and (value._unusual.conj or value._unusual.neg)
    ):
        if value._array is None:
            sizes = sizes_of(value)
            strides = geometry.like_strides(sizes, strides_of(value))
            return shell(sizes, strides, value._dtype, value.device)
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

    # Whether backends are no more than kernels, so that a stub may call these itself.
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

    def may_raise(self, op: Any) -> bool:
        """Whether ops of this kind raise for some values, whatever sizes and dtypes are."""
        return False

    def is_direct(self, op: Any) -> bool:
        return self.direct and not op.options.get("takes_tensors")

    @cached_property
    def checked(self) -> Checked:
        """This kind for ops whose shape rule checks the call before the kernel runs."""
        return Checked(self)

    def __repr__(self) -> str:
        return self.name

    def derive(self, op: Any, rule: str) -> Any:
        """A rule that follows from the kind; None when nothing does. Batching and lowering are
        named: `opset.batching` and `codegen.lowerings` hold the methods."""
        if rule == "shape":
            specs = self.specs_of(op)
            return specs if specs is None else with_check(op, specs)
        if rule == "batch":
            return self.batch_method(op)
        if rule == "lower":
            return self.lower_method(op)
        if rule == "sparse" and op.options.get("zero_preserving"):
            return lambda *args: map_sparse_values(op, *args)
        return None

    def specs_of(self, op: Any) -> Callable[..., Any] | None:
        """A function of bound arguments that says what results are, where that follows."""
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
        kernel = op.array_kernel
        if kernel is None:
            name = op.name()

            def missing(*args: Any) -> Any:
                raise error("RL0404", NotImplementedError, op=name)

            return missing
        if op.options.get("takes_tensors"):
            return kernel  # type: ignore[no-any-return]
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

    def array_kernel(self, op: Any) -> Any:
        """The kernel that backends and stubs call."""
        return array_kernel(op)

    def compute_checked(self, op: Any, kernel: Any, arrays: list[Any], specs: Any) -> Any:
        """(kernel answer, specs to lay it out by) of a call that the shape rule has checked."""
        return kernel(np, *arrays), specs


def with_check(op: Any, specs: Callable[..., Any]) -> Callable[..., Any]:
    """A shape rule: what the op `requires` of the arguments which that names, then `specs`."""
    if "requires" not in op.rules:
        return specs
    check = by_name(op, op.rules["requires"])

    def shape(*args: Any) -> Any:
        check(args)
        return specs(*args)

    return shape


def by_name(op: Any, function: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Any]:
    """A function of some of an op's arguments, which it names, as one of all bound arguments."""
    places = [op.argument_names.index(name) for name in parameters(function)]
    return lambda args: function(*[args[place] for place in places])


class Checked(Kind):
    """Another kind's ops with the shape rule run first, which checks the call and says how the
    kernel's answer is laid out. What the other kind derives holds here too."""

    def __init__(self, of: Kind) -> None:
        super().__init__(of.name, recompute=of.recompute)
        self.of = of
        self.options = of.options  # type: ignore[misc]

    def may_raise(self, op: Any) -> bool:
        return self.of.may_raise(op)

    def derive(self, op: Any, rule: str) -> Any:
        return self.of.derive(op, rule)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        if op.options.get("takes_tensors"):
            return super().make_backend(op)
        shape, kernel = op.rule("shape"), op.array_kernel
        singles, lists = op.tensor_positions, op.list_positions
        compute = self.of.compute_checked
        doors = op.native_kernels.doors

        def backend(*args: Any) -> Any:
            arrays = list(args)
            for position in singles:
                tensor = args[position]
                if isinstance(tensor, Tensor):
                    if tensor._unusual is not None and is_lazy(tensor):
                        return self.unusual(op, args)
                    arrays[position] = tensor._array
            for position in lists:
                items = args[position]
                if items is not None:
                    if any([t is not None and t._unusual is not None for t in items]) and (
                        is_unusual(args)
                    ):
                        return self.unusual(op, args)
                    arrays[position] = [None if t is None else t._array for t in items]
            # A door takes what the shape rule has let pass before, and lays its answer out.
            found = by_door(op, arrays) if doors else None
            if found is not None:
                return wrapped(found)
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


def map_sparse_values(op: Any, *args: Any) -> Any:
    from rushlight.opset.sparse.math import map_values

    return map_values(op, *args)


# -- lanes -----------------------------------------------------------------------------------------


def same_dtype(source: dtype, given: Any) -> dtype:
    """`answers` of an op that keeps the dtype of its operand."""
    return source


def value_and_index(source: dtype, given: Any) -> tuple[dtype, dtype]:
    """`answers` of an op that says values and where they were."""
    return source, dtypes.int64


class Lanes(Kind):
    """Ops on what lies along the dims that a call names, or along all. Results are like the
    operand; with an argument `k` they have that many elements along the dim, with `keepdim`, or
    without `dim`, one."""

    options: ClassVar[dict[str, str]] = {
        "answers": "function (dtype of the operand, `dtype` argument) that says the result's, or "
        "those of several; where results are `values` and `indices`, it need not be stated",
        "empty_dims_are_all": "False where an empty list of dims folds nothing",
    }
    # Whether every op of the kind folds its dims.
    folds = False

    def specs_of(self, op: Any) -> Callable[..., Any] | None:
        usual = value_and_index if op.return_names == ["values", "indices"] else None
        answers = op.options.get("answers", usual)
        if answers is None:
            return None
        places = {name: place for place, name in enumerate(op.argument_names)}
        dim_at, k_at, keepdim_at = places.get("dim"), places.get("k"), places.get("keepdim")
        folds = self.folds or dim_at is None or keepdim_at is not None
        none_is_all = op.options.get("empty_dims_are_all", True)
        like = op.options.get("layout") == "like"

        def sizes_of(args: tuple[Any, ...]) -> Any:
            sizes = args[0].shape
            dim: Any = None if dim_at is None else args[dim_at]
            if folds:
                if dim == () and not none_is_all:
                    return sizes
                dims = (dim,) if type(dim) is int else dim
                return geometry.reduced_shape(
                    sizes, dims, keepdim_at is not None and args[keepdim_at]
                )
            axis = geometry.wrap_dim(dim, len(sizes))
            if k_at is None or not sizes:
                return sizes
            return (*sizes[:axis], args[k_at], *sizes[axis + 1 :])

        def specs(*args: Any) -> Any:
            found = answers(args[0]._dtype, args[places["dtype"]] if "dtype" in places else None)
            sizes = sizes_of(args)
            steps = geometry.like_strides(sizes, strides_of(args[0])) if like else None
            if type(found) is tuple:
                return tuple([Spec(sizes, each, steps) for each in found])
            return Spec(sizes, found, steps)

        return specs


class Reduction(Lanes):
    """Ops that fold dims: all of them, those of a `dim` argument, or its one dim."""

    options: ClassVar[dict[str, str]] = {
        **Lanes.options,
        "over_dim": "(name, overload) of the op with a dim that one without amounts to",
        "fold": "sum, prod, mean, max, min, any, all or count, where it is no more than that",
    }
    folds = True

    def batch_method(self, op: Any) -> str | None:
        return "reduction"

    def lower_method(self, op: Any) -> str | None:
        return "folded" if "fold" in op.options else None


# -- products and matrices -------------------------------------------------------------------------


# What NumPy's functions on matrices take.
COMPUTABLE = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))


class Contraction(Kind):
    """Products. A tensor before the factors is added, and expands to the result."""

    options: ClassVar[dict[str, str]] = {
        "product": "sizes of a matrix product's two factors and result, as `Sizes` has them",
        "sizes": "the same of what is no plain product",
        "conjugates": "whether the first factor is conjugated",
    }

    def specs_of(self, op: Any) -> Callable[..., Any] | None:
        text = op.options.get("product", op.options.get("sizes"))
        if text is None:
            return None
        sizes, places = read_sizes(text), op.tensor_positions
        factors = places[-len(sizes.operands) :]
        addend = places[0] if len(factors) < len(places) else None

        def specs(*args: Any) -> Any:
            spec = sizes.specs([args[place] for place in factors])
            if addend is not None:
                check_expands(args[addend].shape, spec.shape, spec.dtype)
            return spec

        return specs

    def derive(self, op: Any, rule: str) -> Any:
        if rule == "jvp" and "product" in op.options:
            return "multilinear"
        return super().derive(op, rule)

    def batch_method(self, op: Any) -> str | None:
        # A sum over the batch as well is none of the products that a vmap multiplies as one.
        if "product" not in op.options or factor_ranks(op) is None:
            return None
        return "multiplied" if len(op.tensor_positions) == 2 else "multiplied_and_added"

    def lower_method(self, op: Any) -> str | None:
        return None if 1 in (factor_ranks(op) or (1,)) else self.batch_method(op)


def factor_ranks(op: Any) -> Any:
    """The numbers of dims of two factors of which one size is summed over; None for others."""
    sizes = read_sizes(op.options.get("product", ""))
    first, *rest = sizes.operands
    summed = [letter for letter in first if letter not in sizes.results[0][0]]
    return sizes.ranks if rest and len(summed) == 1 else None


def check_expands(sizes: Any, wanted: Any, dtype: Any) -> None:
    found = dtypes.from_numpy(dtype) if isinstance(dtype, np.dtype) else dtype
    name = f"torch.{found.scalar_type_name}Tensor"
    geometry.expand_geometry(tuple(sizes), (0,) * len(sizes), wanted, name)


class Linalg(Kind):
    """Ops on batches of matrices."""

    options: ClassVar[dict[str, str]] = {
        "sizes": "those of matrices, and of what goes with them, in tensor arguments and results, "
        "as `Sizes` has them; without results where these depend on more",
        "any_dtype": "the kernel takes every dtype as it is",
    }

    def specs_of(self, op: Any) -> Callable[..., Any] | None:
        text = op.options.get("sizes", "")
        if "->" not in text:
            return None
        sizes, places = read_sizes(text), op.tensor_positions
        return lambda *args: sizes.specs([args[place] for place in places])

    def batch_method(self, op: Any) -> str | None:
        return "over_matrices" if "sizes" in op.options else None

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


# -- losses and windows ----------------------------------------------------------------------------


class Loss(Kind):
    """An elementwise map of its tensors followed by a reduction."""

    def batch_method(self, op: Any) -> str | None:
        return "loss" if "reduction" in op.argument_names else None


class Window(Kind):
    """Ops on windows that slide over the last dims. With `spatial`, the sizes of results follow:
    before these dims they are the operand's, in them `output_size`, or what `places` says. A
    gradient is like the operand, and a second result says where the first was found."""

    options: ClassVar[dict[str, str]] = {
        "fold": "number of dims of a batch, to which the samples of a vmap are joined; None where "
        "they cannot be (two more than `spatial`, where the op has no `input_size`)",
        "spatial": "number of dims that windows slide over",
        "places": "function of arguments which it names, that says the sizes of these dims",
        "strides": "function (operand, sizes) that says those of results (contiguous)",
    }

    def specs_of(self, op: Any) -> Callable[..., Any] | None:
        count, names = op.options.get("spatial"), op.argument_names
        if count is None:
            return None
        strides = op.options.get("strides") or (lambda source, sizes: None)
        given = op.options.get("places")
        find: Callable[[tuple[Any, ...]], Any]
        if names[0] == "grad_output":
            find = itemgetter(names.index("input_size") if "input_size" in names else 1)
        else:
            find = by_name(op, given) if given else itemgetter(names.index("output_size"))

        def specs(*args: Any) -> Any:
            source, sizes = args[0], find(args)
            if isinstance(sizes, Tensor):
                source, sizes = sizes, sizes.shape
            elif names[0] != "grad_output":
                sizes = (*source.shape[:-count], *sizes)
            steps = strides(source, sizes)
            first = Spec(sizes, source._dtype, steps)
            if len(op._schema.returns) == 1:
                return first
            return first, Spec(sizes, dtypes.int64, steps)

        return specs

    def batch_method(self, op: Any) -> str | None:
        return None if batch_rank(op) is None else "folded"


def batch_rank(op: Any) -> Any:
    """The number of dims of a window op's batch to which samples are joined; None without one."""
    spatial = None if "input_size" in op.argument_names else op.options.get("spatial")
    return op.options.get("fold", None if spatial is None else spatial + 2)


# -- places ----------------------------------------------------------------------------------------


def takes_indices(op: Any) -> bool:
    """Whether a tensor says where an op reads or writes: places that may not be there."""
    return not {"index", "indices"}.isdisjoint(op.argument_names)


class Gather(Kind):
    """Ops that read places of their first tensor, which the second names."""

    options: ClassVar[dict[str, str]] = {
        "picks": "what an index stands for: element, or row of the dim that is named, or the first",
    }

    def may_raise(self, op: Any) -> bool:
        return takes_indices(op)

    def specs_of(self, op: Any) -> Callable[..., Any] | None:
        picks, index_at = op.options.get("picks"), op.tensor_positions[1:2]
        by_dim = "dim" in op.argument_names

        def specs(*args: Any) -> Spec:
            source, index = args[0], args[index_at[0]]
            sizes, places = tuple(source.shape), tuple(index.shape)
            if picks == "element" or not sizes:
                return Spec(places if picks == "element" else (), source._dtype)
            axis = geometry.wrap_dim(args[1], len(sizes)) if by_dim else 0
            # A number names a row too.
            rows = (index.numel(),) if by_dim else places
            return Spec((*sizes[:axis], *rows, *sizes[axis + 1 :]), source._dtype)

        return None if picks is None else specs


class Scatter(Kind):
    """Ops that write to places: of zeros of the sizes `input_sizes`, or of their operand."""

    options: ClassVar[dict[str, str]] = {
        "writes": "the kernel writes into its first array: a copy of the operand, which the result "
        "is like, and in `name_` the operand itself",
    }

    def may_raise(self, op: Any) -> bool:
        return takes_indices(op)

    def specs_of(self, op: Any) -> Callable[..., Any] | None:
        if op.argument_names[1] == "input_sizes":
            return lambda grad, sizes, *rest: Spec(sizes, grad._dtype)
        like = op.options.get("layout") == "like"

        def specs(source: Any, *rest: Any) -> Spec:
            sizes = tuple(source.shape)
            if source._is_contiguous or not like:
                return Spec(sizes, source._dtype)
            return Spec(sizes, source._dtype, geometry.like_strides(sizes, strides_of(source)))

        return specs if op.options.get("writes") else None

    def is_direct(self, op: Any) -> bool:
        return not (op.options.get("writes") or op.options.get("takes_tensors"))

    def make_backend(self, op: Any) -> Callable[..., Any]:
        if not op.options.get("writes"):
            return super().make_backend(op)
        shape, kernel, has_loops = op.rule("shape"), op.rules["kernel"], is_lowered(op)

        def backend(*args: Any) -> Any:
            if is_unusual(args):
                return self.unusual(op, args)
            found = by_door(op, arrays_of(args)) if op.native_kernels.doors else None
            if found is not None:
                return wrapped(found)
            spec = shape(*args)
            strides = strides_for(spec)
            is_row_major = strides == geometry.contiguous_strides(spec.shape)
            if has_loops and is_row_major and is_large(op, arrays := tuple(arrays_of(args))):
                found = lowered(op, arrays)
                if found is not None:
                    return wrapped(found)
            array = args[0]._array
            if array.shape != spec.shape:
                array = np.broadcast_to(array, spec.shape)
            if is_row_major:
                target = wrap(array.copy(), spec.dtype)
            else:
                target = lay_out(array, strides, spec.dtype)
            kernel(np, target._array, *arrays_of(args[1:]))
            return target

        return backend


def arrays_of(args: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for value in args:
        if isinstance(value, Tensor):
            found.append(value._array)
        elif isinstance(value, list):
            found.append([item._array if isinstance(item, Tensor) else item for item in value])
        else:
            found.append(value)
    return found


# -- creation --------------------------------------------------------------------------------------


class Creation(Kind):
    """Ops that make a tensor from sizes, or after another tensor: the `device` argument says
    where, and values exist only on the CPU. Kernels see a tensor without array as it is."""

    options: ClassVar[dict[str, str]] = {
        "fill": "the number that every element is, or the argument that says it",
    }

    def batch_method(self, op: Any) -> str | None:
        if not op.tensor_positions:
            return None
        return "resized" if "size" in op.argument_names else "straight"

    def lower_method(self, op: Any) -> str | None:
        return "filled" if "fill" in op.options else None

    def make_backend(self, op: Any) -> Callable[..., Any]:
        if op.options.get("takes_tensors"):
            return super().make_backend(op)
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
            try:
                result = kernel(np, *arrays)
            except (MemoryError, ValueError) as reason:
                no_memory(self.run_shape(op, args), reason)
                raise
            return self.finish(op, args, result, layout)

        return backend


class Random(Creation):
    """Ops that draw from a generator."""

    def batch_method(self, op: Any) -> str | None:
        # A bound that is a tensor is one number: every sample draws by itself.
        return (
            None
            if op.argument_names[1:2] == ("high",) and len(op.tensor_positions) > 1
            else "drawn"
        )


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
        "copied": "False where there is no `name_copy` that follows from it",
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
    if not geometry.is_nested(tuple(sizes), tuple(strides)):
        # A write to one element may be one to others.
        raise error("RL0702", NotImplementedError, op=op.name())
    return source.as_strided_scatter(changed, sizes, strides, offset)


VIEW = View("VIEW", along_dims=True, recompute=True)
REDUCTION = Reduction("REDUCTION", recompute=True)
# What accumulates along a dim.
SCAN = Lanes("SCAN", along_dims=True)
GATHER = Gather("GATHER", along_dims=True, recompute=True)
SCATTER = Scatter("SCATTER", along_dims=True)
# Whole elements move: memory is what it costs, so that a result is as well kept.
REARRANGEMENT = Kind("REARRANGEMENT", along_dims=True).checked
CONTRACTION = Contraction("CONTRACTION")
WINDOW = Window("WINDOW")
LOSS = Loss("LOSS", "elementwise")
# Ops that return nothing: the kernel raises where a statement does not hold.
STATEMENT = Kind("STATEMENT", "value")
CREATION = Creation("CREATION", recompute=True)
RANDOM = Random("RANDOM")
SORT = Lanes("SORT", along_dims=True)
LINALG = Linalg("LINALG")
NATIVE = Native("NATIVE", "value")
OPAQUE = Kind("OPAQUE")
