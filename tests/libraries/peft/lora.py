"""LoRA on a causal model: training the adapter, saving it, loading and merging it."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from showing import gradients, show
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
)
base = LlamaForCausalLM(config)
weights = {name: tensor.clone() for name, tensor in base.state_dict().items()}
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
tokens = torch.randint(0, 60, (4, 10))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
losses = []
for _ in range(4):
    optimizer.zero_grad()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
show(losses=losses, gradients=gradients(model), counts=model.get_nb_trainable_parameters())
model.eval()
with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    out = model(input_ids=tokens).logits
    model.save_pretrained(folder)
    fresh = LlamaForCausalLM(config)
    fresh.load_state_dict(weights)
    again = PeftModel.from_pretrained(fresh, folder).eval()
    show(logits=out, loaded=torch.allclose(again(input_ids=tokens).logits, out, atol=1e-5))
    merged = again.merge_and_unload()
    show(merged=torch.allclose(merged(input_ids=tokens).logits, out, atol=1e-4))
    with model.disable_adapter():
        show(without=model(input_ids=tokens).logits)
