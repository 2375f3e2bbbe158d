"""Thirty language models: a loss with its gradients, and eight words each."""

import torch
import transformers as tf
from showing import gradients, show

size = dict(
    vocab_size=67, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=64,
)  # fmt: skip
few = {**size, "num_key_value_heads": 2}
heads = {**few, "head_dim": 8}
experts = {**few, "num_experts_per_tok": 2}
short = {"vocab_size": 67, "hidden_size": 32, "num_hidden_layers": 2}
models = {
    "Mistral": {**few, "sliding_window": 5},
    "Qwen2": few,
    "Qwen3": heads,
    "Gemma": heads,
    "Gemma2": {**heads, "sliding_window": 4, "query_pre_attn_scalar": 8},
    "Phi": size,
    "Phi3": {**few, "pad_token_id": 0},
    "Mixtral": {**experts, "num_local_experts": 4, "output_router_logits": True},
    "Qwen2Moe": {
        **experts, "num_experts": 4, "moe_intermediate_size": 24, "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 24,
    },
    "GptOss": {**experts, "head_dim": 8, "num_local_experts": 4, "sliding_window": 4},
    "DeepseekV3": {
        **size, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "q_lora_rank": 16,
        "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8,
        "first_k_dense_replace": 1,
    },
    "StableLm": few,
    "Olmo": few,
    "Olmo2": few,
    "Starcoder2": few,
    "GPTNeoX": size,
    "Cohere": few,
    "Granite": few,
    "Persimmon": size,
    "Glm": {**heads, "pad_token_id": 0},
    "Nemotron": few,
    "SmolLM3": {**few, "pad_token_id": 0},
    "Ernie4_5": few,
    "Exaone4": {**heads, "sliding_window": 4},
    "Lfm2": {**few, "layer_types": ["conv", "full_attention"]},
    "OPT": {**short, "ffn_dim": 48, "num_attention_heads": 4, "word_embed_proj_dim": 32},
    "Bloom": {"vocab_size": 67, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "Falcon": {**short, "num_attention_heads": 4},
    "GPTJ": {"vocab_size": 67, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
    "Mamba": {**short, "state_size": 4},
    "Mamba2": {
        **short, "state_size": 8, "head_dim": 8, "num_heads": 8, "n_groups": 2, "chunk_size": 4,
    },
    "Rwkv": {**short, "context_length": 32},
}  # fmt: skip
for name, options in models.items():
    torch.manual_seed(0)
    model = getattr(tf, f"{name}ForCausalLM")(getattr(tf, f"{name}Config")(**options)).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tokens = torch.randint(3, 67, (2, 10))
    out = model(input_ids=tokens, labels=tokens)
    out.loss.backward()
    found = [out.loss, out.logits.mean(), gradients(model)]
    model.eval()
    with torch.no_grad():
        said = model.generate(tokens[:, :5], max_new_tokens=8, do_sample=False, pad_token_id=0)
    show(**{name: found, f"{name}_said": said.tolist()})
