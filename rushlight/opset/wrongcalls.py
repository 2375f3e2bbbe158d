"""Wrong calls: what users get wrong about ops, with the exception each call must raise.

They are kept apart from the ops because importing the ops would have to make all these functions,
which nothing but tests, the op audit and the recorder of reference results calls. Each is a
function of a `SampleMaker`, like an op's own `errors` rule. What follows from an op's schema or
kind is not written here: see `errorsamples`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.opset.samples.maker import sample

__all__ = ["WRONG_CALLS"]

WRONG_CALLS: dict[str, Callable[[Any], Any]] = {
    # pointwise
    "add.Tensor": lambda make: [(RuntimeError, sample(make.ints(2), make.ints(2), alpha=1.5))],
    "sub.Tensor": lambda make: [(RuntimeError, (make.mask(2), make.mask(2)))],
    "div.Tensor_mode": lambda make: [
        (RuntimeError, sample(make(2), make(2), rounding_mode="up")),
        (
            NotImplementedError,
            sample(make(2, dtype=dtypes.complex64), make(2), rounding_mode="floor"),
        ),
    ],
    "floor_divide": lambda make: [
        (RuntimeError, (make.ints(2, low=1), make.ints(2, high=0))),
        (NotImplementedError, (make(2, dtype=dtypes.complex64), make(2))),
    ],
    "remainder.Tensor": lambda make: [(RuntimeError, (make.ints(2, low=1), make.ints(2, high=0)))],
    "pow.Tensor_Scalar": lambda make: [(RuntimeError, (make.ints(2), -1))],
    "neg": lambda make: [(RuntimeError, (make.mask(2),))],
    # choice
    "maximum": lambda make: [(RuntimeError, (make(2, dtype=dtypes.complex64), make(2)))],
    "clamp": lambda make: [
        (RuntimeError, (make(2),)),
        (NotImplementedError, (make(2, dtype=dtypes.complex64), 0)),
    ],
    "where.self": lambda make: [
        (RuntimeError, (make.ints(2), make(2), make(2))),
        (RuntimeError, (make.mask(2), make(3), make(2))),
    ],
    "lerp.Scalar": lambda make: [(RuntimeError, (make(2), make(2, dtype=dtypes.float64), 0.5))],
    # comparison
    "lt.Tensor": lambda make: [(NotImplementedError, (make(2, dtype=dtypes.complex64), make(2)))],
    "isclose": lambda make: [
        (RuntimeError, (make(2), make(2), -1.0)),
        (RuntimeError, (make(2), make(2, dtype=dtypes.float64))),
    ],
    "equal": lambda make: [(TypeError, (make(2), 3))],
    "allclose": lambda make: [
        (RuntimeError, (make(2), make(2, dtype=dtypes.float64))),
        (RuntimeError, (make(2), make(2), 1e-5, -1.0)),
    ],
    "logical_and": lambda make: [(RuntimeError, (make(2), make(3)))],
    "bitwise_and.Tensor": lambda make: [(NotImplementedError, (make(2), make(2)))],
    "bitwise_left_shift.Tensor": lambda make: [(NotImplementedError, (make(2), make(2)))],
    "bitwise_not": lambda make: [(NotImplementedError, (make(2),))],
    # elementary
    "floor": lambda make: [(NotImplementedError, (make(2, dtype=dtypes.complex64),))],
    "ceil": lambda make: [(NotImplementedError, (make(2, dtype=dtypes.complex64),))],
    "nextafter": lambda make: [(NotImplementedError, (make.ints(2), make.ints(2)))],
    "hypot": lambda make: [(NotImplementedError, (make(2), make(2, dtype=dtypes.complex64)))],
    "atan2": lambda make: [(NotImplementedError, (make(2, dtype=dtypes.complex64), make(2)))],
    "ldexp.Tensor": lambda make: [(RuntimeError, (make(2), make(3)))],
    "gcd": lambda make: [(NotImplementedError, (make(2), make(2)))],
    # special
    "erf": lambda make: [(NotImplementedError, (make(2, dtype=dtypes.complex64),))],
    "erfinv": lambda make: [(NotImplementedError, (make(2, dtype=dtypes.complex64),))],
    "lgamma": lambda make: [(NotImplementedError, (make(2, dtype=dtypes.complex64),))],
    "polygamma": lambda make: [(RuntimeError, (-1, make(2)))],
    "mvlgamma": lambda make: [(RuntimeError, (make.positive(2), 0))],
    # activation
    "threshold": lambda make: [(NotImplementedError, (make.mask(2), 0, 0))],
    "hardtanh": lambda make: [(RuntimeError, (make.mask(2),))],
    "softshrink": lambda make: [(RuntimeError, (make(2), -1.0))],
    "elu": lambda make: [(NotImplementedError, (make.ints(2),))],
    "gelu": lambda make: [
        (RuntimeError, sample(make(2), approximate="fast")),
        (NotImplementedError, (make.ints(2),)),
    ],
    "prelu": lambda make: [
        (RuntimeError, (make(2, 3), make(2))),
        (RuntimeError, (make(), make(2))),
    ],
    "rrelu": lambda make: [(RuntimeError, (make(2), 0.5, 0.1))],
    "relu6": lambda make: [
        (RuntimeError, (make.mask(2),)),
        (NotImplementedError, (make(2, dtype=dtypes.complex64),)),
    ],
    "hardsigmoid": lambda make: [(NotImplementedError, (make.ints(2),))],
    "hardswish": lambda make: [(NotImplementedError, (make.ints(2),))],
    "silu": lambda make: [(NotImplementedError, (make.ints(2),))],
    "mish": lambda make: [(NotImplementedError, (make.ints(2),))],
    # complex
    "view_as_real": lambda make: [(RuntimeError, (make(2, 2),))],
    "view_as_complex": lambda make: [(RuntimeError, (make(3),))],
    "imag": lambda make: [(RuntimeError, (make(2),))],
    "complex": lambda make: [(RuntimeError, (make(2), make(2, dtype=dtypes.float64)))],
    "polar": lambda make: [
        (RuntimeError, (make(2), make(2, dtype=dtypes.float64))),
        (RuntimeError, (make.ints(2), make.ints(2))),
    ],
    # reduce
    "sum.dim_IntList": lambda make: [
        (IndexError, (make(2, 3), 2)),
        (RuntimeError, (make(2, 3), (0, 0))),
    ],
    "sum_to_size": lambda make: [(RuntimeError, (make(2, 3), (4,)))],
    "nansum": lambda make: [
        (RuntimeError, (make(2, 3, dtype=dtypes.complex64),)),
        (IndexError, (make(2, 3), 5)),
    ],
    "mean": lambda make: [(RuntimeError, (make.ints(3),))],
    "mean.dim": lambda make: [(IndexError, (make(2, 3), -3)), (RuntimeError, (make.ints(2, 3), 0))],
    "any.dims": lambda make: [(RuntimeError, (make(2, 3), (0, 0)))],
    "all.dim": lambda make: [(IndexError, (make(2, 3), 3))],
    "count_nonzero.dim_IntList": lambda make: [(IndexError, (make(2, 3), (0, 2)))],
    "prod.dim_int": lambda make: [(IndexError, (make(2, 3), 2))],
    # extrema
    "amax": lambda make: [
        (IndexError, (make(0, 3), 0)),
        (NotImplementedError, (make.ints(2, dtype=dtypes.complex64), 0)),
    ],
    # norms
    "dist": lambda make: [
        (RuntimeError, (make(2, 3), make(2))),
        (TypeError, (make(2), make(2), "x")),
    ],
    "renorm": lambda make: [
        (RuntimeError, (make(3), 2, 0, 1.0)),
        (RuntimeError, (make(2, 3), -1, 0, 1.0)),
        (RuntimeError, (make(2, 3), 2, 0, -1.0)),
    ],
    "logsumexp": lambda make: [(IndexError, (make(2, 3), 2))],
    # statistics
    "var.correction": lambda make: [(RuntimeError, (make.ints(3),)), (IndexError, (make(2, 3), 2))],
    "std_mean.correction": lambda make: [
        (RuntimeError, (make.ints(3),)),
        (RuntimeError, (make(2, 3), (0, 0))),
    ],
    "median.dim": lambda make: [
        (IndexError, (make(2, 3), 2)),
        (IndexError, (make(0, 3), 0)),
        (NotImplementedError, (make(2, dtype=dtypes.complex64), 0)),
    ],
    "mode": lambda make: [(IndexError, (make(2, 3), 2)), (IndexError, (make(0, 3), 0))],
    "kthvalue": lambda make: [
        (RuntimeError, (make(3), 4)),
        (RuntimeError, (make(3), 0)),
        (IndexError, (make(2, 3), 1, 5)),
    ],
    "quantile": lambda make: [
        (RuntimeError, (make(3), make(2, 2))),
        (RuntimeError, (make(3), make(2, dtype=dtypes.float64))),
    ],
    "quantile.scalar": lambda make: [
        (RuntimeError, (make(3), 1.5)),
        (RuntimeError, (make.ints(3), 0.5)),
        (RuntimeError, (make(0), 0.5)),
        (RuntimeError, sample(make(3), 0.5, interpolation="cubic")),
    ],
    "cov": lambda make: [
        (RuntimeError, (make(2, 2, 2),)),
        (RuntimeError, sample(make(2, 3), fweights=make(3))),
        (RuntimeError, sample(make(2, 3), aweights=make.positive(2))),
        (RuntimeError, (make.mask(2, 3),)),
    ],
    "corrcoef": lambda make: [(RuntimeError, (make(2, 2, 2),))],
    # scan
    "cumsum": lambda make: [(IndexError, (make(2, 3), 2))],
    "diff": lambda make: [
        (RuntimeError, (make(),)),
        (RuntimeError, sample(make(3), prepend=make(2, 2))),
    ],
    "trapezoid.x": lambda make: [(RuntimeError, (make(3), make(4)))],
    # writing
    "index_fill.int_Tensor": lambda make: [(IndexError, (make(3, 4), 1, make(3), make()))],
    "index_fill.int_Scalar": lambda make: [(IndexError, (make(3, 4), 0, make(2), 2))],
    # pad
    "pad": lambda make: [
        (RuntimeError, (make(2, 3), (1,))),
        (RuntimeError, (make(2, 3), (1, 1, 1, 1, 1, 1))),
        (RuntimeError, (make(2, 3), (4, 4), "reflect")),
        (NotImplementedError, (make(2, 3), (1, 1), "mirror")),
    ],
    # viewcopy
    "narrow_copy": lambda make: [(RuntimeError, (make(4, 3), 7, 1, 2))],
    # view
    "permute": lambda make: [
        (RuntimeError, (make(2, 3), (0, 0))),
        (RuntimeError, (make(2, 3), (0,))),
    ],
    # axes
    "swapaxes": lambda make: [(IndexError, (make(2, 3), 0, 2))],
    "movedim.intlist": lambda make: [(RuntimeError, (make(2, 3), (0, 1), (0,)))],
    # shape
    "repeat": lambda make: [(RuntimeError, (make(2, 3), (2,)))],
    "flip": lambda make: [(RuntimeError, (make(2, 3), (0, 0))), (IndexError, (make(2, 3), (2,)))],
    "roll": lambda make: [
        (RuntimeError, (make(2, 3), (1, 2), (0,))),
        (IndexError, (make(2, 3), 1, 2)),
    ],
    "rot90": lambda make: [
        (RuntimeError, (make(2, 3), 1, (0, 0))),
        (RuntimeError, (make(3), 1, (0, 1))),
    ],
    # diagonal
    "tril_indices": lambda make: [(RuntimeError, (-1, 2))],
    "trace": lambda make: [(RuntimeError, (make(3),))],
    # copy
    "clone": lambda make: [(TypeError, sample(make(2), memory_format="x"))],
    "contiguous": lambda make: [(RuntimeError, sample(make(2), memory_format=dtypes.float32))],
    # create
    "zeros": lambda make: [(RuntimeError, ((-1,),))],
    "full": lambda make: [(RuntimeError, ((2, -1), 1.0))],
    # series
    "arange": lambda make: [(RuntimeError, (-1,))],
    "arange.start_step": lambda make: [(RuntimeError, (0, 5, 0)), (RuntimeError, (0, 5, -1))],
    "linspace": lambda make: [(RuntimeError, (0, 1, -1))],
    "logspace": lambda make: [(RuntimeError, (0, 1, -1))],
    "eye": lambda make: [(RuntimeError, (-1,))],
    # random
    "rand": lambda make: [
        (RuntimeError, ((-1,),)),
        (NotImplementedError, sample((2,), dtype=dtypes.int64)),
    ],
    "randint": lambda make: [(RuntimeError, (0, (2,)))],
    "randint.low": lambda make: [(RuntimeError, (3, 3, (2,)))],
    "randperm": lambda make: [(RuntimeError, (-1,))],
    "normal.Tensor_float": lambda make: [
        (RuntimeError, (make(2), -1.0)),
        (NotImplementedError, (make.ints(2), 1.0)),
    ],
    "normal.float_float": lambda make: [(RuntimeError, (0.0, -1.0, (2,)))],
    "bernoulli": lambda make: [
        (NotImplementedError, (make.ints(2, low=2),)),
        (RuntimeError, (make.ints(2, low=2, dtype=dtypes.float32),)),
    ],
    "bernoulli.p": lambda make: [(RuntimeError, (make(2), 1.5))],
    "multinomial": lambda make: [
        (RuntimeError, (make.positive(3), 4)),
        (RuntimeError, (make.positive(3), 0)),
        (RuntimeError, (make.ints(3, low=1), 2)),
        (RuntimeError, (make.positive(2, 2, 2), 1)),
        (RuntimeError, (make(3, low=-2, high=-1), 1)),
    ],
    "poisson": lambda make: [
        (NotImplementedError, (make.ints(2),)),
        (RuntimeError, (make(2, low=-2, high=-1),)),
    ],
    "binomial": lambda make: [(ValueError, (make.ints(2), make(2, low=0, high=1)))],
    # dropout
    "dropout": lambda make: [
        (RuntimeError, (make(3), 1.5, True)),
        (RuntimeError, (make(3), -0.1, True)),
    ],
    "feature_dropout": lambda make: [(RuntimeError, (make(3), 0.5, True))],
    "alpha_dropout": lambda make: [(RuntimeError, (make(3), 2.0, True))],
    # embedding
    "embedding": lambda make: [(RuntimeError, (make(4, 3), make(2)))],
    # sort
    "sort": lambda make: [
        (IndexError, (make(2, 3), 2)),
        (RuntimeError, (make(2, dtype=dtypes.complex64), 0)),
    ],
    "argsort": lambda make: [(IndexError, (make(2, 3), 2))],
    "msort": lambda make: [(RuntimeError, (make(2, dtype=dtypes.complex64),))],
    "topk": lambda make: [
        (RuntimeError, (make(3), 4)),
        (IndexError, (make(2, 3), 1, 2)),
        (RuntimeError, (make(3), -1)),
    ],
    "searchsorted.Tensor": lambda make: [
        (RuntimeError, (make(2, 3), make(3, 2))),
        (RuntimeError, sample(make.distinct(3), make(2), side="middle")),
    ],
    "bucketize.Tensor": lambda make: [(RuntimeError, (make(2), make(2, 2)))],
    "isin.Tensor_Tensor": lambda make: [
        (RuntimeError, (make(2, dtype=dtypes.complex64), make(2, dtype=dtypes.complex64)))
    ],
    "bincount": lambda make: [
        (NotImplementedError, (make(3),)),
        (RuntimeError, (make.ints(2, 2),)),
        (RuntimeError, (make.ints(3, low=-3, high=-1),)),
        (RuntimeError, sample(make.ints(3), minlength=-1)),
    ],
    "histc": lambda make: [
        (RuntimeError, (make(3), 0)),
        (NotImplementedError, (make.ints(3), 2)),
        (RuntimeError, (make(3), 2, 3, 1)),
    ],
    "one_hot": lambda make: [
        (RuntimeError, (make.ints(3, low=3, high=5), 2)),
        (RuntimeError, (make(3),)),
    ],
    # contract
    "mm": lambda make: [
        (RuntimeError, (make(2, 3), make(2, 3))),
        (RuntimeError, (make(3), make(3, 2))),
        (RuntimeError, (make(2, 3), make(3, 2, dtype=dtypes.float64))),
        (NotImplementedError, (make.mask(2, 3), make.mask(3, 2))),
    ],
    "addmm": lambda make: [
        (RuntimeError, (make(4), make(2, 3), make(3, 2))),
        (RuntimeError, (make(2), make(2, 3), make(2, 3))),
    ],
    "bmm": lambda make: [
        (RuntimeError, (make(2, 2, 3), make(3, 3, 2))),
        (RuntimeError, (make(2, 3), make(3, 2))),
    ],
    "baddbmm": lambda make: [(RuntimeError, (make(2, 2, 2), make(2, 2, 3), make(2, 2, 3)))],
    "mv": lambda make: [(RuntimeError, (make(2, 3), make(2))), (RuntimeError, (make(3), make(3)))],
    "addmv": lambda make: [(RuntimeError, (make(3), make(2, 3), make(3)))],
    "dot": lambda make: [
        (RuntimeError, (make(2), make(3))),
        (RuntimeError, (make(2, 2), make(2))),
        (RuntimeError, (make(2), make(2, dtype=dtypes.float64))),
        (NotImplementedError, (make.mask(2), make.mask(2))),
    ],
    "addr": lambda make: [(RuntimeError, (make(2, 3), make(2), make(2, 3)))],
    "outer": lambda make: [(RuntimeError, (make(2, 2), make(2)))],
    "inner": lambda make: [(RuntimeError, (make(2, 3), make(2)))],
    "matmul": lambda make: [
        (RuntimeError, (make(), make(3))),
        (RuntimeError, (make(2, 3), make(2, 3))),
        (RuntimeError, (make(2, 2, 3), make(3, 3, 2))),
    ],
    # products
    "linear": lambda make: [
        (RuntimeError, (make(2, 3), make(4, 2))),
        (RuntimeError, (make(2, 3), make(4, 3), make(3))),
    ],
    "bilinear": lambda make: [
        (RuntimeError, (make(2, 3), make(3, 2), make(2, 3, 2))),
        (RuntimeError, (make(2, 3), make(2, 2), make(2, 2, 2))),
    ],
    "linalg_multi_dot": lambda make: [
        (RuntimeError, ([make(2, 3)],)),
        (RuntimeError, ([make(2, 3), make(2, 3)],)),
    ],
    "linalg_matrix_power": lambda make: [
        (RuntimeError, (make(2, 3), 2)),
        (RuntimeError, (make(3), 2)),
    ],
    "linalg_cross": lambda make: [(RuntimeError, (make(2, 3), make(3)))],
    "cross": lambda make: [
        (RuntimeError, (make(2, 2), make(2, 2))),
        (RuntimeError, (make(2, 3), make(2, 3), 0)),
    ],
    # einsum
    "einsum": lambda make: [
        (RuntimeError, ("ij,jk", [make(2, 3)])),
        (RuntimeError, ("i1", [make(2, 3)])),
        (RuntimeError, ("ij->k", [make(2, 3)])),
        (RuntimeError, ("ij,ij", [make(2, 3), make(3, 2)])),
    ],
    # softmax
    "softmax.int": lambda make: [
        (IndexError, (make(2, 3), 2)),
        (NotImplementedError, (make.ints(3), 0)),
    ],
    "log_softmax.int": lambda make: [
        (IndexError, (make(2, 3), -3)),
        (NotImplementedError, (make.ints(3), 0)),
    ],
    # loss
    "mse_loss": lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    "l1_loss": lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    "smooth_l1_loss": lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    "huber_loss": lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    "binary_cross_entropy": lambda make: [
        (RuntimeError, (make.ints(2, low=2, dtype=dtypes.float32), make(2, low=0, high=1)))
    ],
    "binary_cross_entropy_with_logits": lambda make: [(RuntimeError, (make(2), make(3)))],
    "kl_div": lambda make: [(RuntimeError, (make(2), make(3)))],
    # classify
    "nll_loss": lambda make: [
        (IndexError, (make(2, 3), make.ints(2, low=3, high=5))),
        (RuntimeError, (make(2, 3), make(2))),
        (RuntimeError, (make(2, 3), make.ints(2, high=2), make.positive(4))),
    ],
    "cross_entropy_loss": lambda make: [
        (ValueError, (make(2, 3), make.ints(3, high=2))),
        (IndexError, (make(2, 3), make.ints(2, low=4, high=5))),
        (RuntimeError, (make(2, 3), make.ints(2, 3))),
        (RuntimeError, (make(2, 3), make.ints(2, high=2), None, 1, -100, 2.0)),
    ],
    "cosine_embedding_loss": lambda make: [(RuntimeError, (make(2, 3), make(2, 3), make(2, 3)))],
    # margin
    "soft_margin_loss": lambda make: [(RuntimeError, (make(2, 3), make(4)))],
    "multi_margin_loss": lambda make: [(RuntimeError, (make(2, 3), make.ints(3, high=2)))],
    "multilabel_margin_loss": lambda make: [(RuntimeError, (make(2, 3), make.ints(2, high=2)))],
    "cosine_similarity": lambda make: [(RuntimeError, (make(2, 3), make(2, 4)))],
    "triplet_margin_loss": lambda make: [(RuntimeError, (make(2, 3), make(2, 3), make(3)))],
}
