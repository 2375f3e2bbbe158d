"""Wrong calls that follow from an op's schema and kind: a good sample with one thing changed.

Arguments that do not fit are derived only where no overload of the name takes them, so that the
call must raise. It goes through `door(op)`: a public function answers such arguments with a
TypeError, an overload object with a RuntimeError. Loaded by tests and the op audit only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core.binding import bind_packet
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.opset import registry
from rushlight.opset.samples.maker import Sample, maker_of, pointwise_arity, samples_of

__all__ = ["derived_errors", "door"]

Wrong = tuple[type[Exception], Sample]

# What no argument of a type takes. Strings may name dimensions, so integers get something else.
WRONG_VALUES: dict[str, Any] = {"int": 1.5, "SymInt": 1.5, "str": 3, "Device": 1.5}
TEXT = "text"
UNKNOWN = {"no_such_argument": 1}


# -- where calls go --------------------------------------------------------------------------------


def public_function(op: OpOverload) -> Any:
    """The generated public function of an op, or None. Derivatives have none, and those of
    `special`, `linalg` and `fft` have it in a module of their own."""
    name = op.base_name
    apart = name.endswith("_backward") or name.startswith(("special_", "linalg_", "fft_"))
    return None if apart or op.namespace != "aten" else registry.public(name)


def python_function(op: OpOverload) -> Any:
    """The public function that stands before an op in its own module, or None."""
    if not has_python_function(op) or not op.family:
        return None
    found = getattr(import_module(f"rushlight.opset.{op.family}"), op.base_name, None)
    return None if isinstance(found, OpOverload) else found


def has_python_function(op: OpOverload) -> bool:
    return op.options.get("function", True) is None


def door(op: OpOverload) -> Callable[..., Any]:
    """What an op's wrong calls go through: its public function, or else the overload."""
    return public_function(op) or python_function(op) or op


# -- all of them -----------------------------------------------------------------------------------


def derived_errors(op: OpOverload, dtype: dtypes.dtype = dtypes.float32) -> list[Wrong]:
    """The wrong calls that follow from what an op says about itself."""
    found = list(unequal_sizes(op, dtype))
    if has_python_function(op):
        # It has arguments of its own.
        if python_function(op) is not None:
            found.append((TypeError, Sample((), dict(UNKNOWN))))
        return found
    good = good_sample(op, dtype)
    found += ill_fitting(op, good)
    if good is not None:
        for rule in (out_of_range, no_integers, without_values, written_leaf):
            found += rule(op, good)
    return found


def good_sample(op: OpOverload, dtype: dtypes.dtype) -> Sample | None:
    """The first sample that runs, of another dtype where the op does not take `dtype`."""
    for each in (dtype, dtypes.int64, dtypes.bool_, dtypes.complex64):
        for position, case in enumerate(samples_of(op, each)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    op(*case.args, **case.kwargs)
            except Exception:
                continue
            # Made again: an op may write to its arguments.
            return samples_of(op, each)[position]
    return None


def given_arguments(op: OpOverload, good: Sample) -> Iterator[tuple[int, Any, Any]]:
    """(position, argument, value) of what a sample gives."""
    for position, argument in enumerate(op._schema.arguments):
        if argument.name in good.kwargs:
            yield position, argument, good.kwargs[argument.name]
        elif position < len(good.args) and not argument.kwarg_only:
            yield position, argument, good.args[position]


def replaced(good: Sample, position: int, argument: Any, value: Any) -> Sample:
    """The sample with another value for one argument."""
    if position < len(good.args) and not argument.kwarg_only:
        args = (*good.args[:position], value, *good.args[position + 1 :])
        return Sample(args, good.kwargs)
    return Sample(good.args, {**good.kwargs, argument.name: value})


# -- arguments that do not fit ---------------------------------------------------------------------


def ill_fitting(op: OpOverload, good: Sample | None) -> Iterator[Wrong]:
    """Calls that are refused before anything is computed."""
    public = public_function(op) is not None
    for case in misfits(op, good):
        if is_refused(op, case, public):
            yield (TypeError if public else RuntimeError), case


def misfits(op: OpOverload, good: Sample | None) -> Iterator[Sample]:
    """Too few, too many, unknown, and one at a time of the wrong type."""
    if good is None:
        yield Sample((), dict(UNKNOWN))
        return
    args, kwargs = good.args, good.kwargs
    if args:
        yield Sample(args[:1] if len(args) > 1 else (), {})
    yield Sample((*args, TEXT), kwargs)
    yield Sample(args, {**kwargs, **UNKNOWN})
    for position, argument in enumerate(op._schema.arguments):
        yield replaced(good, position, argument, wrong_value(argument.type))
    if public_function(op) is not None and "out" not in op.argument_names:
        yield Sample(args, {**kwargs, "out": TEXT})


def is_refused(op: OpOverload, case: Sample, public: bool) -> bool:
    try:
        if public:
            bind_packet(op.packet, case.args, case.kwargs)
        else:
            op.bind(*case.args, **case.kwargs)
    except TypeError:
        return True
    return False


def wrong_value(kind: Any) -> Any:
    element = kind.element.kind if kind.kind == "List" else kind.kind
    return WRONG_VALUES.get(element, TEXT)


# -- values that do not fit ------------------------------------------------------------------------


def unequal_sizes(op: OpOverload, dtype: dtypes.dtype) -> Iterator[Wrong]:
    """Operands of an elementwise op whose sizes do not broadcast."""
    arity = pointwise_arity(op)
    if arity is not None and arity[0] > 1:
        make = maker_of(op, dtype)
        operands = (make(2, 3), *[make(4) for _ in range(arity[0] - 1)])
        yield RuntimeError, Sample((*operands, *(2, 3)[: arity[1]]), {})


def is_derivative(op: OpOverload) -> bool:
    """Whether only backward passes call it, with values that need no check."""
    return "_backward" in op.base_name


def out_of_range(op: OpOverload, good: Sample) -> Iterator[Wrong]:
    """Dimensions that the first tensor does not have."""
    first = good.args[0] if good.args else None
    if not isinstance(first, Tensor) or is_derivative(op):
        return
    for position, argument, _ in given_arguments(op, good):
        if argument.name in ("dim", "dim0", "dim1") and argument.type.kind == "int":
            yield IndexError, replaced(good, position, argument, first.dim() + 5)


def no_integers(op: OpOverload, good: Sample) -> Iterator[Wrong]:
    """Floats for the indices of what takes or writes elements."""
    if (op.functional or op).kind.name not in ("GATHER", "SCATTER", "MUTATION"):
        return
    for position, argument, value in given_arguments(op, good):
        if argument.name in ("index", "indices") and isinstance(value, Tensor):
            yield RuntimeError, replaced(good, position, argument, value.to(dtypes.float32))


def without_values(op: OpOverload, good: Sample) -> Iterator[Wrong]:
    """An operand of an elementwise op that is on another device than the first."""
    if op.kind.name != "POINTWISE" or is_derivative(op):
        return
    for position, argument, value in given_arguments(op, good):
        if position > 0 and isinstance(value, Tensor) and isinstance(good.args[0], Tensor):
            yield RuntimeError, replaced(good, position, argument, value.to("meta"))


def written_leaf(op: OpOverload, good: Sample) -> Iterator[Wrong]:
    """A leaf that needs a gradient where the op would write."""
    for position, argument, value in given_arguments(op, good):
        if argument.is_write and isinstance(value, Tensor) and value.is_floating_point():
            leaf = value.detach().clone().requires_grad_()
            yield RuntimeError, replaced(good, position, argument, leaf)
