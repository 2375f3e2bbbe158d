"""vmap of every op against the op on each sample: same values, sizes and dtype.

Batched are all tensors of a sample, each tensor alone, and all of them along their last dim. Left
out are random ops, those about memory, and those whose result sizes depend on values.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.core import dtype as dtypes
from rushlight.core.batching import VmapLevel
from rushlight.core.tensor import Tensor, values_of, wrap
from rushlight.func import vmap
from rushlight.opset import audit
from rushlight.opset.samples.maker import has_samples, samples_of
from tests.reference import store

LIMIT = 8
# Their results depend on memory or on values in a way that samples do not share.
OUTSIDE = """
    as_strided as_strided_copy as_strided_scatter as_strided_ set_ resize_ resize_as_ is_set_to
    _reshape_alias slice_inverse view one_hot _new_zeros_with_same_feature_meta
"""

# Samples that interleave have no unit stride.
NEEDS_UNIT_STRIDE = frozenset(("view_as_complex", "view_as_complex_copy", "view_copy"))

# What runs sample by sample, and why: all or some samples of these ops.
LOOPS = {
    "one call is one network, and samples may have weights of their own": """
        mkldnn_rnn_layer mkldnn_rnn_layer_backward
    """,
}
LOOPING = frozenset(name for names in LOOPS.values() for name in names.split())
# Ops that loop inside others only: a write to statistics that samples share.
INSIDE = frozenset(("native_batch_norm",))


def is_candidate(op: Any) -> bool:
    if not has_samples(op) or op.kind.name in ("RANDOM", "CREATION", "MANUAL"):
        return False
    if "nondeterministic_seeded" in op.tags or op.base_name in OUTSIDE.split():
        return False
    return not store.is_data_dependent(op) and not any(
        entry.type.kind != "Tensor" and not entry.type.is_tensor_like
        for entry in op._schema.returns
    )


OPS = [op for op in audit.records() if is_candidate(op)]


def flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)) and not isinstance(value, rushlight.Size):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def reverse(value: Tensor) -> Tensor:
    """The same values in another order: a second sample that every op takes."""
    array = np.array(values_of(value))
    return wrap(array.reshape(-1)[::-1].copy().reshape(array.shape), value.dtype)


def stacked(first: Tensor, second: Tensor, last: bool) -> Tensor:
    arrays = [np.array(values_of(first)), np.array(values_of(second))]
    both = np.ascontiguousarray(np.stack(arrays, -1 if last else 0))
    return wrap(both, first.dtype)


def check(op: Any, case: Any, chosen: set[int], last: bool) -> None:
    tensors = store.tensors_of(case)
    seconds = {id(t): reverse(t) for t in tensors}
    chosen_ids = {id(tensors[i]) for i in chosen}
    inputs = [t for t in tensors if id(t) in chosen_ids]

    def call(replace: dict[int, Any]) -> list[Any]:
        def put(value: Any) -> Any:
            if isinstance(value, Tensor):
                return replace.get(id(value), value).clone()
            return value

        filled = store.mapped(case, put)
        return flat(op(*filled.args, **filled.kwargs))

    try:
        expected = [call({}), call({i: t for i, t in seconds.items() if i in chosen_ids})]
    except Exception:
        return
    batch = [stacked(t, seconds[id(t)], last) for t in inputs]

    def one(*values: Any) -> Any:
        found = call({id(t): value for t, value in zip(inputs, values, strict=True)})
        return tuple(value for value in found if isinstance(value, Tensor))

    found = vmap(one, in_dims=-1 if last else 0)(*batch)
    wanted = [[v for v in row if isinstance(v, Tensor)] for row in expected]
    assert len(found) == len(wanted[0])
    for number, result in enumerate(found):
        for sample in range(2):
            reference = wanted[sample][number]
            actual = result.select(0, sample)
            assert actual.dtype is reference.dtype, (actual.dtype, reference.dtype)
            assert tuple(actual.shape) == tuple(reference.shape)
            np.testing.assert_allclose(
                np.asarray(values_of(actual)).astype(np.complex128),
                np.asarray(values_of(reference)).astype(np.complex128),
                rtol=1e-4,
                atol=1e-5,
                err_msg=f"result {number} of sample {sample}",
            )


def written_tensors(op: Any, case: Any) -> set[int]:
    """The numbers of the tensors that an op writes to."""
    places = [place for place in op.mutated_positions if place < len(case.args)]
    written = {id(value) for place in places for value in flat(case.args[place])}
    return {i for i, tensor in enumerate(store.tensors_of(case)) if id(tensor) in written}


@pytest.fixture
def looped(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the ops that run sample by sample."""
    found: set[str] = set()
    loop = VmapLevel.loop

    def noted(level: VmapLevel, op: Any, args: Any) -> Any:
        found.add(op.name().removeprefix("aten::"))
        return loop(level, op, args)

    monkeypatch.setattr(VmapLevel, "loop", noted)
    return found


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
def test_like_a_loop(op: Any, looped: set[str]) -> None:
    lines = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind in (dtypes.float32, dtypes.int64):
            cases = samples_of(op, kind)
            for case in cases[:: max(1, -(-len(cases) // LIMIT))]:
                count = len(store.tensors_of(case))
                targets = written_tensors(op, case)
                groups = [(set(range(count)), False), (set(range(count)), True)]
                groups += [({i}, False) for i in range(count) if count > 1]
                for chosen, last in groups if count else ():
                    if not targets <= chosen:
                        continue  # refused: the target would have to hold all samples
                    if last and op.base_name in NEEDS_UNIT_STRIDE:
                        continue
                    try:
                        check(op, case, chosen, last)
                    except (Exception, AssertionError) as error:
                        text = " ".join(str(error).split())[:300]
                        lines.append(
                            f"{kind.name} {case!r} {sorted(chosen)} {'last' if last else 'first'}: "
                            f"{type(error).__name__}: {text}"
                        )
    if lines:
        pytest.fail("\n".join([op.name(), *lines[:6]]), pytrace=False)
    unlisted = looped - LOOPING - INSIDE
    assert not unlisted, f"no batch rule: {sorted(unlisted)}"
    name = op.name().removeprefix("aten::")
    assert name in looped or name not in LOOPING, f"{name} is listed under LOOPS in vain"
