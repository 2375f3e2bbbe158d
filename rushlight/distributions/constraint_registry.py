"""Which transform leads from unconstrained numbers to a region.

`biject_to` gives bijections with Jacobians, `transform_to` cheaper maps that may be many to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.distributions import constraints, transforms
from rushlight.distributions.utils import is_number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Factories of transforms by class of constraint.

    >>> import rushlight as torch
    >>> torch.distributions.transform_to(torch.distributions.constraints.unit_interval)
    SigmoidTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Let `factory(constraint)` make the transforms for the class of `constraint`.

        Without a factory: a decorator for one.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, "
                f"but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform to the region of `constraint`."""
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            # torch: the words.
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def to_real(constraint: Any) -> Any:
    return transforms.identity_transform


def to_greater_than(constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def to_less_than(constraint: Any) -> Any:
    mirror = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), mirror])


def to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


def register_all(registry: ConstraintRegistry) -> None:
    """What both registries know; constraints made of others are resolved in the one asked."""

    def to_independent(constraint: Any) -> Any:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def to_cat(constraint: Any) -> Any:
        parts = [registry(part) for part in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def to_stack(constraint: Any) -> Any:
        parts = [registry(part) for part in constraint.cseq]
        return transforms.StackTransform(parts, constraint.dim)

    registry.register(constraints.real, to_real)
    registry.register(constraints.greater_than, to_greater_than)
    registry.register(constraints.greater_than_eq, to_greater_than)
    registry.register(constraints.less_than, to_less_than)
    registry.register(constraints.interval, to_interval)
    registry.register(constraints.half_open_interval, to_interval)
    registry.register(constraints.corr_cholesky, made(transforms.CorrCholeskyTransform))
    registry.register(constraints.independent, to_independent)
    registry.register(constraints.cat, to_cat)
    registry.register(constraints.stack, to_stack)


def made(kind: Any) -> Callable[[Any], Any]:
    """A factory of transforms that need to know nothing of the constraint."""
    return lambda constraint: kind()


register_all(biject_to)
register_all(transform_to)
biject_to.register(constraints.simplex, made(transforms.StickBreakingTransform))
transform_to.register(constraints.simplex, made(transforms.SoftmaxTransform))
transform_to.register(constraints.lower_cholesky, made(transforms.LowerCholeskyTransform))
transform_to.register(constraints.positive_definite, made(transforms.PositiveDefiniteTransform))
transform_to.register(constraints.positive_semidefinite, made(transforms.PositiveDefiniteTransform))
