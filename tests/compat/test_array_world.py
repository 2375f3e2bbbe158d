"""Libraries of arrays and figures take tensors, where `torch` means rushlight."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = "import rushlight.compat; rushlight.compat.install()\nimport torch\n"

SCRIPTS = {
    "array_api_compat": """
import array_api_compat as ac
x = torch.arange(6.0).reshape(2, 3)
assert ac.is_torch_array(x) and ac.array_namespace(x).__name__ == "array_api_compat.torch"
xp = ac.array_namespace(x)
assert ac.device(x) == torch.device("cpu") and ac.size(x) == 6
assert xp.sum(x, axis=0).tolist() == [3, 5, 7] and xp.permute_dims(x, (1, 0)).shape == (3, 2)
assert xp.unique_values(torch.tensor([1, 2, 1])).tolist() == [1, 2]
assert xp.isdtype(x.dtype, "real floating") and "int64" in xp.__array_namespace_info__().dtypes()
assert xp.fft.fft(x).shape == (2, 3) and xp.linalg.svdvals(x).shape == (2,)
assert xp.take_along_axis(x, torch.tensor([[0], [1]]), axis=1).tolist() == [[0], [4]]
""",
    "pandas": """
import pandas as pd
assert pd.Series(torch.arange(3)).tolist() == [0, 1, 2]
frame = pd.DataFrame({"a": torch.arange(3), "b": torch.ones(3)})
assert frame.a.dtype == "int64" and frame.b.dtype == "float32"
assert torch.from_numpy(frame.to_numpy()).sum() == 6
""",
    "sklearn": """
import sklearn
from sklearn.linear_model import LinearRegression
from sklearn.decomposition import PCA
x = torch.randn(20, 3)
fitted = LinearRegression().fit(x, x @ torch.tensor([1.0, 2.0, 3.0]))
found = torch.from_numpy(fitted.coef_).float()
assert torch.allclose(found, torch.tensor([1.0, 2.0, 3.0]), atol=1e-4)
with sklearn.config_context(array_api_dispatch=True):
    found = PCA(2, svd_solver="full").fit(x)
    assert type(found.components_) is torch.Tensor and found.components_.shape == (2, 3)
""",
    "matplotlib": """
import io
import matplotlib; matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.plot(torch.arange(5), torch.arange(5.0) ** 2)
plt.imshow(torch.ones(3, 3)); plt.hist(torch.randn(30)); plt.scatter(torch.ones(2), torch.ones(2))
plt.savefig(io.BytesIO())
""",
    "numpy": """
import numpy as np
x = torch.ones(3, requires_grad=True)
assert x.numpy(force=True).tolist() == [1, 1, 1]
try:
    x.numpy()
except RuntimeError as error:
    assert "detach" in str(error)
else:
    raise AssertionError
a = np.arange(3)
shared = torch.from_dlpack(a); a[0] = 7
assert shared[0] == 7 and np.from_dlpack(shared)[0] == 7
assert (torch.arange(3) == np.arange(3)).all()
assert torch.from_dlpack(torch.arange(3).__dlpack__()).tolist() == [0, 1, 2]
class Producer:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **options): return self.array.__dlpack__(**options)
    def __dlpack_device__(self): return self.array.__dlpack_device__()
assert torch.from_dlpack(Producer(np.ones(2))).dtype is torch.float64
assert torch.asarray(Producer(np.ones(2))).shape == (2,)
""",
}


@pytest.mark.parametrize("library", SCRIPTS)
def test_tensors_are_taken(library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", START + SCRIPTS[library]], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SCIPY_ARRAY_API": "1"}, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
