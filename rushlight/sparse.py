"""torch.sparse: functions that know sparse tensors, and the switch for checking their parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.base.errors import MissingFeature, error
from rushlight.core import construct
from rushlight.core.construct import tensor
from rushlight.core.device import (
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from rushlight.core.dtype import bool_, int64, unsupported
from rushlight.core.dtype import dtype as DType
from rushlight.core.tensor import Tensor
from rushlight.opset import functions
from rushlight.opset.sparse.compressed import sparse_csr_tensor
from rushlight.opset.sparse.coo import LAYOUT_NAMES, replace_parts, sparse_coo_tensor

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]


class LegacySparseType(type):
    """`torch.sparse.FloatTensor` and its kin: constructors that also answer isinstance."""

    dtype: DType

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and (
            instance._dtype is cls.dtype and instance.layout is sparse_coo
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs or (args and isinstance(args[0], Tensor)):
            # torch: values keep their dtype, whatever the name of the constructor says.
            return functions.sparse_coo_tensor(*args, **kwargs)
        return construct.sparse_new(cls.dtype, *args)


for _name in ("BFloat16", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"):
    _fields = {
        "dtype": getattr(construct, f"{_name}Tensor").dtype, "layout": sparse_coo,
        "is_sparse": True, "is_cuda": False, "__module__": "torch.sparse",
    }  # fmt: skip
    globals()[f"{_name}Tensor"] = LegacySparseType(f"{_name}Tensor", (), _fields)


def mm(mat1: Any, mat2: Any, *reduce: Any) -> Any:
    """The product of a sparse matrix with a dense or sparse one; a sparse factor's gradient has
    its pattern."""
    return mm_reduced(mat1, mat2, *reduce) if reduce else functions._sparse_mm(mat1, mat2)


def mm_reduced(mat1: Any, mat2: Any, reduce: str) -> Any:
    """The product of a CSR matrix with a dense one whose sums are `reduce` of the terms."""
    if mat1.layout is not sparse_csr:
        name = LAYOUT_NAMES[mat1.layout.name]
        raise RuntimeError(f"sparse_mm_reduce: expect self to be SparseCsr, got {name}")
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(f"sparse_mm_reduce: reduce type of {reduce} has not been enabled.")
    if mat2.dim() != 2 or mat2.shape[0] != mat1.shape[1]:
        raise RuntimeError(
            f"Expected a tensor of dimension 2 and tensor.size[0] == {mat1.shape[1]} but got: "
            f"dimension {mat2.dim()} and tensor.size[0] = {mat2.shape[0]}"
        )
    if mat1.dtype is not mat2.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'other' to have scalar type "
            f"{mat1.dtype.scalar_type_name}; but got {mat2.type()} instead (while checking "
            "arguments for sparse_mm_reduce)"
        )
    if not mat1.dtype.is_floating_point:
        raise unsupported("spmm_reduce_kernel", mat1.dtype)
    values = mat1.values()
    columns, lengths = mat1.col_indices().long(), mat1.crow_indices().long().diff()
    rows = functions.arange(mat1.shape[0]).repeat_interleave(lengths)
    terms = values.unsqueeze(1) * mat2.index_select(0, columns)
    return folded_rows(terms, rows.unsqueeze(1).expand_as(terms), mat1.shape[0], reduce)


def folded_rows(terms: Any, rows: Any, count: int, reduce: str) -> Any:
    """Terms of each row and column folded; zero where there are none. The gradient of an extremum
    goes to the first term that is it."""
    folded = terms.new_zeros(count, terms.shape[1])
    if reduce in ("sum", "mean") or not len(terms):
        return folded.scatter_reduce(0, rows, terms, reduce, include_self=False)
    with no_grad():
        best = folded.scatter_reduce(0, rows, terms, reduce, include_self=False).gather(0, rows)
        places = functions.arange(len(terms)).unsqueeze(1).expand_as(terms)
        places = functions.where((terms == best) | terms.isnan(), places, len(terms))
        chosen = functions.full(folded.shape, len(terms)).scatter_reduce(0, rows, places, "amin")
    return terms.gather(0, chosen.clamp(max=len(terms) - 1)).masked_fill(chosen == len(terms), 0)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * mat + alpha * (mat1 @ mat2)`; a sparse mat1's gradient has its pattern."""
    return functions._sparse_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """Sums over all or some dims; the gradient has the pattern of `input`."""
    if dim is None:
        if dtype is None:
            return functions._sparse_sum(input)
        return functions._sparse_sum(input, dtype=dtype)
    dims = [dim] if isinstance(dim, int) else list(dim)
    if dtype is None:
        return functions._sparse_sum(input, dims)
    return functions._sparse_sum(input, dims, dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax over the specified elements along `dim`; the others count as minus infinity."""
    return functions._sparse_softmax(input, dim, dtype=dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return functions._sparse_log_softmax(input, dim, dtype=dtype)


def sampled_addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)` at the specified elements of a CSR matrix alone."""
    if input.layout is not sparse_csr:
        raise error(
            "RL0513",
            NotImplementedError,
            function="sampled_addmm",
            argument="input",
            expected="torch.sparse_csr",
            layout=input.layout,
            conversion="to_sparse_csr",
        )
    if input.dim() != 2 or mat1.dim() != 2 or mat2.dim() != 2:
        raise MissingFeature("sampled_addmm of batches", code="RL0514")
    sizes, expected = tuple(input.shape), (mat1.shape[0], mat2.shape[1])
    if mat1.shape[1] != mat2.shape[0] or sizes != expected:
        raise RuntimeError(
            f"sampled_addmm(): sizes {list(mat1.shape)} and {list(mat2.shape)} of the factors do "
            f"not give the size {list(sizes)} of 'input'"
        )
    ends, columns = input.crow_indices(), input.col_indices()
    rows = functions.repeat_interleave(
        functions.arange(sizes[0], dtype=ends.dtype), ends.diff(), dim=0
    )
    # Row by row of the one factor with column by column of the other, no more.
    products = (mat1.index_select(0, rows) * mat2.t().index_select(0, columns)).sum(-1)
    values = products if alpha == 1 else products * alpha
    if beta != 0:
        values = values + (input.values() if beta == 1 else input.values() * beta)
    made = sparse_csr_tensor(ends, columns, values, sizes)
    return made if out is None else replace_parts(out, made)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix with rows of `diagonals` on the diagonals that `offsets` name.

    The column of an element is its place in the row it comes from.
    """
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    places = offsets.reshape(1) if offsets.dim() == 0 else offsets
    if rows.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if places.dim() != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if places.dtype is not int64:
        name = places.dtype.scalar_type_name
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {name}")
    if rows.shape[0] != places.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({places.shape[0]})"
        )
    found = places.tolist()
    if len({*found}) != len(found):
        raise RuntimeError("Offset tensor contains duplicate values")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}"
        )
    height, width = shape
    entries = [
        (number, column - offset, column)
        for number, offset in enumerate(found)
        for column in range(max(0, offset), min(width, rows.shape[1], height + offset))
    ]
    spots = tensor(entries, dtype=int64).reshape(-1, 3).t()
    made = sparse_coo_tensor(spots[1:], rows[spots[0], spots[2]], tuple(shape))
    if layout is sparse_csr:
        return made.to_sparse_csr()
    return made.to_sparse_csc() if layout is sparse_csc else made


def spsolve(input: Any, other: Any, *, left: bool = True) -> Any:
    raise error(
        "RL0512", NotImplementedError, function="spsolve", what="solving with a sparse matrix"
    )


class check_sparse_tensor_invariants:
    """Whether constructors check the parts they are given. Here they always do; the switch is
    kept so that programs that set it run. Use as context manager or decorator."""

    enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        return check_sparse_tensor_invariants.enabled

    @staticmethod
    def enable() -> None:
        check_sparse_tensor_invariants.enabled = True

    @staticmethod
    def disable() -> None:
        check_sparse_tensor_invariants.enabled = False

    def __enter__(self) -> None:
        if self.saved is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.saved = self.is_enabled()
        check_sparse_tensor_invariants.enabled = self.state

    def __exit__(self, *failure: Any) -> None:
        assert self.saved is not None
        check_sparse_tensor_invariants.enabled = self.saved
        self.saved = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return wrapped


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """`gradcheck` for functions of sparse tensors: it varies their values, all elements specified
    unless `masked`, and sees dense outputs."""

    @wraps(gradcheck)
    def checked(fn: Any, inputs: Any, *, masked: bool = False, **options: Any) -> Any:
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        patterns: dict[int, Any] = {}
        for place, value in enumerate(given):
            if has_sparse_grad(value):
                patterns[place] = value.detach() if masked else fully_specified(value.detach())
                held = patterns[place]
                values = held._values() if held.layout is sparse_coo else held.values()
                given[place] = values.clone().requires_grad_()

        def dense(output: Any) -> Any:
            return output.to_dense(masked_grad=masked) if has_sparse_grad(output) else output

        def of_values(*args: Any) -> Any:
            restored = list(args)
            for place, pattern in patterns.items():
                restored[place] = with_pattern(pattern, args[place])
            found = fn(*restored)
            if isinstance(found, (list, tuple)):
                return tuple([dense(output) for output in found])
            return dense(found)

        return gradcheck(of_values, tuple(given), **options)

    return checked


def has_sparse_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and value.layout is not strided


def fully_specified(tensor: Any) -> Any:
    """The tensor with its zeros specified too."""
    options: dict[str, Any] = {"layout": tensor.layout, "dense_dim": tensor.dense_dim()}
    if tensor.layout in (sparse_bsr, sparse_bsc):
        batches = tensor.dim() - tensor.dense_dim() - tensor.sparse_dim()
        options["blocksize"] = tuple(tensor.values().shape[batches + 1 : batches + 3])
    everywhere = functions.ones(tuple(tensor.shape), dtype=bool_).to_sparse(**options)
    return tensor.to_dense().sparse_mask(everywhere)


def with_pattern(pattern: Any, values: Any) -> Any:
    """A sparse tensor of these values at the places of another."""
    if pattern.layout is sparse_coo:
        return functions.sparse_coo_tensor(
            pattern._indices(), values, pattern.shape, is_coalesced=pattern.is_coalesced()
        )
    by_row = pattern.layout in (sparse_csr, sparse_bsr)
    ends = pattern.crow_indices() if by_row else pattern.ccol_indices()
    plain = pattern.col_indices() if by_row else pattern.row_indices()
    return functions.sparse_compressed_tensor(
        ends, plain, values, pattern.shape, layout=pattern.layout, dtype=values.dtype
    )
