"""Replacing patterns in graphs."""

import pytest

import rushlight as torch
import rushlight.fx as fx
from rushlight.fx import replace_pattern, symbolic_trace


def statements(gm):
    return [line.strip() for line in gm.code.strip().split("\n")][1:]


def test_every_place_is_replaced():
    def program(x, w1, w2):
        a = torch.relu(torch.mm(x, w1))
        return torch.relu(torch.mm(a, w2)), torch.sin(a)

    def pattern(p, q):
        return torch.relu(torch.mm(p, q))

    def replacement(p, q):
        return torch.cos(torch.mm(q, p))

    gm = fx.symbolic_trace(program)
    assert len(fx.replace_pattern(gm, pattern, replacement)) == 2
    gm.graph.lint()
    assert statements(gm) == [
        "mm_2 = torch.mm(w1, x);  w1 = x = None",
        "cos = torch.cos(mm_2);  mm_2 = None",
        "sin = torch.sin(cos)",
        "mm_3 = torch.mm(w2, cos);  w2 = cos = None",
        "cos_1 = torch.cos(mm_3);  mm_3 = None",
        "return (cos_1, sin)",
    ]


def test_inner_values_used_elsewhere_prevent_a_match():
    def program(x):
        a = torch.sin(x)
        return torch.cos(a), a

    gm = fx.symbolic_trace(program)
    matches = fx.replace_pattern(gm, lambda x: torch.cos(torch.sin(x)), lambda x: torch.tan(x))
    assert matches == []


def test_literals_must_agree():
    gm = fx.symbolic_trace(lambda x: torch.sum(x, dim=0) + torch.sum(x, dim=1))
    fx.replace_pattern(gm, lambda x: torch.sum(x, dim=1), lambda x: torch.relu(x))
    assert statements(gm)[:2] == [
        "sum_1 = torch.sum(x, dim = 0)",
        "relu = torch.relu(x);  x = None",
    ]


def test_patterns_with_several_results():
    def f(x, a, b):
        return torch.relu(x) + a, torch.sigmoid(x) + b

    gm = symbolic_trace(f)
    done = replace_pattern(
        gm,
        lambda x: (torch.relu(x), torch.sigmoid(x)),
        lambda x: (torch.tanh(x), torch.cos(x)),
    )
    assert len(done) == 1
    x = torch.tensor([1.0, 2.0])
    found = gm(x, x, x)
    assert torch.equal(found[0], x.tanh() + x)
    assert torch.equal(found[1], x.cos() + x)


def test_results_that_do_not_belong_together_do_not_match():
    def pair(x):
        return torch.relu(x), torch.sigmoid(x)

    gm = symbolic_trace(lambda x, y: torch.relu(x) + torch.sigmoid(y))
    assert not replace_pattern(gm, pair, pair)
    # The second input is only known after a result is used.
    late = symbolic_trace(lambda x: torch.sigmoid(torch.relu(x) + 1))
    both = lambda x, y: (torch.relu(x), torch.sigmoid(y))  # noqa: E731
    assert not replace_pattern(late, both, both)
    assert late(torch.zeros(1)).item() == pytest.approx(0.7310586)


def test_a_replacement_may_be_its_input():
    gm = symbolic_trace(lambda x, y: torch.add(torch.add(x, y), y))
    assert len(replace_pattern(gm, lambda x, y: torch.add(x, y), lambda x, y: x)) == 2
    x = torch.ones(2)
    assert gm(x, x) is x
