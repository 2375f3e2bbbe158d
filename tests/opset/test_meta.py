"""Running without values (device='meta') gives the sizes, strides and dtype of a real run."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor, shell, strides_of
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from tests.opset import floors
from tests.reference import store
from tests.reference.exemptions import is_exempt

KINDS = (dtypes.bool_, dtypes.int64, dtypes.float16, dtypes.float32, dtypes.complex64)
OPS = [op for op in audit.records() if has_samples(op) and not store.is_data_dependent(op)]


def without_values(value: Any) -> Any:
    if isinstance(value, Tensor):
        return shell(
            tuple(value.shape),
            strides_of(value),
            value.dtype,
            devices.meta,
            value.storage_offset(),
        )
    return value


def difference(op: Any, case: Sample) -> str | None:
    """How the two runs differ; "" when they do not, None when the real one raises."""
    if op.base_name in ("index", "_unsafe_index") and any(
        t.dtype in (dtypes.bool_, dtypes.uint8) for t in store.tensors_of(case)[1:]
    ):
        return None  # the size of the result is a count of values
    bare = store.mapped(case, without_values)
    named = {a.name for a in op._schema.arguments}
    if "device" in named and not store.tensors_of(case):
        bare.kwargs["device"] = devices.meta
    try:
        real = op(*case.args, **case.kwargs)
    except Exception:
        return None
    try:
        meta = op(*bare.args, **bare.kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    mine, theirs = store.flat(meta), store.flat(real)
    if len(mine) != len(theirs):
        return f"{len(mine)} results, expected {len(theirs)}"
    for got, wanted in zip(mine, theirs, strict=True):
        if not isinstance(wanted, Tensor):
            if got != wanted:
                return f"{got!r}, expected {wanted!r}"
            continue
        if not isinstance(got, Tensor):
            return f"{type(got).__name__}, expected a tensor"
        facts = [(t.dtype, tuple(t.shape), tuple(strides_of(t))) for t in (got, wanted)]
        if facts[0] != facts[1]:
            return f"{facts[0]}, expected {facts[1]}"
        if got.device.type != "meta" and store.tensors_of(case):
            return f"a result on {got.device}"
    return ""


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
def test_meta(op: Any) -> None:
    lines = []
    ran = 0
    name = op.name().removeprefix("aten::")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            for case in samples_of(op, kind):
                text = difference(op, case)
                ran += text is not None
                if text and not is_exempt(name, kind.name, "meta", case):
                    lines.append(f"{kind.name} {case!r}: {text}")
    if lines:
        pytest.fail("\n".join([name, *lines[:8]]), pytrace=False)
    floors.ran("meta", name, ran)
