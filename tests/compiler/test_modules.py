"""Modules compiled by the default backend: as eager ones in results, gradients and buffers, while
parameters, modes, flags and sizes change between calls; with graphs that were traced and with those
that come from disk."""

from __future__ import annotations

import copy

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.base.config import config as settings
from rushlight.base.counters import counters
from rushlight.compiler import compiling

pytest.importorskip("llvmlite")

# Loops add in another order than NumPy, and fused ones round less often.
TOLERANCE = {"rtol": 2e-4, "atol": 2e-5}


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(6, 12), nn.Linear(12, 6), nn.LayerNorm(6)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        self.qkv, self.out = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (part.view(b, n, 2, 3).transpose(1, 2) for part in self.qkv(x).split(6, dim=-1))
        scores = q @ k.transpose(-2, -1) / 3**0.5
        if self.causal:
            mask = torch.ones(n, n, dtype=torch.bool).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, 6))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.rest = Attention(True), Residual()

    def forward(self, x):
        return self.rest(x + self.attention(x))


class Conv(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), norm
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 4)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return state


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 5)

    def forward(self, x):
        return {"y": self.a(x) * torch.sigmoid(self.b(x)), "unused": x.sum(-1)}


class Counting(nn.Module):
    """Writes to a buffer and keeps a number."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)
        self.register_buffer("total", torch.zeros(6))

    def forward(self, x):
        if self.training:
            self.total.mul_(0.5).add_(x.detach().mean(0))
        return self.lin(x) - self.total


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.out = nn.Linear(6, 7, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x):
        return self.out(self.table.weight[:4].mean(0) + x)


class Inplace(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)

    def forward(self, x):
        y = self.lin(x)
        y[:, 0] = 0
        y[:, 1:3].mul_(2)
        return F.relu_(y)


class Shared(nn.Module):
    """Results that are views of one another and of the input."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)

    def forward(self, x):
        y = self.lin(x)
        return y, y[:, :2], x.t()


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 6)

    def forward(self, x):
        y = self.lin(x)
        return y.sin() if y.sum() > 0 else y.cos()


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.linspace(0.5, 2, 6))

    def forward(self, x):
        return torch.where(x > 0, x * self.scale, x.exp() - 1)


def flat(*layers):
    return lambda: nn.Sequential(*[make() for make in layers])


ROWS, TEXT, IMAGE, SERIES = (6,), (5, 6), (2, 6, 6), (2, 8)
# How to make a module, and the sizes behind the batch of what it takes.
MODULES = {
    "linear": (lambda: nn.Linear(6, 4), ROWS),
    "linear without bias": (lambda: nn.Linear(6, 4, bias=False), ROWS),
    "mlp relu": (flat(lambda: nn.Linear(6, 8), nn.ReLU, lambda: nn.Linear(8, 3)), ROWS),
    "mlp gelu": (flat(lambda: nn.Linear(6, 8), nn.GELU, lambda: nn.Linear(8, 3)), ROWS),
    "mlp tanh": (flat(lambda: nn.Linear(6, 8), nn.Tanh, lambda: nn.Linear(8, 3)), ROWS),
    "mlp silu": (flat(lambda: nn.Linear(6, 8), nn.SiLU, lambda: nn.Linear(8, 3)), ROWS),
    "mlp elu": (flat(lambda: nn.Linear(6, 8), nn.ELU, lambda: nn.Linear(8, 3)), ROWS),
    "mlp leaky": (flat(lambda: nn.Linear(6, 8), nn.LeakyReLU, lambda: nn.Linear(8, 3)), ROWS),
    "mlp softplus": (flat(lambda: nn.Linear(6, 8), nn.Softplus, lambda: nn.Linear(8, 3)), ROWS),
    "mlp hardswish": (flat(lambda: nn.Linear(6, 8), nn.Hardswish, lambda: nn.Linear(8, 3)), ROWS),
    "mlp mish": (flat(lambda: nn.Linear(6, 8), nn.Mish, lambda: nn.Linear(8, 3)), ROWS),
    "prelu": (nn.PReLU, ROWS),
    "bilinear": (lambda: Twice(nn.Bilinear(6, 6, 3)), ROWS),
    "log_softmax": (flat(lambda: nn.Linear(6, 8), lambda: nn.LogSoftmax(-1)), ROWS),
    "softmin": (flat(lambda: nn.Linear(6, 8), lambda: nn.Softmin(-1)), ROWS),
    "glu": (flat(lambda: nn.Linear(6, 8), lambda: nn.GLU(-1)), ROWS),
    "layer norm": (lambda: nn.LayerNorm(6), ROWS),
    "rms norm": (lambda: nn.RMSNorm(6), ROWS),
    "group norm": (lambda: nn.GroupNorm(2, 2), SERIES),
    "batch norm": (lambda: nn.BatchNorm1d(6), ROWS),
    "batch norm without statistics": (lambda: nn.BatchNorm1d(2, track_running_stats=False), SERIES),
    "instance norm": (lambda: nn.InstanceNorm1d(2, affine=True), SERIES),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, padding=1), SERIES),
    "conv1d strided": (lambda: nn.Conv1d(2, 4, 3, stride=2, groups=2), SERIES),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3), IMAGE),
    "conv transposed": (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), IMAGE),
    "cnn with batch norm": (lambda: Conv(nn.BatchNorm2d(4)), IMAGE),
    "cnn with group norm": (lambda: Conv(nn.GroupNorm(2, 4)), IMAGE),
    "average pool": (flat(lambda: nn.Conv2d(2, 3, 3), lambda: nn.AvgPool2d(2)), IMAGE),
    "adaptive pool": (flat(lambda: nn.Conv2d(2, 3, 3), lambda: nn.AdaptiveAvgPool2d(1)), IMAGE),
    "upsample": (lambda: nn.Upsample(scale_factor=2), IMAGE),
    "pixel shuffle": (flat(lambda: nn.Conv2d(2, 4, 1), lambda: nn.PixelShuffle(2)), IMAGE),
    "flatten": (flat(nn.Flatten, lambda: nn.Linear(16, 3)), SERIES),
    "residual": (Residual, ROWS),
    "attention": (lambda: Attention(False), TEXT),
    "causal attention": (lambda: Attention(True), TEXT),
    "block": (Block, TEXT),
    "two blocks": (flat(Block, Block), TEXT),
    "rnn cell": (lambda: Recurrent(nn.RNNCell(6, 4)), TEXT),
    "gru cell": (lambda: Recurrent(nn.GRUCell(6, 4)), TEXT),
    "gated, one result unused": (Gated, ROWS),
    "counting": (Counting, ROWS),
    "tied weights": (Tied, ROWS),
    "writes in place": (Inplace, ROWS),
    "shared results": (Shared, ROWS),
    "branch on data": (Branching, ROWS),
    "buffer": (Buffered, ROWS),
}


