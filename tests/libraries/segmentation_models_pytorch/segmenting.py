"""segmentation-models-pytorch: decoders over one encoder, and the losses."""

import segmentation_models_pytorch as smp
import torch
from showing import gradients, show

for name in ("Unet", "UnetPlusPlus", "FPN", "Linknet", "PSPNet", "DeepLabV3Plus", "MAnet"):
    torch.manual_seed(0)
    model = getattr(smp, name)("resnet18", encoder_weights=None, classes=3).eval()
    out = model(torch.rand(1, 3, 64, 64))
    out.square().mean().backward()
    show(**{name: out, f"{name}_gradients": gradients(model)})
torch.manual_seed(1)
guess, truth = torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2, 8, 8))
for name in ("DiceLoss", "JaccardLoss", "FocalLoss", "TverskyLoss", "LovaszLoss"):
    show(**{name: getattr(smp.losses, name)("multiclass")(guess, truth)})
counts = smp.metrics.get_stats(guess.argmax(1), truth, mode="multiclass", num_classes=3)
show(iou=smp.metrics.iou_score(*counts, reduction="micro"))
