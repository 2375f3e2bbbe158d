"""A flow of splines and autoregressive layers: a loss, its gradients and samples."""

import torch
from nflows import distributions, flows, transforms
from nflows.nn.nets import ResidualNet
from showing import gradients, show


def net(inputs, outputs):
    return ResidualNet(inputs, outputs, hidden_features=8)


torch.manual_seed(0)
steps = transforms.CompositeTransform(
    [
        transforms.MaskedAffineAutoregressiveTransform(features=3, hidden_features=8),
        transforms.RandomPermutation(3),
        transforms.PiecewiseRationalQuadraticCouplingTransform(
            torch.tensor([1, 0, 1]), net, tails="linear", tail_bound=3.0
        ),
        transforms.LULinear(3),
    ]
)
flow = flows.Flow(steps, distributions.StandardNormal([3]))
loss = -flow.log_prob(torch.randn(6, 3)).mean()
loss.backward()
torch.manual_seed(3)
show(loss=loss, gradients=gradients(flow), samples=flow.sample(4))
