"""Layers that are computed as one: sequences of modules that quantised layers take the place of."""

from __future__ import annotations

from typing import Any

from rushlight import nn

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvBn1d", "ConvBn2d", "ConvBn3d",
    "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
    "LinearBn1d", "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]  # fmt: skip


class _FusedModule(nn.Sequential):
    """Modules in a row that stand for one layer, of the classes `parts`."""

    parts: tuple[type, ...] = ()

    def __init__(self, *modules: Any) -> None:
        wanted = self.parts
        if wanted:
            found = tuple(map(type_of, modules))
            if found != wanted:
                names = " ".join(each.__name__ for each in found)
                raise AssertionError(f"Incorrect types for input modules {names}")
        super().__init__(*modules)


def type_of(module: Any) -> type:
    """Its class, or the one it had before weights were given parametrisations."""
    from rushlight.nn.utils.parametrize import type_before_parametrizations

    found: type = type_before_parametrizations(module)
    return found


class ConvReLU1d(_FusedModule):
    parts = nn.Conv1d, nn.ReLU


class ConvReLU2d(_FusedModule):
    parts = nn.Conv2d, nn.ReLU


class ConvReLU3d(_FusedModule):
    parts = nn.Conv3d, nn.ReLU


class LinearReLU(_FusedModule):
    parts = nn.Linear, nn.ReLU


class ConvBn1d(_FusedModule):
    parts = nn.Conv1d, nn.BatchNorm1d


class ConvBn2d(_FusedModule):
    parts = nn.Conv2d, nn.BatchNorm2d


class ConvBn3d(_FusedModule):
    parts = nn.Conv3d, nn.BatchNorm3d


class ConvBnReLU1d(_FusedModule):
    parts = nn.Conv1d, nn.BatchNorm1d, nn.ReLU


class ConvBnReLU2d(_FusedModule):
    parts = nn.Conv2d, nn.BatchNorm2d, nn.ReLU


class ConvBnReLU3d(_FusedModule):
    parts = nn.Conv3d, nn.BatchNorm3d, nn.ReLU


class BNReLU2d(_FusedModule):
    parts = nn.BatchNorm2d, nn.ReLU


class BNReLU3d(_FusedModule):
    parts = nn.BatchNorm3d, nn.ReLU


class LinearBn1d(_FusedModule):
    parts = nn.Linear, nn.BatchNorm1d


class LinearLeakyReLU(_FusedModule):
    parts = nn.Linear, nn.LeakyReLU


class LinearTanh(_FusedModule):
    parts = nn.Linear, nn.Tanh


class ConvAdd2d(_FusedModule):
    """A convolution, and a sum with another operand."""

    def __init__(self, conv: Any, add: Any) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Any, x2: Any) -> Any:
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution, a sum with another operand, and what of it is not negative."""

    def __init__(self, conv: Any, add: Any, relu: Any) -> None:
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1: Any, x2: Any) -> Any:
        return self.relu(self.add(self[0](x1), x2))
