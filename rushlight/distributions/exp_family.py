"""Exponential families: entropies and divergences follow from the log normaliser."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.backward import grad
from rushlight.autograd.grad_mode import enable_grad
from rushlight.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Densities exp(t(x) . theta - F(theta) + k(x)).

    Subclasses give theta as `_natural_params`, F as `_log_normalizer`, and the mean of k as
    `_mean_carrier_measure`.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def _normalizer_and_slopes(self) -> tuple[list[Any], Any, Any]:
        """The natural parameters, F there, and its derivatives."""
        with enable_grad():
            params = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*params)
            return params, normalizer, grad(normalizer.sum(), params, create_graph=True)

    def entropy(self) -> Any:
        """F - theta . grad F - E[k], the Bregman divergence of the log normaliser."""
        carried = self._mean_carrier_measure
        params, normalizer, slopes = self._normalizer_and_slopes()
        result = normalizer - carried
        for param, slope in zip(params, slopes):
            result = result - (param * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result
