"""Cold families: what they add is promised, and arrives when asked for."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import rushlight as torch
from rushlight.opset import families
from rushlight.opset.registry import LateAttribute

promised = {k for k, v in torch.Tensor.__dict__.items() if isinstance(v, LateAttribute)}
plain = set(torch.Tensor.__dict__) - promised
assert families.waiting, "nothing is cold"
families.load_all()
added = set(torch.Tensor.__dict__) - plain
assert added == promised, added ^ promised
assert not [k for k in promised if isinstance(torch.Tensor.__dict__[k], LateAttribute)]
"""

LATE = """
import rushlight as torch
from rushlight.opset import families

x = torch.ones(2, 2)
assert x.to_sparse().layout is torch.sparse_coo
assert torch.einsum("ij->i", x).tolist() == [2.0, 2.0]
assert not hasattr(x, "no_such_method")
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_everything_that_cold_families_add_to_tensor_is_promised():
    run(CODE)


def test_cold_names_arrive_when_asked_for():
    run(LATE)
