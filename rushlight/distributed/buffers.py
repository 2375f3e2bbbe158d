"""Tensors as flat arrays, which collectives read and write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rushlight.core.tensor import Tensor

__all__ = ["Flat", "check_tensor", "check_tensors", "describe", "restore_all"]


def check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def check_tensors(values: Any, name: str) -> None:
    if not isinstance(values, (list, tuple)) or not all([isinstance(v, Tensor) for v in values]):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} instead."
        )


def describe(tensor: Tensor) -> str:
    """As a label has it: float32[2, 3]."""
    return f"{str(tensor.dtype).rpartition('.')[2]}{list(tensor.shape)}"


class Flat:
    """A tensor's elements in a row; `restore` writes them back where they are a copy."""

    __slots__ = ("array", "values")

    def __init__(self, tensor: Tensor) -> None:
        plain = tensor.detach()
        if plain.layout.name != "strided":
            plain = plain.to_dense()
        if plain.is_conj() or plain.is_neg():
            plain = plain.resolve_conj().resolve_neg()
        array = plain._array
        if array is None:
            raise RuntimeError(f"collectives need memory; got a tensor on {tensor.device.type!r}")
        self.array = array
        copied = np.ascontiguousarray(array)
        self.values = copied.reshape(-1)

    def restore(self) -> None:
        if not np.may_share_memory(self.array, self.values):
            self.array[...] = self.values.reshape(self.array.shape)


def restore_all(flats: Iterable[Flat]) -> None:
    for flat in flats:
        flat.restore()
