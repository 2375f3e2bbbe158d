"""`rearrange`: dims of a tensor named by a pattern, then reordered, split and joined by name."""

from __future__ import annotations

import functools
import keyword
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.func.errors import DimensionBindError
from rushlight.opset import functions

__all__ = ["rearrange"]

# How three dots are written while a pattern is read.
ELLIPSIS = "…"
# One dim of a pattern: the names of what it is made of; three dots stand alone.
Group = tuple[str, ...]


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """A tensor (or a list of them, stacked) with its dims reordered as a pattern says.

    Names in brackets are one dim that is made of several; `axes_lengths` gives the sizes that a
    split cannot tell. `...` stands for all other dims and `1` for a dim of size one.

    >>> import rushlight as torch
    >>> images = torch.zeros(32, 30, 40, 3)
    >>> tuple(torch.func.rearrange(images, "b h w c -> b c h w").shape)
    (32, 3, 30, 40)
    >>> tuple(torch.func.rearrange(images, "b (h two) w c -> (b two) h w c", two=2).shape)
    (64, 15, 40, 3)
    """
    if not isinstance(tensor, Tensor):
        tensor = functions.stack(tuple(tensor))
    return plan(tensor.dim(), pattern, tuple(axes_lengths.items()))(tensor)


@functools.lru_cache(256)
def plan(rank: int, pattern: str, lengths: tuple[tuple[str, int], ...]) -> Callable[[Any], Any]:
    """A function that rearranges tensors of `rank` dims."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = [parsed(side) for side in sides]
    known = dict(lengths)
    check_sides(pattern, left, right, known)
    has_others = ELLIPSIS in left
    count = len(left) - has_others
    if count > rank or (count < rank and not has_others):
        wanted = "less than or equal to" if has_others else "equal to"
        raise ValueError(
            f"Number of dimensions in pattern ({count}) must be {wanted} the number of dimensions "
            f"in the tensor ({rank})"
        )
    others = tuple([f"{ELLIPSIS}{place}" for place in range(rank - count)])
    source, target = expanded(left, others), expanded(right, others)
    names = [name for group in source for name in group]
    order = [names.index(name) for group in target for name in group]

    def run(tensor: Any) -> Any:
        sizes = bound_sizes(tensor.shape, source, known)
        # Dims of size one without a name are in neither shape: they go here and come back below.
        named = tensor.reshape([sizes[name] for name in names])
        moved = named.permute(order)
        return moved.reshape([math.prod([sizes[name] for name in group]) for group in target])

    return run


def parsed(side: str) -> list[str | Group]:
    """The dims of one side of a pattern; three dots outside of brackets stand alone."""
    if "." in side:
        if "..." not in side:
            raise ValueError("Expression may contain dots only inside ellipsis (...)")
        if side.count("...") != 1 or side.count(".") != 3:
            raise ValueError(
                "Expression may contain dots only inside ellipsis (...); only one ellipsis for "
                "tensor"
            )
    found: list[str | Group] = []
    seen: set[str] = set()
    group: list[str] | None = None
    for token in re.findall(r"[()]|[^()\s]+", side.replace("...", f" {ELLIPSIS} ")):
        if token == "(":
            if group is not None:
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed)"
                )
            group = []
        elif token == ")":
            if group is None:
                raise ValueError("Brackets are not balanced")
            found.append(tuple(group))
            group = None
        else:
            names = named(token, seen)
            if group is not None:
                group += names
            else:
                found.append(ELLIPSIS if names == [ELLIPSIS] else tuple(names))
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
    return found


def named(token: str, seen: set[str]) -> list[str]:
    """The name that a word of a pattern gives; none where it is a dim of size one."""
    if token in seen:
        raise ValueError(f"Indexing expression contains duplicate dimension '{token}'")
    if token == "1":
        return []
    if token.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if token != ELLIPSIS:
        for character in token:
            if not (character.isalnum() or character == "_"):
                raise ValueError(f"Unknown character '{character}'")
        reason = None
        if not token.isidentifier():
            reason = "not a valid python identifier"
        elif token[0] == "_" or token[-1] == "_":
            reason = "axis name should not start or end with underscore"
        if reason is not None:
            raise ValueError(f"Invalid axis identifier: {token}\n{reason}")
        if keyword.iskeyword(token):
            warnings.warn(
                f"It is discouraged to use axes names that are keywords: {token}",
                RuntimeWarning,
                stacklevel=5,
            )
    seen.add(token)
    return [token]


def check_sides(
    pattern: str, left: list[str | Group], right: list[str | Group], known: dict[str, int]
) -> None:
    before, after = [{n for part in side for n in part_names(part)} for side in (left, right)]
    if ELLIPSIS in after and ELLIPSIS not in before:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if ELLIPSIS in before and ELLIPSIS not in left:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    for length in known.values():
        if not isinstance(length, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if before != after:
        raise ValueError(
            "Identifiers only on one side of rearrange expression (should be on both): "
            f"{before ^ after}"
        )
    unknown = {name for name in known if name not in before}
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


def part_names(part: str | Group) -> Group:
    return (part,) if isinstance(part, str) else part


def expanded(side: list[str | Group], others: Group) -> list[Group]:
    """The dims of a side with those that three dots stand for; in brackets they are joined."""
    found: list[Group] = []
    for part in side:
        if isinstance(part, str):
            found += [(name,) for name in others]
        else:
            found.append(
                tuple([n for name in part for n in (others if name == ELLIPSIS else (name,))])
            )
    return found


def bound_sizes(shape: Any, source: list[Group], known: dict[str, int]) -> dict[str, int]:
    """The size of every name, told by the tensor; a group's last unknown one follows."""
    sizes = dict(known)
    for size, group in zip(shape, source, strict=True):
        unknown = [name for name in group if name not in sizes]
        if len(unknown) > 1:
            raise DimensionBindError(
                "cannot infer the sizes of two dimensions at once "
                f"{unknown[0]} and {unknown[1]}; give one of them"
            )
        product = math.prod([sizes[name] for name in group if name in sizes])
        if unknown and product and size % product == 0:
            sizes[unknown[0]] = size // product
        elif product != size:
            raise DimensionBindError(
                f"Dimension sizes to do not match ({size} != {product}) when matching dimension "
                f"pack ({' '.join(group)})"
            )
    return sizes
