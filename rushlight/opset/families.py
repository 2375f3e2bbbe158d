"""The op families: those loaded with the package, and those loaded when a name is asked for.

`COLD` groups load whole, in this order, until the name that was missing has turned up.
"""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "pointwise",
    "choice",
    "comparison",
    "elementary",
    "activation",
    "complex",
    "reduce",
    "extrema",
    "norms",
    "statistics",
    "scan",
    "view",
    "axes",
    "split",
    "restride",
    "shape",
    "diagonal",
    "copy",
    "create",
    "series",
    "random",
    "dropout",
    "index",
    "writing",
    "scatter",
    "embedding",
    "subscript",
    "sort",
    "contract",
    "products",
    "softmax",
    "loss",
    "classify",
)
COLD: tuple[tuple[str, ...], ...] = (
    ("pad", "norm"),
    ("conv",),
    ("einsum",),
    ("special",),
    ("margin",),
    ("viewcopy",),
    ("sparse", "sparseconvert", "compressed", "sparsemath", "sparseshape", "embeddingbag"),
    ("selftest",),
    ("profiling",),
)
waiting = list(COLD)
# What the cold families add to Tensor.
COLD_ATTRIBUTES = (
    "_coalesced_", "_dimI", "_dimV", "_indices", "_nnz", "_sparse_mask_projection", "_to_dense",
    "_to_sparse", "_to_sparse_bsc", "_to_sparse_bsr", "_to_sparse_csc", "_to_sparse_csr",
    "_values", "ccol_indices", "coalesce", "col_indices", "crow_indices", "dense_dim", "digamma",
    "digamma_", "erf", "erf_", "erfc", "erfc_", "erfinv", "erfinv_", "i0", "i0_", "igamma",
    "igamma_", "igammac", "igammac_", "indices", "is_coalesced", "lgamma", "lgamma_", "mvlgamma",
    "mvlgamma_", "narrow_copy", "polygamma", "polygamma_", "row_indices", "sparse_dim",
    "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "to_dense", "to_sparse",
    "to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr", "values",
)  # fmt: skip


def load() -> None:
    """Register the families that every program may use."""
    for name in FAMILIES:
        import_module(f"rushlight.opset.{name}")


def load_group(group: tuple[str, ...]) -> None:
    if group in waiting:
        waiting.remove(group)
        for name in group:
            import_module(f"rushlight.opset.{name}")


def load_next() -> bool:
    """Register one more cold group; False when all are there."""
    if not waiting:
        return False
    load_group(waiting[0])
    return True


def load_all() -> None:
    """Register every family."""
    while load_next():
        pass


def ensure(module: str) -> None:
    """Register the group that a module of the opset belongs to."""
    name = module.rpartition(".")[2]
    for group in COLD:
        if name in group:
            load_group(group)
