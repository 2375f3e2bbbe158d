"""Recurrent layers, one step after the other over ordinary ops."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = ["GRU", "LSTM", "RNN", "LSTMCell"]


def reset_by_size(module: Any) -> None:
    """Draw every weight between ± 1/√hidden_size."""
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class Recurrent(Module):
    """Layers of cells over a sequence; a subclass gives the cell and the gates per hidden unit."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if proj_size:
            raise MissingFeature(
                f"{type(self).__name__}(proj_size={proj_size})", "Apply nn.Linear to the output."
            )
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=3,
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        directions = 2 if bidirectional else 1
        place = {"device": device, "dtype": dtype}
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * directions
            for direction in range(directions):
                ending = f"l{layer}" + ("_reverse" if direction else "")
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                for name, shape in shapes.items():
                    made = Parameter(functions.empty(shape, **place))
                    self.register_parameter(f"{name}_{ending}", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_by_size(self)

    def flatten_parameters(self) -> None:
        """Nothing to do: weights need no common memory."""

    def step(self, gates: Any, hidden: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        """(output, *state) of one cell from the input's share of the gates and the state."""
        raise NotImplementedError

    def run_layer(self, inputs: Any, state: tuple[Any, ...], ending: str, backwards: bool) -> Any:
        weight = getattr(self, f"weight_hh_{ending}")
        bias = getattr(self, f"bias_hh_{ending}") if self.bias else None
        own = getattr(self, f"bias_ih_{ending}") if self.bias else None
        # The inputs' share of all steps is one product.
        shares = functions.linear(inputs, getattr(self, f"weight_ih_{ending}"), own).unbind(0)
        outputs: list[Any] = []
        for share in reversed(shares) if backwards else shares:
            state = self.step(share, state[0], state, weight, bias)
            outputs.append(state[0])
        if backwards:
            outputs.reverse()
        return functions.stack(outputs), state

    def forward(self, input: Any, hx: Any = None) -> Any:
        if type(input).__name__ == "PackedSequence":
            raise MissingFeature(
                f"{type(self).__name__} on a PackedSequence", "Pass a padded tensor instead."
            )
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}"
            )
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        state = self.first_state(input, hx, batched)
        directions = 2 if self.bidirectional else 1
        last: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            found = []
            for direction in range(directions):
                ending = f"l{layer}" + ("_reverse" if direction else "")
                place = layer * directions + direction
                begin = tuple(part[place] for part in state)
                outputs, end = self.run_layer(input, begin, ending, direction == 1)
                found.append(outputs)
                last.append(end)
            input = found[0] if directions == 1 else functions.cat(found, -1)
            if self.dropout and layer < self.num_layers - 1:
                input = F.dropout(input, self.dropout, self.training)
        if not batched:
            input = input.squeeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        parts = [functions.stack([end[i] for end in last]) for i in range(len(state))]
        if not batched:
            parts = [part.squeeze(1) for part in parts]
        return input, self.last_state(parts)

    def first_state(self, input: Any, hx: Any, batched: bool) -> tuple[Any, ...]:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        expected = (layers, input.shape[1], self.hidden_size)
        count = len(self.state_names)
        if hx is None:
            zeros = functions.zeros(expected, dtype=input.dtype, device=input.device)
            return (zeros,) * count
        given = hx if count > 1 else (hx,)
        rank = 3 if batched else 2
        if any(part.dim() != rank for part in given):
            ranks = [f"{part.dim()}-D" for part in given]
            names, shown = (
                ("hx", f"{ranks[0]} tensor")
                if count == 1
                else ("hx and cx", f"({', '.join(ranks)}) tensors")
            )
            raise RuntimeError(
                f"For {'batched' if batched else 'unbatched'} {rank}-D input, {names} should also "
                f"be {rank}-D but got {shown}"
            )
        found = []
        for name, part in zip(self.state_names, given, strict=True):
            value = part if batched else part.unsqueeze(1)
            if tuple(value.shape) != expected:
                raise RuntimeError(f"Expected {name} size {expected}, got {list(value.shape)}")
            found.append(value)
        return tuple(found)

    state_names: tuple[str, ...] = ("hidden",)

    def last_state(self, parts: list[Any]) -> Any:
        return parts[0] if len(parts) == 1 else tuple(parts)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            shown += f", num_layers={self.num_layers}"
        if self.bias is not True:
            shown += f", bias={self.bias}"
        if self.batch_first:
            shown += f", batch_first={self.batch_first}"
        if self.dropout:
            shown += f", dropout={self.dropout}"
        if self.bidirectional:
            shown += f", bidirectional={self.bidirectional}"
        return shown


