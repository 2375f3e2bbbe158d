"""Skip-gram with negative samples: sparse gradients into SparseAdam, then nearest words."""

import torch
import torch.nn.functional as F
from torch import nn

TEXT = (
    "the king rules the land and the queen rules the land "
    "the dog chases the cat and the cat chases the mouse "
    "a king and a queen sat on a throne while a dog and a cat sat on a mat"
)
text = TEXT.split()
vocabulary = sorted(set(text))
index = {word: k for k, word in enumerate(vocabulary)}
ids = [index[word] for word in text]
pairs = [
    (ids[i], ids[j])
    for i in range(len(ids))
    for j in range(max(0, i - 2), min(len(ids), i + 3))
    if i != j
]


class SkipGram(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.center = nn.Embedding(words, size, sparse=True)
        self.context = nn.Embedding(words, size, sparse=True)

    def forward(self, center, context, negative):
        c = self.center(center)
        positive = (c * self.context(context)).sum(-1)
        wrong = torch.bmm(self.context(negative), c.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(positive) + F.logsigmoid(-wrong).sum(1)).mean()


model = SkipGram(len(vocabulary), 8)
with torch.no_grad():
    n = len(vocabulary) * 8
    model.center.weight.copy_((torch.arange(n) * 0.37).sin().view(-1, 8) * 0.3)
    model.context.weight.copy_((torch.arange(n) * 0.53).cos().view(-1, 8) * 0.3)
optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
size = 16
for step in range(20):
    start = step * size % (len(pairs) - size)
    center, context = torch.tensor(pairs[start : start + size]).unbind(1)
    negative = (torch.arange(size * 3) * 7 + step * 3).remainder(len(vocabulary)).view(size, 3)
    loss = model(center, context, negative)
    optimizer.zero_grad()
    loss.backward()
    grad = model.center.weight.grad
    if step == 0:
        print(grad.is_sparse, grad.layout, tuple(grad.shape), grad._nnz())
        print("touched rows", grad.coalesce().indices().tolist())
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

vectors = F.normalize(model.center.weight.detach(), dim=1)
similarity = vectors @ vectors[index["king"]]
print(f"king . queen {similarity[index['queen']].item():.4f}")

bag = nn.EmbeddingBag(len(vocabulary), 8, mode="mean", sparse=True)
with torch.no_grad():
    bag.weight.copy_(model.center.weight)
sgd = torch.optim.SGD(bag.parameters(), lr=0.5)
words, offsets = torch.tensor(ids[:12]), torch.tensor([0, 5, 9])
for step in range(4):
    sgd.zero_grad()
    loss = (bag(words, offsets) - 0.5).square().sum()
    loss.backward()
    sgd.step()
    print(f"bag {step} loss {loss.item():.5f}")
