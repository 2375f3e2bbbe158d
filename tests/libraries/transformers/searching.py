"""Ways of generating: a helping model, guidance, constraints, biases, watermarks, caches."""

import torch
import transformers as tf
from showing import show

options = dict(
    vocab_size=67, hidden_size=32, intermediate_size=48, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3,
)  # fmt: skip
torch.manual_seed(0)
model = tf.LlamaForCausalLM(tf.LlamaConfig(**options, num_hidden_layers=2)).eval()
helper = tf.LlamaForCausalLM(tf.LlamaConfig(**options, num_hidden_layers=1)).eval()
torch.manual_seed(1)
tokens = torch.randint(3, 67, (1, 6))
greedy, sampled = {"do_sample": False}, {"do_sample": True}
for name, given in {
    "assisted": {"assistant_model": helper, **greedy},
    "assisted_sample": {"assistant_model": helper, **sampled},
    "lookup": {"prompt_lookup_num_tokens": 2, **greedy},
    "several": {"num_beams": 4, "num_return_sequences": 2, **greedy},
    "static": {"cache_implementation": "static", **greedy},
    "cut": {"epsilon_cutoff": 1e-3, "eta_cutoff": 1e-3, **sampled},
    "allowed": {"prefix_allowed_tokens_fn": lambda batch, ids: [5, 6, 7, 8], **greedy},
    "biased": {"sequence_bias": {(5,): 5.0, (7, 8): -3.0}, **greedy},
    "guided": {"guidance_scale": 1.5, **greedy},
    "decaying": {"exponential_decay_length_penalty": (2, 1.2), "num_beams": 2, **sampled},
    "watermark": {"watermarking_config": tf.WatermarkingConfig(bias=2.5), **sampled},
}.items():
    torch.manual_seed(5)
    show(**{name: model.generate(tokens, max_new_tokens=8, pad_token_id=0, **given).tolist()})
