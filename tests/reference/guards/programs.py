"""Programs whose guards are compared with PyTorch's.

Each takes the framework as its argument and gives a function and its example inputs. All sizes
of all inputs are dynamic, those of parameters too. Equal sizes share a symbol, so a symbol is told
by its example value: examples use different sizes where they mean different things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Program = Callable[[Any], tuple[Callable[..., Any], list[Any]]]
PROGRAMS: dict[str, Program] = {}


def program(build: Program) -> Program:
    PROGRAMS[build.__name__] = build
    return build


def of_module(
    torch: Any, module: Any, inputs: list[Any], call: Callable[..., Any] | None = None
) -> tuple[Callable[..., Any], list[Any]]:
    """A module as a function of its inputs, then its parameters and buffers."""
    buffers = dict(module.named_buffers())
    state = {**dict(module.named_parameters()), **buffers}

    def function(*values: Any) -> Any:
        given = {
            name: value.detach() if name in buffers else value
            for name, value in zip(state, values[len(inputs) :], strict=True)
        }
        result = torch.func.functional_call(module, given, values[: len(inputs)])
        return call(result) if call is not None else result

    return function, [*inputs, *(value.detach() for value in state.values())]


def floats(torch: Any, value: Any) -> Iterable[Any]:
    if isinstance(value, torch.Tensor):
        if value.dtype.is_floating_point and value.requires_grad:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from floats(torch, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from floats(torch, item)


def with_gradients(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, followed by the gradients of the sum of its results."""

    def run(*inputs: Any) -> Any:
        inputs = tuple(
            value.detach().requires_grad_()
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point
            else value
            for value in inputs
        )
        result = function(*inputs)
        totals = [value.sum() for value in floats(torch, result)]
        if not totals:
            return result
        wanted = list(floats(torch, inputs))
        gradients = torch.autograd.grad(sum(totals), wanted, allow_unused=True)
        return result, [gradient for gradient in gradients if gradient is not None]

    return run


@program
def mlp(torch: Any) -> Any:
    nn = torch.nn
    layers = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    return of_module(torch, layers, [torch.randn(7, 20)])


@program
def linear_of_sequences(torch: Any) -> Any:
    return of_module(torch, torch.nn.Linear(20, 32), [torch.randn(7, 9, 20)])


@program
def convolution(torch: Any) -> Any:
    nn = torch.nn
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
    )
    return of_module(torch, layers, [torch.randn(7, 3, 12, 16)])


@program
def convolution_in_evaluation(torch: Any) -> Any:
    nn = torch.nn
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    return of_module(torch, layers, [torch.randn(7, 3, 12, 16)])


@program
def strided_convolution(torch: Any) -> Any:
    return of_module(torch, torch.nn.Conv1d(3, 6, 5, stride=2, padding=2), [torch.randn(7, 3, 19)])


