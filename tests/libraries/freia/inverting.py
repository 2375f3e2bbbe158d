"""Invertible networks as sequences and graphs: latents, determinants, inverses, training."""

import FrEIA.framework as Ff
import FrEIA.modules as Fm
import torch

from showing import gradients, show


def net(i, o):
    return torch.nn.Sequential(torch.nn.Linear(i, 16), torch.nn.ReLU(), torch.nn.Linear(16, o))


def conv(i, o):
    return torch.nn.Sequential(
        torch.nn.Conv2d(i, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, o, 3, padding=1)
    )


torch.manual_seed(0)
import numpy

numpy.random.seed(0)
inn = Ff.SequenceINN(4)
for _ in range(3):
    inn.append(Fm.AllInOneBlock, subnet_constructor=net, permute_soft=True)
step = torch.optim.Adam(inn.parameters(), 1e-2)
losses = []
for _ in range(4):
    step.zero_grad()
    z, j = inn(torch.randn(16, 4))
    loss = (0.5 * z.square().sum(1) - j).mean()
    loss.backward()
    step.step()
    losses.append(loss.item())
x = torch.randn(5, 4)
z, j = inn(x)
back, jb = inn(z, rev=True)
show(losses=losses, z=z, j=j, back=(back - x).abs().max() < 1e-4, jb=jb)
for cls in (
    Fm.GLOWCouplingBlock,
    Fm.NICECouplingBlock,
    Fm.RNVPCouplingBlock,
    Fm.GINCouplingBlock,
    Fm.AffineCouplingOneSided,
    Fm.ConditionalAffineTransform,
):
    torch.manual_seed(1)
    inn = Ff.SequenceINN(4)
    cond = dict(cond=0, cond_shape=(2,)) if cls is Fm.ConditionalAffineTransform else {}
    inn.append(cls, subnet_constructor=net, **cond)
    c = [torch.randn(5, 2)] if cond else None
    z, j = inn(x, c=c)
    (z.square().sum() - torch.as_tensor(j).sum()).backward()
    show(**{cls.__name__: z, "g": gradients(inn)})
torch.manual_seed(2)
nodes = [Ff.InputNode(2, 8, 8, name="in")]
nodes.append(Ff.Node(nodes[-1], Fm.IRevNetDownsampling, {}))
nodes.append(Ff.Node(nodes[-1], Fm.GLOWCouplingBlock, {"subnet_constructor": conv}))
nodes.append(Ff.Node(nodes[-1], Fm.PermuteRandom, {"seed": 1}))
nodes.append(Ff.Node(nodes[-1], Fm.HaarDownsampling, {}))
nodes.append(Ff.Node(nodes[-1], Fm.ActNorm, {}))
nodes.append(Ff.Node(nodes[-1], Fm.Flatten, {}))
nodes.append(Ff.OutputNode(nodes[-1]))
g = Ff.GraphINN(nodes)
z, j = g(torch.randn(3, 2, 8, 8))
(z.square().sum() - j.sum()).backward()
show(graph=z, j=j, gg=gradients(g), back=g(z, rev=True)[0])
