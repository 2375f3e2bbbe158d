"""Jacobian descent by TorchJD: aggregators, backward of several losses, multi-task learning."""

import torch
from torchjd import aggregation
from torchjd.autojac import backward, mtl_backward

from showing import gradients, show

torch.manual_seed(0)
matrix = torch.randn(3, 6)
for name in ("AlignedMTL", "CAGrad", "ConFIG", "DualProj", "GradDrop", "IMTLG", "Krum", "MGDA",
             "Mean", "PCGrad", "Random", "Sum", "TrimmedMean", "UPGrad"):  # fmt: skip
    kind = getattr(aggregation, name)
    options = {"CAGrad": {"c": 0.5}, "Krum": {"n_byzantine": 0}, "TrimmedMean": {"trim_number": 1}}
    torch.manual_seed(1)
    try:
        show(**{name: kind(**options.get(name, {}))(matrix)})
    except ImportError as missing:
        show(**{name: "needs a package"})
torch.manual_seed(2)
shared, heads = (
    torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU()),
    [torch.nn.Linear(4, 1) for _ in range(2)],
)
x = torch.randn(8, 5)
features = shared(x)
losses = [(head(features) - 1).square().mean() for head in heads]
mtl_backward(losses, features=features)
show(
    jacs=[list(p.jac.shape) for p in shared.parameters() if hasattr(p, "jac") and p.jac is not None]
)
net = torch.nn.Linear(5, 2)
backward((net(x) - 1).square().mean(0))
for name, p in net.named_parameters():
    show(**{name: getattr(p, "jac", p.grad)})
