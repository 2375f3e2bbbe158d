"""A character-level bigram model: counts first, then the same by an embedding and gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F

text = "the quick brown fox jumps over the lazy dog and the dog sleeps there then "
letters = sorted(set(text))
to_id = {letter: number for number, letter in enumerate(letters)}
ids = torch.tensor([to_id[letter] for letter in text])
size = len(letters)
print("vocabulary", size, "".join(letters), ids.dtype, ids[:8])

counts = torch.zeros(size, size)
counts.index_put_((ids[:-1], ids[1:]), torch.ones(len(ids) - 1), accumulate=True)
smooth = (counts + 1) / (counts + 1).sum(1, keepdim=True)
nll = -smooth[ids[:-1], ids[1:]].log().mean()
print(f"count model {nll:.4f}")


class Bigram(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(size, size)

    def forward(self, index, targets=None):
        logits = self.table(index)
        loss = None if targets is None else F.cross_entropy(logits, targets)
        return logits, loss

    @torch.no_grad()
    def generate(self, start, count):
        out = [start]
        for _ in range(count):
            logits, _ = self(torch.tensor([out[-1]]))
            out.append(F.softmax(logits, dim=-1).argmax(-1).item())
        return "".join(letters[i] for i in out)


model = Bigram()
nn.init.zeros_(model.table.weight)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
for step in range(101):
    _, loss = model(ids[:-1], ids[1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, f"{loss.item():.3f}")
print(repr(model.generate(to_id["t"], 12)))
print(model.table.weight.grad.abs().sum(1).gt(1e-6).sum())
