"""Central differences of functions on tensors, and the gradients they are compared with.

Derivatives are kept as real linear maps: for a complex input z = x + iy the differences along x and
along y are apart, and a gradient of a real output s is ds/dx + i ds/dy. Invariant: an input that
was perturbed in place is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.autograd.backward import grad
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import sparse_coo, strided
from rushlight.core.dtype import dtype
from rushlight.core.tensor import Tensor, values_of, wrap

__all__ = [
    "FULL",
    "IMAGINARY",
    "REAL",
    "Differences",
    "Perturbed",
    "array_of",
    "as_tuple",
    "gradients",
    "is_differentiable",
    "random_array",
    "repeats",
    "tensor_of",
    "wants_grad",
]

# Parts of a complex number; FULL for real ones.
FULL, REAL, IMAGINARY = "full", "real", "imaginary"


# -- tensors as arrays -----------------------------------------------------------------------------


def as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value,)


def is_differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.category >= dtypes.FLOAT


def wants_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def array_of(tensor: Any) -> Any:
    """A copy of a tensor's values, dense and in one dimension."""
    plain = tensor.detach()
    if plain.layout is not strided:
        plain = plain.to_dense()
    if plain.device.type != "cpu":
        plain = plain.cpu()
    if plain._array is None:
        # A wrapper says what its elements are, and nobody else.
        flat = plain.reshape(-1)
        return np.array([flat[i].item() for i in range(flat.numel())], plain.dtype.np)
    return np.array(values_of(plain)).reshape(-1)


def tensor_of(array: Any, dtype: dtype, like: Any = None) -> Any:
    """An array as a tensor, where and with the shape that `like` has."""
    made = wrap(np.ascontiguousarray(array).astype(dtype.np), dtype)
    if like is None:
        return made
    made = wrap(values_of(made).reshape(tuple(like.shape)), dtype)
    return made if like.device.type == "cpu" else made.to(like.device)


def random_array(seed: int, count: int, low: float = 0.0, high: float = 1.0) -> Any:
    """The same numbers in every run, whatever the state of the generators."""
    from rushlight.opset.samples.maker import uniform

    return uniform(seed, count) * (high - low) + low


# -- perturbing inputs -----------------------------------------------------------------------------


class Perturbed:
    """One input whose values can be set. Sparse inputs are rebuilt over a fixed pattern."""

    def __init__(self, inputs: tuple[Any, ...], position: int, masked: bool) -> None:
        self.inputs = list(inputs)
        self.position = position
        self.tensor = inputs[position]
        self.original = array_of(self.tensor)
        self.pattern: Any = None
        self.chosen = np.arange(self.original.size)
        if self.tensor.layout is not strided:
            self.prepare_sparse(masked)

    def prepare_sparse(self, masked: bool) -> None:
        source = self.tensor.detach()
        if source.layout is sparse_coo:
            source = source.coalesce()
        dense = source.to_dense()
        if masked:
            self.pattern = source
            specified = source.clone()
            specified.values().fill_(1)
            self.chosen = np.flatnonzero(array_of(specified))
        else:
            everywhere = dense.clone().fill_(1)
            options = {"layout": source.layout}
            if str(source.layout).startswith("torch.sparse_bs"):
                options["blocksize"] = tuple(source.values().shape[1:3])
            self.pattern = everywhere.to_sparse(**options)

    def set(self, values: Any) -> None:
        """Give the input these values."""
        target = self.tensor
        if self.pattern is not None:
            dense = tensor_of(values, target.dtype, target)
            self.inputs[self.position] = dense.sparse_mask(self.pattern).requires_grad_()
            return
        shaped = values.reshape(tuple(target.shape))
        if target._array is None or target.device.type != "cpu":
            target.data.copy_(tensor_of(shaped, target.dtype, target))
            return
        unusual = target._unusual
        if unusual is not None and unusual.conj:
            shaped = np.conjugate(shaped)
        if unusual is not None and unusual.neg:
            shaped = np.negative(shaped)
        np.copyto(target._array, shaped, casting="unsafe")

    def slope(self, fn: Callable[..., Any], direction: Any, eps: float, where: str) -> list[Any]:
        """The central difference of every floating point output along a direction."""
        step = (direction * eps).astype(self.original.dtype)
        try:
            self.set(self.original - step)
            before = [array_of(o) for o in self.outputs(fn)]
            shapes = [(tuple(o.shape), o.dtype) for o in self.last]
            self.set(self.original + step)
            after = [array_of(o) for o in self.outputs(fn)]
        finally:
            self.set(self.original)
        for (shape, before_dtype), out in zip(shapes, self.last, strict=True):
            check_same(shape, tuple(out.shape), "shape", where, eps)
            check_same(before_dtype, out.dtype, "dtype", where, eps)
        return [(b - a) / (2 * eps) for a, b in zip(before, after, strict=True)]

    def outputs(self, fn: Callable[..., Any]) -> list[Any]:
        self.last = [out for out in as_tuple(fn(*self.inputs)) if is_differentiable(out)]
        return self.last

    def directions(self, part: str) -> Iterator[tuple[int, Any]]:
        unit = np.zeros_like(self.original)
        for index in self.chosen:
            unit[index] = 1j if part == IMAGINARY else 1
            yield int(index), unit
            unit[index] = 0


