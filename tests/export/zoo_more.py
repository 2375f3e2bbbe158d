"""Models as people build them: detection, text with caches, audio, experts, graphs, flows."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.symbolic.checks import check
from tests.export.zoo import Model, by_batch, by_both, images, sequences, tokens

MORE: dict[str, Model] = {}


def model(inputs: Any, shapes: Any) -> Any:
    def keep(cls: Any) -> Any:
        MORE[cls.__name__] = Model(cls, inputs, shapes)
        return cls

    return keep


def audio(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randn(batch, length * 16),)


def by_audio(batch: Any, length: Any) -> Any:
    return ({0: batch, 1: 16 * length},)


def planes(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randn(batch, 3, 4 * length, 16),)


def by_planes(batch: Any, length: Any) -> Any:
    return ({0: batch, 2: 4 * length},)


def heads_of(x, count):
    return x.view(x.shape[0], x.shape[1], count, x.shape[2] // count).transpose(1, 2)


# -- images ---------------------------------------------------------------------------------------


@model(images, by_batch)
class ThresholdDetector(nn.Module):
    """Keeps as many boxes as score high enough, which only data tells."""

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 8, 4, stride=4)
        self.scores = nn.Conv2d(8, 1, 1)
        self.boxes = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        features = F.relu(self.features(x))
        scores = torch.sigmoid(self.scores(features)).flatten()
        boxes = self.boxes(features).permute(0, 2, 3, 1).reshape(-1, 4)
        kept = (scores > 0.5).nonzero().squeeze(1)
        check(kept.shape[0] <= scores.shape[0])
        return scores[kept], boxes[kept].sigmoid() * 16, kept


@model(images, by_batch)
class Suppression(nn.Module):
    """The best boxes, less those that overlap a better one."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 5, 4, stride=4)

    def forward(self, x):
        found = self.head(x).flatten(2).transpose(1, 2)
        scores, order = found[..., 0].topk(5, dim=1)
        corners = found[..., 1:].gather(1, order[..., None].expand(-1, -1, 4)).sigmoid()
        low, size = corners[..., :2], corners[..., 2:]
        high = low + size
        inner = torch.minimum(high[:, :, None], high[:, None]) - torch.maximum(
            low[:, :, None], low[:, None]
        )
        overlap = inner.clamp(min=0).prod(-1)
        area = size.prod(-1)
        ratio = overlap / (area[:, :, None] + area[:, None] - overlap)
        worse = torch.triu(ratio, diagonal=1).amax(1) > 0.5
        return scores.masked_fill(worse, -1.0), corners


@model(planes, by_planes)
class ResizingUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, padding=1)])
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ModuleList([nn.ConvTranspose2d(8, 8, 2, 2), nn.ConvTranspose2d(6, 6, 2, 2)])
        self.join = nn.ModuleList([nn.Conv2d(16, 6, 1), nn.Conv2d(12, 2, 1)])

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = F.silu(layer(x))
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = F.silu(self.middle(x))
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return x


@model(images, by_batch)
class ModernConvolution(nn.Module):
    """Depthwise, normalised over channels, scaled residual."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.LayerNorm(8)
        self.wide, self.narrow = nn.Linear(8, 32), nn.Linear(32, 8)
        self.scale = nn.Parameter(torch.full((8,), 0.1))

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.wide(y))) * self.scale
        return (x + y.permute(0, 3, 1, 2)).mean((2, 3))


@model(images, by_batch)
class SqueezeExcitation(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.squeeze, self.excite = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.eval()

    def forward(self, x):
        x = self.stem(x)
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return (x * gate).flatten(2).amax(-1)


@model(
    lambda batch, length: (torch.randn(batch, 3, 8, 8), torch.arange(batch)),
    lambda batch, length: ({0: batch}, {0: batch}),
)
class Denoiser(nn.Module):
    """Knows the step it is at by sines."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.time = nn.Linear(16, 16)

    def forward(self, x, step):
        rates = torch.exp(torch.arange(8) * (-math.log(10000.0) / 8))
        angles = step[:, None].float() * rates[None]
        scale, shift = self.time(torch.cat([angles.sin(), angles.cos()], 1)).chunk(2, 1)
        y = self.norm(self.first(x)) * (1 + scale[:, :, None, None]) + shift[:, :, None, None]
        return x - self.last(F.silu(y))


# -- text -----------------------------------------------------------------------------------------


