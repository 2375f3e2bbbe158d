"""A GRU encoder over packed sequences and an attentive GRU decoder learn to reverse words."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

START, PAD, WORDS, SIZE = 1, 0, 12, 16


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE, padding_idx=PAD)
        self.gru = nn.GRU(SIZE, SIZE, batch_first=True, bidirectional=True)
        self.join = nn.Linear(2 * SIZE, SIZE)

    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embed(source), lengths, batch_first=True, enforce_sorted=False
        )
        output, hidden = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        return self.join(output), torch.tanh(self.join(torch.cat([hidden[0], hidden[1]], dim=1)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.cell = nn.GRUCell(2 * SIZE, SIZE)
        self.out = nn.Linear(SIZE, WORDS)

    def forward(self, memory, mask, hidden, target):
        word = torch.full((target.size(0),), START, dtype=torch.long)
        logits = []
        for t in range(target.size(1)):
            scores = torch.einsum("bh,bth->bt", hidden, memory).masked_fill(~mask, float("-inf"))
            context = torch.einsum("bt,bth->bh", scores.softmax(1), memory)
            hidden = self.cell(torch.cat([self.embed(word), context], dim=1), hidden)
            logits.append(self.out(hidden))
            word = target[:, t]
        return torch.stack(logits, dim=1)


def initialise(module, scale):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_((torch.arange(p.numel()) * 0.37 + 1.3 * k).sin().view_as(p) * scale)


encoder, decoder = Encoder(), Decoder()
initialise(encoder, 0.3)
initialise(decoder, 0.3)
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01, eps=1e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
lengths = torch.tensor([4, 6, 3, 5, 6])
sentences = [
    torch.tensor([(k * 5 + i * i * 3) % 10 + 2 for i in range(n)])
    for k, n in enumerate(lengths.tolist())
]
source = pad_sequence(sentences, batch_first=True, padding_value=PAD)
target = pad_sequence([s.flip(0) for s in sentences], batch_first=True, padding_value=PAD)
mask = torch.arange(source.size(1))[None, :] < lengths[:, None]
for step in range(20):
    optimizer.zero_grad()
    memory, hidden = encoder(source, lengths)
    logits = decoder(memory, mask, hidden, target)
    loss = criterion(logits.transpose(1, 2), target)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f} norm {norm.item():.4f}")
correct = (logits.argmax(-1) == target)[target != PAD].float().mean()
print(f"right {correct.item():.3f}")
