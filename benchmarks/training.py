"""One training step (forward, backward, optimiser) of whole models: time against PyTorch's.

    python benchmarks/training.py [--threads N] [--compiled] [--json FILE] [-k WORD]

All start from the same weights and take turns in one process; without `--threads` the table is
printed for one thread and for two. With `--compiled` the model compiled by either system takes part
too, and a second row says the seconds of the calling thread's own work, for a busy machine. The
losses after the timed steps stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_UP = 3
HEADING = f"{'training step':34s} {'rushlight':>11s} {'torch':>11s} {'ratio':>7s}   losses"


def given(t: Any, *shape: int) -> Any:
    import numpy as np

    return t.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def chosen(t: Any, count: int, *shape: int) -> Any:
    import numpy as np

    return t.from_numpy(np.random.default_rng(1).integers(0, count, shape))


def mlp(t: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    nn, F = t.nn, t.nn.functional
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    x, y = given(t, 128, 784), chosen(t, 10, 128)
    return model, t.optim.SGD(model.parameters(), lr=0.01), lambda m: F.cross_entropy(m(x), y)


def transformer(t: Any, symbols: int, layers: int, width: int, heads: int, longest: int) -> Any:
    """A GPT for texts of at most `longest` of `symbols`."""
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            split = (batch, length, heads, width // heads)
            q, k, v = (
                part.view(split).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(width, dim=2)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Transformer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.symbol = nn.Embedding(symbols, width)
            self.place = nn.Embedding(longest, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)

        def forward(self, text: Any) -> Any:
            x = self.symbol(text) + self.place(t.arange(text.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return Transformer()


def gpt(t: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    symbols, length = 64, 128
    model = transformer(t, symbols, layers=4, width=256, heads=4, longest=length)
    text = chosen(t, symbols, 8, length + 1)
    before, after = text[:, :-1], text[:, 1:].reshape(-1)
    optimizer = t.optim.AdamW(model.parameters(), lr=3e-4)
    F = t.nn.functional
    return model, optimizer, lambda m: F.cross_entropy(m(before).view(-1, symbols), after)


def resnet(t: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, into: int, out: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
            self.shortcut = nn.Sequential()
            if stride != 1 or into != out:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out)
                )

        def forward(self, x: Any) -> Any:
            y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
            return F.relu(y + self.shortcut(x))

    blocks, into = [], 16
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        for place in range(3):
            blocks.append(Block(into, out, stride if place == 0 else 1))
            into = out
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    x, y = given(t, 32, 3, 32, 32), chosen(t, 10, 32)
    optimizer = t.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    return model, optimizer, lambda m: F.cross_entropy(m(x), y)


def lstm(t: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    nn, F = t.nn, t.nn.functional
    symbols, width, length = 512, 256, 64

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(symbols, width)
            self.cells = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.out = nn.Linear(width, symbols)

        def forward(self, text: Any) -> Any:
            return self.out(self.cells(self.table(text))[0])

    model = Model()
    text = chosen(t, symbols, 16, length + 1)
    before, after = text[:, :-1], text[:, 1:].reshape(-1)
    optimizer = t.optim.Adam(model.parameters(), lr=1e-3)
    return model, optimizer, lambda m: F.cross_entropy(m(before).reshape(-1, symbols), after)


MODELS: dict[str, Callable[[Any], tuple[Any, Any, Callable[[Any], Any]]]] = {
    "MLP 784-512-512-10, batch 128": mlp,
    "GPT 4x256, 128 symbols, batch 8": gpt,
    "ResNet-20, CIFAR, batch 32": resnet,
    "LSTM 2x256, 64 symbols, batch 16": lstm,
}


def training_step(
    t: Any, name: str, compiling: Callable[[Any], Any]
) -> tuple[Any, Callable[[], float]]:
    """The model, and a function that trains it by one step and returns the loss."""
    t.manual_seed(0)
    model, optimizer, loss_of = MODELS[name](t)
    called = compiling(model)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(called)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return model, step


def plain(model: Any) -> Any:
    return model


def systems(is_compiled: bool) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """The columns: a system, and what it does to a model before it is called."""
    import torch

    import rushlight

    found: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "rushlight": (rushlight, plain),
        "torch": (torch, plain),
    }
    if is_compiled:
        found["rl compiled"] = (rushlight, rushlight.compile)
        found["t compiled"] = (torch, torch.compile)
    return found


def run_model(name: str, rounds: int, is_compiled: bool) -> dict[str, Any]:
    models, steps = {}, {}
    columns = systems(is_compiled)
    for key, (system, compiling) in columns.items():
        models[key], steps[key] = training_step(system, name, compiling)
    state = {key: value.numpy().copy() for key, value in models["torch"].state_dict().items()}
    for key, (system, _) in columns.items():
        with system.no_grad():
            for entry, value in models[key].state_dict().items():
                value.copy_(system.from_numpy(state[entry].copy()))
    best, losses = dict.fromkeys(steps, float("inf")), {}
    own = dict(best)
    for turn in range(WARM_UP + rounds):
        for key, step in steps.items():
            start, began = time.perf_counter(), time.thread_time()
            losses[key] = step()
            if turn >= WARM_UP:
                best[key] = min(best[key], time.perf_counter() - start)
                own[key] = min(own[key], time.thread_time() - began)
    ratio = best["rushlight"] / best["torch"]
    return {"seconds": best, "own_seconds": own, "ratio": ratio, "losses": losses}


def run(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.set_num_threads(options.threads)
    table = {}
    extra = "".join([f" {key:>11s}" for key in list(systems(options.compiled))[2:]])
    heading = HEADING.replace("   ratio", f"{extra}   ratio")
    print(f"{heading}    ({options.threads} thread{'s' * (options.threads > 1)})")
    for name in MODELS:
        if options.k.lower() not in name.lower():
            continue
        found = table[name] = run_model(name, options.rounds, options.compiled)
        losses = " ".join(f"{loss:.4f}" for loss in found["losses"].values())
        for label, kind in ((name, "seconds"), ("    own work", "own_seconds")):
            if kind == "seconds" or options.compiled:
                taken = found[kind]
                times = "".join(f" {taken[key] * 1e3:9.2f}ms" for key in taken)
                ratio = taken["rushlight"] / taken["torch"]
                print(f"{label:34s}{times} {ratio:7.2f}   {losses}", flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Training steps beside PyTorch's.")
    parser.add_argument("--threads", type=int, help="threads of both systems (default: 1, then 2)")
    parser.add_argument("--compiled", action="store_true", help="also what either compiles")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", metavar="FILE", help="also write the table to FILE")
    parser.add_argument("-k", metavar="WORD", default="", help="only models whose name has WORD")
    options = parser.parse_args()
    if options.threads is not None:
        table = {str(options.threads): run(options)}
    else:
        table = {}
        # BLAS reads its number of threads when it is loaded, so each count is a process.
        for threads in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "table.json"
                words = ["--threads", str(threads), "--rounds", str(options.rounds)]
                words += ["--json", str(file), "-k", options.k]
                words += ["--compiled"] * options.compiled
                subprocess.run([sys.executable, __file__, *words], check=True)
                table.update(json.loads(file.read_text()))
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")


def set_threads() -> None:
    """BLAS reads these when NumPy is imported, so before anything else."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_known_args()[0].threads
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


if __name__ == "__main__":
    set_threads()
    main()
