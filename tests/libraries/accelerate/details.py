"""Accumulated gradients, clipping, mixed precision, gathered metrics, saved states, tied weights."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import find_tied_parameters, set_seed
from showing import gradients, show
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
x = torch.randn(24, 5)
data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
for precision in ("no", "bf16"):
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(cpu=True, mixed_precision=precision, gradient_accumulation_steps=2)
    set_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.05, total_steps=12)
    net, optimiser, loader, plan = accelerator.prepare(net, optimiser, data, plan)
    losses = []
    for inputs, targets in loader:
        with accelerator.accumulate(net):
            loss = torch.nn.functional.mse_loss(net(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            plan.step()
            optimiser.zero_grad()
        losses.append(accelerator.gather_for_metrics(loss.detach()).mean().item())
    show(**{precision: torch.tensor(losses).float(), "rate": plan.get_last_lr()[0]})
    folder = tempfile.mkdtemp()
    accelerator.save_state(folder)
    before = [p.detach().clone() for p in net.parameters()]
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    accelerator.load_state(folder)
    show(same=all(torch.equal(a, b) for a, b in zip(before, net.parameters())))
    accelerator.free_memory()


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 3)
        self.head = torch.nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


set_seed(2)
tied = Tied()
tied(torch.arange(5)).square().sum().backward()
show(tied=find_tied_parameters(tied), gradients=gradients(tied))
