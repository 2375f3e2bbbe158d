"""Orthogonal polynomials and the Airy function, as torch.special has them: without derivatives."""

from __future__ import annotations

from typing import Any

from rushlight.core.op import refuse
from rushlight.opset.elementwise import INT_TO_FLOAT
from rushlight.opset.pointwise.comparison import text_of
from rushlight.opset.pointwise.special import is_wide, special
from rushlight.opset.registry import pointwise

FAMILIES = (
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
)
NO_DERIVATIVE = refuse("no derivative is defined for it")


def tensor_samples(make: Any) -> Any:
    yield make(3, 4, low=-1, high=1), make(3, 4, low=0, high=6)
    yield make(3, 4, low=-2, high=2), make(4, low=-2, high=3)
    yield make.strided(2, 3), make(low=1, high=5)
    yield make(), make.ints(3, high=5)
    yield make(4, low=0, high=1), make(4, low=9, high=14)
    yield make(0, 3), make(3)


def number_samples(make: Any) -> Any:
    for degree in (0, 1, 2, 5, -1, 3.5):
        yield make(3, low=-1.5, high=1.5), degree
    yield make.strided(2, 3, low=0, high=1), 12


def polynomial(name: str) -> None:
    """A family over (x, n), either of which may be a number."""
    options: dict[str, Any] = {
        "scalar": text_of(name),
        "promote": INT_TO_FLOAT,
        "dtypes": is_wide,
        "kernel_name": f"{name}_cpu",
        "method": False,
        "inplace": False,
        "numbers": False,
        "vjp": NO_DERIVATIVE,
    }
    pointwise(f"special_{name}(Tensor x, Tensor n) -> Tensor", samples=tensor_samples, **options)
    pointwise(
        f"special_{name}.x_scalar(Scalar x, Tensor n) -> Tensor",
        promoted_scalars=(0,),
        samples=lambda make: [(x, make(2, 3, low=0, high=6)) for x in (0.5, -0.75, 2, 1.0, -1)],
        **options,
    )
    pointwise(
        f"special_{name}.n_scalar(Tensor x, Scalar n) -> Tensor",
        promoted_scalars=(1,),
        samples=number_samples,
        **options,
    )


for each in FAMILIES:
    polynomial(each)
special("special_airy_ai", NO_DERIVATIVE, argument="x", dtypes=is_wide, domain=(-2.0, 8.0))
