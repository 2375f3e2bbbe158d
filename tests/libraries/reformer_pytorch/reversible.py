"""Language models whose layers are reversible: outputs, losses and gradients."""

import torch
from linear_attention_transformer import LinearAttentionTransformerLM
from performer_pytorch import PerformerLM

from reformer_pytorch import ReformerLM
from showing import gradients, show

for name, make in dict(
    performer=lambda: PerformerLM(
        num_tokens=40,
        max_seq_len=32,
        dim=16,
        depth=2,
        heads=2,
        dim_head=8,
        causal=False,
        nb_features=8,
        reversible=True,
    ),
    linear=lambda: LinearAttentionTransformerLM(
        num_tokens=40,
        dim=16,
        heads=2,
        depth=2,
        max_seq_len=32,
        causal=True,
        reversible=True,
        blindspot_size=1,
    ),
    reformer=lambda: ReformerLM(
        num_tokens=40,
        dim=16,
        depth=2,
        max_seq_len=32,
        heads=2,
        bucket_size=4,
        n_hashes=2,
        causal=True,
    ),
).items():
    torch.manual_seed(0)
    m = make()
    t = torch.randint(0, 40, (2, 32))
    torch.manual_seed(1)
    out = m(t)
    loss = torch.nn.functional.cross_entropy(out.transpose(1, 2), t)
    loss.backward()
    show(**{name: out, name + "_l": loss, name + "_g": gradients(m)})
