"""`quantized::` cells of recurrent layers with int8 weights, over inputs that are floats."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions
from rushlight.quantization.operators.defining import quantized
from rushlight.quantization.operators.linear import (
    LinearPackedParamsBaseFP16,
    dynamic,
    linear_dynamic_fp16,
)
from rushlight.quantization.operators.packed import CLASSES, PackedParams, ScriptObject

__all__ = ["CellParamsBase", "gru_step", "lstm_step"]

HELD = CLASSES + "rnn.CellParamsBase"
PACKED = CLASSES + "quantized.LinearPackedParamsBase"


class CellParamsBase(ScriptObject, name="rnn.CellParamsBase"):
    """The packed weights of one layer in one direction, with the biases in them."""

    def __init__(self, packed_ih: Any, packed_hh: Any, reduce_range: bool = True) -> None:
        self.packed_ih, self.packed_hh = packed_ih, packed_hh
        self.reduce_range = reduce_range

    def from_input(self, input: Any) -> Any:
        return product(input, self.packed_ih, self.reduce_range)

    def from_hidden(self, hidden: Any) -> Any:
        return product(hidden, self.packed_hh, self.reduce_range)

    def contents(self) -> Any:
        packed = [self.packed_ih, self.packed_hh]
        if isinstance(self.packed_ih, LinearPackedParamsBaseFP16):
            return "quantized_fp16", [], [], [], packed
        biases = [each.bias() for each in packed]
        return "quantized_dynamic", biases, [], [int(self.reduce_range)], packed

    @classmethod
    def from_contents(cls, contents: Any) -> Any:
        *_, numbers, packed = contents
        return cls(*packed, reduce_range=bool(numbers[0]) if numbers else True)


def product(x: Any, packed: PackedParams, reduce_range: bool) -> Any:
    if isinstance(packed, LinearPackedParamsBaseFP16):
        return linear_dynamic_fp16(x, packed)
    return dynamic(x, packed, reduce_range)


@quantized(f"make_quantized_cell_params_dynamic({PACKED} w_ih, {PACKED} w_hh, Tensor bias_ih, "
           f"Tensor bias_hh, bool reduce_range=False) -> {HELD}")  # fmt: skip
def make_dynamic(
    w_ih: Any, w_hh: Any, bias_ih: Any, bias_hh: Any, reduce_range: bool = False
) -> Any:
    return CellParamsBase(w_ih, w_hh, reduce_range)


@quantized(f"make_quantized_cell_params_fp16({PACKED} w_ih, {PACKED} w_hh) -> {HELD}")
def make_halves(w_ih: Any, w_hh: Any) -> Any:
    return CellParamsBase(w_ih, w_hh)


def lstm_step(of_input: Any, of_hidden: Any, state: Any) -> tuple[Any, Any]:
    """The new hidden state and cell."""
    into, forget, new, out = (of_hidden + of_input).chunk(4, 1)
    cell = forget.sigmoid() * state[1] + into.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def gru_step(of_input: Any, of_hidden: Any, hidden: Any) -> Any:
    """The new hidden state."""
    inputs, hiddens = of_input.chunk(3, 1), of_hidden.chunk(3, 1)
    reset, update = [(h + i).sigmoid() for i, h in zip(inputs[:2], hiddens[:2], strict=True)]
    new = (inputs[2] + reset * hiddens[2]).tanh()
    return (hidden - new) * update + new


WEIGHTS = f"{PACKED} w_ih, {PACKED} w_hh, Tensor b_ih, Tensor b_hh"


@quantized(f"quantized_lstm_cell_dynamic(Tensor input, Tensor[] hx, {PACKED} w_ih, "
           f"{PACKED} w_hh, Tensor bias_ih, Tensor bias_hh) -> (Tensor, Tensor)")  # fmt: skip
def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, bias_ih: Any, bias_hh: Any
) -> tuple[Any, Any]:
    cell = CellParamsBase(w_ih, w_hh)
    return lstm_step(cell.from_input(input), cell.from_hidden(hx[0]), hx)


@quantized(f"quantized_gru_cell_dynamic(Tensor input, Tensor hx, {WEIGHTS}) -> Tensor")
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    cell = CellParamsBase(w_ih, w_hh)
    return gru_step(cell.from_input(input), cell.from_hidden(hx), hx)


@quantized(f"quantized_rnn_tanh_cell_dynamic(Tensor input, Tensor hx, {WEIGHTS}) -> Tensor")
def tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    cell = CellParamsBase(w_ih, w_hh)
    return functions.tanh(cell.from_hidden(hx) + cell.from_input(input))


@quantized(f"quantized_rnn_relu_cell_dynamic(Tensor input, Tensor hx, {WEIGHTS}) -> Tensor")
def relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    cell = CellParamsBase(w_ih, w_hh)
    return functions.relu(cell.from_hidden(hx) + cell.from_input(input))
