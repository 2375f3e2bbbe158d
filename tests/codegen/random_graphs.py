"""Random graphs of ops in several dtypes, and what their compiled run owes to the eager one.

What IEEE or integers define is equal to the bit: views, copies, indices, comparisons, arithmetic
of single elements, roundings, conversions, orders. What is computed in another order or by another
series is close. A value that is only close never decides: comparisons and indices leave it alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as torch

__all__ = ["Graph", "difference", "random_graph"]

F = torch.nn.functional
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WHOLE = (torch.int64, torch.int32, torch.uint8)
# How far values that are only close may lie apart, for numbers up to 1.
NEAR = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 4e-2, torch.float16: 5e-3}
SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, -1e-40, 3e38, 0.5, -2.5]
SIZES = (1, 2, 3, 5, 8, 16, 17, 33)


class Value:
    """A tensor of a graph: its place among the values, sizes, dtype, and whether its bits are
    certain."""

    def __init__(self, place: int, tensor: Any, is_exact: bool) -> None:
        self.place = place
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.is_exact = is_exact

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


class Graph:
    """Inputs, and steps on the values before them; each step is checked by running it."""

    def __init__(self, inputs: list[Any]) -> None:
        self.inputs = inputs
        self.tensors = list(inputs)
        self.values = [Value(at, tensor, True) for at, tensor in enumerate(inputs)]
        self.steps: list[tuple[str, Callable[..., Any], list[int]]] = []
        self.results: list[int] = []

    def add(self, name: str, call: Callable[..., Any], given: list[Value], is_exact: bool) -> None:
        """A step. It is as certain as what it takes."""
        tensor = call(*[self.tensors[value.place] for value in given])
        certain = is_exact and all([value.is_exact for value in given])
        if not certain and (tensor.dtype not in FLOATS or not tensor.abs().max() < 1e4):
            return
        self.steps.append((name, call, [value.place for value in given]))
        self.tensors.append(tensor)
        self.values.append(Value(len(self.values), tensor, certain))

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for _, call, given in self.steps:
            values.append(call(*[values[place] for place in given]))
        return tuple([values[place] for place in self.results])

    def __str__(self) -> str:
        lines = [f"v{v.place}: {v.dtype}{list(v.shape)}" for v in self.values[: len(self.inputs)]]
        for at, (name, _, given) in enumerate(self.steps):
            value = self.values[len(self.inputs) + at]
            taken = ", ".join([f"v{place}" for place in given])
            mark = "" if value.is_exact else "~"
            lines.append(
                f"v{value.place} = {name}({taken})  # {mark}{value.dtype}{list(value.shape)}"
            )
        return "\n".join([*lines, f"return {', '.join([f'v{place}' for place in self.results])}"])


# -- what there is to do ---------------------------------------------------------------------------

Maker = Callable[[random.Random, Graph], None]
MAKERS: list[Maker] = []


def maker(weight: int) -> Callable[[Maker], Maker]:
    def keep(function: Maker) -> Maker:
        MAKERS.extend([function] * weight)
        return function

    return keep


def some(rng: random.Random, graph: Graph, test: Callable[[Value], bool]) -> Value | None:
    found = [value for value in graph.values if test(value)]
    # Later values more often, so that graphs are deep.
    return found[-1 - min(int(rng.expovariate(0.5)), len(found) - 1)] if found else None


def partner(rng: random.Random, graph: Graph, value: Value) -> Value:
    """A value of the same dtype that broadcasts with another."""

    def fits(other: Value) -> bool:
        sizes = zip(reversed(other.shape), reversed(value.shape))
        return other.dtype == value.dtype and all([a == b or 1 in (a, b) for a, b in sizes])

    return some(rng, graph, fits) or value


EXACT_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": lambda x: x.abs(),
    "sqrt of abs": lambda x: x.abs().sqrt(),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "round": lambda x: x.round(),
    "trunc": lambda x: x.trunc(),
    "sign": lambda x: x.sign(),
    "relu": lambda x: x.relu(),
    "clamp": lambda x: x.clamp(-1.5, 1.0),
    "hardtanh": lambda x: F.hardtanh(x),
    "square": lambda x: x * x,
    "reciprocal": lambda x: (x.abs() + 1).reciprocal(),
    "times 3": lambda x: x * 3,
    "plus half": lambda x: x + 0.5,
    "leaky": lambda x: F.leaky_relu(x, 0.25),
    "nan_to_num": lambda x: x.nan_to_num(0.5, 2.0, -2.0),
}
CLOSE_UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "exp": lambda x: x.clamp(-3, 3).exp() / 8,
    "log1p": lambda x: x.abs().log1p(),
    "log": lambda x: (x.abs() + 0.5).log(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "erf": lambda x: x.erf(),
    "gelu": lambda x: F.gelu(x),
    "silu": lambda x: F.silu(x),
    "softplus": lambda x: F.softplus(x),
    "rsqrt": lambda x: (x.abs() + 1).rsqrt(),
    "expm1": lambda x: x.clamp(-3, 2).expm1() / 4,
    "atan": lambda x: x.atan(),
}
# Those that are defined by their bits but continuous, so that close values may pass.
SMOOTH = ("neg", "abs", "relu", "clamp", "hardtanh", "times 3", "plus half", "leaky", "reciprocal")


@maker(5)
def unary(rng: random.Random, graph: Graph) -> None:
    value = some(rng, graph, lambda v: v.is_float)
    if value is None:
        return
    close = rng.random() < 0.4 and not graph_is_special(graph)
    names = list(CLOSE_UNARY) if close else list(EXACT_UNARY) if value.is_exact else list(SMOOTH)
    name = rng.choice(names)
    graph.add(name, (CLOSE_UNARY if close else EXACT_UNARY)[name], [value], not close)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "div": lambda x, y: x / (y.abs() + 1),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "add scaled": lambda x, y: torch.add(x, y, alpha=0.5),
}


@maker(6)
def binary(rng: random.Random, graph: Graph) -> None:
    value = some(rng, graph, lambda v: v.is_float)
    if value is not None:
        name = rng.choice(list(BINARY))
        graph.add(name, BINARY[name], [value, partner(rng, graph, value)], True)


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda x, y: x < y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}


@maker(2)
def compare(rng: random.Random, graph: Graph) -> None:
    value = some(rng, graph, lambda v: v.is_exact)
    if value is not None:
        other = partner(rng, graph, value)
        if other.is_exact:
            name = rng.choice(list(COMPARE))
            graph.add(name, COMPARE[name], [value, other], True)


@maker(3)
def choose(rng: random.Random, graph: Graph) -> None:
    mask = some(rng, graph, lambda v: v.dtype == torch.bool)
    value = mask and some(rng, graph, lambda v: v.is_float and v.shape == mask.shape)
    if mask is None or value is None:
        return
    if rng.random() < 0.5:
        other = partner(rng, graph, value)
        graph.add("where", torch.where, [mask, value, other], True)
    else:
        graph.add("masked_fill", lambda m, x: x.masked_fill(m, 0.5), [mask, value], True)


INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "xor": lambda x, y: x ^ y,
    "floor_divide": lambda x, y: x // (y | 1),
    "remainder": lambda x, y: x % (y | 1),
    "maximum": torch.maximum,
    "shift": lambda x, y: x << (y & 3),
    "sum": lambda x, y: (x + y).sum(-1, keepdim=True) if x.dim() else x,
    "cumsum": lambda x, y: (x + y).cumsum(0) if x.dim() else x,
}


@maker(2)
def integer(rng: random.Random, graph: Graph) -> None:
    value = some(rng, graph, lambda v: v.dtype in WHOLE)
    if value is not None:
        name = rng.choice(list(INTEGER))
        graph.add(name, INTEGER[name], [value, partner(rng, graph, value)], True)


@maker(2)
def convert(rng: random.Random, graph: Graph) -> None:
    value = some(rng, graph, lambda v: v.is_float or v.is_exact)
    if value is None:
        return
    if value.is_float and value.is_exact and rng.random() < 0.4:
        target = rng.choice(WHOLE[:2])
        graph.add(
            f"to {target}",
            lambda x: x.nan_to_num(0, 9, -9).clamp(-99, 99).to(target),
            [value],
            True,
        )
        return
    target = rng.choice(FLOATS)
    if value.is_exact or value.dtype in FLOATS[2:] or target in FLOATS[:2]:
        graph.add(f"to {target}", lambda x: x.to(target), [value], True)


def views(rng: random.Random, shape: tuple[int, ...]) -> list[tuple[str, Callable[[Any], Any]]]:
    found: list[tuple[str, Callable[[Any], Any]]] = [
        ("unsqueeze", lambda x: x.unsqueeze(0)),
        ("reshape", lambda x: x.reshape(-1)),
    ]
    if shape:
        dim = rng.randrange(len(shape))
        found += [
            (f"flip {dim}", lambda x: x.flip(dim)),
            (f"squeeze {dim}", lambda x: x.squeeze(dim)),
            (f"twice {dim}", lambda x: torch.cat([x, x], dim)),
            (f"roll {dim}", lambda x: x.roll(1, dim)),
            ("clone", lambda x: x.clone()),
        ]
        if shape[dim] > 1:
            found += [
                (f"narrow {dim}", lambda x: x.narrow(dim, 1, shape[dim] - 1)),
                (f"select {dim}", lambda x: x.select(dim, -1)),
                (f"chunk {dim}", lambda x: x.chunk(2, dim)[0]),
            ]
    if len(shape) > 1:
        found += [
            ("transpose", lambda x: x.transpose(0, -1)),
            ("contiguous", lambda x: x.transpose(0, -1).contiguous()),
            ("steps", lambda x: x[:, ::2]),
            ("tril", lambda x: x.tril()),
            ("expand", lambda x: x.unsqueeze(1).expand(x.shape[0], 2, *x.shape[1:])),
            ("stack", lambda x: torch.stack([x, x], 1)),
        ]
    return found


@maker(5)
def view(rng: random.Random, graph: Graph) -> None:
    value = some(rng, graph, lambda v: len(v.shape) < 4)
    if value is not None:
        name, call = rng.choice(views(rng, value.shape))
        graph.add(name, call, [value], True)


@maker(2)
def index(rng: random.Random, graph: Graph) -> None:
    value = some(rng, graph, lambda v: bool(v.shape))
    if value is None:
        return
    places = some(rng, graph, lambda v: v.dtype == torch.int64 and len(v.shape) == 1)
    size = value.shape[0]
    if places is not None:
        graph.add("index_select", lambda x, i: x.index_select(0, i % size), [value, places], True)


# Which of two zeros is the larger is not defined: adding 0 makes them one.
EXTREMES: dict[str, Callable[[Any, int], Any]] = {
    "amax": lambda x, d: x.amax(d) + 0.0,
    "amin": lambda x, d: x.amin(d, keepdim=True) + 0.0,
    "argmax": lambda x, d: x.argmax(d),
    "sort": lambda x, d: x.sort(stable=True, dim=d)[0],
    "any": lambda x, d: x.ne(0).any(d),
    "count": lambda x, d: x.count_nonzero(d),
}
FOLDS: dict[str, Callable[[Any, int], Any]] = {
    "sum": lambda x, d: x.sum(d) / 8,
    "mean": lambda x, d: x.mean(d, keepdim=True),
    "var": lambda x, d: x.var(d, correction=0),
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "cumsum": lambda x, d: x.cumsum(d) / 8,
    "logsumexp": lambda x, d: x.logsumexp(d),
    "layer_norm": lambda x, d: F.layer_norm(x * 4, x.shape[-1:], eps=0.1),
    "product": lambda x, d: (x @ x.transpose(-1, -2)) / 16 if x.dim() > 1 else x * x,
}


@maker(4)
def fold(rng: random.Random, graph: Graph) -> None:
    exact = rng.random() < 0.5 or graph_is_special(graph)
    value = some(rng, graph, lambda v: v.is_float and bool(v.shape) and (v.is_exact or not exact))
    if value is not None:
        table = EXTREMES if exact else FOLDS
        name, dim = rng.choice(list(table)), rng.randrange(len(value.shape))
        call = table[name]
        graph.add(f"{name} {dim}", lambda x: call(x, dim), [value], exact)


def graph_is_special(graph: Graph) -> bool:
    """Whether there are numbers that are none: then only what bits define is done."""
    return any([not t.isfinite().all() for t in graph.inputs if t.dtype in FLOATS])


# -- graphs ----------------------------------------------------------------------------------------


def random_inputs(rng: random.Random) -> list[Any]:
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    rows, columns = rng.choice(SIZES), rng.choice(SIZES)
    shapes = [(rows, columns), (rows, columns), (columns,), (rows, 1), ()]
    main = rng.choice(FLOATS)
    is_special = rng.random() < 0.25
    found = []
    for shape in [shapes[0], *rng.sample(shapes, 2)]:
        values = numbers.uniform(-2, 2, shape).round(rng.choice((1, 3, 9)))
        if is_special and values.size > 3:
            flat = values.reshape(-1)
            flat[numbers.integers(0, flat.size, 3)] = numbers.choice(SPECIAL, 3)
        dtype = main if rng.random() < 0.8 else rng.choice(FLOATS)
        found.append(torch.from_numpy(np.asarray(values)).to(dtype))
    for dtype in rng.sample((*WHOLE, torch.bool), 2):
        shape = rng.choice([shapes[0], (columns,)])
        found.append(torch.from_numpy(numbers.integers(0, 20, shape)).to(dtype))
    found.append(torch.from_numpy(numbers.integers(0, 50, (rng.choice(SIZES),))))
    if rng.random() < 0.3:
        found[0] = found[0].t().contiguous().t()
    return found


def random_graph(seed: int) -> Graph:
    rng = random.Random(seed)
    graph = Graph(random_inputs(rng))
    wanted = rng.randrange(3, 14)
    while len(graph.steps) < wanted:
        rng.choice(MAKERS)(rng, graph)
    first = len(graph.inputs)
    others = range(first, len(graph.values) - 1)
    graph.results = [len(graph.values) - 1, *rng.sample(others, min(len(others), 3))]
    return graph


def difference(graph: Graph, found: Any, expected: Any) -> str | None:
    """How a run differs from what it owes, None where it does not."""
    for place, mine, theirs in zip(graph.results, found, expected, strict=True):
        facts = [(t.dtype, tuple(t.shape)) for t in (mine, theirs)]
        if facts[0] != facts[1]:
            return f"v{place}: {facts[0]}, not {facts[1]}"
        one, two = mine.contiguous(), theirs.contiguous()
        if graph.values[place].is_exact:
            same = torch.equal(one, two)
            if theirs.dtype in FLOATS:
                same = np.array_equal(
                    one.double().numpy(), two.double().numpy(), equal_nan=True
                ) and bool(((one.signbit() == two.signbit()) | two.isnan()).all())
            if not same:
                return f"v{place}: {mine}, not {theirs}"
            continue
        limit = NEAR[theirs.dtype] * (1 + float(two.abs().max())) if two.numel() else 0.0
        # What passed through a narrow dtype is as near as that lets it be.
        narrow = [NEAR[v.dtype] for v in graph.values if v.dtype in NEAR]
        limit = max(limit, max(narrow) * (1 + float(two.abs().max())) if two.numel() else 0.0)
        if two.numel() and not bool((one - two).abs().double().max() <= limit):
            return f"v{place}: {mine}, not {theirs}"
    return None
