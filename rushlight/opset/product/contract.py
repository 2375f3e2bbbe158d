"""Contractions: the matmul family. Products of halves are computed in float32 and rounded once.

The composites fold and expand exactly as torch does, since strides, backward nodes and captured
graphs show how a product was decomposed. A `check_*` function reads sizes and dtypes of tensors
and arrays alike: shape rules call it always, kernels when their quick test fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.casting import fill_number
from rushlight.arrays.precision import dtype_of, rounded
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import overridable
from rushlight.core.dtype import unsupported
from rushlight.core.promotion import DIM, ZERO_DIM, result_type
from rushlight.core.quick import Quick
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import PLAIN, Tensor, strides_of
from rushlight.opset.elementwise import operand_rank
from rushlight.opset.exposure import attribute, method_alias
from rushlight.opset.kinds import CONTRACTION, Spec, check_expands
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, conj, late, sample
from rushlight.symbolic.numbers import SymFloat

__all__ = ["multipliable", "product_of", "refuse_dtype"]

SINGLE = np.dtype(np.float32)
# Arrays of these dtypes go to BLAS, or to NumPy's integer loops, as they are.
DIRECT = frozenset(
    np.dtype(name) for name in ("f4", "f8", "c8", "c16", "i8", "i4", "i2", "i1", "u1")
)


def former_orders(first: str, second: str) -> tuple[tuple[str, ...], ...]:
    """Where factors stood in calls of old: functions had `beta` first, methods after `self`."""
    ends = (first, second), ("alpha", first, second)
    return tuple([(*lead, *end) for lead in (("beta", "self"), ("self", "beta")) for end in ends])


def times(shape: Any) -> str:
    return "x".join([str(size) for size in shape])


def refuse_dtype(kernel: str, value: Any, other: Any) -> None:
    dtype = dtype_of(value)
    # torch: where there is nothing to multiply, nobody looks at the dtype.
    if dtype is dtypes.bool_ and value.size and other.size:
        raise unsupported(kernel, dtype)


def multipliable(array: Any) -> Any:
    """The array in a dtype that products are computed in."""
    if array.dtype.fields is not None:
        raise unsupported("addmm_impl_cpu_", dtypes.complex32)
    return array if array.dtype in DIRECT else array.astype(SINGLE)


def factor(value: Any, array: Any) -> Any:
    """A Scalar argument as the array's dtype holds it."""
    return np.array(fill_number(value, dtypes.from_numpy(array.dtype)), array.dtype)


def accumulate(product: Any, self: Any, beta: Any, alpha: Any, dtype: Any) -> Any:
    """beta * self + alpha * product, in the product's memory; beta=0 ignores even nan in self."""
    if alpha != 1:
        product *= factor(alpha, product)
    if beta != 0:
        self = multipliable(self)
        if beta != 1:
            self = self * factor(beta, self)
        try:
            np.add(product, self, product)
            fits = True
        except ValueError:
            fits = False
        if not fits:
            check_expands(self.shape, product.shape, dtype)
            np.add(product, self, product)
    return product if product.dtype is dtype else rounded(product, dtype)


def scaled(value: Any, scale: Any) -> Any:
    is_one = not isinstance(scale, SymFloat) and scale == 1
    return value if is_one else value * conj(scale)


# -- matrix times matrix --------------------------------------------------------------------------


def check_mm(self: Any, mat2: Any) -> None:
    if len(self.shape) != 2:
        raise RuntimeError("self must be a matrix")
    if len(mat2.shape) != 2:
        raise RuntimeError("mat2 must be a matrix")
    check_inner(self, mat2)
    if self.dtype != mat2.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {dtype_of(self).cpp_name} != "
            f"{dtype_of(mat2).cpp_name}"
        )


def check_inner(mat1: Any, mat2: Any) -> None:
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({times(mat1.shape)} and "
            f"{times(mat2.shape)})"
        )


