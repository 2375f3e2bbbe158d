"""Models for files of programs: PyTorch writes some for the tests to read, and reads theirs.

`torch` is the library that `PROGRAMS_LIBRARY` names. Weights depend on nothing but their place.
"""

import os
from importlib import import_module

torch = import_module(os.environ.get("PROGRAMS_LIBRARY", "rushlight"))
nn = torch.nn
F = torch.nn.functional


def row(*sizes):
    """Numbers from -1 to 1."""
    count = 1
    for size in sizes:
        count *= size
    return torch.linspace(-1, 1, count).reshape(*sizes)


def ids(*sizes, most=20):
    """Integers below `most`."""
    count = 1
    for size in sizes:
        count *= size
    return (torch.arange(count) * 7 % most).reshape(*sizes)


def filled(module):
    """The module with values that depend on nothing but their place."""
    with torch.no_grad():
        for place, tensor in enumerate(module.state_dict().values()):
            if tensor.is_floating_point():
                numbers = torch.arange(tensor.numel(), dtype=torch.float64)
                values = torch.sin(numbers * 1.7 + place) * 0.3
                if tensor.dim() <= 1:
                    values = values.abs() + 0.2
                tensor.copy_(values.reshape(tensor.shape).to(tensor.dtype))
    return module.eval()


class Case:
    """A model with inputs; `other` are inputs of other sizes, `dynamic` says which may differ."""

    def __init__(self, module, args, other=None, dynamic=None, kwargs=None):
        self.module = filled(module)
        self.args = args
        self.kwargs = kwargs or {}
        self.other = other
        self.dynamic = dynamic

    def dynamic_shapes(self):
        """The dims as PyTorch takes them: a dim of one name is one size."""
        if self.dynamic is None:
            return None
        dims = {}

        def made(places):
            if places is None:
                return None
            if places == "number":
                return torch.export.Dim.DYNAMIC
            if isinstance(places, (list, tuple)):
                return tuple(map(made, places))
            return {
                place: dims.setdefault(name, torch.export.Dim(name, min=2, max=64))
                for place, name in places.items()
            }

        return {key: made(places) for key, places in self.dynamic.items()}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 8), nn.GELU(), nn.Dropout(),
            nn.Linear(8, 3),
        )  # fmt: skip

    def forward(self, x):
        return F.log_softmax(self.net(x), dim=-1)


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 6, 3, stride=2, bias=False)
        self.fc = nn.Linear(6 * 9, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.fc(torch.flatten(x, 1))


class Block(nn.Module):
    def __init__(self, i, o, s=1):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, s, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.skip = nn.Conv2d(i, o, 1, s) if s != 1 or i != o else None

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + (x if self.skip is None else self.skip(x)))


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 5, 2, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(4, 4), Block(4, 6, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        return self.fc(self.pool(self.blocks(self.stem(x))).flatten(1))


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = nn.Conv2d(4, 8, 1)
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.squeeze = nn.Conv2d(8, 8, 1)
        self.project = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        y = F.hardswish(self.depth(F.relu6(self.expand(x))))
        gate = F.hardsigmoid(self.squeeze(F.adaptive_avg_pool2d(y, 1)))
        return x + self.project(y * gate)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, 2, 1)
        self.up = nn.ConvTranspose2d(4, 2, 2, 2)
        self.out = nn.Conv2d(3, 1, 1)

    def forward(self, x):
        y = self.up(F.leaky_relu(self.down(x), 0.1))
        z = F.interpolate(F.avg_pool2d(x, 2), scale_factor=2.0, mode="nearest")
        return torch.sigmoid(self.out(torch.cat([y, z], dim=1)))


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.group = nn.GroupNorm(2, 4)
        self.instance = nn.InstanceNorm1d(4, affine=True)
        self.layer = nn.LayerNorm(5)

    def forward(self, x):
        return self.layer(self.instance(self.group(x)))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.out = nn.Linear(10, 4)

    def forward(self, x):
        h, _ = self.lstm(self.emb(x))
        return self.out(h)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5, batch_first=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        _, h = self.gru(x)
        return self.out(h[-1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = [p.view(b, t, 2, 4).transpose(1, 2) for p in (q, k, v)]
        a = torch.softmax(q @ k.transpose(-2, -1) / 2.0, dim=-1)
        return x + self.out((a @ v).transpose(1, 2).reshape(b, t, c))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 8)
        self.places = nn.Embedding(16, 8)
        self.block = Attention()
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(approximate="tanh"), nn.Linear(16, 8))
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)), persistent=False)

    def forward(self, x):
        t = x.shape[1]
        h = self.tokens(x) + self.places(torch.arange(t))
        h = h + self.mlp(self.block(h))
        scores = h @ h.transpose(1, 2)
        scores = scores.masked_fill(self.mask[:t, :t] == 0, float("-inf"))
        h = torch.softmax(scores, -1) @ h
        return h @ self.tokens.weight.t()


