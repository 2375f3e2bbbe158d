"""Fabric: a loop of one's own with its set-up, precision, clipping and checkpoints."""

import os
import tempfile
import warnings

import torch
from lightning.fabric import Fabric
from showing import show
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
for precision in ("32-true", "bf16-mixed"):
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    fabric.seed_everything(1, verbose=False)
    fabric.launch()
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.Linear(12, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimizer = fabric.setup(model, optimizer)
    rows = TensorDataset(torch.randn(20, 6), torch.randint(0, 3, (20,)))
    loader = fabric.setup_dataloaders(DataLoader(rows, 5, shuffle=True))
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x).float(), y)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
    digits = 1 if precision == "bf16-mixed" else 5
    show(precision=precision, losses=[round(loss, digits) for loss in losses])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.ckpt")
        fabric.save(path, {"model": model, "optimizer": optimizer, "step": 4})
        state = {"model": model, "optimizer": optimizer, "step": 0}
        fabric.load(path, state)
        show(step=state["step"], device=fabric.device, rank=fabric.global_rank)
