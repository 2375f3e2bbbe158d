"""GPT-2: a loss and its gradients, then text by greedy, beam and sampled search."""

import torch
from showing import gradients, show
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=64, n_embd=32, n_layer=2, n_head=4))
tokens = torch.randint(0, 97, (2, 12))
model.train()
out = model(tokens, labels=tokens)
out.loss.backward()
show(loss=out.loss, logits=out.logits, gradients=gradients(model))

model.eval()
options = {"max_new_tokens": 8, "pad_token_id": 0}
with torch.no_grad():
    show(greedy=model.generate(tokens, do_sample=False, **options).tolist())
    show(uncached=model.generate(tokens, do_sample=False, use_cache=False, **options).tolist())
    show(beams=model.generate(tokens, do_sample=False, num_beams=3, **options).tolist())
    torch.manual_seed(1)
    show(sampled=model.generate(tokens, do_sample=True, top_k=20, **options).tolist())
    torch.manual_seed(2)
    nucleus = model.generate(tokens, do_sample=True, top_p=0.8, temperature=0.7, **options)
    show(nucleus=nucleus.tolist())
