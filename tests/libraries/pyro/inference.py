"""Pyro: variational inference, plates, guides made by hand and by itself, and predictions."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Predictive, Trace_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal, AutoDelta, AutoLowRankMultivariateNormal
from pyro.optim import Adam, ClippedAdam
from showing import show

torch.manual_seed(0)
x = torch.randn(30, 2)
y = x @ torch.tensor([1.0, -2.0]) + 0.3 + 0.1 * torch.randn(30)


def model(x, y=None):
    weight = pyro.sample("weight", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    bias = pyro.sample("bias", dist.Normal(0.0, 1.0))
    noise = pyro.sample("noise", dist.LogNormal(-1.0, 0.5))
    with pyro.plate("rows", len(x)):
        return pyro.sample("y", dist.Normal(x @ weight + bias, noise), obs=y)


for make in (AutoDiagonalNormal, AutoDelta, AutoLowRankMultivariateNormal):
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    guide = make(model)
    svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(x, y) for _ in range(10)]
    show(**{make.__name__: losses, f"{make.__name__}_median": guide.median(x, y)})


def by_hand(x, y=None):
    mean = pyro.param("mean", torch.zeros(2))
    scale = pyro.param("scale", torch.ones(2), constraint=dist.constraints.positive)
    pyro.sample("weight", dist.Normal(mean, scale).to_event(1))
    pyro.sample("bias", dist.Delta(pyro.param("centre", torch.tensor(0.0))))
    pyro.sample("noise", dist.Delta(torch.tensor(0.2)))


pyro.clear_param_store()
pyro.set_rng_seed(2)
svi = SVI(model, by_hand, ClippedAdam({"lr": 0.05}), Trace_ELBO(num_particles=2))
show(hand=[svi.step(x, y) for _ in range(8)], mean=pyro.param("mean"), scale=pyro.param("scale"))
pyro.set_rng_seed(3)
drawn = Predictive(model, guide=by_hand, num_samples=4)(x[:3])
show(**{name: value for name, value in sorted(drawn.items())})
