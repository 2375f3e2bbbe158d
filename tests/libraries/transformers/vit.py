"""ViT: classes of pictures, at the size it was made for and at another one."""

import torch
from showing import gradients, show
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
config = ViTConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    image_size=32, patch_size=8, num_labels=5,
)  # fmt: skip
model = ViTForImageClassification(config)
pictures = torch.rand(2, 3, 32, 32)
out = model(pictures, labels=torch.tensor([1, 4]))
out.loss.backward()
show(loss=out.loss, logits=out.logits, gradients=gradients(model))
with torch.no_grad():
    larger = model.eval()(torch.rand(1, 3, 48, 48), interpolate_pos_encoding=True)
show(larger=larger.logits)
