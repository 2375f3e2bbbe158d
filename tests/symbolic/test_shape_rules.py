"""Every shape rule runs on symbolic sizes, and gives the sizes and strides of a real run."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.core import dtype as dtypes
from rushlight.core.fake import DataDependentOutputException, FakeTensorMode
from rushlight.core.tensor import Tensor, strides_of
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from rushlight.symbolic import GuardOnDataDependentSymNode, ShapeEnv, SymInt, hint_int
from tests.reference import store

OPS = [op for op in audit.records() if has_samples(op)]


def reads_values(op: Any) -> bool:
    return store.is_data_dependent(op) or "reads_values" in op.options


def plain(sizes: Any) -> tuple[int, ...]:
    return tuple(hint_int(size, fallback=-1) for size in sizes)


def symbolic(case: Sample) -> tuple[FakeTensorMode, Sample]:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    count = 0

    def fake(value: Any) -> Any:
        nonlocal count
        if not isinstance(value, Tensor):
            return value
        count += 1
        return mode.from_tensor(value.detach(), source=f"t{count}")

    return mode, store.mapped(case, fake)


def difference(op: Any, case: Sample) -> str | None:
    """How the symbolic run differs from the real one; None where it does not."""
    mode, bare = symbolic(case)
    try:
        real = op(*case.args, **case.kwargs)
    except Exception:
        return None
    if any(isinstance(t, Tensor) and t.layout.name != "strided" for t in store.flat(real)):
        return None  # there are no fake sparse tensors
    try:
        with mode:
            found = op(*bare.args, **bare.kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    mine, theirs = store.flat(found), store.flat(real)
    if len(mine) != len(theirs):
        return f"{len(mine)} results, expected {len(theirs)}"
    for got, wanted in zip(mine, theirs, strict=True):
        if not isinstance(wanted, Tensor):
            if isinstance(got, SymInt):
                got = hint_int(got)
            elif isinstance(got, tuple):
                got = plain(got)
            if got != wanted:
                return f"{got!r}, expected {wanted!r}"
            continue
        sizes, strides = plain(got.shape), plain(strides_of(got))
        if -1 in sizes:
            continue  # a size that only run time tells
        facts = (got.dtype, sizes, strides)
        expected = (wanted.dtype, tuple(wanted.shape), tuple(strides_of(wanted)))
        if facts != expected:
            return f"{facts}, expected {expected}"
    return None


def may_refuse(op: Any, text: str) -> bool:
    if reads_values(op) and GuardOnDataDependentSymNode.__name__ in text:
        return True
    return DataDependentOutputException.__name__ in text


def is_dense(case: Sample) -> bool:
    return all(t.layout.name == "strided" for t in store.tensors_of(case))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
def test_symbolic_sizes(op: Any) -> None:
    if op.kind.name == "NATIVE" or (store.answers_number(op) and reads_values(op)):
        pytest.skip("its answer is read from memory")
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in samples_of(op, dtypes.float32):
            if not is_dense(case):
                continue
            text = difference(op, case)
            if text is not None and not may_refuse(op, text):
                lines.append(f"{case!r}: {text}")
    assert not lines, "\n".join(lines[:20])


def test_sizes_of_fakes_are_told_by_ops_too():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = mode.from_tensor(torch.ones(3, 4))
    with mode:
        size = torch.ops.aten.sym_size.int(fake, 0)
        assert isinstance(size, torch.SymInt) and size is not fake.shape[1]
        assert torch.ops.aten.sym_numel.default(fake).node.hint == 12
        assert torch.ops.aten.sym_stride.int(fake, 1) == 1
