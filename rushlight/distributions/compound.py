"""Distributions made of others: Independent, TransformedDistribution and MixtureSameFamily."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.size import Size
from rushlight.distributions import constraints
from rushlight.distributions.discrete import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transforms import ComposeTransform, Transform
from rushlight.distributions.utils import EMPTY, per_event, sum_rightmost
from rushlight.opset import functions

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """A distribution whose last batch dimensions count as dimensions of the event.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Independent, Normal
    >>> Independent(Normal(torch.zeros(3), torch.ones(3)), 1).event_shape
    torch.Size([3])
    """

    arg_constraints: dict[str, Any] = {}
    _expands = "base_dist"
    _keeps = "reinterpreted_batch_ndims"

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch_ndims = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch_ndims:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {batch_ndims}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = batch_ndims - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:
        return self.reinterpreted_batch_ndims <= 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        result = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            result = constraints.independent(result, self.reinterpreted_batch_ndims)
        return result

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of transformed draws from a base distribution.

    >>> import rushlight as torch
    >>> from rushlight.distributions import ExpTransform, Normal, TransformedDistribution
    >>> d = TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()])
    >>> d.log_prob(torch.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms

        whole = ComposeTransform(transforms)
        inner, outer = whole.domain.event_dim, whole.codomain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        if len(base_shape) < inner:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {inner}, "
                f"but got {base_shape}."
            )
        shape = whole.forward_shape(base_shape)
        wanted = whole.inverse_shape(shape)
        if base_shape != wanted:
            base_distribution = base_distribution.expand(wanted[: len(wanted) - base_event_dim])
        if inner > base_event_dim:
            base_distribution = Independent(base_distribution, inner - base_event_dim)
        self.base_dist = base_distribution
        cut = len(shape) - max(outer, base_event_dim + outer - inner)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch_shape = Size(batch_shape)
        shape = batch_shape + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    def _transformed(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        event_dim = len(self.event_shape)
        total: Any = 0.0
        for transform in reversed(self.transforms):
            origin = transform.inv(value)
            inner = transform.domain.event_dim
            event_dim += inner - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(origin, value)
            total = total - per_event(slope, event_dim, inner)
            value = origin
        base = self.base_dist
        return total + per_event(base.log_prob(value), event_dim, len(base.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """`value`, or 1 - value where the transforms are decreasing."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._transformed(self.base_dist.icdf(self._monotonize_cdf(value)))


class MixtureSameFamily(Distribution):
    """A mixture: a Categorical chooses along the last batch dimension of the components.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Categorical, MixtureSameFamily, Normal
    >>> weights = Categorical(torch.tensor([0.5, 0.5]))
    >>> MixtureSameFamily(weights, Normal(torch.tensor([-1.0, 3.0]), 1.0)).mean
    tensor(1.)
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False
    _expands = "_component_distribution _mixture_distribution"
    _keeps = "_num_component _event_ndims"

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        chosen = mixture_distribution.batch_shape
        batch_shape = component_distribution.batch_shape[:-1]
        for first, second in zip(reversed(chosen), reversed(batch_shape)):
            if first != 1 and second != 1 and first != second:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({chosen}) is not "
                    f"compatible with `component_distribution.batch_shape`({batch_shape})"
                )
        weights = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if weights != components:
            raise ValueError(
                f"`mixture_distribution component` ({weights}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = weights
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        return self._component_distribution

    def _weighted(self, values: Any) -> Any:
        """The mean of the components' values."""
        probs = self._mixture_distribution.probs
        chosen_ndims = len(self._mixture_distribution.batch_shape)
        missing = 0 if chosen_ndims == 1 else len(self.batch_shape) - chosen_ndims
        sizes = probs.shape
        probs = probs.reshape(sizes[:-1] + (1,) * missing + sizes[-1:] + (1,) * self._event_ndims)
        return (probs * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        between = (self._component_distribution.mean - self._pad(self.mean)).pow(2.0)
        return self._weighted(self._component_distribution.variance) + self._weighted(between)

    def cdf(self, x: Any) -> Any:
        below = self._component_distribution.cdf(self._pad(x))
        return (below * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        self._check_sample(x)
        scores = self._component_distribution.log_prob(self._pad(x))
        weights = functions.log_softmax(self._mixture_distribution.logits, -1)
        return functions.logsumexp(scores + weights, -1)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            index = index.expand((*drawn.shape[:dim], 1, *self.event_shape))
            return functions.gather(drawn, dim, index).squeeze(dim)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
