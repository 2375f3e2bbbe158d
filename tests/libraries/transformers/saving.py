"""Saving and loading: safetensors in one file and in shards, and another dtype."""

import os
import tempfile

import torch
from showing import show
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4,
)  # fmt: skip
tokens = torch.randint(0, 64, (1, 9))
model = AutoModelForCausalLM.from_config(config).eval()
with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    before = model(tokens).logits
    model.save_pretrained(folder, max_shard_size="30KB")
    show(files=sorted(os.listdir(folder)), kind=AutoConfig.from_pretrained(folder).model_type)
    again = AutoModelForCausalLM.from_pretrained(folder).eval()
    show(same=torch.equal(again(tokens).logits, before), logits=before)
    half = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    show(dtype=half.dtype, close=(half(tokens).logits.float() - before).abs().max().item() < 0.05)
