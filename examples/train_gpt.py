"""Trains a small GPT, character by character, on Shakespeare's sonnets, and lets it write.

Plain PyTorch: run it with `rushlight run examples/train_gpt.py`, or with torch installed, `python`.
"""

import argparse
import itertools
import math
import struct
import sys
import time
import zlib
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = Path(__file__).resolve().parent / "data" / "sonnets.txt"


# -- the model -------------------------------------------------------------------------------------


class Block(nn.Module):
    """Each place looks at the places before it, then thinks on its own."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    def __init__(self, symbols, length, layers, width, heads, dropout):
        super().__init__()
        self.length = length
        self.symbol = nn.Embedding(symbols, width)
        self.place = nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, symbols, bias=False)
        # One table reads and writes.
        self.head.weight = self.symbol.weight
        self.apply(self.initialise)

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, text):
        places = torch.arange(text.shape[1], device=text.device)
        x = self.dropout(self.symbol(text) + self.place(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def write(self, text, count, temperature, generator):
        """`text` (1 x length) with `count` more symbols."""
        self.eval()
        for _ in range(count):
            scores = self(text[:, -self.length :])[:, -1] / temperature
            drawn = torch.multinomial(scores.softmax(dim=-1), 1, generator=generator)
            text = torch.cat([text, drawn], dim=1)
        return text


# -- training --------------------------------------------------------------------------------------


def crops(text, batch, length, generator):
    """Random pieces of the text, and the same pieces one symbol later."""
    starts = torch.randint(len(text) - length, (batch, 1), generator=generator)
    chosen = starts + torch.arange(length)
    return text[chosen], text[chosen + 1]


def loss_of(model, given, wanted):
    return F.cross_entropy(model(given).flatten(0, 1), wanted.flatten())


@torch.no_grad()
def validation_loss(model, text, length):
    """The mean over the whole text, cut into pieces."""
    model.eval()
    pieces = (len(text) - 1) // length
    given = text[: pieces * length].view(pieces, length)
    wanted = text[1 : pieces * length + 1].view(pieces, length)
    loss = loss_of(model, given, wanted).item()
    model.train()
    return loss


def make_optimizer(model, lr):
    """AdamW that lets matrices decay, and leaves biases and norms alone."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.99))


