"""Flows conditioned on a context: losses, gradients and samples."""

import torch
import zuko
from showing import gradients, show

small = {"hidden_features": (16,)}
makers = {
    "nsf": lambda: zuko.flows.NSF(3, 2, transforms=2, **small),
    "maf": lambda: zuko.flows.MAF(3, 2, transforms=2),
    "naf": lambda: zuko.flows.NAF(3, 2, transforms=1),
    "unaf": lambda: zuko.flows.UNAF(3, 2, transforms=1),
    "cnf": lambda: zuko.flows.CNF(3, 2),
    "gf": lambda: zuko.flows.GF(3, 2, transforms=1),
    "bpf": lambda: zuko.flows.BPF(3, 2, transforms=1),
    "nice": lambda: zuko.flows.NICE(3, 2, transforms=2),
    "realnvp": lambda: zuko.flows.RealNVP(3, 2, transforms=2),
    "sospf": lambda: zuko.flows.SOSPF(3, 2, transforms=1),
    "ncsf": lambda: zuko.flows.NCSF(3, 2, transforms=1),
}
for name, make in makers.items():
    torch.manual_seed(0)
    flow = make()
    points, context = torch.rand(5, 3) * 2 - 1, torch.randn(5, 2)
    loss = -flow(context).log_prob(points).mean()
    loss.backward()
    torch.manual_seed(1)
    show(**{name: [loss, gradients(flow)], f"{name}_samples": flow(context).sample()})
