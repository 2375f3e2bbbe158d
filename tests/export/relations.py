"""Random relations of sizes, for tests that hold the solver against brute force."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.capture.exc import UserError
from rushlight.core.fake import FakeTensorMode
from rushlight.export import Dim, export, refine_dynamic_shapes_from_suggested_fixes
from rushlight.export.shapes import process
from rushlight.symbolic import ShapeEnv
from rushlight.symbolic import expressions as ex

NAMES = ("a", "b", "c")
COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: x < y,
    lambda x, y: x <= y,
    lambda x, y: x > y,
    lambda x, y: x >= y,
)


class Relations:
    """A program that asks questions about the sizes of its inputs, and examples of them.

    Every answer is what it was for the example, or the program is another one.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = self.random.randint(1, 3)
        self.sizes = [self.random.randint(2, 14) for _ in range(self.count)]
        self.questions = [self.question() for _ in range(self.random.randint(1, 4))]

    def term(self, depth: int = 1) -> Callable[[list[Any]], Any]:
        pick = self.random.randrange(7 if depth else 1)
        place = self.random.randrange(self.count)
        factor, shift = self.random.randint(1, 3), self.random.randint(-2, 4)
        if pick < 3:
            return lambda sizes: factor * sizes[place] + shift
        inner = self.term(depth - 1)
        divisor = self.random.randint(2, 4)
        if pick == 3:
            return lambda sizes: inner(sizes) // divisor
        if pick == 4:
            return lambda sizes: inner(sizes) % divisor
        other = self.term(depth - 1)
        if pick == 5:
            return lambda sizes: inner(sizes) + other(sizes)
        return lambda sizes: inner(sizes) * other(sizes)

    def question(self) -> Callable[[list[Any]], Any]:
        left = self.term()
        compare = self.random.choice(COMPARISONS)
        value = left(self.sizes)
        if self.random.random() < 0.5:
            # A relation that the example satisfies.
            right = self.term()
            shift = value - right(self.sizes) if self.random.random() < 0.7 else 0
            return lambda sizes: compare(left(sizes), right(sizes) + shift)
        number = value if self.random.random() < 0.4 else self.random.randint(0, 20)
        return lambda sizes: compare(left(sizes), number)

    def answers(self, sizes: list[int]) -> list[bool]:
        return [bool(question(sizes)) for question in self.questions]

    def program(self) -> Callable[..., Any]:
        def forward(**inputs: Any) -> Any:
            sizes = [inputs[name].shape[0] for name in NAMES[: self.count]]
            answers = [bool(question(sizes)) for question in self.questions]
            return [x + answers.count(True) for x in inputs.values()], answers

        arguments = ", ".join(NAMES[: self.count])
        scope: dict[str, Any] = {"forward": forward}
        pairs = ", ".join(f"{name}={name}" for name in NAMES[: self.count])
        exec(f"def program({arguments}): return forward({pairs})", scope)
        return scope["program"]

    def inputs(self, sizes: list[int]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.zeros(size) for size in sizes)

    def spec(self) -> dict[str, Any]:
        """Dims that all may vary, some within bounds, some related as the example allows."""
        dims: dict[str, Any] = {}
        for name, size in zip(NAMES, self.sizes):
            lower = self.random.choice([None, None, 2, max(2, size - 3)])
            upper = self.random.choice([None, None, size + self.random.randint(1, 12)])
            dims[name] = {0: Dim(f"d{name}", min=lower, max=upper)}
        names = NAMES[: self.count]
        if self.count > 1 and self.random.random() < 0.3:
            first, second = names[0], names[1]
            shift = self.sizes[1] - self.sizes[0]
            root = dims[first][0]
            if root.min + shift >= 0:
                dims[second] = {0: root + shift}
        return {name: dims[name] for name in names}


