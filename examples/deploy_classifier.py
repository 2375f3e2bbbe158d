"""From a module to code that needs no compiler: export, check, package, run.

    rushlight run examples/deploy_classifier.py --out build/classifier

Writes `model.pt2`, which PyTorch reads, too, and the folder `package` with machine code; the
package is then run in a process of its own, for batches of other sizes.
"""

import argparse
import os
import subprocess
import sys

import torch
from torch import nn
from torch.export import Dim


class Classifier(nn.Module):
    """A residual network over rows, which counts its calls."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(16, width)
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.last = nn.Linear(width, 4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls.add_(1)
        x = nn.functional.gelu(self.first(x))
        x = x + nn.functional.gelu(self.inner(self.norm(x)))
        return self.last(x).softmax(-1)


# What a server does: nothing of the model's Python is there.
SERVER = """
import sys, time
import rushlight
from rushlight.deploy import load_package

model = load_package(sys.argv[1])
rows = rushlight.load(sys.argv[2])
start = time.perf_counter()
first = model(rows)
took = time.perf_counter() - start
rushlight.save(first, sys.argv[3])
absent = not {"llvmlite", "sympy"} & set(sys.modules)
print(f"code for {model.get_metadata()['target']}, first call {took * 1e3:.1f} ms, "
      f"without a compiler: {absent}")
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="build/classifier")
    parser.add_argument("--rows", type=int, default=9)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    model_path, package_path, rows_path, found_path = [
        os.path.join(options.out, name) for name in ("model.pt2", "package", "rows.pt", "found.pt")
    ]

    torch.manual_seed(0)
    model = Classifier().eval()
    batch = Dim("batch", min=1, max=256)
    program = torch.export.export(model, (torch.randn(2, 16),), dynamic_shapes=({0: batch},))
    torch.export.save(program, model_path)

    command = [sys.executable, "-m", "rushlight", "package", model_path, "-o", package_path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = torch.randn(options.rows, 16)
    torch.save(rows, rows_path)
    subprocess.run([sys.executable, "-c", SERVER, package_path, rows_path, found_path], check=True)

    found, expected = torch.load(found_path), model(rows)
    print(f"largest difference {(found - expected).abs().max().item():.1e} over {len(rows)} rows")


if __name__ == "__main__":
    main()
