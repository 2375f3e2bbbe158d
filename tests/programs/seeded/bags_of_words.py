"""Bags of words, a weighted sampler and a cosine schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader, WeightedRandomSampler

torch.manual_seed(5)
texts = [torch.randint(0, 40, (int(n),)) for n in torch.randint(3, 9, (60,))]
labels = [int((text < 15).sum() > len(text) // 2) for text in texts]
counts = torch.bincount(torch.tensor(labels)).float()
sampler = WeightedRandomSampler([1.0 / counts[label].item() for label in labels], 60)


def collate(batch):
    offsets = torch.tensor([0, *[len(text) for text, _ in batch[:-1]]]).cumsum(0)
    return torch.cat([text for text, _ in batch]), offsets, torch.tensor([y for _, y in batch])


loader = DataLoader(list(zip(texts, labels)), batch_size=12, sampler=sampler, collate_fn=collate)
embedding, head = nn.EmbeddingBag(40, 8), nn.Linear(8, 2)
nn.init.xavier_normal_(head.weight)
optimizer = torch.optim.AdamW([*embedding.parameters(), *head.parameters()], lr=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
for epoch in range(5):
    total = 0.0
    for words, offsets, y in loader:
        loss = nn.functional.cross_entropy(head(embedding(words, offsets)), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    schedule.step()
    print(epoch, f"{total / len(loader):.4f}", f"{schedule.get_last_lr()[0]:.4f}")
