"""Every op's sample as a program: it keeps its values, and so does the one over core aten."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
from rushlight.aot.decompositions import tables
from rushlight.core import dtype as dtypes
from rushlight.core.op import OpOverload, Tag
from rushlight.export import export
from rushlight.opset import audit
from rushlight.opset.samples.maker import has_samples, samples_of
from tests.aot.test_decompositions import STAYS
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
    """Ops with samples whose results are a function of the values alone."""
    return (
        has_samples(op)
        and not store.is_data_dependent(op)
        and Tag.nondeterministic_seeded not in op.tags
        and Tag.inplace_view not in op.tags
        and "empty" not in op.base_name
        and op.base_name not in ("set_", "resize_", "resize_as_")
    )


OPS = [op for op in audit.records() if is_fit(op)]
CORE = tables.core_aten_decompositions()


def assert_same(found, wanted):
    found, wanted = ([leaf for leaf in store.flat(v) if is_tensor(leaf)] for v in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


def check(op):
    checked = 0
    for case in samples_of(op, dtypes.float32)[:2]:
        tensors = store.tensors_of(case)

        def fresh(tensors=tensors):
            return tuple([tensor.clone() for tensor in tensors])

        try:
            wanted = Call(op, case)(*fresh())
        except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            continue
        program = export(Call(op, case), fresh(), strict=False)
        assert_same(program.module()(*fresh()), wanted)
        core = program.run_decompositions()
        assert_same(core.module()(*fresh()), wanted)
        for node in core.graph.nodes:
            target = node.target
            is_open = isinstance(target, OpOverload) and target in CORE and target not in STAYS
            assert not is_open or Tag.core in target.tags, target
        checked += 1
    return checked


def check_all(ops):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum([check(op) for op in ops])


def test_programs_of_some_ops():
    assert check_all(OPS[::12]) > 60


@pytest.mark.slow
@pytest.mark.parametrize("part", range(12))
def test_programs_of_all_ops(part):
    assert check_all(OPS[part::12]) > 60
