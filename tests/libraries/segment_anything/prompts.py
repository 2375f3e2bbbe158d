"""Masks from points, boxes and masks, by a small model."""

from functools import partial

import torch
from segment_anything.modeling import (
    ImageEncoderViT,
    MaskDecoder,
    PromptEncoder,
    Sam,
    TwoWayTransformer,
)

from showing import gradients, show

torch.manual_seed(0)
enc = ImageEncoderViT(
    depth=2,
    embed_dim=32,
    img_size=64,
    mlp_ratio=2,
    norm_layer=partial(torch.nn.LayerNorm, eps=1e-6),
    num_heads=2,
    patch_size=8,
    qkv_bias=True,
    use_rel_pos=True,
    global_attn_indexes=[1],
    window_size=3,
    out_chans=16,
)
sam = Sam(
    enc,
    PromptEncoder(
        embed_dim=16, image_embedding_size=(8, 8), input_image_size=(64, 64), mask_in_chans=8
    ),
    MaskDecoder(
        num_multimask_outputs=3,
        transformer=TwoWayTransformer(depth=2, embedding_dim=16, mlp_dim=32, num_heads=2),
        transformer_dim=16,
        iou_head_depth=2,
        iou_head_hidden_dim=16,
    ),
)
sam.eval()
img = (torch.rand(3, 48, 64) * 255).round()
out = sam(
    [
        {
            "image": img,
            "original_size": (48, 64),
            "point_coords": torch.tensor([[[10.0, 12.0], [30.0, 20.0]]]),
            "point_labels": torch.ones(1, 2),
        },
        {
            "image": img,
            "original_size": (48, 64),
            "boxes": torch.tensor([[5.0, 5, 30, 30], [10, 10, 40, 40]]),
        },
    ],
    multimask_output=True,
)
for o in out:
    show(masks=o["masks"].float().mean((2, 3)), iou=o["iou_predictions"], low=o["low_res_logits"])
feats = sam.image_encoder(sam.preprocess(img)[None])
s, d = sam.prompt_encoder(
    points=(torch.tensor([[[10.0, 12.0]]]), torch.ones(1, 1)),
    boxes=None,
    masks=torch.randn(1, 1, 32, 32),
)
low, iou = sam.mask_decoder(
    image_embeddings=feats,
    image_pe=sam.prompt_encoder.get_dense_pe(),
    sparse_prompt_embeddings=s,
    dense_prompt_embeddings=d,
    multimask_output=False,
)
low.square().mean().backward()
show(g=gradients(sam), low=low)
