"""Shape rules do not compare sizes by themselves: they run on sizes that have no value.

A rule that asks `size == 0` or `a != b` raises here. `is_size`, `decided` and `required` of
core.geometry ask in a way that such sizes answer. Ops whose result depends on the answer, such as
the number of parts of a split, are listed in `asking_ops.txt`.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.core import dtype as dtypes
from rushlight.core.fake import FakeTensorMode
from rushlight.core.tensor import Tensor
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from rushlight.symbolic import GuardOnDataDependentSymNode, ShapeEnv, SymInt
from tests.reference import store

LISTED = frozenset(Path(__file__).with_name("asking_ops.txt").read_text().split())
CASES = 4


def is_tested(op: Any) -> bool:
    if not has_samples(op) or op.kind.name == "NATIVE":
        return False
    return not store.is_data_dependent(op) and "reads_values" not in op.options


OPS = [op for op in audit.records() if is_tested(op)]


class Opened:
    """A sample whose sizes of 2 and more are unknown; equal ones are the same unknown."""

    def __init__(self) -> None:
        self.env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.env)
        self.sizes: dict[int, SymInt] = {}

    def size(self, size: int) -> Any:
        if size < 2:
            return size
        if size not in self.sizes:
            self.sizes[size] = self.env.create_unbacked_symint()
            self.env.constrain_size(self.sizes[size].node.expr)
        return self.sizes[size]

    def tensor(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return torch.empty([self.size(size) for size in value.shape], dtype=value.dtype)


def asks(op: Any, case: Sample) -> bool:
    """Whether a rule wants to know a size. Other refusals are none of this test's business: sizes
    that samples relate by numbers are not related here."""
    if not all(tensor.layout.name == "strided" for tensor in store.tensors_of(case)):
        return False
    opened = Opened()
    try:
        with opened.mode:
            bare = store.mapped(case, opened.tensor)
            op(*bare.args, **bare.kwargs)
    except GuardOnDataDependentSymNode:
        return True
    except Exception:
        return False
    return False


def asking(op: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return any(asks(op, case) for case in list(samples_of(op, dtypes.float32))[:CASES])


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
def test_rules_take_sizes_without_values(op: Any) -> None:
    assert asking(op) == (op.name()[6:] in LISTED)
