"""Flows by divergences in both directions, and samples."""

import normflows as nf
import torch
from showing import gradients, show

torch.manual_seed(0)
base = nf.distributions.base.DiagGaussian(2)
layers = []
for _ in range(2):
    layers += [
        nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 8, 2], init_zeros=False)),
        nf.flows.Permute(2, mode="swap"),
        nf.flows.ActNorm(2),
    ]
flow = nf.NormalizingFlow(base, layers)
points = torch.randn(10, 2)
loss = flow.forward_kld(points)
loss.backward()
torch.manual_seed(2)
show(forward=loss, gradients=gradients(flow), samples=flow.sample(3)[0])

splines = [nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8), nf.flows.LULinearPermute(2)]
show(splines=nf.NormalizingFlow(base, splines).forward_kld(points))
simple = [nf.flows.Planar((2,)), nf.flows.Radial((2,))]
torch.manual_seed(3)
show(reverse=nf.NormalizingFlow(base, simple, nf.distributions.TwoMoons()).reverse_kld(8))
