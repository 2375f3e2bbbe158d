"""What a graph asserts of sizes and data: where it stands, and that it stands there once."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.fx.passes.runtime_assert import insert_deferred_runtime_asserts
from rushlight.symbolic import RuntimeAssert, SymBool
from rushlight.symbolic import expressions as ex
from rushlight.symbolic.checks import check, check_is_size


def asserted(function: Any, *args: Any, **options: Any) -> Any:
    module = make_fx(function, tracing_mode="symbolic")(*args)
    insert_deferred_runtime_asserts(module, module.shape_env, "function", True, **options)
    return module


def lines(module: Any) -> list[str]:
    return [line.split(";")[0].strip() for line in module.code.strip().splitlines()[1:]]


def test_ranges_and_conditions_follow_the_number_they_are_about() -> None:
    def function(x: Any, y: Any) -> Any:
        length = x.item()
        check_is_size(length)
        check(length > 2)
        check(length < y.shape[0])
        return y[:length]

    module = asserted(function, torch.tensor(4), torch.ones(10))
    text = "Runtime assertion failed for expression"
    number = "_local_scalar_dense"
    assert lines(module)[:10] == [
        f"{number} = torch.ops.aten._local_scalar_dense.default(x_1)",
        "sym_constrain_range_for_size_default = "
        f"torch.ops.aten.sym_constrain_range_for_size.default({number})",
        "sym_constrain_range_default = "
        f"torch.ops.aten.sym_constrain_range.default({number}, min = 3, max = None)",
        f"ge = {number} >= 0",
        f'_assert_scalar_default = torch.ops.aten._assert_scalar.default(ge, "{text} 0 <= u0 on '
        "node 'ge'\")",
        f"gt = {number} > 2",
        f'_assert_scalar_default_1 = torch.ops.aten._assert_scalar.default(gt, "{text} 2 < u0 on '
        "node 'gt'\")",
        "sym_size_int = torch.ops.aten.sym_size.int(y_1, 0)",
        f"lt = {number} < sym_size_int",
        f'_assert_scalar_default_2 = torch.ops.aten._assert_scalar.default(lt, "{text} u0 < s0 on '
        "node 'lt'\")",
    ]
    assert module(torch.tensor(5), torch.ones(7)).shape == (5,)
    with pytest.raises(RuntimeError, match=r"Invalid value range for 2 between \[3, "):
        module(torch.tensor(2), torch.ones(7))
    with pytest.raises(RuntimeError, match="expression u0 < s0 on node 'lt'"):
        module(torch.tensor(7), torch.ones(7))


def test_values_of_comparisons_stay_symbolic() -> None:
    def function(x: Any) -> Any:
        number = x.item()
        check(number > 2)
        return x + number

    module = asserted(function, torch.tensor(4))
    found = [node for node in module.graph.nodes if node.name == "gt"]
    assert isinstance(found[0].meta["val"], SymBool)


def test_what_is_asserted_is_not_asserted_again() -> None:
    def function(x: Any) -> Any:
        number = x.item()
        check_is_size(number)
        check(number <= 9)
        return torch.ones(number), x.reshape(1).nonzero()

    module = asserted(function, torch.tensor(4))
    before = module.code
    insert_deferred_runtime_asserts(module, module.shape_env, "function", True)
    assert module.code == before


def test_a_size_that_the_graph_asks_for_is_asked_once() -> None:
    def function(x: Any) -> Any:
        rows = x.nonzero()
        return x + 1, torch.ones(rows.shape[0])

    module = asserted(function, torch.ones(9))
    assert module.code.count("sym_size.int(nonzero, 0)") == 1
    assert module.code.index("sym_size.int(nonzero") < module.code.index("sym_constrain_range")


def test_conditions_on_inputs_stand_first() -> None:
    """A symbol is had from any size that is a line of it."""
    module = make_fx(lambda x, y: x + y.sum(), tracing_mode="symbolic")(
        torch.ones(4), torch.ones(6)
    )
    first, second = (node.meta["val"].shape[0].node.expr for node in list(module.graph.nodes)[:2])
    condition = RuntimeAssert(ex.relation(ex.Lt, first, second))
    insert_deferred_runtime_asserts(module, module.shape_env, "f", True, [condition])
    nodes = [node.name for node in module.graph.nodes]
    assert nodes[2:6] == ["sym_size_int", "sym_size_int_1", "lt", "_assert_scalar_default"]
    assert module(torch.ones(3), torch.ones(5)).shape == (3,)
    with pytest.raises(RuntimeError, match="expression s0 < s1"):
        module(torch.ones(5), torch.ones(5))


def test_conditions_on_sizes_that_are_never_computed() -> None:
    module = make_fx(lambda x: x + 1, tracing_mode="symbolic")(torch.ones(4))
    strange = RuntimeAssert(ex.relation(ex.Lt, ex.Symbol("q", integer=True), ex.Integer(4)))
    with pytest.raises(RuntimeError, match="the graph f never computes the sizes in q < 4"):
        insert_deferred_runtime_asserts(module, module.shape_env, "f", True, [strange])