class Sdpa(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, t, 8)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y, w = self.attention(x, x, x)
        return {"result": y, "weights": w}


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        values, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2, dim=-1)
        weights = torch.zeros(x.shape[0], 3).scatter(1, chosen, values)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        return (outputs * weights.unsqueeze(-1)).sum(1)


class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 6, 3, padding=1)
        self.register_buffer("anchors", torch.tensor([[0.1, 0.2], [0.3, 0.4]]))

    def forward(self, x):
        out = self.head(x).flatten(2).transpose(1, 2)
        centre, size = torch.sigmoid(out[..., :2]), torch.exp(out[..., 2:4])
        corners = torch.cat([centre - size / 2, centre + size / 2], dim=-1)
        scores, _ = out[..., 4:].sigmoid().max(dim=-1)
        best = scores.argsort(dim=-1, descending=True)[:, :3]
        picked = torch.gather(corners, 1, best.unsqueeze(-1).expand(-1, -1, 4))
        return picked.clamp(0, 1) + self.anchors.sum(), best


class Audio(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 4, 5, 2, 2), nn.ELU(), nn.Conv1d(4, 4, 3, dilation=2), nn.Softplus()
        )
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        h = self.conv(x.unsqueeze(1))
        return self.out(h.mean(-1)) + h.std(dim=-1)[:, :3]


class Branches(nn.Module):
    def forward(self, x, y):
        def more(a, b):
            return a.sin() + b

        def less(a, b):
            return a.cos() - b

        return torch.cond(x.sum() > 0, more, less, (x, y))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x, *, shift=None, times=2):
        y = self.second(torch.tanh(self.first(x))) * self.scale
        return (y if shift is None else y + shift) * times


class Indexing(nn.Module):
    def forward(self, x, rows):
        y = x[rows]
        z = torch.zeros_like(x)
        z[:, 0] = x[:, 1]
        w = x[:, None, ::2].expand(-1, 2, -1)
        return y, z, w, x.index_select(1, torch.tensor([1, 0])), x[..., -1]


class Sizes(nn.Module):
    def forward(self, x):
        n, m = x.shape
        y = torch.arange(n * 2 + 1, dtype=torch.float32)
        return x.reshape(-1), y, x.repeat(1, 2), torch.full((m, n), 0.5), F.pad(x, (1, 2))


class Reductions(nn.Module):
    def forward(self, x):
        return {
            "mean": x.mean(dim=(0, 1)), "var": x.var(dim=-1), "max": x.amax(1),
            "min": x.min(), "prod": x.prod(dim=-1), "norm": x.norm(dim=-1),
            "lse": x.logsumexp(-1), "all": (x > 0).all(dim=-1), "argmax": x.argmax(-1),
            "cumsum": x.cumsum(-1), "any": (x > 0.5).any(),
        }  # fmt: skip


class Pointwise(nn.Module):
    def forward(self, x, y):
        a = torch.where(x > y, x.abs().sqrt(), y.square())
        b = torch.maximum(x, y) / (y.abs() + 1) - torch.minimum(x, y) ** 2
        c = (x.round() + y.floor() + x.ceil() + y.sign()).to(torch.int64)
        d = torch.erf(x) + x.reciprocal().clamp(-3, 3) + (-y).exp().log1p() + torch.rsqrt(x * x + 1)
        return a, b, c % 3, d, (x > 0) & ~(y < 0), c // 2, torch.atan(x) + x.sinh()


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(3, 4, 2)

    def forward(self, x, y):
        a = torch.einsum("bi,bj->bij", x, y)
        b = torch.bmm(a, a.transpose(1, 2))
        c = torch.addmm(torch.ones(3), x, torch.eye(3))
        return b, c, self.bilinear(x, y), torch.baddbmm(b, b, b, beta=0.5)


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x):
        y = self.shuffle(self.conv(x))
        return F.interpolate(y, size=(7, 5), mode="bilinear", align_corners=False)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.SiLU(), nn.Flatten())
        self.mu = nn.Linear(20, 3)
        self.d = nn.Sequential(nn.Linear(3, 10), nn.Mish(), nn.Unflatten(1, (2, 5)))

    def forward(self, x):
        return self.d(self.mu(self.e(x)))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 4, padding_idx=0)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        mask = (x != 0).unsqueeze(-1).to(torch.float32)
        total = (self.emb(x) * mask).sum(1)
        return self.out(total / mask.sum(1).clamp(min=1.0))


