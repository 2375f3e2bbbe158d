"""Higher-order ops in programs."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.export import Dim, export
from rushlight.higher_order.loops import while_loop
from rushlight.higher_order.mapping import map as map_slices
from rushlight.higher_order.scans import scan


class Looping(torch.nn.Module):
    def forward(self, x, n):
        return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]


class Scanning(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((2,), 0.5))

    def forward(self, xs):
        return scan(lambda c, x: (c * self.w + x, c + x), torch.zeros(2), xs)


class Mapping(torch.nn.Module):
    def forward(self, xs, y):
        return map_slices(lambda x, y: x.sin() + y, xs, y)


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(2, 2)

    def inner(self, x):
        return torch.cond(x.sum() > 4, lambda x: self.a(x), lambda x: x - 1, (x,))

    def forward(self, x):
        with torch.no_grad():
            return torch.cond(x.sum() > 0, self.inner, lambda x: x + 1, (x,))


def check(module, cases, **options):
    program = export(module, cases[0], **options)
    core = program.run_decompositions()
    again = export(program.module(), cases[0], strict=False, **options)
    for made in (program, core, again):
        run = made.module()
        for args in cases:
            torch.testing.assert_close(run(*args), module(*args))
    return program


def test_while_loop():
    check(Looping(), [(torch.ones(2), torch.tensor(n)) for n in (3, 0, 5)])


def test_scan():
    cases = [(torch.randn(length, 2),) for length in (4, 7)]
    check(Scanning(), cases, dynamic_shapes=({0: Dim("length")},))


def test_map():
    cases = [(torch.randn(length, 2), torch.ones(2)) for length in (4, 7)]
    check(Mapping(), cases, dynamic_shapes=({0: Dim("length")}, None))


def test_nested_branches_in_a_region():
    cases = [(torch.full((2, 2), value),) for value in (2.0, 0.5, -1.0)]
    program = check(Nested(), cases)
    assert "true_graph_0" in dict(program.graph_module.named_modules()) or any(
        name.endswith("true_graph_0") for name, _ in program.graph_module.named_modules()
    )


def test_a_predicate_of_sizes():
    class BySize(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))

    cases = [(torch.ones(size),) for size in (3, 6)]
    check(BySize(), cases, dynamic_shapes=({0: Dim("n")},))


def test_integers_that_a_loop_carries_differ_in_each_turn():
    class Loop(torch.nn.Module):
        def forward(self, x):
            return torch.while_loop(
                lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y * 2 + i), (0, x)
            )

    batch = torch.export.Dim("batch", min=2, max=9)
    program = torch.export.export(Loop(), (torch.randn(3, 2),), dynamic_shapes=({0: batch},))
    for made in (program, program.run_decompositions()):
        for count in (3, 7):
            x = torch.randn(count, 2)
            turns, found = made.module()(x)
            assert turns == count
            torch.testing.assert_close(found, Loop()(x)[1])


def test_a_carried_integer_without_symbols_is_refused():
    def loop(x):
        return torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (0, x))

    with pytest.raises(NotImplementedError, match="carried integer") as found:
        make_fx(loop)(torch.ones(2))
    assert found.value.code == "RL0744"