def lstm_step(gates: Any, cell: Any) -> tuple[Any, Any]:
    """(hidden, cell) from the four gates: input, forget, cell, output."""
    enter, keep, value, leave = gates.chunk(4, 1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * value.tanh()
    return leave.sigmoid() * cell.tanh(), cell


class LSTM(Recurrent):
    """Long short-term memory.

    >>> import rushlight as torch
    >>> output, (h, c) = torch.nn.LSTM(3, 4, num_layers=2)(torch.ones(5, 1, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 1, 4]), torch.Size([2, 1, 4]))
    """

    gates = 4
    state_names = ("hidden[0]", "hidden[1]")

    def step(self, gates: Any, hidden: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        return lstm_step(gates + functions.linear(hidden, weight, bias), state[1])


class GRU(Recurrent):
    """Gated recurrent unit."""

    gates = 3

    def step(self, gates: Any, hidden: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        reset, update, value = gates.chunk(3, 1)
        from_reset, from_update, from_value = functions.linear(hidden, weight, bias).chunk(3, 1)
        reset = (reset + from_reset).sigmoid()
        update = (update + from_update).sigmoid()
        value = (value + reset * from_value).tanh()
        return (value + update * (hidden - value),)


class RNN(Recurrent):
    """A plain recurrent layer with tanh or relu."""

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        self.nonlinearity = nonlinearity
        super().__init__(*args, **kwargs)

    def step(self, gates: Any, hidden: Any, state: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        total = gates + functions.linear(hidden, weight, bias)
        return (total.tanh() if self.nonlinearity == "tanh" else total.relu(),)


class LSTMCell(Module):
    """One step of an LSTM."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        place = {"device": device, "dtype": dtype}
        rows = 4 * hidden_size
        self.weight_ih = Parameter(functions.empty((rows, input_size), **place))
        self.weight_hh = Parameter(functions.empty((rows, hidden_size), **place))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(functions.empty((rows,), **place)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_by_size(self)

    def forward(self, input: Any, hx: Any = None) -> Any:
        if input.dim() not in (1, 2):
            raise ValueError(f"LSTMCell: Expected input to be 1D or 2D, got {input.dim()}D instead")
        batched = input.dim() == 2
        source = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = functions.zeros(
                (source.shape[0], self.hidden_size), dtype=input.dtype, device=input.device
            )
            hidden, cell = zeros, zeros
        else:
            hidden, cell = [part if batched else part.unsqueeze(0) for part in hx]
        if source.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {source.shape[1]} expected "
                f"{self.input_size}"
            )
        for number, part in enumerate((hidden, cell)):
            if part.shape[0] != source.shape[0]:
                raise RuntimeError(
                    f"Input batch size {source.shape[0]} doesn't match hidden{number} batch size "
                    f"{part.shape[0]}"
                )
            if part.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{number} has inconsistent hidden_size: got {part.shape[1]}, expected "
                    f"{self.hidden_size}"
                )
        gates = functions.linear(source, self.weight_ih, self.bias_ih)
        gates = gates + functions.linear(hidden, self.weight_hh, self.bias_hh)
        hidden, cell = lstm_step(gates, cell)
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        return shown if self.bias else f"{shown}, bias={self.bias}"
