"""higher: gradients through steps of optimisers, as meta-learning needs them."""

import higher
import torch
from showing import gradients, show

x, y = None, None
for name in ("SGD", "Adam", "RMSprop", "Adagrad", "Adadelta"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    inner = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    x, y = torch.randn(10, 3), torch.randn(10, 1)
    with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, steps):
        for _ in range(3):
            steps.step((fast(x) - y).square().mean())
        outer = (fast(x + 0.1) - y).square().mean()
        outer.backward()
    show(**{name: outer, f"{name}_gradients": gradients(model)})
