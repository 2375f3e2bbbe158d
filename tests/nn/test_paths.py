"""torch's module paths lead to the modules of nn."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import rushlight.compat
rushlight.compat.install()
import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.loss import _Loss
from torch.nn.modules.utils import _pair, _reverse_repeat_tuple
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch.nn.utils.weight_norm import WeightNorm
from torch.nn.utils.spectral_norm import SpectralNorm
import torch.nn.utils.prune as prune

assert torch.nn.modules.lazy.LazyModuleMixin is LazyModuleMixin
assert isinstance(torch.nn.BatchNorm2d(2), _BatchNorm) and issubclass(_BatchNorm, _NormBase)
assert isinstance(torch.nn.Conv2d(1, 1, 1), _ConvNd) and isinstance(torch.nn.MSELoss(), _Loss)
assert _pair(3) == (3, 3) and _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
assert is_lazy(UninitializedParameter())
assert torch.nn.utils.weight_norm.__name__ == "weight_norm"
assert callable(torch.nn.utils.weight_norm) and callable(torch.nn.utils.spectral_norm)
assert prune.is_pruned(torch.nn.ReLU()) is False
"""


def test_paths():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
