"""The op families: those loaded with the package, and those loaded when a name is asked for.

`COLD` groups load whole, in this order, until the name that was missing has turned up.
"""

from __future__ import annotations

import gc
from importlib import import_module

FAMILIES = (
    "pointwise.arithmetic",
    "pointwise.choice",
    "pointwise.comparison",
    "pointwise.elementary",
    "pointwise.activation",
    "pointwise.complex",
    "reduction.reduce",
    "reduction.extrema",
    "view.view",
    "view.axes",
    "view.split",
    "view.restride",
    "moving.shape",
    "creation.copy",
    "creation.create",
    "indexing.index",
    "indexing.writing",
    "view.subscript",
    "product.contract",
)
COLD: tuple[tuple[str, ...], ...] = (
    ("creation.symsizes", "other.asserts"),
    ("network.softmax", "network.loss", "network.classify"),
    ("product.products",),
    ("creation.series",),
    ("creation.random", "creation.noise"),
    ("reduction.magnitudes",),
    ("reduction.sort",),
    ("reduction.statistics",),
    ("reduction.scan",),
    ("view.diagonal",),
    ("indexing.scatter",),
    ("indexing.embedding", "creation.dropout"),
    ("product.attention",),
    ("product.recurrent", "moving.packing"),
    ("network.alignment",),
    ("moving.pad", "network.norm", "network.batchstats"),
    ("window.conv",),
    ("window.pool", "window.adaptive", "window.unpool", "window.resample", "window.gridsample"),
    ("product.einsum",),
    ("pointwise.special",),
    ("pointwise.polynomials",),
    ("network.margin",),
    ("fourier.fourier", "fourier.shorttime"),
    ("product.differences",),
    ("reduction.segment", "reduction.histogram"),
    ("other.methods",),
    ("pointwise.fakequant",),
    ("view.copies",),
    (
        "sparse.coo",
        "sparse.convert",
        "sparse.compressed",
        "sparse.math",
        "sparse.shape",
        "indexing.embeddingbag",
    ),
    ("lists.foreach", "lists.fused"),
    ("linalg.factor", "linalg.reflectors", "linalg.solve", "linalg.inverse", "linalg.vectors"),
    ("linalg.spectral", "linalg.matrixfunctions"),
    ("other.selftest",),
    ("other.profiling",),
)
waiting = list(COLD)
# What the cold families add to Tensor.
COLD_ATTRIBUTES = (
    "_coalesced_", "_dimI", "_dimV", "_indices", "_is_all_true", "_is_any_true", "_is_zerotensor",
    "_nnz", "_sparse_mask_projection", "_to_dense", "_to_sparse", "_to_sparse_bsc",
    "_to_sparse_bsr", "_to_sparse_csc", "_to_sparse_csr", "_values", "apply_", "argsort",
    "bernoulli", "bernoulli_", "bincount", "cauchy_", "ccol_indices", "cholesky",
    "cholesky_inverse", "cholesky_solve", "coalesce", "col_indices", "const_data_ptr", "corrcoef",
    "cov", "cross", "crow_indices", "cummax", "cummin", "cumprod", "cumprod_", "cumsum", "cumsum_",
    "dense_dim", "det", "diag", "diag_embed", "diagflat", "diff", "digamma", "digamma_",
    "dim_order", "dist", "erf", "erf_", "erfc", "erfc_", "erfinv", "erfinv_", "exponential_",
    "fill_diagonal_", "geometric_", "geqrf", "hash_tensor", "histc", "histogram", "i0", "i0_",
    "igamma", "igamma_", "igammac", "igammac_", "index_reduce", "index_reduce_", "indices",
    "inverse", "ipu", "is_coalesced", "is_distributed", "is_ipu", "is_maia", "is_mps", "is_mtia",
    "is_vulkan", "is_xla", "is_xpu", "istft", "kthvalue", "lgamma", "lgamma_", "log_normal_",
    "log_softmax", "logcumsumexp", "logdet", "logsumexp", "lu", "lu_solve", "map2_", "map_",
    "matrix_exp", "matrix_power", "median", "mode", "module_load", "msort", "mtia", "multinomial",
    "mvlgamma", "mvlgamma_", "nanmedian", "nanquantile", "narrow_copy", "norm", "normal_", "orgqr",
    "ormqr", "pinverse", "polygamma", "polygamma_", "qr", "quantile", "random_", "reinforce",
    "renorm", "renorm_", "resize", "resize_as", "row_indices", "scatter", "scatter_", "scatter_add",
    "scatter_add_", "scatter_reduce", "scatter_reduce_", "slogdet", "softmax", "sort", "sparse_dim",
    "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "std", "stft", "svd", "to_dense",
    "to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo", "to_sparse_csc",
    "to_sparse_csr", "topk", "trace", "triangular_solve", "tril", "tril_", "triu", "triu_",
    "uniform_", "unique", "unique_consecutive", "values", "var", "xpu",
)  # fmt: skip


def load() -> None:
    """Register the families that every program may use."""
    # Records are made by the hundred and none of them is garbage: looking for some in between
    # would take a third of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for name in FAMILIES:
            import_module(f"rushlight.opset.{name}")
    finally:
        if collecting:
            gc.enable()


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
    name = module.removeprefix("rushlight.opset.")
    for group in COLD:
        if name in group:
            load_group(group)
