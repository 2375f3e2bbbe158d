"""Summaries of networks, with shapes and counts of a run."""

import torchinfo
from showing import show
from torch import nn
from torchvision.models import resnet18

columns = ("input_size", "output_size", "num_params", "mult_adds", "kernel_size", "trainable")
found = torchinfo.summary(resnet18(), input_size=(1, 3, 64, 64), verbose=0, col_names=columns)
show(parameters=found.total_params, operations=found.total_mult_adds)
for number, line in enumerate(str(found).splitlines()[2:20]):
    show(**{f"line{number}": line})
recurrent = nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 5, num_layers=2))
found = torchinfo.summary(recurrent, input_size=(6, 2, 3), verbose=0, depth=2)
show(recurrent=found.total_params, work=found.total_mult_adds)
