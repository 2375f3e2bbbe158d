"""Measures of pictures, and their gradients."""

import piq
import torch
from pytorch_msssim import ms_ssim, ssim
from showing import show

torch.manual_seed(0)
first = torch.rand(1, 3, 180, 180)
second = (first + 0.1 * torch.randn_like(first)).clamp(0, 1).requires_grad_()
likeness, scales = ssim(first, second, data_range=1.0), ms_ssim(first, second, data_range=1.0)
(likeness + scales).backward()
show(ssim=likeness, ms_ssim=scales, gradient=second.grad)

first, second = first[..., :96, :96], second[..., :96, :96].detach()
names = "ssim psnr vif_p gmsd multi_scale_gmsd fsim vsi mdsi haarpsi srsim dss"
for name in names.split():
    given = second.clone().requires_grad_()
    value = getattr(piq, name)(first, given, data_range=1.0)
    value.backward()
    show(**{f"piq_{name}": [value, given.grad]})
show(variation=piq.total_variation(first))
