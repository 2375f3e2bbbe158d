"""Every op's sample as a program: it keeps its values, and so does the one over core aten."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.core import dtype as dtypes
from rushlight.core.fake import UnsupportedFakeTensorException
from rushlight.core.op import OpOverload, Tag
from rushlight.export import export
from rushlight.opset import audit
from rushlight.opset.samples.maker import has_samples, samples_of
from rushlight.symbolic.errors import GuardOnDataDependentSymNode
from tests.reference import store


class Call(torch.nn.Module):
    def __init__(self, op, case):
        super().__init__()
        self.op, self.case = op, case

    def forward(self, *values):
        given = iter(values)
        call = store.mapped(self.case, lambda leaf: next(given) if is_tensor(leaf) else leaf)
        return self.op(*call.args, **call.kwargs)


def is_tensor(leaf):
    return isinstance(leaf, torch.Tensor)


def is_fit(op):
    """Ops with samples that programs hold: of plain tensors, whose sizes do not depend on data."""
    return (
        has_samples(op)
        and not store.is_data_dependent(op)
        and Tag.inplace_view not in op.tags
        and "sparse" not in op.base_name
        and op.base_name not in ("set_", "resize_", "resize_as_")
    )


def keeps_values(op):
    """Whether results are a function of the values alone."""
    return Tag.nondeterministic_seeded not in op.tags and "empty" not in op.base_name


OPS = [op for op in audit.records() if is_fit(op)]
# What PyTorch takes apart on the way to core ops.
RECORDED = Path(store.__file__).parent / "export" / "not_core.txt"
NOT_CORE = frozenset(RECORDED.read_text().split())
# Samples whose squares are no float32: the op takes the root before it rounds.
OVERFLOWS = {("aten.std.correction", 12), ("aten.std_mean.correction", 12)}


def assert_same(found, wanted):
    found, wanted = ([leaf for leaf in store.flat(v) if is_tensor(leaf)] for v in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


def check(op, limit):
    checked = 0
    for number, case in enumerate(samples_of(op, dtypes.float32)[:limit]):
        tensors = store.tensors_of(case)

        def fresh(tensors=tensors):
            return tuple([tensor.clone() for tensor in tensors])

        try:
            wanted = Call(op, case)(*fresh())
        except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            continue
        try:
            program = export(Call(op, case), fresh(), strict=False)
        except (GuardOnDataDependentSymNode, UnsupportedFakeTensorException):
            continue
        core = program.run_decompositions()
        if keeps_values(op) and (str(op), number) not in OVERFLOWS:
            assert_same(program.module()(*fresh()), wanted)
            assert_same(core.module()(*fresh()), wanted)
        left = {name_of(node.target) for node in core.graph.nodes}
        assert not left & NOT_CORE, (op, case)
        checked += 1
    return checked


def name_of(target):
    """An overload as the list names it."""
    return str(target).removeprefix("aten.") if isinstance(target, OpOverload) else ""


def check_all(ops, limit=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum([check(op, limit) for op in ops])


def test_programs_of_some_ops():
    assert check_all(OPS[::12], 2) > 60


@pytest.mark.slow
@pytest.mark.parametrize("part", range(12))
def test_programs_of_all_ops(part):
    assert check_all(OPS[part::12]) > 300
