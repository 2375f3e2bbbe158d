"""`draft_export`: programs of modules that `export` refuses, and what was in the way."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.capture.exc import UserError
from rushlight.export import Dim, draft_export, export
from rushlight.export.draft import FailureType


class Branching(torch.nn.Module):
    def forward(self, x, n):
        n = int(n)
        return x[:n] + 1 if n > 2 else x


class Masking(torch.nn.Module):
    def forward(self, x):
        chosen = x[x > 0]
        return chosen * 2 if chosen.shape[0] > 2 else chosen


def types(program):
    return [entry.failure_type for entry in program._report.failures]


def test_questions_about_data_are_answered_by_a_run():
    args = (torch.ones(4), torch.tensor(3))
    with pytest.raises(UserError):
        export(Branching(), args)
    program = draft_export(Branching(), args)
    assert types(program) == [FailureType.DATA_DEPENDENT_ERROR]
    assert "result: 3" in str(program._report)
    assert program.module()(*args).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="Invalid value range for 1 between"):
        program.module()(torch.ones(4), torch.tensor(1))


def test_programs_assert_the_answers_that_they_rely_on():
    x = torch.tensor([1.0, -1.0, 2.0, 3.0])
    program = draft_export(Masking(), (x,))
    assert types(program) == [FailureType.DATA_DEPENDENT_ERROR]
    assert program.module()(torch.ones(4)).tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="Invalid value range for 1 between"):
        program.module()(torch.tensor([1.0, -1.0, -2.0, -3.0]))


def test_dims_that_do_not_hold_are_let_go():
    class Fixed(torch.nn.Module):
        def forward(self, x, y):
            return x + torch.ones(4), y * 2

    args, shapes = (torch.ones(4), torch.ones(3)), ({0: Dim("n")}, {0: Dim("m")})
    program = draft_export(Fixed(), args, dynamic_shapes=shapes)
    assert types(program) == [FailureType.GUARD_ADDED]
    found = program.module()(torch.ones(4), torch.ones(7))
    assert found[0].tolist() == [2.0] * 4 and found[1].tolist() == [2.0] * 7
    with pytest.raises(RuntimeError, match="to be equal to 4, but got 5"):
        program.module()(torch.ones(5), torch.ones(7))


def test_custom_ops_without_a_fake_kernel():
    torch.library.define("drafting::halved", "(Tensor x) -> Tensor")

    @torch.library.impl("drafting::halved", "cpu")
    def halved(x):
        return x[: x.shape[0] // 2] * 2

    class Halving(torch.nn.Module):
        def forward(self, x):
            return torch.ops.drafting.halved(x) + 1

    program = draft_export(Halving(), (torch.ones(4),))
    assert types(program) == [FailureType.MISSING_FAKE_KERNEL]
    assert program.module()(torch.ones(4)).tolist() == [3.0, 3.0]


def test_nothing_in_the_way():
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    args = (torch.randn(3, 2),)
    state = torch.get_rng_state().clone()
    program = draft_export(module, args)
    assert program._report.successful() and not program._report.failures
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    plain = export(module, args)
    assert program.graph_module.code == plain.graph_module.code


def test_fake_kernels_that_are_wrong():
    name = f"drafts::sums_{id(test_fake_kernels_that_are_wrong)}"

    @torch.library.custom_op(name, mutates_args=())
    def sums(x: torch.Tensor, dim: int) -> torch.Tensor:
        return x.sum(dim)

    @sums.register_fake
    def _(x, dim):
        # Right for the first call alone.
        return x.new_empty(x.shape[1:])

    class Calls(torch.nn.Module):
        def forward(self, x):
            return sums(x, 0), sums(x, 1) + 1

    x = torch.arange(6.0).view(2, 3)
    program = draft_export(Calls(), (x,))
    (failure,) = program._report.failures
    assert failure.failure_type is FailureType.MISMATCHED_FAKE_KERNEL
    assert "(3,)" in failure.data["reason"]
    assert "(2,)" in failure.data["reason"]
    first, second = program.module()(x)
    assert (first.tolist(), second.tolist()) == ([3, 5, 7], [4, 13])

    @sums.register_fake
    def _(x, dim):
        return x.new_empty([size for at, size in enumerate(x.shape) if at != dim])

    assert draft_export(Calls(), (x,))._report.successful()
