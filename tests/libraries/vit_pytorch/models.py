"""Eleven vision transformers: what they answer and their gradients."""

import torch
from showing import gradients, show
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.cct import CCT
from vit_pytorch.cvt import CvT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.max_vit import MaxViT
from vit_pytorch.mobile_vit import MobileViT
from vit_pytorch.nest import NesT
from vit_pytorch.pit import PiT
from vit_pytorch.t2t import T2TViT

torch.manual_seed(0)
pictures = torch.randn(2, 3, 32, 32)
plain = {"image_size": 32, "num_classes": 5, "dim": 32, "heads": 4, "mlp_dim": 48}
patches = {**plain, "patch_size": 8, "depth": 2}
makers = {
    "vit": lambda: ViT(**patches),
    "simple": lambda: SimpleViT(**patches),
    "cait": lambda: CaiT(**patches, cls_depth=1),
    "deep": lambda: DeepViT(**patches),
    "pit": lambda: PiT(**{**patches, "depth": (1, 1)}),
    "t2t": lambda: T2TViT(**plain, depth=1, t2t_layers=((7, 4), (3, 2))),
    "cct": lambda: CCT(
        img_size=(32, 32), embedding_dim=32, n_conv_layers=1, num_layers=2, num_heads=4,
        mlp_ratio=2.0, num_classes=5, kernel_size=7, stride=2, padding=3, pooling_kernel_size=3,
        pooling_stride=2, pooling_padding=1,
    ),
    "cvt": lambda: CvT(
        num_classes=5, s1_emb_dim=8, s2_emb_dim=16, s3_emb_dim=16, s1_depth=1, s2_depth=1,
        s3_depth=1, s1_heads=1, s2_heads=1, s3_heads=2,
    ),
    "nest": lambda: NesT(
        image_size=32, patch_size=4, dim=16, heads=2, num_hierarchies=2, block_repeats=(1, 1),
        num_classes=5,
    ),
    "mobile": lambda: MobileViT(
        image_size=(32, 32), dims=[16, 16, 16], channels=[8] * 10 + [16], num_classes=5,
        depths=(1, 1, 1), kernel_size=3, patch_size=(1, 1),
    ),
    "max": lambda: MaxViT(
        num_classes=5, dim_conv_stem=8, dim=16, dim_head=8, depth=(1,), window_size=4,
        mbconv_expansion_rate=2, mbconv_shrinkage_rate=0.25,
    ),
}  # fmt: skip
for name, make in makers.items():
    torch.manual_seed(1)
    model = make()
    out = model(pictures)
    out.square().mean().backward()
    show(**{name: [out, gradients(model)]})
