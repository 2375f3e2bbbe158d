"""Modules whose traces are compared with PyTorch's: see `programs_trace`."""

from __future__ import annotations

MODULES = {}


def module(builder):
    """Names a program that is a module: `builder(torch)` gives it and the inputs."""
    MODULES[builder.__name__] = builder
    return builder


@module
def linear(torch):
    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)


@module
def linear_without_bias(torch):
    return torch.nn.Linear(4, 3, bias=False), (torch.ones(2, 4),)


@module
def sequential(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), (torch.ones(2, 4),)


@module
def conv(torch):
    return torch.nn.Conv2d(2, 3, 3, padding=1), (torch.ones(1, 2, 5, 5),)


@module
def conv_same(torch):
    return torch.nn.Conv2d(2, 3, 3, padding="same"), (torch.ones(1, 2, 5, 5),)


@module
def conv_transpose(torch):
    return torch.nn.ConvTranspose2d(2, 3, 2, stride=2), (torch.ones(1, 2, 5, 5),)


@module
def batch_norm_eval(torch):
    return torch.nn.BatchNorm2d(2).eval(), (torch.ones(1, 2, 3, 3),)


@module
def batch_norm_train(torch):
    return torch.nn.BatchNorm1d(4), (torch.arange(8.0).view(2, 4),)


@module
def layer_norm(torch):
    return torch.nn.LayerNorm(4), (torch.ones(2, 4),)


@module
def group_norm(torch):
    return torch.nn.GroupNorm(2, 4), (torch.ones(2, 4, 3),)


@module
def embedding(torch):
    return torch.nn.Embedding(10, 4), (torch.tensor([1, 2, 3]),)


@module
def convnet(torch):
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 4, 3)
            self.conv2 = nn.Conv2d(4, 4, 3)
            self.fc1 = nn.Linear(16, 8)
            self.fc2 = nn.Linear(8, 2)

        def forward(self, x):
            x = F.relu(self.conv1(x))
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = torch.flatten(x, 1)
            x = F.relu(self.fc1(x))
            return F.log_softmax(self.fc2(x), dim=1)

    return Net(), (torch.ones(1, 1, 8, 8),)


@module
def nested(torch):
    nn = torch.nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.lin(x) * self.scale

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Inner()
            self.second = Inner()
            self.shift = nn.Parameter(torch.ones(4))

        def forward(self, x):
            y = self.first(x)
            return self.second(y + self.shift) - y

    return Outer(), (torch.ones(2, 4),)


@module
def called_twice(torch):
    nn = torch.nn

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return self.lin(torch.tanh(self.lin(x)))

    return Twice(), (torch.ones(2, 4),)


@module
def several_results(torch):
    nn = torch.nn

    class Split(nn.Module):
        def forward(self, x):
            return x[:, :2], x[:, 2:] * 2

    class Join(nn.Module):
        def __init__(self):
            super().__init__()
            self.split = Split()

        def forward(self, x):
            a, b = self.split(x)
            return a + b

    return Join(), (torch.ones(2, 4),)


@module
def several_arguments(torch):
    nn = torch.nn

    class Mix(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, a, b, flag=True, extra=None):
            return a * self.weight + b if flag else a

    class Use(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = Mix()

        def forward(self, x, y):
            z = x * 2
            return self.mix(z, y) + self.mix(y, b=z, flag=True)

    return Use(), (torch.ones(2, 4), torch.ones(2, 4))


@module
def dict_between(torch):
    nn = torch.nn

    class Reader(nn.Module):
        def forward(self, d):
            return {"sum": d["a"] + d["b"], "difference": d["a"] - d["b"]}

    class Use(nn.Module):
        def __init__(self):
            super().__init__()
            self.reader = Reader()

        def forward(self, x):
            made = self.reader({"a": x, "b": x * 2})
            return made["sum"] * made["difference"]

    return Use(), (torch.ones(3),)


@module
def shared_parameter(torch):
    nn = torch.nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Embedding(5, 4)
            self.decoder = nn.Linear(4, 5, bias=False)
            self.decoder.weight = self.encoder.weight

        def forward(self, x):
            return self.decoder(self.encoder(x))

    return Tied(), (torch.tensor([0, 1, 2]),)


@module
def buffers(torch):
    nn = torch.nn

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    return Counter(), (torch.ones(3),)


@module
def plain_attribute(torch):
    nn = torch.nn

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.tensor([2.0, 3.0])
            self.power = 2

        def forward(self, x):
            return x * self.factor**self.power

    return Scaled(), (torch.ones(2),)


@module
def hooks(torch):
    nn = torch.nn

    class Body(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return self.lin(x) + 1

    body = Body()
    body.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
    body.register_forward_hook(lambda mod, args, result: result - 3)
    body.lin.register_forward_pre_hook(lambda mod, args: (args[0].tanh(),))
    body.lin.register_forward_hook(lambda mod, args, result: result.relu())
    return body, (torch.ones(2, 4),)


@module
def module_list(torch):
    nn = torch.nn

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})

        def forward(self, x):
            for layer in self.layers:
                x = torch.relu(layer(x))
            return self.heads["a"](x), self.heads["b"](x)

    return Stack(), (torch.ones(2, 4),)


