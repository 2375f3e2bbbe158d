"""Gradients of every sample, found four ways, clipped one by one and summed for each step."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class PerSampleGradients:
    """Hooks on the linear layers that leave each sample's gradient in `parameter.grad_sample`."""

    def __init__(self, model):
        self.inputs, self.handles = {}, []
        for module in model.modules():
            if isinstance(module, nn.Linear):
                self.handles.append(module.register_forward_hook(self.save))
                self.handles.append(module.register_full_backward_hook(self.combine))

    def save(self, module, args, output):
        self.inputs[module] = args[0].detach()

    def combine(self, module, grad_input, grad_output):
        signal = grad_output[0]
        module.weight.grad_sample = torch.einsum("ni,nj->nij", signal, self.inputs.pop(module))
        module.bias.grad_sample = signal

    def remove(self):
        for handle in self.handles:
            handle.remove()


def one_by_one(model, data, target):
    found = []
    for x, y in zip(data, target):
        loss = F.cross_entropy(model(x.unsqueeze(0)), y.unsqueeze(0))
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    return [torch.stack(g) for g in zip(*found)]


def batched(model, data, target):
    losses = F.cross_entropy(model(data), target, reduction="none")
    return torch.autograd.grad(
        losses, list(model.parameters()), torch.eye(len(losses)), is_grads_batched=True
    )


def transformed(model, data, target):
    def loss_of(parameters, x, y):
        output = functional_call(model, parameters, (x.unsqueeze(0),))
        return F.cross_entropy(output, y.unsqueeze(0))

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    return list(vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, data, target).values())


model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 8), nn.SiLU(), nn.Linear(8, 3))
for seed, p in enumerate(model.parameters()):
    p.data.copy_(values(p.numel(), seed).view_as(p) * (2 / p.size(-1)) ** 0.5)
data = values(10 * 6, 20).view(10, 6)
target = (data[:, 0] > 0).long() + (data[:, 1] > 0.3).long()
expected = one_by_one(model, data, target)
others = batched(model, data, target)
mapped = transformed(model, data, target)
hooks = PerSampleGradients(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
clip = 1.0
for step in range(20):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target, reduction="sum")
    loss.backward()
    samples = [p.grad_sample for p in model.parameters()]
    if step == 0:
        sums = [g.sum(0) for g in samples]
        grads = [p.grad for p in model.parameters()]
        for found, wanted in [
            (samples, expected),
            (others, expected),
            (mapped, expected),
            (sums, grads),
        ]:
            print(all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted)))
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in samples], 1).norm(dim=1)
    factor = (clip / (norms + 1e-6)).clamp(max=1.0)
    for p, g in zip(model.parameters(), samples):
        p.grad = torch.einsum("n,n...->...", factor, g) / len(data)
    optimizer.step()
    clipped = (factor < 1).sum()
    print(f"{step:2d} loss {loss.item() / 10:.6f} largest {norms.max():.5f} clipped {clipped}")
hooks.remove()
print([tuple(p.grad_sample.shape) for p in model.parameters()])
