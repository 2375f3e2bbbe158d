"""An autograd graph, drawn.

Every result knows the ops behind it; `torch.viz.graph` shows what each of them keeps.
"""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
loss = (model(torch.randn(16, 4)) - torch.randn(16, 1)).square().mean()
drawing = torch.viz.graph(loss, params=model)
print(drawing)
torch.viz.graph(loss, params=model, format="html").save("graph.html")
