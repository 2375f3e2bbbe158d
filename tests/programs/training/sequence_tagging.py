"""A conditional random field on a bidirectional LSTM; Viterbi decoding."""

import torch
from torch import nn


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.empty(tags))
        self.end = nn.Parameter(torch.empty(tags))
        self.transitions = nn.Parameter(torch.empty(tags, tags))
        self.reset_parameters()

    def reset_parameters(self):
        with torch.no_grad():
            for p in self.parameters():
                p.copy_((torch.arange(p.numel()) * 1.7).sin().view_as(p) * 0.3)

    def forward(self, emissions, tags, mask):
        return (self.normaliser(emissions, mask) - self.score(emissions, tags, mask)).mean()

    def score(self, emissions, tags, mask):
        batch = torch.arange(tags.size(0))
        score = self.start[tags[:, 0]] + emissions[batch, 0, tags[:, 0]]
        for t in range(1, tags.size(1)):
            step = self.transitions[tags[:, t - 1], tags[:, t]] + emissions[batch, t, tags[:, t]]
            score = score + step * mask[:, t]
        last = tags.gather(1, mask.long().sum(1, keepdim=True) - 1).squeeze(1)
        return score + self.end[last]

    def normaliser(self, emissions, mask):
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.size(1)):
            scores = alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1)
            alpha = torch.where(mask[:, t, None], torch.logsumexp(scores, dim=1), alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    @torch.no_grad()
    def decode(self, emissions, length):
        best, back = self.start + emissions[0], []
        for t in range(1, length):
            values, index = (best[:, None] + self.transitions).max(dim=0)
            best = values + emissions[t]
            back.append(index)
        path = [(best + self.end).argmax().item()]
        for index in reversed(back):
            path.append(index[path[-1]].item())
        return path[::-1]


class Tagger(nn.Module):
    def __init__(self, words, tags):
        super().__init__()
        self.embed = nn.Embedding(words, 8, max_norm=1.0)
        self.lstm = nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(12, tags)
        self.crf = CRF(tags)

    def forward(self, words):
        return self.out(self.lstm(self.embed(words))[0])


model = Tagger(20, 4)
with torch.no_grad():
    for k, (name, p) in enumerate(model.named_parameters()):
        if not name.startswith("crf"):
            p.copy_((torch.arange(p.numel()) * 0.43 + k).sin().view_as(p) * 0.4)
words = (torch.arange(6 * 7) * 11 % 19 + 1).view(6, 7)
lengths = torch.tensor([7, 5, 6, 3, 7, 4])
mask = torch.arange(7) < lengths[:, None]
tags = torch.where(mask, (words + words.roll(1, 1)) % 4, 0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.03, eps=1e-4)
for step in range(20):
    loss = model.crf(model(words), tags, mask)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    total = nn.utils.clip_grad_norm_(model.parameters(), 2.0, error_if_nonfinite=True)
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f} norm {total.item():.4f}")
with torch.no_grad():
    for row, emissions in enumerate(model(words)):
        n = lengths[row].item()
        print(tags[row, :n].tolist(), len(model.crf.decode(emissions, n)))
