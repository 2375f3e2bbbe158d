"""Optimisers' steps as one op over all parameters, and gradient scaling.

Kernels write in place and work through each tensor in pieces that stay in the cache, with scratch
memory for one piece; halves compute in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.core.op import OpOverload, refuse
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.opset.derived import MUTATION
from rushlight.opset.heavy import heavy_kernels, may_compile
from rushlight.opset.kinds import OPAQUE, Spec, tensors_in
from rushlight.opset.large import Steps
from rushlight.opset.lists.foreach import write_quietly, writes_lists
from rushlight.opset.registry import find, op
from rushlight.opset.rules import late, sample

# Elements that go through all steps at once, and how many a tensor that is joined with others has.
PIECE = 1 << 15
SMALL = 1 << 12


def spec_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [spec_of(item) for item in value]
    return Spec(value.shape, value._dtype, value.stride())


def copies(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [copies(item) for item in value]
    # Below autograd: what is written next has no history.
    return find("clone").backend(value, None)


def fused(
    name: str,
    overload: str,
    inside: str,
    kernel: Any,
    batch: str,
    returns: str = "()",
    samples: Any = None,
) -> OpOverload:
    """The op that writes, and the one that returns what is written."""
    dot = f".{overload}" if overload else ""
    record = op(
        f"{name}_{dot}({inside}) -> {returns}",
        kind=MUTATION,
        takes_tensors=True,
        method=False,
        out=False,
        vjp=refuse("it is a step of training, which nothing is differentiated through"),
    )
    places = record.mutated_positions

    @record.kernel
    def _(*args: Any) -> Any:
        targets = [args[place] for place in places]
        if all(t._array is not None for t in tensors_in(tuple(targets))):
            kernel(*args)
        return targets[0] if record._schema.returns else None

    record.body = lambda *args: write_quietly(record, args)
    plain = inside
    for mark in "abcde":
        plain = plain.replace(f"({mark}!)", "")
    kinds = [
        f"{a.type.text.replace('?', '')} {a.name}_out"
        for a in record._schema.arguments
        if a.is_write
    ]
    if not record._schema.returns:
        answer = ", ".join(kinds)
    else:
        answer = ", ".join(["Tensor", *kinds[1:]])
    functional = op(
        f"{name}{dot}({plain}) -> ({answer})",
        kind=OPAQUE,
        takes_tensors=True,
        method=False,
        function=False,
        out=False,
        batch=late(f"lists.batched:{batch}"),
        vjp=refuse("it is a step of training, which nothing is differentiated through"),
    )
    functional.samples = samples

    def written(values: list[Any]) -> Any:
        found = [values[place] for place in places]
        return found[0] if len(found) == 1 else tuple(found)

    @functional.shape
    def _(*args: Any) -> Any:
        return written([spec_of(value) for value in args])

    @functional.kernel
    def _(*args: Any) -> Any:
        copied = [copies(v) if place in places else v for place, v in enumerate(args)]
        record.backend(*copied)
        return written(copied)

    writes_lists(record, functional)
    return record


# -- pieces ----------------------------------------------------------------------------------------


def sweep(
    columns: list[Any], keys: list[Any], changes: tuple[bool, ...]
) -> Iterator[tuple[Any, list[Any]]]:
    """(key, arrays) for all rows of lists of tensors, which the caller changes in place.

    Small tensors with the same key go side by side into one array, large ones are cut into
    pieces; halves come as float32. `changes` says which columns are written to. A column may be
    None, and so are its arrays then.
    """
    groups: dict[Any, list[list[Any]]] = {}
    sizes: dict[Any, int] = {}
    for row, key in enumerate(keys):
        arrays = [None if column is None else column[row]._array for column in columns]
        first: Any = arrays[0]
        if all([array is None or array.flags.c_contiguous for array in arrays]):
            flat = [None if array is None else array.reshape(-1) for array in arrays]
            kinds = tuple([None if array is None else array.dtype for array in arrays])
            if first.size > SMALL:
                for begin in range(0, first.size, PIECE):
                    piece = [None if a is None else a[begin : begin + PIECE] for a in flat]
                    yield from widen(key, piece, changes)
                continue
            group = key, kinds
            groups.setdefault(group, []).append(flat)
            sizes[group] = sizes.get(group, 0) + first.size
            if sizes[group] >= PIECE:
                yield from side_by_side(key, groups.pop(group), changes)
                del sizes[group]
        elif first.size:
            yield from widen(key, arrays, changes)
    for (key, _), rows in groups.items():
        yield from side_by_side(key, rows, changes)


def side_by_side(
    key: Any, rows: list[list[Any]], changes: tuple[bool, ...]
) -> Iterator[tuple[Any, list[Any]]]:
    if len(rows) == 1:
        yield from widen(key, rows[0], changes)
        return
    columns = list(zip(*rows, strict=True))
    joined = [None if column[0] is None else np.concatenate(column) for column in columns]
    yield from widen(key, joined, changes)
    ends = np.cumsum([row[0].size for row in rows]).tolist()
    for column, values, is_changed in zip(columns, joined, changes, strict=True):
        if is_changed and values is not None:
            begin = 0
            for array, end in zip(column, ends, strict=True):
                array[...] = values[begin:end]
                begin = end


def widen(
    key: Any, arrays: list[Any], changes: tuple[bool, ...]
) -> Iterator[tuple[Any, list[Any]]]:
    if not any([array is not None and array.dtype.itemsize == 2 for array in arrays]):
        yield key, arrays
        return
    halves = [array is not None and array.dtype.itemsize == 2 for array in arrays]
    wide = [a.astype(np.float32) if half else a for a, half in zip(arrays, halves, strict=True)]
    yield key, wide
    for array, value, half, is_changed in zip(arrays, wide, halves, changes, strict=True):
        if half and is_changed:
            array[...] = value


class Scratch:
    """Memory for intermediate values, used again from piece to piece."""

    __slots__ = ("memory",)

    def __init__(self) -> None:
        self.memory: Any = None

    def like(self, array: Any) -> Any:
        if array.ndim != 1:
            return np.empty_like(array)
        memory = self.memory
        if memory is None or memory.dtype != array.dtype or memory.size < array.size:
            memory = self.memory = np.empty_like(array)
        return memory[: array.size]


def number(value: Any) -> float:
    return float(value.item()) if isinstance(value, Tensor) else float(value)


def is_skipped(found_inf: Any) -> bool:
    """Whether a gradient was found to be infinite, so that the step must change nothing."""
    return found_inf is not None and found_inf.item() == 1


def prepare(grad: Any, grad_scale: Any, maximize: bool, spare: Any) -> Any:
    """The gradient to descend along. Unscaled gradients are kept."""
    if grad_scale is not None:
        grad /= grad_scale
    return np.negative(grad, spare) if maximize else grad


def check_lists(kernel: str, *lists: Any) -> None:
    count = len(lists[0])
    for tensor in lists[0]:
        if not tensor._dtype.is_floating_point:
            raise unsupported(kernel, tensor._dtype)
    for other in lists[1:]:
        if len(other) not in (0, count):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(other)}"
            )
        for first, second in zip(lists[0], other, strict=False):
            if not geometry.same_sizes(sizes_of(first), sizes_of(second)):
                raise RuntimeError(
                    f"fused steps need tensors of the same sizes, got {list(first.shape)} and "
                    f"{list(second.shape)}"
                )


# -- adam ------------------------------------------------------------------------------------------

GRAD_SCALE = "Tensor? grad_scale=None, Tensor? found_inf=None"


def adam_text(
    m: Any, value: Any, average: Any, square: Any, grad: Any, kept: Any, decay: Any, first: Any,
    beta2: Any, second: Any, root: Any, eps: Any, rate: Any,
) -> Any:  # fmt: skip
    """A step of Adam on elements, in the order of `adam_kernel`'s own. `kept` is what is left of a
    value by decoupled weight decay, `decay` the factor of the other kind; None where there is
    none."""
    if kept is not None:
        value = m.multiply(value, kept)
    if decay is not None:
        grad = m.add(grad, m.multiply(value, decay))
    average = m.add(average, m.multiply(m.subtract(grad, average), first))
    square = m.add(m.multiply(square, beta2), m.multiply(m.multiply(grad, second), grad))
    scale = m.add(m.divide(m.sqrt(square), root), eps)
    return m.subtract(value, m.multiply(m.divide(average, scale), rate)), average, square


ADAM_STEP = Steps("adam", adam_text, (0, 1, 2))


def native_adam(
    columns: list[Any], counts: list[Any], rate: float, beta1: float, beta2: float,
    weight_decay: float, eps: float, decoupled: bool,
) -> list[int]:  # fmt: skip
    """Take the steps of large tensors by native code; the rows that are left."""
    rows = []
    kept = 1 - rate * weight_decay if weight_decay and decoupled else None
    decay = weight_decay if weight_decay and not decoupled else None
    for row, count in enumerate(counts):
        value, grad, average, square = [column[row]._array for column in columns]
        done = value.size > SMALL and value.dtype.itemsize > 2 and ADAM_STEP(
            value, average, square, grad, kept, decay, 1 - beta1, float(beta2), 1 - beta2,
            math.sqrt(1 - beta2**count), float(eps), rate / (1 - beta1**count),
        )  # fmt: skip
        if not done:
            rows.append(row)
    return rows


def adam_kernel(decoupled: bool) -> Callable[..., None]:
    def kernel(
        self: Any, grads: Any, exp_avgs: Any, exp_avg_sqs: Any, max_exp_avg_sqs: Any,
        state_steps: Any, lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float,
        amsgrad: bool, maximize: bool, grad_scale: Any, found_inf: Any,
    ) -> None:  # fmt: skip
        check_lists("fused_adam_kernel", self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
        if is_skipped(found_inf):
            return
        rate = number(lr)
        scale = None if grad_scale is None else number(grad_scale)
        most = max_exp_avg_sqs if amsgrad else None
        columns = [self, grads, exp_avgs, exp_avg_sqs, most]
        changes = (True, scale is not None, True, True, True)
        counts = [count.item() for count in state_steps]
        if most is None and scale is None and not maximize:
            numbers = (rate, beta1, beta2, weight_decay, eps, decoupled)
            rows = native_adam(columns[:4], counts, *numbers)
            columns = [c and [c[row] for row in rows] for c in columns]
            counts = [counts[row] for row in rows]
        first, second = Scratch(), Scratch()
        for step, arrays in sweep(columns, counts, changes):
            value, grad, average, square, largest = arrays
            spare, other = first.like(value), second.like(value)
            grad = prepare(grad, scale, maximize, other)
            if weight_decay and decoupled:
                value *= 1 - rate * weight_decay
            elif weight_decay:
                np.multiply(value, weight_decay, spare)
                grad = np.add(grad, spare, other)
            np.subtract(grad, average, spare)
            spare *= 1 - beta1
            average += spare
            square *= beta2
            np.multiply(grad, 1 - beta2, spare)
            spare *= grad
            square += spare
            if largest is not None:
                np.maximum(largest, square, out=largest)
                square = largest
            np.sqrt(square, spare)
            spare /= math.sqrt(1 - beta2**step)
            spare += eps
            np.divide(average, spare, spare)
            spare *= rate / (1 - beta1**step)
            value -= spare

    return kernel


ADAM = (
    "Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, "
    "Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, {} lr, float beta1, float beta2, "
    f"float weight_decay, float eps, bool amsgrad, bool maximize, {GRAD_SCALE}"
)


def rate_of(make: Any, overload: str) -> Any:
    return make(low=0.25, high=0.5, dtype=dtypes.float32) if overload else 0.25


def counts(make: Any) -> Any:
    return [make(low=3, high=4, dtype=dtypes.float32), make(low=5, high=6, dtype=dtypes.float32)]


def parameters(make: Any, count: int) -> list[list[Any]]:
    """Lists of two tensors; those after the second hold no negative numbers."""
    return [
        [make(2, 3, **domain), make(4, **domain)]
        for domain in [{}, {}, *[{"low": 0.5, "high": 2.0}] * (count - 2)]
    ]


def adam_samples(overload: str) -> Any:
    def samples(make: Any) -> Any:
        for amsgrad, weight_decay, maximize in ((False, 0.0, False), (True, 0.5, True)):
            lists = parameters(make, 5)
            yield sample(
                *(lists if amsgrad else [*lists[:4], []]),
                counts(make),
                lr=rate_of(make, overload),
                beta1=0.5,
                beta2=0.75,
                weight_decay=weight_decay,
                eps=0.125,
                amsgrad=amsgrad,
                maximize=maximize,
            )

    return samples


# -- sgd and adagrad -------------------------------------------------------------------------------


def native_sgd(
    self: list[Any], grads: list[Any], buffers: list[Any], decay: float, momentum: float,
    rate: float, dampening: float, nesterov: bool,
) -> bool:  # fmt: skip
    """Take the whole step by native code; False where it is not taken."""
    columns = [
        [tensor._array for tensor in column]
        for column in ([self, grads, buffers] if momentum else [self, grads])
    ]
    size = sum([array.size for array in columns[0]])
    native = heavy_kernels(4 * size, *[array for column in columns for array in column])
    if native is None or not may_compile():
        return False
    for column, is_written in zip(columns, (True, False, True), strict=False):
        for array, first in zip(column, columns[0], strict=True):
            flags = array.flags
            if not flags.c_contiguous or array.size != first.size or not first.size:
                return False
            if is_written and not flags.writeable:
                return False
    values, *rest = columns
    found: bool = native.descend(
        values, rest[0], rest[1] if momentum else None, decay, momentum, 1 - dampening, nesterov,
        rate,
    )  # fmt: skip
    return found


def sgd_kernel(
    self: Any, grads: Any, momentum_buffer_list: Any, weight_decay: float, momentum: float, lr: Any,
    dampening: float, nesterov: bool, maximize: bool, is_first_step: bool, grad_scale: Any,
    found_inf: Any,
) -> None:  # fmt: skip
    check_lists("fused_sgd_kernel", self, grads, momentum_buffer_list)
    if is_skipped(found_inf):
        return
    rate = number(lr)
    scale = None if grad_scale is None else number(grad_scale)
    if scale is None and not maximize and not is_first_step:
        numbers = (weight_decay, momentum, rate, dampening, nesterov)
        if native_sgd(self, grads, momentum_buffer_list, *numbers):
            return
    columns = [self, grads, momentum_buffer_list or None]
    changes = (True, scale is not None, True)
    first, second = Scratch(), Scratch()
    for _, (value, grad, buffer) in sweep(columns, [None] * len(self), changes):
        spare, other = first.like(value), second.like(value)
        grad = prepare(grad, scale, maximize, other)
        if weight_decay:
            np.multiply(value, weight_decay, spare)
            grad = np.add(grad, spare, other)
        if momentum:
            if is_first_step:
                buffer[...] = grad
            else:
                buffer *= momentum
                buffer += np.multiply(grad, 1 - dampening, spare) if dampening else grad
            if nesterov:
                np.multiply(buffer, momentum, spare)
                grad = np.add(grad, spare, other)
            else:
                grad = buffer
        np.multiply(grad, rate, spare)
        value -= spare


SGD = (
    "Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, "
    "float weight_decay, float momentum, {} lr, float dampening, bool nesterov, bool maximize, "
    f"bool is_first_step, {GRAD_SCALE}"
)


def sgd_samples(overload: str) -> Any:
    def samples(make: Any) -> Any:
        for momentum, nesterov, is_first_step in (
            (0.0, False, False),
            (0.5, True, False),
            (0.5, False, True),
        ):
            lists = parameters(make, 3)
            yield sample(
                *(lists if momentum else [*lists[:2], []]),
                weight_decay=momentum / 2,
                momentum=momentum,
                lr=rate_of(make, overload),
                dampening=0.0 if nesterov else 0.25,
                nesterov=nesterov,
                maximize=is_first_step,
                is_first_step=is_first_step,
            )

    return samples


def adagrad_kernel(
    self: Any, grads: Any, state_sums: Any, state_steps: Any, lr: Any, lr_decay: float,
    weight_decay: float, eps: float, maximize: bool, grad_scale: Any, found_inf: Any,
) -> None:  # fmt: skip
    check_lists("fused_adagrad_kernel", self, grads, state_sums)
    if is_skipped(found_inf):
        return
    scale = None if grad_scale is None else number(grad_scale)
    columns = [self, grads, state_sums]
    changes = (True, scale is not None, True)
    first, second = Scratch(), Scratch()
    for step, arrays in sweep(columns, [count.item() for count in state_steps], changes):
        value, grad, total = arrays
        spare, other = first.like(value), second.like(value)
        grad = prepare(grad, scale, maximize, other)
        if weight_decay:
            np.multiply(value, weight_decay, spare)
            grad = np.add(grad, spare, other)
        np.multiply(grad, grad, spare)
        total += spare
        np.sqrt(total, spare)
        spare += eps
        np.divide(grad, spare, spare)
        spare *= number(lr) / (1 + (step - 1) * lr_decay)
        value -= spare


ADAGRAD = (
    "Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, {} state_steps, *, {} lr, "
    f"float lr_decay, float weight_decay, float eps, bool maximize, {GRAD_SCALE}"
)


def adagrad_samples(overload: str) -> Any:
    def samples(make: Any) -> Any:
        for weight_decay, maximize in ((0.0, False), (0.5, True)):
            yield sample(
                *parameters(make, 3),
                counts(make),
                lr=rate_of(make, overload),
                lr_decay=0.25,
                weight_decay=weight_decay,
                eps=0.125,
                maximize=maximize,
            )

    return samples


for overload, kind in (("", "float"), ("tensor_lr", "Tensor")):
    for name, decoupled in (("adam", False), ("adamw", True)):
        fused(
            f"_fused_{name}",
            overload,
            ADAM.format(kind),
            adam_kernel(decoupled),
            name,
            samples=adam_samples(overload),
        )
    fused(
        "_fused_sgd", overload, SGD.format(kind), sgd_kernel, "sgd", samples=sgd_samples(overload)
    )
    steps = "Tensor[]" if overload else "Tensor(d!)[]"
    fused(
        "_fused_adagrad",
        overload,
        ADAGRAD.format(steps, kind),
        adagrad_kernel,
        "adagrad",
        samples=adagrad_samples(overload),
    )


# -- gradient scaling ------------------------------------------------------------------------------


def check_unscaling(self: Any, found_inf: Any, inv_scale: Any) -> None:
    for name, tensor in (("found_inf", found_inf), ("inv_scale", inv_scale)):
        if tensor.numel() != 1:
            raise RuntimeError(f"{name} must be a 1-element tensor.")
        if tensor._dtype is not dtypes.float32:
            raise RuntimeError(f"{name} must be a float tensor.")
    for tensor in self:
        if not tensor._dtype.is_floating_point:
            raise unsupported("_amp_foreach_non_finite_check_and_unscale_cpu", tensor._dtype)


def unscale_kernel(self: Any, found_inf: Any, inv_scale: Any) -> None:
    check_unscaling(self, found_inf, inv_scale)
    factor = np.float32(inv_scale.item())
    for _, (piece,) in sweep([self], [None] * len(self), (True,)):
        if not np.isfinite(piece).all():
            found_inf._array[...] = 1.0
        if factor != 1:
            piece *= factor


fused(
    "_amp_foreach_non_finite_check_and_unscale",
    "",
    "Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale",
    unscale_kernel,
    "unscale",
    samples=lambda make: [
        ([make(2, 3), make(4)], zero_of(make), make(1, low=0.5, high=1, dtype=dtypes.float32)),
        ([make.special(9)], zero_of(make), make(1, low=0.5, high=1, dtype=dtypes.float32)),
    ],
)


def zero_of(make: Any) -> Any:
    return make(1, low=0, high=1, dtype=dtypes.float32).zero_()


def check_scale(self: Any, growth_tracker: Any, found_inf: Any) -> None:
    for name, tensor, dtype, words in (
        ("growth_tracker", growth_tracker, dtypes.int32, "an int"),
        ("current_scale", self, dtypes.float32, "a float"),
        ("found_inf", found_inf, dtypes.float32, "a float"),
    ):
        if tensor.numel() != 1:
            raise RuntimeError(f"{name} must be a 1-element tensor.")
        if tensor._dtype is not dtype:
            raise RuntimeError(f"{name} must be {words} tensor.")


def update_scale_kernel(
    self: Any, growth_tracker: Any, found_inf: Any, scale_growth_factor: float,
    scale_backoff_factor: float, growth_interval: int,
) -> None:  # fmt: skip
    check_scale(self, growth_tracker, found_inf)
    if found_inf.item():
        self._array[...] = np.float32(self.item() * scale_backoff_factor)
        growth_tracker._array[...] = 0
        return
    successful = growth_tracker.item() + 1
    if successful == growth_interval:
        grown = np.float32(self.item() * scale_growth_factor)
        if np.isfinite(grown):
            self._array[...] = grown
        successful = 0
    growth_tracker._array[...] = successful


def scale_samples(make: Any) -> Any:
    scale = make(1, low=4, high=9, dtype=dtypes.float32)
    for count in (0, 1):
        tracker = make.ints(1, low=count, high=count + 1, dtype=dtypes.int32)
        yield scale, tracker, zero_of(make), 2.0, 0.5, 2
    yield scale, tracker, zero_of(make).add_(1), 2.0, 0.5, 2


fused(
    "_amp_update_scale",
    "",
    "Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float scale_growth_factor, "
    "float scale_backoff_factor, int growth_interval",
    update_scale_kernel,
    "update_scale",
    returns="Tensor(a!)",
    samples=scale_samples,
)
