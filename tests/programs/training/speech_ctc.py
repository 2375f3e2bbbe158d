"""Speech in miniature: spectrograms, a convolutional recurrent net, CTC, greedy decoding."""

import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS, HOP, FRAME = 6, 32, 64


def speak(word):
    """Each symbol is a tone of its own."""
    time = torch.arange(160) / 160
    return torch.cat([torch.sin(2 * torch.pi * (5 + 9 * s) * time) * 0.8 for s in word])


words = [[1, 3, 2], [4, 4], [5, 1, 2, 3], [2, 5]]
waves = [speak(word) for word in words]
longest = max(len(w) for w in waves)
batch = torch.stack([F.pad(w, (0, longest - len(w))) for w in waves])
spectrum = torch.stft(
    batch, FRAME, hop_length=HOP, window=torch.hann_window(FRAME), return_complex=True
)
features = torch.log1p(spectrum.abs())
frames = torch.tensor([1 + len(w) // HOP for w in waves])
print(tuple(features.shape), frames.tolist())


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(FRAME // 2 + 1, 24, 3, padding=1)
        self.norm = nn.GroupNorm(4, 24)
        self.rnn = nn.LSTM(24, 16, bidirectional=True)
        self.out = nn.Linear(32, SYMBOLS)

    def forward(self, x):
        h = F.relu(self.norm(self.conv(x)))
        h, _ = self.rnn(h.permute(2, 0, 1))
        return self.out(h).log_softmax(-1)


model = Listener()
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        if k not in (2, 3):
            p.copy_((torch.arange(p.numel()) * 0.29 + k).sin().view_as(p) * 0.25)
optimizer = torch.optim.Adam(model.parameters(), lr=0.04)
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
targets = torch.tensor([s for word in words for s in word])
lengths = torch.tensor([len(word) for word in words])
for step in range(30):
    optimizer.zero_grad()
    log_probs = model(features)
    loss = criterion(log_probs, targets, frames, lengths)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

padded = torch.zeros(4, 4, dtype=torch.long)
for row, word in zip(padded, words):
    row[: len(word)] = torch.tensor(word)
with torch.no_grad():
    log_probs = model(features)
    each = F.ctc_loss(log_probs, padded, frames, lengths, reduction="none")
print([f"{v:.4f}" for v in each.tolist()])
for k in range(4):
    best = log_probs[: frames[k], k].argmax(-1)
    symbols = torch.unique_consecutive(best)
    print(words[k], symbols[symbols != 0].tolist())
