"""More activations. Those that are a function with stored options are made from tables."""

from __future__ import annotations

from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn import init as initial
from rushlight.nn.layers import AlongDim, activation, op_call, shown_with_inplace
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.opset.creation import create

__all__ = [
    "CELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "LogSigmoid", "Mish", "PReLU",
    "RReLU", "Softmax2d", "Softmin", "Softshrink", "Softsign", "Tanhshrink",
]  # fmt: skip

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
