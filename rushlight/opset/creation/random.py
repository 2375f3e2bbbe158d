"""Random numbers: creation, in-place filling, sampling.

Every op draws from a `Generator`, the default one where none is given. Elements are drawn in the
order in which they lie in memory, as torch's iteration over tensors has it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.arrays import sampling
from rushlight.arrays.precision import HALVES
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import preserve_format
from rushlight.core.dtype import unsupported
from rushlight.core.op import OpOverload, Tag, refuse
from rushlight.core.promotion import BAREBONES_UNSIGNED
from rushlight.core.rng import Generator, default_generator
from rushlight.core.tensor import Tensor, strides_of
from rushlight.opset.creation.copy import same_geometry, zeros_like
from rushlight.opset.creation.create import (
    LIKE,
    OPTIONS,
    check_sizes,
    factory,
    from_sizes,
    like_spec,
    sized_spec,
)
from rushlight.opset.kinds import RANDOM, Spec
from rushlight.opset.registry import find, mutation, op
from rushlight.opset.rules import late, not_differentiable, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = (
    "Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "normal",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed",
    "set_rng_state",
)  # fmt: skip

SEEDED = (Tag.nondeterministic_seeded,)
SEEDED_FUNCTION: dict[str, Any] = {"kind": RANDOM, "method": False, "tags": SEEDED}


def drawn_from(generator: Any) -> Generator:
    return default_generator if generator is None else generator


def element_type(self: Any, dtype: Any) -> Any:
    """NumPy's dtype of a result made after a kernel's first argument."""
    if dtype is not None:
        return dtype.np
    return self._dtype.np if isinstance(self, Tensor) else self.dtype


def element_strides(source: Any) -> Any:
    if isinstance(source, Tensor):
        return strides_of(source)
    return tuple([step // source.itemsize for step in source.strides])


def memory_order(strides: Any) -> list[int]:
    """The axes from the one with the longest steps on."""
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


def drawn_in(
    draw: Any, generator: Any, shape: Any, strides: Any, dtype: Any, parameters: Any = ()
) -> Any:
    """An array of this shape, drawn in the order of a memory with these strides."""
    geometry.check_rank(len(shape))
    if geometry.is_contiguous(shape, strides):
        return draw(generator, shape, dtype, *parameters)
    axes = memory_order(strides)
    if draw is sampling.normal:
        draw = scattered_normal
    drawn = draw(generator, tuple([shape[axis] for axis in axes]), dtype, *parameters)
    return drawn.transpose(np.argsort(axes))


def scattered_normal(
    generator: Any, shape: Any, dtype: Any, mean: float = 0.0, std: float = 1.0
) -> Any:
    return sampling.normal(generator, shape, dtype, mean, std, False)


def drawn_like(draw: Any, generator: Any, source: Any, options: Any, parameters: Any = ()) -> Any:
    """What a `..._like` op draws; `options` are its last arguments, from the dtype on."""
    dtype, memory_format = element_type(source, options[0]), options[-1]
    shape = tuple(source.shape)
    strides = geometry.strides_for_memory_format(
        shape, memory_format or preserve_format, element_strides(source)
    )
    return drawn_in(draw, drawn_from(generator), shape, strides, dtype, parameters)


# -- creation --------------------------------------------------------------------------------------


def sized_family(name: str, draw: Any) -> None:
    """`rand` and `randn`: sizes, with and without a generator."""
    op(
        f"{name}(SymInt[] size, *, {OPTIONS}) -> Tensor",
        kind=RANDOM,
        method=False,
        varargs=0,
        tags=SEEDED,
        shape=sized_spec,
        kernel=lambda xp, size, dtype, *rest: drawn(size, None, dtype),
    )
    op(
        f"{name}.generator(SymInt[] size, *, Generator? generator, {OPTIONS}) -> Tensor",
        kind=RANDOM,
        method=False,
        varargs=0,
        tags=SEEDED,
        shape=lambda size, generator, *rest: sized_spec(size, *rest),
        kernel=lambda xp, size, generator, dtype, *rest: drawn(size, generator, dtype),
    )
    op(
        f"{name}_like(Tensor self, *, {LIKE}) -> Tensor",
        sparse=late(f"sparse.shape:{name}_like"),
        kind=RANDOM,
        method=False,
        layout="shape",
        tags=SEEDED,
        shape=like_spec,
        kernel=lambda xp, self, *options: drawn_like(draw, None, self, options),
    )
    op(
        f"{name}_like.generator(Tensor self, *, Generator? generator, {LIKE}) -> Tensor",
        kind=RANDOM,
        method=False,
        layout="shape",
        tags=SEEDED,
        shape=lambda self, generator, *rest: like_spec(self, *rest),
        kernel=lambda xp, self, generator, *options: drawn_like(draw, generator, self, options),
    )

    def drawn(size: Any, generator: Any, dtype: Any) -> Any:
        check_sizes(size)
        return draw(drawn_from(generator), size, (dtype or dtypes.get_default_dtype()).np)


sized_family("rand", sampling.uniform)
sized_family("randn", sampling.normal)

BOUNDS = (("", "SymInt high, "), ("low", "SymInt low, SymInt high, "))
INTEGER_OPTIONS = OPTIONS.replace("dtype=None", "dtype=4")


def integer_ops() -> None:
    for label, bounds in BOUNDS:
        first = 2 if label else 1
        for seeded in (False, True):
            overload = "_".join([part for part in (label, "generator" if seeded else "") if part])
            middle = "Generator? generator, " if seeded else ""
            op(
                f"randint{'.' if overload else ''}{overload}({bounds}SymInt[] size, *, {middle}"
                f"{INTEGER_OPTIONS}) -> Tensor",
                kind=RANDOM,
                method=False,
                tags=SEEDED,
                shape=integer_spec(first, seeded),
                kernel=integer_kernel(first, seeded),
            )
            overload = {
                (False, False): "",
                (False, True): ".generator",
                (True, False): ".low_dtype",
                (True, True): ".low_generator_dtype",
            }[bool(label), seeded]
            op(
                f"randint_like{overload}(Tensor self, {bounds}*, {middle}{LIKE}) -> Tensor",
                kind=RANDOM,
                method=False,
                layout="shape",
                tags=SEEDED,
                shape=integer_like_spec(first, seeded),
                kernel=integer_like_kernel(first, seeded),
            )


def integer_spec(first: int, seeded: bool) -> Any:
    def shape(*args: Any) -> Any:
        return sized_spec(args[first], args[first + 1 + seeded] or dtypes.int64)

    return shape


def integer_kernel(first: int, seeded: bool) -> Any:
    def kernel(xp: Any, *args: Any) -> Any:
        low, high = (0, args[0]) if first == 1 else args[:2]
        check_sizes(args[first])
        dtype = args[first + 1 + seeded] or dtypes.int64
        generator = drawn_from(args[first + 1] if seeded else None)
        return sampling.integers(generator, args[first], dtype.np, low, high)

    return kernel


def integer_like_spec(first: int, seeded: bool) -> Any:
    return lambda self, *rest: like_spec(self, *rest[first + seeded :])


def integer_like_kernel(first: int, seeded: bool) -> Any:
    def kernel(xp: Any, self: Any, *rest: Any) -> Any:
        bounds = (0, rest[0]) if first == 1 else rest[:2]
        generator = rest[first] if seeded else None
        return drawn_like(sampling.integers, generator, self, rest[first + seeded :], bounds)

    return kernel


integer_ops()


def permutation_spec(n: Any, dtype: Any) -> Spec:
    check_sizes((n,))
    return Spec((n,), dtype or dtypes.int64)


op(
    f"randperm(SymInt n, *, {INTEGER_OPTIONS}) -> Tensor",
    errors=lambda make: [(RuntimeError, (-1,))],
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    shape=lambda n, dtype, *rest: permutation_spec(n, dtype),
    kernel=lambda xp, n, dtype, *rest: sampling.permutation(
        default_generator, n, (dtype or dtypes.int64).np
    ),
)
op(
    f"randperm.generator(SymInt n, *, Generator? generator, {INTEGER_OPTIONS}) -> Tensor",
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    shape=lambda n, generator, dtype, *rest: permutation_spec(n, dtype),
    kernel=lambda xp, n, generator, dtype, *rest: sampling.permutation(
        drawn_from(generator), n, (dtype or dtypes.int64).np
    ),
)


def below_tensor(first: int) -> Any:
    """A kernel; `first` is the place of the generator, or of what follows it."""

    def kernel(xp: Any, self: Any, high: Any, *rest: Any) -> Any:
        generator = rest[0] if first else None
        bounds = (0, int(high.item()))
        return drawn_like(sampling.integers, generator, self, rest[first:], bounds)

    return kernel


randint_like_tensor = op(
    f"randint_like.Tensor(Tensor self, Tensor high, *, {LIKE}) -> Tensor",
    **SEEDED_FUNCTION,
    layout="shape",
    shape=lambda self, high, *rest: like_spec(self, *rest),
    kernel=below_tensor(0),
)
randint_like_tensor_generator = op(
    f"randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, {LIKE}) "
    "-> Tensor",
    **SEEDED_FUNCTION,
    layout="shape",
    shape=lambda self, high, generator, *rest: like_spec(self, *rest),
    kernel=below_tensor(1),
)


randint_like_tensor.samples = lambda make: [(make(2, 3), make.ints(low=2, high=3))]
randint_like_tensor_generator.samples = lambda make: [
    sample(make(2, 3), make.ints(low=2, high=3), generator=None)
]

rand = factory(
    "rand", from_sizes(lambda sizes, dtype: sampling.uniform(default_generator, sizes, dtype))
)
randn = factory(
    "randn", from_sizes(lambda sizes, dtype: sampling.normal(default_generator, sizes, dtype))
)
randint = factory("randint")
randperm = factory("randperm")
rand_like = factory("rand_like")
randn_like = factory("randn_like")
randint_like = factory("randint_like")


# -- normal with tensor parameters -----------------------------------------------------------------


def refuse_dtype(kernel: str, array: Any, allowed: Any) -> None:
    """Raise for arrays of a dtype that is not `allowed(dtype)`."""
    dtype = dtypes.from_numpy(array.dtype)
    if not allowed(dtype):
        raise unsupported(kernel, dtype)


def check_deviations(std: Any) -> None:
    if std.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.size and not bool((std >= 0).all()):
        raise RuntimeError("normal expects all elements of std >= 0.0")


def scaled_normal(xp: Any, generator: Any, mean: Any, std: Any) -> Any:
    shape = geometry.broadcast_shapes(xp.shape(mean), xp.shape(std))
    dtype = (mean if isinstance(mean, np.ndarray) else std).dtype
    generator = drawn_from(generator)
    if not isinstance(std, np.ndarray):
        return rounded_sum(sampling.normal(generator, shape, dtype, 0.0, std), mean, dtype)
    # torch: scaled and shifted one after the other, with a rounding after each.
    scaled = (sampling.normal(generator, shape, dtype) * std).astype(dtype, copy=False)
    return rounded_sum(scaled, mean, dtype)


def rounded_sum(values: Any, mean: Any, dtype: Any) -> Any:
    # torch: a number is taken at the tensor's precision.
    mean = mean if isinstance(mean, np.ndarray) else np.asarray(mean).astype(dtype)
    return (values + mean).astype(dtype, copy=False)


normal_tensor_float = op(
    "normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor",
    may_raise=True,
    errors=lambda make: [
        (RuntimeError, (make(2), -1.0)),
        (NotImplementedError, (make.ints(2), 1.0)),
    ],
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    node_index=1,
    out_name="Tensor_float_out",
    vjp=lambda grad, mean_shape: grad.new_zeros(mean_shape),
    shape=lambda mean, std, generator: Spec(mean.shape, mean._dtype),
)


@normal_tensor_float.kernel
def _(xp: Any, mean: Any, std: float, generator: Any) -> Any:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    return scaled_normal(xp, generator, mean, std)


normal_float_tensor = op(
    "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    may_raise=True,
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    node_index=2,
    out_name="float_Tensor_out",
    vjp=lambda grad, std_shape: grad.new_zeros(std_shape),
    shape=lambda mean, std, generator: Spec(std.shape, std._dtype),
)


@normal_float_tensor.kernel
def _(xp: Any, mean: float, std: Any, generator: Any) -> Any:
    check_deviations(std)
    return scaled_normal(xp, generator, mean, std)


normal_tensor_tensor = op(
    "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    may_raise=True,
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    node_index=3,
    out_name="Tensor_Tensor_out",
    vjp={
        "mean": lambda grad, mean_shape: grad.new_zeros(mean_shape),
        "std": lambda grad, std_shape: grad.new_zeros(std_shape),
    },
)


@normal_tensor_tensor.shape
def _(mean: Any, std: Any, generator: Any) -> Any:
    return Spec(geometry.broadcast_shapes(tuple(mean.shape), tuple(std.shape)), mean._dtype)


@normal_tensor_tensor.kernel
def _(xp: Any, mean: Any, std: Any, generator: Any) -> Any:
    check_deviations(std)
    return scaled_normal(xp, generator, mean, std)


normal_sized = op(
    "normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, "
    f"{OPTIONS}) -> Tensor",
    errors=lambda make: [(RuntimeError, (0.0, -1.0, (2,)))],
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    shape=lambda mean, std, size, generator, dtype, *rest: sized_spec(size, dtype),
)


@normal_sized.kernel
def _(xp: Any, mean: float, std: float, size: Any, generator: Any, dtype: Any, *rest: Any) -> Any:
    check_sizes(size)
    array_dtype = (dtype or dtypes.get_default_dtype()).np
    return sampling.normal(drawn_from(generator), size, array_dtype, mean, std)


normal = factory("normal")


# -- filling in place ------------------------------------------------------------------------------


def filler(
    schema: str, draw: Any, inplace: str | None = None, node: str | None = None, **options: Any
) -> None:
    """A distribution that takes shape and dtype from a tensor, and its in-place form.

    `draw(generator, shape, numpy dtype, *parameters)`; the generator is the last argument.
    """

    def kernel(xp: Any, self: Any, *rest: Any) -> Any:
        strides = geometry.like_strides(self.shape, element_strides(self))
        generator = drawn_from(rest[-1])
        return drawn_in(draw, generator, self.shape, strides, self.dtype, rest[:-1])

    def fill(xp: Any, self: Any, *rest: Any) -> None:
        strides, generator = element_strides(self), drawn_from(rest[-1])
        self[...] = drawn_in(draw, generator, self.shape, strides, self.dtype, rest[:-1])

    base = op(
        schema,
        kind=RANDOM,
        method=False,
        function=False,
        layout="like",
        tags=SEEDED,
        vjp=lambda grad: zeros_like(grad),
        shape=same_geometry,
        kernel=kernel,
        **options,
    )
    mutation(base, fill, inplace, function=False, **({} if node is None else {"node": node}))


GENERATOR = "*, Generator? generator=None) -> Tensor"
WRITTEN = "*, Generator? generator=None) -> Tensor(a!)"

filler(f"uniform(Tensor self, float from=0, float to=1, {GENERATOR}", sampling.uniform)
filler(
    f"normal_functional(Tensor self, float mean=0, float std=1, {GENERATOR}",
    sampling.normal,
    inplace=f"normal_(Tensor(a!) self, float mean=0, float std=1, {WRITTEN}",
    node="NormalBackward0",
)
filler(f"exponential(Tensor self, float lambd=1, {GENERATOR}", sampling.exponential)
filler(f"geometric(Tensor self, float p, {GENERATOR}", sampling.geometric)
filler(f"cauchy(Tensor self, float median=0, float sigma=1, {GENERATOR}", sampling.cauchy)
filler(f"log_normal(Tensor self, float mean=1, float std=2, {GENERATOR}", sampling.log_normal)


def between(generator: Any, shape: Any, dtype: Any, low: int, high: int | None) -> Any:
    last = sampling.integer_range(dtype)[1] if high is None else high - 1
    return sampling.integers(generator, shape, dtype, low, last + 1)


def below(generator: Any, shape: Any, dtype: Any, high: int) -> Any:
    return sampling.integers(generator, shape, dtype, 0, high)


filler(f"random.from(Tensor self, int from, int? to, {GENERATOR}", between)
filler(f"random.to(Tensor self, int to, {GENERATOR}", below, node_index=1)
filler(f"random(Tensor self, {GENERATOR}", sampling.full_range_bits, node_index=2)


def plain_geometry(self: Any, *rest: Any) -> Any:
    return Spec(self.shape, self._dtype)


bernoulli = op(
    f"bernoulli(Tensor self, {GENERATOR}",
    out_casts=True,
    may_raise=True,
    errors=lambda make: [
        (NotImplementedError, (make.ints(2, low=2),)),
        (RuntimeError, (make.ints(2, low=2, dtype=dtypes.float32),)),
    ],
    kind=RANDOM,
    tags=SEEDED,
    shape=plain_geometry,
    vjp=lambda grad: zeros_like(grad),
    kernel=lambda xp, self, generator: bernoulli_draws(self, self, generator),
)


def bernoulli_draws(self: Any, p: Any, generator: Any, strides: Any = None) -> Any:
    """Zeros and ones in the shape and dtype of `self`; `p` is an array or a number."""
    each = isinstance(p, np.ndarray)
    refuse_dtype(
        "bernoulli_tensor_cpu_self_" if each else "bernoulli_scalar_cpu_", self, is_countable
    )
    if each:
        refuse_dtype("bernoulli_tensor_cpu_p_", p, lambda dtype: dtype.is_floating_point)
        geometry.broadcast_shapes(self.shape, p.shape)
    generator = drawn_from(generator)
    if strides is None or geometry.is_contiguous(self.shape, strides):
        return sampling.bernoulli(generator, p, self.shape, self.dtype)
    axes = memory_order(strides)
    shape = [self.shape[axis] for axis in axes]
    p = np.broadcast_to(p, self.shape).transpose(axes) if each else p
    return sampling.bernoulli(generator, p, shape, self.dtype).transpose(np.argsort(axes))


def is_countable(dtype: Any) -> bool:
    return not (dtype.is_complex or dtype in dtypes.FLOAT8 or dtype in BAREBONES_UNSIGNED)


bernoulli_p = op(
    f"bernoulli.p(Tensor self, float p, {GENERATOR}",
    errors=lambda make: [(RuntimeError, (make(2), 1.5))],
    kind=RANDOM,
    tags=SEEDED,
    node="torch::autograd::NotImplemented",
    out=False,
    shape=plain_geometry,
    vjp=not_differentiable("aten::bernoulli"),
    kernel=lambda xp, self, p, generator: bernoulli_draws(self, p, generator),
)
bernoulli_tensor = op(
    f"bernoulli.Tensor(Tensor self, Tensor p, {GENERATOR}",
    may_raise=True,
    kind=RANDOM,
    method=False,
    function=False,
    layout="like",
    tags=SEEDED,
    shape=same_geometry,
    node_index=1,
    vjp={"self": lambda grad: zeros_like(grad), "p": lambda grad, p_shape: grad.new_zeros(p_shape)},
    kernel=lambda xp, self, p, generator: bernoulli_draws(
        self, p, generator, geometry.like_strides(self.shape, element_strides(self))
    ),
)


def fill_bernoulli(xp: Any, self: Any, p: Any, generator: Any) -> None:
    self[...] = bernoulli_draws(self, p, generator, element_strides(self))


mutation(
    bernoulli_tensor,
    fill_bernoulli,
    f"bernoulli_.Tensor(Tensor(a!) self, Tensor p, {WRITTEN}",
    function=False,
    node="BernoulliBackward1",
)
mutation(
    bernoulli_p,
    fill_bernoulli,
    f"bernoulli_.float(Tensor(a!) self, float p=0.5, {WRITTEN}",
    function=False,
    node="BernoulliBackward2",
    vjp=lambda grad: zeros_like(grad),
)


# -- sampling --------------------------------------------------------------------------------------


multinomial = op(
    "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, "
    "Generator? generator=None) -> Tensor",
    may_raise=True,
    errors=lambda make: [
        (RuntimeError, (make.positive(3), 4)),
        (RuntimeError, (make.positive(3), 0)),
        (RuntimeError, (make.ints(3, low=1), 2)),
        (RuntimeError, (make.positive(2, 2, 2), 1)),
        (RuntimeError, (make(3, low=-2, high=-1), 1)),
    ],
    exact_out=True,
    kind=RANDOM,
    batch="sampled",
    tags=SEEDED,
    kernel=lambda xp, self, num_samples, replacement, generator: sampling.multinomial(
        drawn_from(generator), self, num_samples, replacement
    ),
)


@multinomial.shape
def _(self: Any, num_samples: Any, replacement: bool, generator: Any) -> Any:
    return Spec((*self.shape[:-1], num_samples), dtypes.int64)


poisson = op(
    "poisson(Tensor self, Generator? generator=None) -> Tensor",
    may_raise=True,
    errors=lambda make: [
        (NotImplementedError, (make.ints(2),)),
        (RuntimeError, (make(2, low=-2, high=-1),)),
    ],
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    shape=plain_geometry,
    vjp=lambda grad: zeros_like(grad),
    kernel=lambda xp, self, generator: sampling.poisson(drawn_from(generator), self),
)
binomial = op(
    "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
    errors=lambda make: [(ValueError, (make.ints(2), make(2, low=0, high=1)))],
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    node="torch::autograd::NotImplemented",
    vjp={
        "count": not_differentiable("aten::binomial"),
        "prob": not_differentiable("aten::binomial"),
    },
)


@binomial.kernel
def _(xp: Any, count: Any, prob: Any, generator: Any) -> Any:
    refuse_dtype("binomial_cpu", count, lambda dtype: dtype not in HALVES)
    geometry.broadcast_shapes(count.shape, prob.shape)
    found, wanted = (dtypes.from_numpy(array.dtype) for array in (prob, count))
    if found is not wanted and found.is_floating_point and wanted.is_floating_point:
        raise RuntimeError(
            f"Found dtype {found.scalar_type_name} but expected {wanted.scalar_type_name}"
        )
    return sampling.binomial(drawn_from(generator), count, prob)


@binomial.shape
def _(count: Any, prob: Any, generator: Any) -> Any:
    return Spec(geometry.broadcast_shapes(tuple(count.shape), tuple(prob.shape)), count._dtype)


def is_single_or_double(dtype: Any) -> bool:
    return dtype in (dtypes.float32, dtypes.float64)


standard_gamma = op(
    "_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    shape=plain_geometry,
    vjp=lambda grad, self, result: grad * standard_gamma_grad(self, result),
)


@standard_gamma.kernel
def _(xp: Any, self: Any, generator: Any) -> Any:
    refuse_dtype("gamma_cpu", self, is_single_or_double)
    return sampling.gamma(drawn_from(generator), self)


sample_dirichlet = op(
    "_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
    kind=RANDOM,
    method=False,
    tags=SEEDED,
    node="torch::autograd::NotImplemented",
    shape=plain_geometry,
    vjp=not_differentiable("aten::_sample_dirichlet"),
)


@sample_dirichlet.kernel
def _(xp: Any, self: Any, generator: Any) -> Any:
    refuse_dtype("dirichlet", self, is_single_or_double)
    parts = sampling.gamma(drawn_from(generator), self.astype(xp.float64))
    result = (parts / parts.sum(axis=-1, keepdims=True)).astype(self.dtype)
    # The density may be infinite at the border of the simplex: rounding must not reach it.
    return xp.clip(result, xp.finfo(self.dtype).tiny, xp.nextafter(self.dtype.type(1), 0))


def digamma(a: Any) -> Any:
    """The logarithmic derivative of the gamma function, for positive float64 arrays."""
    shifted, total = a, np.zeros_like(a)
    for _ in range(8):
        small = shifted < 8.0
        total = np.where(small, total - 1.0 / shifted, total)
        shifted = np.where(small, shifted + 1.0, shifted)
    square = 1.0 / (shifted * shifted)
    tail = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132)))
    return total + np.log(shifted) - 0.5 / shifted - square * tail


SERIES_LIMIT = 20000
SERIES_PRECISION = 1e-17


def gamma_shape_derivative(alpha: Any, x: Any) -> Any:
    """dx / d alpha of a standard gamma variate x at a fixed quantile.

    Minus the derivative of the distribution function by alpha, over the density; both divided
    out term by term in the series x**n / (alpha (alpha + 1) ... (alpha + n)).
    """
    alpha, x = np.broadcast_arrays(alpha.astype(np.float64), x.astype(np.float64))
    log_x = np.log(x)
    psi = digamma(alpha + 1.0)
    term = x / alpha
    total = term * (log_x - psi)
    for n in range(1, SERIES_LIMIT):
        shape = alpha + n
        psi = psi + 1.0 / shape
        term = term * x / shape
        total = total + term * (log_x - psi)
        if not bool(np.any((term > SERIES_PRECISION) & (term > SERIES_PRECISION * np.abs(total)))):
            break
    return -total


standard_gamma_grad: OpOverload = op(
    "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
    batch="aligned",
    method=False,
    layout="elementwise",
    node="torch::autograd::NotImplemented",
    differentiable=["self"],
    vjp=not_differentiable("aten::_standard_gamma_grad"),
    kernel=lambda xp, self, output: gamma_shape_derivative(self, output).astype(self.dtype),
)


@standard_gamma_grad.shape
def _(self: Any, output: Any) -> Any:
    return Spec(geometry.broadcast_shapes(tuple(self.shape), tuple(output.shape)), self._dtype)


# -- generators ------------------------------------------------------------------------------------


def manual_seed(seed: Any) -> Generator:
    """Seed the default generator, and return it."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the system's entropy."""
    return default_generator.seed()


