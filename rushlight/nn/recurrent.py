"""Recurrent layers and cells, and the loss of sequences that are not aligned."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.opset import functions
from rushlight.opset.creation import create

__all__ = ["GRU", "LSTM", "RNN", "CTCLoss", "GRUCell", "LSTMCell", "RNNBase", "RNNCell",
           "RNNCellBase"]  # fmt: skip

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def reset_by_size(module: Any) -> None:
    """Draw every weight between ± 1/√hidden_size."""
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


def check_options(module: Any, dropout: Any, stacklevel: int) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed"
        )
    if dropout > 0 and module.num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={module.num_layers}",
            stacklevel=stacklevel + 1,
        )
    wanted = (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int))
    for name, kind in wanted:
        value = getattr(module, name)
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
            )
    for name in ("input_size", "hidden_size", "num_layers"):
        if getattr(module, name) <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if module.proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if module.proj_size >= module.hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """Layers of cells over a sequence."""

    state_names: tuple[str, ...] = ("hidden",)

    def __init__(
        self,
        mode: str,
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
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        check_options(self, dropout, 3)
        self.dropout = float(dropout)
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        directions = 2 if bidirectional else 1
        place = {"device": device, "dtype": dtype}
        rows, size = GATES[mode] * hidden_size, proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else size * directions
            for direction in range(directions):
                shapes: dict[str, Any] = {"weight_ih": (rows, width), "weight_hh": (rows, size)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                ending = f"l{layer}" + ("_reverse" if direction else "")
                for name, shape in shapes.items():
                    made = Parameter(create.empty(shape, **place))
                    self.register_parameter(f"{name}_{ending}", made)
                self._all_weights.append([f"{name}_{ending}" for name in shapes])
        self.reset_parameters()

    @property
    def all_weights(self) -> list[list[Any]]:
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def reset_parameters(self) -> None:
        reset_by_size(self)

    def flatten_parameters(self) -> None:
        """Nothing to do: weights need no common memory."""

    # -- states -----------------------------------------------------------------------------------

    def state_sizes(self, batch: Any) -> list[tuple[Any, ...]]:
        """Sizes of the states for a number of sequences."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        return [(layers, batch, size) for size in sizes[: len(self.state_names)]]

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        weight = self._flat_weights[0]
        if input.dtype is not weight.dtype and LOCAL.state.autocast is None:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        if batch_sizes is not None and input.dim() != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[Any, ...]:
        """Sizes of the first state for an input, or for the data of a packed one."""
        return self.state_sizes(self.batch_of(input, batch_sizes))[0]

    def batch_of(self, input: Any, batch_sizes: Any) -> Any:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.shape[0 if self.batch_first else 1]

    def check_hidden_size(
        self,
        hx: Any,
        expected_hidden_size: Any,
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Refuses inputs and states of wrong sizes; classes of users say what theirs take."""
        self.check_input(input, batch_sizes)
        states = hidden if len(self.state_names) > 1 else [hidden]
        sizes = self.state_sizes(self.batch_of(input, batch_sizes))
        for name, state, size in zip(self.state_names, states, sizes, strict=True):
            self.check_hidden_size(state, size, f"Expected {name} size {{}}, got {{}}")

    def check_ranks(self, states: Any, batched: bool) -> None:
        rank = 3 if batched else 2
        ranks = [f"{state.dim()}-D" for state in states]
        if all(found == f"{rank}-D" for found in ranks):
            return
        names, shown = "hx", f"{ranks[0]} tensor"
        if len(ranks) > 1:
            names, shown = "hx and cx", f"({', '.join(ranks)}) tensors"
        raise RuntimeError(
            f"For {'batched' if batched else 'unbatched'} {rank}-D input, {names} should also be "
            f"{rank}-D but got {shown}"
        )

    def first_states(self, input: Any, batch: Any) -> list[Any]:
        place = {"dtype": input.dtype, "device": input.device, "pin_memory": False}
        return [functions.zeros(size, **place) for size in self.state_sizes(batch)]

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple([part.index_select(1, permutation) for part in hx])
        return hx.index_select(1, permutation)

    # -- running ----------------------------------------------------------------------------------

    def run(self, states: list[Any], *sequence: Any) -> Any:
        """The op over (input) or (data, batch sizes)."""
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if len(sequence) == 1:
            options = (*options, self.batch_first)
        function = getattr(functions, self.mode.lower())
        state = states if len(self.state_names) > 1 else states[0]
        return function(*sequence, state, self._flat_weights, *options)

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            return self.forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        steps = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(steps)
        batch = input.shape[0 if self.batch_first else 1]
        if hx is None:
            states = self.first_states(input, batch)
        else:
            states = list(hx) if len(self.state_names) > 1 else [hx]
            self.check_ranks(states, batched)
            if not batched:
                states = [state.unsqueeze(1) for state in states]
        self.check_forward_args(input, self.joined(states), None)
        output, *last = self.run(states, input)
        if not batched:
            output = output.squeeze(steps)
            last = [state.squeeze(1) for state in last]
        return output, self.joined(last)

    def forward_packed(self, sequence: Any, hx: Any) -> Any:
        data, batch_sizes, sorted_indices, unsorted_indices = sequence
        batch = batch_sizes[0].item()
        if hx is None:
            states = self.first_states(data, batch)
        else:
            states = list(hx) if len(self.state_names) > 1 else [hx]
            states = [self.permute_hidden(state, sorted_indices) for state in states]
        self.check_forward_args(data, self.joined(states), batch_sizes)
        output, *last = self.run(states, data, batch_sizes)
        packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return packed, self.permute_hidden(self.joined(last), unsorted_indices)

    def joined(self, states: list[Any]) -> Any:
        return tuple(states) if len(self.state_names) > 1 else states[0]

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            shown += f", proj_size={self.proj_size}"
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


def refuse_projection(options: dict[str, Any]) -> None:
    if "proj_size" in options:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class LSTM(RNNBase):
    """Long short-term memory.

    >>> import rushlight as torch
    >>> output, (h, c) = torch.nn.LSTM(3, 4, num_layers=2)(torch.ones(5, 1, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 1, 4]), torch.Size([2, 1, 4]))
    """

    state_names = ("hidden[0]", "hidden[1]")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[Any, ...]:
        """Sizes of the second state, as `get_expected_hidden_size` tells the first's."""
        return self.state_sizes(self.batch_of(input, batch_sizes))[1]


