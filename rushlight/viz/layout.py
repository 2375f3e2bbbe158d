"""A small layered layout: places boxes of given sizes so that edges run downwards.

Layers come from longest paths; an edge that spans several layers gets a point in each, so that
it can be led around boxes; orders within layers come from sweeps over the medians of neighbours,
positions from sweeps that pull boxes towards theirs. Every step is a loop: graphs may be deep.
"""

from __future__ import annotations

from itertools import pairwise

__all__ = ["Layout", "layered"]

GAP_X, GAP_Y = 24.0, 36.0
SWEEPS = 6
# An edge over more layers than this runs straight: a point in each would cost more than it helps.
LONG = 16


class Layout:
    """Centres of boxes, and for each edge the points it runs through, ends included."""

    def __init__(self) -> None:
        self.centers: list[tuple[float, float]] = []
        self.routes: list[list[tuple[float, float]]] = []
        self.width = 0.0
        self.height = 0.0


def layered(sizes: list[tuple[float, float]], edges: list[tuple[int, int]]) -> Layout:
    """Lay out boxes (width, height) under edges (upper, lower), which must have no cycle."""
    layer_of = longest_paths(len(sizes), edges)
    widths = [width for width, _ in sizes]
    chains: list[list[int]] = []
    above: list[list[int]] = [[] for _ in sizes]
    below: list[list[int]] = [[] for _ in sizes]
    for upper, lower in edges:
        chain = [upper]
        between = range(layer_of[upper] + 1, layer_of[lower])
        for layer in between if len(between) <= LONG else ():
            chain.append(len(layer_of))
            layer_of.append(layer)
            widths.append(4.0)
            above.append([])
            below.append([])
        chain.append(lower)
        chains.append(chain)
        if len(between) > LONG:
            continue
        for first, second in pairwise(chain):
            below[first].append(second)
            above[second].append(first)
    layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for item, layer in enumerate(layer_of):
        layers[layer].append(item)
    order(layers, above, below)
    across = positions(layers, widths, above, below)
    return finish(sizes, layers, layer_of, across, widths, chains)


def longest_paths(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Each box as close as possible to what lies below it."""
    uppers: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for upper, lower in edges:
        uppers[lower].append(upper)
        missing[upper] += 1
    depth = [0] * count
    ready = [item for item in range(count) if missing[item] == 0]
    while ready:
        item = ready.pop()
        for upper in uppers[item]:
            depth[upper] = max(depth[upper], depth[item] + 1)
            missing[upper] -= 1
            if missing[upper] == 0:
                ready.append(upper)
    deepest = max(depth, default=0)
    return [deepest - d for d in depth]


def order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sort each layer by the median place of its neighbours, down and up in turn."""
    place = {item: float(i) for layer in layers for i, item in enumerate(layer)}
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 == 0 else above
        for layer in reversed(layers) if sweep % 2 == 0 else layers:
            keys = {}
            for item in layer:
                near = sorted(place[other] for other in neighbours[item])
                keys[item] = near[len(near) // 2] if near else place[item]
            layer.sort(key=lambda item: (keys[item], place[item]))
            for i, item in enumerate(layer):
                place[item] = float(i)


def positions(
    layers: list[list[int]], widths: list[float], above: list[list[int]], below: list[list[int]]
) -> list[float]:
    """Where boxes stand across: side by side at first, then drawn towards their neighbours."""
    across = [0.0] * len(widths)
    for layer in layers:
        at = 0.0
        for item in layer:
            across[item] = at + widths[item] / 2
            at += widths[item] + GAP_X
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 == 0 else above
        for layer in reversed(layers) if sweep % 2 == 0 else layers:
            wanted = [
                sum(across[other] for other in neighbours[item]) / len(neighbours[item])
                if neighbours[item]
                else across[item]
                for item in layer
            ]
            spread(layer, wanted, widths, across)
    return across


def spread(layer: list[int], wanted: list[float], widths: list[float], across: list[float]) -> None:
    """Put boxes where they want to be, in order and without overlap: the mean of the places
    found from the left and from the right."""
    count = len(layer)
    left, right = list(wanted), list(wanted)
    for i in range(1, count):
        step = (widths[layer[i - 1]] + widths[layer[i]]) / 2 + GAP_X
        left[i] = max(left[i], left[i - 1] + step)
    for i in range(count - 2, -1, -1):
        step = (widths[layer[i]] + widths[layer[i + 1]]) / 2 + GAP_X
        right[i] = min(right[i], right[i + 1] - step)
    for i, item in enumerate(layer):
        across[item] = (left[i] + right[i]) / 2


def finish(
    sizes: list[tuple[float, float]],
    layers: list[list[int]],
    layer_of: list[int],
    across: list[float],
    widths: list[float],
    chains: list[list[int]],
) -> Layout:
    """Heights of layers, a common origin, and routes."""
    result = Layout()
    if not sizes:
        return result
    start = min(across[item] - widths[item] / 2 for item in range(len(across)))
    across = [value - start + GAP_X for value in across]
    result.width = max(across[i] + widths[i] / 2 for i in range(len(across))) + GAP_X
    spans: list[tuple[float, float]] = []
    at = GAP_Y / 2
    for layer in layers:
        height = max((sizes[item][1] for item in layer if item < len(sizes)), default=0.0)
        spans.append((at, at + height))
        at += height + GAP_Y
    result.height = at
    result.centers = [(across[i], sum(spans[layer_of[i]]) / 2) for i in range(len(sizes))]
    for chain in chains:
        # Straight down inside a layer, so that bends keep to the gaps between layers.
        route = [(across[item], y) for item in chain for y in spans[layer_of[item]]]
        for end, item, side in ((0, chain[0], 0.5), (-1, chain[-1], -0.5)):
            x, y = result.centers[item]
            route[end] = (x, y + side * sizes[item][1])
        result.routes.append(route)
    return result
