"""Modules that join and split dims."""

from __future__ import annotations

from typing import Any

from rushlight.nn.module import Module

__all__ = [
    "Flatten", "Unflatten",
]  # fmt: skip


class Flatten(Module):
    """Joins a range of dims."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


def check_sizes(sizes: Any, named: bool) -> None:
    """Refuse what is no tuple of sizes, or of names with sizes."""
    wanted, parts = ("tuples", tuple) if named else ("ints", int)
    if not isinstance(sizes, tuple if named else (tuple, list)):
        raise TypeError(
            f"unflattened_size must be a tuple of {wanted}, but found type {type(sizes).__name__}"
        )
    for position, part in enumerate(sizes):
        if not isinstance(part, parts):
            raise TypeError(
                f"unflattened_size must be tuple of {wanted}, but found element of type "
                f"{type(part).__name__} at pos {position}"
            )


class Unflatten(Module):
    """Splits a dim into several."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        check_sizes(unflattened_size, named=isinstance(dim, str))
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
