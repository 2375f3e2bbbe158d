"""Hooks, custom Functions, higher-order gradients, anomaly mode, detached parts."""

import torch


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.bounds = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        low, high = ctx.bounds
        return grad * ((x >= low) & (x <= high)), None, None


x = torch.tensor([-2.0, 0.5, 3.0], requires_grad=True)
y = Clip.apply(x, -1.0, 1.0)
print(y, y.grad_fn.name())
y.sum().backward()
print(x.grad)

w = torch.tensor([1.0, 2.0], requires_grad=True)
h = w * w
h.retain_grad()
seen = []
handle = h.register_hook(lambda g: seen.append(g.clone()) or g * 10)
h.sum().backward()
handle.remove()
print(seen, h.grad, w.grad)

z = torch.tensor(0.7, requires_grad=True)
value = torch.sin(z) * torch.exp(z)
for order in range(1, 5):
    (value,) = torch.autograd.grad(value, z, create_graph=True)
    print(order, f"{value.item():.5f}", value.requires_grad)

a = torch.arange(3.0, requires_grad=True)
b = torch.tensor([1.0, -1.0, 2.0], requires_grad=True)
out = (a * b.detach()).sum() + (a.detach() * b).sum()
ga, gb = torch.autograd.grad(out, (a, b))
print(ga, gb)
unused = torch.ones(2, requires_grad=True)
print(torch.autograd.grad(a.sum(), [a, unused], allow_unused=True))

m = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
v = m[0]
v2 = v * 2
base = m * 1
base[0] = v2
base[:, 1] *= 3
print(base, type(base.grad_fn).__name__)
base.sum().backward()
print(m.grad)

try:
    s = torch.ones(2, requires_grad=True)
    e = s.exp()
    e += 1
    e.sum().backward()
except RuntimeError as error:
    print("RuntimeError", "modified by an inplace operation" in str(error))
try:
    q = (s * s).sum()
    q.backward()
    q.backward()
except RuntimeError as error:
    print(str(error)[:57])

with torch.no_grad():
    print((s * 2).requires_grad, torch.is_grad_enabled())


@torch.enable_grad()
def forced(t):
    return (t * 2).requires_grad


with torch.no_grad():
    print(forced(s))
x = torch.zeros(3, requires_grad=True)
total = sum((x[i] * i for i in range(3)), torch.tensor(0.0))
total.backward(inputs=[x])
print(x.grad, total.grad_fn.name(), total.grad_fn.next_functions[0][0].name())
