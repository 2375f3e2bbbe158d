"""A transformer encoder over characters, with dropout, and text sampled from it."""

import torch
from torch import nn

torch.manual_seed(1337)
text = "to be or not to be that is the question whether tis nobler in the mind to suffer " * 4
letters = sorted(set(text))
data = torch.tensor([letters.index(c) for c in text])
context, width = 16, 24


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(len(letters), width)
        self.place = nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, 4, 48, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(letters))

    def forward(self, index):
        length = index.shape[1]
        x = self.token(index) + self.place(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.body(x, mask=mask, is_causal=True))


model = Model()
print(sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(16):
    start = torch.randint(len(data) - context, (8,))
    x = torch.stack([data[i : i + context] for i in start])
    y = torch.stack([data[i + 1 : i + context + 1] for i in start])
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.4f}")
model.eval()
index = torch.zeros(1, 1, dtype=torch.long)
with torch.no_grad():
    for _ in range(24):
        probabilities = model(index[:, -context:])[:, -1].softmax(-1)
        index = torch.cat([index, torch.multinomial(probabilities, 1)], 1)
print("".join(letters[i] for i in index[0].tolist()))
