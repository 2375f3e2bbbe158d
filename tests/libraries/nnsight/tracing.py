"""What a network computes inside, read and changed while it runs."""

from collections import OrderedDict

import torch

from nnsight import NNsight
from showing import show

torch.manual_seed(0)
net = torch.nn.Sequential(
    OrderedDict(
        [("l1", torch.nn.Linear(4, 8)), ("act", torch.nn.ReLU()), ("l2", torch.nn.Linear(8, 2))]
    )
)
m = NNsight(net)
x = torch.randn(3, 4)
with m.trace(x):
    a = m.l1.output.save()
    m.l1.output[:, 0] = 0
    b = m.l2.input.save()
    out = m.output.save()
show(a=a, b=b, out=out)
