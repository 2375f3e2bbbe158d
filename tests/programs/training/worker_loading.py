"""Sentences of different lengths, padded by a collate function in two worker processes."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Sentences(Dataset):
    """The label says whether even words are the majority."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        length = 3 + index * 7 % 6
        words = torch.tensor([(index * 13 + k * k * 5) % 20 + 1 for k in range(length)])
        label = float((words % 2 == 0).sum() * 2 > length)
        return words, label


def collate(samples):
    words, labels = zip(*samples)
    lengths = torch.tensor([len(w) for w in words])
    padded = pad_sequence(words, batch_first=True)
    info = get_worker_info()
    return padded, lengths, torch.tensor(labels), info.id, info.num_workers


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(21, 8, padding_idx=0)
        self.hidden = nn.Linear(8, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, words, lengths):
        mean = self.embed(words).sum(1) / lengths.unsqueeze(1)
        return self.out(torch.tanh(self.hidden(mean))).squeeze(1)


def main():
    model = BagOfWords()
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_((torch.arange(p.numel()) * 0.73 + k).cos().view_as(p) * 0.6)
        model.embed.weight[0] = 0
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    loss_fn = nn.BCEWithLogitsLoss()
    loader = DataLoader(
        Sentences(), batch_size=10, num_workers=2, collate_fn=collate, persistent_workers=True
    )
    for epoch in range(5):
        for words, lengths, labels, worker, workers in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words, lengths), labels)
            loss.backward()
            optimizer.step()
            print(epoch, tuple(words.shape), f"worker {worker} of {workers} loss {loss:.5f}")
    print("padding stays zero:", bool((model.embed.weight[0] == 0).all()))


if __name__ == "__main__":
    main()
