"""The op families, in the order in which they load."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "pointwise",
    "choice",
    "comparison",
    "elementary",
    "special",
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
    "viewcopy",
    "diagonal",
    "pad",
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
    "einsum",
    "softmax",
    "loss",
    "classify",
    "margin",
    "sparse",
    "sparseconvert",
    "compressed",
    "sparsemath",
    "sparseshape",
    "embeddingbag",
    "norm",
    "conv",
    "selftest",
    "profiling",
)


def load() -> None:
    """Register every family."""
    for name in FAMILIES:
        import_module(f"rushlight.opset.{name}")
