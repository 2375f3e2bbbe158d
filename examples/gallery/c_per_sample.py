"""The gradient of each sample, in one call.

`vmap(grad(...))` of a loss over single samples: what differential privacy and influence functions
ask for.
"""

import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
parameters = dict(model.named_parameters())


def loss(parameters, x, label):
    scores = functional_call(model, parameters, (x[None],))
    return nn.functional.cross_entropy(scores, label[None])


x, labels = torch.randn(64, 5), torch.randint(3, (64,))
each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
norms = torch.stack([g.flatten(1).square().sum(1) for g in each.values()]).sum(0).sqrt()
print({name: tuple(g.shape) for name, g in each.items()})
print(f"norms from {norms.min():.3f} to {norms.max():.3f}")

nn.functional.cross_entropy(model(x), labels).backward()
whole = model[0].weight.grad
print("mean of the parts is the whole:", torch.allclose(each["0.weight"].mean(0), whole, atol=1e-6))
