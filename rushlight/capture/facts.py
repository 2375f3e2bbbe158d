"""What guards test of tensors, and the texts of the tests."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.capture.overrides import is_recast
from rushlight.core.modes import is_traceable_wrapper_subclass
from rushlight.core.parameter import Parameter
from rushlight.core.state import LOCAL, OVERRIDES, changed
from rushlight.core.tensor import Tensor as RealTensor
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.symbolic.numbers import SymInt

__all__ = ["TensorFacts", "array_tests", "describe", "is_fake", "settled_sizes"]


class TensorFacts(NamedTuple):
    """What a guard of a tensor tests; None for sizes and strides that symbols stand for. `seen`
    are the sizes that it had."""

    kind: type
    dtype: Any
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    requires_grad: bool
    seen: tuple[int, ...]

    def __str__(self) -> str:
        """For users: `?` stands for any number."""
        sizes, strides = (
            "(" + ", ".join(["?" if n is None else str(n) for n in numbers]) + ")"
            for numbers in (self.sizes, self.strides)
        )
        return (
            f"a {self.kind.__name__} of {self.dtype}, sizes {sizes}, strides {strides} in bytes, "
            f"requires_grad={self.requires_grad}"
        )


def describe(value: Any) -> Any:
    """All that a guard of a tensor of a subclass tests."""
    if is_recast(type(value)):
        with changed(excluded=LOCAL.state.excluded | OVERRIDES):
            flags = value.requires_grad, value._unusual is not None
            return type(value), value.dtype, sizes_of(value), strides_of(value), flags
    if not is_traceable_wrapper_subclass(value):
        return type(value), value.dtype, value.shape, value.stride(), value.requires_grad
    names, context = value.__tensor_flatten__()
    parts = [describe(getattr(value, name)) for name in names]
    flags = value.requires_grad, isinstance(value, Parameter)
    return type(value), value.shape, value.stride(), flags, names, context, parts


def array_tests(text: str, facts: TensorFacts, names: Any) -> list[str]:
    """Tests of a tensor's dtype, sizes and strides; those that are None are not asked for."""
    tests = [f"{text}._dtype is not {names.constant(facts.dtype)}"]
    array = f"(__a := {text}._array)"
    for name, wanted in (("shape", facts.sizes), ("strides", facts.strides)):
        if None not in wanted:
            tests.append(f"{array}.{name} != {wanted!r}")
            array = "__a"
            continue
        if name == "shape":
            tests.append(f"{array}.ndim != {len(wanted)}")
            array = "__a"
        for dim, number in enumerate(wanted):
            if number is not None:
                tests.append(f"{array}.{name}[{dim}] != {number}")
    return tests


def is_fake(value: Any) -> bool:
    return isinstance(value, RealTensor)


def settled_sizes(text: str, example: Any) -> list[str]:
    """Tests that fail where sizes or strides are not those that the graph turned out to need."""
    if not is_fake(example):
        return []
    numbers = [(f"shape[{dim}]", 1, n) for dim, n in enumerate(example.shape)]
    width = example.dtype.itemsize
    numbers += [(f"strides[{dim}]", width, n) for dim, n in enumerate(example.stride())]
    return [
        f"{text}._array.{name} != {number.node.settled() * factor}"
        for name, factor, number in numbers
        if isinstance(number, SymInt) and number.node.is_constant()
    ]
