"""Whole models, written with `nn.functional`: equal results, and time against PyTorch's.

    python benchmarks/models.py [--threads N] [--json FILE]

Prints the largest difference of the forward pass (float32) and the ratio of times.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser(description="Forward passes of whole models.")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--json", metavar="FILE")
parser.add_argument("-k", metavar="WORD", default="")
options = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, str(options.threads))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
import torch  # noqa: E402

import rushlight  # noqa: E402

torch.set_num_threads(options.threads)
RANDOM = np.random.default_rng(0)


def weights(*shape: int, scale: float | None = None) -> Any:
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
    values = RANDOM.standard_normal(shape) * (fan**-0.5 if scale is None else scale)
    return values.astype(np.float32)


# -- ResNet-18 -------------------------------------------------------------------------------------

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def resnet_weights() -> dict[str, Any]:
    found: dict[str, Any] = {}

    def conv(name: str, out: int, into: int, size: int) -> None:
        found[name] = weights(out, into, size, size)
        for part, value in (("w", 1.0), ("b", 0.0), ("m", 0.0), ("v", 1.0)):
            found[f"{name}.{part}"] = np.full(out, value, np.float32)

    conv("stem", 64, 3, 7)
    width = 64
    for stage, (out, stride) in enumerate(STAGES):
        for block in range(2):
            conv(f"{stage}.{block}.1", out, width, 3)
            conv(f"{stage}.{block}.2", out, out, 3)
            if block == 0 and (stride != 1 or width != out):
                conv(f"{stage}.{block}.d", out, width, 1)
            width = out
    found["head.w"], found["head.b"] = weights(1000, 512), weights(1000, scale=0.0)
    return found


def resnet18(t: Any, p: dict[str, Any], x: Any) -> Any:
    F = t.nn.functional

    def conv(name: str, x: Any, stride: int = 1, padding: int = 1) -> Any:
        y = F.conv2d(x, p[name], stride=stride, padding=padding)
        stats = (p[f"{name}.m"], p[f"{name}.v"], p[f"{name}.w"], p[f"{name}.b"])
        return F.batch_norm(y, *stats, training=False)

    x = F.max_pool2d(F.relu(conv("stem", x, 2, 3)), 3, 2, 1)
    for stage, (_, stride) in enumerate(STAGES):
        for block in range(2):
            name, step = f"{stage}.{block}", stride if block == 0 else 1
            y = conv(f"{name}.2", F.relu(conv(f"{name}.1", x, step)))
            shortcut = conv(f"{name}.d", x, step, 0) if f"{name}.d" in p else x
            x = F.relu(y + shortcut)
    return F.linear(F.adaptive_avg_pool2d(x, 1).flatten(1), p["head.w"], p["head.b"])


# -- one block of GPT-2 small ----------------------------------------------------------------------

WIDTH, HEADS = 768, 12


def gpt_weights() -> dict[str, Any]:
    return {
        "ln1.w": np.ones(WIDTH, np.float32), "ln1.b": np.zeros(WIDTH, np.float32),
        "ln2.w": np.ones(WIDTH, np.float32), "ln2.b": np.zeros(WIDTH, np.float32),
        "qkv.w": weights(3 * WIDTH, WIDTH), "qkv.b": weights(3 * WIDTH, scale=0.02),
        "out.w": weights(WIDTH, WIDTH), "out.b": weights(WIDTH, scale=0.02),
        "up.w": weights(4 * WIDTH, WIDTH), "up.b": weights(4 * WIDTH, scale=0.02),
        "down.w": weights(WIDTH, 4 * WIDTH), "down.b": weights(WIDTH, scale=0.02),
    }  # fmt: skip


def gpt_block(t: Any, p: dict[str, Any], x: Any) -> Any:
    F = t.nn.functional
    batch, length, width = x.shape

    def split(y: Any) -> Any:
        return y.view(batch, length, HEADS, width // HEADS).transpose(1, 2)

    h = F.layer_norm(x, (width,), p["ln1.w"], p["ln1.b"])
    q, k, v = (split(y) for y in F.linear(h, p["qkv.w"], p["qkv.b"]).split(width, 2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = y.transpose(1, 2).contiguous().view(batch, length, width)
    x = x + F.linear(y, p["out.w"], p["out.b"])
    h = F.layer_norm(x, (width,), p["ln2.w"], p["ln2.b"])
    h = F.gelu(F.linear(h, p["up.w"], p["up.b"]), approximate="tanh")
    return x + F.linear(h, p["down.w"], p["down.b"])


# -- LSTM ------------------------------------------------------------------------------------------

HIDDEN = 256


def lstm_weights() -> dict[str, Any]:
    return {
        "ih": weights(4 * HIDDEN, HIDDEN), "hh": weights(4 * HIDDEN, HIDDEN),
        "bih": weights(4 * HIDDEN, scale=0.02), "bhh": weights(4 * HIDDEN, scale=0.02),
    }  # fmt: skip


def lstm(t: Any, p: dict[str, Any], x: Any) -> Any:
    state = t.zeros(1, x.shape[1], HIDDEN)
    flat = [p["ih"], p["hh"], p["bih"], p["bhh"]]
    return t.lstm(x, (state, state), flat, True, 1, 0.0, False, False, False)[0]


MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any], Any]] = {
    "ResNet-18, 8x3x224x224": (resnet18, resnet_weights(), weights(8, 3, 224, 224, scale=1.0)),
    "GPT-2 small block, 4x256": (gpt_block, gpt_weights(), weights(4, 256, WIDTH, scale=1.0)),
    "LSTM 256, 64 steps x 16": (lstm, lstm_weights(), weights(64, 16, HIDDEN, scale=1.0)),
}


def prepared(t: Any, name: str) -> Callable[[], Any]:
    function, arrays, x = MODELS[name]
    tensors = {key: t.from_numpy(value) for key, value in arrays.items()}
    given = t.from_numpy(x)

    def run() -> Any:
        with t.no_grad():
            return function(t, tensors, given)

    return run


def main() -> None:
    table: dict[str, Any] = {}
    print(f"{'model':28s} {'rushlight':>11s} {'torch':>11s} {'ratio':>7s}   largest difference")
    for name in MODELS:
        if options.k not in name:
            continue
        systems = {"rushlight": prepared(rushlight, name), "torch": prepared(torch, name)}
        answers = {key: run().numpy() for key, run in systems.items()}
        scale = float(np.abs(answers["torch"]).max())
        difference = float(np.abs(answers["rushlight"] - answers["torch"]).max()) / scale
        best = dict.fromkeys(systems, float("inf"))
        for _ in range(options.rounds):
            for key, run in systems.items():
                start = time.perf_counter()
                run()
                best[key] = min(best[key], time.perf_counter() - start)
        ratio = best["rushlight"] / best["torch"]
        table[name] = {"seconds": best, "ratio": ratio, "difference": difference}
        times = f"{best['rushlight'] * 1e3:9.1f}ms {best['torch'] * 1e3:9.1f}ms"
        print(f"{name:28s} {times} {ratio:7.2f}   {difference:.1e}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
