"""A character language model: embedding, two LSTM layers, truncated backpropagation, clipping."""

import math

import torch
import torch.nn as nn

TEXT = (
    "the rush was peeled and dipped in fat, and the light it gave was small. "
    "one rush burned for half an hour, and a pound of fat dipped a thousand. "
    "so the poor had light at little cost, and the rich had wax and smoke. "
) * 2


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class Corpus:
    def __init__(self, text):
        self.words = sorted(set(text))
        index = {word: k for k, word in enumerate(self.words)}
        self.ids = torch.tensor([index[c] for c in text])

    def batchify(self, batch_size):
        steps = self.ids.size(0) // batch_size
        return self.ids.narrow(0, 0, steps * batch_size).view(batch_size, -1).t().contiguous()


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid, self.nlayers = nhid, nlayers
        self.init_weights()

    def init_weights(self):
        with torch.no_grad():
            for seed, (name, weight) in enumerate(self.named_parameters()):
                if "bias" in name:
                    nn.init.zeros_(weight)
                else:
                    weight.copy_(values(weight.numel(), seed).view_as(weight) * 0.3)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(output), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (
            weight.new_zeros(self.nlayers, bsz, self.nhid),
            weight.new_zeros(self.nlayers, bsz, self.nhid),
        )


def repackage_hidden(h):
    """The same values, without the history behind them."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


corpus = Corpus(TEXT)
data = corpus.batchify(4)
ntokens = len(corpus.words)
model = RNNModel(ntokens, 16, 32, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.99))
bptt = 10
hidden = model.init_hidden(4)
model.train()
for step in range(20):
    start = (step * bptt) % (len(data) - 1 - bptt)
    source = data[start : start + bptt]
    target = data[start + 1 : start + 1 + bptt].reshape(-1)
    hidden = repackage_hidden(hidden)
    model.zero_grad()
    output, hidden = model(source, hidden)
    loss = criterion(output.view(-1, ntokens), target)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    print(f"{step:2d} loss {loss.item():.6f} ppl {math.exp(loss.item()):.4f} norm {norm:.5f}")

model.eval()
with torch.no_grad():
    hidden = model.init_hidden(1)
    token, total = corpus.ids[:1].view(1, 1), 0.0
    for following in corpus.ids[1:31]:
        output, hidden = model(token, hidden)
        total += nn.functional.cross_entropy(output[-1], following.view(1)).item()
        token = following.view(1, 1)
    print(f"read aloud: {total / 30:.6f}")
    word_weights = output.squeeze().div(0.7).exp()
    print(f"{word_weights.sum():.4f}")
