"""torch.linalg: linear algebra under its own names. Each is the op `linalg_<name>`, made a function
on first access."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import LinAlgError
from rushlight.base.lazy import namespace
from rushlight.core.stubs import make_stub
from rushlight.opset import registry

NAMES = (
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve",
    "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve",
    "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander",
    "vecdot", "vector_norm",
)  # fmt: skip

__all__ = ["LinAlgError", *NAMES]


def _find(name: str) -> Any:
    # torch: the ops' own names are known too, as torch._C._linalg has them.
    short = name.removeprefix("linalg_")
    if short not in NAMES:
        return None
    return make_stub(registry.packet(f"linalg_{short}"), f"linalg_{short}", method=False)


__getattr__, __dir__ = namespace(__name__, make=_find, names=NAMES)
