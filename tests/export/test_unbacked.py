"""Numbers that only data tells, in exported programs."""

from __future__ import annotations

import operator
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.capture.exc import UserError
from rushlight.export import Dim, export
from rushlight.export.private import export_at
from rushlight.symbolic import GuardOnDataDependentSymNode
from rushlight.symbolic.checks import check, check_is_size


def module(function: Any) -> Any:
    class Program(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return function(x, y)

    return Program()


def count(program: Any, name: str) -> int:
    return program.graph_module.code.count(f"torch.ops.aten.{name}.default")


def test_tensors_of_numbers_that_data_tells() -> None:
    program = export(
        module(lambda x, y: torch.tensor([x.nonzero().shape[0], 2]) * y),
        (torch.ones(3), torch.tensor(5)),
    )
    assert program.module()(torch.tensor([1.0, 0.0, 3.0]), torch.tensor(4)).tolist() == [8, 8]


def test_tensors_of_sizes_that_vary() -> None:
    program = export(
        module(lambda x, y: torch.tensor(x.shape[0]) + y),
        (torch.ones(3), torch.tensor(5)),
        dynamic_shapes=({0: Dim("n")}, None),
    )
    assert program.module()(torch.ones(7), torch.tensor(4)).item() == 11
    assert program.module()(torch.ones(7), torch.tensor(4)).dtype is torch.int64


def test_assertions_survive_decompositions_once() -> None:
    def function(x: Any, y: Any) -> Any:
        number = x.item()
        check_is_size(number)
        check(number <= 4)
        return y[:number]

    program = export(module(function), (torch.tensor(3), torch.ones(9)))
    lowered = program.run_decompositions()
    for one in (program, lowered):
        assert count(one, "_assert_scalar") == 2
        assert count(one, "sym_constrain_range") == 1
        assert one.module()(torch.tensor(2), torch.ones(9)).shape == (2,)
        with pytest.raises(RuntimeError, match=r"Invalid value range for 6 between \[0, 4\]"):
            one.module()(torch.tensor(6), torch.ones(9))


@pytest.mark.parametrize(
    ("strict", "cls", "text"),
    [
        (True, UserError, "Tried to use data-dependent value in the subsequent computation"),
        (False, GuardOnDataDependentSymNode, "Could not guard on data-dependent expression"),
    ],
)
def test_a_size_that_may_stand_for_the_rest_is_refused(
    strict: bool, cls: type[Exception], text: str
) -> None:
    def function(x: Any, y: Any) -> Any:
        return y.view(x.item(), 4)

    args = torch.tensor(6), torch.ones(24)
    with pytest.raises(cls, match=text):
        export(module(function), args, strict=strict)

    def stated(x: Any, y: Any) -> Any:
        number = x.item()
        check_is_size(number)
        return y.view(number, 4)

    assert export(module(stated), args, strict=strict).module()(*args).shape == (6, 4)


def test_a_question_in_the_module_is_told_from_one_in_an_op() -> None:
    with pytest.raises(UserError, match=r"^Consider annotating your code using torch._check"):
        export(
            module(lambda x, y: y + 1 if x.nonzero().shape[0] > 2 else y),
            (torch.ones(3), torch.ones(3)),
        )


def test_no_more_elements_are_found_than_there_are() -> None:
    program = export(module(lambda x, y: x.nonzero()), (torch.ones(5), torch.ones(1)))
    assert (
        "sym_constrain_range.default(sym_size_int, min = 0, max = 5)" in program.graph_module.code
    )


def test_conditions_that_no_dim_can_say_are_asserted() -> None:
    program = export(
        module(lambda x, y: x + 1 if x.shape[0] < y.shape[0] else x - 1),
        (torch.ones(3), torch.ones(5)),
        dynamic_shapes=({0: Dim("n")}, {0: Dim("m")}),
    )
    assert program.module()(torch.ones(6), torch.ones(8)).shape == (6,)
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression s0 < s1"):
        program.module()(torch.ones(6), torch.ones(6))


def test_results_that_may_be_empty_ask_nothing() -> None:
    program = export(
        module(lambda x, y: torch.cat([x, y])[4:] * 2),
        (torch.ones(3), torch.ones(5)),
        dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}),
    )
    assert count(program, "_assert_scalar") <= 1
    assert "!=" not in program.graph_module.code
    assert program.module()(torch.ones(2), torch.ones(2)).shape == (0,)


def test_counts_of_elements_are_bounded_by_the_elements_there_may_be():
    class Counts(torch.nn.Module):
        def forward(self, x, y):
            return (
                x.nonzero(),
                x[x > 0],
                torch.masked_select(x, y > 0),
                torch.bincount(y.flatten(), minlength=5),
            )

    rows = torch.export.Dim("rows", min=2, max=99)
    shapes = ({0: rows}, None)
    y = torch.arange(12).reshape(3, 1, 4)
    program = torch.export.export(Counts(), (torch.ones(6, 4), y), dynamic_shapes=shapes)
    sizes = [node.meta["val"].shape[0] for node in program.graph.output_node().args[0]]
    ranges = [program.range_constraints[size.node.expr] for size in sizes]
    assert [(r.lower, r.upper) for r in ranges[:3]] == [(0, 396), (0, 396), (0, 1188)]
    assert ranges[3].lower == 5
    x = torch.randn(50, 4)
    for found, wanted in zip(program.module()(x, y), Counts()(x, y)):
        torch.testing.assert_close(found, wanted)


def test_numbers_that_assertions_share_are_computed_once():
    class Squares(torch.nn.Module):
        def forward(self, x, y):
            gap = x.shape[0] ** 2 - y.shape[0] ** 2
            return (x * 2, y * 2) if 4 <= gap <= 20 and gap != 15 else (x, y)

    dims = {"x": (Dim("n"),), "y": (Dim("m"),)}
    program = export_at(
        Squares(), (torch.randn(5), torch.randn(3)), dynamic_shapes=dims, pre_dispatch=True,
        allow_complex_guards_as_runtime_asserts=True,
    )  # fmt: skip
    for each in (program, program.run_decompositions()):
        targets = [node.target for node in each.graph.nodes]
        assert targets.count(operator.pow) == 2
        assert targets.count(torch.ops.aten.sym_size.int) == 2
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(torch.randn(7), torch.randn(3))
