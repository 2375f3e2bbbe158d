"""TorchOpt: functional and differentiable optimisers, meta gradients, zero-order and implicit ones."""

import torch
import torchopt

from showing import show

torch.manual_seed(0)
x, y = torch.randn(16, 3), torch.randn(16, 1)
for name in ("SGD", "Adam", "AdamW", "RMSProp", "AdaDelta", "AdaGrad", "Adamax", "RAdam"):
    torch.manual_seed(1)
    net = torch.nn.Linear(3, 1)
    step = getattr(torchopt, name)(net.parameters(), lr=0.05)
    for _ in range(4):
        loss = (net(x) - y).square().mean()
        step.zero_grad()
        loss.backward()
        step.step()
    show(**{name: loss, f"{name}_weight": net.weight})
for name in ("MetaSGD", "MetaAdam", "MetaRMSProp"):
    torch.manual_seed(1)
    net, meta = torch.nn.Linear(3, 1), torch.nn.Parameter(torch.tensor(0.5))
    inner = getattr(torchopt, name)(net, lr=0.1)
    for _ in range(3):
        inner.step(((net(x) - y).square() * meta.sigmoid()).mean())
    outer = (net(x) - y).square().mean()
    outer.backward()
    show(**{name: outer})
    if name == "MetaSGD":
        show(slope=meta.grad)
params = {"w": torch.randn(3, 1, requires_grad=True)}
optimizer = torchopt.adam(0.1)
state = optimizer.init(params)
for _ in range(3):
    loss = (x @ params["w"] - y).square().mean()
    grads = dict(zip(params, torch.autograd.grad(loss, tuple(params.values()))))
    updates, state = optimizer.update(grads, state, inplace=False)
    params = torchopt.apply_updates(params, updates, inplace=False)
show(functional=loss, w=params["w"])


@torchopt.diff.implicit.custom_root(
    lambda w, lam: torch.func.grad(lambda w, lam: (x @ w - y).square().mean() + lam * w.square().sum())(w, lam),
    argnums=1, solve=torchopt.linear_solve.solve_normal_cg(maxiter=20, atol=0),
)  # fmt: skip
def ridge(w, lam):
    return torch.linalg.solve(x.T @ x / 16 + lam * torch.eye(3), x.T @ y / 16)


lam = torch.tensor(0.3, requires_grad=True)
found = ridge(torch.zeros(3, 1), lam)
show(ridge=found, slope=torch.autograd.grad(found.sum(), lam)[0])
