"""Compiled code as libraries write it: caches written in place, registries, scopes, enums that are
called, trees. Results and effects as in eager code, operators in each graph as in PyTorch 2.13."""

from __future__ import annotations

import enum
import types
import weakref

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def numbers(*shape, step=0):
    count = torch.Size(shape).numel()
    return torch.linspace(-1.0, 1.0, count).reshape(shape) + 0.1 * step


def cache_written_at_positions(compiled):
    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(8, 4))

        def forward(self, x, at):
            self.keys.index_copy_(0, at, x)
            mask = torch.arange(8) <= at[-1]
            return torch.where(mask[:, None], self.keys, 0).sum(0)

    cache = Cache()
    run = compiled(cache)
    found = [run(numbers(2, 4), torch.tensor([0, 1]))]
    found += [run(numbers(1, 4, step=n), torch.tensor([n])) for n in range(2, 5)]
    return found, cache.keys


def scopes(compiled):
    stack = []

    class Scope:
        def __init__(self, factor):
            self.factor = factor

        def __enter__(self):
            stack.append(self.factor)
            return self

        def __exit__(self, *error):
            stack.pop()
            return False

    def scaled(x):
        return x * (stack[-1] if stack else 1)

    @compiled
    def run(x):
        first = scaled(x)
        with Scope(2):
            second = scaled(x)
            with Scope(3) as scope:
                third = scaled(x) + scope.factor
        return first, second, third, scaled(x)

    found = [run(numbers(2))]
    with Scope(5):
        found.append(run(numbers(2)))
    return found, stack


def registry(compiled):
    known = {"a": lambda x: x + 1, "b": lambda x: x * 2}

    @compiled
    def run(x, names):
        for name in names:
            x = known[name](x)
        return x

    found = [run(numbers(2), ("a", "b")), run(numbers(2), ("b", "a", "a"))]
    known["a"] = lambda x: x - 5
    return found, run(numbers(2), ("a", "b"))


def called_enums(compiled):
    class Activation(enum.Enum):
        RELU = "relu"
        TANH = "tanh"

        def __call__(self, x):
            return getattr(torch, self.value)(x)

    class Flags(enum.IntFlag):
        A = 1
        B = 2

    @compiled
    def run(x, activation, flags):
        y = activation(x)
        if Flags.B in flags:
            y = y + 1
        return {activation.name: y, flags.value: y * 2}

    return run(numbers(3), Activation.RELU, Flags.A), run(numbers(3), Activation.TANH, ~Flags.A)


def trees(compiled):
    class Tree:
        def __init__(self, value, children=()):
            self.value, self.children = value, list(children)

    def total(tree):
        return tree.value * 2 + sum((total(child) for child in tree.children), 0 * tree.value)

    run = compiled(lambda tree: total(tree) + 1)
    leaf = Tree(numbers(2))
    tree = Tree(numbers(2), [Tree(numbers(2, step=1), [leaf]), Tree(numbers(2, step=2))])
    found = [run(tree)]
    tree.children.append(Tree(numbers(2)))
    return found, run(tree)


def weak_parents(compiled):
    class Part(torch.nn.Module):
        def __init__(self, parent=None):
            super().__init__()
            self.__dict__["parent"] = weakref.ref(parent or self)
            self.factor = 3

        def forward(self, x):
            return x * self.parent().factor

    parent = Part()
    run = compiled(Part(parent))
    found = [run(numbers(2))]
    parent.factor = 5
    return found, run(numbers(2))


def beams(compiled):
    @compiled
    def run(scores, logits, count):
        sums = (scores[:, None] + F.log_softmax(logits, -1)).reshape(-1)
        values, at = sums.topk(count)
        return values, at // logits.shape[-1], at % logits.shape[-1]

    scores, found = torch.zeros(2), []
    for step in range(3):
        scores, *rest = run(scores, numbers(2, 5, step=step).cos(), 2)
        found.append((scores, rest))
    return found


def counted_steps(compiled):
    steps, history = 0, []

    @compiled
    def run(x):
        nonlocal steps
        steps += 1
        history.append(x.sum())
        return x * steps

    return [run(numbers(3)) for _ in range(4)], steps, history


def branches_on_sizes(compiled):
    @compiled
    def run(x):
        return x * 2 if x.shape[0] > 5 else torch.cat([x, x])

    return [run(numbers(n, 2)) for n in (3, 4, 6, 7, 5, 9)]


PROGRAMS = {
    cache_written_at_positions: [7, 7],
    scopes: [5, 5],
    registry: [2, 3, 2],
    called_enums: [2, 3],
    trees: [16, 20],
    weak_parents: [1, 1],
    beams: [9],
    counted_steps: [2, 3, 3, 3],
    branches_on_sizes: [1, 1, 1],
}


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager_code(program):
    counts = []

    def backend(gm, examples):
        counts.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward

    want = plain(program(lambda run: run))
    assert plain(program(lambda run: torch.compile(run, backend=backend))) == want
    assert counts == PROGRAMS[program]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_places_that_tensors_tell_are_written_in_the_graph(backend):
    def f(cache, x, place):
        cache = cache.clone()
        cache[:, place] = x
        cache[..., 0, place] = 3
        cache[place, 1:3] = x[0]
        return cache

    compiled = torch.compile(f, backend=backend, fullgraph=True)
    for place in (0, 2, 1, -1):
        pairs = [
            (torch.arange(48.0).view(3, 4, 4).requires_grad_(), torch.ones(1, 4).requires_grad_())
            for _ in range(2)
        ]
        got, want = [run(*given, torch.tensor(place)) for run, given in zip((compiled, f), pairs)]
        got.square().sum().backward()
        want.square().sum().backward()
        assert torch.equal(got, want)
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(*pairs))
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(*pairs[0], torch.tensor(9))


def test_names_joined_namespaces_and_spans_leave_one_graph():
    args = types.SimpleNamespace(rate=0.5, count=3)

    def f(batch):
        args.count += 1
        with torch.profiler.record_function("forward"):
            total = sum(batch.values()) * args.rate + args.count
        with torch.profiler.record_function("nothing"):
            pass
        return total, ",".join(batch), "-".join(batch.keys())

    counter = CompileCounter()
    compiled = torch.compile(f, backend=counter, fullgraph=True)
    for step in range(4):
        args.rate = step / 4
        total, names, keys = compiled({"a": torch.ones(2), "b": torch.ones(2) * step})
        assert total.tolist() == [(1 + step) * (step / 4) + 4 + step] * 2
        assert (names, keys, args.count) == ("a,b", "a-b", 4 + step)
    assert counter.frame_count == 2
