"""A variational process for classes, in mini-batches."""

import gpytorch
import torch
from showing import show


class Approximate(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        posterior = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        strategy = gpytorch.variational.VariationalStrategy(self, points, posterior)
        super().__init__(strategy)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


torch.manual_seed(0)
x = torch.randn(40, 2)
y = (x[:, 0] + x[:, 1] > 0).float()
model = Approximate(x[:8].clone())
likelihood = gpytorch.likelihoods.BernoulliLikelihood()
bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=40)
optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
model.train()
losses = []
for step in range(6):
    rows = slice((step % 2) * 20, (step % 2) * 20 + 20)
    optimizer.zero_grad()
    loss = -bound(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
show(losses=losses)
model.eval()
with torch.no_grad():
    show(chances=likelihood(model(x[:10])).mean)
