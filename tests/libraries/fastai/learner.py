"""One cycle of training with each optimiser of fastai, and one of its networks."""

import torch
from fastai.vision.all import (
    Adam,
    CrossEntropyLossFlat,
    DataLoaders,
    Lamb,
    Learner,
    RMSProp,
    SGD,
    TfmdDL,
    accuracy,
    ranger,
    set_seed,
    xresnet18,
)
from showing import gradients, show
from torch import nn

set_seed(0, True)
points = torch.randn(32, 4)
samples = list(zip(points, (points[:, 0] > 0).long()))
loaders = DataLoaders(TfmdDL(samples, bs=8), TfmdDL(samples, bs=8))
optimisers = {"adam": Adam, "sgd": SGD, "rmsprop": RMSProp, "lamb": Lamb, "ranger": ranger}
for name, make in optimisers.items():
    set_seed(0, True)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    learner = Learner(
        loaders, net, loss_func=CrossEntropyLossFlat(), metrics=accuracy, opt_func=make
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(2, 1e-2)
    show(**{name: [float(value) for value in learner.recorder.values[-1]]})
set_seed(0)
net = xresnet18(n_out=3)
out = net(torch.randn(2, 3, 32, 32))
out.sum().backward()
show(network=out, gradients=gradients(net))
