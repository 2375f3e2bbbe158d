"""Arithmetic on sizes and strides: what every view and every fresh result looks like.

Pure functions of tuples. Entries may be symbolic ints: they meet only arithmetic and
comparisons here, never int(). Strides count elements, as in torch.
The functions named `*_geometry` describe a view as (sizes, strides, offset delta).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rushlight.base.errors import MissingFeature
from rushlight.core.device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)

if TYPE_CHECKING:
    from rushlight.symbolic.numbers import BoolLike, IntLike

Ints = tuple[Any, ...]
Geometry = tuple[Ints, Ints, Any]

# Axes from the innermost outwards.
CHANNELS_LAST_ORDER: Final = (1, 3, 2, 0)
CHANNELS_LAST_3D_ORDER: Final = (1, 4, 3, 2, 0)

# A slice that stops here runs to the end of any dimension.
END: Final = 9223372036854775807
# The most dims that an array of NumPy has.
MOST_DIMS: Final = 64

# Answers of `internal_overlap`.
NO_OVERLAP: Final = 0
OVERLAP: Final = 1
TOO_HARD: Final = 2


def show(sizes: Iterable[Any]) -> str:
    """Sizes as error messages print them: `[2, 3]`."""
    return f"[{', '.join(map(str, sizes))}]"


def numel(sizes: Iterable[Any]) -> Any:
    return prod(sizes)


def is_size(size: IntLike, value: int) -> bool:
    """Whether a size is 0 or 1. A size that only run time tells is taken for neither, as memory
    of such sizes is laid out like that of all larger ones."""
    return bool(size == value) if size.__class__ is int else decided(size == value)


def decided(test: BoolLike) -> bool:
    """The outcome of a comparison of sizes, of which those that only run time tells count as
    larger than 1; false where that does not settle it."""
    if test.__class__ is bool:
        return bool(test)
    from rushlight.symbolic import guard_as_size_or

    return bool(guard_as_size_or(test, False))


def required(test: BoolLike) -> bool:
    """A comparison that must hold; where only run time tells, it will be checked then. False where
    it does not hold."""
    if test.__class__ is bool:
        return bool(test)
    from rushlight.symbolic import expect_true

    return bool(expect_true(test))


def plausible(test: BoolLike) -> bool:
    """A comparison that must hold, and is made again when the op runs: no guard. False where it
    does not hold in the example."""
    if test.__class__ is bool:
        return bool(test)
    from rushlight.symbolic import has_hint, hint_int

    return bool(hint_int(test)) if has_hint(test) else required(test)


def fitting(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two whole shapes are equal, as far as `plausible` tells."""
    return len(a) == len(b) and all([plausible(x == y) for x, y in zip(a, b, strict=True)])


def smaller(a: IntLike, b: IntLike) -> IntLike:
    """min(a, b)."""
    if a.__class__ is int and b.__class__ is int:
        return min(a, b)
    from rushlight.symbolic import has_hint, sym_min

    test = b < a
    if test.__class__ is bool or has_hint(test):
        return b if test else a
    return sym_min(a, b)  # type: ignore[no-any-return]


def larger(a: IntLike, b: IntLike) -> IntLike:
    """max(a, b)."""
    if a.__class__ is int and b.__class__ is int:
        return max(a, b)
    from rushlight.symbolic import has_hint, sym_max

    test = b > a
    if test.__class__ is bool or has_hint(test):
        return b if test else a
    return sym_max(a, b)  # type: ignore[no-any-return]


def from_front(index: IntLike, size: IntLike) -> IntLike:
    """An index, counted from the end where negative, counted from the front."""
    negative = index < 0
    if negative.__class__ is not bool:
        from rushlight.symbolic import has_hint, sym_ite

        if not has_hint(negative):
            return sym_ite(negative, index + size, index)  # type: ignore[no-any-return]
    return index + size if negative else index


