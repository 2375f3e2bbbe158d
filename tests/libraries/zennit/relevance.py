"""Relevance by zennit's rules and composites."""

import torch
from zennit import attribution, composites, rules

from showing import show

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 6, 3),
    torch.nn.BatchNorm2d(6),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(6 * 25, 8),
    torch.nn.ReLU(),
    torch.nn.Linear(8, 4),
).eval()
x = torch.rand(2, 3, 12, 12)
target = torch.eye(4)[[1, 2]]
for name in (
    "EpsilonPlus",
    "EpsilonAlpha2Beta1",
    "EpsilonPlusFlat",
    "EpsilonGammaBox",
    "GuidedBackprop",
    "DeconvNet",
    "ExcitationBackprop",
):
    options = (
        {"low": torch.zeros(1, 3, 12, 12), "high": torch.ones(1, 3, 12, 12)}
        if "Box" in name
        else {}
    )
    with attribution.Gradient(
        model=model, composite=getattr(composites, name)(**options)
    ) as explain:
        out, relevance = explain(x.clone().requires_grad_(), target)
    show(**{name: relevance})
for kind, options in (
    (attribution.SmoothGrad, {"noise_level": 0.1, "n_iter": 3}),
    (attribution.IntegratedGradients, {"n_iter": 3}),
    (attribution.Occlusion, {"window": 4, "stride": 4}),
):
    torch.manual_seed(1)
    with kind(model=model, **options) as explain:
        show(**{kind.__name__: explain(x.clone(), target)[1]})
