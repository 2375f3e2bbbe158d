"""Spiking networks of snnTorch: neurons, surrogate gradients, spike coding and losses."""

import snntorch as snn
import torch
from snntorch import functional as SF
from snntorch import spikegen, surrogate

from showing import gradients, show

torch.manual_seed(0)
for name in (
    "fast_sigmoid",
    "atan",
    "sigmoid",
    "straight_through_estimator",
    "triangular",
    "spike_rate_escape",
):
    torch.manual_seed(1)
    spike = getattr(surrogate, name)()
    first, second = torch.nn.Linear(6, 12), torch.nn.Linear(12, 3)
    lif1, lif2 = (
        snn.Leaky(beta=0.9, spike_grad=spike),
        snn.Synaptic(alpha=0.8, beta=0.9, spike_grad=spike, learn_beta=True),
    )
    m1, (c2, m2) = (
        lif1.reset_mem(),
        lif2.reset_mem(),
    )
    x, y, out = torch.rand(10, 4, 6) * 2, torch.tensor([0, 1, 2, 1]), []
    for step in x:
        s1, m1 = lif1(first(step), m1)
        s2, c2, m2 = lif2(second(s1), c2, m2)
        out.append(s2)
    loss = SF.ce_rate_loss()(torch.stack(out), y)
    loss.backward()
    show(
        **{
            name: loss,
            f"{name}_gradients": [
                first.weight.grad.norm(),
                second.weight.grad.norm(),
                lif2.beta.grad,
            ],
        }
    )
torch.manual_seed(2)
data = torch.rand(3, 5)
show(
    rate=spikegen.rate(data, num_steps=6),
    latency=spikegen.latency(data, num_steps=6, normalize=True, linear=True),
    delta=spikegen.delta(data, threshold=0.1),
)
for kind, options in (
    ("Lapicque", {"beta": 0.8}),
    ("RLeaky", {"beta": 0.8, "linear_features": 5}),
    ("Alpha", {"alpha": 0.9, "beta": 0.8}),
    ("SLSTM", None),
):
    torch.manual_seed(3)
    cell = (
        snn.SLSTM(5, 5, init_hidden=True, output=True)
        if options is None
        else getattr(snn, kind)(init_hidden=True, output=True, **options)
    )
    found = [cell(torch.rand(2, 5) * 2) for _ in range(5)]
    show(**{kind: torch.stack([each[-1] for each in found])})
