"""Scalars, histograms, texts, pictures and settings, written and read back by tensorboard."""

import tempfile

import torch
from showing import show
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

folder = tempfile.mkdtemp()
torch.manual_seed(0)
with SummaryWriter(folder) as writer:
    for step in range(5):
        writer.add_scalar("loss", torch.tensor(1.0 / (step + 1)), step)
        writer.add_scalars("both", {"a": step, "b": step**2}, step)
        writer.add_histogram("weights", torch.randn(100), step)
    writer.add_text("note", "hello", 0)
    writer.add_image("picture", torch.rand(3, 8, 8), 0)
    writer.add_images("pictures", torch.rand(4, 1, 8, 8), 0)
    writer.add_hparams({"lr": 0.1, "name": "x"}, {"accuracy": 0.5}, run_name="run")
    writer.add_pr_curve("curve", torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.9, 0.6, 0.4]), 0)
events = EventAccumulator(folder, {"histograms": 0, "tensors": 0, "images": 0, "scalars": 0})
events.Reload()
tags = events.Tags()
show(**{kind: sorted(tags[kind]) for kind in ("scalars", "histograms", "images", "tensors")})
show(loss=torch.tensor([event.value for event in events.Scalars("loss")]))
last = events.Histograms("weights")[-1].histogram_value
show(histogram=[last.min, last.max, last.num, last.sum, last.sum_squares])
curve = events.Tensors("curve")[0].tensor_proto
show(curve=torch.tensor(curve.float_val).reshape(6, -1).sum(1))
run = EventAccumulator(f"{folder}/run")
run.Reload()
show(run=[sorted(run.Tags()["scalars"]), sorted(run.summary_metadata)])
show(size=[events.Images("picture")[0].width, events.Images("picture")[0].height])
