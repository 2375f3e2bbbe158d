"""ANI's symmetry functions and networks by TorchANI: energies, forces, second derivatives."""

import torch
import torchani

from showing import gradients, show

torch.manual_seed(0)
aev = torchani.AEVComputer.like_2x()
species = torch.tensor([[0, 1, 1, 2]])
x = torch.tensor(
    [[[0.0, 0.0, 0.0], [1.1, 0.0, 0.0], [0.0, 1.2, 0.1], [-0.8, -0.7, 0.9]]], requires_grad=True
)
found = aev(species, x)
show(aev=found)
net = torch.nn.Linear(found.shape[-1], 1)
energy = net(found).sum()
force = torch.autograd.grad(energy, x, create_graph=True)[0]
force.square().sum().backward()
show(energy=energy, force=force, second=x.grad)
