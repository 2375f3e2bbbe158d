"""Gaussian processes: exact regression trained by its marginal likelihood, and predictions."""

import gpytorch
import torch
from showing import show


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean, self.kernel = gpytorch.means.ConstantMean(), kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


K = gpytorch.kernels
KERNELS = {
    "rbf": lambda: K.ScaleKernel(K.RBFKernel()),
    "matern": lambda: K.ScaleKernel(K.MaternKernel(nu=1.5)),
    "sum": lambda: K.ScaleKernel(K.PeriodicKernel()) + K.LinearKernel(),
}
torch.manual_seed(0)
x = torch.linspace(0, 1, 25)
y = torch.sin(x * 6) + torch.randn(25) * 0.1
for name, make in KERNELS.items():
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, y, likelihood, make())
    model.train(), likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = -marginal(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    show(**{f"{name}_losses": losses})
    model.eval(), likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        guess = likelihood(model(torch.linspace(0, 1.2, 7)))
        low, high = guess.confidence_region()
    show(**{f"{name}_mean": guess.mean, f"{name}_low": low, f"{name}_high": high})