@model(
    lambda batch, length: (
        torch.randint(0, 20, (batch, 1)),
        torch.randn(batch, 2, length, 8),
        torch.randn(batch, 2, length, 8),
    ),
    lambda batch, length: ({0: batch}, {0: batch, 2: length}, {0: batch, 2: length}),
)
class DecodingStep(nn.Module):
    """One token more: caches come in and go out longer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 20)

    def forward(self, token, keys, values):
        x = self.embedding(token)
        q, k, v = [heads_of(part, 2) for part in self.qkv(x).chunk(3, -1)]
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        weights = (q @ keys.transpose(-1, -2) / math.sqrt(8)).softmax(-1)
        mixed = (weights @ values).transpose(1, 2).reshape(x.shape)
        return self.out(mixed)[:, -1].log_softmax(-1), keys, values


@model(sequences, by_both)
class LinearBiases(nn.Module):
    """Attention whose scores fall with the distance; keys and values are shared by heads."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(8, 16), nn.Linear(8, 8)

    def forward(self, x):
        q = heads_of(self.q(x), 4)
        k, v = [heads_of(part, 1).expand(-1, 4, -1, -1) for part in self.kv(x).chunk(2, -1)]
        places = torch.arange(x.shape[1])
        slopes = 2.0 ** -torch.arange(1, 5).float()
        bias = -(places[:, None] - places[None]).abs() * slopes[:, None, None]
        scores = q @ k.transpose(-1, -2) * 0.5 + bias
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


