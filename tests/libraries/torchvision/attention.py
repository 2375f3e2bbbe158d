"""Vision transformers: ViT and Swin, small ones."""

import torch
from showing import gradients, show
from torchvision.models.swin_transformer import SwinTransformer
from torchvision.models.vision_transformer import VisionTransformer

torch.manual_seed(0)
vit = VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=5)
torch.nn.init.normal_(vit.heads.head.weight)
out = vit(torch.rand(2, 3, 32, 32))
out.square().mean().backward()
show(vit=out, vit_gradients=gradients(vit))

torch.manual_seed(0)
swin = SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=5)
out = swin(torch.rand(2, 3, 64, 64))
out.square().mean().backward()
show(swin=out, swin_gradients=gradients(swin))
