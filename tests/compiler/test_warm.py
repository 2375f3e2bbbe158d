"""A second process finds what the first one compiled: graphs and kernels come from disk, results
are equal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")

PROGRAM = """
import hashlib, sys
import rushlight as torch
from rushlight.base.counters import counters
from rushlight.codegen import native
made = []
original = native.object_of
native.object_of = lambda *args: made.append(1) or original(*args)
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.{activation}(), torch.nn.Linear(8, 3))
run = torch.compile(module)
text = ""
for size in (4, 7, 9):
    x = torch.randn(size, 6)
    loss = run(x).square().mean()
    loss.backward()
    text += repr([loss.item(), *[p.grad.tolist() for p in module.parameters()]])
traced = counters["aot_autograd"]["autograd_cache_miss"]
assert traced or counters["aot_autograd"]["autograd_cache_hit"] > 1, counters
assert not counters["aot_autograd"]["autograd_cache_bypass"]
print(len(made) + traced, hashlib.sha256(text.encode()).hexdigest())
"""


def start(folder: Path, activation: str = "GELU") -> Any:
    text = PROGRAM.format(activation=activation)
    setting = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", text], env=setting, stdout=subprocess.PIPE)


def answer(process: Any) -> tuple[int, str]:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    count, digest = output.decode().split()
    return int(count), digest


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    # Two at once: neither finds the other's files half written.
    cold = [answer(process) for process in [start(tmp_path) for _ in range(2)]]
    assert cold[0][1] == cold[1][1] and max(cold)[0] > 0
    assert answer(start(tmp_path)) == (0, cold[0][1])
    assert answer(start(tmp_path, "Tanh"))[0] > 0


def test_damaged_files_are_made_again(tmp_path: Path) -> None:
    _, digest = answer(start(tmp_path))
    for number, path in enumerate(files(tmp_path)):
        content = path.read_bytes()
        path.write_bytes([b"", content[:-7], content[:40] + b"\0" * 9 + content[49:]][number % 3])
    made, again = answer(start(tmp_path))
    assert made > 0 and again == digest
    assert answer(start(tmp_path)) == (0, digest)


def test_writers_that_are_killed_leave_nothing_wrong(tmp_path: Path) -> None:
    for count in (1, 2, 4):  # files that are there, whole or not, when the writer is killed
        process = start(tmp_path)
        while process.poll() is None and len(files(tmp_path)) < count:
            time.sleep(0.001)
        process.kill()
        process.communicate()
    _, digest = answer(start(tmp_path))
    assert answer(start(tmp_path)) == (0, digest)
