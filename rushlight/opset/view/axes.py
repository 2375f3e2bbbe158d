"""Other names and compositions of transpose and permute: `movedim`, `T`, `mH` and the like."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.tensor import Tensor
from rushlight.opset.registry import alias as second_name
from rushlight.opset.registry import composite
from rushlight.opset.view.view import alias


@composite(
    "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
    errors=lambda make: [(IndexError, (make(2, 3), 0, 2))],
)
def swapaxes(self: Any, axis0: int, axis1: int) -> Any:
    return self.transpose(axis0, axis1)


@composite("swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)")
def swapdims(self: Any, dim0: int, dim1: int) -> Any:
    return self.transpose(dim0, dim1)


def moved_order(ndim: int, source: Any, destination: Any) -> tuple[int, ...]:
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({geometry.show(source)} dims) "
            f"should contain the same number of dims as destination "
            f"({geometry.show(destination)} dims)"
        )
    froms = [geometry.wrap_dim(dim, ndim) for dim in source]
    tos = [geometry.wrap_dim(dim, ndim) for dim in destination]
    for name, wrapped, given in (("source", froms, source), ("destination", tos, destination)):
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({geometry.show(given)})")
    rest = iter([dim for dim in range(ndim) if dim not in froms])
    placed = dict(zip(tos, froms, strict=True))
    return tuple([placed[dim] if dim in placed else next(rest) for dim in range(ndim)])


@composite(
    "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
    errors=lambda make: [(RuntimeError, (make(2, 3), (0, 1), (0,)))],
)
def movedim(self: Any, source: Any, destination: Any) -> Any:
    order = moved_order(self.dim(), source, destination)
    return call(alias, (self,)) if not order else self.permute(order)


movedim.samples = lambda make: [
    (make(2, 3, 2), (0, -1), (1, 0)),
    (make.strided(2, 3), (0,), (1,)),
    (make(), (), ()),
]


@composite("movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)")
def movedim_int(self: Any, source: int, destination: int) -> Any:
    return self.movedim((source,), (destination,))


second_name("moveaxis", "movedim")


def conjugated(self: Any) -> Any:
    return self.conj() if self.is_complex() else self


def matrices_transposed(self: Any, name: str, remedy: str) -> Any:
    """The last two dimensions exchanged; a 0-dim tensor as it is."""
    ndim = self.dim()
    if ndim == 0:
        warnings.warn(remedy, UserWarning, stacklevel=3)
        return self
    if ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return self.transpose(-2, -1)


IDENTITY = "Tensor.{} is deprecated on 0-D tensors. This function is the identity in these cases."
CONJUGATE = "{} is deprecated on 0-D tensors. Consider using x.conj()."


@composite("adjoint(Tensor(a) self) -> Tensor(a)")
def adjoint(self: Any) -> Any:
    return conjugated(matrices_transposed(self, "adjoint()", CONJUGATE.format("adjoint()")))


@composite("mT(Tensor(a) self) -> Tensor(a)", method=False, function=False)
def matrix_t(self: Any) -> Any:
    return matrices_transposed(self, "mT", IDENTITY.format("mT"))


@composite("mH(Tensor(a) self) -> Tensor(a)", method=False, function=False)
def batch_h(self: Any) -> Any:
    return conjugated(matrices_transposed(self, "mH", CONJUGATE.format("Tensor.mH")))


@composite("numpy_T(Tensor(a) self) -> Tensor(a)", method=False, function=False)
def numpy_t(self: Any) -> Any:
    ndim = self.dim()
    if ndim == 0:
        warnings.warn(IDENTITY.format("T"), UserWarning, stacklevel=2)
    elif ndim != 2:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor.",
            UserWarning,
            stacklevel=2,
        )
    return self.permute(tuple(range(ndim - 1, -1, -1)))


@composite("matrix_H(Tensor(a) self) -> Tensor(a)", method=False, function=False)
def matrix_h(self: Any) -> Any:
    ndim = self.dim()
    if ndim == 0:
        warnings.warn(CONJUGATE.format("Tensor.H"), UserWarning, stacklevel=2)
        return conjugated(self)
    if ndim != 2:
        more = " For batches of matrices, consider using tensor.mH" if ndim > 2 else ""
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor.{more}"
        )
    return conjugated(self.transpose(0, 1))


for name, record in (("T", numpy_t), ("H", matrix_h), ("mT", matrix_t), ("mH", batch_h)):
    setattr(Tensor, name, property(record.__call__))

swapaxes.samples = swapdims.samples = lambda make: [
    (make(2, 3), 0, 1),
    (make.strided(2, 3, 2), -1, 0),
]
movedim_int.samples = lambda make: [(make(2, 3, 2), 0, -1), (make.strided(2, 3), 1, 0)]
for record in (adjoint, matrix_t, batch_h, numpy_t, matrix_h):
    record.samples = lambda make: [(make(2, 3),), (make.strided(2, 3),), (make.expanded(2, 2),)]