def is_column_major(strides: Any, rows: Any, width: int) -> bool:
    """Whether dense columns of elements of `width` bytes lie one after another."""
    return bool(strides[0] == width and strides[1] == rows * width)


# Two matrices that BLAS takes as they are.
MATRICES = (
    "{0}._dtype is {1}._dtype and {0}._dtype.scalar_fast "
    "and {{{0}}}.ndim == 2 and {{{1}}}.ndim == 2"
)


def first_factor_grad(grad: Any, mat2: Any, strides: Any) -> Any:
    """Gradient of `mat1 @ mat2` for mat1, in mat1's memory order."""
    if is_column_major(strides, grad.shape[0], grad._dtype.itemsize):
        return conj(mat2).mm(grad.t()).t()
    return grad.mm(conj(mat2.t()))


def second_factor_grad(grad: Any, mat1: Any, strides: Any) -> Any:
    """Gradient of `mat1 @ mat2` for mat2, in mat2's memory order."""
    if is_column_major(strides, mat1.shape[1], grad._dtype.itemsize):
        return grad.t().mm(conj(mat1)).t()
    return conj(mat1.t()).mm(grad)


def mm_samples(make: Any) -> Any:
    yield make(2, 3), make(3, 4)
    yield make(1, 4), make.strided(4, 2)
    yield make.strided(3, 2), make(2, 3)
    yield make(0, 3), make(3, 2)
    yield make(2, 0), make(0, 3)


def mm_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(2, 3), make(2, 3))
    yield RuntimeError, sample(make(3), make(3, 2))
    yield RuntimeError, sample(make(2, 3), make(3, 2, dtype=dtypes.float64))
    yield NotImplementedError, sample(make.mask(2, 3), make.mask(3, 2))


mm = op(
    "mm(Tensor self, Tensor mat2) -> Tensor",
    out_dtype=True,
    sparse=late("sparse.math:mm"),
    autocast="lower",
    kind=CONTRACTION,
    product="mk, kn -> mn",
    requires=check_mm,
    quick=Quick(
        "{self}.dot({mat2})", when=MATRICES.format("self", "mat2"), result_is_contiguous=True
    ),
    prepared=lambda self, mat2: (
        np.ndarray.dot
        if self._dtype.np in DIRECT and self.dim() == 2 == mat2.dim() and self._dtype is mat2._dtype
        else None
    ),
    vjp={
        "self": lambda grad, mat2, self_byte_strides: first_factor_grad(
            grad, mat2, self_byte_strides
        ),
        "mat2": lambda grad, self, mat2_byte_strides: second_factor_grad(
            grad, self, mat2_byte_strides
        ),
    },
    samples=mm_samples,
    errors=mm_errors,
)


@mm.kernel
def _(xp: Any, self: Any, mat2: Any) -> Any:
    dtype = self.dtype
    if self.ndim == 2 == mat2.ndim and dtype in DIRECT and mat2.dtype == dtype:
        try:
            return self.dot(mat2)
        except ValueError:
            pass
    check_mm(self, mat2)
    refuse_dtype("addmm_impl_cpu_", self, mat2)
    return multipliable(self).dot(multipliable(mat2)).astype(dtype)


def check_addmm(self: Any, mat1: Any, mat2: Any) -> None:
    for name, value in (("self", self), ("mat1", mat1)):
        if value.dtype != mat2.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got "
                f"{dtype_of(value).scalar_type_name} and {dtype_of(mat2).scalar_type_name}"
            )
    for name, value in (("mat1", mat1), ("mat2", mat2)):
        if len(value.shape) != 2:
            raise RuntimeError(f"{name} must be a matrix, got {len(value.shape)}-D tensor")
    check_inner(mat1, mat2)


def addmm_samples(make: Any) -> Any:
    yield make(4), make(2, 3), make(3, 4)
    yield make(2, 1), make(2, 3), make.strided(3, 4)
    yield make(), make(2, 0), make(0, 3)
    yield sample(make(2, 4), make.strided(2, 3), make(3, 4), beta=2, alpha=3)
    yield sample(make(4), make(2, 3), make(3, 4), beta=0)