@model(sequences, by_both)
class RelativeBuckets(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(8, 2)
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        apart = places[None] - places[:, None]
        near = apart.abs().clamp(max=3)
        bias = self.bias(near + 4 * (apart > 0).long()).permute(2, 0, 1)
        q, k, v = [heads_of(part, 2) for part in self.qkv(x).chunk(3, -1)]
        return ((q @ k.transpose(-1, -2) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)


@model(
    lambda batch, length: (
        torch.randint(0, 20, (batch, length)),
        torch.randint(1, length + 1, (batch,)),
    ),
    lambda batch, length: ({0: batch, 1: length}, {0: batch}),
)
class PaddedEncoder(nn.Module):
    """Texts of several lengths: padding is masked and left out of the mean."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.qkv, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)

    def forward(self, ids, lengths):
        there = torch.arange(ids.shape[1])[None] < lengths[:, None]
        x = self.embedding(ids.masked_fill(~there, 0))
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = (q @ k.transpose(1, 2)).masked_fill(~there[:, None], float("-inf"))
        x = self.norm(x + scores.softmax(-1) @ v) * there[..., None]
        return x.sum(1) / lengths[:, None]


@model(tokens, by_both)
class CharacterConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.layers = nn.ModuleList(
            [nn.Conv1d(6, 12, 3, padding=2**n, dilation=2**n) for n in (0, 1)]
        )

    def forward(self, ids):
        x = self.embedding(ids).transpose(1, 2)
        for layer in self.layers:
            x = x + F.glu(layer(x), 1)
        return F.normalize(x.mean(-1), dim=-1)


# -- audio ----------------------------------------------------------------------------------------


@model(audio, by_audio)
class Spectrogram(nn.Module):
    def __init__(self):
        super().__init__()
        steps = torch.arange(16)
        angles = 2 * math.pi * steps[:, None] * torch.arange(9)[None] / 16
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)
        self.register_buffer("window", torch.hann_window(16))
        self.bands = nn.Linear(9, 4, bias=False)

    def forward(self, x):
        frames = F.pad(x, (8, 8)).unfold(1, 16, 8) * self.window
        power = (frames @ self.cosines).square() + (frames @ self.sines).square()
        return self.bands(power).abs().clamp(min=1e-5).log()


@model(audio, by_audio)
class GatedDilations(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 4, 1)
        self.stack = nn.ModuleList([nn.Conv1d(4, 8, 2, dilation=2**n) for n in range(3)])
        self.skip = nn.ModuleList([nn.Conv1d(4, 6, 1) for _ in range(3)])

    def forward(self, x):
        x, total = self.first(x[:, None]), 0
        for at, (layer, skip) in enumerate(zip(self.stack, self.skip)):
            a, b = layer(F.pad(x, (2**at, 0))).chunk(2, 1)
            gated = a.tanh() * b.sigmoid()
            total = total + skip(gated)
            x = x + gated
        return F.relu(total).mean(-1)


@model(sequences, by_both)
class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ModuleList(
            [nn.ConvTranspose1d(8, 6, 4, 2, 1), nn.ConvTranspose1d(6, 4, 4, 2, 1)]
        )
        self.last = nn.Conv1d(4, 1, 3, padding=1)

    def forward(self, x):
        x = x.transpose(1, 2)
        for layer in self.up:
            x = layer(F.leaky_relu(x, 0.1))
        return self.last(x).tanh().squeeze(1)


@model(sequences, by_both)
class ConvolutionAndAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.point, self.depth = nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 3, padding=1, groups=8)
        self.norms = nn.ModuleList([nn.LayerNorm(8) for _ in range(2)])
        self.batch = nn.BatchNorm1d(8)
        self.eval()

    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.point(self.norms[1](x).transpose(1, 2)), 1)
        return x + F.silu(self.batch(self.depth(y))).transpose(1, 2)


# -- recurrent ------------------------------------------------------------------------------------


@model(sequences, by_both)
class PlainRecurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(8, 5, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        states, last = self.rnn(x)
        return states.mean(1), last


@model(
    lambda batch, length: (torch.randn(batch, length, 8), torch.randint(0, 9, (batch, 5))),
    lambda batch, length: ({0: batch, 1: length}, {0: batch}),
)
class Translator(nn.Module):
    """A recurrent encoder, a decoder that looks at all of it."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(8, 6, batch_first=True)
        self.embedding, self.cell = nn.Embedding(9, 6), nn.LSTMCell(12, 6)
        self.out = nn.Linear(6, 9)

    def forward(self, source, target):
        states, (hidden, cell) = self.encoder(source)
        hidden, cell = hidden[0], cell[0]
        found = []
        for at in range(target.shape[1]):
            weights = (states @ hidden[:, :, None]).softmax(1)
            given = torch.cat([self.embedding(target[:, at]), (weights * states).sum(1)], 1)
            hidden, cell = self.cell(given, (hidden, cell))
            found.append(self.out(hidden))
        return torch.stack(found, 1)


# -- others ---------------------------------------------------------------------------------------


@model(sequences, by_both)
class TopTwoExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.first = nn.Parameter(torch.randn(4, 8, 16) * 0.1)
        self.second = nn.Parameter(torch.randn(4, 16, 8) * 0.1)

    def forward(self, x):
        flat = x.reshape(-1, 8)
        best, which = self.router(flat).softmax(-1).topk(2, dim=-1)
        gates = torch.zeros(flat.shape[0], 4).scatter(1, which, best / best.sum(-1, keepdim=True))
        hidden = F.gelu(torch.einsum("td,edh->teh", flat, self.first))
        made = torch.einsum("teh,ehd->ted", hidden, self.second)
        return (made * gates[..., None]).sum(1).view(x.shape), gates.mean(0)


@model(
    lambda batch, length: (torch.randn(batch, 8), torch.randint(0, batch, (2, length))),
    lambda batch, length: ({0: batch}, {1: length}),
)
class GraphNetwork(nn.Module):
    """Nodes hear of their neighbours along edges; both numbers vary."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(8, 8), nn.Linear(16, 8)

    def forward(self, nodes, edges):
        heard = torch.zeros_like(nodes).index_add(0, edges[1], self.message(nodes)[edges[0]])
        return F.relu(self.update(torch.cat([nodes, heard], 1)))


@model(lambda batch, length: (torch.randint(0, 10, (batch, 3)),), by_batch)
class Factorisation(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(10, 4) for _ in range(3)])
        self.deep = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, ids):
        parts = torch.stack([table(ids[:, at]) for at, table in enumerate(self.tables)], 1)
        pairs = 0.5 * (parts.sum(1).square() - parts.square().sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(pairs + self.deep(parts.flatten(1)))


@model(lambda batch, length: (torch.randn(batch, 8),), by_batch)
class Coupling(nn.Module):
    """A flow: values, and how much volume changes."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.Tanh()) for _ in range(2)])

    def forward(self, x):
        volume = 0
        for net in self.nets:
            kept, changed = x.chunk(2, 1)
            scale, shift = net(kept).chunk(2, 1)
            x = torch.cat([changed * scale.exp() + shift, kept], 1)
            volume = volume + scale.sum(1)
        return x, volume - 0.5 * x.square().sum(1)


@model(
    lambda batch, length: (torch.randn(batch, 3, 8, 8), torch.randint(0, 20, (batch, length))),
    lambda batch, length: ({0: batch}, {0: batch, 1: length}),
)
class ImageAndText(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Conv2d(3, 6, 4, 4), nn.Embedding(20, 6)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, image, ids):
        left = F.normalize(self.image(image).mean((2, 3)), dim=-1)
        right = F.normalize(self.text(ids).mean(1), dim=-1)
        return left @ right.t() * self.scale.exp()
