"""The examples run as a user runs them, and the same seed gives the same result."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(name, *options):
    command = [sys.executable, "-m", "rushlight", "run", f"examples/{name}.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_gpt_learns_and_repeats_itself(tmp_path):
    picture = tmp_path / "new" / "loss.png"
    options = ["--steps", "20", "--width", "32", "--layers", "1", "--sample", "40"]
    options += ["--out", str(picture)]
    first, second = run("train_gpt", *options), run("train_gpt", *options)
    start, end = re.search(r"loss ([\d.]+) at first, ([\d.]+) at the end", first).groups()
    assert 3.9 < float(start) < 4.3
    assert float(end) < 3.6
    assert first.partition("Shall I")[2] == second.partition("Shall I")[2] != ""
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at = data.index(b"IDAT")
    length = int.from_bytes(data[at - 4 : at], "big")
    assert len(zlib.decompress(data[at + 4 : at + 4 + length])) == 540 * (1 + 3 * 960)


def test_mlp_learns():
    printed = run("train_mlp", "--steps", "300")
    assert float(re.search(r"test accuracy +([\d.]+)", printed)[1]) > 0.6


def test_a_classifier_is_deployed(tmp_path):
    printed = run("deploy_classifier", "--out", str(tmp_path / "out"), "--rows", "7")
    assert "without a compiler: True" in printed
    assert float(re.search(r"largest difference ([\d.e+-]+) over 7 rows", printed)[1]) < 1e-5
