"""Activations. Those that are a function with stored options are made from tables."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn import init as initial
from rushlight.nn.functionmodule import FunctionModule, function_module
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.opset.creation import create

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]  # fmt: skip


class Elementwise(FunctionModule):
    """An activation; its options print in order of their definition."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        for name, value in self.chosen(args, kwargs).items():
            setattr(self, name, value)

    def forward(self, input: Any) -> Any:
        return type(self).function(input, *[getattr(self, name) for name, _ in self.options])

    def extra_repr(self) -> str:
        return shown_with_inplace(self, *[name for name, _ in self.options if name != "inplace"])


def shown_with_inplace(module: Any, *names: str) -> str:
    """Attributes as `name=value`; `inplace` only where it is set."""
    shown = [f"{name}={getattr(module, name)!r}" for name in names]
    if getattr(module, "inplace", False):
        shown.append("inplace=True")
    return ", ".join(shown)


def activation(name: str, function: Any, doc: str, **options: Any) -> Any:
    """An activation module from a function and the defaults of its options."""
    return function_module(
        name, __name__, Elementwise, function, doc, options=tuple(options.items())
    )


def op_call(name: str) -> Any:
    return lambda input, *args: getattr(functions, name)(input, *args)


ReLU = activation("ReLU", F.relu, "max(x, 0).", inplace=False)
Sigmoid = activation("Sigmoid", op_call("sigmoid"), "1 / (1 + exp(-x)).")
Tanh = activation("Tanh", op_call("tanh"), "Hyperbolic tangent.")
GELU = activation(
    "GELU",
    lambda x, approximate: functions.gelu(x, approximate=approximate),
    "x Φ(x).",
    approximate="none",
)
SiLU = activation("SiLU", F.silu, "x · sigmoid(x).", inplace=False)
ELU = activation("ELU", F.elu, "Exponential linear unit.", alpha=1.0, inplace=False)
SELU = activation("SELU", F.selu, "Scaled exponential linear unit.", inplace=False)
LeakyReLU = activation(
    "LeakyReLU", F.leaky_relu, "x, or a fraction of it when negative.",
    negative_slope=0.01, inplace=False,
)  # fmt: skip
Softplus = activation(
    "Softplus", op_call("softplus"), "log(1 + exp(beta x)) / beta.", beta=1.0, threshold=20.0
)


def older_option(old: str, given: Any, new: str, value: Any) -> Any:
    """torch: the value of an option that may have been given by its older name."""
    if given is None:
        return value
    warnings.warn(
        f"keyword argument `{old}` is deprecated and renamed to `{new}`",
        FutureWarning,
        stacklevel=3,
    )
    return given


class Hardtanh(Module):
    """x clamped to a range."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        min_val = older_option("min_value", min_value, "min_val", min_val)
        max_val = older_option("max_value", max_value, "max_val", max_val)
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return shown_with_inplace(self, "min_val", "max_val")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return shown_with_inplace(self)


class Threshold(Module):
    """A fixed value where the input is not above the threshold."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return shown_with_inplace(self, "threshold", "value")


class AlongDim(Module):
    """A function of (input, dim)."""

    function: Any

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return type(self).function(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(AlongDim):
    """exp(x) normalised along a dim."""

    function = staticmethod(F.softmax)


class LogSoftmax(AlongDim):
    """The logarithm of `Softmax`."""

    function = staticmethod(F.log_softmax)


CELU = activation(
    "CELU", F.celu, "`ELU` with a continuous slope for every alpha.", alpha=1.0, inplace=False
)
Hardsigmoid = activation("Hardsigmoid", F.hardsigmoid, "Sigmoid in pieces.", inplace=False)
Hardswish = activation("Hardswish", F.hardswish, "`SiLU` in straight pieces.", inplace=False)
LogSigmoid = activation("LogSigmoid", op_call("log_sigmoid"), "log(sigmoid(x)).")
Mish = activation("Mish", F.mish, "x · tanh(softplus(x)).", inplace=False)
Softsign = activation("Softsign", F.softsign, "x / (1 + |x|).")
Tanhshrink = activation("Tanhshrink", F.tanhshrink, "x - tanh(x).")
GLU = activation("GLU", F.glu, "One half times the sigmoid of the other.", dim=-1)


def shown_bare(module: Any) -> str:
    return str(module.lambd)


Hardshrink = activation("Hardshrink", op_call("hardshrink"), "x, or 0 near 0.", lambd=0.5)
Softshrink = activation("Softshrink", op_call("softshrink"), "x drawn to 0 by lambd.", lambd=0.5)
# torch: these two print their option without its name, and the next two print none.
Hardshrink.extra_repr = Softshrink.extra_repr = shown_bare
Hardsigmoid.extra_repr = Hardswish.extra_repr = Module.extra_repr


class RReLU(Module):
    """x, or a fraction of it drawn between `lower` and `upper` where it is negative."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return shown_with_inplace(self, "lower", "upper")


class PReLU(Module):
    """x, or a learned fraction of it where it is negative.

    >>> import rushlight as torch
    >>> torch.nn.PReLU()(torch.tensor([2.0, -2.0])).tolist()
    [2.0, -0.5]
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(create.empty((num_parameters,), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        initial.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return functions.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmin(AlongDim):
    """`Softmax` of the negated input."""

    function = staticmethod(F.softmin)


class Softmax2d(Module):
    """`Softmax` over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)
