"""What follows from the kind of an op: shapes, and whether a result is worth keeping."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import shell
from rushlight.opset import audit
from rushlight.opset.custom import CUSTOM
from rushlight.opset.kinds import GATHER, LINALG, REDUCTION, SCAN, SCATTER, SORT, Kind, Spec
from rushlight.opset.registry import find
from rushlight.opset.results import read_sizes

# Kinds whose results are cheaper computed again than kept for a backward pass, and the others.
CHEAP = {
    "CREATION", "DUPLICATE", "FACT", "GATHER", "POINTWISE", "REDUCTION", "VIEW",
}  # fmt: skip
KEPT = {
    "CONTRACTION", "EXTRACT", "INPLACE", "INPLACE_VIEW", "LINALG", "LOSS", "MANUAL", "MUTATION",
    "NATIVE", "OPAQUE", "OUT", "RANDOM", "REARRANGEMENT", "SCAN", "SCATTER", "SORT", "STATEMENT",
    "WINDOW",
}  # fmt: skip


def bare(*sizes: int, dtype: Any = dtypes.float32) -> Any:
    return shell(sizes, None, dtype, devices.meta)


def facts(found: Any) -> Any:
    if isinstance(found, Spec):
        return found.shape, found.dtype, found.strides
    return [facts(each) for each in found]


def specs(name: str, *args: Any, overload: str = "default") -> Any:
    op = find(name, overload)
    assert "shape" not in op.rules
    return facts(op.rule("shape")(*args))


def test_every_kind_says_what_a_result_is_worth():
    found = {op.kind.name: bool(op.kind.recompute) for op in audit.records()}
    assert {name for name, cheap in found.items() if cheap} == CHEAP
    assert {name for name, cheap in found.items() if not cheap} <= KEPT


def test_kinds_stand_beside_each_other():
    audit.records()
    waiting, homes = [Kind], {type(CUSTOM).__module__.removeprefix("rushlight.opset.")}
    while waiting:
        found = waiting.pop()
        homes.add(found.__module__.removeprefix("rushlight.opset."))
        waiting += found.__subclasses__()
    assert homes == {"custom", "derived", "elementwise", "kinds"}


def test_gradients_of_rows_are_kept():
    assert not find("embedding_dense_backward").recompute
    assert find("embedding").recompute


def test_a_text_says_sizes():
    sizes = read_sizes("*mn, *nk -> *mk|, *k int32, * real")
    assert sizes.ranks == (2, 2)
    found = sizes.specs([bare(5, 2, 3, dtype=dtypes.complex64), bare(1, 3, 4)])
    assert facts(found) == [
        ((5, 2, 4), dtypes.complex64, (8, 1, 2)),
        ((5, 4), dtypes.int32, None),
        ((5,), dtypes.float32, None),
    ]


def test_the_smaller_side_of_a_matrix_is_called_k():
    assert facts(read_sizes("*mn -> *k").specs([bare(2, 5, 3)])) == ((2, 3), dtypes.float32, None)
    assert facts(read_sizes("mk, k -> m").specs([bare(5, 3), bare(3)]))[0] == (5,)
    assert facts(read_sizes("k, k -> ").specs([bare(3), bare(3)]))[0] == ()


def test_scans_and_sorts_are_like_their_operand():
    source = bare(2, 3, dtype=dtypes.int32)
    assert specs("cumsum", source, 1, None) == ((2, 3), dtypes.int64, None)
    assert specs("cummax", source, 1) == [
        ((2, 3), dtypes.int32, None),
        ((2, 3), dtypes.int64, None),
    ]
    assert specs("topk", source, 2, -1, True, True)[0] == ((2, 2), dtypes.int32, None)
    assert specs("kthvalue", source, 2, 0, True)[1] == ((1, 3), dtypes.int64, None)
    turned = shell((2, 3), (1, 2), dtypes.float32, devices.meta)
    assert specs("sort", turned, -1, False)[1] == ((2, 3), dtypes.int64, (1, 2))


def test_folds_follow_from_dims():
    assert specs("amax", bare(2, 3, 4), (0, 2), False) == ((3,), dtypes.float32, None)
    assert specs("max", bare(2, 3), 1, True, overload="dim")[1] == ((2, 1), dtypes.int64, None)
    assert specs("median", bare(2, 3)) == ((), dtypes.float32, None)


def test_places_say_sizes():
    index = bare(4, dtype=dtypes.int64)
    assert specs("index_select", bare(2, 3), 1, index)[0] == (2, 4)
    assert specs("index_select", bare(), 0, bare(1, dtype=dtypes.int64))[0] == ()
    assert specs("embedding", bare(5, 3), bare(2, 4, dtype=dtypes.int64), -1, False, False)[0] == (
        (2, 4, 3)
    )
    assert specs("gather", bare(5, 3), 0, bare(2, 3, dtype=dtypes.int64), False)[0] == (2, 3)
    assert specs("slice_backward", bare(2, 3), (4, 3), 0, 1, 3, 1) == ((4, 3), dtypes.float32, None)


def test_windows_say_sizes():
    found = specs("max_pool2d_with_indices", bare(1, 2, 6, 8), 2, (), 0, 1, False)
    assert [each[:2] for each in found] == [
        ((1, 2, 3, 4), dtypes.float32),
        ((1, 2, 3, 4), dtypes.int64),
    ]
    assert specs("upsample_nearest2d", bare(1, 2, 3, 4), (6, 5), None, None)[0] == (1, 2, 6, 5)


def test_products_say_sizes_and_refuse_what_does_not_expand():
    assert specs("baddbmm", bare(4), bare(2, 3, 5), bare(2, 5, 4), 1, 1)[0] == (2, 3, 4)
    assert specs("addbmm", bare(3, 4), bare(2, 3, 5), bare(2, 5, 4), 1, 1)[0] == (3, 4)
    with pytest.raises(RuntimeError, match="expand"):
        specs("addmm", bare(3), bare(2, 5), bare(5, 4), 1, 1)


def test_a_requirement_is_checked_before_sizes():
    with pytest.raises(RuntimeError, match="batches of square matrices"):
        specs("linalg_inv_ex", bare(2, 3), False)
    assert LINALG.derive(find("linalg_inv_ex"), "batch") == "over_matrices"


@pytest.mark.parametrize("kind", (GATHER, LINALG, REDUCTION, SCAN, SCATTER, SORT), ids=repr)
def test_most_shapes_of_a_kind_follow(kind: Kind):
    ops = [op for op in audit.records() if op.kind.name == kind.name and op.body is None]
    derived = [op for op in ops if "shape" not in op.rules and op.rule("shape") is not None]
    assert len(derived) >= 4


def test_sums_over_a_batch_are_no_plain_product():
    assert find("bmm").rule("batch") == "multiplied"
    assert find("baddbmm").rule("batch") == "multiplied_and_added"
    assert find("addbmm").rule("batch") not in ("multiplied", "multiplied_and_added")


def test_copies_of_views_follow_from_views():
    x = torch.arange(6).reshape(2, 3)
    assert torch.ops.aten.t_copy.default(x).is_contiguous()
    assert not hasattr(torch.ops.aten, "slice_inverse_copy")
