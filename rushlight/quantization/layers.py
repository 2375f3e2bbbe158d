"""Layers whose weights are quantised, and whose products are of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.core.tensor import values_of, wrap
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.subclasses.quantized import (
    INTEGERS,
    LIMITS,
    Quantizer,
    choose_qparams,
    quantize_per_channel,
    quantize_per_tensor,
    with_integers,
)
from rushlight.subclasses.quantizedmath import exact_product

__all__ = ["LSTM", "DeQuantStub", "DeQuantize", "DynamicLinear", "Linear", "QuantStub", "Quantize"]

QINT8, QUINT8 = dtypes.BY_NAME["qint8"], dtypes.BY_NAME["quint8"]


def quantized_weight(weight: Any, observer: Any) -> Any:
    """A weight as int8, by an observer that watches it first."""
    observer(weight)
    scale, zero_point = observer.calculate_qparams()
    given = weight.detach().to(dtypes.float32)
    if observer.qscheme in (schemes.per_tensor_affine, schemes.per_tensor_symmetric):
        return quantize_per_tensor(given, scale.item(), int(zero_point.item()), QINT8)
    return quantize_per_channel(
        given, scale.to(dtypes.float64), zero_point.to(dtypes.int64), 0, QINT8
    )


def sums_of_products(integers: Any, zero_point: int, weight: Any) -> tuple[Any, Any]:
    """The products of what integers stand for, in steps, and each step's weight scale."""
    rows = integers.reshape(-1, integers.shape[-1])
    columns = values_of(weight)
    sums = exact_product(rows, columns.T).astype(np.int64)
    sums -= zero_point * columns.astype(np.int64).sum(1)
    made = weight.quantizer
    zero = np.asarray(values_of(made.zero_point) if made.axis is not None else made.zero_point)
    if zero.any():
        count = columns.shape[1]
        sums -= zero * (rows.astype(np.int64).sum(1, keepdims=True) - count * zero_point)
    scale = values_of(made.scale) if made.axis is not None else np.array(made.scale)
    return sums, scale.astype(np.float32)


class QuantizedWeight(Module):
    """A linear layer with an int8 weight and a float bias."""

    def __init__(self, weight: Any, bias: Any) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.quantized, self.float_bias = weight, bias

    def weight(self) -> Any:
        return self.quantized

    def bias(self) -> Any:
        return self.float_bias

    def said(self) -> str:
        return f"qscheme={self.quantized.qscheme()}"


class DynamicLinear(QuantizedWeight):
    """Quantises its input by the range that it has, and gives floats."""

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    @classmethod
    def from_float(cls, mod: Any, observer: Any) -> Any:
        return cls(quantized_weight(mod.weight, observer), mod.bias)

    def forward(self, x: Any) -> Any:
        return dynamic_product(x, self.quantized, self.float_bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"dtype={self.quantized.dtype}, {self.said()}"
        )


def dynamic_product(x: Any, weight: Any, bias: Any) -> Any:
    """`x @ weight.T + bias` with x as bytes of seven bits, over the range that it has."""
    if x.dim() < 2:
        raise RuntimeError("The dimension of input tensor should be larger than or equal to 2")
    numbers = values_of(x.detach())
    if not numbers.size:
        return x.new_zeros((*x.shape[:-1], weight.shape[0]))
    # torch: seven bits, for products that older processors add up in sixteen.
    scale, zero_point = choose_qparams(numbers.min(), numbers.max(), 0, 127)
    integers = Quantizer(QUINT8, schemes.per_tensor_affine, scale, zero_point).quantize(numbers)
    sums, steps = sums_of_products(integers, zero_point, weight)
    made = sums.astype(np.float32) * (np.float32(scale) * steps)
    if bias is not None:
        made = made + values_of(bias.detach())
    made = made.astype(np.float32).reshape(*numbers.shape[:-1], made.shape[-1])
    return wrap(made, dtypes.float32)


