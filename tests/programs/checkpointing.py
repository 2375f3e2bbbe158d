"""Gradient checkpointing gives the gradients of the plain program, and runs the body twice."""

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

calls = 0


def block(x, weight):
    global calls
    calls += 1
    return torch.tanh(x @ weight) + x


def run(depth, wrap):
    global calls
    calls = 0
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    weights = [
        (torch.eye(4) * 0.5 + torch.arange(16.0).reshape(4, 4) / (20 + k)).requires_grad_()
        for k in range(depth)
    ]
    h = x
    for weight in weights:
        h = (
            checkpoint(block, h, weight, use_reentrant=wrap)
            if wrap is not None
            else block(h, weight)
        )
    forward = calls
    h.square().sum().backward()
    return forward, calls, x.grad, [w.grad for w in weights]


plain = run(4, None)
for wrap in (False, True):
    other = run(4, wrap)
    same = all(torch.equal(a, b) for a, b in zip(plain[3], other[3]))
    print("reentrant" if wrap else "non-reentrant", plain[:2], other[:2], same)
print(plain[2])
layers = [torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)]
for layer in layers[::2]:
    torch.nn.init.constant_(layer.weight, 0.25)
    torch.nn.init.ones_(layer.bias)
x = torch.ones(2, 4, requires_grad=True)
y = checkpoint_sequential(layers, 2, x, use_reentrant=False)
y.sum().backward()
print(y, x.grad)
with torch.autograd.graph.saved_tensors_hooks(
    lambda t: (print("pack", tuple(t.shape)), t)[1], lambda t: (print("unpack"), t)[1]
):
    z = (x * x).sum()
z.backward()
