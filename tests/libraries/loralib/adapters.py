"""Layers with LoRA by loralib, merged and not, and their states."""

import loralib as lora
import torch

from showing import gradients, show

torch.manual_seed(0)
net = torch.nn.Sequential(
    lora.Embedding(20, 8, r=2), lora.Linear(8, 8, r=4, lora_alpha=8, lora_dropout=0.1), torch.nn.ReLU(),
    lora.MergedLinear(8, 12, r=2, enable_lora=[True, False, True]),
)  # fmt: skip
for name, p in net.named_parameters():
    if "lora" in name:
        torch.nn.init.normal_(p, std=0.3)
lora.mark_only_lora_as_trainable(net, bias="lora_only")
x = torch.randint(0, 20, (3, 5))
out = net(x)
out.square().mean().backward()
show(out=out, gradients=gradients(net), state=sorted(lora.lora_state_dict(net)))
net.eval()
show(merged=net(x), weight=net[1].weight)
net.train()
show(unmerged=net[1].weight)
conv = lora.Conv2d(3, 4, kernel_size=3, r=2)
torch.nn.init.normal_(conv.lora_B)
show(conv=conv(torch.randn(1, 3, 6, 6)))