addmm = op(
    "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(4), make(2, 3), make(3, 2))),
        (RuntimeError, (make(2), make(2, 3), make(2, 3))),
    ],
    sparse=late("sparse.math:addmm"),
    autocast="lower",
    former=former_orders("mat1", "mat2"),
    kind=CONTRACTION,
    product="mk, kn -> mn",
    requires=check_addmm,
    quick=Quick(
        "np.add(product_ := {mat1}.dot({mat2}), {self}, product_)",
        when="beta == 1 and alpha == 1 and self._dtype is mat1._dtype and "
        + MATRICES.format("mat1", "mat2"),
        result_is_contiguous=True,
    ),
    inplace=True,
    vjp={
        "self": lambda grad, beta: scaled(grad, beta),
        "mat1": lambda grad, mat2, alpha, mat1_byte_strides: scaled(
            first_factor_grad(grad, mat2, mat1_byte_strides), alpha
        ),
        "mat2": lambda grad, mat1, alpha, mat2_byte_strides: scaled(
            second_factor_grad(grad, mat1, mat2_byte_strides), alpha
        ),
    },
    samples=addmm_samples,
)


@addmm.kernel
def _(xp: Any, self: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    dtype = mat1.dtype
    if (
        mat1.ndim == 2 == mat2.ndim
        and dtype in DIRECT
        and mat2.dtype == dtype
        and self.dtype == dtype
        and mat1.shape[1] == mat2.shape[0]
    ):
        product = mat1.dot(mat2)
        if beta == 1 and alpha == 1:
            try:
                product += self
                return product
            except ValueError:
                pass
    else:
        check_addmm(self, mat1, mat2)
        refuse_dtype("addmm_impl_cpu_", mat1, mat2)
        product = multipliable(mat1).dot(multipliable(mat2))
        if dtype == np.bool_ and product.size:
            # torch: `self` is multiplied by beta, which is an integer.
            raise RuntimeError("result type Long can't be cast to the desired output type Bool")
    return accumulate(product, self, beta, alpha, dtype)


# -- batches --------------------------------------------------------------------------------------


def check_batches(batch1: Any, batch2: Any) -> None:
    if len(batch1.shape) != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if len(batch2.shape) != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    wanted = [batch1.shape[0], batch1.shape[2]]
    found = list(batch2.shape[:2])
    if any(geometry.decided(one != other) for one, other in zip(wanted, found, strict=True)):
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"{geometry.show(wanted)} but got: {geometry.show(found)}."
        )


def check_bmm(self: Any, mat2: Any) -> None:
    check_batches(self, mat2)
    if self.dtype != mat2.dtype:
        raise RuntimeError(
            f"expected scalar type {dtype_of(self).scalar_type_name} but found "
            f"{dtype_of(mat2).scalar_type_name}"
        )


def bmm_samples(make: Any) -> Any:
    yield make(2, 2, 3), make(2, 3, 2)
    yield make.strided(2, 3, 2), make(2, 2, 1)
    yield make.expanded(2, 2, 3), make(2, 3, 1)
    yield make(0, 2, 3), make(0, 3, 2)


bmm = op(
    "bmm(Tensor self, Tensor mat2) -> Tensor",
    sparse=late("sparse.math:bmm"),
    errors=lambda make: [
        (RuntimeError, (make(2, 2, 3), make(3, 3, 2))),
        (RuntimeError, (make(2, 3), make(3, 2))),
    ],
    autocast="lower",
    kind=CONTRACTION,
    product="bmk, bkn -> bmn",
    requires=check_bmm,
    vjp={
        "self": lambda grad, mat2: grad.bmm(conj(mat2.transpose(1, 2))),
        "mat2": lambda grad, self: conj(self.transpose(1, 2)).bmm(grad),
    },
    samples=bmm_samples,
)


