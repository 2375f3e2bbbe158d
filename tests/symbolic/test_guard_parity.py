"""A trace asks no more of sizes than PyTorch does, whose guards tools/record_guards.py records."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.core import dtype as dtypes
from rushlight.core.fake import FakeTensorMode
from rushlight.core.tensor import Tensor
from rushlight.opset import audit
from rushlight.opset.samples.maker import Sample, has_samples, samples_of
from rushlight.symbolic import ShapeEnv
from tests.reference import forms, store
from tests.reference.guards import checking, programs

PROGRAMS = checking.recorded("programs")
SAMPLES = checking.recorded("ops")
OPS = [
    op for op in audit.records() if has_samples(op) and SAMPLES.get(op.name()[6:], {}) is not None
]

CHECKED = "sizes that the guard excludes are refused here, where PyTorch does not look at them"
EXEMPT = {
    "convolution_backward": CHECKED,
    "diagonal": "that a diagonal beyond the matrix is empty is asked",
    "diagonal_copy": "that a diagonal beyond the matrix is empty is asked",
    "diagonal_scatter": CHECKED,
    "grid_sampler_2d_backward": CHECKED,
    "index_select_backward": CHECKED,
    "lstm.input": CHECKED,
    "lu_unpack": CHECKED,
    "max_pool3d_with_indices_backward": CHECKED,
    "mkldnn_rnn_layer": CHECKED,
    "slice_scatter": CHECKED,
    "stft": "windows that start with the signal need one place more for some lengths",
}


@pytest.mark.parametrize("name", [name for name, guards in PROGRAMS.items() if guards is not None])
def test_guards_of_programs_are_implied_by_those_of_pytorch(name: str) -> None:
    torch.manual_seed(0)
    function, inputs = programs.PROGRAMS[name](torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced: Any = make_fx(programs.with_gradients(torch, function), tracing_mode="symbolic")(
            *inputs
        )
    ours = checking.texts(traced.shape_env)
    assert checking.not_implied(ours, PROGRAMS[name]) == []


def test_a_guard_that_does_not_follow_is_found() -> None:
    assert checking.not_implied(["Ne(d7, 5)"], ["d7 > 3"]) == ["Ne(d7, 5)"]
    assert checking.not_implied(["d7 > 2", "Ne(d7, 3)"], ["d7 > 3"]) == []
    assert checking.not_implied(["Eq(Mod(d6, 3), 0)"], ["Eq(d6, 3*((d6//3)))"]) == []


def is_inequality(text: str) -> bool:
    """Whether a guard says that a size is not a constant: never a check."""
    return re.fullmatch(r"Ne\(d\d+, \d+\)", text) is not None


def guards_of(op: Any, case: Sample) -> list[str] | None:
    """The guards of a call on fakes; None where it is refused."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    count = 0

    def fake(value: Any) -> Any:
        nonlocal count
        if not isinstance(value, Tensor):
            return value
        count += 1
        return mode.from_tensor(value.detach(), source=f"t{count}")

    bare = store.mapped(case, fake)
    try:
        with mode:
            op(*bare.args, **bare.kwargs)
    except Exception:
        return None
    return checking.texts(env)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
def test_guards_of_samples_are_implied_by_those_of_pytorch(op: Any) -> None:
    theirs = SAMPLES.get(op.name()[6:], {})
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in samples_of(op, dtypes.float32):
            if any(tensor.layout.name != "strided" for tensor in store.tensors_of(case)):
                continue
            allowed = theirs.get(forms.digest(case), [])
            ours = guards_of(op, case)
            if allowed is not None and ours is not None:
                extra = checking.not_implied(ours, allowed)
                if op.name()[6:] in EXEMPT:
                    extra = [text for text in extra if is_inequality(text)]
                lines += [f"{case!r}: {text} (PyTorch: {allowed})" for text in extra]
    assert not lines, "\n".join(lines[:10])
