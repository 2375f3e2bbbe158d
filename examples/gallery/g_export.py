"""A program that leaves Python.

Exported once with a batch of any size, saved, and run after its class is gone.
"""

import os

import torch
import torch.nn as nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x).softmax(-1)


torch.manual_seed(0)
model = Classifier()
batch = torch.export.Dim("batch", min=1, max=1024)
program = torch.export.export(model, (torch.randn(2, 8),), dynamic_shapes=({0: batch},))
print(program)
torch.export.save(program, "classifier.pt2")

x = torch.randn(7, 8)
expected = model(x)
del Classifier, model
print(torch.equal(torch.export.load("classifier.pt2").module()(x), expected))
os.remove("classifier.pt2")