class GRU(RNNBase):
    """Gated recurrent unit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class RNN(RNNBase):
    """A plain recurrent layer with tanh or relu."""

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        refuse_projection(kwargs)
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


# -- cells -----------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """One step; a subclass names its op."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        place = {"device": device, "dtype": dtype}
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(create.empty((rows, input_size), **place))
        self.weight_hh = Parameter(create.empty((rows, hidden_size), **place))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(create.empty((rows,), **place)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_by_size(self)

    def run(self, input: Any, states: list[Any]) -> Any:
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> Any:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        self.check_state_ranks(name, hx)
        batched = input.dim() == 2
        source = input if batched else input.unsqueeze(0)
        if hx is None:
            size = (source.shape[0], self.hidden_size)
            place = {"dtype": input.dtype, "device": input.device, "pin_memory": False}
            zeros = functions.zeros(size, **place)
            states = self.as_states(None, zeros)
        else:
            states = self.as_states(hx, None)
            if not batched:
                states = [state.unsqueeze(0) for state in states]
        result = self.run(source, states)
        if batched:
            return result
        if isinstance(result, tuple):
            return tuple([part.squeeze(0) for part in result])
        return result.squeeze(0)

    def as_states(self, hx: Any, zeros: Any) -> list[Any]:
        return [zeros if hx is None else hx]

    def check_state_ranks(self, name: str, hx: Any) -> None:
        if hx is not None and hx.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {hx.dim()}D instead")

    def weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            shown += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return shown if nonlinearity == "tanh" else f"{shown}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of a plain recurrent layer."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def run(self, input: Any, states: list[Any]) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = getattr(functions, f"rnn_{self.nonlinearity}_cell")
        return function(input, states[0], *self.weights())


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def run(self, input: Any, states: list[Any]) -> Any:
        return functions.gru_cell(input, states[0], *self.weights())


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def as_states(self, hx: Any, zeros: Any) -> list[Any]:
        if isinstance(hx, Tensor):
            raise TypeError(
                "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor"
            )
        return [zeros, zeros] if hx is None else list(hx)

    def check_state_ranks(self, name: str, hx: Any) -> None:
        if hx is None:
            return
        for place, state in enumerate(hx):
            if state.dim() not in (1, 2):
                raise ValueError(
                    f"{name}: Expected hx[{place}] to be 1D or 2D, got {state.dim()}D instead"
                )

    def run(self, input: Any, states: list[Any]) -> Any:
        return tuple(functions.lstm_cell(input, states, *self.weights()))


class CTCLoss(Module):
    """The loss of all alignments of targets with log probabilities over time."""

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__()
        self.reduction = reduction
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
