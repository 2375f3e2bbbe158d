"""What is built on contractions: linear layers, tensordot, chains of products, powers, cross
products and distances. Functions whose signature is not a schema's (`tensordot(a, b, dims=2)`)
parse their arguments here and call the op of the same name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import dtype_of, rounded
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import contiguous_format
from rushlight.core.dispatch import overridable
from rushlight.core.dtype import unsupported
from rushlight.core.quick import Quick, Step
from rushlight.core.state import LOCAL, warn_once
from rushlight.core.tensor import Tensor
from rushlight.opset.kinds import CONTRACTION, Spec
from rushlight.opset.product.contract import (
    multipliable,
    product_of,
    refuse_dtype,
)
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, conj, late, not_differentiable, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("cdist", "chain_matmul", "tensordot")

__all__ = ["bilinear", "cdist", "chain_matmul", "linear", "tensordot"]

# -- linear ---------------------------------------------------------------------------------------


@composite(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    functional=True,
    out_dtype=True,
    errors=lambda make: [
        (RuntimeError, (make(2, 3), make(4, 2))),
        (RuntimeError, (make(2, 3), make(4, 3), make(3))),
    ],
    autocast="lower",
    method=False,
    # The transposed weight is a node of the graph and seldom more.
    quick=Quick(
        "np.add(product_ := {input}.dot(turned_ := {weight}.T), {bias}, product_)",
        when="bias is not None and {input}.ndim == 2 == {weight}.ndim and {bias}.ndim == 1 "
        "and {bias}.size == len({weight}) and (dtype_ := input._dtype).scalar_fast "
        "and weight._dtype is dtype_ and bias._dtype is dtype_ and weight._view is None",
        result_is_contiguous=True,
        graph=(
            Step("transposed", "t", ("weight",), "turned_"),
            Step("", "addmm", ("bias", "input", "transposed", "1", "1"), "array_"),
        ),
    ),
)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    ndim = input.dim()
    if ndim == 1 and LOCAL.state.transforms and is_vector_case(input, weight, bias):
        # One op: what a transform records is its own affair.
        return weight.mv(input) if bias is None else aten.addmv(bias, weight, input)
    if bias is not None:
        if ndim == 2:
            return aten.addmm(bias, input, aten.t(weight))
        if ndim and input.is_contiguous() and is_vector_like(bias):
            sizes = tuple(input.shape)
            flat = input.reshape((product_of(sizes[:-1]), sizes[-1]))
            result = aten.addmm(bias, flat, aten.t(weight))
            return result.view((*sizes[:-1], result.shape[1]))
    if ndim == 0 or weight.dim() == 0:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {ndim}D and "
            f"{weight.dim()}D"
        )
    product = aten.matmul(input, aten.t(weight))
    return product if bias is None else product + bias


def is_vector_case(input: Any, weight: Any, bias: Any) -> bool:
    """Whether the layer of one vector is a product with its matrix and nothing else."""
    sizes, dtype = tuple(weight.shape), weight.dtype
    return (
        LOCAL.state.autocast is None
        and len(sizes) == 2
        and input.shape[0] == sizes[1]
        and input.dtype is dtype
        and (
            bias is None
            or (geometry.same_sizes(tuple(bias.shape), sizes[:1]) and bias.dtype is dtype)
        )
    )


def is_vector_like(bias: Any) -> bool:
    sizes = bias.shape
    return len(sizes) == 1 or (len(sizes) > 1 and sum(size != 1 for size in sizes) == 1)


def linear_samples(make: Any) -> Any:
    yield make(2, 3), make(4, 3), make(4)
    yield make(2, 3), make(4, 3)
    yield make(3), make(4, 3), make(4)
    yield make(2, 2, 3), make(2, 3), make(2)
    yield sample(make.strided(2, 2, 3), make(2, 3), bias=make(2))


linear.rules["samples"] = linear_samples


def trilinear_samples(make: Any) -> Any:
    yield make(2, 3), make(2, 3, 2), make(2, 2), (1, 3), (0,), (1, 2), (2, 3)


trilinear = op(
    "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, "
    "int[] sumdim, int unroll_dim=1) -> Tensor",
    kind=CONTRACTION,
    method=False,
    batch=late("product.batched:trilinear"),
    vjp={
        "i1": lambda grad, i2, i3, expand1, expand2, expand3, sumdim: aten._trilinear(
            grad, conj(i2), conj(i3), sumdim, expand2, expand3, expand1
        ),
        "i2": lambda grad, i1, i3, expand1, expand2, expand3, sumdim: aten._trilinear(
            conj(i1), grad, conj(i3), expand1, sumdim, expand3, expand2
        ),
        "i3": lambda grad, i1, i2, expand1, expand2, expand3, sumdim: aten._trilinear(
            conj(i1), conj(i2), grad, expand1, expand2, sumdim, expand3
        ),
    },
    samples=trilinear_samples,
)


def axes_left(total: int, gone: Any) -> list[int]:
    return [axis for axis in range(total) if axis not in gone]


@trilinear.shape
def _(
    i1: Any, i2: Any, i3: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll: int
) -> Any:
    total = i1.dim() + len(expand1)
    sizes: list[Any] = [1] * total
    for value, gone in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for axis, size in zip(axes_left(total, gone), value.shape, strict=True):
            sizes[axis] = size
    return Spec([sizes[axis] for axis in axes_left(total, sumdim)], i1._dtype)


@trilinear.kernel
def _(
    xp: Any,
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: Any,
    expand2: Any,
    expand3: Any,
    sumdim: Any,
    unroll: int,
) -> Any:
    refuse_dtype("bmm", i1, i2)
    total = i1.ndim + len(expand1)
    operands: list[Any] = []
    for value, gone in ((i1, expand1), (i2, expand2), (i3, expand3)):
        operands += [multipliable(value), axes_left(total, gone)]
    return rounded(xp.einsum(*operands, axes_left(total, sumdim), optimize=True), i1.dtype)


@composite(
    "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    functional=True,
    errors=lambda make: [
        (RuntimeError, (make(2, 3), make(3, 2), make(2, 3, 2))),
        (RuntimeError, (make(2, 3), make(2, 2), make(2, 2, 2))),
    ],
    method=False,
    samples=lambda make: (
        (make(2, 3), make(2, 2), make(2, 3, 2), make(2)),
        (make(2, 2, 3), make(2, 2, 2), make(1, 3, 2)),
        (make(3), make(2), make(2, 3, 2)),
    ),
)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    given = [value._dtype for value in (input1, input2, weight)]
    if given[1] is not given[0] or given[2] is not given[0]:
        names = [dtype.cpp_name for dtype in given]
        raise RuntimeError(
            f"All tensors must have the same dtype, got input1: {names[0]}, input2: {names[1]}, "
            f"weight: {names[2]}"
        )
    if input1.dim() != input2.dim():
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
        )
    batch = tuple(input1.shape[:-1])
    for axis, (size1, size2) in enumerate(zip(batch, input2.shape[:-1], strict=True)):
        if size1 != size2:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {axis}: got {size1} and "
                f"{size2}"
            )
    for number, value in ((1, input1), (2, input2)):
        if value.shape[-1] != weight.shape[number]:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got "
                f"{value.shape[-1]} but expected {weight.shape[number]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
            f"{weight.shape[0]}"
        )
    flat1 = input1.reshape((-1, input1.shape[-1]))
    flat2 = input2.reshape((-1, input2.shape[-1]))
    result = aten._trilinear(flat1, weight, flat2, (1, 3), (0,), (1, 2), (2, 3))
    result = result.reshape((*batch, weight.shape[0]))
    return result if bias is None else result + bias


# -- tensordot ------------------------------------------------------------------------------------


@composite(
    "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    exact_out=True,
    method=False,
    function=None,
    samples=lambda make: (
        (make(2, 3), make(3, 2), [1], [0]),
        (make(2, 3, 2), make(2, 2, 3), [0, 1], [1, 2]),
        (make.strided(2, 3), make(3, 2), [0, 1], [1, 0]),
        (make(2), make(3), [], []),
        (make(2, 1), make(2, 3), [0, 1], [0, 1]),
    ),
)
def contract_dims(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    if len(dims_self) != len(dims_other):
        raise RuntimeError("both dimension lists should have same length")
    if self._dtype is not other._dtype:
        raise RuntimeError("both inputs should have same dtype")
    left, right = self, other
    for dim1, dim2 in zip(dims_self, dims_other, strict=True):
        size1 = self.shape[geometry.wrap_dim(dim1, self.dim(), wrap_scalar=False)]
        size2 = other.shape[geometry.wrap_dim(dim2, other.dim(), wrap_scalar=False)]
        if geometry.is_size(size2, 1):
            left = left.sum((dim1,), True, dtype=self._dtype)
        elif geometry.is_size(size1, 1):
            right = right.sum((dim2,), True, dtype=other._dtype)
        elif not geometry.required(size1 == size2):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {size1} in dim {dim1} "
                f"and second has size {size2} in dim {dim2}"
            )
    gone1 = geometry.wrap_dims(dims_self, left.dim())
    gone2 = geometry.wrap_dims(dims_other, right.dim())
    kept1 = [dim for dim in range(left.dim()) if dim not in gone1]
    kept2 = [dim for dim in range(right.dim()) if dim not in gone2]
    sizes = (*[left.shape[dim] for dim in kept1], *[right.shape[dim] for dim in kept2])
    inner = product_of([left.shape[dim] for dim in gone1])
    first = left.permute((*kept1, *dims_self))
    second = right.permute((*dims_other, *kept2))
    if not kept1 and not kept2:
        return first.flatten().dot(second.flatten()).reshape(sizes)
    first = first.reshape((product_of([left.shape[dim] for dim in kept1]), inner))
    second = second.reshape((inner, product_of([right.shape[dim] for dim in kept2])))
    return first.mm(second).reshape(sizes)


def parse_dims(a: Any, b: Any, dims: Any) -> tuple[Any, Any]:
    if isinstance(dims, (tuple, list)):
        first, second = dims
        listed: list[Any] = [first, second]
        listed = [side.tolist() if isinstance(side, Tensor) else side for side in listed]
        sides = [[side] if isinstance(side, int) else list(side) for side in listed]
        return sides[0], sides[1]
    if isinstance(dims, Tensor):
        count = dims.numel()
        if count > 1:
            if dims.shape[0] != 2:
                raise AssertionError(f"Expected dims.size(0) == 2, got {dims.shape[0]}")
            pair = dims.tolist()
            return pair[0], pair[1]
        dims = dims.item()
    if dims < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
    if dims > min(a.dim(), b.dim()):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    return list(range(-dims, 0)), list(range(dims))


@overridable
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """The contraction of `a` and `b` over several dims."""
    for position, (name, value) in enumerate((("a", a), ("b", b)), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"tensordot(): argument '{name}' (position {position}) must be Tensor, not "
                f"{type(value).__name__}"
            )
    if not isinstance(dims, (tuple, list, Tensor, int)) and not hasattr(dims, "node"):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
            f"containing two lists, but got dims={dims}"
        )
    dims_a, dims_b = parse_dims(a, b, dims)
    return aten.tensordot(a, b, dims_a, dims_b, out=out)


# -- chains and powers ----------------------------------------------------------------------------


def best_split(sizes: list[Any]) -> list[list[int]]:
    """Where to split each run of a matrix chain so that the fewest products are computed."""
    count = len(sizes) - 1
    cost: list[list[Any]] = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for start in range(count - length):
            stop = start + length
            best = None
            for middle in range(start, stop):
                price = (
                    cost[start][middle]
                    + cost[middle + 1][stop]
                    + sizes[start] * sizes[middle + 1] * sizes[stop + 1]
                )
                if best is None or price < best:
                    best = price
                    split[start][stop] = middle
            cost[start][stop] = best
    return split


def multiply_run(tensors: list[Any], split: list[list[int]], start: int, stop: int) -> Any:
    if start == stop:
        return tensors[start]
    middle = split[start][stop]
    left = multiply_run(tensors, split, start, middle)
    return left.mm(multiply_run(tensors, split, middle + 1, stop))


@composite(
    "linalg_multi_dot(Tensor[] tensors) -> Tensor",
    errors=lambda make: [
        (RuntimeError, ([make(2, 3)],)),
        (RuntimeError, ([make(2, 3), make(2, 3)],)),
    ],
    exact_out=True,
    method=False,
    samples=lambda make: (
        ([make(2, 3), make(3, 2)],),
        ([make(3), make(3, 2), make(2)],),
        ([make(4, 1), make(1, 3), make(3, 2)],),
        ([make(2, 3), make(3, 1), make(1, 2), make(2, 2)],),
    ),
)
def linalg_multi_dot(tensors: Any) -> Any:
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    chain = list(tensors)
    sizes: list[Any] = []
    if chain[0].dim() == 1:
        chain[0] = chain[0].unsqueeze(0)
    elif chain[0].dim() == 2:
        sizes.append(chain[0].shape[0])
    else:
        raise RuntimeError(
            f"multi_dot(): the first tensor must be 1D or 2D but got {chain[0].dim()}D"
        )
    if chain[-1].dim() == 1:
        chain[-1] = chain[-1].unsqueeze(-1)
    elif chain[-1].dim() == 2:
        sizes.append(chain[-1].shape[1])
    else:
        raise RuntimeError(
            f"multi_dot(): the last tensor must be 1D or 2D but got {chain[-1].dim()}D"
        )
    for number, tensor in enumerate(chain):
        if tensor.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {number} must be 2D but got {tensor.dim()}D")
        if tensor._dtype is not chain[0]._dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{chain[0]._dtype.scalar_type_name.lower()} and tensor {number} "
                f"{tensor._dtype.scalar_type_name.lower()}"
            )
        if number and chain[number - 1].shape[1] != tensor.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {number - 1} and {number} with shapes "
                f"{geometry.show(chain[number - 1].shape)} and {geometry.show(tensor.shape)} "
                "cannot be multiplied"
            )
    if count == 2:
        return chain[0].mm(chain[1]).view(sizes)
    extents = [tensor.shape[0] for tensor in chain] + [chain[-1].shape[1]]
    if count == 3:
        a, b, c, d = extents
        if a * c * (b + d) <= b * d * (a + c):
            return chain[0].mm(chain[1]).mm(chain[2]).view(sizes)
        return chain[0].mm(chain[1].mm(chain[2])).view(sizes)
    return multiply_run(chain, best_split(extents), 0, count - 1).view(sizes)


@composite(
    "chain_matmul(Tensor[] matrices) -> Tensor",
    method=False,
    function=None,
    samples=lambda make: (([make(2, 3)],), ([make(2, 3), make(3, 2), make.strided(2, 2)],)),
)
def chain_product(matrices: Any) -> Any:
    for number, matrix in enumerate(matrices):
        if matrix.dim() != 2:
            raise RuntimeError(
                f"Tensor with more or less than 2 dims given as argument {number} of chain_matmul: "
                f"{matrix.dim()} dims"
            )
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    if len(matrices) == 1:
        return matrices[0].clone()
    return aten.linalg_multi_dot(matrices)


@overridable
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """The product of several matrices, in the order that takes the fewest operations."""
    warn_once(
        "chain_matmul",
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than "
        "multiple parameters.",
    )
    return aten.chain_matmul(list(matrices), out=out)


def power_samples(make: Any) -> Any:
    for n in (0, 1, 2, 3, 6):
        yield make(2, 2, low=-1, high=1), n
    yield make.strided(3, 2, 2, low=-1, high=1), 5


@composite(
    "linalg_matrix_power(Tensor self, int n) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(2, 3), 2)),
        (RuntimeError, (make(3), 2)),
    ],
    method=False,
    samples=power_samples,
)
def linalg_matrix_power(self: Any, n: int) -> Any:
    if self.dim() < 2:
        raise RuntimeError(
            "linalg.matrix_power: The input tensor A must have at least 2 dimensions."
        )
    rows, columns = self.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{rows} by {columns} matrices"
        )
    if n == 0:
        identity = aten.eye(rows, dtype=self._dtype, device=self.device)
        return self.clone(memory_format=contiguous_format).copy_(identity)
    if n < 0:
        self, n = aten.linalg_inv(self), -n
        if n == 1:
            return self
    elif n == 1:
        return self.clone(memory_format=contiguous_format)
    if n == 2:
        return self.matmul(self)
    if n == 3:
        return self.matmul(self).matmul(self)
    square = result = None
    while n:
        square = self if square is None else square.matmul(square)
        if n % 2:
            result = square if result is None else result.matmul(square)
        n //= 2
    return result


@composite("matrix_power(Tensor self, int n) -> Tensor", samples=power_samples)
def matrix_power(self: Any, n: int) -> Any:
    return aten.linalg_matrix_power(self, n)


# -- cross product --------------------------------------------------------------------------------


def check_cross(self: Any, other: Any, dim: int) -> None:
    if len(self.shape) != len(other.shape):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = geometry.wrap_dim(dim, len(self.shape))
    if any(geometry.decided(value.shape[axis] != 3) for value in (self, other)):
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape[axis]} and "
            f"{other.shape[axis]}"
        )
    if self.dtype != other.dtype:
        raise RuntimeError(
            f"expected scalar type {dtype_of(self).scalar_type_name} but found "
            f"{dtype_of(other).scalar_type_name}"
        )


def cross_samples(make: Any) -> Any:
    yield make(2, 3), make(2, 3)
    yield make(3), make(3)
    yield sample(make.strided(3, 2), make(3, 1), dim=0)
    yield make(1, 3), make(2, 3)


linalg_cross = op(
    "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make(3)))],
    kind=CONTRACTION,
    requires=check_cross,
    sizes="*, * -> *",
    method=False,
    batch=late("product.batched:cross"),
    vjp={
        "self": lambda grad, other, dim: aten.linalg_cross(conj(other), grad, dim=dim),
        "other": lambda grad, self, dim: aten.linalg_cross(grad, conj(self), dim=dim),
    },
    samples=cross_samples,
)


@linalg_cross.kernel
def _(xp: Any, self: Any, other: Any, dim: int) -> Any:
    check_cross(self, other, dim)
    refuse_dtype("cross", self, other)
    geometry.broadcast_shapes(self.shape, other.shape)
    a = xp.moveaxis(multipliable(self), dim, 0)
    b = xp.moveaxis(multipliable(other), dim, 0)
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    return rounded(xp.stack(parts, dim), self.dtype)


@composite(
    "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(2, 2), make(2, 2))),
        (RuntimeError, (make(2, 3), make(2, 3), 0)),
    ],
    exact_out=True,
    samples=lambda make: (
        (make(2, 3), make(2, 3)),
        (make(3, 2), make(3, 2)),
        (make(3, 3), make(3, 3), -1),
        (make.strided(2, 3), make(1, 3), 1),
    ),
)
def cross(self: Any, other: Any, dim: int | None = None) -> Any:
    if dim is None:
        warn_once(
            "cross",
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass "
            "the dim explicitly or simply use torch.linalg.cross.\nThe default value of dim will "
            "change to agree with that of linalg.cross in a future release.",
        )
        dim = next((axis for axis, size in enumerate(self.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return aten.linalg_cross(self, other, dim=dim)


# -- distances ------------------------------------------------------------------------------------


def distance_samples(make: Any) -> Any:
    for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf")):
        yield make(2, 3), make(3, 3), p, None
    yield make(2, 2, 3), make(1, 2, 3), 2.0, 2


distances = op(
    "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    batch=late("product.batched:pairwise"),
    kind=CONTRACTION,
    sizes="*pm, *rm -> *pr",
    method=False,
    function=False,
    node="CdistBackward0",
    vjp={
        "x1": lambda grad, x1, x2, p, result: aten._cdist_backward(
            grad.contiguous(), x1, x2, p, result
        ),
        "x2": lambda grad, x1, x2, p, result: aten._cdist_backward(
            grad.mT.contiguous(), x2, x1, p, result.mT.contiguous()
        ),
    },
    samples=distance_samples,
)


@distances.jvp
def _(x1_t: Any, x2_t: Any, x1: Any, x2: Any, p: float, result: Any) -> Any:
    gap = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    left = 0 if x1_t is None else x1_t.unsqueeze(-2)
    right = 0 if x2_t is None else x2_t.unsqueeze(-3)
    length = result.unsqueeze(-1)
    if p == 0:
        return aten.zeros_like(result)
    if p == 1:
        slope = gap.sgn()
    elif p == float("inf"):
        slope = gap.sgn() * (gap.abs() == length)
    else:
        slope = gap * gap.abs().pow(p - 2) / length.pow(p - 1)
        slope = slope.masked_fill((gap == 0) | (length == 0), 0)
    return (slope * (left - right)).sum(-1)


def differences(x1: Any, x2: Any) -> Any:
    return x1[..., :, None, :] - x2[..., None, :, :]


def check_points(x1: Any, x2: Any) -> None:
    for number, value in ((1, x1), (2, x2)):
        dtype = dtype_of(value)
        if not dtype.is_floating_point:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, X{number} got: "
                f"{dtype.scalar_type_name}"
            )


def check_pair(kernel: str, x1: Any, x2: Any) -> None:
    dtype = dtype_of(x1)
    if not x1.size or not x2.size:
        return
    if dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported(kernel, dtype)
    if dtype_of(x2) is not dtype:
        raise RuntimeError(
            f"expected scalar type {dtype.scalar_type_name} but found "
            f"{dtype_of(x2).scalar_type_name}"
        )


@distances.kernel
def _(xp: Any, x1: Any, x2: Any, p: float, compute_mode: Any) -> Any:
    check_points(x1, x2)
    geometry.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    check_pair("cdist", x1, x2)
    gap = xp.abs(differences(x1, x2.astype(x1.dtype, copy=False)))
    if p == 0:
        return (gap != 0).sum(-1).astype(x1.dtype)
    if p == 1:
        return gap.sum(-1)
    if p == 2:
        return xp.sqrt((gap * gap).sum(-1))
    if p == float("inf"):
        return gap.max(-1, initial=0)
    return (gap**p).sum(-1) ** np.asarray(1 / p, x1.dtype)


def slope_samples(make: Any) -> Any:
    if make.dtype not in (dtypes.float32, dtypes.float64):
        return
    for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf")):
        x1, x2 = make(2, 3), make(3, 3)
        yield make(2, 3), x1, x2, p, aten._cdist_forward(x1, x2, p, None)


distance_slopes = op(
    "_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
    batch=late("product.batched:pairwise"),
    kind=CONTRACTION,
    sizes="*pr, *pm, *rm, *pr -> *pm",
    method=False,
    node="torch::autograd::NotImplemented",
    vjp=dict.fromkeys(("grad", "x1", "x2", "cdist"), not_differentiable("aten::_cdist_backward")),
    samples=slope_samples,
)


@distance_slopes.kernel
def _(xp: Any, grad: Any, x1: Any, x2: Any, p: float, cdist: Any) -> Any:
    check_pair("cdist_backward", x1, x2)
    gap = differences(x1, x2)
    grad, length = grad[..., None], cdist[..., None]
    if p == 0:
        return xp.zeros((*gap.shape[:-2], gap.shape[-1]), x1.dtype)
    if p == 1:
        slope = xp.sign(gap)
    elif p == float("inf"):
        slope = xp.sign(gap) * (xp.abs(gap) == length)
    else:
        # 0/0 where points coincide: the subgradient taken there is zero.
        size = xp.abs(gap)
        slope = gap if p == 2 else xp.sign(gap) * size ** (p - 1)
        slope = xp.where((length == 0) | (size == 0), 0, slope / length ** (p - 1))
    return (slope * grad).sum(-2).astype(x1.dtype)


def euclidean_grads(grad: Any, x1: Any, x2: Any, result: Any) -> Any:
    ratio = (grad / result).masked_fill(result == 0, 0)
    first = x1 * ratio.sum((-1,), True) - ratio.matmul(x2)
    second = x2 * ratio.sum((-2,), False).unsqueeze(-1) - ratio.mT.matmul(x1)
    return first, second


euclidean = op(
    "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
    batch=late("product.batched:pairwise"),
    kind=CONTRACTION,
    sizes="*pm, *rm -> *pr",
    method=False,
    vjp=euclidean_grads,
    samples=lambda make: iter([(make(2, 3), make(3, 3)), (make(2, 2, 3), make(2, 2, 3))]),
)


@euclidean.kernel
def _(xp: Any, x1: Any, x2: Any) -> Any:
    dtype = dtype_of(x1)
    if dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")  # torch: the words.
    if not dtype.is_floating_point:
        raise RuntimeError("result type Float can't be cast to the desired output type Long")
    if dtype_of(x2) is not dtype:
        raise RuntimeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{dtype.cpp_name} != {dtype_of(x2).cpp_name}"
        )
    a, b = multipliable(x1), multipliable(x2)
    squares = (a * a).sum(-1)[..., :, None] + (b * b).sum(-1)[..., None, :]
    squares -= 2 * xp.matmul(a, xp.swapaxes(b, -1, -2))
    return rounded(xp.sqrt(xp.maximum(squares, 0)), x1.dtype)


MATRIX_MODE_THRESHOLD = 25


def is_large(x1: Any, x2: Any) -> bool:
    """Whether one product of matrices is the better way to all distances."""
    rows = x1.shape[-2], x2.shape[-2]
    if any(geometry.is_size(count, 0) for count in rows):
        return False
    return any(geometry.decided(count > MATRIX_MODE_THRESHOLD) for count in rows)


@composite(
    "cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor",
    autocast="float32",
    method=False,
    function=None,
    samples=lambda make: (
        (make(2, 3), make(3, 3)),
        (make(2, 3), make(3, 3), 2.0, 1),
        (make(2, 3), make(3, 3), 1.0),
        (make(2, 1, 2, 2), make(3, 2, 2), 3.0),
        (make(0, 2), make(3, 2)),
    ),
)
def pairwise_distances(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    for number, value in ((1, x1), (2, x2)):
        if value.dim() < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, X{number} got: {value.dim()}D"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    check_points(x1, x2)
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    mode = compute_mode or 0
    if mode not in (0, 1, 2):
        raise RuntimeError(f"possible modes: 0, 1, 2, but was: {mode}")
    if p == 2 and (mode == 1 or (mode == 0 and is_large(x1, x2))):
        return aten._euclidean_dist(x1, x2)
    return aten._cdist_forward(x1, x2, p, compute_mode)


MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


@overridable
def cdist(
    x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Any:
    """The p-norm distance between each pair of rows."""
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return aten.cdist(x1, x2, p, MODES[compute_mode])