def traced(program: Callable[..., Any], inputs: tuple[Any, ...], spec: Any) -> Any:
    """(what solving says, the fake inputs): a program traced over symbolic sizes."""
    plan = process(program, inputs, None, spec)
    env = ShapeEnv(duck_shape=False, assume_static_by_default=True)
    mode = FakeTensorMode(shape_env=env)
    fakes, _ = plan.fakify(mode, inputs)
    with mode:
        program(*fakes)
    return plan.solve(env), fakes


def accepts(solution: Any, fakes: tuple[Any, ...], sizes: list[int]) -> bool:
    """Whether a traced program takes inputs of these sizes: ranges, forms and conditions."""
    values: dict[Any, int] = {}
    exprs = [torch.sym_int(fake.shape[0]) for fake in fakes]
    exprs = [ex.constant(n) if isinstance(n, int) else n.node.expr for n in exprs]
    for expr, size in sorted(zip(exprs, sizes), key=lambda pair: len(pair[0].free_symbols)):
        if len(expr.free_symbols) == 1:
            (symbol,) = expr.free_symbols
            offset, slope = expr.as_coeff_Add()
            slope = slope.as_coeff_Mul()
            if slope[1] == symbol and (size - offset.p) % slope[0].p:
                return False
            if slope[1] == symbol:
                values.setdefault(symbol, (size - offset.p) // slope[0].p)
    for expr, size in zip(exprs, sizes):
        if ex.evaluate(expr, values) != size:
            return False
    for expr, range_ in solution.ranges.items():
        if ex.evaluate(expr, values) not in range_:
            return False
    return all(ex.evaluate(one.expr, values) for one in solution.conditions)


def check(seed: int, limit: int = 24) -> str:
    """Traces a random program; where its declaration does not fit, with the suggested fix.

    Of all sizes it then takes, the answers must be those of the example. Gives what happened.
    """
    relations = Relations(seed)
    program, spec = relations.program(), relations.spec()
    inputs = relations.inputs(relations.sizes)
    outcome = "fits"
    try:
        solution, fakes = traced(program, inputs, spec)
    except UserError as refusal:
        outcome = "fixed"
        refined = refine_dynamic_shapes_from_suggested_fixes(str(refusal), spec)
        solution, fakes = traced(program, inputs, refined)
    expected = relations.answers(relations.sizes)
    if not accepts(solution, fakes, relations.sizes):
        raise AssertionError(f"the example {relations.sizes} is refused")
    taken = 0
    for sizes in every(relations.count, limit):
        if accepts(solution, fakes, sizes):
            taken += 1
            if relations.answers(sizes) != expected:
                raise AssertionError(f"{sizes} is taken, and answers otherwise")
        elif outcome == "fits" and declared(spec, sizes) and relations.answers(sizes) == expected:
            raise AssertionError(f"{sizes} is declared and answers alike, and is refused")
    return f"{outcome} {'dynamic' if taken > 1 else 'static'}"


def every(count: int, limit: int) -> Any:
    if count == 0:
        yield []
        return
    steps = range(2, limit) if count < 3 else range(2, limit // 2)
    for size in steps:
        for rest in every(count - 1, limit):
            yield [size, *rest]


def declared(spec: dict[str, Any], sizes: list[int]) -> bool:
    """Whether a specification allows these sizes."""
    roots: dict[str, int] = {}
    for entry, size in zip(spec.values(), sizes):
        dim = entry[0]
        if not dim.min <= size <= dim.max or (size - dim.offset) % dim.factor:
            return False
        value = (size - dim.offset) // dim.factor
        if roots.setdefault(dim.root.__name__, value) != value:
            return False
    return True


class Operations(Relations):
    """A program whose ops relate the sizes of its inputs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 3
        self.sizes = [self.random.randint(2, 12) for _ in range(self.count)]
        # Half of the programs have sizes that fit one another in simple ways.
        if self.random.random() < 0.5:
            factor, shift = self.random.randint(1, 3), self.random.randint(0, 3)
            self.sizes[1] = factor * self.sizes[0] + shift
        self.steps = [self.step() for _ in range(self.random.randint(1, 3))]

    def step(self) -> Callable[[list[Any]], Any]:
        first, second = self.random.sample(range(self.count), 2)
        small, large = sorted((first, second), key=self.sizes.__getitem__)
        few, many = self.sizes[small], self.sizes[large]
        kind = self.random.randrange(6)
        if kind == 0:
            return lambda xs: xs[small] + xs[large][many - few :]
        if kind == 1:
            stride = -(-many // few)
            extra = len(range(0, many, stride)) - few
            if extra <= 0:
                return lambda xs: xs[large][::stride] + xs[small][-extra:]
            return lambda xs: xs[large][::stride][extra:] + xs[small]
        if kind == 2:
            divisor = self.random.choice([n for n in range(1, many + 1) if many % n == 0])
            return lambda xs: xs[large].view(-1, divisor).sum(0)
        if kind == 3:
            third = 3 - first - second
            total = few + many - self.sizes[third]
            if total < 0:
                return lambda xs: torch.cat([xs[small], xs[large]]) + xs[third][-total:]
            return lambda xs: torch.cat([xs[small], xs[large]])[total:] + xs[third]
        if kind == 4:
            return lambda xs: xs[small][:, None] * xs[large]
        return lambda xs: torch.stack([xs[small].sum(), xs[large][few - 1]])

    def program(self) -> Callable[..., Any]:
        arguments = ", ".join(NAMES)
        scope: dict[str, Any] = {"steps": self.steps}
        exec(f"def program({arguments}): return [step([{arguments}]) for step in steps], []", scope)
        return scope["program"]

    def spec(self) -> dict[str, Any]:
        dims = super().spec()
        for name in NAMES:
            if self.random.random() < 0.15:
                dims[name] = {0: Dim.AUTO}
        return dims


def outcome_of(program: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """What a program gives; None where it refuses."""
    try:
        return program(*inputs)
    except (RuntimeError, IndexError, ValueError):
        return None


def check_exported(seed: int, tries: int = 24, kind: type[Relations] = Relations) -> str:
    """As `check`, for the exported program: it runs, with what eager computes, or it refuses."""
    relations = kind(seed)
    spec, program = relations.spec(), relations.program()

    class Program(torch.nn.Module):
        pass

    arguments = ", ".join(NAMES[: relations.count])
    scope: dict[str, Any] = {"program": program}
    exec(f"def forward(self, {arguments}): return program({arguments})", scope)
    Program.forward = scope["forward"]
    inputs = relations.inputs(relations.sizes)
    outcome = "fits"
    try:
        exported = export(Program(), inputs, dynamic_shapes=spec)
    except UserError as refusal:
        outcome = "fixed"
        spec = refine_dynamic_shapes_from_suggested_fixes(str(refusal), spec)
        exported = export(Program(), inputs, dynamic_shapes=spec)
    module = exported.module()
    taken = 0
    samples = [list(relations.sizes)]
    for number in range(tries):
        # Some move all sizes alike, so that relations stay.
        shift = relations.random.randint(-3, 8)
        moved = [shift if number % 3 else relations.random.randint(-4, 8) for _ in relations.sizes]
        samples.append([max(2, size + by) for size, by in zip(relations.sizes, moved)])
    for sizes in samples:
        given = relations.inputs(sizes)
        try:
            results, answers = module(*given)
        except RuntimeError:
            if sizes == relations.sizes:
                raise
            continue
        taken += 1
        found = outcome_of(program, given)
        if found is None:
            raise AssertionError(f"{sizes} is taken, and eager refuses it")
        expected, told = found
        if told != answers or any(not torch.equal(a, b) for a, b in zip(results, expected)):
            raise AssertionError(f"{sizes} is taken, and computed otherwise")
    return f"{outcome} {'dynamic' if taken > 1 else 'static'}"
