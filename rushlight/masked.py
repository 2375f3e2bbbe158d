"""torch.masked: reductions and normalisations that look only at elements where a mask is true.

Each fills what is masked out with the value that changes nothing and calls the plain function.
Masked-out elements of a result that keeps its shape hold whatever that fill gives.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.core import geometry
from rushlight.core.dtype import COMPLEX, FLOAT, bool_, iinfo, int64, uint8
from rushlight.opset import functions
from rushlight.subclasses import masked
from rushlight.subclasses.masked import MaskedTensor, is_masked_tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum",
    "is_masked_tensor", "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


def masked_out(input: Any, mask: Any, fill: Any) -> Any:
    """The input with `fill` where the mask is false."""
    if mask is None:
        return input
    return functions.where(broadcast_mask(input, mask), input, fill)


def broadcast_mask(input: Any, mask: Any) -> Any:
    if mask.dim() > input.dim():
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            "input)"
        )
    return mask.to(bool_).expand(input.shape)


def converted(input: Any, dtype: Any) -> Any:
    return input if dtype is None else input.to(dtype)


def least(dtype: Any) -> Any:
    """What no maximum takes before anything else."""
    if dtype is bool_:
        return False
    return -math.inf if dtype.category >= FLOAT else iinfo(dtype).min


def greatest(dtype: Any) -> Any:
    if dtype is bool_:
        return True
    return math.inf if dtype.category >= FLOAT else iinfo(dtype).max


def every_dim(input: Any, dim: Any) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(input.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim) or tuple(range(input.dim()))


def counted(input: Any, mask: Any, dim: Any, keepdim: bool) -> Any:
    """How many elements each result is made of."""
    ones = functions.ones_like(input, dtype=input.dtype if input.is_floating_point() else None)
    chosen = masked_out(ones.detach(), mask, 0)
    return chosen.sum(dim=every_dim(input, dim), keepdim=keepdim)


def sum(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    given = masked_out(converted(input, dtype), mask, 0)
    return given.sum(dim=every_dim(given, dim), keepdim=keepdim, dtype=dtype)


def prod(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    given = masked_out(converted(input, dtype), mask, 1)
    result = given
    # torch: no dims at all are none here.
    dims = () if dim == () or dim == [] else every_dim(given, dim)
    for axis in sorted(geometry.wrap_dims(dims, given.dim()), reverse=True):
        result = result.prod(axis, keepdim=keepdim)
    # torch: a number without dims is its own product, in the dtype of products.
    return result if given.dim() else given.prod()


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    given = masked_out(converted(input, dtype), mask, 0)
    # torch: small integers are not widened here.
    return given.cumsum(dim, dtype=None if given.dtype is bool_ else given.dtype)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    given = masked_out(converted(input, dtype), mask, 1)
    return given.cumprod(dim, dtype=None if given.dtype is bool_ else given.dtype)


def amax(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    given = converted(input, dtype)
    return masked_out(given, mask, least(given.dtype)).amax(every_dim(given, dim), keepdim=keepdim)


def amin(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    given = converted(input, dtype)
    filled = masked_out(given, mask, greatest(given.dtype))
    return filled.amin(every_dim(given, dim), keepdim=keepdim)


def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    given = converted(input, dtype)
    found = masked_out(given, mask, least(given.dtype)).argmax(dim, keepdim=keepdim)
    # torch: the place is a number of the input's dtype.
    return found.to(given.dtype)


def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    given = converted(input, dtype)
    return (
        masked_out(given, mask, greatest(given.dtype)).argmin(dim, keepdim=keepdim).to(given.dtype)
    )


def mean(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    given = converted(input, dtype)
    if given.dtype.category < FLOAT:
        raise ValueError(
            "mean(): a floating point or complex dtype is needed, but got "
            f"{given.dtype}; pass dtype="
        )
    return sum(given, dim, keepdim=keepdim, mask=mask) / counted(given, mask, dim, keepdim)


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    given = converted(input, dtype)
    if given.dtype.category < FLOAT:
        return median_of_integers(given, dim, keepdim, mask)
    if given.dtype.category != FLOAT:
        raise ValueError(f"median(): a floating point dtype is needed, but got {given.dtype}")
    if given.dim() == 0:
        return masked_out(given, mask, math.nan)
    return masked_out(given, mask, math.nan).nanmedian(dim, keepdim).values


def median_of_integers(given: Any, dim: int, keepdim: bool, mask: Any) -> Any:
    """The lower median of what the mask chooses, with the others sorted behind it."""
    whole = given.to(uint8) if given.dtype is bool_ else given
    chosen = masked_out(functions.ones_like(whole, dtype=int64), mask, 0).sum(dim, keepdim=True)
    if bool((chosen == 0).any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    ordered = masked_out(whole, mask, greatest(whole.dtype)).sort(dim).values
    found = ordered.gather(dim, (chosen - 1) // 2)
    return (found if keepdim else found.squeeze(dim)).to(given.dtype)


def logsumexp(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    given = converted(input, dtype)
    filled = masked_out(given, mask, least(given.dtype))
    return functions.logsumexp(filled, every_dim(given, dim), keepdim=keepdim).to(given.dtype)


def logaddexp(
    input: Any,
    other: Any,
    *,
    dtype: Any = None,
    input_mask: Any = None,
    other_mask: Any = None,
) -> Any:
    first = masked_out(converted(input, dtype), input_mask, -math.inf)
    return functions.logaddexp(first, masked_out(converted(other, dtype), other_mask, -math.inf))


def norm(
    input: Any,
    ord: Any = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    given = converted(input, dtype)
    # The smallest norm takes the least element: there infinity changes nothing.
    fill = math.inf if ord == -math.inf else 0
    filled = masked_out(given, mask, fill)
    return functions.linalg_vector_norm(filled, ord, every_dim(given, dim), keepdim)


def compute_spread(
    input: Any, dim: Any, unbiased: Any, keepdim: bool, mask: Any, root: bool
) -> Any:
    given = input if input.dtype.category >= FLOAT else input.to(functions.ones(()).dtype)
    count = counted(given, mask, dim, True)
    middle = sum(given, dim, keepdim=True, mask=mask) / count
    off = given - middle
    # torch: of complex numbers complex too.
    squares = off * off.conj() if given.dtype.category == COMPLEX else off * off
    total = sum(squares, dim, keepdim=keepdim, mask=mask)
    if not keepdim:
        count = counted(given, mask, dim, False)
    if unbiased:
        count = (count.real - 1).clamp(min=0)
    found = total / count
    return found.sqrt() if root else found


def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    less_one = one_less(unbiased, correction)
    return compute_spread(converted(input, dtype), dim, less_one, keepdim, mask, False)


def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    less_one = one_less(unbiased, correction)
    return compute_spread(converted(input, dtype), dim, less_one, keepdim, mask, True)


def one_less(unbiased: bool | None, correction: Any) -> bool:
    """Whether sums of squares are divided by one less than their number of terms."""
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction not in (None, 0, 1):
        raise MissingFeature(f"masked variance with correction={correction}", code="RL0405")
    if correction is not None:
        return bool(correction)
    return True if unbiased is None else unbiased


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    return masked_out(converted(input, dtype), mask, -math.inf).softmax(dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    return masked_out(converted(input, dtype), mask, -math.inf).log_softmax(dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    return (-masked_out(converted(input, dtype), mask, math.inf)).softmax(dim)


def normalize(
    input: Any,
    ord: Any,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    given = converted(input, dtype)
    size = norm(given, ord, dim, keepdim=True, mask=mask)
    return masked_out(given, mask, 0) / size.clamp(min=eps)


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> Any:
    """A tensor that carries a mask, of copies of what is given."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> Any:
    """A tensor that carries a mask, through which gradients reach `data`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        MaskedTensor(data.detach(), mask)
    return masked.with_mask(data.clone(), mask)


def all_of(input: Any, dim: Any = None, *, keepdim: bool = False, mask: Any) -> Any:
    given = functions.where(mask, input != 0, True)
    return functions.all(given) if dim is None else functions.all(given, dim, keepdim)


masked.REDUCTIONS.update(
    {
        "sum": sum, "mean": mean, "prod": prod, "amax": amax, "amin": amin, "std": std,
        "var": var,
        "all": all_of,
    }
)  # fmt: skip
masked.NORMALISED.update(
    {
        name: lambda self, dim, *given, function=function, **named: masked.with_mask(
            function(self.get_data(), dim, mask=self.get_mask()), self.get_mask()
        )
        for name, function in (("softmax", softmax), ("log_softmax", log_softmax))
    }
)
