"""A dataset and its batches by hand: a fixed shuffle, padding, masks, a running mean."""

import torch


class Sequences:
    def __init__(self, count):
        self.items = [torch.arange(1, 2 + (k * 5) % 7) * (k + 1) for k in range(count)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index], torch.tensor(index % 3)


def collate(pairs):
    sequences, labels = zip(*pairs)
    width = max(len(s) for s in sequences)
    batch = torch.full((len(sequences), width), -1)
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
    return batch, torch.stack(labels)


def shuffled(n, epoch):
    return ((torch.arange(n) * 7 + 3 * epoch) % n).tolist()


data = Sequences(11)
for epoch in range(2):
    order = shuffled(len(data), epoch)
    for start in range(0, len(order), 4):
        batch, labels = collate([data[i] for i in order[start : start + 4]])
        mask = batch.ne(-1)
        lengths = mask.sum(1)
        mean = batch.masked_fill(~mask, 0).sum(1) / lengths
        print(batch.shape, labels.tolist(), lengths.tolist(), mean)
print(batch)
first, rest = torch.tensor_split(batch, [1])
print(first, rest, sep="\n")
print([t.shape for t in batch.split(2, dim=1)], batch.chunk(2)[0].tolist())
features = torch.cat([s.float() for s in data.items])
mean, variance, count = torch.zeros(()), torch.zeros(()), 0
for value in features:
    count += 1
    delta = value - mean
    mean = mean + delta / count
    variance = variance + delta * (value - mean)
print(
    f"{mean:.4f} {variance / (count - 1):.4f}",
    torch.allclose(features.var(), variance / (count - 1)),
)
sorted_values, positions = features.sort(descending=True, stable=True)
print(sorted_values[:6].tolist(), positions[:6].tolist())
print(torch.bucketize(features[:8], torch.tensor([2.0, 5.0, 20.0])), features.quantile(0.5))
