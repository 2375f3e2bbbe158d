"""Norse: leaky integrators and recurrent spiking cells, with gradients through time."""

import norse.torch as norse
import torch

from showing import gradients, show

for name, make in {
    "LIF": norse.LIF,
    "LI": norse.LI,
    "LIFAdEx": norse.LIFAdEx,
    "LIFRecurrent": lambda: norse.LIFRecurrent(5, 5),
    "LSNNRecurrent": lambda: norse.LSNNRecurrent(5, 5),
    "LIFRefrac": lambda: norse.LIFRefracRecurrent(5, 5),
}.items():
    torch.manual_seed(0)
    cell = make()
    x = (torch.rand(20, 3, 5) * 30).requires_grad_()
    out, state = cell(x)
    out.square().sum().backward()
    show(**{name: out, f"{name}_grad": x.grad})
torch.manual_seed(1)
net = norse.SequentialState(
    torch.nn.Conv2d(1, 4, 3),
    norse.LIFCell(),
    torch.nn.Flatten(),
    torch.nn.Linear(144, 3),
    norse.LICell(),
)
state = None
for _ in range(8):
    out, state = net(torch.rand(2, 1, 8, 8) * 20, state)
out.sum().backward()
show(out=out, gradients=gradients(net))
