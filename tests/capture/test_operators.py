"""Operators that programs hold by name: packets, their overloads, and what they have beside."""

from __future__ import annotations

import pytest

import rushlight as torch

aten = torch.ops.aten
packet = torch.ops.aten.abs


class Table:
    kept = {"neg": torch.ops.aten.neg}


def by_packet(x):
    return packet.default(x)


def by_table(x):
    return Table.kept["neg"].default(x)


def by_namespace(x):
    return aten.add.Tensor(x, x)


@pytest.mark.parametrize("function", [by_packet, by_table, by_namespace])
def test_overloads_are_read_from_packets_that_a_program_holds(function):
    x = torch.rand(3)
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))


def test_a_packet_that_is_given_is_told_from_others():
    def f(x, op):
        return op.Tensor(x, 2) if hasattr(op, "Tensor") else op.default(x)

    compiled = torch.compile(f, fullgraph=True)
    x = torch.rand(3)
    for op in (aten.mul, aten.abs, aten.add, aten.mul, aten.neg, aten.abs):
        assert torch.equal(compiled(x, op), f(x, op))


def test_an_overload_that_is_not_there_is_an_attribute_error():
    def f(x):
        try:
            return packet.no_such_overload(x)
        except AttributeError:
            return x + 1

    x = torch.rand(3)
    assert torch.equal(torch.compile(f, fullgraph=True)(x), x + 1)
