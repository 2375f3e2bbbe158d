"""Laplace approximations of a classifier: evidence and predictions."""

import torch
from laplace import Laplace
from showing import show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
points = torch.randn(60, 2)
classes = (points[:, 0] * points[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), 0.05)
loader = DataLoader(TensorDataset(points, classes), batch_size=20)
for _ in range(20):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
for weights in ("last_layer", "all"):
    for structure in ("full", "kron", "diag"):
        posterior = Laplace(
            model, "classification", subset_of_weights=weights, hessian_structure=structure
        )
        posterior.fit(loader)
        posterior.optimize_prior_precision(n_steps=10)
        evidence = posterior.log_marginal_likelihood()
        predictions = posterior(points[:3], link_approx="probit")
        show(**{f"{weights}_{structure}": [evidence, predictions]})
