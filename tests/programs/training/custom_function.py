"""A hand-written function with its gradient: checked, hooked, trained through."""

import torch
from torch import nn
from torch.autograd.gradcheck import GradcheckError


class SoftClip(torch.autograd.Function):
    """Identity near zero, logarithmic beyond the bound."""

    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        ctx.bound = bound
        excess = (x.abs() - bound).clamp(min=0)
        return x.sign() * (x.abs() - excess + torch.log1p(excess))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        excess = (x.abs() - ctx.bound).clamp(min=0)
        return grad / (1 + excess), None


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x


x = torch.linspace(-3, 3, 9, dtype=torch.float64, requires_grad=True)
print("gradcheck", torch.autograd.gradcheck(lambda t: SoftClip.apply(t, 1.0), (x,)))
print("gradgradcheck", torch.autograd.gradgradcheck(lambda t: SoftClip.apply(t, 1.0), (x,)))
print("wrong passes:", torch.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False))
try:
    torch.autograd.gradcheck(Wrong.apply, (x,))
except GradcheckError as error:
    print(str(error).splitlines()[0])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 1)

    def forward(self, x):
        h = SoftClip.apply(self.first(x), 0.5)
        return self.second(StraightThrough.apply(h * 8) / 8).squeeze(-1)


net = Net()
with torch.no_grad():
    for k, p in enumerate(net.parameters()):
        p.copy_((torch.arange(p.numel()) * 0.9 + k).cos().view_as(p))

seen = {}
net.first.register_forward_hook(lambda m, args, out: seen.__setitem__("forward", tuple(out.shape)))
net.second.register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
net.second.register_full_backward_hook(
    lambda m, grad_in, grad_out: seen.__setitem__("backward", grad_in[0].abs().max().item())
)
handle = net.first.weight.register_hook(lambda grad: grad.clamp(-0.3, 0.3))
net.first.bias.register_post_accumulate_grad_hook(
    lambda p: seen.__setitem__("bias", p.grad.norm().item())
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
inputs = (torch.arange(40) * 0.7).sin().view(10, 4) * 2
targets = inputs[:, 0] * 0.3 - inputs[:, 2].abs()
for step in range(20):
    if step == 10:
        handle.remove()
    optimizer.zero_grad()
    loss = nn.functional.huber_loss(net(inputs), targets)
    loss.backward()
    optimizer.step()
    largest = net.first.weight.grad.abs().max().item()
    print(f"step {step} loss {loss.item():.5f} largest {largest:.4f} bias {seen['bias']:.4f}")
print(seen["forward"], f"{seen['backward']:.5f}")
