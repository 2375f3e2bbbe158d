"""Discrete Fourier transforms: three primitives, and the functions of torch.fft made of them.

A primitive transforms `dim` in place of itself; how results lie in memory follows from the strides
of the input: untransformed dims outermost, then the transformed ones. Scaling is by one of NONE,
BY_ROOT_N, BY_N. Transforms in single precision stay in single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.core.op import Tag, refuse
from rushlight.core.tensor import strides_of
from rushlight.opset.creation.create import OPTIONS, factory
from rushlight.opset.kinds import CREATION, OPAQUE, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, linear_in, sample

# How a transform is scaled: the `normalization` of the primitives.
NONE, BY_ROOT_N, BY_N = 0, 1, 2
# What NumPy calls the same, for both directions.
FORWARD_SCALES = ("backward", "ortho", "forward")
INVERSE_SCALES = ("forward", "ortho", "backward")

# -- memory ---------------------------------------------------------------------------------------


def descending(dims: Sequence[int], strides: Any) -> list[int]:
    """Dims by their strides, largest first."""
    if any(strides[dim].__class__ is not int for dim in dims):
        pairs = sorted([(strides[dim], -dim) for dim in dims], key=geometry.by_stride)
        return [-dim for _, dim in reversed(pairs)]
    return sorted(dims, key=lambda dim: -strides[dim])


def list_untransformed(ndim: int, transformed: Sequence[int]) -> list[int]:
    """The dims that are not transformed, in the order in which they are collected."""
    # torch: dims are swapped to the front from the back, which shows where strides are equal.
    order = list(range(ndim))
    first, last = 0, ndim
    while first < last:
        if order[first] not in transformed:
            first += 1
            continue
        last -= 1
        while first < last and order[last] in transformed:
            last -= 1
        if first < last:
            order[first], order[last] = order[last], order[first]
            first += 1
    return order[:first]


def spread_strides(sizes: Any, strides: Any, dims: Sequence[int]) -> tuple[Any, ...]:
    """Strides of a transform's result of `sizes`; `dims` in the order in which they are worked."""
    outer = descending(list_untransformed(len(sizes), dims), strides)
    found: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in reversed([*outer, *dict.fromkeys(dims)]):
        found[dim] = step
        step = step * geometry.at_least_one(sizes[dim])
    return tuple(found)


def source_strides(self: Any) -> Any:
    """Strides of what is transformed: a conjugated view is copied first."""
    strides = strides_of(self)
    return geometry.like_strides(self.shape, strides) if self.is_conj() else strides


def wrapped(dim: Sequence[int], ndim: int) -> list[int]:
    return [geometry.wrap_dim(entry, ndim, False) for entry in dim]


# -- primitives -----------------------------------------------------------------------------------


def check_source(dtype: DType, is_complex: bool, has_values: bool = True) -> None:
    """Refuse what cannot be transformed; a tensor without values may stand for any device's."""
    if is_complex and not dtype.is_complex:
        raise RuntimeError(f"Only supports complex dtypes, but found: {dtype.scalar_type_name}")
    if not is_complex and not dtype.is_floating_point:
        raise RuntimeError(
            f"Only supports floating-point dtypes, but found: {dtype.scalar_type_name}"
        )
    real = dtype.to_real()
    if has_values and real.itemsize < 4:
        raise RuntimeError(f"MKL FFT doesn't support tensors of type: {real.scalar_type_name}")


def check_dims(dim: Sequence[int]) -> None:
    if not dim:
        raise RuntimeError("a transform between real and complex numbers needs at least one dim")


fft_c2c = op(
    "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    batch="along",
    kind=OPAQUE,
    method=False,
    layout="shape",
    node="FftC2CBackward0",
    vjp=lambda grad, dim, normalization, forward: aten._fft_c2c(
        grad, dim, normalization, not forward
    ),
    jvp=linear_in("self"),
)
fft_r2c = op(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    batch="along",
    kind=OPAQUE,
    method=False,
    layout="shape",
    node="FftR2CBackward0",
    tags=(Tag.core,),
    vjp=lambda grad, self_shape, dim, normalization, onesided: r2c_gradient(
        grad, self_shape, dim, normalization, onesided
    ),
    jvp=linear_in("self"),
)
fft_c2r = op(
    "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    batch="along",
    kind=OPAQUE,
    method=False,
    layout="shape",
    node="FftC2RBackward0",
    tags=(Tag.core,),
    vjp=lambda grad, dim, normalization: c2r_gradient(grad, dim, normalization),
    jvp=linear_in("self"),
)


