"""Near thirty architectures from small configurations: a forward pass of each."""

import torch
from showing import show
from transformers import AutoConfig, AutoModel

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "num_key_value_heads": 2, "vocab_size": 90, "max_position_embeddings": 64,
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "head_dim": 8,
    "pad_token_id": 0, "embedding_size": 32,
}  # fmt: skip
DECODERS = "mistral qwen2 qwen3 gemma gemma2 phi phi3 gpt_neox gptj opt bloom falcon olmo stablelm"
ENCODERS = "roberta distilbert albert electra deberta-v2 mpnet camembert xlm-roberta nystromformer"
OTHERS = "bart mbart mixtral"
for kind in f"{DECODERS} {ENCODERS} {OTHERS}".split():
    torch.manual_seed(0)
    options = dict(SMALL)
    if kind == "gptj":
        options = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "rotary_dim": 4,
                   "vocab_size": 90, "n_positions": 64}  # fmt: skip
    elif kind == "bloom":
        options = {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 90}
    elif kind == "distilbert":
        options = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 90,
                   "max_position_embeddings": 64}  # fmt: skip
    elif kind == "opt":
        options |= {"ffn_dim": 48, "word_embed_proj_dim": 32}
    elif kind == "mixtral":
        options |= {"num_local_experts": 4}
    elif kind == "falcon":
        options |= {"new_decoder_architecture": False, "multi_query": True}
        options.pop("head_dim")
    if kind in ("bart", "mbart"):
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"):
            options.pop(name)
    model = AutoModel.from_config(AutoConfig.for_model(kind, **options)).eval()
    torch.manual_seed(1)
    tokens = torch.randint(3, 90, (2, 9))
    with torch.no_grad():
        out = model(tokens)
    show(**{kind: out[0]})