class Nested(nn.Module):
    def forward(self, pair, named):
        a, b = pair
        x, (y, z) = named["x"], named["rest"]
        return [a + x, {"b": b * y}], (z.split([1, 2], dim=1), torch.stack([a, b]))


class NoGrad(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x.sin() * 2
        return x + y


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.across = nn.Linear(5, 5)
        self.along = nn.Linear(4, 4)

    def forward(self, x):
        y = x + self.across(self.norm(x).mT).mT
        return y + F.prelu(self.along(y), torch.tensor([0.2]))


def control_flow(name):
    """A function over functions, where the library has it."""
    if torch.__name__ == "torch":
        return getattr(import_module("torch._higher_order_ops"), name)
    homes = {"while_loop": "loops", "map": "mapping", "scan": "scans"}
    return getattr(import_module(f"rushlight.higher_order.{homes[name]}"), name)


class Doubling(nn.Module):
    def forward(self, x):
        def small(i, a):
            return i < 3

        def doubled(i, a):
            return i + 1, a * 2

        return control_flow("while_loop")(small, doubled, (torch.zeros((), dtype=torch.int64), x))


class Rows(nn.Module):
    def forward(self, x, y):
        return control_flow("map")(lambda row, y: row.sin() + y, x, y)


class Running(nn.Module):
    def forward(self, x):
        return control_flow("scan")(lambda state, row: (state + row, state * row), x[0] * 0, x)


class BySize(nn.Module):
    def forward(self, x):
        return torch.cond(x.shape[0] > 4, lambda a: a + 1, lambda a: a - 1, (x,))


class Number(nn.Module):
    def forward(self, x, n):
        return x + n, torch.ones(n * 2)


class FromData(nn.Module):
    def forward(self, x):
        places = x.nonzero()
        return places + 1, (x > 0).sum() + places.sum(), x[x > 0] * 2


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


BATCH = {0: "batch"}
BATCH_AND_LENGTH = {0: "batch", 1: "length"}


class Vectorized(torch.nn.Module):
    """Functions of samples, one within the other."""

    def forward(self, x, y):
        def inner(a, b):
            return (a * b).sum() + torch.vmap(lambda r: r * 2)(a).sum()

        return torch.vmap(inner)(x, y)


class Casting(torch.nn.Module):
    """Blocks of autocast, one within the other."""

    def __init__(self):
        super().__init__()
        self.linear = filled(torch.nn.Linear(3, 3))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x).relu()
            with torch.autocast("cpu", enabled=False):
                z = x @ y.float()
            w = z @ x
        return y.float() + 1, w


