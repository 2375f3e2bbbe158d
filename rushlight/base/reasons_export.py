"""The refusals of `export`: see `reasons`. Tracing and programs have RL1500 to RL1529, dims and
relations of sizes RL1530 to RL1559, files RL1560 to RL1589."""

from __future__ import annotations

from rushlight.base.errors import Reason

__all__ = ["EXPORT_REASONS"]

EXPORT_REASONS: dict[str, Reason] = {
    "RL1560": Reason(
        "The file cannot be read or written as an exported program: {what}",
        "A file says what it holds, and is believed only as far as it bears that out.",
        "Check that torch.export.save wrote the file and that it is whole.",
    ),
    "RL1561": Reason(
        "The file calls {name!r}, which is no operator that is known here",
        "Operators of users are known once the module that defines them is imported.",
        "Import what registers the operator, or decompose the program before it is saved.",
    ),
}
