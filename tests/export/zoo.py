"""Models of many kinds, each with inputs of a batch and a length, and the sizes that may vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.export import Dim


@dataclass
class Model:
    build: Callable[[], Any]
    # (batch, length) -> the arguments.
    inputs: Callable[[int, int], tuple[Any, ...]]
    # (dim of the batch, dim of the length) -> dynamic_shapes.
    shapes: Callable[[Any, Any], Any]


ZOO: dict[str, Model] = {}
BATCH = {"min": 2, "max": 64}
LENGTH = {"min": 2, "max": 512}


def dims() -> tuple[Any, Any]:
    return Dim("batch", **BATCH), Dim("length", **LENGTH)


def model(inputs: Any, shapes: Any) -> Any:
    def keep(cls: Any) -> Any:
        ZOO[cls.__name__] = Model(cls, inputs, shapes)
        return cls

    return keep


def vectors(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randn(batch, 8),)


def sequences(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randn(batch, length, 8),)


def tokens(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randint(0, 20, (batch, length)),)


def images(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randn(batch, 3, 16, 16),)


def waves(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randn(batch, 2, length * 4),)


def by_batch(batch: Any, length: Any) -> Any:
    return ({0: batch},)


def by_both(batch: Any, length: Any) -> Any:
    return ({0: batch, 1: length},)


@model(vectors, by_batch)
class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.LayerNorm(16), nn.Linear(16, 4)
        )
        self.eval()

    def forward(self, x):
        return F.log_softmax(self.layers(x), dim=-1)


@model(vectors, by_batch)
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(8, 3)
        self.up = nn.Linear(3, 8)

    def forward(self, x):
        code = torch.tanh(self.down(x))
        rebuilt = self.up(code)
        return {"code": code, "loss": ((rebuilt - x) ** 2).mean()}


@model(images, by_batch)
class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 8, 3, stride=2)
        self.head = nn.Linear(8, 5)
        self.eval()

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = F.adaptive_avg_pool2d(F.relu(self.conv2(x)), 1)
        return self.head(torch.flatten(x, 1))


@model(images, by_batch)
class ConvolutionalInTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x))).mean((2, 3))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1)
        self.norm_a = nn.BatchNorm2d(width)
        self.b = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.norm_a(self.a(x)))))


@model(images, by_batch)
class ResidualNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.ModuleList([Residual(4) for _ in range(2)])
        self.head = nn.Linear(4, 3)
        self.eval()

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=(-2, -1)))


@model(images, by_batch)
class Separable(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = nn.Conv2d(3, 6, 1)
        self.depth = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.squeeze = nn.Linear(6, 6)
        self.project = nn.Conv2d(6, 3, 1)

    def forward(self, x):
        y = F.hardswish(self.depth(F.hardswish(self.expand(x))))
        gate = F.hardsigmoid(self.squeeze(y.mean((2, 3))))
        return x + self.project(y * gate[:, :, None, None])


@model(images, by_batch)
class Segmentation(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(3, 4, 3, padding=1)
        self.down2 = nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.relu(self.down1(x))
        b = F.relu(self.down2(F.max_pool2d(a, 2)))
        up = self.up(b)
        return self.last(torch.cat([a, up], 1)).argmax(1)


@model(images, by_batch)
class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 12, 3, padding=1)

    def forward(self, x):
        shuffled = F.pixel_shuffle(self.conv(x), 2)
        smooth = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.clamp(shuffled + smooth, -1, 1)


class PatchEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Conv2d(3, 8, 4, stride=4)

    def forward(self, x):
        return self.project(x).flatten(2).transpose(1, 2)


@model(images, by_batch)
class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = PatchEmbedding()
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.places = nn.Parameter(torch.randn(1, 17, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)
        self.eval()

    def forward(self, x):
        x = self.patches(x)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


@model(images, by_batch)
class DiffusionBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(1, 3)
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.time = nn.Linear(4, 3)
        self.register_buffer("rates", torch.arange(4.0))

    def forward(self, x):
        time = torch.sin(self.rates * 0.1)
        return x + self.conv(F.silu(self.norm(x))) + self.time(time)[None, :, None, None]


@model(images, by_batch)
class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 6, 4, stride=4)
        self.scores = nn.Conv2d(6, 2, 1)
        self.boxes = nn.Conv2d(6, 4, 1)

    def forward(self, x):
        features = F.relu(self.features(x))
        scores = self.scores(features).flatten(2).softmax(1)[:, 1]
        boxes = self.boxes(features).flatten(2).transpose(1, 2)
        best, places = scores.topk(3, dim=1)
        chosen = boxes.gather(1, places[:, :, None].expand(-1, -1, 4))
        return {"scores": best, "boxes": torch.sigmoid(chosen) * 16}


@model(waves, lambda batch, length: ({0: batch, 2: 4 * length},))
class Waveform(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(2, 4, 3, padding=1)
        self.b = nn.Conv1d(4, 4, 3, padding=2, dilation=2)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = torch.tanh(self.a(x)) * torch.sigmoid(self.a(x))
        y = F.leaky_relu(self.b(y), 0.1)
        return self.head(y.mean(-1))


@model(sequences, by_both)
class LongShortTermMemory(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        states, (hidden, cells) = self.lstm(x)
        return self.head(states), hidden, cells


@model(sequences, by_both)
class GatedRecurrentUnit(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 6, batch_first=True)

    def forward(self, x):
        states, last = self.gru(x)
        return states.max(dim=1).values, last[0]


@model(tokens, by_both)
class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8, padding_idx=0)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        mask = (x != 0).unsqueeze(-1).to(torch.float32)
        total = (self.words(x) * mask).sum(1)
        return self.head(total / mask.sum(1).clamp(min=1.0))


@model(tokens, by_both)
class TextConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.filters = nn.ModuleList([nn.Conv1d(8, 5, width, padding="same") for width in (1, 3)])
        self.head = nn.Linear(10, 2)

    def forward(self, x):
        x = self.words(x).transpose(1, 2)
        parts = [F.relu(conv(x)).amax(-1) for conv in self.filters]
        return self.head(torch.cat(parts, -1))


class CausalAttention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = [
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (q, k, v)
        ]
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class DecoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(8)
        self.attention = CausalAttention()
        self.norm2 = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@model(tokens, by_both)
class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.places = nn.Embedding(512, 8)
        self.blocks = nn.Sequential(DecoderBlock(), DecoderBlock())
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        positions = torch.arange(x.shape[1])
        x = self.words(x) + self.places(positions)
        return self.norm(self.blocks(x)) @ self.words.weight.t()


class RootMeanSquareNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


@model(sequences, by_both)
class RotaryAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RootMeanSquareNorm()
        self.query = nn.Linear(8, 8, bias=False)
        self.key = nn.Linear(8, 4, bias=False)
        self.value = nn.Linear(8, 4, bias=False)
        self.register_buffer("rates", 1.0 / 100 ** (torch.arange(0, 4, 2) / 4), persistent=False)

    def rotate(self, x, angles):
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * angles.cos() + turned * angles.sin()

    def forward(self, x):
        batch, length, _ = x.shape
        y = self.norm(x)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), self.rates)
        angles = torch.cat([angles, angles], -1)
        q = self.rotate(self.query(y).view(batch, length, 2, 4).transpose(1, 2), angles)
        k = self.rotate(self.key(y).view(batch, length, 1, 4).transpose(1, 2), angles)
        v = self.value(y).view(batch, length, 1, 4).transpose(1, 2)
        k, v = k.expand(-1, 2, -1, -1), v.expand(-1, 2, -1, -1)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + z.transpose(1, 2).reshape(batch, length, 8)


@model(sequences, by_both)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.eval()

    def forward(self, x):
        return self.encoder(x)


@model(sequences, by_both)
class CrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 3, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.eval()

    def forward(self, x):
        queries = self.queries.expand(x.shape[0], -1, -1)
        found, weights = self.attention(queries, x, x)
        return found, weights


@model(sequences, by_both)
class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 3)
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number)).sum(-1, keepdim=True)
            result = result + share * expert(x)
        return result


@model(sequences, by_both)
class StateSpace(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3, padding=2, groups=8)
        self.gate = nn.Linear(8, 8)
        self.decay = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        length = x.shape[1]
        y = self.conv(x.transpose(1, 2))[..., :length].transpose(1, 2)
        y = F.silu(y) * torch.sigmoid(self.gate(x))
        return torch.cumsum(y * torch.exp(-F.softplus(self.decay)), dim=1)


@model(sequences, by_both)
class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor([1.0, 2.0] * 4)
        self.query = nn.Linear(8, 1)

    def forward(self, x):
        weights = self.query(x).squeeze(-1).softmax(-1)
        pooled = torch.einsum("bl,bld->bd", weights, x * self.scale)
        return pooled, x.amax(1) - x.amin(1), x.std(1)


@model(
    lambda batch, length: ({"x": torch.randn(batch, 8), "more": [torch.randn(batch, 4)]},),
    lambda batch, length: ({"x": {0: batch}, "more": [{0: batch}]},),
)
class Records(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(8, 4)

    def forward(self, record):
        left, right = self.left(record["x"]), record["more"][0]
        return {"sum": left + right, "pair": (left * right, (left, right.sum()))}


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        return F.normalize(self.linear(x), dim=-1)


@model(
    lambda batch, length: (torch.randn(batch, 8), torch.randn(batch, 8)),
    lambda batch, length: ({0: batch}, {0: batch}),
)
class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = Tower()

    def forward(self, left, right):
        return self.tower(left) @ self.tower(right).t()


@model(vectors, by_batch)
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        self.calls.add_(1)
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


@model(
    lambda batch, length: (torch.randn(batch, 1, 8), torch.tensor([length % 16])),
    lambda batch, length: ({0: batch}, None),
)
class CachedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(16, 8))

    def forward(self, x, place):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(0, place, k.mean(0))
        weights = (q @ self.keys.t()).softmax(-1)
        return weights @ self.keys + v


@model(sequences, by_both)
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.a(x).sin(), lambda x: self.b(x).cos(), (x,))


@model(sequences, by_both)
class HalfFrozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        with torch.no_grad():
            y = torch.relu(self.body(x))
        return self.head(y)


@model(tokens, by_both)
class TaggerWithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 20)

    def forward(self, x):
        logits = self.head(self.words(x))
        return F.cross_entropy(logits.flatten(0, 1), x.flatten()), logits.argmax(-1)
