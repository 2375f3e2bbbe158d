"""The layered layout: edges run down, boxes do not overlap."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from rushlight.viz.layout import layered


def random_graph(seed):
    source = random.Random(seed)
    count = source.randint(2, 40)
    sizes = [(source.uniform(20, 200), source.uniform(15, 80)) for _ in range(count)]
    edges = [
        (upper, lower)
        for lower in range(1, count)
        for upper in {source.randrange(lower) for _ in range(source.randint(1, 3))}
    ]
    return sizes, edges


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed):
    sizes, edges = random_graph(seed)
    layout = layered(sizes, edges)
    for (upper, lower), route in zip(edges, layout.routes, strict=True):
        assert layout.centers[upper][1] < layout.centers[lower][1]
        assert route[0] == (
            layout.centers[upper][0],
            layout.centers[upper][1] + sizes[upper][1] / 2,
        )
        assert all(b[1] - a[1] > -1e-6 for a, b in pairwise(route))
    boxes = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for (x, y), (w, h) in zip(layout.centers, sizes, strict=True)
    ]
    for i, a in enumerate(boxes):
        assert a[0] >= 0 and a[1] >= 0 and a[2] <= layout.width and a[3] <= layout.height
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_a_chain_is_straight():
    layout = layered([(50.0, 20.0)] * 4, [(0, 1), (1, 2), (2, 3)])
    assert len({x for x, _ in layout.centers}) == 1


def test_nothing_and_one():
    assert layered([], []).centers == []
    assert len(layered([(10.0, 10.0)], []).centers) == 1
