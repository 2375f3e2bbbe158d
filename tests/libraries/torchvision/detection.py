"""Detectors: Faster R-CNN, Mask R-CNN and RetinaNet on small backbones: losses and boxes."""

import torch
import torchvision
from showing import gradients, show
from torchvision.models.detection import FasterRCNN, MaskRCNN, RetinaNet
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

pictures = None
for cls in (FasterRCNN, MaskRCNN, RetinaNet):
    torch.manual_seed(0)
    backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)
    model = cls(backbone, num_classes=4, min_size=96, max_size=128)
    pictures = [torch.rand(3, 90, 100), torch.rand(3, 96, 80)]
    masks = torch.zeros(2, 90, 100, dtype=torch.uint8)
    masks[0, 10:40, 10:60] = 1
    masks[1, 30:80, 40:90] = 1
    boxes = torch.tensor([[10.0, 10, 60, 40], [40.0, 30, 90, 80]])
    targets = [
        {"boxes": boxes, "labels": torch.tensor([1, 2]), "masks": masks},
        {"boxes": boxes[:1], "labels": torch.tensor([3]), "masks": masks[:1, :, :80]},
    ]
    model.train()
    torch.manual_seed(1)
    losses = model(pictures, targets)
    sum(losses.values()).backward()
    name = cls.__name__
    show(**{f"{name}_{key}": value for key, value in losses.items()})
    show(**{f"{name}_gradients": gradients(model)})
    model.eval()
    with torch.no_grad():
        found = model(pictures)
    show(**{f"{name}_count": len(found[0]["boxes"]), f"{name}_scores": found[0]["scores"][:5]})
