"""T5: an encoder and a decoder with relative positions, and beams over both."""

import torch
from showing import gradients, show
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
config = T5Config(
    vocab_size=80, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
    decoder_start_token_id=0, feed_forward_proj="gated-gelu",
)  # fmt: skip
model = T5ForConditionalGeneration(config)
source, target = torch.randint(1, 80, (2, 9)), torch.randint(1, 80, (2, 6))
model.eval()
out = model(input_ids=source, labels=target)
out.loss.backward()
show(loss=out.loss, logits=out.logits, gradients=gradients(model))
with torch.no_grad():
    show(greedy=model.generate(source, max_new_tokens=6, do_sample=False).tolist())
    show(beams=model.generate(source, max_new_tokens=6, num_beams=4, do_sample=False).tolist())
