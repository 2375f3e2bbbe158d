"""Operations and parameters of a network, counted by thop and told by torchsummary."""

import torch
from torchsummary import summary
from torchvision.models import resnet18

from showing import show
from thop import clever_format, profile

torch.manual_seed(0)
model = resnet18(num_classes=4)
macs, params = profile(model, inputs=(torch.randn(1, 3, 64, 64),), verbose=False)
show(macs=macs, params=params, text=clever_format([macs, params], "%.2f"))
import contextlib
import io

out = io.StringIO()
with contextlib.redirect_stdout(out):
    summary(model, (3, 64, 64), device="cpu")
for i, line in enumerate(out.getvalue().splitlines()):
    show(**{f"l{i}": line})
