"""BoTorch: fitted processes, acquisition functions and a step of Bayesian optimisation."""

import warnings

import torch
from botorch.acquisition import (
    ExpectedImprovement,
    LogExpectedImprovement,
    UpperConfidenceBound,
    qExpectedImprovement,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from showing import show

warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.rand(10, 2, dtype=torch.float64)
y = (1 - (x - 0.4).norm(dim=-1, keepdim=True)).sin()
model = SingleTaskGP(x, y, outcome_transform=Standardize(1))
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
points = torch.rand(4, 1, 2, dtype=torch.float64)
posterior = model.posterior(points.squeeze(1))
show(mean=posterior.mean, variance=posterior.variance)
for name, acquire in {"improve": ExpectedImprovement(model, y.max()), "log": LogExpectedImprovement(model, y.max()),
                      "bound": UpperConfidenceBound(model, 0.2)}.items():  # fmt: skip
    show(**{name: acquire(points)})
sampler = SobolQMCNormalSampler(torch.Size([32]), seed=1)
many = qExpectedImprovement(model, y.max(), sampler)
show(many=many(torch.rand(3, 2, 2, dtype=torch.float64)))
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
best, value = optimize_acqf(
    UpperConfidenceBound(model, 0.2), bounds, q=1, num_restarts=2, raw_samples=16
)
show(best=best, value=value)
