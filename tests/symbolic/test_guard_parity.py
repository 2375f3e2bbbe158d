"""A trace asks no more of sizes than PyTorch does, whose guards tools/record_guards.py records."""

from __future__ import annotations

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


# Ops that ask one thing more, and why.
EXEMPT = {
    "stft": "windows that start with the signal need one place more for some lengths, and without "
    "it the result has the signal's layout",
}


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
                    extra = [text for text in extra if "Mod(" not in text]
                lines += [f"{case!r}: {text} (PyTorch: {allowed})" for text in extra]
    assert not lines, "\n".join(lines[:10])


def indices(*shape: int) -> Any:
    return torch.zeros(*shape, dtype=torch.int64)


ONES = torch.ones
# Calls whose sizes do not fit one another.
MISFITS = {
    "slice_scatter": (ONES(4, 3), ONES(3, 3), 0, 1, 3),
    "diagonal_scatter": (ONES(2, 4), ONES(3), 1),
    "index_select_backward": (ONES(2, 5), (3, 4), 0, indices(2)),
    "lu_unpack": (ONES(2, 4), torch.ones(3, dtype=torch.int32)),
    "mkldnn_rnn_layer": (
        ONES(3, 2, 2), ONES(8, 2), ONES(7, 2), ONES(8), ONES(8), ONES(2, 2), ONES(2, 2), False, [],
        2, 2, 1, True, False, False, True,
    ),
    "max_pool3d_with_indices_backward": (
        ONES(1, 1, 1, 2, 2), ONES(1, 1, 2, 3, 4), [2] * 3, [1] * 3, [0] * 3, [1] * 3, False,
        indices(1, 1, 1, 2, 3),
    ),
    "convolution_backward": (
        ONES(1, 2, 4), ONES(1, 2, 4), ONES(2, 2, 2), [2], [1], [0], [1], False, [0], 1, [True] * 3,
    ),
    "grid_sampler_2d_backward": (
        ONES(1, 2, 2, 4), ONES(1, 2, 3, 4), ONES(1, 2, 3, 2), 0, 0, False, [True, True],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("symbolic", [False, True], ids=["run", "traced"])
def test_sizes_that_no_guard_asks_for_are_refused(name: str, symbolic: bool) -> None:
    """When the op runs, and while it is traced with an example that is wrong."""
    args = MISFITS[name]
    mode = FakeTensorMode(shape_env=ShapeEnv())
    if symbolic:
        args = tuple(mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args)
    with pytest.raises(RuntimeError):
        getattr(torch.ops.aten, name)(*args)


def test_a_diagonal_may_be_empty_for_some_sizes() -> None:
    traced = make_fx(lambda x: x.diagonal(3), tracing_mode="symbolic")(torch.ones(2, 5))
    for columns in (2, 3, 4, 5, 7):
        x = torch.randn(2, columns)
        assert torch.equal(traced(x), x.diagonal(3))
    mode = FakeTensorMode(shape_env=ShapeEnv())
    assert mode.from_tensor(torch.ones(2, 5)).diagonal(3).dim() == 1
    assert mode.shape_env.guards == []
