"""Normal vectors and distributions of matrices: MultivariateNormal, LowRankMultivariateNormal,
Wishart and LKJCholesky."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.core.construct import tensor
from rushlight.core.dtype import finfo
from rushlight.core.size import Size
from rushlight.distributions import constraints
from rushlight.distributions.continuous import Beta, Chi2
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    EMPTY,
    broadcast_all,
    is_number,
    lazy_property,
    standard_normal,
)
from rushlight.opset import functions
from rushlight.opset.creation.sizes import broadcast_shapes

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]

LOG_TWO_PI = math.log(2 * math.pi)


def batch_mv(matrix: Any, vector: Any) -> Any:
    """Matrices times vectors, both with batches."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def batch_mahalanobis(factor: Any, vector: Any) -> Any:
    """The squared length of L^-1 x for lower factors L and vectors x with further dimensions
    before; those become right-hand sides of one solution per factor."""
    outer = max(vector.dim() + 1 - factor.dim(), 0)
    columns = vector.reshape((-1, *vector.shape[outer:])).movedim(0, -1)
    solved = functions.linalg_solve_triangular(factor, columns, upper=False)
    squared = solved.pow(2).sum(-2).movedim(-1, 0)
    return squared.reshape(vector.shape[:outer] + squared.shape[1:])


def half_log_det(factor: Any) -> Any:
    """log |det| of lower factors: half that of the matrices they stand for."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def identity_like(matrix: Any) -> Any:
    return functions.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def precision_to_scale_tril(precision: Any) -> Any:
    """The lower Cholesky factor of the inverse, by that of the matrix read from its end."""
    flipped = functions.linalg_cholesky(precision.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).mT
    return functions.linalg_solve_triangular(inverse, identity_like(precision), upper=False)


MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


def factor_of(name: str, matrix: Any) -> Any:
    """The lower factor of the covariance, from whichever matrix was given."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return functions.linalg_cholesky(matrix)
    return precision_to_scale_tril(matrix)


def given(matrices: tuple[Any, ...], error: type[Exception]) -> tuple[str, Any]:
    """The name and value of the one matrix that is not None."""
    found = [pair for pair in zip(MATRICES, matrices) if pair[1] is not None]
    if len(found) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return found[0]