@bmm.kernel
def _(xp: Any, self: Any, mat2: Any) -> Any:
    check_bmm(self, mat2)
    dtype = self.dtype
    if dtype in DIRECT:
        if self.shape[2] == 1 and self.shape[1] > 1 < mat2.shape[2]:
            # NumPy multiplies a stack of outer products without BLAS.
            return xp.multiply(self, mat2)
        return xp.matmul(self, mat2)
    refuse_dtype("bmm", self, mat2)
    return xp.matmul(multipliable(self), multipliable(mat2)).astype(dtype)


BATCH_FORMULAS = {
    "self": lambda grad, beta: scaled(grad, beta),
    "batch1": lambda grad, batch2, alpha: scaled(grad.bmm(conj(batch2.transpose(1, 2))), alpha),
    "batch2": lambda grad, batch1, alpha: scaled(conj(batch1.transpose(1, 2)).bmm(grad), alpha),
}


def addition_samples(make: Any) -> Any:
    yield make(2, 2), make(2, 2, 3), make(2, 3, 2)
    yield make(2), make(2, 1, 3), make.strided(2, 3, 2)
    yield sample(make(2, 2), make(2, 2, 3), make(2, 3, 2), beta=2, alpha=3)


baddbmm = op(
    "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 2, 2), make(2, 2, 3), make(2, 2, 3)))],
    autocast="lower",
    former=former_orders("batch1", "batch2"),
    kind=CONTRACTION,
    product="bmk, bkn -> bmn",
    inplace=True,
    vjp=BATCH_FORMULAS,
    samples=addition_samples,
)


@baddbmm.requires
def check_baddbmm(self: Any, batch1: Any, batch2: Any) -> None:
    if not self.dtype == batch1.dtype == batch2.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {dtype_of(self).cpp_name}, batch1: "
            f"{dtype_of(batch1).cpp_name}, batch2: {dtype_of(batch2).cpp_name}"
        )
    check_batches(batch1, batch2)


@baddbmm.kernel
def _(xp: Any, self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    check_baddbmm(self, batch1, batch2)
    refuse_dtype("baddbmm", batch1, batch2)
    return accumulate(
        xp.matmul(multipliable(batch1), multipliable(batch2)), self, beta, alpha, batch1.dtype
    )


def spread(grad: Any, batch1: Any, batch2: Any) -> Any:
    """The gradient of a sum over the batch, for each of its terms."""
    sizes = (batch1.shape[0], batch1.shape[1], batch2.shape[2])
    return grad.unsqueeze(0).expand(sizes)


addbmm = op(
    "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    out_quiet=True,
    autocast="lower",
    former=former_orders("batch1", "batch2"),
    kind=CONTRACTION,
    batch=late("product.batched:addbmm"),
    product="bmk, bkn -> mn",
    inplace=True,
    vjp={
        "self": lambda grad, beta: scaled(grad, beta),
        "batch1": lambda grad, batch1_meta, batch2, alpha: scaled(
            spread(grad, batch1_meta, batch2).bmm(conj(batch2.transpose(1, 2))), alpha
        ),
        "batch2": lambda grad, batch1, batch2_meta, alpha: scaled(
            conj(batch1.transpose(1, 2)).bmm(spread(grad, batch1, batch2_meta)), alpha
        ),
    },
    samples=addition_samples,
)


@addbmm.requires
def check_addbmm(self: Any, batch1: Any, batch2: Any) -> None:
    if len(batch1.shape) != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if len(batch2.shape) != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            "batch1 and batch2 must have same number of batches, got "
            f"{batch1.shape[0]} and {batch2.shape[0]}"
        )
    if batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({times(batch1.shape[1:])} and "
            f"{times(batch2.shape[1:])})"
        )
    if not self.dtype == batch1.dtype == batch2.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {dtype_of(batch1).cpp_name} != "
            f"{dtype_of(batch2).cpp_name}"
            if batch1.dtype != batch2.dtype
            else f"self and mat2 must have the same dtype, but got "
            f"{dtype_of(self).scalar_type_name} and {dtype_of(batch2).scalar_type_name}"
        )


