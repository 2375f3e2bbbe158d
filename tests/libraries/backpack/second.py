"""Second-order quantities of a network by BackPACK: per-sample gradients, curvature, variance."""

import torch
from backpack import backpack, extend, extensions

from showing import show

torch.manual_seed(0)
model = extend(torch.nn.Sequential(
    torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(27, 8), torch.nn.Sigmoid(), torch.nn.Linear(8, 4),
))  # fmt: skip
lossfunc = extend(torch.nn.CrossEntropyLoss())
x, y = torch.randn(5, 1, 8, 8), torch.randint(0, 4, (5,))
wanted = {
    "grad_batch": extensions.BatchGrad(), "batch_l2": extensions.BatchL2Grad(),
    "sum_grad_squared": extensions.SumGradSquared(), "variance": extensions.Variance(),
    "diag_ggn_exact": extensions.DiagGGNExact(), "diag_ggn_mc": extensions.DiagGGNMC(),
    "diag_ggn_exact_batch": extensions.BatchDiagGGNExact(), "kfac": extensions.KFAC(),
    "kflr": extensions.KFLR(), "sqrt_ggn_exact": extensions.SqrtGGNExact(),
}  # fmt: skip
for name, extension in wanted.items():
    model.zero_grad()
    torch.manual_seed(1)
    with backpack(extension):
        lossfunc(model(x), y).backward()
    for which, parameter in model.named_parameters():
        value = getattr(parameter, name)
        show(**{f"{name}.{which}": value})