CASES = {
    "mlp": lambda: Case(Mlp(), (row(3, 6),), (row(5, 6),), {"x": BATCH}),
    "convnet": lambda: Case(Convnet(), (row(2, 1, 14, 14),), (row(5, 1, 14, 14),), {"x": BATCH}),
    "resnet": lambda: Case(Resnet(), (row(2, 3, 16, 16),), (row(3, 3, 16, 16),), {"x": BATCH}),
    "mobile": lambda: Case(Mobile(), (row(2, 4, 6, 6),), (row(4, 4, 6, 6),), {"x": BATCH}),
    "unet": lambda: Case(Unet(), (row(2, 1, 8, 8),), (row(3, 1, 8, 8),), {"x": BATCH}),
    "norms": lambda: Case(Norms(), (row(3, 4, 5),), (row(2, 4, 5),), {"x": BATCH}),
    "tagger": lambda: Case(Tagger(), (ids(2, 5),), (ids(3, 5),), {"x": BATCH}),
    "gru": lambda: Case(Gru(), (row(2, 3, 4),), (row(4, 3, 4),), {"x": BATCH}),
    "attention": lambda: Case(
        Attention(), (row(2, 5, 8),), (row(3, 7, 8),), {"x": BATCH_AND_LENGTH}
    ),
    "gpt": lambda: Case(
        Gpt(), (ids(2, 6),), (ids(3, 6),), {"x": BATCH}
    ),
    "sdpa": lambda: Case(Sdpa(), (row(2, 5, 8),), (row(3, 7, 8),), {"x": BATCH_AND_LENGTH}),
    "heads": lambda: Case(Heads(), (row(2, 5, 8),), (row(4, 5, 8),), {"x": BATCH}),
    "encoder": lambda: Case(encoder(), (row(2, 5, 8),), (row(3, 5, 8),), {"src": BATCH}),
    "experts": lambda: Case(Experts(), (row(4, 4),), (row(6, 4),), {"x": BATCH}),
    "boxes": lambda: Case(Boxes(), (row(2, 3, 4, 4),), (row(3, 3, 4, 4),), {"x": BATCH}),
    "audio": lambda: Case(Audio(), (row(2, 32),), (row(3, 32),), {"x": BATCH}),
    "branches": lambda: Case(
        Branches(), (row(3, 2) - 1, row(3, 2)), (row(5, 2) + 2, row(5, 2)), {"x": BATCH, "y": BATCH}
    ),
    "counter": lambda: Case(Counter(), (row(3),)),
    "tied": lambda: Case(Tied(), (row(3, 4),), kwargs={"shift": row(4), "times": 3}),
    "indexing": lambda: Case(Indexing(), (row(4, 4), torch.tensor([2, 0]))),
    "sizes": lambda: Case(
        Sizes(), (row(3, 4),), (row(2, 5),), {"x": {0: "rows", 1: "columns"}}
    ),
    "reductions": lambda: Case(Reductions(), (row(3, 4, 5),), (row(2, 4, 5),), {"x": BATCH}),
    "pointwise": lambda: Case(
        Pointwise(), (row(3, 4), row(3, 4).flip(0)), (row(5, 4), row(5, 4).flip(0)),
        {"x": BATCH, "y": BATCH},
    ),
    "products": lambda: Case(
        Products(), (row(2, 3), row(2, 4)), (row(5, 3), row(5, 4)), {"x": BATCH, "y": BATCH}
    ),
    "shuffle": lambda: Case(Shuffle(), (row(2, 2, 3, 3),), (row(4, 2, 3, 3),), {"x": BATCH}),
    "autoencoder": lambda: Case(Autoencoder(), (row(2, 2, 5),), (row(3, 2, 5),), {"x": BATCH}),
    "bag": lambda: Case(Bag(), (ids(2, 5),), (ids(3, 7),), {"x": BATCH_AND_LENGTH}),
    "nested": lambda: Case(
        Nested(),
        ((row(2, 3), row(2, 3)), {"x": row(2, 3), "rest": [row(2, 3), row(2, 3)]}),
    ),
    "no_grad": lambda: Case(NoGrad(), (row(3),), (row(5),), {"x": BATCH}),
    "doubling": lambda: Case(Doubling(), (row(3),), (row(5),), {"x": BATCH}),
    "rows": lambda: Case(Rows(), (row(3, 2), row(2)), (row(5, 2), row(2)), {"x": BATCH, "y": None}),
    "running": lambda: Case(Running(), (row(3, 2),), (row(5, 2),), {"x": BATCH}),
    "by_size": lambda: Case(BySize(), (row(6, 2),), (row(3, 2),), {"x": BATCH}),
    "number": lambda: Case(Number(), (row(3), 5), (row(3), 7), {"x": None, "n": "number"}),
    "from_data": lambda: Case(FromData(), (torch.tensor([1, 0, 2]),)),
    "vectorized": lambda: Case(Vectorized(), (row(4, 3), row(4, 3))),
    "casting": lambda: Case(Casting(), (row(3, 3),)),
    "mixer": lambda: Case(Mixer(), (row(2, 5, 4),), (row(3, 5, 4),), {"x": BATCH}),
}  # fmt: skip


def plain(value):
    """A result as numbers that JSON holds."""
    if isinstance(value, torch.Tensor):
        return value.detach().double().flatten().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def close(found, expected):
    """Whether two plain results agree to four digits."""
    if isinstance(expected, float):
        return abs(found - expected) <= 1e-4 * max(1.0, abs(expected))
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            [close(found[key], expected[key]) for key in expected]
        )
    return found == expected


def results(module, case):
    """What a module gives for the inputs of a case, and for those of other sizes."""
    found = [plain(module(*case.args, **case.kwargs))]
    if case.other is not None:
        found.append(plain(module(*case.other, **case.kwargs)))
    return found
