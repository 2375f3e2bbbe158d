"""Networks for pictures from small configurations: a forward and a backward pass of each."""

import torch
from showing import gradients, show
from transformers import AutoConfig, AutoModel

CONFIGS = {
    "resnet": {"embedding_size": 16, "hidden_sizes": [16, 24], "depths": [1, 1],
               "layer_type": "basic"},
    "convnext": {"hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 1, 1]},
    "swin": {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1],
             "num_heads": [2, 4], "window_size": 4},
    "deit": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 48, "image_size": 32, "patch_size": 8},
    "dinov2": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
               "image_size": 32, "patch_size": 8},
    "segformer": {"hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 4],
                  "depths": [1, 1, 1, 1], "decoder_hidden_size": 16},
    "mobilenet_v2": {"depth_multiplier": 0.25, "image_size": 64},
    "regnet": {"embedding_size": 16, "hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 1, 1],
               "groups_width": 8},
}  # fmt: skip
for kind, options in CONFIGS.items():
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model(kind, **options)).eval()
    torch.manual_seed(1)
    size = options.get("image_size", 64)
    out = model(torch.rand(2, 3, size, size))
    out[0].square().mean().backward()
    show(**{kind: out[0], f"{kind}_gradients": gradients(model)})
