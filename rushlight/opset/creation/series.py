"""Series: ranges, evenly spaced numbers, window functions, identity and Vandermonde matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays.casting import cast, fill_number, held_number
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.dtype import dtype, unsupported
from rushlight.core.op import Tag
from rushlight.core.promotion import BAREBONES_UNSIGNED, scalar_dtype
from rushlight.core.state import warn_once
from rushlight.core.tensor import Tensor, wrap
from rushlight.opset.creation.create import OPTIONS, factory, filled
from rushlight.opset.kinds import CREATION, Spec
from rushlight.opset.registry import composite, find, op
from rushlight.opset.rules import aten

# Public functions of torch that are written in Python here.
TORCH_NAMES = (
    "arange", "bartlett_window", "blackman_window", "eye", "hamming_window", "hann_window",
    "kaiser_window", "linspace", "logspace", "range", "scalar_tensor",
)  # fmt: skip

# -- ranges ----------------------------------------------------------------------------------------


def as_double(value: Any) -> Any:
    """A bound as a real number."""
    if isinstance(value, complex):
        if value.imag != 0.0:
            raise RuntimeError("value cannot be converted to type double without overflow")
        return value.real
    return value


def range_dtype(bounds: tuple[Any, ...], given: Any) -> dtype:
    if given is not None:
        return given  # type: ignore[no-any-return]
    whole = all(scalar_dtype(bound).category <= dtypes.INTEGER for bound in bounds)
    return dtypes.int64 if whole else dtypes.get_default_dtype()


def check_range(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    for bound in (start, end):
        if isinstance(bound, float) and not math.isfinite(bound):
            shown = f"{start:g} -> {end:g}"
            raise RuntimeError(f"unsupported range: {shown}")
    low, high = (start, end) if geometry.decided(step > 0) else (end, start)
    if not geometry.required(low <= high):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def arange_length(start: Any, end: Any, step: Any, dtype: dtype) -> Any:
    """How many values there are before `end`."""
    start, end, step = as_double(start), as_double(end), as_double(step)
    check_range(start, end, step)
    if dtype is dtypes.int64 or not any(isinstance(bound, float) for bound in (start, end, step)):
        if dtype is dtypes.int64:
            # torch: bounds are truncated first for this dtype alone.
            start, end, step = (int(b) if isinstance(b, float) else b for b in (start, end, step))
            check_range(start, end, step)
        return (end - start + step - (1 if step > 0 else -1)) // step
    return math.ceil((end - start) / step)


def arange_spec(start: Any, end: Any, step: Any, dtype: Any) -> Spec:
    result_dtype = range_dtype((start, end, step), dtype)
    return Spec((arange_length(start, end, step, result_dtype),), result_dtype)


def require(kernel: str, dtype: dtype, *categories: int) -> None:
    """Refuse dtypes that torch's kernel does not serve."""
    unserved = dtype in dtypes.FLOAT8 or dtype in BAREBONES_UNSIGNED
    if unserved or dtype is dtypes.complex32 or dtype.category not in categories:
        raise unsupported(kernel, dtype)


def arange_values(xp: Any, start: Any, end: Any, step: Any, dtype: Any) -> Any:
    result_dtype = range_dtype((start, end, step), dtype)
    length = arange_length(start, end, step, result_dtype)
    require("arange_cpu", result_dtype, dtypes.INTEGER, dtypes.FLOAT)
    start, step = as_double(start), as_double(step)
    if result_dtype.category == dtypes.INTEGER:
        return (xp.arange(length) * int(step) + int(start)).astype(result_dtype.np)
    return (xp.arange(length, dtype=xp.float64) * float(step) + float(start)).astype(
        result_dtype.np
    )


op(
    f"arange(Scalar end, *, {OPTIONS}) -> Tensor",
    errors=lambda make: [(RuntimeError, (-1,))],
    kind=CREATION,
    method=False,
    out_by_count="warned",
    shape=lambda end, dtype, *rest: arange_spec(0, end, 1, dtype),
    kernel=lambda xp, end, dtype, *rest: arange_values(xp, 0, end, 1, dtype),
    samples=lambda make: ((5,), (0,), (4.5,)),
)
op(
    f"arange.start(Scalar start, Scalar end, *, {OPTIONS}) -> Tensor",
    kind=CREATION,
    method=False,
    out_by_count="warned",
    shape=lambda start, end, dtype, *rest: arange_spec(start, end, 1, dtype),
    kernel=lambda xp, start, end, dtype, *rest: arange_values(xp, start, end, 1, dtype),
    samples=lambda make: ((1, 5), (-2, 3), (0.5, 4)),
)
op(
    f"arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor",
    errors=lambda make: [(RuntimeError, (0, 5, 0)), (RuntimeError, (0, 5, -1))],
    kind=CREATION,
    method=False,
    out_by_count="warned",
    tags=(Tag.core,),
    shape=lambda start, end, step, dtype, *rest: arange_spec(start, end, step, dtype),
    kernel=lambda xp, start, end, step, dtype, *rest: arange_values(xp, start, end, step, dtype),
    samples=lambda make: ((1, 8, 3), (5, -3, -2), (0, 1, 0.25)),
)