@module
def parameter_of_child(torch):
    nn = torch.nn

    class Reach(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return x @ self.lin.weight + self.lin.bias

    return Reach(), (torch.ones(2, 4),)


@module
def dropout_eval(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), (torch.ones(2, 4),)


@module
def dropout_train(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), (torch.ones(2, 4),)


@module
def pooling(torch):
    nn = torch.nn
    return (
        nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        (torch.ones(1, 2, 8, 8),),
    )


@module
def activations(torch):
    nn = torch.nn
    return (
        nn.Sequential(nn.ReLU(inplace=True), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Softmax(dim=-1)),
        (torch.ones(2, 4) - 1,),
    )


@module
def residual(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.downsample = None
            if stride != 1:
                self.downsample = nn.Sequential(
                    nn.Conv2d(width, width, 1, stride, bias=False), nn.BatchNorm2d(width)
                )

        def forward(self, x):
            identity = x
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            return self.relu(out)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
            )
            self.pool = nn.MaxPool2d(3, 2, 1)
            self.layer1 = nn.Sequential(Block(4), Block(4))
            self.layer2 = nn.Sequential(Block(4, 2), Block(4))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(4, 5)

        def forward(self, x):
            x = self.pool(self.stem(x))
            x = self.layer2(self.layer1(x))
            x = torch.flatten(self.avgpool(x), 1)
            return self.fc(x)

    return Net().eval(), (torch.ones(1, 3, 32, 32),)


@module
def residual_train(torch):
    net, _ = residual(torch)
    return net.train(), (torch.arange(2.0 * 3 * 32 * 32).view(2, 3, 32, 32) % 7,)


@module
def lstm(torch):
    return torch.nn.LSTM(4, 5, batch_first=True), (torch.ones(2, 3, 4),)


@module
def gru(torch):
    return torch.nn.GRU(4, 5), (torch.ones(3, 2, 4),)


@module
def rnn(torch):
    return torch.nn.RNN(4, 5), (torch.ones(3, 2, 4),)


@module
def lstm_cell(torch):
    return torch.nn.LSTMCell(4, 5), (torch.ones(2, 4),)


@module
def tagger(torch):
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 6)
            self.lstm = nn.LSTM(6, 4, bidirectional=True)
            self.head = nn.Linear(8, 3)

        def forward(self, words):
            vectors = self.embedding(words)
            states, _ = self.lstm(vectors.view(len(words), 1, -1))
            scores = self.head(states.view(len(words), -1))
            return torch.nn.functional.log_softmax(scores, dim=1)

    return Tagger(), (torch.tensor([1, 5, 2, 7]),)


@module
def attention(torch):
    nn = torch.nn

    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.out = nn.Linear(8, 8)

        def forward(self, x):
            batch, steps, width = x.shape
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            q, k, v = (t.view(batch, steps, 2, width // 2).transpose(1, 2) for t in (q, k, v))
            scores = q @ k.transpose(-2, -1) / (width // 2) ** 0.5
            mixed = scores.softmax(-1) @ v
            return self.out(mixed.transpose(1, 2).reshape(batch, steps, width))

    return SelfAttention(), (torch.ones(2, 3, 8),)


@module
def transformer_block(torch):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1 = nn.LayerNorm(8)
            self.ln2 = nn.LayerNorm(8)
            self.qkv = nn.Linear(8, 24)
            self.out = nn.Linear(8, 8)
            self.mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = self.qkv(self.ln1(x)).split(8, dim=2)
            k = k.view(b, t, 2, c // 2).transpose(1, 2)
            q = q.view(b, t, 2, c // 2).transpose(1, 2)
            v = v.view(b, t, 2, c // 2).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.mlp(self.ln2(x))

    return Block(), (torch.ones(2, 3, 8),)


@module
def multihead_attention(torch):
    nn = torch.nn

    class Use(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    return Use(), (torch.ones(3, 2, 8),)


@module
def upsample(torch):
    nn = torch.nn
    return (
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.Upsample(scale_factor=2, mode="bilinear")),
        (torch.ones(1, 1, 6, 6),),
    )


@module
def losses(torch):
    nn = torch.nn

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.mse = nn.MSELoss()
            self.ce = nn.CrossEntropyLoss()

        def forward(self, x, target, labels):
            y = self.lin(x)
            return self.mse(y, target) + self.ce(y, labels)

    return Step(), (torch.ones(2, 4), torch.ones(2, 4), torch.tensor([1, 2]))


@module
def traced_inside(torch):
    nn = torch.nn
    inner = torch.jit.trace(nn.Linear(4, 4), (torch.ones(2, 4),))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) + 1

    return Outer(), (torch.ones(2, 4),)
