"""Rotary positions, windows of attention, perceivers and linear attention of small sizes."""

import torch
from local_attention import LocalAttention
from local_attention.transformer import LocalTransformer
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

from perceiver_pytorch import Perceiver, PerceiverIO
from showing import gradients, show

torch.manual_seed(0)
rotary = RotaryEmbedding(dim=8)
q = torch.randn(1, 2, 12, 16, requires_grad=True)
turned = rotary.rotate_queries_or_keys(q)
turned.square().sum().backward()
show(turned=turned, grad=q.grad)
rotary = RotaryEmbedding(dim=8, use_xpos=True)
show(xpos=rotary.rotate_queries_and_keys(q, q))
rotary = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=16)
show(axial=rotary.get_axial_freqs(4, 6))
show(applied=apply_rotary_emb(rotary.get_axial_freqs(4, 6), torch.randn(1, 4, 6, 12)))

attend = LocalAttention(dim=8, window_size=4, causal=True, look_backward=1, autopad=True)
q, k, v = (torch.randn(2, 2, 14, 8, requires_grad=True) for _ in range(3))
out = attend(q, k, v, mask=torch.ones(2, 14).bool())
out.square().sum().backward()
show(local=out, local_grad=k.grad)
torch.manual_seed(1)
model = LocalTransformer(
    num_tokens=40,
    dim=16,
    depth=2,
    max_seq_len=32,
    causal=True,
    local_attn_window_size=8,
    heads=2,
    dim_head=8,
)
loss = model(torch.randint(0, 40, (2, 32)), return_loss=True)
loss.backward()
show(loss=loss, gradients=gradients(model))
torch.manual_seed(2)
show(generated=model.generate(torch.randint(0, 40, (1, 8)), 8, temperature=0.7))
torch.manual_seed(1)
model = Perceiver(
    input_channels=3,
    input_axis=2,
    num_freq_bands=3,
    max_freq=8.0,
    depth=2,
    num_latents=6,
    latent_dim=16,
    cross_dim_head=8,
    latent_dim_head=8,
    latent_heads=2,
    num_classes=5,
    weight_tie_layers=True,
    fourier_encode_data=True,
    self_per_cross_attn=1,
)
out = model(torch.randn(2, 8, 8, 3))
out.square().sum().backward()
show(perceiver=out, perceiver_gradients=gradients(model))
model = PerceiverIO(
    dim=8,
    queries_dim=8,
    logits_dim=4,
    depth=2,
    num_latents=6,
    latent_dim=16,
    cross_dim_head=8,
    latent_dim_head=8,
    latent_heads=2,
)
out = model(torch.randn(2, 9, 8), queries=torch.randn(5, 8))
out.square().sum().backward()
show(io=out, io_gradients=gradients(model))