@fft_c2c.shape
def _(self: Any, dim: Any, normalization: int, forward: bool) -> Any:
    check_source(self._dtype, True, self._array is not None)
    strides = source_strides(self)
    if not dim:
        return Spec(self.shape, self._dtype, geometry.like_strides(self.shape, strides))
    dims = descending(wrapped(dim, self.dim()), strides)
    return Spec(self.shape, self._dtype, spread_strides(self.shape, strides, dims))


@fft_c2c.kernel
def _(xp: Any, self: Any, dim: Any, normalization: int, forward: bool) -> Any:
    check_source(dtypes.from_numpy(self.dtype), True)
    if not dim or not self.size:
        return self.copy()
    if forward:
        return xp.fft.fftn(self, axes=tuple(dim), norm=FORWARD_SCALES[normalization])
    return xp.fft.ifftn(self, axes=tuple(dim), norm=INVERSE_SCALES[normalization])


@fft_r2c.shape
def _(self: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    check_source(self._dtype, False, self._array is not None)
    check_dims(dim)
    *others, last = wrapped(dim, self.dim())
    sizes = list(self.shape)
    if onesided:
        sizes[last] = sizes[last] // 2 + 1
    strides = strides_of(self)
    dims = [*descending(others, strides), last]
    return Spec(sizes, self._dtype.to_complex(), spread_strides(sizes, strides, dims))


@fft_r2c.kernel
def _(xp: Any, self: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    dtype = dtypes.from_numpy(self.dtype)
    check_source(dtype, False)
    check_dims(dim)
    if not self.size:
        sizes = list(self.shape)
        if onesided:
            sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
        return xp.zeros(sizes, dtype.to_complex().np)
    transform = xp.fft.rfftn if onesided else xp.fft.fftn
    return transform(self, axes=tuple(dim), norm=FORWARD_SCALES[normalization])


@fft_c2r.shape
def _(self: Any, dim: Any, normalization: int, last_dim_size: Any) -> Any:
    check_source(self._dtype, True, self._array is not None)
    check_dims(dim)
    *others, last = wrapped(dim, self.dim())
    strides = source_strides(self)
    if others:
        strides = spread_strides(self.shape, strides, descending(others, strides))
    check_half(self.shape[last], last_dim_size)
    sizes = list(self.shape)
    sizes[last] = last_dim_size
    return Spec(sizes, self._dtype.to_real(), spread_strides(sizes, strides, [last]))


def check_half(given: Any, last_dim_size: Any) -> None:
    if given < last_dim_size // 2 + 1:
        raise RuntimeError(
            f"a real transform of last_dim_size {last_dim_size} needs {last_dim_size // 2 + 1} "
            f"complex numbers along its last dim, but got {given}"
        )


@fft_c2r.kernel
def _(xp: Any, self: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    dtype = dtypes.from_numpy(self.dtype)
    check_source(dtype, True)
    check_dims(dim)
    *others, last = dim
    check_half(self.shape[last], last_dim_size)
    scale = INVERSE_SCALES[normalization]
    if not self.size:
        sizes = list(self.shape)
        sizes[last] = last_dim_size
        return xp.zeros(sizes, dtype.to_real().np)
    if others:
        self = xp.fft.ifftn(self, axes=tuple(others), norm=scale)
    return xp.fft.irfft(self, last_dim_size, last, norm=scale)


def r2c_gradient(grad: Any, shape: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    if onesided:
        # What the transform leaves out gets no gradient: back to full length with zeros.
        last = geometry.wrap_dim(dim[-1], grad.dim())
        missing = shape[last] - grad.shape[last]
        grad = aten.constant_pad_nd(grad, [0, 0] * (grad.dim() - 1 - last) + [0, missing])
    return aten.real(aten._fft_c2c(grad, dim, normalization, False))


def c2r_gradient(grad: Any, dim: Any, normalization: int) -> Any:
    found = aten._fft_r2c(grad, dim, normalization, True)
    last = geometry.wrap_dim(dim[-1], grad.dim())
    half = found.shape[last]
    twice = grad.shape[last] - half
    if not geometry.decided(twice > 0):
        return found
    # All but the first (and the middle one of an even length) stand for their mirror image too.
    mirrored = [0, 0] * (grad.dim() - 1 - last) + [1, half - 1 - twice]
    return found + aten.constant_pad_nd(found.narrow(last, 1, twice), mirrored)


fft_c2c.samples = lambda make: (
    [
        (make(3, 4), [1], NONE, True),
        (make(3, 4), [0, 1], BY_N, False),
        (make.strided(3, 4), [0], BY_ROOT_N, True),
        (make.strided(2, 3, 2), [2, 0], NONE, False),
        (make.expanded(2, 3, 2), [1], NONE, True),
        (make(5), [0], BY_N, True),
        (make(2, 3), [], NONE, True),
    ]
    if make.dtype.is_complex
    else [(make(3), [0], NONE, True)]
)
fft_r2c.samples = lambda make: (
    [
        (make(3, 4), [1], NONE, True),
        (make(3, 5), [0, 1], BY_N, True),
        (make(3, 5), [1, 0], BY_ROOT_N, False),
        (make.strided(3, 4), [0], NONE, True),
        (make.strided(2, 3, 4), [0, 1], NONE, True),
        (make.expanded(2, 3, 2), [1], NONE, False),
        (make(1), [0], NONE, True),
    ]
    if make.dtype.is_floating_point
    else [(make(3), [0], NONE, True)]
)
fft_c2r.samples = lambda make: (
    [
        (make(3, 4), [1], BY_N, 6),
        (make(3, 4), [1], NONE, 7),
        (make(3, 4), [1, 0], BY_ROOT_N, 5),
        (make.strided(3, 4), [0], NONE, 4),
        (make.strided(2, 3, 2), [2, 1, 0], BY_N, 3),
        (make(1), [0], NONE, 1),
        (make(2), [0], NONE, 2),
    ]
    if make.dtype.is_complex
    else [(make(3), [0], NONE, 4)]
)
fft_c2c.errors = lambda make: [
    (RuntimeError, (make(3, dtype=dtypes.float32), [0], NONE, True)),
    (RuntimeError, (make(3, dtype=dtypes.int64), [0], NONE, True)),
]
fft_r2c.errors = lambda make: [
    (RuntimeError, (make(3, dtype=dtypes.complex64), [0], NONE, True)),
    (RuntimeError, (make(3, dtype=dtypes.float32), [], NONE, True)),
    (RuntimeError, (make(3, dtype=dtypes.float16), [0], NONE, True)),
]
fft_c2r.errors = lambda make: [
    (RuntimeError, (make(3, dtype=dtypes.float32), [0], NONE, 4)),
    (RuntimeError, (make(3, dtype=dtypes.complex64), [], NONE, 4)),
    (RuntimeError, (make(3, dtype=dtypes.complex64), [0], NONE, 20)),
]


# -- arguments of the public functions ------------------------------------------------------------


def promoted(self: Any, needs_complex: bool) -> Any:
    """The input in a dtype that can be transformed."""
    dtype = self._dtype
    if not dtype.is_complex:
        if not dtype.is_floating_point:
            dtype = dtypes.get_default_dtype()
        halves = self.device.type == "meta" and dtype is dtypes.float16
        if dtype not in (dtypes.float32, dtypes.float64) and not halves:
            raise RuntimeError(f"Unsupported dtype {dtype.scalar_type_name}")
        if needs_complex:
            dtype = dtype.to_complex()
    return self if dtype is self._dtype else self.to(dtype)


def scaling(norm: str | None, forward: bool) -> int:
    if norm is None or norm == "backward":
        return NONE if forward else BY_N
    if norm == "forward":
        return BY_N if forward else NONE
    if norm == "ortho":
        return BY_ROOT_N
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def check_length(length: Any) -> None:
    if geometry.decided(length < 1):
        raise RuntimeError(f"Invalid number of data points ({length}) specified")


def resized(self: Any, dims: Sequence[int], lengths: Sequence[Any]) -> Any:
    """Cut off, or filled up with zeros, at the end of each dim."""
    padding: list[Any] = [0] * (2 * self.dim())
    grows = False
    for dim, length in zip(dims, lengths, strict=True):
        own = self.shape[dim]
        if own < length:
            padding[2 * (self.dim() - 1 - dim) + 1] = length - own
            grows = True
        elif own > length:
            self = aten.slice(self, dim, 0, length)
    return aten.constant_pad_nd(self, padding) if grows else self


def require_real(name: str, self: Any, word: str = "real") -> None:
    if self.is_complex():
        raise RuntimeError(
            f"{name} expects a {word} input tensor, but got {self._dtype.scalar_type_name}"
        )


def expects_complex(name: str) -> Any:
    def check(out: Any) -> None:
        if not out.is_complex():
            raise RuntimeError(
                f"{name} expects a complex output tensor, but got {out._dtype.scalar_type_name}"
            )

    return check


def expects_real(name: str) -> Any:
    def check(out: Any) -> None:
        if not out.is_floating_point():
            raise RuntimeError(
                f"{name} expects a floating point output tensor, but got "
                f"{out._dtype.scalar_type_name}"
            )

    return check


# -- along one dim --------------------------------------------------------------------------------


def from_real(
    name: str, self: Any, n: Any, dim: int, norm: str | None, forward: bool, onesided: bool
) -> Any:
    require_real(name, self)
    self = promoted(self, False)
    dim = geometry.wrap_dim(dim, self.dim(), False)
    check_length(self.shape[dim] if n is None else n)
    if n is not None:
        self = resized(self, (dim,), (n,))
    found = aten._fft_r2c(self, [dim], scaling(norm, forward), onesided)
    return found if forward else found.conj()


def to_real(name: str, self: Any, n: Any, dim: int, norm: str | None, forward: bool) -> Any:
    self = promoted(self, True)
    dim = geometry.wrap_dim(dim, self.dim(), False)
    length = 2 * (self.shape[dim] - 1) if n is None else n
    check_length(length)
    if n is not None:
        self = resized(self, (dim,), (length // 2 + 1,))
    scale = scaling(norm, forward)
    return aten._fft_c2r(self.conj() if forward else self, [dim], scale, length)


def between_complex(name: str, self: Any, n: Any, dim: int, norm: str | None, forward: bool) -> Any:
    dim = geometry.wrap_dim(dim, self.dim(), False)
    check_length(self.shape[dim] if n is None else n)
    if n is not None:
        self = resized(self, (dim,), (n,))
    return aten._fft_c2c(self, [dim], scaling(norm, forward), forward)


def either(name: str, self: Any, n: Any, dim: int, norm: str | None, forward: bool) -> Any:
    if self.is_complex():
        return between_complex(name, self, n, dim, norm, forward)
    return from_real(name, self, n, dim, norm, forward, False)


def half_of_real(name: str, self: Any, n: Any, dim: int, norm: str | None, forward: bool) -> Any:
    return from_real(name, self, n, dim, norm, forward, True)


def line_samples(make: Any) -> Any:
    yield sample(make(3, 4))
    yield sample(make(3, 5), 4)
    yield sample(make(3, 3), 5, 0)
    yield sample(make.strided(3, 4), None, 0, "ortho")
    yield sample(make.strided(2, 3, 2), norm="forward", dim=1)
    yield sample(make(6), n=6, norm="backward")
    yield sample(make.expanded(2, 3, 2), dim=-2)


def line_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(3, 4), 0)
    yield RuntimeError, sample(make(3, 4), norm="bad")
    yield IndexError, sample(make(3, 4), dim=5)
    yield IndexError, sample(make())
    yield RuntimeError, sample(make(3, dtype=dtypes.bfloat16))


def line_transform(name: str, transform: Any, forward: bool, out_check: Any) -> None:
    composite(
        f"fft_{name}(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
        autocast="float32",
        method=False,
        out_check=out_check(name),
        samples=line_samples,
        errors=line_errors,
    )(lambda self, n, dim, norm: transform(name, self, n, dim, norm, forward))


line_transform("fft", either, True, expects_complex)
line_transform("ifft", either, False, expects_complex)
line_transform("rfft", half_of_real, True, expects_complex)
line_transform("irfft", to_real, False, expects_real)
line_transform("hfft", to_real, True, expects_real)
line_transform("ihfft", half_of_real, False, expects_complex)


# -- along several dims ---------------------------------------------------------------------------


def extent(self: Any, s: Any, dim: Any) -> tuple[list[int], list[Any]]:
    """(dims, lengths) of a transform; without either it covers the whole tensor."""
    ndim = self.dim()
    dims: list[int] = []
    if dim is not None:
        dims = wrapped(dim, ndim)
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        if dim is not None and len(dim) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions."
            )
        if dim is None:
            dims = list(range(ndim - len(s), ndim))
        pairs = zip(dims, s, strict=True)
        lengths = [self.shape[at] if length == -1 else length for at, length in pairs]
    else:
        if dim is None:
            dims = list(range(ndim))
        lengths = [self.shape[at] for at in dims]
    for length in lengths:
        check_length(length)
    return dims, lengths


def require_axis(name: str, dims: list[int]) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def half_extent(name: str, self: Any, s: Any, dim: Any) -> tuple[list[int], list[Any], Any]:
    """(dims, lengths, length of the real result's last dim) of a transform to real numbers."""
    dims, lengths = extent(self, s, dim)
    require_axis(name, dims)
    last = 2 * (self.shape[dims[-1]] - 1) if s is None or s[-1] == -1 else lengths[-1]
    check_length(last)
    lengths[-1] = last // 2 + 1
    return dims, lengths, last


def full_transform(name: str, self: Any, s: Any, dim: Any, norm: str | None, forward: bool) -> Any:
    dims, lengths = extent(self, s, dim)
    self = resized(promoted(self, True), dims, lengths)
    return aten._fft_c2c(self, dims, scaling(norm, forward), forward)


def real_transform(name: str, self: Any, s: Any, dim: Any, norm: str | None, forward: bool) -> Any:
    require_real(name, self, "real-valued")
    self = promoted(self, False)
    dims, lengths = extent(self, s, dim)
    require_axis(name, dims)
    return aten._fft_r2c(resized(self, dims, lengths), dims, scaling(norm, forward), True)


def inverse_real_transform(
    name: str, self: Any, s: Any, dim: Any, norm: str | None, forward: bool
) -> Any:
    dims, lengths, last = half_extent(name, self, s, dim)
    self = resized(promoted(self, True), dims, lengths)
    return aten._fft_c2r(self, dims, scaling(norm, forward), last)


def hermitian_transform(
    name: str, self: Any, s: Any, dim: Any, norm: str | None, forward: bool
) -> Any:
    dims, lengths, last = half_extent(name, self, s, dim)
    self = resized(promoted(self, True), dims, lengths)
    scale = scaling(norm, forward)
    if len(dims) > 1:
        self = aten._fft_c2c(self, dims[:-1], scale, True)
    return aten._fft_c2r(self.conj(), dims[-1:], scale, last)


def inverse_hermitian_transform(
    name: str, self: Any, s: Any, dim: Any, norm: str | None, forward: bool
) -> Any:
    dims, lengths = extent(self, s, dim)
    require_axis(name, dims)
    self = resized(promoted(self, False), dims, lengths)
    scale = scaling(norm, forward)
    found = aten._fft_r2c(self, dims[-1:], scale, True)
    if len(dims) == 1:
        return found.conj()
    return aten._fft_c2c(found.conj_physical(), dims[:-1], scale, False)


def plane_samples(make: Any) -> Any:
    yield sample(make(3, 4))
    yield sample(make.strided(2, 3, 2))
    yield sample(make(3, 4), (2, 5), (1, 0))
    yield sample(make(2, 3, 2), (3, -1), norm="ortho")
    yield sample(make.strided(3, 4), dim=[0], norm="forward")


def space_samples(make: Any) -> Any:
    yield sample(make(3, 4))
    yield sample(make.strided(2, 3, 2))
    yield sample(make.strided(2, 3, 2), (3,))
    yield sample(make(2, 3, 2), None, (2, 0), "ortho")
    yield sample(make(2, 3), (3, 2), (0, 1), norm="forward")
    yield sample(make(5), norm="backward")


def space_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(3, 4), (2, 2, 2))
    yield RuntimeError, sample(make(3, 4), (2, 2), (0,))
    yield RuntimeError, sample(make(3, 4), None, (0, 0))
    yield RuntimeError, sample(make(3, 4), (0, 2), (0, 1))
    yield RuntimeError, sample(make(3, 4), None, (0, 1), "bad")
    yield IndexError, sample(make(3, 4), None, (5,))
    yield RuntimeError, sample(make(3, 4, dtype=dtypes.bfloat16))


def several_transform(name: str, transform: Any, forward: bool, out_check: Any) -> None:
    """`fft2` and `fftn` differ in the dims that are taken when none are named."""
    for ending, dim, samples in (
        ("2", "int[1] dim=[-2, -1]", plane_samples),
        ("n", "int[1]? dim=None", space_samples),
    ):
        composite(
            f"fft_{name}{ending}(Tensor self, SymInt[1]? s=None, {dim}, str? norm=None) -> Tensor",
            # torch: Hermitian transforms of several dims are left as they are.
            autocast=None if "hfft" in name else "float32",
            method=False,
            out_check=out_check(f"{name}n"),
            samples=samples,
            errors=space_errors,
        )(lambda self, s, dim, norm: transform(f"{name}n", self, s, dim, norm, forward))


several_transform("fft", full_transform, True, expects_complex)
several_transform("ifft", full_transform, False, expects_complex)
several_transform("rfft", real_transform, True, expects_complex)
several_transform("irfft", inverse_real_transform, False, expects_real)
several_transform("hfft", hermitian_transform, True, expects_real)
several_transform("ihfft", inverse_hermitian_transform, False, expects_complex)


# -- order and values of frequencies --------------------------------------------------------------


def shift_samples(make: Any) -> Any:
    yield sample(make(3, 4))
    yield sample(make.strided(3, 4), 0)
    yield sample(make(2, 3, 2), (-1, 1))
    yield sample(make(5))
    yield sample(make(0, 3))


def shift(name: str, extra: int) -> None:
    def body(self: Any, dim: Any) -> Any:
        dims = list(range(self.dim())) if dim is None else wrapped(dim, self.dim())
        return self.roll([(self.shape[at] + extra) // 2 for at in dims], dims)

    composite(
        f"fft_{name}(Tensor self, int[1]? dim=None) -> Tensor",
        method=False,
        out=False,
        samples=shift_samples,
        errors=lambda make: [(IndexError, (make(3, 4), 3)), (RuntimeError, (make(),))],
    )(body)


shift("fftshift", 0)
shift("ifftshift", 1)


def frequencies(name: str, is_half: bool) -> Any:
    def spec(n: int, d: float, dtype: Any, *rest: Any) -> Spec:
        result_dtype = dtype or dtypes.get_default_dtype()
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
        if result_dtype.category < dtypes.FLOAT:
            raise RuntimeError(f"{name} requires a floating point or complex dtype")
        if result_dtype.is_complex:
            raise unsupported("arange_cpu", result_dtype)
        return Spec((n // 2 + 1 if is_half else n,), result_dtype)

    def kernel(xp: Any, n: int, d: float, dtype: Any, *rest: Any) -> Any:
        made = spec(n, d, dtype)
        steps = xp.arange(made.shape[0])
        if not is_half:
            steps[(n + 1) // 2 :] -= n
        width = n * d
        scale = 1.0 / width if width else float("inf")
        with xp.errstate(invalid="ignore"):
            if made.dtype is dtypes.float64:
                return steps * scale
            steps = steps.astype(made.dtype.np).astype(xp.float32)
            return (steps * xp.float32(scale)).astype(made.dtype.np)

    op(
        f"fft_{name}(int n, float d=1.0, *, {OPTIONS}) -> Tensor",
        kind=CREATION,
        method=False,
        shape=spec,
        kernel=kernel,
        vjp=refuse("made of numbers alone"),
        samples=lambda make: [
            (5,),
            (6, 0.5),
            sample(4, dtype=make.dtype),
            sample(5, 0.25, dtype=make.dtype),
        ],
        errors=lambda make: [
            (RuntimeError, sample(5, dtype=dtypes.int64)),
            (RuntimeError, sample(-4)),
        ],
    )
    return factory(f"fft_{name}")


fftfreq = frequencies("fftfreq", False)
rfftfreq = frequencies("rfftfreq", True)
