"""All parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.base.naming import typename
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Any:
    """The elements of all parameters, one after the other.

    >>> import rushlight as torch
    >>> torch.nn.utils.parameters_to_vector([torch.ones(1, 2), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    return functions.cat([value.view(-1) for value in on_one_device(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give every parameter its part of a vector as its data."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    vector: Any = vec
    begin = 0
    for value in on_one_device(parameters):
        end = begin + value.numel()
        value.data = vector[begin:end].view_as(value).data
        begin = end


def on_one_device(parameters: Iterable[Tensor]) -> list[Any]:
    values: list[Any] = list(parameters)
    if any(value.device != values[0].device for value in values):
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
    return values
