"""Models that are quantised through their graphs. See `programs`."""

from __future__ import annotations

import copy
import warnings

import torch
import torch.ao.quantization as aq
import torch.nn.functional as F
from programs import show
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, fuse_fx, prepare_fx, prepare_qat_fx

warnings.simplefilter("ignore")
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def run(name):
    torch.manual_seed(0)
    return show(PROGRAMS[name]())


def through(model, *shapes, mapping=None, **options):
    """The code of the watched and of the converted graph, and what the latter gives."""
    x = [torch.randn(*shape) for shape in shapes]
    mapping = mapping or aq.get_default_qconfig_mapping("x86")
    watched = prepare_fx(model.eval(), mapping, tuple(x), **options)
    for factor in (1.0, 0.5, 2.0):
        watched(*[each * factor for each in x])
    before = watched.code
    made = convert_fx(watched)
    return [before, made.code, repr(made), made(*x), sorted(made.state_dict())]


class Model(nn.Module):
    """Layers and a function `forward_with(self, *inputs)`."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.with_layers = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.with_layers(self, x)


def row(*layers):
    return Model(lambda self, x: self.net(x), net=nn.Sequential(*layers))


class Pair(Model):
    def forward(self, x, y):
        return self.with_layers(self, x, y)


@program
def graph_of_linear_layers():
    return through(row(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (4, 6))


@program
def graph_of_a_residual_block():
    def forward(self, x):
        a = F.relu(self.bn(self.conv(x)))
        c = F.relu(a + self.conv2(a))
        c = torch.flatten(self.pool(c), 1)
        return self.sig(self.fc(self.drop(c))) * 2

    model = Model(
        forward, conv=nn.Conv2d(3, 4, 3, padding=1), bn=nn.BatchNorm2d(4),
        conv2=nn.Conv2d(4, 4, 1), pool=nn.MaxPool2d(2), fc=nn.Linear(64, 5), sig=nn.Sigmoid(),
        drop=nn.Dropout(),
    )  # fmt: skip
    return through(model, (2, 3, 8, 8))


@program
def graph_of_sums():
    def forward(self, x, y):
        z = self.norm(self.fc(x)) + y
        z = z.reshape(2, 2, -1) + 1.0
        z = torch.cat([z, z], 1)
        return {"o": z.mean(1), "k": x}

    return through(Pair(forward, fc=nn.Linear(4, 4), norm=nn.LayerNorm(4)), (2, 4), (2, 4))


@program
def graph_of_products():
    def forward(self, x, y):
        a, b = self.one(x), self.other(y)
        return torch.matmul(a * b, (a + b).transpose(0, 1)) * 0.5

    return through(Pair(forward, one=nn.Linear(4, 4), other=nn.Linear(4, 4)), (3, 4), (3, 4))


@program
def graph_of_activations():
    def forward(self, x):
        x = self.elu(self.a(x))
        x = F.hardswish(self.b(x))
        x = F.leaky_relu(self.a(x), 0.1)
        x = self.hard(self.b(x))
        return torch.tanh(self.six(self.a(x)))

    layers = {"a": nn.Linear(4, 4), "b": nn.Linear(4, 4), "elu": nn.ELU(), "six": nn.ReLU6()}
    return through(Model(forward, hard=nn.Hardsigmoid(), **layers), (5, 4))


@program
def graph_of_pools():
    def forward(self, x):
        x = self.conv(x)
        x = F.avg_pool2d(F.relu(x), 2)
        x = F.max_pool2d(x, 2)
        return self.pool(x).squeeze(-1).squeeze(-1)

    model = Model(forward, conv=nn.Conv2d(3, 4, 3, padding=1), pool=nn.AdaptiveAvgPool2d(1))
    return through(model, (2, 3, 8, 8))


@program
def graph_with_parts_left_as_floats():
    def forward(self, x):
        return self.last(F.softmax(self.middle(self.first(x)), -1))

    layers = {name: nn.Linear(4, 4) for name in ("first", "middle", "last")}
    mapping = aq.get_default_qconfig_mapping("x86").set_module_name("middle", None)
    return through(Model(forward, **layers), (5, 4), mapping=mapping)


@program
def graph_by_kinds():
    model = row(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    mapping = aq.QConfigMapping().set_object_type(nn.Linear, aq.default_qconfig)
    return through(model, (2, 3, 6, 6), mapping=mapping)


@program
def graph_by_patterns_of_names():
    model = row(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 2))
    mapping = aq.QConfigMapping().set_module_name_regex("net.1.*", aq.default_qconfig)
    return through(model, (3, 4), mapping=mapping)


@program
def graph_with_dynamic_layers():
    model = row(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    mapping = aq.QConfigMapping().set_global(aq.default_dynamic_qconfig)
    return through(model, (3, 4), mapping=mapping)


@program
def graph_of_transposed_convolutions():
    model = row(
        nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1),
        nn.BatchNorm2d(4),
        nn.Conv2d(4, 2, 1),
    )
    return through(model, (2, 3, 4, 4))


@program
def graph_of_norms():
    model = row(
        nn.Conv2d(3, 4, 1), nn.MaxPool2d(2), nn.BatchNorm2d(4), nn.ReLU(), nn.InstanceNorm2d(4)
    )
    return through(model, (2, 3, 4, 4))


@program
def graph_of_functionals():
    def forward(self, x):
        return self.sum.add_relu(self.fc(x), self.sum.mul(x, x))

    functional = torch.ao.nn.quantized.FloatFunctional()
    return through(Model(forward, fc=nn.Linear(4, 4), sum=functional), (3, 4))


@program
def fused_graphs():
    model = row(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4),
        nn.BatchNorm1d(4), nn.Linear(4, 4), nn.ReLU(),
    )  # fmt: skip
    fused = fuse_fx(model.eval())
    return [fused.code, repr(fused), fused(torch.randn(2, 3, 6, 6))]


def graph_trained(model, shape, steps=5):
    x = torch.randn(*shape)
    model = prepare_qat_fx(model.train(), aq.get_default_qat_qconfig_mapping("x86"), (x,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    code = model.code
    made = convert_fx(model.eval())
    return [losses, code, made.code, repr(made), made(x)]


@program
def graph_trained_with_linear_layers():
    return graph_trained(row(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (8, 6))


@program
def graph_trained_with_convolutions():
    model = row(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip
    return graph_trained(model, (4, 3, 8, 8))


@program
def graphs_are_copied():
    model = row(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    x = torch.randn(4, 6)
    watched = prepare_fx(model, aq.get_default_qconfig_mapping("x86"), (x,))
    watched(x)
    other = copy.deepcopy(watched)
    made = convert_fx(watched)
    return [
        torch.equal(made(x), convert_fx(other)(x)),
        torch.equal(copy.deepcopy(made)(x), made(x)),
    ]
