"""What a result is: its sizes, dtype and strides, stated or read from a text of sizes."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype

__all__ = ["Sizes", "Spec", "column_strides"]


class Spec:
    """What a shape rule answers for one result: sizes, dtype, and strides unless contiguous."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, shape: Any, dtype: dtype, strides: Any = None) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = None if strides is None else tuple(strides)

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype}, strides={self.strides})"


class Sizes:
    """What a text such as "*mn, *nk -> *mk|, * int32" says. A letter is a size of the last tensor
    arguments, `*` the dims before them, which broadcast; k, where no argument has it, is the
    smaller of m and n. A result whose columns lie in memory one after another has a `|`; its dtype
    is that of the first of these arguments, or the word behind: a dtype, `real` or `complex`."""

    __slots__ = ("operands", "results")

    def __init__(self, text: str) -> None:
        left, _, right = text.partition("->")
        self.operands = [part.strip() for part in left.split(",")]
        self.results = [part.strip().partition(" ")[::2] for part in right.split(",")]

    @property
    def ranks(self) -> tuple[int, ...]:
        """How many dims of each argument have letters."""
        return tuple([len(letters.lstrip("*")) for letters in self.operands])

    def specs(self, tensors: list[Any]) -> Any:
        sizes: dict[str, Any] = {}
        batches = []
        for letters, rank, tensor in zip(self.operands, self.ranks, tensors, strict=True):
            split = len(tensor.shape) - rank
            sizes.update(zip(letters[-rank:] if rank else "", tensor.shape[split:], strict=True))
            if letters[:1] == "*":
                batches.append(tuple(tensor.shape[:split]))
        if "k" not in sizes and sizes.keys() >= {"m", "n"}:
            sizes["k"] = min(sizes["m"], sizes["n"])
        batch = geometry.broadcast_shapes(*batches) if len(batches) > 1 else (batches or [()])[0]
        source = tensors[0]._dtype
        found = []
        for letters, word in self.results:
            shape = [sizes[letter] for letter in letters.strip("*|")]
            whole = (*batch, *shape) if letters[:1] == "*" else tuple(shape)
            steps = column_strides(whole) if letters[-1:] == "|" else None
            found.append(Spec(whole, named_dtype(word, source), steps))
        return found[0] if len(found) == 1 else tuple(found)


def column_strides(sizes: Any) -> tuple[Any, ...]:
    """Strides of matrices whose columns lie one after another."""
    steps = geometry.contiguous_strides((*sizes[:-2], sizes[-1], sizes[-2]))
    return (*steps[:-2], steps[-1], steps[-2])


def named_dtype(word: str, source: dtype) -> dtype:
    if word == "real":
        return source.to_real()
    if word == "complex":
        return source.to_complex()
    found: dtype = getattr(dtypes, word) if word else source
    return found
