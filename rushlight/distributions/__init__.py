"""Probability distributions, transforms between regions, and divergences: torch's public names."""

from __future__ import annotations

from rushlight.base.lazy import namespace
from rushlight.distributions import constraint_registry, constraints, kl, transforms
from rushlight.distributions.compound import (
    Independent,
    MixtureSameFamily,
    TransformedDistribution,
)
from rushlight.distributions.constraint_registry import biject_to, transform_to
from rushlight.distributions.continuous import (
    Beta,
    Cauchy,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    GeneralizedPareto,
    Laplace,
    Normal,
    StudentT,
    Uniform,
    VonMises,
)
from rushlight.distributions.derived import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from rushlight.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.multivariate import (
    LKJCholesky,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
)
from rushlight.distributions.relaxed import (
    ContinuousBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from rushlight.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraint_registry",
    "constraints", "identity_transform", "kl", "kl_divergence", "register_kl", "transform_to",
    "transforms",
]  # fmt: skip

# The modules that torch has one distribution in, and those here that hold it.
MODULES = {
    "compound": ("independent", "mixture_same_family", "transformed_distribution"),
    "continuous": (
        "beta", "cauchy", "chi2", "dirichlet", "exponential", "fishersnedecor", "gamma",
        "generalized_pareto", "laplace", "normal", "studentT", "uniform", "von_mises",
    ),
    "derived": (
        "gumbel", "half_cauchy", "half_normal", "inverse_gamma", "kumaraswamy", "log_normal",
        "logistic_normal", "pareto", "weibull",
    ),
    "discrete": (
        "bernoulli", "binomial", "categorical", "geometric", "multinomial", "negative_binomial",
        "one_hot_categorical", "poisson",
    ),
    "multivariate": (
        "lkj_cholesky", "lowrank_multivariate_normal", "multivariate_normal", "wishart",
    ),
    "relaxed": ("continuous_bernoulli", "relaxed_bernoulli", "relaxed_categorical"),
}  # fmt: skip


__getattr__, __dir__ = namespace(
    __name__,
    modules={name: f".{module}" for module, names in MODULES.items() for name in names},
)