def rate_at(step, steps):
    """Part of the highest learning rate: up in a tenth of the steps, then down along a cosine."""
    warmup = max(1, steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2


# -- what is shown ---------------------------------------------------------------------------------


class Progress:
    """A bar that stays on its line in a terminal, and a line now and then elsewhere."""

    def __init__(self, total):
        self.total = total
        self.start = time.perf_counter()
        self.terminal = sys.stdout.isatty()
        self.lines = {max(1, round(total * part / 10)) for part in range(1, 11)}

    def show(self, step, text):
        seconds = time.perf_counter() - self.start
        left = seconds / step * (self.total - step)
        if self.terminal:
            eighths = 24 * 8 * step // self.total
            bar = "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths < 24 * 8 else "")
            line = f"{bar:24s}▏ {step}/{self.total}  {text}  {seconds:.0f} s, {left:.0f} s to go"
            print(f"\r\033[K{line}", end="\n" if step == self.total else "", flush=True)
        elif step in self.lines:
            print(f"step {step}/{self.total}  {text}  {seconds:.0f} s", flush=True)


def smoothed(values, keep=0.9):
    found, total, weight = [], 0.0, 0.0
    for value in values:
        total, weight = keep * total + (1 - keep) * value, keep * weight + 1 - keep
        found.append(total / weight)
    return found


def print_curve(values, width=72, height=12):
    """The curve as columns of block characters."""
    columns = min(width, len(values))
    heights = []
    for column in range(columns):
        part = values[column * len(values) // columns : (column + 1) * len(values) // columns]
        heights.append(sum(part) / len(part))
    low, high = math.floor(min(heights)), math.ceil(max(heights))
    for row in reversed(range(height)):
        cells = ""
        for value in heights:
            eighths = round((value - low) / (high - low) * height * 8) - row * 8
            cells += " ▁▂▃▄▅▆▇█"[min(8, max(0, eighths))]
        label = f"{low + (high - low) * (row + 1) / height:5.2f}" if row % 4 == 3 else ""
        print(f"{label:>5s} │{cells}")
    print(f"{low:5.2f} └{'─' * columns}")


# Five rows of three pixels, each row a digit in base eight.
GLYPHS = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71122", "8": "75757", "9": "75717", ".": "00002",
}  # fmt: skip


class Picture:
    """A white sheet to draw on, saved as PNG."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.rows = [bytearray(b"\xff" * (3 * width)) for _ in range(height)]

    def dot(self, x, y, colour, size=1):
        for row in range(max(0, y), min(self.height, y + size)):
            for column in range(max(0, x), min(self.width, x + size)):
                self.rows[row][3 * column : 3 * column + 3] = bytes(colour)

    def line(self, points, colour, size=1):
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            count = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
            for i in range(count + 1):
                part = i / count
                x, y = round(x0 + (x1 - x0) * part), round(y0 + (y1 - y0) * part)
                self.dot(x, y, colour, size)

    def write(self, x, y, text, colour, scale=2):
        for place, symbol in enumerate(text):
            for row, bits in enumerate(GLYPHS[symbol]):
                for column in range(3):
                    if int(bits) & 4 >> column:
                        left = x + (4 * place + column) * scale
                        self.dot(left, y + row * scale, colour, scale)

    def save(self, path):
        def chunk(name, data):
            check = zlib.crc32(name + data)
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in self.rows), 9)
        parts = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def save_curve(path, losses, checks):
    """Training loss (grey, smoothed blue) and validation loss (orange); a grid line per 0.5."""
    width, height, edge = 960, 540, 40
    picture = Picture(width, height)
    high = math.ceil(2 * max(losses)) / 2
    low = math.floor(2 * min(losses + [loss for _, loss in checks])) / 2

    def place(step, loss):
        x = edge + (width - 2 * edge) * step / len(losses)
        return x, edge + (height - 2 * edge) * (high - loss) / (high - low)

    for i in range(round(2 * (high - low)) + 1):
        level = low + i / 2
        shade = (150, 150, 150) if level == low else (225, 225, 225)
        picture.line([place(0, level), place(len(losses), level)], shade)
        picture.write(8, round(place(0, level)[1]) - 5, f"{level:.1f}", (90, 90, 90))
    picture.line([place(0, low), place(0, high)], (150, 150, 150))
    last = str(len(losses))
    picture.write(width - edge - 8 * len(last), height - edge + 10, last, (90, 90, 90))
    picture.line([place(i + 1, loss) for i, loss in enumerate(losses)], (200, 212, 226))
    picture.line([place(i + 1, v) for i, v in enumerate(smoothed(losses))], (31, 90, 160), size=3)
    picture.line([place(step, loss) for step, loss in checks], (224, 122, 31), size=3)
    picture.save(path)


# -- the program -----------------------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64, help="symbols that the model sees")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--lr", type=float, default=6e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=320, help="symbols to write at the end")
    parser.add_argument("--out", default="loss.png", help="the picture of the loss curve")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    return options


def train(model, text, checked, options, generator):
    """The training losses, and (step, validation loss) now and then."""
    optimizer = make_optimizer(model, options.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: rate_at(s, options.steps))
    progress = Progress(options.steps)
    losses, checks = [], [(0, validation_loss(model, checked, options.length))]
    every = max(1, options.steps // 10)
    for step in range(1, options.steps + 1):
        given, wanted = crops(text, options.batch, options.length, generator)
        loss = loss_of(model, given, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % every == 0 or step == options.steps:
            checks.append((step, validation_loss(model, checked, options.length)))
        recent, checked_loss = smoothed(losses[-40:])[-1], checks[-1][1]
        progress.show(step, f"loss {recent:.3f}  validation {checked_loss:.3f}")
    return losses, checks


def main():
    options = parse()
    text = TEXT.read_text(encoding="ascii")
    symbols = sorted(set(text))
    number = {symbol: i for i, symbol in enumerate(symbols)}
    numbers = torch.tensor([number[symbol] for symbol in text])
    held_back = len(numbers) // 10

    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    sizes = (options.length, options.layers, options.width, options.heads, options.dropout)
    model = GPT(len(symbols), *sizes)
    count = sum(p.numel() for p in model.parameters())
    print(f"{len(text)} characters, {len(symbols)} symbols; {count} parameters")

    text_parts = numbers[:-held_back], numbers[-held_back:]
    losses, checks = train(model, *text_parts, options, generator)
    print(f"\nloss {losses[0]:.3f} at first, {smoothed(losses)[-1]:.3f} at the end; ", end="")
    print(f"validation {checks[0][1]:.3f} and {min(loss for _, loss in checks):.3f} at best")
    print_curve(smoothed(losses, keep=0.7))
    save_curve(options.out, losses, checks)
    print(f"{'':6s} steps 1 to {options.steps}; the curve is in {options.out}\n")

    beginning = "Shall I"
    given = torch.tensor([[number[symbol] for symbol in beginning]])
    written = model.write(given, options.sample, 0.7, generator)
    print("".join(symbols[i] for i in written[0].tolist()))


if __name__ == "__main__":
    main()
