"""Where a law makes no claim, and what is refused: each entry with its reason.

`OUTSIDE`: samples that are no subject of a law. `REFUSED`: what ends with a coded error instead of
a result. An entry in vain fails the tests of its ops, so both lists can only shrink.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

__all__ = ["OUTSIDE", "REFUSED", "Entry", "covers", "entries_of"]


class Entry(NamedTuple):
    op: str  # its name; may hold * and ?
    reason: str
    laws: str = "*"  # names, each may hold *
    sample: str = ""  # searched in "dtype (arguments)"
    code: str = ""


SECOND = "derivatives_commute products_are_adjoint hessians_agree"

FOREIGN = "what the forward op saves is made up in its samples, and counts as a function of them"

OUTSIDE = (
    Entry(
        "_native_batch_norm_legit",
        "statistics that all samples share would have to hold each sample's",
        "samples_are_stacked gradients_are_batched functionalize_changes_nothing",
        r"f64\[2\], f64\[2\], f64\[2\], f64\[2\], True",
    ),
    Entry(
        "_fake_quantize_learnable_per_tensor_affine",
        "its slopes pass over the steps by definition: no function has them, and mixed second "
        "derivatives depend on the order",
        "derivatives_commute hessians_agree",
    ),
    Entry("rrelu", "slopes are drawn at random, which vmap refuses unless it is told how"),
    Entry(
        "embedding",
        "the row of padding_idx gets no gradient by definition; its tangent is passed on",
        "jacobians_agree products_are_adjoint",
        r", -?\d",
    ),
    Entry(
        "binary_cross_entropy",
        "its derivatives are infinite at the ends of [0, 1]",
        sample=r"f64\[2, 2\], f64\[2, 2\], None, 0",
    ),
    Entry(
        "linalg_pinv*",
        "where singular values are cut off, the formulas take the matrix for one of that rank",
        sample=r"rtol=|0\.1, |, f64\[\], ",
    ),
    Entry(
        "_test_autograd_multiple_dispatch.fullcoverage", "its derivative is off by one by design"
    ),
    Entry("native_layer_norm_backward", FOREIGN, "gradients_are_batched"),
    Entry("native_group_norm_backward", FOREIGN, "gradients_are_batched"),
    Entry("nll_loss_backward", FOREIGN, "gradients_are_batched", r"\(f64\[\], .*, 1, -?\d+, f64"),
    Entry("nll_loss2d_backward", FOREIGN, "gradients_are_batched", r"\(f64\[\], .*, 1, -?\d+, f64"),
    Entry("cummax", "one number alone may be complex, several may not", sample=r"c128\[\]"),
    Entry("cummin", "one number alone may be complex, several may not", sample=r"c128\[\]"),
    Entry("mode", "one number alone may be complex, several may not", sample=r"c128\[\]"),
    Entry("kthvalue", "one number alone may be complex, several may not", sample=r"c128\[\]"),
)

REFUSED = (
    Entry(
        "ctc_loss.IntList",
        "no second derivative is defined, as in the reference",
        SECOND,
        "",
        "RL0611",
    ),
    Entry(
        "segment_reduce",
        "no second derivative is defined, as in the reference",
        SECOND,
        "",
        "RL0611",
    ),
    Entry("*cdist*", "no second derivative is defined, as in the reference", SECOND, "", "RL0611"),
    Entry(
        "*pdist*",
        "no second derivative is defined, as in the reference",
        "derivatives_commute products_are_adjoint",
        "",
        "RL0611",
    ),
)


def entries_of(table: tuple[Entry, ...], op: str, law: str) -> list[Entry]:
    """The entries that speak of an op under a law."""
    return [
        entry
        for entry in table
        if fnmatchcase(op, entry.op)
        and any(fnmatchcase(law, pattern) for pattern in entry.laws.split())
    ]


def covers(entry: Entry, sample: str, code: str = "") -> bool:
    """Whether an entry speaks of a sample, and of the code that it ended with."""
    return re.search(entry.sample, sample) is not None and entry.code == code
