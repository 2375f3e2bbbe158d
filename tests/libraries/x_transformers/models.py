"""x-transformers: decoders and encoders with many of its options."""

import torch
from showing import gradients, show
from x_transformers import (
    AutoregressiveWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
)

OPTIONS = {
    "plain": {}, "rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True},
    "relative": {"rel_pos_bias": True}, "gated": {"ff_glu": True, "ff_swish": True},
    "rms": {"use_rmsnorm": True, "attn_qk_norm": True}, "grouped": {"attn_kv_heads": 2},
    "memory": {"attn_num_mem_kv": 4}, "residual": {"residual_attn": True}, "flash": {"attn_flash": True},
    "sandwich": {"sandwich_coef": 1}, "talking": {"attn_pre_talking_heads": True},
}  # fmt: skip
for name, options in OPTIONS.items():
    torch.manual_seed(0)
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
    model = TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers)
    wrapped = AutoregressiveWrapper(model)
    loss = wrapped(torch.randint(0, 50, (2, 12)))
    loss.backward()
    show(**{name: loss, f"{name}_gradients": gradients(model)})
torch.manual_seed(1)
show(
    written=wrapped.eval()
    .generate(torch.zeros(1, 2, dtype=torch.long), 6, temperature=0.0)
    .tolist()
)
torch.manual_seed(0)
vision = ViTransformerWrapper(
    image_size=16, patch_size=4, num_classes=3, attn_layers=Encoder(dim=32, depth=2, heads=4)
)
show(vision=vision(torch.rand(2, 3, 16, 16)))
