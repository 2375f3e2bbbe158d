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
layers = [name for name, layer in vars(torch.nn.modules.activation).items()
          if isinstance(layer, type) and issubclass(layer, torch.nn.Module)]
assert {"ReLU", "Softmax", "MultiheadAttention"} <= set(layers) and "Linear" not in layers
assert "Conv2d" in vars(torch.nn.modules.conv)
from torch.nn.utils._named_member_accessor import swap_tensor
from torch.fx.graph_module import _CodeOnlyModule, _USER_PRESERVED_ATTRIBUTES_KEY, _copy_attr
from torch.utils._pytree import is_structseq_instance
import time
assert is_structseq_instance(torch.max(torch.ones(2, 2), 0)) and not is_structseq_instance((1,))
assert is_structseq_instance(time.gmtime(0))
torch._C._log_api_usage_once("x")
assert torch._C._are_functorch_transforms_active() is False
assert torch.func.vmap(lambda x: x + torch._C._are_functorch_transforms_active())(
    torch.zeros(2)).tolist() == [1, 1]
assert torch._C._nn._parse_to("cpu", torch.float64) == (
    torch.device("cpu"), torch.float64, False, None)
assert torch._C._nn._parse_to(torch.ones(1), non_blocking=True)[1:3] == (torch.float32, True)
torch._dynamo.mark_static_address(torch.ones(2))
"""


def test_paths():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
