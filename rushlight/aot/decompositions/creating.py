"""Creation of tensors as programs over core ops."""

from __future__ import annotations

import math
from typing import Any

from rushlight.aot.decompositions.texts import cast
from rushlight.aot.decompositions.written import program
from rushlight.core import dtype as dtypes
from rushlight.core.device import device, strided
from rushlight.core.dtype import FLOAT
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.opset.rules import aten

__all__: list[str] = []


def filled(number: float) -> Any:
    def program_of_fill(size: Any, **options: Any) -> Any:
        given = {name: value for name, value in options.items() if value is not None}
        place = LOCAL.state.default_device or device("cpu")
        defaults = {
            "dtype": dtypes.get_default_dtype(),
            "layout": strided,
            "device": place,
            "pin_memory": False,
        }
        return aten.full(size, number, **{**defaults, **given})

    return program_of_fill


def filled_like(number: float) -> Any:
    return lambda self, **options: aten.full_like(self, number, **options)


program("zeros")(filled(0))
program("ones")(filled(1))
program("zeros_like")(filled_like(0))
program("ones_like")(filled_like(1))


@program("zero")
def zero(self: Tensor) -> Any:
    return aten.full_like(self, 0)


@program("fill.Tensor")
def fill(self: Tensor, value: Any) -> Any:
    return aten.copy(self, value)


def as_own(self: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a new tensor, where those of another are the defaults."""
    chosen = {name: value for name, value in options.items() if value is not None}
    return {"dtype": self.dtype, "device": self.device, **chosen}


@program("new_full")
def new_full(self: Tensor, size: Any, fill_value: Any, **options: Any) -> Any:
    return aten.full(size, fill_value, **as_own(self, options))


@program("new_zeros")
def new_zeros(self: Tensor, size: Any, **options: Any) -> Any:
    return new_full(self, size, 0, **options)


@program("new_ones")
def new_ones(self: Tensor, size: Any, **options: Any) -> Any:
    return new_full(self, size, 1, **options)


@program("new_empty")
def new_empty(self: Tensor, size: Any, **options: Any) -> Any:
    return aten.empty(size, **as_own(self, options))


@program("new_empty_strided")
def new_empty_strided(self: Tensor, size: Any, stride: Any, **options: Any) -> Any:
    return aten.empty_strided(size, stride, **as_own(self, options))


@program("empty_like")
def empty_like(self: Tensor, **options: Any) -> Any:
    return aten.full_like(self, 0, **options)


@program("arange")
def arange(end: Any, **options: Any) -> Any:
    return aten.arange(0, end, 1, **options)


@program("arange.start")
def arange_start(start: Any, end: Any, **options: Any) -> Any:
    return aten.arange(start, end, 1, **options)


@program("eye")
def eye(n: Any, **options: Any) -> Any:
    return eye_m(n, n, **options)


@program("eye.m")
def eye_m(n: Any, m: Any, **options: Any) -> Any:
    device = options.get("device")
    row = aten.unsqueeze(aten.arange(0, n, 1, device=device), -1)
    found = aten.eq(row, aten.arange(0, m, 1, device=device))
    return cast(found, options.get("dtype") or dtypes.get_default_dtype())


@program("linspace")
def linspace(start: Any, end: Any, steps: int, **options: Any) -> Any:
    wanted = options.get("dtype") or dtypes.get_default_dtype()
    work = wanted if wanted.category >= FLOAT else dtypes.float64
    device = options.get("device")
    if steps <= 1:
        return aten.full([steps], start, dtype=wanted, device=device)
    place = aten.arange(0, steps, 1, dtype=dtypes.int64, device=device)
    step = (end - start) / (steps - 1)
    # From both ends, so that both are met exactly.
    first = aten.add(aten.mul(cast(place, work), step), start)
    left = aten.add(aten.neg(place), steps - 1)
    second = aten.add(aten.neg(aten.mul(cast(left, work), step)), end)
    return cast(aten.where(aten.lt(place, steps // 2), first, second), wanted)


@program("logspace")
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Any:
    wanted = options.pop("dtype", None) or dtypes.get_default_dtype()
    powers = linspace(start, end, steps, dtype=dtypes.float64, **options)
    return cast(aten.pow(base, powers), wanted)


@program("hann_window")
def hann_window(window_length: int, **options: Any) -> Any:
    return hann_window_periodic(window_length, True, **options)


@program("hann_window.periodic")
def hann_window_periodic(window_length: int, periodic: bool, **options: Any) -> Any:
    wanted = options.get("dtype") or dtypes.get_default_dtype()
    device = options.get("device")
    if window_length <= 1:
        return aten.full([window_length], 1, dtype=wanted, device=device)
    length = window_length if periodic else window_length - 1
    place = aten.arange(0, window_length, 1, dtype=dtypes.float64, device=device)
    wave = aten.cos(aten.mul(place, 2 * math.pi / length))
    return cast(aten.add(aten.mul(wave, -0.5), 0.5), wanted)
