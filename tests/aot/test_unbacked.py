"""Sizes that only run time tells: they pass geometry, and what is relied on is checked then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.tracing import make_fx
from rushlight.base.pytree import SequenceKey
from rushlight.symbolic import CallMethodKey, ConvertIntKey, GuardOnDataDependentSymNode


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x)[0]

    return run


def rows(x: Any) -> Any:
    return x[x.sum(1) > 0]


def numbers() -> Any:
    return torch.arange(-5.0, 7.0).view(3, 4) + 0.5


def integers() -> Any:
    return torch.tensor([3, 4])


# A function, its input, then sizes, strides, assertions and guards of its trace in PyTorch 2.13,
# where strides of empty tensors count as those of others.
CASES: list[tuple[str, Callable[..., Any], Any, str]] = [
    ("nonzero", lambda x: x.nonzero(), numbers, "(u0, 2) (1, u0)"),
    ("nonzero_t", lambda x: x.nonzero().t().contiguous(), numbers, "(2, u0) (u0, 1)"),
    ("mask", lambda x: x[x > 0], numbers, "(u0,) (1,)"),
    ("mask_grad", gradient(lambda x: x[x > 0].sum()), numbers, "(s0, s1) (s1, 1)"),
    ("mean_grad", gradient(lambda x: x[x > 0].mean()), numbers, "(s0, s1) (s1, 1)"),
    ("two_masks", lambda x: x[x > 0] + x[x > 0], numbers, "(u0,) (1,) u1: Eq(u0, u1)"),
    ("product", lambda x: rows(x) @ x.t(), numbers, "(u0, s0) (s0, 1)"),
    (
        "product_grad",
        gradient(lambda x: (rows(x) @ x.t()).relu().sum()),
        numbers,
        "(s0, s1) (s1, 1)",
    ),
    ("expand", lambda x: x[x > 0].unsqueeze(0).expand(3, -1), numbers, "(3, u0) (0, 1)"),
    ("zeros", lambda i: torch.zeros(i.max().item()), integers, "(u0,) (1,) u0: 0 <= u0"),
    ("arange", lambda i: torch.arange(i.max().item()), integers, "(u0,) (1,) u0: 0 <= u0"),
    (
        "expand_item",
        lambda i: i[:1].expand(i.max().item()),
        integers,
        "(u0,) (0,) u0: 0 <= u0",
    ),
    ("first_two", lambda x: x[x > 0][:2], numbers, "(Min(2, u0),) (1,)"),
    ("first", lambda x: x[x > 0][0], numbers, "() () u0: 0 < u0"),
    ("cat", lambda x: torch.cat([x[x > 0], x[x < 0]]), numbers, "(u0 + u1,) (1,)"),
    (
        "stack",
        lambda x: torch.stack([x[x > 0], x[x > 0]]),
        numbers,
        "(2, u0) (u0, 1) u1: Eq(u1, u0)",
    ),
    ("reshape", lambda x: rows(x).reshape(-1), numbers, "(s1*u0,) (1,)"),
    (
        "view",
        lambda x: rows(x).view(-1, 2, 2),
        numbers,
        "(((s1*u0)//4), 2, 2) (4, 2, 1) u0: Eq(Mod(s1*u0, 4), 0)",
    ),
    ("transposed", lambda x: rows(x).t() + 1, numbers, "(s1, u0) (1, s1)"),
    ("softmax", lambda x: torch.softmax(x[x > 0], 0), numbers, "(u0,) (1,)"),
    ("as_factor", lambda x: x.sum() * (x > 0).nonzero().shape[0], numbers, "() ()"),
    ("index", lambda x: x[x.nonzero()[:, 0]], numbers, "(u0, s1) (s1, 1)"),
    (
        "narrow",
        lambda x: x.narrow(0, 0, (x > 0).sum().item() - 5),
        numbers,
        "(u0 - 5, s1) (s1, 1) u0: 5 <= u0, u0 <= s0 + 5",
    ),
    (
        "layer_norm",
        lambda x: torch.nn.functional.layer_norm(rows(x), (4,)),
        numbers,
        "(u0, 4) (4, 1) Eq(s1, 4)",
    ),
    ("max", lambda x: x[x > 0].max(), numbers, "() ()"),
    ("difference", lambda x: rows(x)[:, None] - x[None], numbers, "(u0, s0, s1) (s0*s1, s1, 1)"),
    ("pad", lambda x: torch.nn.functional.pad(x[x > 0], (1, 1)), numbers, "(u0 + 2,) (1,)"),
]  # fmt: skip


def described(traced: Any) -> str:
    (output,) = traced.graph.find_nodes(op="output")
    found = output.args[0].meta["val"]
    parts = [str(tuple(found.shape)), str(tuple(found.stride()))]
    for symbol, asserted in traced.shape_env.deferred_runtime_asserts.items():
        parts.append(f"{symbol}: {', '.join(str(one.expr) for one in asserted)}")
    return " ".join([*parts, *(str(guard.expr) for guard in traced.shape_env.guards)])


@pytest.mark.parametrize(("name", "function", "make", "expected"), CASES, ids=[c[0] for c in CASES])
def test_sizes_that_depend_on_data_pass(
    name: str, function: Callable[..., Any], make: Callable[[], Any], expected: str
) -> None:
    traced = make_fx(function, tracing_mode="symbolic")(make())
    assert described(traced) == expected
    assert torch.equal(traced(make()), function(make()))


def test_slices_by_data_count_from_either_end() -> None:
    def function(x: Any, i: Any) -> Any:
        part = x[: i.item()]
        return part.new_ones(part.shape[0] + 1)

    traced = make_fx(function, tracing_mode="symbolic")(torch.ones(5), torch.tensor(2))
    for stop in (2, 0, 7, -1, -5, -9):
        assert traced(torch.ones(5), torch.tensor(stop)).shape == (len(range(5)[:stop]) + 1,)


def test_a_branch_on_data_is_still_refused() -> None:
    with pytest.raises(GuardOnDataDependentSymNode):
        make_fx(lambda x: x if x[x > 0].shape[0] > 3 else -x, tracing_mode="symbolic")(numbers())


@pytest.mark.parametrize(
    ("function", "example"),
    [
        (lambda x: x.sum() * (x > 0).nonzero().shape[0], numbers),
        (lambda x: x[x > 0].sum(), numbers),
        (lambda x: (rows(x) * 2).exp().sum(), numbers),
    ],
)
def test_compiled_ahead_of_time(function: Any, example: Any) -> None:
    compiled = aot_function(function, nop, dynamic=True)
    for shift in (0.0, 3.0, 20.0):
        given, expected = [(example() + shift).requires_grad_() for _ in range(2)]
        found, wanted = compiled(given), function(expected)
        assert torch.equal(found, wanted)
        found.backward()
        wanted.backward()
        assert torch.equal(given.grad, expected.grad)


def bindings(function: Any, value: Any) -> dict[str, Any]:
    traced = make_fx(function, tracing_mode="symbolic")(value)
    return {
        str(symbol): path
        for node in traced.graph.nodes
        for symbol, path in node.meta.get("unbacked_bindings", {}).items()
    }


def test_nodes_say_which_symbols_they_make_known() -> None:
    size = (CallMethodKey("size"), SequenceKey(0))
    assert bindings(lambda x: x.nonzero(), numbers()) == {"u0": size}
    assert bindings(lambda x: x[x > 0] * 2, numbers()) == {"u0": size}
    assert bindings(lambda i: i.sum().item() + 1, integers()) == {"u0": ()}
    assert bindings(lambda x: x.sum().item() + 1, numbers()) == {"zuf0": ()}
    assert bindings(lambda x: (x.sum() > 0).item(), numbers()) == {"u0": (ConvertIntKey(),)}
    assert bindings(lambda i: i.unique(), integers()) == {"u0": (SequenceKey(0), *size)}
