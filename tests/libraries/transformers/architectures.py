"""79 architectures from small configurations: a forward and a backward pass of each."""

import torch
from showing import gradients, show
from transformers import AutoConfig, AutoModel

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "num_key_value_heads": 2,
    "vocab_size": 90,
    "max_position_embeddings": 64,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "head_dim": 8,
    "pad_token_id": 0,
    "embedding_size": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_embd": 32,
    "d_inner": 48,
    "d_head": 8,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "attention_window": 4,
    "block_size": 4,
    "state_size": 8,
    "n_layers": 2,
    "n_heads": 4,
    "emb_dim": 32,
    "rotary_dim": 4,
    "num_layers": 2,
    "n_positions": 64,
    "n_ctx": 64,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
    "n_shared_experts": 1,
    "shared_expert_intermediate_size": 16,
    "num_heads": 4,
    "expand": 2,
    "lru_width": 32,
    "attention_types": [[["global", "local"], 1]],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 2,
    "d_ff": 48,
    "d_kv": 8,
    "dropout": 0.0,
}
KINDS = """
longformer big_bird codegen gpt_bigcode led pegasus blenderbot blenderbot-small marian m2m_100
fnet canine ibert squeezebert layoutlm mobilebert deberta yoso mra convbert roformer rembert esm
splinter xlm flaubert ctrl gpt_neo openai-gpt biogpt xglm cohere granite granitemoe starcoder2
glm glm4 nemotron olmoe qwen2_moe qwen3_moe deepseek_v2 jetmoe phimoe persimmon mpt falcon_mamba
gemma3_text helium smollm3 ernie ernie4_5 lfm2 modernbert data2vec-text roberta-prelayernorm
megatron-bert tapas mt5 umt5 plbart nllb-moe bigbird_pegasus xlm-roberta-xl mvp seed_oss
hunyuan_v1_dense arcee dots1 minimax apertus exaone4 vaultgemma gpt_oss llama4_text diffllama
doge cohere2 bitnet
"""
for kind in KINDS.split():
    config = AutoConfig.for_model(kind, **SMALL)
    torch.manual_seed(0)
    model = AutoModel.from_config(config).eval()
    torch.manual_seed(1)
    tokens = torch.randint(3, 90, (2, 12))
    more = {"decoder_input_ids": tokens} if config.is_encoder_decoder else {}
    out = model(tokens, **more)[0]
    out.square().mean().backward()
    show(**{kind: out, f"{kind}_gradients": gradients(model)})
