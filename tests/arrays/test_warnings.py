"""Infinities and NaN are values: no kernel warns of them, in no thread."""

from __future__ import annotations

import subprocess
import sys


def test_no_thread_warns():
    code = """
import threading
import numpy as np
import rushlight as torch
def compute():
    x = torch.tensor([1.0, 0.0])
    print((x / 0).tolist(), torch.log(-x - 1).tolist(), x.half().mul_(1e30).tolist())
compute()
thread = threading.Thread(target=compute)
thread.start()
thread.join()
def own():
    np.ones(1) / np.zeros(1)
thread = threading.Thread(target=own)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    first, second = done.stdout.splitlines()
    assert first == second == "[inf, nan] [nan, nan] [inf, 0.0]"
    # What the user's own thread computes with NumPy still warns.
    assert done.stderr.count("RuntimeWarning") == 1