@program
def attention(torch: Any) -> Any:
    def function(x: Any, w: Any, out: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = (x @ w).split(width, dim=2)
        q, k, v = [part.view(batch, length, 4, width // 4).transpose(1, 2) for part in (q, k, v)]
        scores = (q @ k.transpose(-2, -1)) * (width // 4) ** -0.5
        mixed = torch.softmax(scores, -1) @ v
        return mixed.transpose(1, 2).reshape(batch, length, width) @ out

    return function, [torch.randn(7, 11, 32), torch.randn(32, 96), torch.randn(32, 32)]


@program
def causal_attention(torch: Any) -> Any:
    def function(q: Any, k: Any, v: Any) -> Any:
        length = q.shape[-2]
        scores = q @ k.transpose(-2, -1)
        hidden = torch.ones(length, length, dtype=torch.bool).tril().logical_not()
        return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v

    return function, [torch.randn(7, 3, 11, 5) for _ in range(3)]


@program
def layer_norm(torch: Any) -> Any:
    return of_module(torch, torch.nn.LayerNorm(20), [torch.randn(7, 9, 20)])


@program
def group_norm(torch: Any) -> Any:
    return of_module(torch, torch.nn.GroupNorm(3, 6), [torch.randn(7, 6, 12, 16)])


@program
def transformer_layer(torch: Any) -> Any:
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    return of_module(torch, layer, [torch.randn(7, 11, 16)])


@program
def recurrent_cells(torch: Any) -> Any:
    cell = torch.nn.GRUCell(6, 8)

    def function(x: Any, h: Any, *state: Any) -> Any:
        names = [name for name, _ in cell.named_parameters()]
        given = dict(zip(names, state, strict=True))
        for step in range(3):
            h = torch.func.functional_call(cell, given, (x[:, step], h))
        return h

    parameters = [value.detach() for value in cell.parameters()]
    return function, [torch.randn(7, 3, 6), torch.randn(7, 8), *parameters]


@program
def embedding_and_scatter(torch: Any) -> Any:
    def function(ids: Any, table: Any) -> Any:
        rows = torch.nn.functional.embedding(ids, table)
        sums = torch.zeros(table.shape[0], table.shape[1]).index_add(
            0, ids.reshape(-1), rows.reshape(-1, table.shape[1])
        )
        return rows.sum(1) @ sums.t()

    return function, [torch.randint(0, 10, (7, 9)), torch.randn(10, 6)]


@program
def writes_in_place(torch: Any) -> Any:
    def function(x: Any) -> Any:
        y = x.clone()
        y[:, 0] = 0
        y[1:].mul_(2)
        y.add_(x.mean(0))
        y[y > 1] = 1
        return y

    return function, [torch.randn(7, 5)]


@program
def views(torch: Any) -> Any:
    def function(x: Any) -> Any:
        batch = x.shape[0]
        return (
            x.view(batch, -1),
            x.transpose(1, 2),
            x[:, 1:],
            x.unsqueeze(0).expand(3, -1, -1, -1),
            x.permute(2, 0, 1).reshape(-1),
            x.flatten(1).unflatten(1, (x.shape[1], x.shape[2])),
        )

    return function, [torch.randn(7, 5, 6)]


@program
def dropout(torch: Any) -> Any:
    def function(x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.3) * 2

    return function, [torch.randn(7, 5)]


@program
def outputs_in_collections(torch: Any) -> Any:
    def function(x: Any, y: Any) -> Any:
        return {"sum": x + y, "parts": [x[0], (y.mean(1), x @ y.t())]}

    return function, [torch.randn(7, 5), torch.randn(7, 5)]


@program
def cross_entropy(torch: Any) -> Any:
    def function(x: Any, target: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, target)

    return function, [torch.randn(7, 5), torch.randint(0, 5, (7,))]


@program
def smooth_losses(torch: Any) -> Any:
    def function(x: Any, y: Any) -> Any:
        f = torch.nn.functional
        return f.mse_loss(x, y) + f.smooth_l1_loss(x, y) + f.huber_loss(x, y) + f.l1_loss(x, y)

    return function, [torch.randn(7, 5), torch.randn(7, 5)]


@program
def contractions(torch: Any) -> Any:
    def function(x: Any, y: Any) -> Any:
        z = torch.einsum("bij,bkj->bik", x, y)
        return z / z.norm(dim=-1, keepdim=True), x.std(1), torch.logsumexp(y, -1)

    return function, [torch.randn(7, 5, 6), torch.randn(7, 4, 6)]


@program
def padding(torch: Any) -> Any:
    def function(x: Any) -> Any:
        f = torch.nn.functional
        return f.pad(x, (1, 2)), f.pad(x, (2, 1, 1, 1), mode="reflect")

    return function, [torch.randn(7, 3, 10, 12)]


@program
def resizing(torch: Any) -> Any:
    def function(x: Any) -> Any:
        f = torch.nn.functional
        return f.interpolate(x, scale_factor=2, mode="nearest"), f.avg_pool2d(x, 2)

    return function, [torch.randn(7, 3, 10, 12)]


@program
def bags_of_embeddings(torch: Any) -> Any:
    def function(ids: Any, offsets: Any, table: Any) -> Any:
        return torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum")

    return function, [torch.randint(0, 10, (12,)), torch.tensor([0, 3, 7]), torch.randn(10, 6)]


@program
def own_function(torch: Any) -> Any:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * grad * x**2

    return lambda x: Cube.apply(x) + 1, [torch.randn(7, 5)]


@program
def lower_precision(torch: Any) -> Any:
    def function(x: Any, w: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ w).float().relu()

    return function, [torch.randn(7, 5), torch.randn(5, 6)]


@program
def ordering(torch: Any) -> Any:
    def function(x: Any) -> Any:
        values, _ = x.sort(1)
        top, _ = x.topk(3, dim=1)
        return values.cumsum(1), top, x.max(1).values, x.argmax(1)

    return function, [torch.randn(7, 5)]


@program
def spectra(torch: Any) -> Any:
    def function(x: Any) -> Any:
        return torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]), torch.fft.fft(x).abs()

    return function, [torch.randn(7, 10)]


@program
def concatenation(torch: Any) -> Any:
    def function(x: Any, y: Any, z: Any) -> Any:
        joined = torch.cat([x, y], 0)
        return joined, torch.stack([x, x], 1), torch.cat([x, z], 1), joined.chunk(2, 1)

    return function, [torch.randn(7, 5), torch.randn(4, 5), torch.randn(7, 6)]


@program
def broadcasting(torch: Any) -> Any:
    def function(x: Any, row: Any, column: Any) -> Any:
        return x + row, x * column, torch.where(x > 0, x, row), torch.maximum(x, column)

    return function, [torch.randn(7, 5), torch.randn(5), torch.randn(7, 1)]


@program
def batched_products(torch: Any) -> Any:
    def function(x: Any, y: Any, b: Any) -> Any:
        return torch.bmm(x, y), torch.baddbmm(b, x, y), x @ y[0], torch.matmul(x[0, 0], y)

    return function, [torch.randn(7, 5, 6), torch.randn(7, 6, 4), torch.randn(7, 5, 4)]


@program
def gathering(torch: Any) -> Any:
    def function(x: Any, index: Any, rows: Any) -> Any:
        return x.gather(1, index), x[rows], x.index_select(0, rows), x.scatter(1, index, 2.0)

    return function, [
        torch.randn(7, 5),
        torch.randint(0, 5, (7, 3)),
        torch.tensor([0, 2, 4, 6]),
    ]


@program
def statistics(torch: Any) -> Any:
    def function(x: Any) -> Any:
        return x.var(0), x.mean((1, 2)), x.amax(2), x.prod(1), x.norm()

    return function, [torch.randn(7, 5, 6)]


@program
def softmax_family(torch: Any) -> Any:
    def function(x: Any) -> Any:
        f = torch.nn.functional
        return f.log_softmax(x, 1), f.softmax(x, 0), f.gelu(x), f.silu(x), f.softplus(x), f.elu(x)

    return function, [torch.randn(7, 5)]


@program
def windows(torch: Any) -> Any:
    def function(x: Any) -> Any:
        f = torch.nn.functional
        return x.unfold(2, 3, 2), f.unfold(x, 2), f.adaptive_avg_pool2d(x, 1)

    return function, [torch.randn(7, 3, 10, 12)]


@program
def arithmetic_on_sizes(torch: Any) -> Any:
    def function(x: Any) -> Any:
        batch, width = x.shape
        return x.new_zeros(batch * 2, width + 1), x / batch, torch.arange(width) * x.numel()

    return function, [torch.randn(7, 5)]


@program
def repetition(torch: Any) -> Any:
    def function(x: Any) -> Any:
        return (
            x.repeat(2, 3),
            x.repeat_interleave(2, 0),
            x.roll(1, 0),
            x.flip(1),
            torch.tile(x, (2,)),
        )

    return function, [torch.randn(7, 5)]


@program
def triangles(torch: Any) -> Any:
    def function(x: Any) -> Any:
        return x.tril(), x.triu(1), x.diagonal(), torch.diag_embed(x), x.trace()

    return function, [torch.randn(7, 5)]


@program
def rotation(torch: Any) -> Any:
    def function(x: Any) -> Any:
        length, width = x.shape[-2:]
        half = width // 2
        angles = torch.arange(length)[:, None] * torch.arange(half)[None] / half
        first, second = x[..., :half], x[..., half:]
        cosine, sine = angles.cos(), angles.sin()
        return torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)

    return function, [torch.randn(7, 11, 8)]


@program
def recurrence(torch: Any) -> Any:
    return of_module(
        torch, torch.nn.LSTM(6, 8, batch_first=True), [torch.randn(7, 3, 6)], lambda out: out[0]
    )


@program
def distances(torch: Any) -> Any:
    def function(x: Any, y: Any) -> Any:
        difference = x[:, None] - y[None]
        return difference.pow(2).sum(-1).sqrt(), torch.nn.functional.cosine_similarity(x, x)

    return function, [torch.randn(7, 5), torch.randn(4, 5)]


@program
def transposed_convolution(torch: Any) -> Any:
    return of_module(
        torch, torch.nn.ConvTranspose2d(3, 6, 2, stride=2), [torch.randn(7, 3, 10, 12)]
    )
