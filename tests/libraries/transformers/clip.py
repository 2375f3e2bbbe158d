"""CLIP: pictures and sentences, and the loss that pairs them."""

import torch
from showing import gradients, show
from transformers import CLIPConfig, CLIPModel

torch.manual_seed(0)
shared = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4}  # fmt: skip
config = CLIPConfig(
    text_config={**shared, "vocab_size": 70, "max_position_embeddings": 20, "eos_token_id": 69},
    vision_config={**shared, "image_size": 32, "patch_size": 8},
    projection_dim=16,
)
model = CLIPModel(config)
out = model(
    input_ids=torch.randint(0, 70, (2, 9)), pixel_values=torch.rand(2, 3, 32, 32), return_loss=True
)
out.loss.backward()
show(loss=out.loss, pairs=out.logits_per_image, gradients=gradients(model))
