"""MAML with functional_call and torch.func, then the same with create_graph; a custom optimiser."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
from torch.optim.optimizer import Optimizer


class Lion(Optimizer):
    """Sign of an interpolated momentum."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99)):
        if lr <= 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            slow, fast = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                m = state["momentum"]
                update = m.mul(slow).add(p.grad, alpha=1 - slow)
                # smooth in place of the sign: rounding cannot flip it
                p.add_(update.div(update.abs() + 1e-3), alpha=-group["lr"])
                m.lerp_(p.grad, 1 - fast)
        return loss


net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
with torch.no_grad():
    for k, p in enumerate(net.parameters()):
        p.copy_((torch.arange(p.numel()) * 0.91 + k).sin().view_as(p) * 0.7)

x = torch.linspace(-2, 2, 10)[:, None]
shifts = torch.linspace(0, 1.5, 4)
tasks = torch.stack([torch.sin(x + s) for s in shifts])


def task_loss(params, y, rows):
    return F.mse_loss(functional_call(net, params, (x[rows],)), y[rows])


def adapted(params, y, rate=0.1):
    grads = grad(task_loss)(params, y, slice(0, 5))
    return {name: p - rate * grads[name] for name, p in params.items()}


def meta_loss(params):
    return vmap(lambda y: task_loss(adapted(params, y), y, slice(5, 10)))(tasks).mean()


optimizer = Lion(net.parameters(), lr=0.02)
for step in range(20):
    loss = meta_loss(dict(net.named_parameters()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"func {step} loss {loss.item():.5f}")

for step in range(5):
    total = 0.0
    for y in tasks:
        inner = F.mse_loss(net(x[:5]), y[:5])
        names, params = zip(*net.named_parameters())
        grads = torch.autograd.grad(inner, params, create_graph=True)
        fast = {n: p - 0.1 * g for n, p, g in zip(names, params, grads)}
        total = total + F.mse_loss(functional_call(net, fast, (x[5:],)), y[5:])
    optimizer.zero_grad()
    (total / len(tasks)).backward()
    optimizer.step()
    print(f"graph {step} loss {total.item() / len(tasks):.5f}")

weight = net[0].weight.detach().clone()
print(tuple(jacrev(lambda w: torch.tanh(x @ w.T).sum(0))(weight).shape))
curvature = hessian(lambda w: torch.tanh(x @ w.T).square().mean())(weight).view(12, 12)
print(f"{torch.linalg.eigvalsh(curvature).max().item():.5f}")
value, tangent = jvp(lambda w: torch.tanh(x @ w.T).sum(), (weight,), (torch.ones_like(weight),))
print(f"{value.item():.5f} {tangent.item():.5f}")
state = optimizer.state_dict()
print(sorted(state), len(state["state"]), state["param_groups"][0]["params"])
print(optimizer)
