"""Swin with its truncated normal initialisation, and features at several scales."""

import timm
import torch
from showing import gradients, show

torch.manual_seed(0)
swin = timm.create_model(
    "swin_tiny_patch4_window7_224", img_size=56, embed_dim=24, depths=(1, 1, 2, 1),
    num_heads=(2, 2, 4, 4), num_classes=5,
)  # fmt: skip
out = swin.eval()(torch.rand(2, 3, 56, 56))
out.square().mean().backward()
show(swin=out, gradients=gradients(swin))

torch.manual_seed(0)
scales = timm.create_model("resnet10t", features_only=True, out_indices=(1, 2, 3)).eval()
with torch.no_grad():
    for number, features in enumerate(scales(torch.rand(1, 3, 64, 64))):
        show(**{f"scale{number}": features})
