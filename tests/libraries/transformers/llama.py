"""Llama: grouped heads and rotary positions, eager and fused attention, text from its cache."""

import torch
from showing import gradients, show
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip
tokens = torch.randint(0, 101, (2, 11))
model = LlamaForCausalLM(config)
out = model(tokens, labels=tokens)
out.loss.backward()
show(loss=out.loss, logits=out.logits, gradients=gradients(model))

model.eval()
with torch.no_grad():
    for kind in ("eager", "sdpa"):
        model.set_attn_implementation(kind)
        mask = torch.ones_like(tokens)
        mask[0, :3] = 0
        show(**{kind: model(tokens, attention_mask=mask).logits})
    text = model.generate(tokens, max_new_tokens=8, do_sample=False, pad_token_id=0)
    show(text=text.tolist())
