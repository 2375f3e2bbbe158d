"""Triangles and diagonals: `tril`, `diag`, `trace` and the like."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.core.tensor import sizes_of
from rushlight.opset.creation.create import factory
from rushlight.opset.kinds import CREATION, REARRANGEMENT, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, linear_in
from rushlight.opset.view.gradients import diagonal_backward, strided_part

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("tril_indices", "triu_indices")

tril = op(
    "tril(Tensor self, SymInt diagonal=0) -> Tensor",
    trailing=2,
    kind=REARRANGEMENT,
    inplace=True,
    vjp=lambda grad, diagonal: grad.tril(diagonal),
    jvp=linear_in("self"),
)
triu = op(
    "triu(Tensor self, SymInt diagonal=0) -> Tensor",
    trailing=2,
    kind=REARRANGEMENT,
    inplace=True,
    vjp=lambda grad, diagonal: grad.triu(diagonal),
    jvp=linear_in("self"),
)


def triangle_shape(name: str) -> Any:
    def rule(self: Any, diagonal: Any) -> Spec:
        if self.dim() < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return Spec(self.shape, self._dtype)

    return rule


def triangle_kernel(name: str) -> Any:
    def kernel(xp: Any, self: Any, diagonal: Any) -> Any:
        rows, columns = self.shape[-2:]
        mask = xp.tri(rows, columns, diagonal - (name == "triu"), dtype=bool)
        # np.where keeps nan and inf out of the zeroed part.
        return xp.where(mask if name == "tril" else ~mask, self, xp.zeros((), self.dtype))

    return kernel


def lower_triangle(build: Any, op: Any, self: Any, diagonal: Any) -> Any:
    if self.expr is None or len(self.shape) < 2:
        build.refuse("no matrix")
    m, values = build.m, build.widen(self)
    # column - row, compared with the diagonal
    place = m.index((*[0] * (len(self.shape) - 2), -1, 1), 0)
    inside = (m.less_equal if op is tril else m.greater_equal)(place, diagonal)
    return build.cast(m.where(inside, values, m.const(0, values.dtype)), self.dtype)


for record in (tril, triu):
    record.lower = lower_triangle
    record.options["recompute"] = True
    record.rules["shape"] = triangle_shape(record.base_name)
    record.rules["kernel"] = triangle_kernel(record.base_name)
    record.samples = lambda make: [
        (make(3, 3),),
        (make(2, 4), 1),
        (make.strided(3, 2), -1),
        (make.special(2, 3), 0),
        (make(2, 2, 3), 9),
        (make(0, 3),),
    ]
    record.errors = lambda make: [(RuntimeError, (make(3),))]


def triangle_count(rows: int, columns: int, diagonal: int) -> int:
    """How many elements lie on and below a diagonal."""
    # Row r has min(max(r + diagonal + 1, 0), columns) of them: none, then one more each, then all.
    start = min(max(-diagonal, 0), rows)
    full = min(max(columns - diagonal, start), rows)
    first = start + diagonal + 1
    growing = full - start
    return growing * (2 * first + growing - 1) // 2 + (rows - full) * columns


def triangle_indices(name: str) -> Any:
    record = op(
        f"{name}_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, "
        "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        kind=CREATION,
        method=False,
    )

    def check(row: int, col: int, dtype: Any) -> None:
        if row < 0 or col < 0:
            which, value = ("row", row) if row < 0 else ("col", col)
            raise RuntimeError(f"{which} must be non-negative, got{value}")
        if dtype.category != dtypes.INTEGER:
            raise unsupported(f"{name}_indices", dtype)

    @record.shape
    def _(
        row: int, col: int, offset: int, dtype: Any, layout: Any, device: Any, pin_memory: Any
    ) -> Any:
        result_dtype = dtype or dtypes.int64
        check(row, col, result_dtype)
        count = triangle_count(row, col, offset)
        if name == "triu":
            count = row * col - triangle_count(row, col, offset - 1)
        return Spec((2, count), result_dtype)

    @record.kernel
    def _(
        xp: Any,
        row: int,
        col: int,
        offset: int,
        dtype: Any,
        layout: Any,
        device: Any,
        pin_memory: Any,
    ) -> Any:
        result_dtype = dtype or dtypes.int64
        check(row, col, result_dtype)
        below = xp.tri(row, col, offset - (name == "triu"), dtype=bool)
        return xp.stack(xp.nonzero(below if name == "tril" else ~below)).astype(result_dtype.np)

    return record


tril_indices_op = triangle_indices("tril")
triu_indices_op = triangle_indices("triu")
for record in (tril_indices_op, triu_indices_op):
    record.samples = lambda make: [(3, 3), (2, 4, 1), (3, 2, -1), (0, 2)]
    record.errors = lambda make: [(RuntimeError, (-1, 2))]

diag_embed = op(
    "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    kind=REARRANGEMENT,
    vjp=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2),
    jvp=linear_in("self"),
)


@diag_embed.batch
def _(level: Any, op: Any, self: Any, offset: int, dim1: int, dim2: int) -> Any:
    rank = self.dim() + 1
    moved = (level.front(self), offset, level.shift(dim1, rank), level.shift(dim2, rank))
    return level.wrap(level.below(op, moved))


def embedded(sizes: Any, offset: int, dim1: int, dim2: int) -> tuple[Any, int, int]:
    ndim = len(sizes) + 1
    first = geometry.wrap_dim(dim1, ndim)
    second = geometry.wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = abs(offset) + sizes[-1]
    full = list(sizes[:-1])
    for axis in sorted((first, second)):
        full.insert(axis, length)
    return tuple(full), first, second


@diag_embed.shape
def _(self: Any, offset: int, dim1: int, dim2: int) -> Any:
    sizes = sizes_of(self)
    return Spec(embedded(sizes, offset, dim1, dim2)[0], self._dtype)


@diag_embed.kernel
def _(xp: Any, self: Any, offset: int, dim1: int, dim2: int) -> Any:
    sizes, first, second = embedded(self.shape, offset, dim1, dim2)
    result = xp.zeros(sizes, self.dtype)
    if self.size:
        strides = geometry.contiguous_strides(sizes)
        part = geometry.diagonal_geometry(sizes, strides, offset, first, second)
        strided_part(result, *part)[...] = self
    return result


diag_embed.samples = lambda make: [
    (make(3),),
    (make.strided(2, 3), 1),
    (make(2, 2), -1, 0, 2),
    (make(0),),
]
diag_embed.errors = lambda make: [(RuntimeError, (make(3), 0, 1, 1)), (IndexError, (make(),))]


@composite("diag(Tensor self, int diagonal=0) -> Tensor", exact_out=True)
def diag(self: Any, diagonal: int) -> Any:
    if self.dim() == 1:
        return self.diag_embed(diagonal)
    if self.dim() == 2:
        return aten.diagonal_copy(self, diagonal)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.dim()}D")


@composite("diagflat(Tensor self, int offset=0) -> Tensor")
def diagflat(self: Any, offset: int) -> Any:
    return self.contiguous().view(-1).diag(offset)


diag.samples = lambda make: [
    (make(3),),
    (make(3), -1),
    (make.strided(2, 3), 1),
    (make(3, 3),),
]
diag.errors = lambda make: [(RuntimeError, (make(2, 2, 2),))]
diagflat.samples = lambda make: [(make(3),), (make.strided(2, 2), 1), (make(),)]


trace = op(
    "trace(Tensor self) -> Tensor",
    batch=late("moving.batched:trace"),
    autocast="float32",
    kind=REARRANGEMENT,
    vjp=lambda grad, self_shape: diagonal_backward(
        grad.expand((min(self_shape[0], self_shape[1]),)), self_shape, 0, 0, 1
    ),
    jvp=linear_in("self"),
)


@trace.shape
def _(self: Any) -> Any:
    if self.dim() != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.dim()}")
    if self._dtype is dtypes.bool_:
        raise unsupported("trace", self._dtype)
    return Spec((), dtypes.int64 if self._dtype.category < dtypes.FLOAT else self._dtype)


@trace.kernel
def _(xp: Any, self: Any) -> Any:
    values = xp.diagonal(self)
    if self.dtype.kind in "biu":
        return values.sum(dtype=xp.int64)
    if self.dtype.itemsize == 2:
        return values.astype(xp.float32).sum().astype(self.dtype)
    return values.sum()


trace.samples = lambda make: [(make(3, 3),), (make.strided(2, 4),), (make(0, 3),)]
trace.errors = lambda make: [(RuntimeError, (make(3),))]

# The public forms.
tril_indices = factory("tril_indices")
triu_indices = factory("triu_indices")