class MultivariateNormal(Distribution):
    """Normal vectors by mean and one of covariance, precision or lower Cholesky factor.

    >>> import rushlight as torch
    >>> d = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    >>> d.log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _expands = "loc covariance_matrix scale_tril precision_matrix"
    _keeps = "_unbroadcasted_scale_tril"

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = given((covariance_matrix, precision_matrix, scale_tril), ValueError)
        if matrix.dim() < 2:
            called = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{called} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        return self._whole(functions.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        squared = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squared.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, drawn)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        factor = self._unbroadcasted_scale_tril
        squared = batch_mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_TWO_PI + squared) - half_log_det(factor)

    def entropy(self) -> Any:
        volume = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1.0 + LOG_TWO_PI) + volume).expand(self._batch_shape)


# -- low rank --------------------------------------------------------------------------------------


def inverse_weighted(factor: Any, diagonal: Any) -> Any:
    """W^T D^-1."""
    return factor.mT / diagonal.unsqueeze(-2)


def capacitance_tril(factor: Any, diagonal: Any) -> Any:
    """The Cholesky factor of I + W^T D^-1 W."""
    inner = inverse_weighted(factor, diagonal) @ factor
    return functions.linalg_cholesky(inner + identity_like(inner))


def lowrank_log_det(diagonal: Any, capacitance: Any) -> Any:
    """log det(W W^T + D), by the matrix determinant lemma."""
    return 2 * half_log_det(capacitance) + diagonal.log().sum(-1)


def lowrank_mahalanobis(factor: Any, diagonal: Any, vector: Any, capacitance: Any) -> Any:
    """x^T (W W^T + D)^-1 x, by the Woodbury identity."""
    inner = batch_mv(inverse_weighted(factor, diagonal), vector)
    return (vector.pow(2) / diagonal).sum(-1) - batch_mahalanobis(capacitance, inner)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance is cov_factor cov_factor^T + diag(cov_diag)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _expands = "loc cov_diag cov_factor"
    _keeps = "_unbroadcasted_cov_factor _unbroadcasted_cov_diag _capacitance_tril"

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand((*batch_shape, -1))
        self.cov_factor = cov_factor.expand((*batch_shape, -1, -1))
        self.cov_diag = cov_diag.expand((*batch_shape, -1))
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        total = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        # D^1/2 (I + V V^T) D^1/2 with V = D^-1/2 W: better conditioned than W W^T + D
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = scaled @ scaled.mT
        return self._whole(root * functions.linalg_cholesky(inner + identity_like(inner)))

    @lazy_property
    def covariance_matrix(self) -> Any:
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Any:
        weighted = inverse_weighted(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag)
        inner = functions.linalg_solve_triangular(self._capacitance_tril, weighted, upper=False)
        outer = self._unbroadcasted_cov_diag.reciprocal().diag_embed()
        return self._whole(outer - inner.mT @ inner)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        like = self.loc.dtype, self.loc.device
        common = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], *like)
        own = standard_normal(shape, *like)
        joint = batch_mv(self._unbroadcasted_cov_factor, common)
        return self.loc + joint + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_det(self) -> Any:
        return lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        squared = lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        return -0.5 * (self._event_shape[0] * LOG_TWO_PI + self._log_det() + squared)

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (1.0 + LOG_TWO_PI)
        return (0.5 * (constant + self._log_det())).expand(self._batch_shape)


# -- matrices --------------------------------------------------------------------------------------


class Wishart(ExponentialFamily):
    """Scatter matrices of `df` normal vectors, by one of covariance, precision or factor.

    Seeds do not give torch's numbers here: torch takes regular draws for singular ones, and draws
    them again.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = "df covariance_matrix scale_tril precision_matrix"
    _keeps = "_unbroadcasted_scale_tril"

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = given((covariance_matrix, precision_matrix, scale_tril), AssertionError)
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if is_number(df):
            batch_shape = Size(matrix.shape[:-2])
            self.df = tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        n = event_shape[-1]
        if self.df.le(n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        if self.df.lt(n).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        return self._whole(functions.cholesky_solve(identity_like(factor), factor))

    def _per_matrix(self, numbers: Any) -> Any:
        return numbers.expand(self._batch_shape).reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Any:
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        count = self.df - self._event_shape[-1] - 1
        count = count.masked_fill(count <= 0, math.nan)
        return self._per_matrix(count) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        pairs = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._per_matrix(self.df) * (covariance.pow(2) + pairs)

    def _drawn(self, sample_shape: Any) -> Any:
        """Bartlett's decomposition: roots of chi-squared draws over normal ones."""
        n, factor = self._event_shape[-1], self._unbroadcasted_scale_tril
        ranks = functions.arange(n, dtype=factor.dtype, device=factor.device)
        df = self.df.expand(self._batch_shape).unsqueeze(-1) - ranks
        diagonal = Chi2(df, validate_args=False).rsample(sample_shape).sqrt()
        diagonal = diagonal.clamp(min=finfo(factor.dtype).eps)
        below = standard_normal(self._extended_shape(sample_shape), factor.dtype, factor.device)
        root = factor @ (below.tril(-1) + diagonal.diag_embed())
        return root @ root.mT

    def rsample(self, sample_shape: Any = EMPTY, max_try_correction: int | None = None) -> Any:
        """Draws; those that rounding made singular are drawn again, up to
        `max_try_correction` times."""
        sample_shape = Size(sample_shape)
        drawn = self._drawn(sample_shape)
        for attempt in range(10 if max_try_correction is None else max_try_correction):
            good = constraints.symmetric.check(drawn) & functions.linalg_cholesky_ex(drawn)[1].eq(0)
            if good.all():
                break
            if attempt == 0:
                warnings.warn("Singular sample detected.", stacklevel=2)
            again = self._drawn(sample_shape)
            drawn = functions.where(good.unsqueeze(-1).unsqueeze(-1), drawn, again)
        return drawn

    def _half_count(self) -> tuple[Any, Any]:
        """(df - n - 1) / 2, and what the scale adds per degree of freedom."""
        n = self._event_shape[-1]
        volume = n * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)
        return (self.df - n - 1) / 2, volume

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        n = self._event_shape[-1]
        power, volume = self._half_count()
        solved = functions.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        determinant = functions.linalg_slogdet(value)[1]
        normalizer = self.df * volume + functions.mvlgamma(self.df / 2, n)
        return power * determinant - trace / 2 - normalizer

    def entropy(self) -> Any:
        n = self._event_shape[-1]
        power, volume = self._half_count()
        half = self.df / 2
        steps = functions.arange(n, dtype=half.dtype, device=half.device) / 2
        slope = (half.unsqueeze(-1) - steps).digamma().sum(-1)
        return (n + 1) * volume + functions.mvlgamma(half, n) - power * slope + half * n

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, self._half_count()[0]

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        determinant = functions.linalg_slogdet(-2 * x)[1]
        return half * (n * math.log(2) - determinant) + functions.mvlgamma(half, n)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices with densities det ** (concentration - 1).

    Seeds do not give torch's numbers here: its marginals of rows from the third on are others.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expands = "concentration _beta"
    _keeps = "dim"

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared norm of the k entries below the diagonal of row k is of Beta(k / 2, ...): the
        # onion method of Lewandowski, Kurowicka and Joe, 2009. The first row's is not used.
        like = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        half = 0.5 * functions.arange(dim, **like).clamp(min=1)
        rest = self.concentration.unsqueeze(-1) + 0.5 * (dim - 1) - half
        self._beta = Beta(half, rest)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        squared = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        drawn = standard_normal(shape, squared.dtype, squared.device).tril(-1)
        norm = functions.linalg_vector_norm(drawn, dim=-1, keepdim=True)
        direction = (drawn / norm).masked_fill(norm == 0, 0.0)
        below = squared.sqrt() * direction
        left = (1 - below.pow(2).sum(-1)).clamp(min=finfo(below.dtype).tiny)
        return below + left.sqrt().diag_embed()

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        n = self.dim - 1
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        ranks = functions.arange(2, self.dim + 1, device=self.concentration.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - ranks
        alpha = self.concentration + 0.5 * n
        normalizer = functions.mvlgamma(alpha - 0.5, n) - alpha.lgamma() * n
        return (powers * diagonal.log()).sum(-1) - normalizer - 0.5 * n * math.log(math.pi)
