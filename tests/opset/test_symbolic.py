"""Shape rules, formulas and decompositions over sizes that are no ints.

`Count` does arithmetic and comparisons like an int but cannot become one: whatever reads it as a
number fails here. Backward and forward derivatives run on tensors without values too, where a
formula that looks at elements fails.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import pytest

import rushlight as torch
from rushlight.autograd import forward_ad
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor, shell, strides_of
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from tests.opset import floors
from tests.reference import store

LIMIT = 6  # samples of one op
KINDS = (dtypes.float32, dtypes.int64, dtypes.complex64)
# How many results there are is a number that a program must know.
COUNTED = (
    "unbind",
    "split",
    "unsafe_split",
    "chunk",
    "unsafe_chunk",
    "unbind_copy",
    "split_copy",
    "histogramdd",
)
# Steps of a sequence and gates of a cell are counted, too.
RECURRENT = (
    "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "mkldnn_rnn_layer",
)  # fmt: skip
# Bags are laid out by numbers that their kernel counts.
BAGS = ("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")


class Count:
    """A symbolic int that stands for `node`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: int) -> None:
        self.node = node

    def __repr__(self) -> str:
        return f"s{self.node}"

    def __bool__(self) -> bool:
        return self.node != 0

    def __index__(self) -> int:
        raise TypeError("a symbolic int was read as a number")

    __int__ = __float__ = __index__  # type: ignore[assignment]

    def __sym_max__(self, other: Any) -> Any:
        return Count(max(self.node, number(other)))

    def __neg__(self) -> Any:
        return Count(-self.node)


def number(value: Any) -> Any:
    return value.node if isinstance(value, Count) else value


def install(name: str) -> None:
    function = getattr(operator, name)
    is_comparison = name in ("eq", "ne", "lt", "le", "gt", "ge")

    def made(value: Any) -> Any:
        return Count(value) if type(value) is int else value

    def forward(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float, Count)):
            return NotImplemented
        return made(function(self.node, number(other)))

    def reflected(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float, Count)):
            return NotImplemented
        return made(function(number(other), self.node))

    setattr(Count, f"__{name}__", forward)
    if not is_comparison:
        setattr(Count, f"__r{name}__", reflected)


for each in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow"):
    install(each)
for each in ("eq", "ne", "lt", "le", "gt", "ge"):
    install(each)


def symbolic(tensor: Tensor) -> Tensor:
    """A tensor of the same geometry without values, sizes and strides above 1 symbolic."""

    def lifted(sizes: Any) -> tuple[Any, ...]:
        return tuple(Count(size) if size > 1 else size for size in sizes)

    sizes, strides = lifted(tensor.shape), lifted(strides_of(tensor))
    return shell(sizes, strides, tensor.dtype, devices.meta, tensor.storage_offset())


def facts(tensor: Any, strides: bool) -> tuple[Any, ...]:
    found = (tensor.dtype, tuple(map(number, tensor.shape)))
    return (*found, tuple(map(number, strides_of(tensor)))) if strides else found


def is_candidate(op: Any) -> bool:
    return (
        has_samples(op)
        and not store.is_data_dependent(op)
        and op.base_name not in (*COUNTED, *BAGS, *RECURRENT)
        and not op._schema.is_mutable
    )


OPS = [op for op in audit.records() if is_candidate(op)]
each_op = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])


def is_mask(tensor: Tensor) -> bool:
    return tensor.dtype in (dtypes.bool_, dtypes.uint8)


def cases_of(op: Any, kind: Any) -> list[Sample]:
    found = []
    for case in samples_of(op, kind):
        tensors = store.tensors_of(case)
        selects = op.base_name in ("index", "_unsafe_index") and any(map(is_mask, tensors[1:]))
        counts = op.base_name == "one_hot" and len(case.args) == 1
        if (
            tensors
            and not selects
            and not counts
            and all(t.layout.name == "strided" for t in tensors)
        ):
            found.append(case)
    return found[:: max(1, -(-len(found) // LIMIT))]


def mapped(case: Sample, change: Any) -> Sample:
    made: Sample = store.mapped(case, lambda v: change(v) if isinstance(v, Tensor) else v)
    return made


def compare(op: Any, run: Any, strides: bool) -> None:
    lines = []
    ran = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Where an op refuses floats, other numbers serve.
        calls = ((each, c) for each in KINDS for c in cases_of(op, each))
        for kind, case in calls:
            if ran and kind is not dtypes.float32:
                break
            try:
                expected = run(op, case, lambda tensor: tensor.detach())
            except Exception:
                continue  # refused for this dtype
            ran += 1
            try:
                found = run(op, case, symbolic)
            except Exception as error:
                lines.append(f"{case!r}: {type(error).__name__}: {str(error)[:200]}")
                continue
            for mine, theirs in zip(found, expected, strict=True):
                if (mine is None) != (theirs is None):
                    lines.append(f"{case!r}: {mine}, expected {theirs}")
                elif isinstance(theirs, Tensor) and facts(mine, strides) != facts(theirs, strides):
                    text = f"{facts(mine, strides)}, expected {facts(theirs, strides)}"
                    lines.append(f"{case!r}: {text}")
    if lines:
        pytest.fail("\n".join([op.name(), *lines[:5]]), pytrace=False)
    floors.ran(f"symbolic_{run.__name__}", op.name().removeprefix("aten::"), ran)


def results_of(op: Any, case: Sample) -> list[Any]:
    result = op(*case.args, **case.kwargs)
    return [out for out in store.flat(result) if isinstance(out, Tensor)]


def results(op: Any, case: Sample, change: Any) -> list[Any]:
    return results_of(op, mapped(case, change))


@each_op
def test_results(op: Any) -> None:
    compare(op, results, strides=True)


def gradients(op: Any, case: Sample, change: Any) -> list[Any]:
    """First and second derivatives by all floating point inputs."""
    leaves: list[Tensor] = []

    def leaf(tensor: Tensor) -> Tensor:
        made = change(tensor)
        if tensor.dtype.category >= dtypes.FLOAT:
            leaves.append(made.requires_grad_())
        return made

    outputs = [out for out in results_of(op, mapped(case, leaf)) if out.requires_grad]
    found: list[Any] = []
    for _ in range(2):
        if outputs:
            ones = [torch.ones_like(out).detach() for out in outputs]
            options = {"allow_unused": True, "create_graph": True}
            grads = torch.autograd.grad(outputs, leaves, ones, **options)
            found += grads
            outputs = [grad for grad in grads if grad is not None and grad.requires_grad]
    return found


@pytest.mark.parametrize(
    "op", [op for op in OPS if "reads_values" not in op.options], ids=lambda op: op.name()[6:]
)
def test_gradients(op: Any) -> None:
    compare(op, gradients, strides=False)


def tangents(op: Any, case: Sample, change: Any) -> list[Any]:
    with forward_ad.dual_level():

        def dual(tensor: Tensor) -> Any:
            made = change(tensor)
            if tensor.dtype.category < dtypes.FLOAT:
                return made
            return forward_ad.make_dual(made, torch.ones_like(made))

        outputs = results_of(op, mapped(case, dual))
        return [forward_ad.unpack_dual(out).tangent for out in outputs]


@each_op
def test_tangents(op: Any) -> None:
    compare(op, tangents, strides=False)
