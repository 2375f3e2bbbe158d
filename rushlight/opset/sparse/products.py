"""Products with sparse matrices under torch's oldest names, copies of parts, and sizes in place.

They are programs over other ops; a product has the rows of its sparse factor, in full.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.dispatch import overridable
from rushlight.core.dtype import int64
from rushlight.opset import functions
from rushlight.opset.exposure import install_method
from rushlight.opset.sparse.coo import is_coo, sparse_coo_tensor

TORCH_NAMES = (
    "ccol_indices_copy", "col_indices_copy", "crow_indices_copy", "hsmm", "hspmm", "native_norm",
    "resize_as_sparse_", "row_indices_copy", "saddmm", "smm", "sspaddmm", "values_copy",
)  # fmt: skip


def not_for(name: str, value: Any) -> NotImplementedError:
    backend = "SparseCPU" if is_coo(value) else "CPU"
    # torch: the words for an op that a layout does not have.
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend: it is for "
        "tensors of another layout."
    )


def full_rows(name: str, left: Any, right: Any) -> tuple[Any, Any]:
    """The numbers of the rows that the product has, and those rows."""
    if left.dim() != 2 or right.dim() != 2:
        raise RuntimeError(f"{name}: 2D tensors expected, got {left.dim()}D and {right.dim()}D")
    if left.shape[1] != right.shape[0]:
        raise RuntimeError(
            f"{name}: Argument #3: Expected dim 0 size {left.shape[1]}, got {right.shape[0]}"
        )
    rows = left.coalesce().indices()[0].unique()
    return rows, functions._sparse_mm(left, right).index_select(0, rows)


def sspaddmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)` of sparse `input` and `mat1`, as a sparse matrix."""
    if not is_coo(mat1) or not is_coo(input):
        raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    rows, product = full_rows("sspaddmm", mat1, mat2)
    width = product.shape[1]
    columns = functions.arange(width, dtype=int64).repeat(rows.shape[0])
    places = functions.stack([rows.repeat_interleave(width), columns])
    parts = places, product.reshape((-1,)) * alpha
    if input._nnz():
        before = input.coalesce()
        parts = (
            functions.cat([before.indices(), parts[0]], 1),
            functions.cat([before.values() * beta, parts[1]]),
        )
    made = sparse_coo_tensor(*parts, (mat1.shape[0], width))
    return made if out is None else out.copy_(made)


def saddmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Any:
    """torch's other name of `sspaddmm`."""
    return sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha, out=out)


def smm(input: Any, mat2: Any) -> Any:
    """The product of a sparse and a dense matrix, as a sparse matrix."""
    if not is_coo(input):
        raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    empty = sparse_coo_tensor(
        functions.empty((2, 0), dtype=int64), functions.empty((0,), dtype=mat2.dtype),
        (input.shape[0], mat2.shape[-1]),
    )  # fmt: skip
    return sspaddmm(empty, input, mat2)


def hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Any:
    """The product of a sparse and a dense matrix: sparse in its rows, dense within them."""
    if not is_coo(mat1):
        raise not_for("hspmm", mat1)
    rows, product = full_rows("hspmm", mat1, mat2)
    made = sparse_coo_tensor(rows.unsqueeze(0), product, (mat1.shape[0], mat2.shape[1]))
    return made if out is None else out.copy_(made)


def hsmm(mat1: Any, mat2: Any) -> Any:
    """torch's other name of `hspmm`."""
    return hspmm(mat1, mat2)


def native_norm(input: Any, p: Any = 2, *given: Any, **named: Any) -> Any:
    """The norm of a sparse tensor's values."""
    if not is_coo(input):
        raise not_for("native_norm", input)
    if given or named:
        raise RuntimeError("norm_sparse currently only supports full reductions")
    return input.coalesce().values().norm(p)


def copied(name: str) -> Any:
    def copy(input: Any) -> Any:
        if name == "values" and is_coo(input):
            raise not_for("values_copy", input)
        return getattr(input, name)().clone()

    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__doc__ = f"`{name}()` of a compressed sparse tensor, in memory of its own."
    return overridable(copy)


crow_indices_copy, col_indices_copy = copied("crow_indices"), copied("col_indices")
ccol_indices_copy, row_indices_copy = copied("ccol_indices"), copied("row_indices")
values_copy = copied("values")


def resize_as_sparse_(input: Any, the_template: Any) -> Any:
    """Gives a sparse tensor the sizes of another; its elements stay."""
    return input.sparse_resize_(
        the_template.shape, the_template.sparse_dim(), the_template.dense_dim()
    )


def to_padded_tensor(self: Any, padding: float, output_size: Any = None) -> Any:
    """Nested tensors have a rule for it; no other tensor can be padded."""
    if not self.is_nested:
        raise not_for("to_padded_tensor", self)
    return self.to_padded_tensor(padding, output_size)


for function in (smm, sspaddmm, resize_as_sparse_, to_padded_tensor):
    install_method(function, function.__name__)
smm, sspaddmm, saddmm = overridable(smm), overridable(sspaddmm), overridable(saddmm)
hspmm, hsmm, native_norm = overridable(hspmm), overridable(hsmm), overridable(native_norm)
resize_as_sparse_ = overridable(resize_as_sparse_)
