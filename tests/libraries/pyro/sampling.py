"""Pyro: NUTS and HMC, enumerated mixtures, and neural densities."""

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions.transforms import affine_coupling, planar, spline
from pyro.infer import MCMC, NUTS, SVI, TraceEnum_ELBO, config_enumerate
from showing import show

data = torch.tensor([0.1, 0.4, 3.9, 4.2, 4.4, -0.2])


def normal(data):
    mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal(mean, 1.0), obs=data)


pyro.set_rng_seed(0)
chain = MCMC(
    NUTS(normal, step_size=0.2, adapt_step_size=False),
    num_samples=12,
    warmup_steps=5,
    disable_progbar=True,
)
chain.run(data)
show(nuts=chain.get_samples()["mean"])


@config_enumerate
def mixture(data):
    shares = pyro.param("shares", torch.tensor([0.5, 0.5]), constraint=dist.constraints.simplex)
    means = pyro.param("means", torch.tensor([0.0, 3.0]))
    with pyro.plate("data", len(data)):
        kind = pyro.sample("kind", dist.Categorical(shares))
        pyro.sample("x", dist.Normal(means[kind], 1.0), obs=data)


pyro.clear_param_store()
svi = SVI(
    mixture, lambda data: None, pyro.optim.Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1)
)
show(losses=[svi.step(data) for _ in range(6)], means=pyro.param("means"))

for make, size in ((planar, 3), (spline, 3), (affine_coupling, 4)):
    pyro.set_rng_seed(4)
    transform = make(size)
    flow = dist.TransformedDistribution(
        dist.Normal(torch.zeros(size), 1.0).to_event(1), [transform]
    )
    drawn = flow.rsample((3,))
    drawn.sum().backward()
    show(
        **{
            make.__name__: drawn,
            f"{make.__name__}_density": flow.log_prob(
                drawn.detach() if make is not planar else drawn
            ),
        }
    )
