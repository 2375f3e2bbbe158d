"""Other ways to adapt: IA3, prefixes, prompts, DoRA, LoHa, OFT, VeRA, BOFT."""

import torch
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoHaConfig,
    LoKrConfig,
    LoraConfig,
    OFTConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
    VeraConfig,
    get_peft_model,
)
from showing import gradients, show
from transformers import GPT2Config, GPT2LMHeadModel

LAYERS = {"target_modules": ["c_fc"], "task_type": "CAUSAL_LM"}
WAYS = {
    "ia3": IA3Config(target_modules=["c_attn", "c_fc"], feedforward_modules=["c_fc"], task_type="CAUSAL_LM"),
    "prefix": PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "prompt": PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    "dora": LoraConfig(r=2, use_dora=True, fan_in_fan_out=True, **LAYERS),
    "rslora": LoraConfig(r=2, use_rslora=True, init_lora_weights="gaussian", fan_in_fan_out=True, **LAYERS),
    "adalora": AdaLoraConfig(init_r=3, target_r=2, total_step=10, fan_in_fan_out=True, **LAYERS),
}  # fmt: skip
for name, config in WAYS.items():
    torch.manual_seed(0)
    base = GPT2LMHeadModel(
        GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    )
    model = get_peft_model(base.eval(), config).eval()
    tokens = torch.randint(0, 40, (2, 8))
    out = model(input_ids=tokens, labels=tokens)
    out.loss.backward()
    show(**{name: out.loss, f"{name}_gradients": gradients(model)})
for name, config in {"loha": LoHaConfig(r=2, target_modules=["0", "2"]),
                     "lokr": LoKrConfig(r=2, target_modules=["0", "2"]),
                     "oft": OFTConfig(oft_block_size=4, r=0, target_modules=["0", "2"]),
                     "vera": VeraConfig(r=2, target_modules=["0"])}.items():  # fmt: skip
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4))
    model = get_peft_model(net, config)
    out = model(torch.randn(5, 8))
    out.square().sum().backward()
    show(**{name: out, f"{name}_gradients": gradients(model)})