@addbmm.kernel
def _(xp: Any, self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    check_addbmm(self, batch1, batch2)
    refuse_dtype("addmm_impl_cpu_", batch1, batch2)
    product = xp.tensordot(multipliable(batch1), multipliable(batch2), ((0, 2), (0, 1)))
    return accumulate(product, self, beta, alpha, batch1.dtype)


# -- matrix times vector, vector times vector -----------------------------------------------------


def check_mv(self: Any, mat: Any, vec: Any, self_shape: Any) -> None:
    if len(mat.shape) != 2 or len(vec.shape) != 1 or len(self_shape) > 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {len(self_shape)}, {len(mat.shape)}, "
            f"{len(vec.shape)}"
        )
    length = self_shape[0] if len(self_shape) == 1 else 1
    fits = geometry.is_size(length, 1) or not geometry.decided(length != mat.shape[0])
    if not fits or geometry.decided(mat.shape[1] != vec.shape[0]):
        raise RuntimeError(
            f"size mismatch, got input ({length}), mat ({times(mat.shape)}), vec ({vec.shape[0]})"
        )
    if mat.dtype != vec.dtype or self.dtype != vec.dtype:
        names = [dtype_of(value).scalar_type_name for value in (self, mat, vec)]
        raise RuntimeError(
            "addmv input tensors must have the same dtype, but got "
            f"{names[0]}, {names[1]}, and {names[2]}"
        )


def mv_samples(make: Any) -> Any:
    yield make(2, 3), make(3)
    yield make.strided(3, 2), make(2)
    yield make(2, 0), make(0)


mv = op(
    "mv(Tensor self, Tensor vec) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make(2))), (RuntimeError, (make(3), make(3)))],
    sparse=late("sparse.math:mv"),
    kind=CONTRACTION,
    product="mk, k -> m",
    requires=lambda self, vec: check_mv(vec, self, vec, self.shape[:1]),
    vjp={
        "self": lambda grad, vec: grad.ger(conj(vec)),
        "vec": lambda grad, self: conj(self).t().mv(grad),
    },
    samples=mv_samples,
)


@mv.kernel
def _(xp: Any, self: Any, vec: Any) -> Any:
    check_mv(vec, self, vec, self.shape[:1])
    refuse_dtype("addmv_impl_cpu", self, vec)
    return rounded(multipliable(self).dot(multipliable(vec)), self.dtype)


def addmv_samples(make: Any) -> Any:
    yield make(2), make(2, 3), make(3)
    yield make(1), make.strided(2, 3), make(3)
    yield sample(make(2), make(2, 3), make(3), beta=2, alpha=3)


addmv = op(
    "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(3), make(2, 3), make(3)))],
    former=former_orders("mat", "vec"),
    kind=CONTRACTION,
    product="mk, k -> m",
    requires=lambda self, mat, vec: check_mv(self, mat, vec, self.shape),
    inplace=True,
    vjp={
        "self": lambda grad, beta: scaled(grad, beta),
        "mat": lambda grad, vec, alpha: scaled(grad.ger(conj(vec)), alpha),
        "vec": lambda grad, mat, alpha: scaled(conj(mat.t()).mv(grad), alpha),
    },
    samples=addmv_samples,
)


@addmv.kernel
def _(xp: Any, self: Any, mat: Any, vec: Any, beta: Any, alpha: Any) -> Any:
    check_mv(self, mat, vec, self.shape)
    refuse_dtype("addmv_impl_cpu", mat, vec)
    return accumulate(multipliable(mat).dot(multipliable(vec)), self, beta, alpha, mat.dtype)


