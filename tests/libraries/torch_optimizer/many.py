"""Every optimiser of torch-optimizer for a few steps."""

import torch
import torch_optimizer

from showing import show

for name, cls in sorted(torch_optimizer._NAME_OPTIM_MAP.items()):
    if name == "lookahead":
        continue
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    rate = {} if name == "adafactor" else {"lr": 0.1 if name == "adahessian" else 0.01}
    step = cls(net.parameters(), **rate)
    for _ in range(4):
        step.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward(create_graph=name == "adahessian")
        step.step()
    show(**{name: loss.detach(), f"{name}_weight": net[0].weight[0]})