def range_spec(start: Any, end: Any, step: Any, dtype: Any) -> Spec:
    start, end, step = as_double(start), as_double(end), as_double(step)
    check_range(start, end, step)
    return Spec((int((end - start) / step + 1),), dtype or dtypes.get_default_dtype())


def range_values(xp: Any, start: Any, end: Any, step: Any, dtype: Any, *rest: Any) -> Any:
    spec = range_spec(start, end, step, dtype)
    values = xp.arange(spec.shape[0], dtype=xp.float64) * as_double(step) + as_double(start)
    return values.astype(spec.dtype.np)


op(
    f"range.step(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor",
    kind=CREATION,
    method=False,
    out_by_count=True,
    shape=lambda start, end, step, dtype, *rest: range_spec(start, end, step, dtype),
    kernel=range_values,
    samples=lambda make: ((0, 3, 1), (0, 2, 0.5)),
)
op(
    f"range(Scalar start, Scalar end, *, {OPTIONS}) -> Tensor",
    kind=CREATION,
    method=False,
    out_by_count=True,
    shape=lambda start, end, dtype, *rest: range_spec(start, end, 1, dtype),
    kernel=lambda xp, start, end, dtype, *rest: range_values(xp, start, end, 1, dtype),
)


def spaced_dtype(name: str, start: Any, end: Any, given: dtype | None) -> dtype:
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    inferred = dtypes.default_complex_dtype if is_complex else dtypes.get_default_dtype()
    if given is None:
        return inferred
    if is_complex and given.category != dtypes.COMPLEX:
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {inferred.cpp_name} can't be safely cast to passed "
            f"dtype {given.scalar_type_name}"
        )
    return given


def spaced_spec(name: str, start: Any, end: Any, steps: int, dtype: Any) -> Spec:
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return Spec((steps,), spaced_dtype(name, start, end, dtype))


# The step is rounded to the dtype; products and sums are not rounded in between.
WIDE: dict[str, Any] = {"d": np.longdouble, "F": np.complex128, "D": np.clongdouble}