def vector_samples(make: Any) -> Any:
    yield make(3), make(3)
    yield make(0), make(0)
    yield make.strided(4), make(4)


dot = op(
    "dot(Tensor self, Tensor tensor) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(2), make(3))),
        (RuntimeError, (make(2, 2), make(2))),
        (RuntimeError, (make(2), make(2, dtype=dtypes.float64))),
        (NotImplementedError, (make.mask(2), make.mask(2))),
    ],
    kind=CONTRACTION,
    product="k, k -> ",
    vjp={
        "self": lambda grad, tensor: grad * conj(tensor),
        "tensor": lambda grad, self: grad * conj(self),
    },
    samples=vector_samples,
)
vdot = op(
    "vdot(Tensor self, Tensor other) -> Tensor",
    conjugates=True,
    kind=CONTRACTION,
    product="k, k -> ",
    vjp={
        "self": lambda grad, other: conj(grad) * other,
        "other": lambda grad, self: grad * self,
    },
    samples=vector_samples,
)


@vdot.requires
def check_dot(self: Any, other: Any) -> None:
    if len(self.shape) != 1 or len(other.shape) != 1:
        raise RuntimeError(
            f"1D tensors expected, but got {len(self.shape)}D and {len(other.shape)}D tensors"
        )
    if self.dtype != other.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{dtype_of(self).scalar_type_name} and {dtype_of(other).scalar_type_name}"
        )
    if self.shape[0] != other.shape[0]:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{self.shape[0]}] and src "
            f"[{other.shape[0]}] to have the same number of elements, but got {self.shape[0]} and "
            f"{other.shape[0]} elements respectively"
        )


dot.requires = lambda self, tensor: check_dot(self, tensor)


@dot.kernel
def _(xp: Any, self: Any, tensor: Any) -> Any:
    check_dot(self, tensor)
    if self.dtype == np.bool_:
        raise unsupported("dot", dtypes.bool_)
    return rounded(multipliable(self).dot(multipliable(tensor)), self.dtype)


@vdot.kernel
def _(xp: Any, self: Any, other: Any) -> Any:
    check_dot(self, other)
    if self.dtype == np.bool_:
        raise unsupported("dot", dtypes.bool_)
    return rounded(xp.vdot(multipliable(self), multipliable(other)), self.dtype)


def addr_samples(make: Any) -> Any:
    yield make(2, 3), make(2), make(3)
    yield make.strided(2, 3), make(2), make(3)
    yield make(3), make(2), make(3)
    yield sample(make(2, 3), make(2), make(3), beta=2, alpha=3)


addr = op(
    "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    out_seen_first=True,
    errors=lambda make: [(RuntimeError, (make(2, 3), make(2), make(2, 3)))],
    exact_out=False,
    former=former_orders("vec1", "vec2"),
    kind=CONTRACTION,
    batch=late("product.batched:addr"),
    inplace=True,
    layout="shape",
    vjp={
        "self": lambda grad, beta: scaled(grad, beta),
        "vec1": lambda grad, vec2, alpha: scaled(grad.mv(conj(vec2)), alpha),
        "vec2": lambda grad, vec1, alpha: scaled(grad.t().mv(conj(vec1)), alpha),
    },
    samples=addr_samples,
)


@addr.shape
def _(self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any) -> Any:
    for name, value in (("vec1", vec1), ("vec2", vec2)):
        if value.dim() != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {value.dim()}-D")
    shape = (vec1.shape[0], vec2.shape[0])
    check_expands(self.shape, shape, self._dtype)
    common = result_type([(value._dtype, operand_rank(value)) for value in (self, vec1, vec2)])
    if common.category < dtypes.FLOAT:
        for name, value in (("beta", beta), ("alpha", alpha)):
            if isinstance(value, (float, complex)):
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point "
                    "number."
                )
    operands = [
        (tuple(self.shape), strides_of(self)),
        ((vec1.shape[0], 1), (strides_of(vec1)[0], 0)),
        (tuple(vec2.shape), strides_of(vec2)),
    ]
    return Spec(shape, common, geometry.elementwise_strides(shape, operands))