def check_same(first: Any, second: Any, what: str, where: str, eps: float) -> None:
    if first != second:
        raise AssertionError(
            f"Expected `func` to return outputs with the same {what} when inputs are perturbed "
            f"{where}by {eps}, but got: {what}s {first} and {second}."
        )


def numerical_jacobian(
    fn: Callable[..., Any], source: Perturbed, count: list[int], part: str, eps: float
) -> list[Any]:
    """Per output, a matrix (input elements × output elements) of differences along one part."""
    size = source.original.size
    found = [np.zeros((size, m), np.complex128) for m in count]
    shape = tuple(source.tensor.shape)
    for index, unit in source.directions(part):
        where = f"on index {np.unravel_index(index, shape) if shape else ()} "
        for matrix, column in zip(found, source.slope(fn, unit, eps, where), strict=True):
            matrix[index] = column
    return found


class Differences:
    """Differences of a function with respect to one input; (elements × m) in slow mode, and
    (1 × m) along a fixed direction in fast mode."""

    def __init__(
        self, fn: Any, source: Perturbed, count: list[int], eps: float, fast: bool
    ) -> None:
        self.source = source
        self.direction: Any = None
        complex_input = source.original.dtype.kind == "c"
        if fast:
            size = source.original.size
            values = np.zeros(size)
            values[source.chosen] = random_array(0x6AD + source.position, source.chosen.size)
            norm = float(np.sqrt((values**2).sum()))
            self.direction = values / norm if norm else values
            step = self.direction.astype(source.original.dtype)
            self.real = [s[None, :] for s in source.slope(fn, step, eps, "")]
            self.imaginary = (
                [s[None, :] for s in source.slope(fn, step * 1j, eps, "")]
                if complex_input
                else None
            )
        else:
            self.real = numerical_jacobian(fn, source, count, REAL, eps)
            self.imaginary = (
                numerical_jacobian(fn, source, count, IMAGINARY, eps) if complex_input else None
            )

    def gradient(self, output: int, part: str) -> Any:
        """What backward should answer for one part of an output."""
        pick = np.imag if part == IMAGINARY else np.real
        found = pick(self.real[output])
        if self.imaginary is not None:
            found = found + 1j * pick(self.imaginary[output])
        return found

    def tangent(self, output: int, part: str) -> Any:
        """What forward mode should answer along one part of the input."""
        if part == IMAGINARY:
            assert self.imaginary is not None
            return self.imaginary[output]
        return self.real[output]


def repeats(first: list[Any], second: list[Any], tolerance: float) -> bool:
    return all(
        a.size == 0 or np.array_equal(a, b) or float(np.abs(a - b).max()) <= tolerance
        for a, b in zip(first, second, strict=True)
    )


def gradients(out: Any, targets: list[Any], part: str, vector: Any) -> tuple[list[Any], bool, bool]:
    """Gradients of an output with every unit cotangent, or with one given vector."""
    unit = 1j if part == IMAGINARY else 1.0
    dtype = np.complex128 if out.dtype.is_complex else np.float64
    if vector is not None:
        cotangents = [np.asarray(vector, dtype) * unit]
    else:
        cotangents = []
        for k in range(out.numel()):
            row = np.zeros(out.numel(), dtype)
            row[k] = unit
            cotangents.append(row)
    found = [
        np.zeros((t.numel(), len(cotangents)), t.dtype.to_real().np).astype(np.complex128)
        for t in targets
    ]
    sizes_ok = types_ok = True
    for column, row in enumerate(cotangents):
        grads = grad(
            out, targets, tensor_of(row, out.dtype, out), retain_graph=True, allow_unused=True
        )
        for matrix, gradient, target in zip(found, grads, targets, strict=True):
            if gradient is None:
                continue
            types_ok = types_ok and gradient.dtype.is_complex == target.dtype.is_complex
            if not geometry.same_sizes(tuple(gradient.shape), tuple(target.shape)):
                sizes_ok = False
                continue
            matrix[:, column] = array_of(gradient)
    return found, sizes_ok, types_ok