def same_sizes(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two whole shapes are equal: lengths first, so that sizes of tensors of different rank
    are never compared. Python's own comparison of tuples asks about elements first. What only run
    time tells must be equal, and is checked then."""
    if a is b or len(a) != len(b):
        return a is b
    try:
        return bool(a == b)
    except RuntimeError:
        return all(required(x == y) for x, y in zip(a, b, strict=True))


def equal(a: Ints, b: Ints) -> bool:
    """Whether sizes or strides are the same, as far as can be told."""
    if len(a) != len(b):
        return False
    try:
        return bool(a == b)
    except RuntimeError:
        # An entry that only run time tells was compared.
        return all(decided(x == y) for x, y in zip(a, b, strict=True))


def known_equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether sizes or strides are the same for all values of the symbols. Asks nothing."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        test = x == y
        if test is True:
            continue
        if test is False:
            return False
        from rushlight.symbolic import statically_known_true

        if not statically_known_true(test):
            return False
    return True


def minimum(a: IntLike, b: IntLike) -> IntLike:
    """min(a, b), without asking which it is."""
    if a.__class__ is int and b.__class__ is int:
        return min(a, b)
    from rushlight.symbolic import sym_min

    return sym_min(a, b)  # type: ignore[no-any-return]


def at_least_one(size: IntLike) -> IntLike:
    """max(size, 1)."""
    return 1 if is_size(size, 0) else size


# --- dimensions ---------------------------------------------------------------------------


def wrap_dim(dim: int, ndim: int, wrap_scalar: bool = True) -> int:
    """A dimension counted from the front; a 0-dim tensor passes for one of one dimension."""
    if 0 <= dim < ndim:
        return dim
    if -ndim <= dim < 0:
        return dim + ndim
    if ndim == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        if dim in (0, -1):
            return 0
        ndim = 1
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
    )


def wrap_dims(dims: Iterable[Any], ndim: int, wrap_scalar: bool = True) -> tuple[int, ...]:
    """Every dimension counted from the front; none may appear twice."""
    wrapped = tuple([wrap_dim(dim, ndim, wrap_scalar) for dim in dims])
    if len(set(wrapped)) != len(wrapped):
        twice = next(dim for at, dim in enumerate(wrapped) if dim in wrapped[:at])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped


def reduced_shape(sizes: Ints, dims: Sequence[int] | None, keepdim: bool) -> Ints:
    """The sizes left by a reduction over `dims`; all of them where None or empty."""
    if not dims:
        return (1,) * len(sizes) if keepdim else ()
    gone = wrap_dims(dims, len(sizes))
    if keepdim:
        return tuple(1 if dim in gone else size for dim, size in enumerate(sizes))
    return tuple(size for dim, size in enumerate(sizes) if dim not in gone)


# --- strides of dense tensors -------------------------------------------------------------


def contiguous_strides(sizes: Ints) -> Ints:
    """Row-major strides; a size of 0 counts as 1."""
    ndim = len(sizes)
    if ndim < 2:
        return (1,) * ndim
    last = sizes[-1]
    if last.__class__ is int:
        # The ranks met most are unrolled: this runs once per result.
        if ndim == 2:
            return (last or 1, 1)
        if ndim == 3 and sizes[1].__class__ is int:
            return ((sizes[1] or 1) * (last or 1), last or 1, 1)
        if ndim == 4 and sizes[1].__class__ is int is sizes[2].__class__:
            plane = (sizes[2] or 1) * (last or 1)
            return ((sizes[1] or 1) * plane, plane, last or 1, 1)
    strides: list[Any] = [1] * ndim
    stride: Any = 1
    for axis in range(ndim - 1, 0, -1):
        size = sizes[axis]
        stride = stride * (max(size, 1) if size.__class__ is int else at_least_one(size))
        strides[axis - 1] = stride
    return tuple(strides)


def strides_in_order(sizes: Ints, order: Sequence[int]) -> Ints:
    """Strides of a dense tensor whose axes lie in memory in `order`, innermost first."""
    strides: list[Any] = [1] * len(sizes)
    stride: Any = 1
    # torch: a size of 0 makes the strides outside it 0, unlike in row-major order.
    for axis in order:
        strides[axis] = stride
        stride = stride * sizes[axis]
    return tuple(strides)


def channels_last_strides(sizes: Ints) -> Ints:
    if len(sizes) != 4:
        raise RuntimeError("required rank 4 tensor to use channels_last format")
    return strides_in_order(sizes, CHANNELS_LAST_ORDER)


def channels_last_strides_3d(sizes: Ints) -> Ints:
    if len(sizes) != 5:
        raise RuntimeError("required rank 5 tensor to use channels_last_3d format")
    return strides_in_order(sizes, CHANNELS_LAST_3D_ORDER)


def strides_for_memory_format(
    sizes: Ints, wanted: memory_format | None, strides: Ints | None = None
) -> Ints:
    """Strides of a fresh tensor in a format; `preserve_format` needs the strides to preserve."""
    if wanted is None or wanted is contiguous_format:
        return contiguous_strides(sizes)
    if wanted is channels_last:
        return channels_last_strides(sizes)
    if wanted is channels_last_3d:
        return channels_last_strides_3d(sizes)
    if wanted is preserve_format and strides is not None:
        return like_strides(sizes, strides)
    raise RuntimeError("unsupported memory format Preserve")


def is_contiguous(sizes: Ints, strides: Ints) -> bool:
    expected: Any = 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        fits = strides[axis] == expected
        if fits is not True:
            if is_size(size, 1):
                continue
            if not decided(fits):
                return any(is_size(entry, 0) for entry in sizes)
        expected = expected * size
    return True


def is_known_contiguous(sizes: Ints, strides: Ints) -> bool:
    """Whether symbolic sizes and strides are row-major for all values of the symbols. Asks
    nothing that could become a guard."""
    from rushlight.symbolic import statically_known_true

    expected: Any = 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        if size.__class__ is int and size == 1:
            continue
        if not statically_known_true(strides[axis] == expected):
            return False
        expected = expected * size
    return True


def is_dense_in_order(sizes: Ints, strides: Ints, order: Sequence[int]) -> bool:
    expected: Any = 1
    for axis in order:
        size = sizes[axis]
        fits = strides[axis] == expected
        if fits is not True:
            if is_size(size, 1):
                continue
            if not decided(fits):
                return False
        expected = expected * size
    return True


def is_channels_last(sizes: Ints, strides: Ints) -> bool:
    """Whether a 4-dim tensor is contiguous in channels_last format."""
    return len(sizes) == 4 and is_dense_in_order(sizes, strides, CHANNELS_LAST_ORDER)


def is_channels_last_3d(sizes: Ints, strides: Ints) -> bool:
    """Whether a 5-dim tensor is contiguous in channels_last_3d format."""
    return len(sizes) == 5 and is_dense_in_order(sizes, strides, CHANNELS_LAST_3D_ORDER)


def is_contiguous_in(sizes: Ints, strides: Ints, wanted: memory_format) -> bool:
    """What `Tensor.is_contiguous(memory_format=wanted)` answers."""
    if wanted is contiguous_format:
        return is_contiguous(sizes, strides)
    if wanted is channels_last:
        return is_channels_last(sizes, strides)
    if wanted is channels_last_3d:
        return is_channels_last_3d(sizes, strides)
    raise RuntimeError("preserve memory format is unsupported by the contiguous operator")


def strides_ascend_in_order(sizes: Ints, strides: Ints, order: Sequence[int]) -> bool:
    """Whether strides, dense or not, read as this order rather than as row-major."""
    if is_size(strides[1], 0):
        return False
    least: Any = 0
    for axis in order:
        if is_size(sizes[axis], 0) or decided(strides[axis] < least):
            return False
        # N111 tensors and the like are ambiguous: row-major wins.
        if axis == 0 and decided(least == strides[1]):
            return False
        least = strides[axis]
        if decided(sizes[axis] > 1):
            least = least * sizes[axis]
    return True


def suggest_memory_format(sizes: Ints, strides: Ints) -> memory_format:
    """The format that strides suggest: how convolutions and resampling pick their output's."""
    if len(sizes) == 4 and strides_ascend_in_order(sizes, strides, CHANNELS_LAST_ORDER):
        return channels_last
    if len(sizes) == 5 and strides_ascend_in_order(sizes, strides, CHANNELS_LAST_3D_ORDER):
        return channels_last_3d
    return contiguous_format


def is_non_overlapping_and_dense(sizes: Ints, strides: Ints) -> bool:
    """Whether some order of the axes makes the tensor contiguous."""
    if is_contiguous(sizes, strides):
        return True
    used = [
        (stride, size) for size, stride in zip(sizes, strides, strict=True) if not is_size(size, 1)
    ]
    is_plain = all([stride.__class__ is int for stride, _ in used])
    used.sort(key=stride_of if is_plain else by_stride)
    expected: Any = 1
    for stride, size in used:
        fits = stride == expected
        if fits is not True and not decided(fits):
            return False
        expected = expected * size
    return True


def stride_of(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def compare_strides(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    """The order of strides of which only run time tells some."""
    return -1 if decided(one[0] < other[0]) else 1 if decided(one[0] > other[0]) else 0


by_stride = functools.cmp_to_key(compare_strides)


def memory_order(sizes: Ints, operands: Sequence[Ints]) -> list[int]:
    """Axes from the innermost outwards, as the operands' strides suggest.

    Earlier operands decide before later ones. A stride of 0 says nothing, and equal
    strides put the smaller axis inside. Since pairs may be incomparable, the result
    depends on the way of sorting: an insertion sort that starts from row-major.
    """
    order = list(range(len(sizes) - 1, -1, -1))
    for position in range(1, len(order)):
        mine = position
        for place in range(position - 1, -1, -1):
            verdict = compare_axes(order[place], order[mine], sizes, operands)
            if verdict > 0:
                order[place], order[mine] = order[mine], order[place]
                mine = place
            elif verdict < 0:
                break
    return order


def compare_axes(inner: int, outer: int, sizes: Ints, operands: Sequence[Ints]) -> int:
    """1 if the axes must be exchanged, -1 if they stand well, 0 if no operand tells."""
    for strides in operands:
        stride0, stride1 = strides[inner], strides[outer]
        if is_size(stride0, 0) or is_size(stride1, 0):
            continue
        if decided(stride0 < stride1):
            return -1
        if decided(stride0 > stride1) or decided(sizes[inner] > sizes[outer]):
            return 1
    return 0


def falls(strides: Sequence[int]) -> bool:
    """Whether strides fall from axis to axis, apart from those that are 0 and say nothing: an
    operand that `memory_order` finds in row-major order."""
    last = 0
    for stride in strides:
        if stride:
            if last and stride >= last:
                return False
            last = stride
    return True


def like_strides(sizes: Ints, strides: Ints) -> Ints:
    """The strides of `empty_like(x)`: those of x where dense, else their order made dense."""
    if is_non_overlapping_and_dense(sizes, strides):
        return strides
    return strides_in_order(sizes, memory_order(sizes, (strides,)))


def elementwise_strides(out_shape: Ints, operands: Sequence[tuple[Ints, Ints]]) -> Ints:
    """The strides of a fresh elementwise result of inputs given as (sizes, strides).

    Pass every input, 0-dim tensors and wrapped numbers included: one of another shape
    closes the shortcuts for operands that agree.
    """
    contiguous = contiguous_strides(out_shape)
    for sizes, strides in operands:
        if not equal(sizes, out_shape):
            break
        if not known_equal(strides, contiguous) and not is_contiguous(sizes, strides):
            common = agreed_strides(out_shape, operands)
            if common is not None:
                return common
            break
    else:
        return contiguous
    order = memory_order(
        out_shape, [broadcast_strides(out_shape, sizes, strides) for sizes, strides in operands]
    )
    if order == list(range(len(out_shape) - 1, -1, -1)):
        return contiguous
    return strides_in_order(out_shape, order)


def agreed_strides(out_shape: Ints, operands: Sequence[tuple[Ints, Ints]]) -> Ints | None:
    """The strides that operands of one shape, not all contiguous, agree on."""
    if not all(equal(sizes, out_shape) for sizes, _ in operands):
        return None
    if all(is_channels_last(sizes, strides) for sizes, strides in operands):
        return channels_last_strides(out_shape)
    first = operands[0][1]
    if all(equal(strides, first) for _, strides in operands) and all(
        is_non_overlapping_and_dense(sizes, strides) for sizes, strides in operands
    ):
        return first
    return None


def broadcast_strides(out_shape: Ints, sizes: Ints, strides: Ints) -> Ints:
    """An operand's strides over the broadcast shape: 0 where it is repeated."""
    lead = len(out_shape) - len(sizes)
    return (0,) * lead + tuple(
        0 if is_repeated(size, out_shape[lead + axis]) else strides[axis]
        for axis, size in enumerate(sizes)
    )


def is_repeated(size: IntLike, out_size: IntLike) -> bool:
    """Whether an operand of one size is repeated along a dimension of another."""
    if size is out_size or (size == out_size) is True:
        return False
    return is_size(size, 1) and not is_size(out_size, 1)


# --- memory -------------------------------------------------------------------------------


def storage_extent(sizes: Ints, strides: Ints, offset: IntLike = 0) -> Any:
    """How many elements a storage must hold for such a tensor. A size that may be 0 counts as
    one that is not."""
    extent: Any = 1
    for size, stride in zip(sizes, strides, strict=True):
        is_empty = size == 0 if size.__class__ is int else known_equal((size,), (0,))
        if is_empty:
            return 0
        extent = extent + stride * (size - 1)
    return offset + extent


def check_extent(sizes: Ints, strides: Ints, offset: IntLike, held: Any, itemsize: int) -> None:
    """Refuse a geometry that reaches beyond a storage of `held` bytes. Symbolic ones are taken to
    fit: what runs is checked."""
    needed = storage_extent(sizes, strides, offset) * itemsize
    if needed.__class__ is int and held.__class__ is int and needed > held and 0 not in sizes:
        raise RuntimeError(
            f"setStorage: sizes {show(sizes)}, strides {show(strides)}, storage offset {offset}, "
            f"and itemsize {itemsize} requiring a storage size of {needed} are out of bounds for "
            f"storage of size {held}"
        )


def check_rank(count: int) -> None:
    """Refuse tensors of more dims than an array can have."""
    if count > MOST_DIMS:
        raise MissingFeature(f"a tensor of {count} dims", code="RL0007")


def internal_overlap(sizes: Ints, strides: Ints) -> int:
    """Whether elements share memory: NO_OVERLAP, OVERLAP, or TOO_HARD to tell."""
    if is_non_overlapping_and_dense(sizes, strides):
        return NO_OVERLAP
    for size, stride in zip(sizes, strides, strict=True):
        if stride == 0 and size > 1:
            return OVERLAP
    return TOO_HARD


def is_nested(sizes: Ints, strides: Ints) -> bool:
    """Whether each stride steps over all that smaller ones reach: then no elements share memory.
    Of symbolic ones, those of the example do; sizes that depend on data are taken to."""
    extent = 0
    if not all([type(n) is int for n in (*sizes, *strides)]):
        from rushlight.symbolic import has_hint, hint_int

        if not all([has_hint(n) for n in (*sizes, *strides)]):
            return True
        sizes, strides = tuple(map(hint_int, sizes)), tuple(map(hint_int, strides))
    if 0 in sizes:
        return True
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if stride <= extent:
                return False
            extent += stride * (size - 1)
    return True


def is_overlapping(sizes: Ints, strides: Ints) -> bool:
    """Whether elements surely share memory."""
    return internal_overlap(sizes, strides) == OVERLAP


# --- shapes -------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Ints) -> Ints:
    """The common shape of operands, in the words elementwise ops use to refuse."""
    if not shapes:
        return ()
    result = shapes[0]
    for shape in shapes[1:]:
        if shape is not result and not equal(shape, result):
            result = broadcast_pair(result, shape)
    return result


def broadcast_pair(a: Ints, b: Ints) -> Ints:
    ndim = max(len(a), len(b))
    a_lead, b_lead = ndim - len(a), ndim - len(b)
    result: list[Any] = [1] * ndim
    for axis in range(ndim - 1, -1, -1):
        a_size = a[axis - a_lead] if axis >= a_lead else 1
        b_size = b[axis - b_lead] if axis >= b_lead else 1
        if b_size.__class__ is int and b_size == 1:
            # Whatever the other is.
            result[axis] = a_size
        elif is_size(a_size, 1):
            result[axis] = b_size
        elif is_size(b_size, 1) or required(a_size == b_size):
            result[axis] = a_size
        else:
            raise RuntimeError(
                f"The size of tensor a ({a_size}) must match the size of tensor b ({b_size})"
                f" at non-singleton dimension {axis}"
            )
    return tuple(result)


def expand_geometry(
    sizes: Ints, strides: Ints, new_sizes: Ints, type_name: str = "torch.FloatTensor"
) -> Geometry:
    """A tensor repeated along new or singleton dimensions; -1 keeps a size."""
    lead = len(new_sizes) - len(sizes)
    if lead < 0:
        raise RuntimeError(
            f"expand({type_name}{{{show(sizes)}}}, size={show(new_sizes)}): the number of sizes"
            f" provided ({len(new_sizes)}) must be greater or equal to the number of dimensions"
            f" in the tensor ({len(sizes)})"
        )
    out_sizes: list[Any] = list(new_sizes)
    out_strides: list[Any] = [0] * len(new_sizes)
    for axis in range(len(new_sizes) - 1, -1, -1):
        target = new_sizes[axis]
        if axis < lead:
            if decided(target == -1):
                raise RuntimeError(
                    "The expanded size of the tensor (-1) isn't allowed in a leading,"
                    f" non-existing dimension {axis}"
                )
            if axis + 1 < len(new_sizes) and is_size(target, 1):
                out_strides[axis] = out_sizes[axis + 1] * out_strides[axis + 1]
            continue
        size = sizes[axis - lead]
        if decided(target == -1):
            target = size
        if decided(size == target):
            out_strides[axis] = strides[axis - lead]
        elif is_size(size, 1):
            pass
        elif required(size == target):
            out_strides[axis] = strides[axis - lead]
        else:
            raise RuntimeError(
                f"The expanded size of the tensor ({target}) must match the existing size"
                f" ({size}) at non-singleton dimension {axis}.  Target sizes: {show(new_sizes)}."
                f"  Tensor sizes: {show(sizes)}"
            )
        out_sizes[axis] = target
    return tuple(out_sizes), tuple(out_strides), 0


def stands_for_rest(size: IntLike) -> bool:
    """Whether a size is -1. Where only run time tells, a program that is to hold for all values
    cannot be made; others take it that it is not."""
    test = size == -1
    if test.__class__ is bool:
        return bool(test)
    if size.node.shape_env.refuse_open_sizes:  # type: ignore[union-attr]
        from rushlight.symbolic import guard_size_oblivious

        return bool(guard_size_oblivious(test))
    return decided(test)


def infer_size(shape: Sequence[Any], count: IntLike) -> Ints:
    """The shape with its -1 replaced so that it holds `count` elements."""
    inferred = -1
    known: Any = 1
    for axis, size in enumerate(shape):
        if stands_for_rest(size):
            if inferred >= 0:
                raise RuntimeError("only one dimension can be inferred")
            inferred = axis
        elif required(size >= 0):
            known = known * size
        else:
            raise RuntimeError(
                f"invalid shape dimension {size} at index {axis} of shape {show(shape)}"
            )
    if inferred < 0:
        if not required(known == count):
            refuse_shape(shape, count)
        return tuple(shape)
    if is_size(known, 0):
        if count != 0:
            refuse_shape(shape, count)
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {show(shape)} because the"
            " unspecified dimension size -1 can be any value and is ambiguous"
        )
    if not required(count % known == 0):
        refuse_shape(shape, count)
    result = list(shape)
    result[inferred] = count // known
    return tuple(result)


def refuse_shape(shape: Sequence[Any], count: IntLike) -> NoReturn:
    raise RuntimeError(f"shape '{show(shape)}' is invalid for input of size {count}")


def view_strides(sizes: Ints, strides: Ints, new_sizes: Ints) -> Ints | None:
    """The strides of a view of `new_sizes`, as many elements; None where only a copy will do."""
    count = prod(sizes)
    if is_size(count, 0):
        return strides if same_sizes(sizes, new_sizes) else contiguous_strides(new_sizes)
    if count.__class__ is not int and is_known_contiguous(sizes, strides):
        return contiguous_strides(new_sizes)
    result: list[Any] = [1] * len(new_sizes)
    if not sizes:
        return tuple(result)
    # Walk inwards-out over runs of old axes that lie contiguously, and cut each run
    # into new axes; a new axis that straddles two runs cannot be had.
    place = len(new_sizes) - 1
    base = strides[-1]
    run: Any = 1
    for axis in range(len(sizes) - 1, -1, -1):
        run = run * sizes[axis]
        if axis > 0 and (is_size(sizes[axis - 1], 1) or decided(strides[axis - 1] == run * base)):
            continue
        taken: Any = 1
        while place >= 0 and (decided(taken < run) or is_size(new_sizes[place], 1)):
            result[place] = taken * base
            taken = taken * new_sizes[place]
            place -= 1
        if not decided(taken == run):
            return None
        if axis > 0:
            base = strides[axis - 1]
            run = 1
    return tuple(result) if place < 0 else None


# --- views --------------------------------------------------------------------------------


def without(entries: Ints, axis: int) -> Ints:
    return entries[:axis] + entries[axis + 1 :]


def transposed_geometry(sizes: Ints, strides: Ints, dim0: int, dim1: int) -> Geometry:
    dim0 = wrap_dim(dim0, len(sizes))
    dim1 = wrap_dim(dim1, len(sizes))
    if dim0 == dim1:
        return sizes, strides, 0
    new_sizes, new_strides = list(sizes), list(strides)
    new_sizes[dim0], new_sizes[dim1] = new_sizes[dim1], new_sizes[dim0]
    new_strides[dim0], new_strides[dim1] = new_strides[dim1], new_strides[dim0]
    return tuple(new_sizes), tuple(new_strides), 0


def permuted_geometry(sizes: Ints, strides: Ints, dims: Sequence[int]) -> Geometry:
    if len(dims) != len(sizes):
        # torch: dense tensors are told of sparse_coo too.
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the"
            " length of the desired ordering of dimensions i.e. input.dim() ="
            f" {len(sizes)} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(dim, len(sizes)) for dim in dims]
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return tuple(sizes[dim] for dim in order), tuple(strides[dim] for dim in order), 0


def squeezed_geometry(sizes: Ints, strides: Ints, dims: Sequence[int] | None = None) -> Geometry:
    """Without the dimensions of size 1, or those of them among `dims`."""
    if dims is None:
        kept = [axis for axis, size in enumerate(sizes) if not is_size(size, 1)]
    else:
        among = wrap_dims(dims, len(sizes))
        kept = [
            axis for axis, size in enumerate(sizes) if axis not in among or not is_size(size, 1)
        ]
    return tuple(sizes[axis] for axis in kept), tuple(strides[axis] for axis in kept), 0


def unsqueezed_geometry(sizes: Ints, strides: Ints, dim: int) -> Geometry:
    dim = wrap_dim(dim, len(sizes) + 1)
    stride = sizes[dim] * strides[dim] if dim < len(sizes) else 1
    return (*sizes[:dim], 1, *sizes[dim:]), (*strides[:dim], stride, *strides[dim:]), 0


def select_geometry(sizes: Ints, strides: Ints, dim: int, index: IntLike) -> Geometry:
    if not sizes:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(sizes))
    size = sizes[dim]
    if not (required(index < size) and required(index >= -size)):
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {show(sizes)}"
            f" at dimension {dim}"
        )
    return without(sizes, dim), without(strides, dim), from_front(index, size) * strides[dim]


