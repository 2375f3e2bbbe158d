"""The schemes by which torch's quantised tensors keep numbers: names, for programs that ask."""

from __future__ import annotations

from typing import Any

__all__ = [
    "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "qscheme",
]  # fmt: skip


class qscheme:
    """A way of quantisation; made only by this module, and compared by identity."""

    __refusal__ = None

    __slots__ = ("name",)

    name: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("cannot create 'torch.qscheme' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return by_name, (self.name,)


BY_NAME: dict[str, Any] = {}


def by_name(name: str) -> Any:
    return BY_NAME[name]


def make(name: str) -> Any:
    new = BY_NAME[name] = object.__new__(qscheme)
    new.name = name
    return new


per_tensor_affine = make("per_tensor_affine")
per_channel_affine = make("per_channel_affine")
per_tensor_symmetric = make("per_tensor_symmetric")
per_channel_symmetric = make("per_channel_symmetric")
per_channel_affine_float_qparams = make("per_channel_affine_float_qparams")