@addr.kernel
def _(xp: Any, self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any) -> Any:
    if vec1.ndim != 1 or vec2.ndim != 1:
        for name, value in (("vec1", vec1), ("vec2", vec2)):
            if value.ndim != 1:
                raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {value.ndim}-D")
    ranked = [(dtype_of(value), DIM if value.ndim else ZERO_DIM) for value in (self, vec1, vec2)]
    common = result_type(ranked).np
    if common == np.bool_:
        check_expands(self.shape, (len(vec1), len(vec2)), common)
        product = xp.logical_and(vec1[:, None], vec2) & bool(alpha)
        return product | (self & bool(beta)) if beta else product
    wide = common if common in DIRECT else SINGLE
    product = xp.multiply(vec1.astype(wide)[:, None], vec2.astype(wide))
    return accumulate(product, self.astype(wide), beta, alpha, common)


def outer_samples(make: Any) -> Any:
    yield make(2), make(3)
    yield make.strided(3), make.strided(2)
    yield make(0), make(2)
    yield make(2), make(3, dtype=dtypes.float64)


@composite(
    "outer(Tensor self, Tensor vec2) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 2), make(2)))],
    samples=outer_samples,
    batch="outer",
)
def outer(self: Any, vec2: Any) -> Any:
    for name, value in (("self", self), ("vec2", vec2)):
        if value.dim() != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {value.dim()}-D")
    return self.reshape((self.shape[0], 1)) * vec2


@composite("ger(Tensor self, Tensor vec2) -> Tensor", samples=outer_samples, batch="outer")
def ger(self: Any, vec2: Any) -> Any:
    return self.outer(vec2)


@composite(
    "inner(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 3), make(2)))],
    exact_out=True,
    samples=lambda make: (
        (make(3), make(3)),
        (make(2, 3), make(3)),
        (make.strided(2, 3), make(4, 3)),
        (make(), make(3)),
    ),
)
def inner(self: Any, other: Any) -> Any:
    if self.dim() == 0 or other.dim() == 0:
        return self * other
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{geometry.show(self.shape)} and {geometry.show(other.shape)}"
        )
    return aten.tensordot(self, other, (-1,), (-1,))


# -- matmul ---------------------------------------------------------------------------------------


def product_of(sizes: Any) -> Any:
    count: Any = 1
    for size in sizes:
        count = count * size
    return count


def folds(tensor1: Any, tensor2: Any) -> bool:
    """Whether the batch of the larger operand can join its rows, giving one mm."""
    flipped = tensor1.dim() < tensor2.dim()
    large, small = (tensor2, tensor1) if flipped else (tensor1, tensor2)
    if large.dim() < 3 or small.dim() > 2:
        return False
    # A copy of the operand costs less than the expanded gradient of the other one.
    if small.requires_grad:
        return True
    if tensor1.dim() == 2:
        return False
    if geometry.is_size(large.numel(), 0):
        return True
    sizes, strides = list(large.shape), list(strides_of(large))
    if flipped:
        sizes[-2:], strides[-2:] = sizes[:-3:-1], strides[:-3:-1]
    return all(
        strides[axis] == strides[axis + 1] * sizes[axis + 1] for axis in range(len(sizes) - 2)
    )


def avoids_expansion(tensor: Any) -> bool:
    """Whether a batch of one is better dropped than expanded."""
    if tensor.requires_grad or type(tensor) not in PLAIN:
        return True
    return bool(PROCESS.special and LOCAL.state.below)


