"""Random graphs, compiled and eager: equal to the bit where bits are defined, close elsewhere.

`make fuzz-graphs` compares many: FUZZ_GRAPHS=20000 from FUZZ_FIRST on.
"""

from __future__ import annotations

import os
import warnings

import pytest

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.compiler import compile_graph
from tests.codegen.random_graphs import difference, random_graph

pytest.importorskip("llvmlite")

FIRST, COUNT = int(os.environ.get("FUZZ_FIRST", "100")), int(os.environ.get("FUZZ_GRAPHS", "200"))
PART = 50


def compare(first: int, count: int) -> None:
    problems = []
    for seed in range(first, first + count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = random_graph(seed)
            expected = graph(*graph.inputs)
            run = compile_graph(make_fx(graph)(*graph.inputs), graph.inputs)
            found = difference(graph, run(*graph.inputs), expected)
        if found is not None:
            problems.append(f"seed {seed}: {found}\n{graph}")
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize("first", [0, 20, 40])
def test_random_graphs(first: int) -> None:
    compare(first, 20)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, PART))
def test_many_random_graphs(first: int) -> None:
    compare(first, min(PART, FIRST + COUNT - first))


def test_differences_are_seen() -> None:
    graph = random_graph(1)
    expected = graph(*graph.inputs)
    assert difference(graph, expected, expected) is None
    for place in range(len(expected)):
        changed = list(expected)
        value = changed[place]
        changed[place] = value.logical_not() if value.dtype == torch.bool else value + 1
        if value.numel() and value.isfinite().all():
            assert difference(graph, changed, expected) is not None