class Linear(QuantizedWeight):
    """Takes quantised numbers and gives quantised ones, by a scale that was chosen before."""

    def __init__(self, weight: Any, bias: Any, scale: float, zero_point: int) -> None:
        super().__init__(weight, bias)
        self.scale, self.zero_point = scale, zero_point

    def _get_name(self) -> str:
        return "QuantizedLinear"

    @classmethod
    def from_float(cls, mod: Any, observer: Any) -> Any:
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        weight = quantized_weight(mod.weight, observer)
        return cls(weight, mod.bias, float(scale), int(zero_point))

    def forward(self, x: Any) -> Any:
        made = x.quantizer
        sums, steps = sums_of_products(values_of(x), made.zero_point, self.quantized)
        unit = np.float32(made.scale) * steps
        numbers = sums.astype(np.float32)
        if self.float_bias is not None:
            numbers = numbers + values_of(self.float_bias.detach()) / unit
        target = Quantizer(made.dtype, schemes.per_tensor_affine, self.scale, self.zero_point)
        found = np.rint(numbers * (unit / np.float32(self.scale))) + self.zero_point
        kept = np.clip(found, *LIMITS[made.dtype]).astype(INTEGERS[made.dtype].np)
        kept = kept.reshape(*x.shape[:-1], kept.shape[-1])
        return with_integers(wrap(kept, INTEGERS[made.dtype]), target)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, {self.said()}"
        )


class LSTM(Module):
    """An LSTM with int8 weights; its input and hidden states are quantised by their ranges."""

    def __init__(self, source: Any, make_observer: Any) -> None:
        super().__init__()
        self.input_size, self.hidden_size = source.input_size, source.hidden_size
        self.num_layers, self.batch_first = source.num_layers, source.batch_first
        self.bidirectional = source.bidirectional
        self.cells = []
        for layer in range(source.num_layers):
            for suffix in ("", "_reverse") if source.bidirectional else ("",):
                parts = [getattr(source, f"weight_{w}_l{layer}{suffix}") for w in ("ih", "hh")]
                weights = [quantized_weight(part, make_observer()) for part in parts]
                biases = [
                    getattr(source, f"bias_{w}_l{layer}{suffix}").detach() if source.bias else None
                    for w in ("ih", "hh")
                ]
                self.cells.append((*weights, *biases))

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"

    def extra_repr(self) -> str:
        layers = f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        first = ", batch_first=True" if self.batch_first else ""
        both = ", bidirectional=True" if self.bidirectional else ""
        return f"{self.input_size}, {self.hidden_size}{layers}{first}{both}"

    def forward(self, input: Any, hx: Any = None) -> Any:
        steps = input.transpose(0, 1) if self.batch_first else input
        directions = 2 if self.bidirectional else 1
        if hx is None:
            zeros = input.new_zeros(
                (self.num_layers * directions, steps.shape[1], self.hidden_size)
            )
            hx = zeros, zeros
        hidden, cells = [], []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                out, h, c = self.run(number, steps, hx[0][number], hx[1][number], direction == 1)
                outputs.append(out)
                hidden.append(h)
                cells.append(c)
            steps = functions.cat(outputs, -1) if directions == 2 else outputs[0]
        made = steps.transpose(0, 1) if self.batch_first else steps
        return made, (functions.stack(hidden), functions.stack(cells))

    def run(self, number: int, steps: Any, h: Any, c: Any, backwards: bool) -> Any:
        w_ih, w_hh, b_ih, b_hh = self.cells[number]
        from_input = dynamic_product(steps, w_ih, b_ih)
        order = range(steps.shape[0])
        outputs = []
        for step in reversed(order) if backwards else order:
            into, forget, new, out = (from_input[step] + dynamic_product(h, w_hh, b_hh)).chunk(4, 1)
            c = forget.sigmoid() * c + into.sigmoid() * new.tanh()
            h = out.sigmoid() * c.tanh()
            outputs.append(h)
        return functions.stack(outputs[::-1] if backwards else outputs), h, c


class QuantStub(Module):
    """Where numbers become quantised, once the model is converted."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(QuantStub):
    """Where numbers become floats again, once the model is converted."""


class Quantize(Module):
    """Quantises numbers by a scale that was chosen before."""

    scale: Any
    zero_point: Any

    def __init__(self, scale: Any, zero_point: Any, dtype: Any) -> None:
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("zero_point", zero_point.to(dtypes.int64))
        self.dtype = dtype

    def forward(self, X: Any) -> Any:
        return quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Gives the floats that quantised numbers stand for."""

    def forward(self, Xq: Any) -> Any:
        return Xq.dequantize()
