"""An encoder and decoder that learn to reverse sequences, with label smoothing and warm-up."""

import math

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR

PAD, BOS, EOS = 0, 1, 2


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, maxlen=64):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        table = torch.zeros((maxlen, emb_size))
        table[:, 0::2] = torch.sin(pos * den)
        table[:, 1::2] = torch.cos(pos * den)
        self.register_buffer("pos_embedding", table.unsqueeze(0), persistent=False)

    def forward(self, tokens):
        return tokens + self.pos_embedding[:, : tokens.size(1), :]


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary, emb_size=32, nhead=4, layers=2, feedforward=48):
        super().__init__()
        self.emb_size = emb_size
        self.transformer = nn.Transformer(
            d_model=emb_size,
            nhead=nhead,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            dim_feedforward=feedforward,
            dropout=0.0,
            batch_first=True,
        )
        self.embed = nn.Embedding(vocabulary, emb_size, padding_idx=PAD)
        self.generator = nn.Linear(emb_size, vocabulary)
        self.positional_encoding = PositionalEncoding(emb_size)

    def forward(self, src, trg):
        source = self.positional_encoding(self.embed(src) * math.sqrt(self.emb_size))
        target = self.positional_encoding(self.embed(trg) * math.sqrt(self.emb_size))
        causal = torch.triu(torch.ones(trg.size(1), trg.size(1), dtype=torch.bool), diagonal=1)
        outs = self.transformer(
            source,
            target,
            tgt_mask=causal,
            src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=trg == PAD,
            memory_key_padding_mask=src == PAD,
        )
        return self.generator(outs)


def batch_of(step, size=6, vocabulary=13):
    sources, targets = [], []
    for k in range(size):
        length = 3 + (step + k) % 4
        body = [3 + (step * 7 + k * 5 + j * j) % (vocabulary - 3) for j in range(length)]
        sources.append(torch.tensor([*body, EOS]))
        targets.append(torch.tensor([BOS, *reversed(body), EOS]))
    pad = nn.utils.rnn.pad_sequence
    return (
        pad(sources, batch_first=True, padding_value=PAD),
        pad(targets, batch_first=True, padding_value=PAD),
    )


def noam(step, emb_size=32, warmup=8, factor=0.3):
    step = max(step, 1)
    return factor * emb_size**-0.5 * min(step**-0.5, step * warmup**-1.5)


model = Seq2Seq(13)
for seed, (name, p) in enumerate(model.named_parameters()):
    if p.dim() > 1:
        fan_out, fan_in = p.shape
        with torch.no_grad():
            p.copy_(values(p.numel(), seed).view_as(p) * math.sqrt(6 / (fan_in + fan_out)))
    elif "bias" in name:
        nn.init.zeros_(p)
loss_fn = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
lr_scheduler = LambdaLR(optimizer, lr_lambda=noam)
model.train()
for step in range(20):
    src, tgt = batch_of(step)
    logits = model(src, tgt[:, :-1])
    optimizer.zero_grad()
    loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[:, 1:].reshape(-1))
    loss.backward()
    rate = optimizer.param_groups[0]["lr"]
    optimizer.step()
    lr_scheduler.step()
    print(f"step {step:2d} loss {loss.item():.5f} lr {rate:.3e} tokens {(tgt != PAD).sum().item()}")

model.eval()
with torch.no_grad():
    src, tgt = batch_of(40)
    logits = model(src, tgt[:, :-1])
    held_out = loss_fn(logits.transpose(1, 2), tgt[:, 1:])
    print(f"held out {held_out.item():.5f}")
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    print(mask)
