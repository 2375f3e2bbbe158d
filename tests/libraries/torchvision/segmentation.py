"""Segmentation: FCN, DeepLab and LR-ASPP."""

import torch
from showing import gradients, show
from torchvision.models import segmentation

for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
    torch.manual_seed(0)
    make = getattr(segmentation, name)
    model = make(weights=None, weights_backbone=None, num_classes=4).eval()
    out = model(torch.rand(1, 3, 64, 64))["out"]
    out.square().mean().backward()
    show(**{name: out, f"{name}_gradients": gradients(model)})
