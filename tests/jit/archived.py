"""Models for archives: PyTorch writes them for the tests to read, and reads what they write.

`torch` is Rushlight or PyTorch, whichever the importing program has under that name.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, i, o, s=1):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, s, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.downsample = (
            nn.Sequential(nn.Conv2d(i, o, 1, s, bias=False), nn.BatchNorm2d(o))
            if s != 1 or i != o
            else None
        )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(4, 4), Block(4, 4))
        self.layer2 = nn.Sequential(Block(4, 6, 2), Block(6, 6))
        self.layer3 = nn.Sequential(Block(6, 8, 2), Block(8, 8))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 12, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 5)

    def forward(self, x):
        h, _ = self.lstm(self.emb(x))
        return F.log_softmax(self.out(h), dim=-1)


class Loops(nn.Module):
    names: list[str]

    def __init__(self):
        super().__init__()
        self.fc = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.names = ["a", "b", "c"]
        self.scale: float = 0.5
        self.d: dict[str, int] = {"a": 1, "b": 2, "c": 3}

    def forward(self, x, n: int) -> tuple[dict[str, torch.Tensor], list[int]]:
        outs: dict[str, torch.Tensor] = {}
        sizes: list[int] = []
        for i, m in enumerate(self.fc):
            name = self.names[i]
            x = m(x) * self.scale
            outs[name] = x
        i = 0
        while i < n:
            x = x + float(i)
            if bool(x.sum() > 100):
                break
            i += 1
            sizes.append(self.d["b"] + i)
        outs["last"] = x
        return outs, sizes


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, padding=1)
        self.h = nn.Linear(4, 4)

    def forward(
        self, images: list[torch.Tensor], targets: list[dict[str, torch.Tensor]] | None = None
    ) -> tuple[torch.Tensor | None, list[dict[str, torch.Tensor]]]:
        loss: torch.Tensor | None = None
        res: list[dict[str, torch.Tensor]] = []
        for i, im in enumerate(images):
            f = self.c(im.unsqueeze(0)).mean(dim=(2, 3))
            b = self.h(f)[0]
            if targets is not None:
                t = targets[i]["boxes"]
                l = (b - t).abs().sum()
                loss = l if loss is None else loss + l
            else:
                res.append({"boxes": b, "scores": torch.sigmoid(b.sum()).unsqueeze(0)})
        return loss, res


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 24)
        self.o = nn.Linear(8, 8)
        self.ln = nn.LayerNorm(8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.q(self.ln(x)).chunk(3, dim=-1)
        q = q.view(B, T, 2, 4).transpose(1, 2)
        k = k.view(B, T, 2, 4).transpose(1, 2)
        v = v.view(B, T, 2, 4).transpose(1, 2)
        a = torch.softmax(q @ k.transpose(-2, -1) / 2.0, dim=-1)
        y = (a @ v).transpose(1, 2).reshape(B, T, C)
        return x + self.drop(self.o(y))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(1))

    def forward(self, x):
        self.n += 1
        return x * self.n


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.GRU(4, 6, 2)
        self.cell = nn.GRUCell(6, 6)

    def forward(self, x):
        o, h = self.g(x)
        return self.cell(o[-1], h[0])


def function(x, y):
    z = torch.zeros_like(x)
    z[:, 0] = y
    return (
        torch.where(z > 0, x, z).cumsum(1),
        torch.einsum("ij,kj->ik", x, x),
        x.std(dim=1, keepdim=True),
    )


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.GELU(), nn.Flatten())
        self.mu = nn.Linear(20, 3)
        self.d = nn.Sequential(nn.Linear(3, 10), nn.SiLU(), nn.Unflatten(1, (2, 5)))

    def forward(self, x):
        return self.d(self.mu(self.e(x)))


def row(*sizes):
    """Numbers from -1 to 1."""
    count = 1
    for size in sizes:
        count *= size
    return torch.linspace(-1, 1, count).view(*sizes)


def filled(module):
    """The module with parameters and buffers that depend on nothing but their place."""
    with torch.no_grad():
        for place, tensor in enumerate(module.state_dict().values()):
            if tensor.is_floating_point():
                numbers = torch.arange(tensor.numel(), dtype=torch.float64)
                values = torch.sin(numbers * 1.7 + place).abs() * 0.5 + 0.05
                tensor.copy_(values.view(tensor.shape).to(tensor.dtype))
    return module


IDS = [[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]]


# Name -> (what it is, example inputs).
MODELS = {
    "resnet": lambda: (filled(ResNet()).eval(), (row(1, 3, 32, 32),)),
    "tagger": lambda: (filled(Tagger()).eval(), (torch.tensor(IDS),)),
    "loops": lambda: (filled(Loops()), (row(2, 4), 5)),
    "detector": lambda: (filled(Detector()), ([torch.ones(3, 4, 4), torch.zeros(3, 5, 5)],)),
    "attention": lambda: (filled(Attention()).eval(), (row(2, 5, 8),)),
    "encoder": lambda: (
        filled(
            nn.TransformerEncoder(
                nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
                2,
                enable_nested_tensor=False,
            )
        ).eval(),
        (row(2, 5, 8),),
    ),
    "counter": lambda: (Counter(), (torch.ones(2),)),
    "gru": lambda: (filled(Gru()).eval(), (row(3, 2, 4),)),
    "function": lambda: (function, (row(3, 4), torch.tensor([1.0, -1.0, 2.0]))),
    "autoencoder": lambda: (filled(Autoencoder()), (row(2, 2, 5),)),
}
# How each is compiled.
ARCHIVES = [
    *[(name, "trace") for name in MODELS if name not in ("loops", "detector")],
    *[(name, "script") for name in MODELS if name != "encoder"],
]


def compiled(name, how):
    """The model as a graph, and its example inputs."""
    model, inputs = MODELS[name]()
    if how == "script":
        return torch.jit.script(model), inputs
    return torch.jit.trace(model, inputs, check_trace=False), inputs


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
