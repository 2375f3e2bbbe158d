"""Ready parametrizations: orthogonal matrices, norm and direction apart, spectral norm one."""

from __future__ import annotations

import enum
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.dtype import finfo
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.utils import parametrize
from rushlight.opset import functions

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def is_orthogonal(matrix: Any) -> bool:
    rows, columns = matrix.shape[-2:]
    identity = functions.eye(columns, dtype=matrix.dtype, device=matrix.device)
    tolerance = 10.0 * rows * finfo(matrix.dtype).eps
    return bool(functions.allclose(matrix.mH @ matrix, identity, atol=tolerance))


def made_orthogonal(matrix: Any) -> Any:
    """The orthogonal factor, signed so that an orthogonal matrix gives itself."""
    reflectors, scales = functions.geqrf(matrix)
    found = functions.linalg_householder_product(reflectors, scales)
    return found * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(enum.Enum):
    matrix_exp = enum.auto()
    cayley = enum.auto()
    householder = enum.auto()


class _Orthogonal(Module):
    """A matrix as a point near `base`, or as a product of reflections."""

    def __init__(
        self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        wide = X.shape[-2] < X.shape[-1]
        if wide:
            X = X.mT
        rows, columns = X.shape[-2:]
        if self.orthogonal_map is _OrthMaps.householder:
            below = X.tril(diagonal=-1)
            scales = 2.0 / (1.0 + (below * below).sum(dim=-2))
            result = functions.linalg_householder_product(below, scales)
            # The diagonal holds the signs of the columns.
            result = result * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if rows != columns:
                rest = X.new_zeros(rows, rows - columns).expand(*X.shape[:-2], -1, -1)
                X = functions.cat([X, rest], dim=-1)
            skew = X - X.mH
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                result = functions.matrix_exp(skew)
            else:
                identity = functions.eye(rows, dtype=X.dtype, device=X.device)
                result = functions.linalg_solve(
                    functions.add(identity, skew, alpha=-0.5),
                    functions.add(identity, skew, alpha=0.5),
                )
            if rows != columns:
                result = result[..., :columns]
        if hasattr(self, "base"):
            result = self.base @ result
        return result.mT if wide else result

    def right_inverse(self, Q: Any) -> Any:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        with no_grad():
            wide = Q.shape[-2] < Q.shape[-1]
            tall = Q.mT if wide else Q
            rows, columns = tall.shape[-2:]
            if not hasattr(self, "base"):
                return self.as_reflections(tall, wide)
            if rows != columns:
                others = functions.randn(
                    (*tall.shape[:-2], rows, rows - columns), dtype=Q.dtype, device=Q.device
                )
                self.base = made_orthogonal(functions.cat([tall, others], dim=-1))
            else:
                self.base = tall.clone() if is_orthogonal(tall) else made_orthogonal(tall)
            origin = functions.zeros_like(Q)
            origin.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return origin

    def as_reflections(self, tall: Any, wide: bool) -> Any:
        if self.orthogonal_map is not _OrthMaps.householder:
            # torch: the words.
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        found, scales = functions.geqrf(tall)
        diagonal = found.diagonal(dim1=-2, dim2=-1)
        signs = diagonal.sign()
        diagonal.copy_(functions.where(scales == 0.0, -signs, signs))
        return found.mT if wide else found


def checked_tensor(module: Module, name: str) -> Any:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix orthogonal.

    >>> import rushlight as torch
    >>> layer = orthogonal(torch.nn.Linear(3, 3))
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(3), atol=1e-5)
    True
    """
    weight = checked_tensor(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    made = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """A tensor from its norms along one dim and its direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / functions.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Any) -> Any:
        return functions.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Train a tensor's norms along `dim` and its direction apart."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def accept_older_names(state_dict: Any, prefix: str, *rest: Any) -> None:
        older = (f"{prefix}{name}_g", f"{prefix}{name}_v")
        if all(key in state_dict for key in older):
            for number, key in enumerate(older):
                new = f"{prefix}parametrizations.{name}.original{number}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(accept_older_names)
    return module


class _SpectralNorm(Module):
    """A tensor divided by its largest singular value, which power iterations follow."""

    def __init__(
        self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        dims = weight.dim()
        if not -dims <= dim < dims:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{dims}, {dims - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % dims
        self.eps = eps
        if dims > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self.as_matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, F.normalize(drawn, dim=0, eps=eps))
            self.iterate(matrix, 15)

    def as_matrix(self, weight: Any) -> Any:
        return weight.movedim(self.dim, 0).flatten(1)

    def iterate(self, matrix: Any, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self.as_matrix(weight)
        if self.training:
            self.iterate(matrix, self.n_power_iterations)
        # Copies: the next iteration writes to the buffers, and backward needs these.
        u, v = self._u.clone(), self._v.clone()
        return weight / functions.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Any) -> Any:
        return value


def default_dim(module: Module) -> int:
    """The dim of a weight that counts its outputs."""
    from rushlight.nn.conv import Transposed

    return 1 if isinstance(module, Transposed) else 0


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a tensor by its largest singular value."""
    weight = checked_tensor(module, name)
    dim = default_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
