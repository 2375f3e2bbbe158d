"""Classifiers of pictures with weights of their seeds: logits, and gradients of some."""

import torch
import torchvision
from showing import gradients, show

NAMES = (
    "resnet18 resnet50 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 squeezenet1_1 "
    "efficientnet_b0 regnet_y_400mf densenet121 mnasnet0_5 googlenet convnext_tiny"
)
for name in NAMES.split():
    torch.manual_seed(0)
    options = {"init_weights": True} if name == "googlenet" else {}
    if name == "googlenet":
        options["aux_logits"] = False
    model = torchvision.models.get_model(name, weights=None, num_classes=7, **options).eval()
    pictures = torch.rand(1, 3, 64, 64)
    out = model(pictures)
    show(**{name: out})
    if name in ("resnet18", "mobilenet_v2", "squeezenet1_1"):
        torch.nn.functional.cross_entropy(out, torch.tensor([3])).backward()
        show(**{f"{name}_gradients": gradients(model)})
