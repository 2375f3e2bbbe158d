"""open_clip: a small CLIP and a CoCa: pictures, texts, losses."""

import open_clip
import torch
from open_clip.loss import ClipLoss, SigLipLoss
from open_clip.model import CLIP
from showing import gradients, show

torch.manual_seed(0)
model = CLIP(
    embed_dim=16,
    vision_cfg={"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 8},
    text_cfg={"context_length": 12, "vocab_size": 50, "width": 32, "heads": 4, "layers": 2},
)
pictures, texts = torch.rand(3, 3, 32, 32), torch.randint(1, 50, (3, 12))
seen, read, scale = model(pictures, texts)[:3]
loss = ClipLoss()(seen, read, scale)
loss.backward()
show(seen=seen, read=read, loss=loss, gradients=gradients(model))
show(sigmoid=SigLipLoss()(seen, read, scale, torch.tensor(-10.0)))
transform = open_clip.image_transform(32, is_train=False)
from PIL import Image  # noqa: E402

show(transformed=transform(Image.new("RGB", (40, 50), (200, 100, 30))))
