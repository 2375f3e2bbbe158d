"""Class activation maps of a small network, by every method that needs no more than gradients."""

import torch
from pytorch_grad_cam import (
    EigenCAM, EigenGradCAM, FullGrad, GradCAM, GradCAMElementWise, GradCAMPlusPlus, HiResCAM,
    LayerCAM, RandomCAM, ScoreCAM, XGradCAM, AblationCAM,
)  # fmt: skip
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

from showing import show

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(8, 12, 3, padding=1), torch.nn.BatchNorm2d(12), torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(12, 5),
).eval()  # fmt: skip
x = torch.randn(2, 3, 32, 32)
methods = (GradCAM, HiResCAM, GradCAMElementWise, GradCAMPlusPlus, XGradCAM, EigenCAM,
           EigenGradCAM, LayerCAM, FullGrad, ScoreCAM, AblationCAM)  # fmt: skip
for method in methods:
    with method(model=model, target_layers=[model[3]]) as cam:
        maps = cam(input_tensor=x, targets=[ClassifierOutputTarget(1), ClassifierOutputTarget(3)])
    show(**{method.__name__: torch.from_numpy(maps)})
