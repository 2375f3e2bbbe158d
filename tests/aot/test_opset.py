"""Traced and compiled ahead of time, every op equals itself run eagerly, forward and backward."""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.tracing import make_fx
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from tests.opset import floors
from tests.reference import store

# All samples take minutes; by default each op is tried on a few.
KINDS = (dtypes.float64, dtypes.int64, dtypes.complex128)
LIMIT = None if os.environ.get("RUSHLIGHT_ALL_SAMPLES") else 3
OPS = [
    op
    for op in audit.records()
    if has_samples(op)
    and not store.is_data_dependent(op)
    and op.kind.name not in ("NATIVE", "RANDOM", "FACT")
    and op.family not in ("other.profiling", "creation.random", "creation.dropout")
]
# What an op that reads values says where there are none: what torch does too.
REFUSALS = ("trying to get value out", "DynamicOutputShape", "DataDependent")


def prepared(case: Sample) -> tuple[list[Tensor], Any]:
    """The sample's tensors, and a function that puts others in their place."""
    tensors = store.tensors_of(case)

    def rebuild(values: Any) -> Sample:
        replacements = iter(values)
        return store.mapped(
            case, lambda leaf: next(replacements) if isinstance(leaf, Tensor) else leaf
        )

    return tensors, rebuild


def leaves_of(tensors: list[Tensor]) -> list[Tensor]:
    """Fresh inputs with the same geometry; those that can have a gradient require one."""
    made = []
    for tensor in tensors:
        copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        if 0 in tensor.stride() and tensor.numel():
            copy = tensor.clone()
        else:
            copy.copy_(tensor)
        made.append(copy.requires_grad_(copy.dtype.is_floating_point))
    return made


def results_of(value: Any) -> list[Tensor]:
    return [leaf for leaf in store.flat(value) if isinstance(leaf, Tensor)]


def run(
    function: Any, tensors: list[Tensor], recording: bool = True
) -> tuple[list[Tensor], list[Any]]:
    """Results and gradients of a function of tensors."""
    inputs = leaves_of(tensors)
    with torch.set_grad_enabled(recording):
        outputs = results_of(function(*inputs))
    chosen = [o for o in outputs if o.requires_grad]
    if not chosen:
        return outputs, []
    total = sum((o.abs() if o.dtype.is_complex else o).double().sum() for o in chosen)
    wanted = [i for i in inputs if i.requires_grad]
    return outputs, list(torch.autograd.grad(total, wanted, allow_unused=True))


def compare(expected: Any, found: Any) -> str | None:
    for title, mine, theirs in zip(("result", "gradient"), found, expected):
        if len(mine) != len(theirs):
            return f"{len(mine)} {title}s, expected {len(theirs)}"
        for got, wanted in zip(mine, theirs):
            if (got is None) != (wanted is None):
                # A gradient of zeros may stand for none.
                present = wanted if got is None else got
                if bool((present != 0).any()):
                    return f"{title} {got}, expected {wanted}"
                continue
            if got is None:
                continue
            if got.dtype != wanted.dtype or got.shape != wanted.shape:
                return f"{title} {got.dtype} {got.shape}, expected {wanted.dtype} {wanted.shape}"
            if not torch.allclose(got.detach(), wanted.detach(), 1e-6, 1e-8, equal_nan=True):
                return f"{title} {got.tolist()}, expected {wanted.tolist()}"
    return None


WAYS = {
    "make_fx": lambda f, args: make_fx(f)(*args),
    "symbolic": lambda f, args: make_fx(f, tracing_mode="symbolic")(*args),
    "aot": lambda f, args: aot_function(f, nop),
    "aot_dynamic": lambda f, args: aot_function(f, nop, dynamic=True),
}


def difference(op: Any, case: Sample, way: str) -> str | None:
    tensors, rebuild = prepared(case)
    if any(t.layout.name != "strided" or t.is_conj() or t.is_neg() for t in tensors):
        return None

    def function(*values: Any) -> Any:
        changed = rebuild([v.clone() if op._schema.is_mutable else v for v in values])
        return op(*changed.args, **changed.kwargs)

    recording = True
    try:
        expected = run(function, tensors)
    except NotImplementedError:  # no derivative
        recording = False
    except Exception:
        return None
    if not recording:
        try:
            expected = run(function, tensors, recording)
        except Exception:
            return None
    if any(t.layout.name != "strided" for t in expected[0]):
        return None
    if not all(bool(torch.isfinite(t).all()) for t in tensors):
        # Formulas may treat infinities differently where no value can be looked at.
        expected = (expected[0], [])
    try:
        with torch.set_grad_enabled(recording):
            compiled = WAYS[way](function, leaves_of(tensors))
        found = run(compiled, tensors, recording)
        return compare(expected, found if expected[1] else (found[0], [])) or ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


def is_refusal(op: Any, text: str) -> bool:
    return "reads_values" in op.options and any(words in text for words in REFUSALS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
def test_equals_eager(op: Any, way: str) -> None:
    if "unwritten" in op.options:
        pytest.skip("its values are undefined")
    lines = []
    ran = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Where an op refuses floats, other numbers serve.
        calls = ((each, c) for each in KINDS for c in samples_of(op, each)[:LIMIT])
        for kind, case in calls:
            if ran and kind is not dtypes.float64:
                break
            text = difference(op, case, way)
            refused = text is None or is_refusal(op, text)
            ran += not refused
            if text and not refused:
                lines.append(f"{case!r}: {text}")
    assert not lines, "\n".join(lines[:20])
    floors.ran(way, op.name().removeprefix("aten::"), ran)