def spaced_values(xp: Any, start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """Evenly spaced numbers, each half counted from its own end so that both are exact."""
    if not steps:
        return xp.empty(0, dtype)
    first, last = xp.asarray(start).astype(dtype), xp.asarray(end).astype(dtype)
    if steps <= 1:
        return xp.full((steps,), first, dtype)
    wide = WIDE.get(dtype.char, np.float64)
    step = ((last.astype(wide) - first.astype(wide)) / (steps - 1)).astype(dtype).astype(wide)
    ramp = xp.arange(steps).astype(wide)
    back = xp.arange(steps - 1, -1, -1).astype(wide)
    rising, falling = first.astype(wide) + step * ramp, last.astype(wide) - step * back
    return xp.where(xp.arange(steps) < steps // 2, rising, falling).astype(dtype)


def working_dtype(dtype: dtype) -> Any:
    """Whole numbers are spaced in float64."""
    return np.dtype(np.float64) if dtype.category <= dtypes.INTEGER else dtype.np


def spaced_ends(name: str, start: Any, end: Any, steps: int, dtype: dtype) -> tuple[Any, Any]:
    """Both ends, as numbers of the dtype where that is one of integers."""
    if steps > 1:
        require(f"{name}_cpu", dtype, dtypes.INTEGER, dtypes.FLOAT, dtypes.COMPLEX)
        if dtype.category == dtypes.INTEGER:
            return fill_number(start, dtype), fill_number(end, dtype)
        if name == "linspace" and dtype.category == dtypes.FLOAT:
            return held_number(start, dtype), held_number(end, dtype)
    elif steps == 1 and name == "linspace" and dtype.category == dtypes.INTEGER:
        return fill_number(start, dtype), end
    return start, end


def linspace_values(xp: Any, start: Any, end: Any, steps: int, dtype: Any, *rest: Any) -> Any:
    spec = spaced_spec("linspace", start, end, steps, dtype)
    start, end = spaced_ends("linspace", start, end, steps, spec.dtype)
    return spaced_values(xp, start, end, steps, working_dtype(spec.dtype)).astype(spec.dtype.np)


def logspace_values(
    xp: Any, start: Any, end: Any, steps: int, base: float, dtype: Any, *rest: Any
) -> Any:
    spec = spaced_spec("logspace", start, end, steps, dtype)
    start, end = spaced_ends("logspace", start, end, steps, spec.dtype)
    working = working_dtype(spec.dtype)
    if steps == 1 and spec.dtype.category == dtypes.INTEGER:
        return xp.full(
            1, fill_number(float(xp.power(float(base), start)), spec.dtype), spec.dtype.np
        )
    exponents = spaced_values(xp, start, end, steps, working)
    return xp.power(xp.asarray(base, working), exponents).astype(spec.dtype.np)


SPACED_BOUNDS = (
    ("", "Scalar", "Scalar"),
    ("Tensor_Tensor", "Tensor", "Tensor"),
    ("Tensor_Scalar", "Tensor", "Scalar"),
    ("Scalar_Tensor", "Scalar", "Tensor"),
)


def number_of(bound: Any) -> Any:
    return bound.item() if hasattr(bound, "item") else bound


def check_bounds(name: str, start: Any, end: Any) -> None:
    for label, bound in (("start", start), ("end", end)):
        if isinstance(bound, Tensor) and bound.dim() != 0:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {label} "
                f"with {bound.dim()} dimension(s)."
            )


def spaced_between(level: Any, op: Any, start: Any, end: Any, steps: int, *rest: Any) -> Any:
    """Every sample's numbers between its own bounds, as `spaced_values` has them."""
    name = op.base_name
    check_bounds(name, start, end)
    if op.out_positions:
        return level.loop(op, (start, end, steps, *rest))
    dtype, _, device = rest[-4:-1]
    first, last = [1j if isinstance(b, Tensor) and b.is_complex() else 0 for b in (start, end)]
    spec = spaced_spec(name, first, last, steps, dtype)
    require(f"{name}_cpu", spec.dtype, dtypes.INTEGER, dtypes.FLOAT, dtypes.COMPLEX)
    is_whole = spec.dtype.category == dtypes.INTEGER
    working = dtypes.float64 if is_whole else spec.dtype
    wide = dtypes.complex128 if working.is_complex else dtypes.float64

    def placed(bound: Any) -> Any:
        if not isinstance(bound, Tensor):
            bound = aten.scalar_tensor(bound, dtype=wide, device=device)
        if is_whole and name == "linspace":
            bound = bound.to(dtypes.int64)
        return bound.to(device or bound.device).to(working).to(wide)

    low, high = placed(start), placed(end)
    if steps <= 1:
        values = low.expand((steps,))
    else:
        step = ((high - low) / (steps - 1)).to(working).to(wide)
        ramp = aten.arange(steps, device=low.device)
        rising, falling = low + step * ramp, high - step * (steps - 1 - ramp)
        values = aten.where(ramp < steps // 2, rising, falling)
    values = values.to(working)
    return (values if name == "linspace" else aten.pow(rest[0], values)).to(spec.dtype)


def spaced_with_tensors(name: str, schema: str) -> None:
    """Bounds given as 0-dim tensors are read first."""

    def body(start: Any, end: Any, *rest: Any) -> Any:
        check_bounds(name, start, end)
        bare: Any = next((b for b in (start, end) if isinstance(b, Tensor) and b.is_meta), None)
        if bare is not None:
            dtype, device = rest[-4], rest[-2] or bare.device
            is_complex = any(isinstance(b, Tensor) and b.is_complex() for b in (start, end))
            result_dtype = spaced_dtype(name, 1j if is_complex else 0, 0, dtype)
            return bare.new_empty((rest[0],), dtype=result_dtype, device=device)
        return call(find(name), (*map(number_of, (start, end)), *rest))

    facts: dict[str, Any] = {"reads_values": "the bounds", "batch": spaced_between}
    composite(schema, method=False, out_by_count=True, **facts)(body)


for overload, first_kind, last_kind in SPACED_BOUNDS:
    for name, base in (("linspace", ""), ("logspace", "float base=10.0, ")):
        text = (
            f"{name}{'.' + overload if overload else ''}({first_kind} start, {last_kind} end, "
            f"int steps, {base}*, {OPTIONS}) -> Tensor"
        )
        if overload:
            spaced_with_tensors(name, text)
        elif name == "linspace":
            op(
                text,
                kind=CREATION,
                method=False,
                out_by_count=True,
                shape=lambda start, end, steps, dtype, *rest: spaced_spec(
                    "linspace", start, end, steps, dtype
                ),
                kernel=linspace_values,
                errors=lambda make: [(RuntimeError, (0, 1, -1))],
                batch="loop",
                samples=lambda make: ((0, 1, 5), (-2.5, 3, 4), (1, 1, 1), (0, 1, 0)),
            )
        else:
            op(
                text,
                kind=CREATION,
                method=False,
                out_by_count=True,
                shape=lambda start, end, steps, base, dtype, *rest: spaced_spec(
                    "logspace", start, end, steps, dtype
                ),
                kernel=logspace_values,
                errors=lambda make: [(RuntimeError, (0, 1, -1))],
                batch="loop",
                samples=lambda make: ((0, 2, 3), (-1, 1, 4, 2.0)),
            )


# -- matrices and numbers --------------------------------------------------------------------------


def eye_spec(n: Any, m: Any, dtype: Any) -> Spec:
    for name, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return Spec((n, m), dtype or dtypes.get_default_dtype())


def eye_values(xp: Any, n: int, m: int, dtype: Any) -> Any:
    spec = eye_spec(n, m, dtype)
    require("eye", spec.dtype, dtypes.BOOL, dtypes.INTEGER, dtypes.FLOAT, dtypes.COMPLEX)
    return cast(xp.eye(n, m, dtype=xp.float32), dtypes.float32, spec.dtype)


op(
    f"eye(SymInt n, *, {OPTIONS}) -> Tensor",
    errors=lambda make: [(RuntimeError, (-1,))],
    kind=CREATION,
    method=False,
    shape=lambda n, dtype, *rest: eye_spec(n, n, dtype),
    kernel=lambda xp, n, dtype, *rest: eye_values(xp, n, n, dtype),
    samples=lambda make: ((3,), (0,)),
)
op(
    f"eye.m(SymInt n, SymInt m, *, {OPTIONS}) -> Tensor",
    kind=CREATION,
    method=False,
    out_name="m_out",
    shape=lambda n, m, dtype, *rest: eye_spec(n, m, dtype),
    kernel=lambda xp, n, m, dtype, *rest: eye_values(xp, n, m, dtype),
    samples=lambda make: ((2, 3), (3, 0)),
)
op(
    f"scalar_tensor(Scalar s, *, {OPTIONS}) -> Tensor",
    fill="s",
    kind=CREATION,
    method=False,
    tags=(Tag.core,),
    shape=lambda s, dtype, *rest: Spec((), dtype or dtypes.get_default_dtype()),
    kernel=lambda xp, s, dtype, *rest: filled(xp, (), s, dtype or dtypes.get_default_dtype()),
    samples=lambda make: ((2,), (1.5,), (True,)),
)


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", method=False)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    size = x.shape[0] if N is None else N
    if size < 0:
        raise RuntimeError("N must be non-negative.")
    dtype = x._dtype if x._dtype.category >= dtypes.FLOAT else dtypes.int64
    result = x.new_empty((x.shape[0], size), dtype=dtype)
    if geometry.decided(size > 0):
        result.select(1, 0).fill_(1)
    if size > 1:
        powers = x.to(dtype).unsqueeze(1).expand(x.shape[0], size - 1).cumprod(1)
        result[:, 1:].copy_(powers)
    return result if increasing else result.flip((1,))


# -- windows ---------------------------------------------------------------------------------------


def window_spec(name: str, length: int, dtype: Any) -> Spec:
    result_dtype = dtype or dtypes.get_default_dtype()
    if not result_dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {result_dtype}")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    return Spec((length,), result_dtype)


def window_values(
    name: str, shape: Any, length: int, periodic: bool, dtype: Any, *parameters: float
) -> Any:
    spec = window_spec(name, length, dtype)
    if length <= 1:
        return np.ones((length,), spec.dtype.np)
    working = np.float64 if spec.dtype is dtypes.float64 else np.float32
    count = length + 1 if periodic else length
    values = shape(np.arange(count).astype(working), count, working, *parameters)
    return values[:length].astype(spec.dtype.np)


def cosine_window(n: Any, count: int, working: Any, alpha: float, beta: float) -> Any:
    angle = n * working(2.0 * math.pi / (count - 1))
    return np.cos(angle) * working(-beta) + working(alpha)


def hann(n: Any, count: int, working: Any) -> Any:
    return cosine_window(n, count, working, 0.5, 0.5)


def hamming(n: Any, count: int, working: Any, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return cosine_window(n, count, working, alpha, beta)


def blackman(n: Any, count: int, working: Any) -> Any:
    angle = n * working(math.pi / (count - 1))
    twice, once = np.cos(angle * working(4)), np.cos(angle * working(2))
    return twice * working(0.08) - once * working(0.5) + working(0.42)


def bartlett(n: Any, count: int, working: Any) -> Any:
    values = n * working(2.0 / (count - 1))
    half = ((count - 1) >> 1) + 1
    values[half:] = values[half:] * working(-1) + working(2)
    return values


def kaiser(n: Any, count: int, working: Any, beta: float = 12.0) -> Any:
    ramp = 2.0 * n.astype(np.float64) / (count - 1) - 1.0
    return (np.i0(beta * np.sqrt(np.maximum(1.0 - ramp * ramp, 0.0))) / np.i0(beta)).astype(working)


window_samples: dict[int, Any] = {
    0: lambda make: ((5,), (1,), (0,)),
    1: lambda make: ((5, True), (6, False)),
}


def window(name: str, shape: Any, extras: tuple[tuple[str, str], ...] = ()) -> Any:
    """A window's overloads: symmetric or periodic, and with `extras` parameters."""
    forms = (("", ""), ("periodic", ", bool periodic"), *extras)
    for overload, more in forms:
        count = more.count(",")

        def spec(length: int, *rest: Any, skip: int = count) -> Any:
            return window_spec(name, length, rest[skip])

        def kernel(xp: Any, length: int, *rest: Any, skip: int = count) -> Any:
            periodic = rest[0] if skip else True
            return window_values(name, shape, length, periodic, rest[skip], *rest[1:skip])

        op(
            f"{name}{'.' + overload if overload else ''}(int window_length{more}, *, {OPTIONS}) "
            "-> Tensor",
            kind=CREATION,
            method=False,
            shape=spec,
            kernel=kernel,
            samples=window_samples.get(count),
        )
    return factory(name)


hann_window = window("hann_window", hann)
hamming_window = window(
    "hamming_window",
    hamming,
    (
        ("periodic_alpha", ", bool periodic, float alpha"),
        ("periodic_alpha_beta", ", bool periodic, float alpha, float beta"),
    ),
)
blackman_window = window("blackman_window", blackman)
bartlett_window = window("bartlett_window", bartlett)
kaiser_window = window("kaiser_window", kaiser, (("beta", ", bool periodic, float beta"),))


def whole_bounds(args: Any, kwargs: Any) -> Any:
    """A shortcut for `arange` of ints, without a step."""
    if kwargs or not 0 < len(args) < 3:
        return None
    for bound in args:
        if bound.__class__ is not int:
            return None
    if args[-1] < (0 if len(args) == 1 else args[0]):
        return None
    return wrap(np.arange(*args, dtype=np.int64), dtypes.int64)


arange = factory("arange", whole_bounds)
range_factory = factory("range")
linspace = factory("linspace")
logspace = factory("logspace")
eye = factory("eye")
scalar_tensor = factory("scalar_tensor")


def range(*args: Any, **kwargs: Any) -> Any:
    """Values from start to end, both included; `arange` leaves the end out."""
    warn_once(
        "range",
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
    )
    return range_factory(*args, **kwargs)


# -- samples of overloads ------------------------------------------------------------------------


def bounds_sample(first_kind: str, last_kind: str) -> Any:
    def samples(make: Any) -> Any:
        bounds = [make(low=0, dtype=dtypes.float32), make(low=1, dtype=dtypes.float32)]
        given = [0.5, 2]
        chosen = [
            bounds[at] if kind == "Tensor" else given[at]
            for at, kind in enumerate((first_kind, last_kind))
        ]
        yield (*chosen, 4)

    return samples


for overload, first_kind, last_kind in SPACED_BOUNDS[1:]:
    for name in ("linspace", "logspace"):
        find(name, overload).samples = bounds_sample(first_kind, last_kind)
find("range").samples = lambda make: ((0, 3), (-1, 1))
vander.samples = lambda make: ((make(3),), (make(3), 2), (make(2), 4, True))
find("hamming_window", "periodic_alpha").samples = lambda make: ((5, True, 0.6),)
find("hamming_window", "periodic_alpha_beta").samples = lambda make: ((5, False, 0.6, 0.4),)
find("kaiser_window", "beta").samples = lambda make: ((5, True, 8.0),)