def slice_bounds(
    start: IntLike | None, stop: IntLike | None, step: IntLike, size: IntLike
) -> tuple[Any, Any]:
    """A slice as (start, length) within a dimension of `size`; None means from end to end."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    if start is None:
        start = 0
    elif start.__class__ is not int or start < 0:
        start = larger(from_front(start, size), 0)
    start = smaller(start, size)
    if stop is None or (stop.__class__ is int and stop >= END):
        stop = size
    else:
        stop = smaller(from_front(stop, size), size)
    stop = larger(stop, start)
    return start, (stop - start + step - 1) // step


def slice_geometry(
    sizes: Ints,
    strides: Ints,
    dim: int,
    start: IntLike | None = None,
    stop: IntLike | None = None,
    step: IntLike = 1,
) -> Geometry:
    if not sizes:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(sizes))
    first, length = slice_bounds(start, stop, step, sizes[dim])
    stride = strides[dim]
    return (
        (*sizes[:dim], length, *sizes[dim + 1 :]),
        (*strides[:dim], stride * step, *strides[dim + 1 :]),
        first * stride,
    )


def diagonal_geometry(
    sizes: Ints, strides: Ints, offset: IntLike = 0, dim1: int = 0, dim2: int = 1
) -> Geometry:
    first = wrap_dim(dim1, len(sizes))
    second = wrap_dim(dim2, len(sizes))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = sizes[first], sizes[second]
    if offset >= 0:
        columns = columns - offset
        skipped = offset * strides[second]
    else:
        rows = rows + offset
        skipped = -offset * strides[first]
    length = minimum(columns, rows)
    some = length > 0
    if some.__class__ is not bool:
        from rushlight.symbolic import sym_ite, sym_max

        length, skipped = sym_max(length, 0), sym_ite(some, skipped, 0)
    elif not some:
        length = skipped = 0
    kept = [axis for axis in range(len(sizes)) if axis not in (first, second)]
    return (
        (*(sizes[axis] for axis in kept), length),
        (*(strides[axis] for axis in kept), strides[first] + strides[second]),
        skipped,
    )


def unfold_geometry(sizes: Ints, strides: Ints, dim: int, size: IntLike, step: IntLike) -> Geometry:
    """Windows of `size` along a dimension, `step` apart, as a new last dimension."""
    dim = wrap_dim(dim, len(sizes))
    length, stride = (sizes[dim], strides[dim]) if sizes else (1, 1)
    if decided(size < 0):
        raise RuntimeError(f"size is {size} but must be >= 0")
    if decided(size > length):
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {length} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not sizes:
        return (size,), (1,), 0
    windows = (length - size) // step + 1
    return (
        (*sizes[:dim], windows, *sizes[dim + 1 :], size),
        (*strides[:dim], step * stride, *strides[dim + 1 :], stride),
        0,
    )