def folded_matmul(tensor1: Any, tensor2: Any) -> Any:
    flipped = tensor1.dim() < tensor2.dim()
    if flipped:
        large = tensor2.mT
        small = tensor1.t() if tensor1.dim() == 2 else tensor1
    else:
        large, small = tensor1, tensor2
    sizes = tuple(large.shape)
    rows = sizes[:-1]
    flat = large.reshape((product_of(rows), sizes[-1]))
    if small.dim() == 2:
        result = aten._unsafe_view(flat.mm(small), (*rows, small.shape[1]))
        return result.mT.contiguous() if flipped else result
    return aten._unsafe_view(flat.mv(small), rows)


@composite(
    "matmul(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(), make(3))),
        (RuntimeError, (make(2, 3), make(2, 3))),
        (RuntimeError, (make(2, 2, 3), make(3, 3, 2))),
    ],
    autocast="lower",
    exact_out=True,
    samples=lambda make: matmul_samples(make),
)
def matmul(self: Any, other: Any) -> Any:
    dim1, dim2 = self.dim(), other.dim()
    if dim1 == 2 == dim2:
        return self.mm(other)
    if dim1 == 0 or dim2 == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {dim1}D and {dim2}D"
        )
    if dim1 == 1 and dim2 == 1:
        return self.dot(other)
    if dim1 == 2 and dim2 == 1:
        return self.mv(other)
    if dim1 == 1 and dim2 == 2:
        return self.unsqueeze(0).mm(other).squeeze_(0)
    if folds(self, other):
        return folded_matmul(self, other)
    sizes1, sizes2 = tuple(self.shape), tuple(other.shape)
    batch1, batch2 = sizes1[: max(dim1 - 2, 0)], sizes2[: max(dim2 - 2, 0)]
    if dim1 == 3 == dim2 and batch1[0] != batch2[0]:
        if batch1[0] == 1 and avoids_expansion(self):
            return aten.matmul(self.squeeze(0), other)
        if batch2[0] == 1 and avoids_expansion(other):
            return aten.matmul(self, other.squeeze(0))
    rows = sizes1[-2] if dim1 > 1 else 1
    batch = geometry.broadcast_shapes(batch1, batch2)
    count = product_of(batch)
    left = self.expand((*batch, rows, sizes1[-1])).reshape((count, rows, sizes1[-1]))
    if dim2 == 1:
        right = other.expand((*batch, sizes2[0])).reshape((count, sizes2[0])).unsqueeze(2)
    else:
        right = other.expand((*batch, *sizes2[-2:])).reshape((count, *sizes2[-2:]))
    result = left.bmm(right)
    shape = (*batch, rows) if dim1 > 1 else batch
    if dim2 == 1:
        return aten._unsafe_view(result.squeeze(-1), shape)
    return aten._unsafe_view(result, (*shape, sizes2[-1]))


def matmul_samples(make: Any) -> Any:
    yield make(3), make(3)
    yield make(2, 3), make(3)
    yield make(3), make(3, 2)
    yield make(2, 3), make(3, 2)
    yield make(2, 2, 3), make(3)
    yield make(2, 2, 3), make(3, 2)
    yield make(3), make(2, 3, 2)
    yield make(2, 3), make(2, 3, 2)
    yield make(2, 2, 3), make(2, 3, 2)
    yield make(1, 2, 3), make(2, 3, 2)
    yield make(2, 1, 2, 2), make(3, 2, 2)
    yield make.strided(2, 2, 3), make(3, 2)
    yield make(0, 2, 3), make(3, 2)


@composite(
    "linalg_matmul(Tensor self, Tensor other) -> Tensor",
    exact_out=True,
    method=False,
    samples=matmul_samples,
)
def linalg_matmul(self: Any, other: Any) -> Any:
    return self.matmul(other)


def reflected_matmul(self: Any, other: Any) -> Any:
    if not isinstance(other, Tensor):
        return NotImplemented
    return aten.matmul(other, self)


reflected_matmul.__name__ = "__rmatmul__"
method_alias("__matmul__", "matmul")
attribute("__rmatmul__", overridable(reflected_matmul))
