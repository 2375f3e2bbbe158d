"""Differences along dimensions, and between points: `gradient`, `pdist`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.opset.kinds import CONTRACTION, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, not_differentiable, sample

# -- gradient of sampled values -------------------------------------------------------------------


def check_gradient(self: Any, count: int | None, dims: list[int] | None, edge_order: int) -> None:
    """Refuse what `gradient` cannot answer; `count` is how many spacings were given."""
    if self._dtype is dtypes.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if count is not None and dims is None and count != self.dim():
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to 'self.dim() = {self.dim()}', since dim argument was not given, but got a "
            f"list of length {count}"
        )
    if count is not None and dims is not None and count != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            f"arguments to have the same length, but got a spacing argument of length {count} and "
            f"a dim argument of length {len(dims)}."
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for dim in range(self.dim()) if dims is None else geometry.wrap_dims(dims, self.dim()):
        if geometry.decided(self.shape[dim] < edge_order + 1):
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )


def even_gradient(self: Any, step: Any, dim: int, edge_order: int) -> Any:
    """Samples at equal distances: central differences, and one-sided ones at the ends."""

    def at(start: int, end: int | None = None) -> Any:
        return aten.slice(self, dim, start, end)

    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / step
        last = (at(-1) - at(-2, -1)) / step
    else:
        first = (at(1, 2) * 4 - at(0, 1) * 3 - at(2, 3)) / (step * 2)
        last = (at(-1) * 3 - at(-2, -1) * 4 + at(-3, -2)) / (step * 2)
    return aten.cat([first, (at(2) - at(0, -2)) / step / 2, last], dim)


def uneven_gradient(self: Any, places: Any, dim: int, edge_order: int) -> Any:
    """Samples at given places: differences weighted so that parabolas come out right."""
    if places.dim() != 1:
        raise RuntimeError(
            "torch.gradient expected each element of spacing to have one dimension, but got an "
            f"element with {places.dim()} dimensions!"
        )
    gaps = places.diff()
    shape = [1] * self.dim()
    shape[dim] = -1

    def at(start: int, end: int | None = None) -> Any:
        return aten.slice(self, dim, start, end)

    before, after = gaps[:-1].reshape(shape), gaps[1:].reshape(shape)
    both = before + after
    middle = (
        at(0, -2) * (-after / (before * both))
        + at(1, -1) * ((after - before) / (before * after))
        + at(2) * (before / (after * both))
    )
    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / gaps[0]
        last = (at(-1) - at(-2, -1)) / gaps[-1]
    else:
        near, far = gaps[0], gaps[1]
        first = (
            at(0, 1) * (-(near * 2 + far) / (near * (near + far)))
            + at(1, 2) * ((near + far) / (near * far))
            - at(2, 3) * (near / (far * (near + far)))
        )
        far, near = gaps[-2], gaps[-1]
        last = (
            at(-3, -2) * (near / (far * (near + far)))
            - at(-2, -1) * ((near + far) / (near * far))
            + at(-1) * ((near * 2 + far) / (near * (near + far)))
        )
    return aten.cat([first, middle, last], dim)


def gradients(self: Any, spacing: Any, dims: list[int] | None, edge_order: int) -> list[Any]:
    """One gradient per dim. `spacing` is None, a number for all dims, or one entry per dim."""
    listed = isinstance(spacing, (list, tuple))
    check_gradient(self, len(spacing) if listed else None, dims, edge_order)
    chosen = geometry.wrap_dims(range(self.dim()) if dims is None else dims, self.dim())
    steps = spacing if listed else [1 if spacing is None else spacing] * len(chosen)
    return [
        (uneven_gradient if hasattr(step, "_dtype") else even_gradient)(self, step, dim, edge_order)
        for step, dim in zip(steps, chosen, strict=True)
    ]


def one_dim(dim: int | None) -> list[int] | None:
    return None if dim is None else [dim]


def places(make: Any, *counts: int) -> list[Any]:
    """Coordinates at growing distances."""
    return [aten.cumsum(make.positive(count, dtype=dtypes.float64), 0) for count in counts]


GRADIENT_FORMS: tuple[tuple[str, str, Any], ...] = (
    (
        "array",
        "int[] dim",
        lambda make: [sample(make(3, 4), dim=(0, 1)), sample(make.strided(3, 3), dim=[1])],
    ),
    (
        "scalararray",
        "Scalar spacing, int[] dim",
        lambda make: [sample(make(3, 4), spacing=2.0, dim=[0, -1], edge_order=2)],
    ),
    (
        "scalarint",
        "Scalar? spacing=None, int? dim=None",
        lambda make: [
            sample(make(4)),
            sample(make.strided(3, 4), dim=0),
            sample(make(3, 4), spacing=0.5, edge_order=2),
            sample(make()),
        ],
    ),
    (
        "scalarrayint",
        "Scalar[] spacing, int? dim=None",
        lambda make: [
            sample(make(3, 4), spacing=[2.0, 3.0]),
            sample(make(3, 4), spacing=[2], dim=1),
        ],
    ),
    (
        "scalarrayarray",
        "Scalar[] spacing, int[] dim",
        lambda make: [sample(make(3, 4), spacing=[2.0, 3.0], dim=[1, 0])],
    ),
    (
        "tensorarrayint",
        "Tensor[] spacing, int? dim=None",
        lambda make: [
            sample(make(3, 4), spacing=places(make, 3, 4)),
            sample(
                make(3, 4),
                spacing=places(make, 3),
                dim=0,
                edge_order=2 if make.dtype.itemsize > 2 else 1,
            ),
        ],
    ),
    (
        "tensorarray",
        "Tensor[] spacing, int[] dim",
        lambda make: [sample(make.strided(3, 4), spacing=places(make, 4, 3), dim=[1, 0])],
    ),
)


def gradient_form(overload: str, options: str, samples: Any) -> None:
    names = [option.split()[-1].split("=")[0] for option in options.split(", ")]
    listed = "int[] dim" in options

    def body(self: Any, *args: Any) -> list[Any]:
        given = dict(zip((*names, "edge_order"), args, strict=True))
        dim = given["dim"]
        dims = list(dim) if listed else one_dim(dim)
        return gradients(self, given.get("spacing"), dims, given["edge_order"])

    composite(
        f"gradient.{overload}(Tensor self, *, {options}, int edge_order=1) -> Tensor[]",
        method=False,
        samples=samples,
        errors=lambda make: (
            [
                (RuntimeError, sample(make(4), dim=[0], edge_order=3)),
                (RuntimeError, sample(make(1), dim=[0])),
                (RuntimeError, sample(make(3, 4), dim=[0, 0])),
                (IndexError, sample(make(3, 4), dim=[5])),
                (RuntimeError, sample(make(3, 4), spacing=[1.0, 2.0, 3.0])),
                (RuntimeError, sample(make(3, 4), spacing=[1.0], dim=[0, 1])),
                (RuntimeError, sample(make(3, dtype=dtypes.uint8), dim=[0])),
            ]
            if overload == "array"
            else []
        ),
    )(body)


for form in GRADIENT_FORMS:
    gradient_form(*form)


# -- distances between the rows of a matrix -------------------------------------------------------

ORDERS = (0.0, 1.0, 1.5, 2.0, 3.0, float("inf"))


def pairs(array: Any) -> tuple[Any, Any, Any]:
    """(first row, second row, difference) of all pairs, in order of their rows."""
    first, second = np.triu_indices(array.shape[0], 1)
    return first, second, array[first] - array[second]


pair_distances = op(
    "_pdist_forward(Tensor self, float p=2) -> Tensor",
    batch=late("product.batched:pair_distances"),
    kind=CONTRACTION,
    method=False,
    function=False,
    node="PdistBackward0",
    vjp=lambda grad, self, p, result: aten._pdist_backward(grad, self, p, result),
    samples=lambda make: (
        [(make(3, 2), p) for p in ORDERS] + [(make(1, 3), 2.0), (make(3, 0), 2.0)]
        if make.dtype in (dtypes.float32, dtypes.float64)
        else []
    ),
)


@pair_distances.shape
def _(self: Any, p: float) -> Any:
    rows = self.shape[0]
    return Spec((rows * (rows - 1) // 2,), self._dtype)


@pair_distances.kernel
def _(xp: Any, self: Any, p: float) -> Any:
    dtype = dtypes.from_numpy(self.dtype)
    if self.shape[0] > 1 and self.size and dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported("pdist", dtype)
    gap = xp.abs(pairs(self)[2])
    if p == 0:
        return (gap != 0).sum(-1).astype(self.dtype)
    if p == 1:
        return gap.sum(-1)
    if p == 2:
        return xp.sqrt((gap * gap).sum(-1))
    if p == float("inf"):
        return gap.max(-1, initial=0)
    return (gap**p).sum(-1) ** xp.asarray(1 / p, self.dtype)


def pair_rows(count: Any, place: Any) -> tuple[Any, Any]:
    """The same pairs over tensors, solved for: row i comes first in count - 1 - i of them."""
    width = 2 * count - 1
    order = aten.arange(count * (count - 1) // 2, dtype=dtypes.float64, device=place)
    first = ((width - (width * width - order * 8).sqrt()) / 2).floor()
    second = order - first * (width - first) / 2 + first + 1
    return first.to(dtypes.int64), second.to(dtypes.int64)


def slope_of_pairs(gap: Any, length: Any, p: float) -> Any:
    """How a distance grows with the difference it is the length of; zero where points coincide."""
    if p == 0:
        return aten.zeros_like(gap)
    if p == 1:
        return gap.sgn()
    if p == float("inf"):
        return gap.sgn() * (gap.abs() == length)
    slope = gap * gap.abs().pow(p - 2) / length.pow(p - 1)
    return slope.masked_fill((gap == 0).logical_or(length == 0), 0)


@pair_distances.jvp
def _(self_t: Any, self: Any, p: float, result: Any) -> Any:
    if p == 0:
        return aten.zeros_like(result)
    first, second = pair_rows(self.shape[0], self.device)
    gap = self.index_select(0, first) - self.index_select(0, second)
    moved = self_t.index_select(0, first) - self_t.index_select(0, second)
    return (slope_of_pairs(gap, result.unsqueeze(-1), p) * moved).sum(-1)


def slope_samples(make: Any) -> Any:
    if make.dtype in (dtypes.float32, dtypes.float64):
        for p in ORDERS:
            points = make(3, 2)
            yield make(3), points, p, aten._pdist_forward(points, p)


pair_slopes = op(
    "_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
    batch=late("product.batched:pair_slopes"),
    kind=CONTRACTION,
    method=False,
    node="torch::autograd::NotImplemented",
    shape=lambda grad, self, p, pdist: Spec(self.shape, self._dtype),
    vjp=dict.fromkeys(("grad", "self", "pdist"), not_differentiable("aten::_pdist_backward")),
    samples=slope_samples,
)


@pair_slopes.kernel
def _(xp: Any, grad: Any, self: Any, p: float, pdist: Any) -> Any:
    result = xp.zeros(self.shape, self.dtype)
    if p == 0 or not self.size:
        return result
    first, second, gap = pairs(self)
    length = pdist[:, None]
    if p == 1:
        slope = xp.sign(gap)
    elif p == float("inf"):
        slope = xp.sign(gap) * (xp.abs(gap) == length)
    else:
        size = xp.abs(gap)
        # 0/0 where points coincide: the subgradient taken there is zero.
        with xp.errstate(all="ignore"):
            slope = gap if p == 2 else xp.sign(gap) * size ** (p - 1)
            slope = xp.where((length == 0) | (size == 0), 0, slope / length ** (p - 1))
    moved = (slope * grad[:, None]).astype(self.dtype)
    xp.add.at(result, first, moved)
    xp.subtract.at(result, second, moved)
    return result


@composite(
    "pdist(Tensor self, float p=2) -> Tensor",
    functional=True,
    method=False,
    samples=lambda make: [(make(3, 2),), (make.strided(3, 2), 1.0), (make(1, 3),)],
    errors=lambda make: [
        (RuntimeError, (make(3),)),
        (RuntimeError, (make(3, 2), -1.0)),
        (RuntimeError, (make.ints(3, 2),)),
        (NotImplementedError, (make(3, 2, dtype=dtypes.float16),)),
    ],
)
def pdist(self: Any, p: float) -> Any:
    if self.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.dim()}D")
    if not self.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return aten._pdist_forward(self.contiguous(), p)
