"""Models with routed experts, state spaces, sliding windows and shared heads, small ones."""

import torch
import transformers as tf
from showing import gradients, show

small = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
models = {
    "mixtral": tf.MixtralForCausalLM(
        tf.MixtralConfig(**small, num_local_experts=4, num_experts_per_tok=2)
    ),
    "qwen2": tf.Qwen2ForCausalLM(tf.Qwen2Config(**small)),
    "qwen3": tf.Qwen3ForCausalLM(tf.Qwen3Config(**small, head_dim=8)),
    "gemma2": tf.Gemma2ForCausalLM(tf.Gemma2Config(**small, head_dim=8, sliding_window=6)),
    "mistral": tf.MistralForCausalLM(tf.MistralConfig(**small, sliding_window=5)),
    "phi3": tf.Phi3ForCausalLM(tf.Phi3Config(**small)),
    "olmo2": tf.Olmo2ForCausalLM(tf.Olmo2Config(**small)),
    "mamba": tf.MambaForCausalLM(
        tf.MambaConfig(vocab_size=61, hidden_size=32, state_size=8, num_hidden_layers=2)
    ),
}
for name, model in models.items():
    torch.manual_seed(0)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)
    tokens = torch.arange(20).reshape(2, 10) % 57 + 3
    model.train()
    out = model(tokens, labels=tokens)
    out.loss.backward()
    show(**{name: out.loss, f"{name}_gradients": gradients(model)})
    model.eval()
    with torch.no_grad():
        found = model.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0)
    show(**{f"{name}_text": found[:, 10:].tolist()})
