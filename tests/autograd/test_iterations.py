"""Laws over iterations: a training loop gives the same bits in every round, with backward programs
and without, and no gradient shares memory with anything."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import programs
from rushlight.autograd.programs import Program, forget_graphs
from rushlight.base import pytree
from rushlight.base.config import config
from rushlight.core.tensor import Tensor
from rushlight.opset import audit
from rushlight.opset.samples.maker import has_samples, samples_of

STEPS = 12


@pytest.fixture(autouse=True)
def fresh_start():
    forget_graphs()
    yield
    forget_graphs()


def bits(tensor: Any) -> Any:
    if tensor is None:
        return None
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    array = tensor.resolve_conj().resolve_neg().contiguous()._array
    return array.dtype.str, array.shape, array.tobytes()


def assert_apart(grads: list[Any], others: list[Any]) -> None:
    """No two gradients share memory, nor a gradient and another tensor."""
    grads = [g._array for g in grads if g is not None and g._array is not None]
    others = [t._array for t in others if t._array is not None]
    for one, other in itertools.combinations(grads, 2):
        assert not np.shares_memory(one, other)
    for one, other in itertools.product(grads, others):
        assert not np.shares_memory(one, other)


# -- random training loops -------------------------------------------------------------------------

NUMBERS = (0.0, -0.0, 2.0, 0.5, -1.0, 1.0)
WILD = (float("nan"), float("inf"), -float("inf"), -0.0)
SHAPES = ((6,), (2, 3), (3, 2), (1, 6), (6, 1), (1, 2, 3))
VIEWS = ("view", "reshape", "squeeze", "transpose", "expand", "narrow", "select", "flatten")
UNARY = ("sin", "tanh", "relu", "neg", "exp", "sigmoid", "clone", "contiguous", "detach", "cumsum",
         "softmax", "flip", "prod", "alias", "norm", "sqrt")  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "maximum", "mm")


class Loop:
    """One training loop, made from a seed: the same at each call of `run`."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.dtype = torch.float32 if rng.random() < 0.7 else torch.float64
        self.shapes = [SHAPES[i] for i in rng.integers(len(SHAPES), size=rng.integers(2, 5))]
        self.roots = [self.steps() for _ in range(rng.integers(1, 3))]
        self.wild = rng.random() < 0.3
        self.rows = 2 if rng.random() < 0.25 else 0  # changing shapes
        self.hooked = frozenset(rng.integers(STEPS, size=2).tolist() if rng.random() < 0.3 else ())
        self.zeroing = str(rng.choice(("none", "fill", "accumulate")))
        self.clips = bool(rng.random() < 0.4)
        self.momentum, self.decay = rng.choice((0.0, 0.9)), rng.choice((0.0, 0.1))
        self.frozen = int(rng.integers(len(self.shapes))) if rng.random() < 0.2 else None
        self.retains = bool(rng.random() < 0.2)
        self.data_seed = int(rng.integers(1 << 30))

    def steps(self) -> list[tuple[Any, ...]]:
        """(op, operand numbers, a number) over leaves, two inputs and earlier results."""
        rng = self.rng
        found: list[tuple[Any, ...]] = []
        count = len(self.shapes) + 2
        for _ in range(int(rng.integers(2, 10))):
            one, other = [int(i) for i in rng.integers(count, size=2)]
            number = float(rng.choice(NUMBERS)) if rng.random() < 0.5 else None
            pool = (VIEWS, UNARY, BINARY)[int(rng.integers(3))]
            found.append((str(rng.choice(pool)), one, other, number))
            count += 1
        return found

    def run(self) -> tuple[list[Any], int]:
        """Bits of everything after each step, and how many programs were written."""
        rng = np.random.default_rng(self.data_seed)
        leaves = [self.data(rng, shape).requires_grad_() for shape in self.shapes]
        velocity: list[Any] = [None] * len(leaves)
        trace: list[Any] = []
        for step in range(STEPS):
            if self.frozen is not None and step in (6, 8):
                leaf = leaves[self.frozen]
                leaf.requires_grad_(not leaf.requires_grad)
            extra = self.rows * (step // 3 % 2)
            inputs = [self.data(rng, (6,)), self.data(rng, (1 + extra, 6)).sum(0)]
            if self.rows:
                inputs[1] = inputs[1].expand(1 + extra, 6)
            if rng.random() < 0.5:
                inputs[1] = inputs[1] if self.rows else inputs[0]
            loss = self.loss(self.roots[step % len(self.roots)], leaves, inputs)
            if loss.requires_grad:
                self.backward(loss, leaves, step)
            grads = [leaf.grad for leaf in leaves]
            assert_apart(grads, [*leaves, *inputs, *[v for v in velocity if v is not None]])
            trace.append([bits(loss), *[bits(g) for g in grads], *[bits(leaf) for leaf in leaves]])
            self.update(leaves, velocity, step)
        return trace, len([p for p in programs.GRAPHS.values() if type(p) is Program])

    def data(self, rng: Any, shape: tuple[int, ...]) -> Any:
        values = rng.standard_normal(shape)
        if self.wild:
            values.reshape(-1)[rng.integers(values.size)] = rng.choice(WILD)
        return torch.tensor(values).to(self.dtype)

    def loss(self, steps: Any, leaves: Any, inputs: Any) -> Any:
        values = [*leaves, *inputs]
        for name, one, other, number in steps:
            found = apply(name, values[one], values[other])
            if number is not None:
                found = found / number if name == "div" else found * number
            values.append(found)
        return sum(value.sum() for value in values[len(leaves) + 2 :])

    def backward(self, loss: Any, leaves: Any, step: int) -> None:
        handle = None
        if step in self.hooked:
            chosen = next(leaf for leaf in leaves if leaf.requires_grad)
            handle = chosen.register_hook(lambda grad: grad * 0.5)
        loss.backward(retain_graph=self.retains)
        if self.retains:
            loss.backward()
        if handle is not None:
            handle.remove()

    def update(self, leaves: Any, velocity: Any, step: int) -> None:
        with torch.no_grad():
            grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
            if self.clips and grads:
                torch.nn.utils.clip_grad_norm_([t for t in leaves if t.grad is not None], 1.0)
            for position, leaf in enumerate(leaves):
                if leaf.grad is None:
                    continue
                change = leaf.grad + float(self.decay) * leaf
                if self.momentum:
                    held = velocity[position]
                    velocity[position] = change if held is None else held.mul_(0.9).add_(change)
                    change = velocity[position]
                leaf.sub_(0.01 * change)
                if self.zeroing == "none" or (self.zeroing == "accumulate" and step % 3 == 2):
                    leaf.grad = None
                elif self.zeroing == "fill":
                    leaf.grad.zero_()


LITTLE = {
    "view": lambda one: one.contiguous().view(-1),
    "reshape": lambda one: one.reshape(-1),
    "squeeze": lambda one: one.squeeze().unsqueeze(0),
    "transpose": lambda one: one.transpose(0, -1),
    "expand": lambda one: one.unsqueeze(0).expand(2, *one.shape)[1],
    "narrow": lambda one: one.narrow(-1, 0, one.shape[-1]),
    "select": lambda one: one.select(0, one.shape[0] - 1) + 0 if one.dim() > 1 else one[:],
    "cumsum": lambda one: one.cumsum(-1),
    "softmax": lambda one: one.softmax(-1),
    "flip": lambda one: one.flip((0,)),
    "prod": lambda one: one.prod(-1, keepdim=True) + one,
    "alias": lambda one: one[...],
    "sqrt": lambda one: one.abs().sqrt(),
}


def apply(name: str, one: Any, other: Any) -> Any:
    if not one.dim():
        one = one.view(1)
    if name in LITTLE:
        return LITTLE[name](one)
    if name not in BINARY:
        return getattr(one, name)()
    one, other = one.reshape(-1), other.reshape(-1)
    count = min(len(one), len(other))
    one, other = one[:count], other[:count]
    if name == "mm":
        return one.view(1, -1).mm(other.view(-1, 1))
    return getattr(one, name)(other)


def check_loops(seeds: Any) -> int:
    written = 0
    for seed in seeds:
        loop = Loop(seed)
        with np.errstate(all="ignore"):
            with config.patch(backward_programs=False):
                expected, none = loop.run()
            assert not none
            found, count = loop.run()
        assert found == expected, f"seed {seed}"
        written += count
        forget_graphs()
    return written


def test_training_loops_are_the_same_with_programs_and_without():
    # Loops without a single program would prove nothing.
    assert check_loops(range(100)) > 50


@pytest.mark.slow
def test_many_training_loops_are_the_same_with_programs_and_without():
    assert check_loops(range(100, 1100)) > 500


# -- every op --------------------------------------------------------------------------------------


def is_candidate(op: Any) -> bool:
    return (
        has_samples(op)
        and op.kind.name not in ("RANDOM", "CREATION")
        and "nondeterministic_seeded" not in op.tags
        and not op.mutated_positions
        and (op.rules.get("vjp") is not None or op.body is not None)
    )


OPS = [op for op in audit.records() if is_candidate(op)]


def leaves_of(case: Any, factor: float) -> tuple[Any, Any, list[Any]]:
    """A sample with each floating point tensor copied to a leaf of its strides."""
    leaves: dict[int, Any] = {}

    def take(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.dtype.is_floating_point:
            return value
        if value.layout is not torch.strided:
            return value
        if id(value) not in leaves:
            copy = torch.empty_like(value)
            leaves[id(value)] = copy.copy_(value.detach() * factor).requires_grad_()
        return leaves[id(value)]

    args, kwargs = pytree.tree_map(take, (case.args, case.kwargs))
    return args, kwargs, list(leaves.values())


def gradients(op: Any, args: Any, kwargs: Any, leaves: list[Any]) -> list[Any] | None:
    """Gradients of a weighted sum of an op's results, or None where it has none."""
    for leaf in leaves:
        leaf.grad = None
    result = op(*args, **kwargs)
    outputs = [
        t
        for t in pytree.tree_leaves(result)
        if isinstance(t, Tensor) and t.requires_grad and t.layout is torch.strided and t.numel()
    ]
    outputs = [t.abs() if t.dtype.is_complex else t for t in outputs]
    if not outputs:
        return None
    sums = [(t * (1 + 0.1 * torch.arange(t.numel()).reshape(t.shape))).sum() for t in outputs]
    sum(sums[1:], sums[0]).double().backward()
    assert_apart([leaf.grad for leaf in leaves], leaves)
    return [bits(leaf.grad) for leaf in leaves]


def check_op(op: Any, limit: int | None) -> list[str]:
    problems = []
    for kind in (torch.float32, torch.float64):
        cases = list(samples_of(op, kind))
        for case in cases[:limit]:
            forget_graphs()
            for factor in (1.0, 0.5):
                args, kwargs, leaves = leaves_of(case, factor)
                try:
                    with config.patch(backward_programs=False):
                        expected = gradients(op, args, kwargs, leaves)
                except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
                    break  # refused for this dtype, or without a derivative
                if expected is None:
                    break
                for step in range(8):
                    if gradients(op, args, kwargs, leaves) != expected:
                        problems.append(f"{op.name()} {kind} {case!r}: other bits in step {step}")
                        break
    return problems


def examine(ops: list[Any], limit: int | None) -> None:
    problems: list[str] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for op in ops:
            problems += check_op(op, limit)
    assert not problems, "\n".join(problems[:20])


@pytest.mark.parametrize("part", range(5))
def test_ops_give_the_same_bits_in_every_iteration(part):
    examine(OPS[part::25], 2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(25))
def test_every_op_gives_the_same_bits_in_every_iteration(part):
    examine(OPS[part::25], None)
