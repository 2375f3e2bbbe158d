"""MONAI: networks over volumes, losses, metrics, sliding windows and transforms."""

import numpy
import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, GeneralizedDiceLoss, TverskyLoss
from monai.metrics import DiceMetric
from monai.networks.nets import SegResNet, UNet, UNETR
from monai.transforms import (
    Compose,
    EnsureChannelFirst,
    NormalizeIntensity,
    RandFlip,
    RandGaussianNoise,
    Resize,
    ScaleIntensity,
)
from showing import gradients, show

torch.manual_seed(0)
unet = UNet(3, 1, 2, (4, 8, 16), (2, 2), num_res_units=1)
volume, truth = torch.rand(1, 1, 16, 16, 16), torch.randint(0, 2, (1, 1, 16, 16, 16))
out = unet(volume)
loss = DiceCELoss(to_onehot_y=True, softmax=True)(out, truth)
loss.backward()
show(unet=out, loss=loss, gradients=gradients(unet))
for cls in (GeneralizedDiceLoss, TverskyLoss):
    show(**{cls.__name__: cls(to_onehot_y=True, softmax=True)(out, truth)})
torch.manual_seed(0)
show(segresnet=SegResNet(init_filters=8)(volume))
torch.manual_seed(0)
unetr = UNETR(1, 2, (16, 16, 16), feature_size=4, hidden_size=16, mlp_dim=32, num_heads=2)
show(unetr=unetr.eval()(volume))
metric = DiceMetric()
metric(torch.randint(0, 2, (2, 1, 8, 8)), torch.randint(0, 2, (2, 1, 8, 8)))
show(dice=metric.aggregate())
unet.eval()
with torch.no_grad():
    show(
        windows=sliding_window_inference(
            torch.rand(1, 1, 24, 20, 16), (16, 16, 16), 2, unet, overlap=0.5
        )
    )
way = Compose([EnsureChannelFirst(channel_dim="no_channel"), ScaleIntensity(), Resize((9, 8, 7)), NormalizeIntensity(),
               RandFlip(prob=0.5), RandGaussianNoise(prob=1.0)])  # fmt: skip
way.set_random_state(0)
show(
    transformed=torch.as_tensor(
        numpy.asarray(way(numpy.arange(6 * 6 * 6, dtype=numpy.float32).reshape(6, 6, 6)))
    )
)
