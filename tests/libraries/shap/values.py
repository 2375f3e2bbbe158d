"""Explanations by four explainers."""

import numpy as np
import torch

import shap
from showing import show

torch.manual_seed(0)
np.random.seed(0)
m = torch.nn.Sequential(
    torch.nn.Linear(5, 8),
    torch.nn.ReLU(),
    torch.nn.Linear(8, 8),
    torch.nn.Sigmoid(),
    torch.nn.Linear(8, 2),
).eval()
bg, x = torch.randn(20, 5), torch.randn(3, 5)
e = shap.DeepExplainer(m, bg)
show(deep=torch.tensor(e.shap_values(x)), base=torch.tensor(e.expected_value))
g = shap.GradientExplainer(m, bg)
show(grad=torch.tensor(g.shap_values(x, nsamples=20, rseed=1)))
c = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(36, 2),
).eval()
e = shap.DeepExplainer(c, torch.randn(6, 1, 8, 8))
show(conv=torch.tensor(e.shap_values(torch.randn(2, 1, 8, 8))))
k = shap.KernelExplainer(lambda a: m(torch.tensor(a).float()).detach().numpy(), bg[:5].numpy())
show(kernel=torch.tensor(k.shap_values(x[:1].numpy(), nsamples=50, silent=True)))
