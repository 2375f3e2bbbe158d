"""The base of all distributions.

A draw has sizes sample_shape + batch_shape + event_shape; one score belongs to each event."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.utils import EMPTY, lazy_property
from rushlight.opset import functions

__all__ = ["Distribution"]


class Distribution:
    """Subclasses set `arg_constraints` and `support`, and define `rsample` or `sample`,
    `log_prob` and what else they can tell."""

    has_rsample = False  # type: Any
    has_enumerate_support = False  # type: Any
    _validate_args: bool = __debug__
    # Attributes that `expand` expands, tensors or distributions that start with the batch
    # dimensions, and those that it takes over. A class states them beside its constructor.
    _expands: str
    _keeps = ""

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether new distributions check parameters and values unless told otherwise."""
        if value not in [True, False]:
            raise ValueError(f"set_default_validate_args(): value must be a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = EMPTY,
        event_shape: Any = EMPTY,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. "
                "Please set `arg_constraints = {}` or initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for param, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if param not in self.__dict__ and isinstance(getattr(type(self), param), lazy_property):
                continue
            value = getattr(self, param)
            if not functions._is_all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {param} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its batch expanded; no memory is taken for it."""
        cls, batch_shape = self._expanding_class(), Size(batch_shape)
        new = self._get_checked_instance(cls, _instance)
        cut = len(self._batch_shape)
        for name in cls._expands.split():
            value = self.__dict__.get(name)
            if value is not None:
                sizes = value.batch_shape if isinstance(value, Distribution) else value.shape
                setattr(new, name, value.expand(batch_shape + sizes[cut:]))
        for name in cls._keeps.split():
            setattr(new, name, self.__dict__[name])
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expanding_class(self) -> Any:
        """The class that says how to expand; one with another constructor must say so itself."""
        for cls in type(self).__mro__:
            if "_expands" in cls.__dict__:
                return cls
        raise NotImplementedError

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            # torch: the words.
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Any:
        """Sizes over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """Sizes of one draw, without batch."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The parameters' regions by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The region of the draws."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Any:
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        """A draw, or `sample_shape` of them."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        """Draws through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability at `value`."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of draws up to `value`."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The value up to which draws have the probability given."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution along dimension 0."""
        raise NotImplementedError

    def entropy(self) -> Any:
        raise NotImplementedError

    def perplexity(self) -> Any:
        return functions.exp(self.entropy())

    def _enumerated(self, values: Any, expand: bool) -> Any:
        """`values` of a single event dimension, set out along dimension 0."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _extended_shape(self, sample_shape: Any = EMPTY) -> Any:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _check_sample(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        actual = value.size()
        if actual[len(actual) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{actual} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for found, wanted in zip(reversed(actual), reversed(expected)):
            if found != 1 and wanted != 1 and found != wanted:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{actual} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable "
                "sample validation. Please initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if not functions._is_all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) to be within the support ({support!r}) of the "
                f"distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        held = [name for name in self.arg_constraints if name in self.__dict__]
        values = [(name, self.__dict__[name]) for name in held]
        text = ", ".join(f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in values)
        return f"{self.__class__.__name__}({text})"