class Twice(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x, x * 0.5)


@pytest.fixture(autouse=True)
def own_cache(tmp_path):
    with settings.patch(cache_dir=str(tmp_path)):
        yield
    compiling.reset()


def assert_same(got, want, what):
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = tuple(got.values()), tuple(want.values())
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for number, (a, b) in enumerate(zip(got, want)):
            assert_same(a, b, f"{what}[{number}]")
        return
    if want is None:
        assert got is None, what
        return
    assert got.requires_grad == want.requires_grad, what
    torch.testing.assert_close(
        got, want, equal_nan=True, msg=lambda text: f"{what}: {text}", **TOLERANCE
    )


def first(result):
    if isinstance(result, dict):
        return result["y"]
    return result[0] if isinstance(result, tuple) else result


def call(run, module, x, needs_grad):
    """Result, gradients and buffers of one call."""
    module.zero_grad()
    x = x.clone().requires_grad_(needs_grad)
    result = run(x)
    loss = first(result)
    if loss.requires_grad:
        loss.square().mean().backward()
    grads = (x.grad, *[p.grad for p in module.parameters()])
    return result, grads, tuple(module.buffers())


def story(make, sizes, dynamic):
    """Calls of a compiled module and of its eager twin, with changes between them."""
    torch.manual_seed(0)
    eager = make()
    module = copy.deepcopy(eager)
    run = torch.compile(module, dynamic=dynamic)
    parameters = [list(m.parameters()) for m in (module, eager)]

    def compare(batch, needs_grad, what):
        x = torch.randn(batch, *sizes)
        got, want = call(run, module, x, needs_grad), call(eager, eager, x, needs_grad)
        for part, a, b in zip(("result", "gradient", "buffer"), got, want):
            assert_same(tuple(a) if part != "result" else a, b, f"{what}, {part}")

    compare(4, False, "first")
    compare(4, True, "input with gradient")
    for both in zip(*parameters):  # as an optimiser does
        for p in both:
            with torch.no_grad():
                p.mul_(1.25).add_(0.0625)
    compare(4, True, "parameters changed in place")
    for m in (module, eager):
        m.eval()
    compare(4, False, "eval")
    with torch.no_grad():
        compare(4, False, "no_grad")
    compare(3, False, "another batch")
    compare(7, True, "a third batch")
    compare(1, False, "a batch of one")
    for m in (module, eager):
        m.train()
    compare(4, False, "train again")
    for both in zip(*parameters):
        for p in both[:1] + both[1:]:
            p.requires_grad_(False)
    compare(4, True, "frozen")
    compare(4, False, "frozen, no gradient")
    for both in zip(*parameters):
        for p in both:
            p.requires_grad_(True)
    with torch.no_grad():
        for both in zip(*parameters):
            for p in both:
                p.copy_(p.flip(0))
    compare(4, True, "thawed")
    for m in (module, eager):
        m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()}, assign=True)
    compare(4, True, "other parameters")


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", MODULES)
def test_module(name, dynamic):
    make, sizes = MODULES[name]
    story(make, sizes, dynamic)


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
@pytest.mark.parametrize("name", MODULES)
def test_module_from_disk(name):
    """The same when graphs and code come from disk."""
    make, sizes = MODULES[name]
    story(make, sizes, None)
    torch.compiler.reset()
    counters.clear()
    story(make, sizes, None)
    found = counters["aot_autograd"]
    assert not found["autograd_cache_miss"], found
    assert found["autograd_cache_hit"] + found["autograd_cache_bypass"] > 0


@pytest.mark.parametrize("rate", [0.3])
def test_dropout_draws_what_eager_draws(rate):
    module = nn.Sequential(nn.Linear(6, 6), nn.Dropout(rate), nn.ReLU())
    run = torch.compile(module)
    x = torch.randn(4, 6)
    for step in range(3):
        torch.manual_seed(step)
        got = run(x)
        torch.manual_seed(step)
        assert_same(got, module(x), f"step {step}")
