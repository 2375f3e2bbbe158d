"""Results are memory of their own that can be written, unless the schema says that they alias."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from tests.reference import store


def makes_memory(op: Any) -> bool:
    """Whether nothing that the op returns may be an argument or a part of one."""
    if op._schema.is_mutable or op.body is not None or "unsafe" in op.base_name:
        return False
    return all(entry.alias_info is None for entry in op._schema.returns)


OPS = [op for op in audit.records() if has_samples(op) and makes_memory(op)]


def corner(value: Any) -> Any:
    """One element in each dim, where moving elements moves none."""
    if isinstance(value, Tensor) and isinstance(value._array, np.ndarray):
        for dim in range(value.dim()):
            value = value.narrow(dim, 0, min(1, value.shape[dim]))
        return value.clone()
    return value


def arrays_of(tensors: Any) -> list[Any]:
    found = [t._array for t in tensors if isinstance(t, Tensor)]
    return [array for array in found if isinstance(array, np.ndarray) and array.size]


def fault(op: Any, case: Sample) -> str:
    try:
        result = op(*case.args, **case.kwargs)
    except Exception:
        return ""
    given = arrays_of(store.tensors_of(case))
    for array in arrays_of(store.flat(result)):
        if not array.flags.writeable:
            return "a result that cannot be written"
        if any(np.may_share_memory(array, other) for other in given):
            return "a result in the memory of an argument"
    return ""


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
def test_results_are_memory_of_their_own(op: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in (dtypes.float32, dtypes.int64):
            for case in samples_of(op, dtype):
                for form in (case, store.mapped(case, corner)):
                    assert not fault(op, form), f"{fault(op, form)}: {form}"