def initial_seed() -> int:
    """What the default generator was seeded with last."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Restore the default generator's state."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, device_type: str = "cpu", **options: Any
) -> Iterator[None]:
    """Put the default generator's state back on leaving the block."""
    if not enabled:
        yield
        return
    before = default_generator.state_bytes()
    try:
        yield
    finally:
        default_generator.load_state_bytes(before)


# -- samples -------------------------------------------------------------------------------------


def sizes_with(*before: Any, generator: bool = False) -> Any:
    def samples(make: Any) -> Any:
        options = {"generator": None} if generator else {}
        for size in ((), (3,), (2, 0, 3)):
            yield sample(*before, size, **options)

    return samples


def tensors_with(*after: Any, generator: bool = False, **domain: Any) -> Any:
    def samples(make: Any) -> Any:
        options = {"generator": None} if generator else {}
        for source in (make(2, 3, **domain), make.strided(2, 3, **domain), make(**domain)):
            yield sample(source, *after, **options)

    return samples


for name in ("rand", "randn"):
    find(name).samples = sizes_with()
    find(name, "generator").samples = sizes_with(generator=True)
    find(f"{name}_like").samples = tensors_with()
    find(f"{name}_like", "generator").samples = tensors_with(generator=True)
find("rand").errors = lambda make: [
    (RuntimeError, ((-1,),)),
    (NotImplementedError, sample((2,), dtype=dtypes.int64)),
]
find("randint").samples = sizes_with(5)
find("randint").errors = lambda make: [(RuntimeError, (0, (2,)))]
find("randint", "low").errors = lambda make: [(RuntimeError, (3, 3, (2,)))]
find("randint", "generator").samples = sizes_with(5, generator=True)
find("randint", "low").samples = sizes_with(0, 2)
find("randint", "low_generator").samples = sizes_with(2, 5, generator=True)
find("randint_like").samples = tensors_with(2)
find("randint_like", "generator").samples = tensors_with(2, generator=True)
find("randint_like", "low_dtype").samples = tensors_with(0, 2)
find("randint_like", "low_generator_dtype").samples = tensors_with(0, 2, generator=True)
find("randperm").samples = lambda make: ((5,), (0,))
find("randperm", "generator").samples = lambda make: (sample(5, generator=None),)
normal_tensor_float.samples = tensors_with(2.0)
normal_float_tensor.samples = lambda make: ((1.5, make.positive(2, 3)),)
normal_tensor_tensor.samples = lambda make: ((make(2, 1), make.positive(3)),)
normal_sized.samples = sizes_with(0.0, 1.0)
for name in ("uniform", "normal_functional", "exponential", "cauchy", "log_normal", "random"):
    find(name).samples = tensors_with()
find("geometric").samples = tensors_with(0.5)
find("random", "from").samples = tensors_with(0, 2)
find("random", "to").samples = tensors_with(2)
bernoulli.samples = tensors_with(low=0.0, high=1.0)
bernoulli_p.samples = tensors_with(0.3)
bernoulli_tensor.samples = lambda make: ((make(2, 3), make(3, low=0.0, high=1.0)),)
multinomial.samples = lambda make: ((make.positive(4), 2), (make.positive(2, 3), 5, True))
for record in (poisson, standard_gamma, sample_dirichlet):
    record.samples = lambda make: ((make.positive(2, 3),), (make.positive(4),))
binomial.samples = lambda make: ((make.positive(2, 3), make(3, low=0.0, high=1.0)),)
standard_gamma_grad.samples = refuse("it has no derivative, and torch's values are approximate")
