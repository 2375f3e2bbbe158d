"""Complex tensors: parts, conjugation, polar form.

Conjugation and negation are lazy: `conj` and `_neg_view` alias their argument and flip a bit of
it, which kernels never see because operands are resolved before they run.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.core.dtype import FLOAT, dtype, float16, float64, get_default_dtype
from rushlight.core.op import refuse
from rushlight.core.tensor import Tensor, Unusual, strides_of
from rushlight.opset import functions
from rushlight.opset.elementwise import PAIRS
from rushlight.opset.exposure import attribute
from rushlight.opset.pointwise.arithmetic import one_operand, zeros_where
from rushlight.opset.registry import composite, pointwise, view
from rushlight.opset.results import make_view
from rushlight.opset.rules import conj, late, linear_in

# -- lazy bits ------------------------------------------------------------------------------------


def same_geometry(self: Any) -> Any:
    return self.shape, strides_of(self), self._offset


def flipped(self: Tensor, bit: str) -> Tensor:
    """An alias with one lazy bit changed."""
    result = make_view(self, *same_geometry(self))
    unusual = result._unusual
    unusual = result._unusual = Unusual(self.device) if unusual is None else unusual.copy()
    setattr(unusual, bit, not getattr(unusual, bit))
    return result


conj_view = view(
    "_conj(Tensor(a) self) -> Tensor(a)",
    lower=refuse("a lazy bit is no geometry"),
    copied=False,
    batch="straight",
    shape=same_geometry,
    node="ConjBackward0",
    # What it is a view of has no lazy bit.
    inverse=lambda source, changed: changed.conj_physical(),
    vjp=lambda grad: grad.conj(),
    samples=lambda make: (
        ((make(3, 4),), (make.strided(3, 4),), (make(),)) if make.dtype.is_complex else ()
    ),
)
conj_view.__dict__["backend"] = lambda self: flipped(self, "conj")
neg_view = view(
    "_neg_view(Tensor(a) self) -> Tensor(a)",
    lower=refuse("a lazy bit is no geometry"),
    copied=False,
    batch="straight",
    shape=same_geometry,
    node="NegViewBackward0",
    inverse=lambda source, changed: changed.neg(),
    vjp=lambda grad: grad.neg(),
    samples=lambda make: (
        ((make(3, 4),), (make.strided(3, 4),), (make(),)) if make.dtype.category else ()
    ),
)
neg_view.__dict__["backend"] = lambda self: flipped(self, "neg")


@composite("conj(Tensor(a) self) -> Tensor(a)", out=False, samples=one_operand)
def conjugate(self: Any) -> Any:
    if self._unusual is not None and self._unusual.parts is not None:
        return self.conj_physical()
    return self._conj() if self._dtype.is_complex else self


complex_physical = pointwise(
    "_conj_physical(Tensor self) -> Tensor",
    zero_preserving="linear",
    scalar=lambda m, x: m.conj(x),
    inplace=False,
    narrow=PAIRS,
    node="ConjPhysicalBackward0",
    vjp=lambda grad: grad.conj_physical(),
    jvp=linear_in("self"),
)


@composite(
    "conj_physical(Tensor self) -> Tensor", exact_out=True, inplace=True, samples=one_operand
)
def conj_physical(self: Any) -> Any:
    return self._conj_physical() if self._dtype.is_complex else self


@composite("resolve_conj(Tensor(a) self) -> Tensor(a)", out=False, samples=one_operand)
def resolve_conj(self: Any) -> Any:
    return self.clone() if self.is_conj() else self


@composite("resolve_neg(Tensor(a) self) -> Tensor(a)", out=False, samples=one_operand)
def resolve_neg(self: Any) -> Any:
    return self.clone() if self.is_neg() else self


@composite("is_conj(Tensor self) -> bool", method=False, samples=one_operand)
def is_conj(self: Any) -> Any:
    return self.is_conj()


@composite("is_neg(Tensor self) -> bool", method=False, samples=one_operand)
def is_neg(self: Any) -> Any:
    return self.is_neg()


# -- parts ----------------------------------------------------------------------------------------

view_as_real = view(
    "view_as_real(Tensor(a) self) -> Tensor(a)",
    sparse=late("sparse.shape:paired"),
    batch="straight",
    method=False,
    vjp=lambda grad: functions.view_as_complex(grad.contiguous()),
    inverse=lambda source, changed: functions.view_as_complex(changed.resolve_neg().contiguous()),
    samples=lambda make: (
        ((make(3, 4),), (make.strided(3, 4),), (make(),)) if make.dtype.is_complex else ()
    ),
    errors=lambda make: (
        () if make.dtype.is_complex else ((RuntimeError, (make(3),)), (RuntimeError, (make(2, 2),)))
    ),
)


@view_as_real.shape
def _(self: Any) -> Any:
    if not self._dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if self.is_conj():
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
            "tensor so you can view it as real, use self.resolve_conj(); however, be warned that "
            "the resulting tensor will NOT alias the original."
        )
    strides = tuple([2 * step for step in strides_of(self)])
    return (*self.shape, 2), (*strides, 1), 2 * self._offset, self._dtype.to_real()


view_as_complex = view(
    "view_as_complex(Tensor(a) self) -> Tensor(a)",
    sparse=late("sparse.shape:paired"),
    autocast="float32",
    batch="straight",
    method=False,
    vjp=lambda grad: functions.view_as_real(grad.contiguous().resolve_conj()),
    inverse=lambda source, changed: functions.view_as_real(changed.resolve_conj()),
    samples=lambda make: (
        ((make(3, 2),), (make(2, 3, 2),), (make(2),))
        if make.dtype.name in ("float32", "float64")
        else ()
    ),
    errors=lambda make: ((RuntimeError, (make(3),)), (RuntimeError, (make(),))),
)


@view_as_complex.shape
def _(self: Any) -> Any:
    if self._dtype.complex is None or self._dtype.is_complex or self._dtype.name == "bfloat16":
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {self._dtype.scalar_type_name}"
        )
    sizes, strides = tuple(self.shape), strides_of(self)
    if not sizes:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if geometry.decided(sizes[-1] != 2):
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(geometry.decided(step % 2 != 0) for step in strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if self._offset % 2 != 0:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    halved = tuple([step // 2 for step in strides[:-1]])
    return sizes[:-1], halved, self._offset // 2, self._dtype.to_complex()


@composite("real(Tensor(a) self) -> Tensor(a)", method=False, out=False, samples=one_operand)
def real(self: Any) -> Any:
    if not self._dtype.is_complex:
        return self
    plain = self._conj() if self.is_conj() else self
    return functions.view_as_real(plain).select(-1, 0)


@composite(
    "imag(Tensor(a) self) -> Tensor(a)",
    errors=lambda make: [(RuntimeError, (make(2),))],
    method=False,
    out=False,
    samples=one_operand,
)
def imag(self: Any) -> Any:
    if not self._dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if self.is_conj():
        return functions.view_as_real(self._conj())._neg_view().select(-1, 1)
    return functions.view_as_real(self).select(-1, 1)


def part(name: str) -> Any:
    """`x.real` and `x.imag`: views that can be assigned to."""

    def assign(self: Any, value: Any) -> None:
        getattr(functions, name)(self).copy_(value)

    return property(lambda self: getattr(functions, name)(self), assign)


attribute("real", part("real"))
attribute("imag", part("imag"))


# -- polar form -----------------------------------------------------------------------------------


def promote_angle(common: dtype, args: tuple[Any, ...]) -> tuple[dtype, dtype]:
    if common.category < FLOAT:
        return common, get_default_dtype()
    return common, common.to_real()


def angle_gradient(grad: Any, self: Any) -> Any:
    if not self._dtype.is_complex:
        return functions.zeros_like(grad)
    size = self.abs()
    return zeros_where(size == 0, grad * self / (size * size) * 1j)


angle = pointwise(
    "angle(Tensor self) -> Tensor",
    scalar=lambda m, x: m.angle(x),
    promote=promote_angle,
    layout=lambda self: "contiguous" if self._dtype.is_complex else "elementwise",
    inplace=False,
    vjp=angle_gradient,
)


def check_parts(common: dtype, args: tuple[Any, ...]) -> None:
    first, second = args[0]._dtype, args[1]._dtype
    for given in (first, second):
        if given.category != FLOAT or given.complex is None or given.name == "bfloat16":
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{first.scalar_type_name} and {second.scalar_type_name}"
            )
    if first is not second:
        raise RuntimeError(
            f"Expected object of scalar type {first.scalar_type_name} but got scalar type "
            f"{second.scalar_type_name} for second argument"
        )


def promote_parts(common: dtype, args: tuple[Any, ...]) -> tuple[dtype, dtype]:
    return common, common.to_complex()


complex = pointwise(
    "complex(Tensor real, Tensor imag) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2), make(2, dtype=float64)))],
    scalar=lambda m, real, imag: m.complex(real, imag),
    exact_out=True,
    promote=promote_parts,
    check=check_parts,
    numbers=False,
    inplace=False,
    method=False,
    vjp={
        "real": lambda grad: functions.real(grad),
        "imag": lambda grad: functions.imag(grad),
    },
    jvp=linear_in("real", "imag"),
)
polar = pointwise(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(2), make(2, dtype=float64))),
        (RuntimeError, (make.ints(2), make.ints(2))),
    ],
    autocast="float32",
    scalar=lambda m, size, angle: m.complex(
        m.multiply(size, m.cos(angle)), m.multiply(size, m.sin(angle))
    ),
    promote=promote_parts,
    exact_out=True,
    check=check_parts,
    dtypes=lambda dtype: dtype is not float16,
    numbers=False,
    domain=(0.25, 3.0),
    inplace=False,
    method=False,
    vjp={
        "abs": lambda grad, result: functions.real(conj(grad) * result.sgn()),
        "angle": lambda grad, result: functions.real(conj(grad) * (result * 1j)),
    },
)
