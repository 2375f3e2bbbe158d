# mypy: ignore-errors
"""Recurrent layers and cells as they are compiled, and sequences that are packed.

A layer has two forms of `forward`: of tensors, and of packed sequences.
"""

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.library.layers import forward_of, method_of
from rushlight.nn.utils.rnn import PackedSequence

aten = torch.ops.aten

# -- packing ---------------------------------------------------------------------------------------


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    if permutation is None:
        return None
    places = torch.arange(0, permutation.numel(), device=permutation.device)
    return torch.empty_like(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    lengths = lengths.to(torch.int64)
    if enforce_sorted:
        data, batch_sizes = aten._pack_padded_sequence(input, lengths, batch_first)
        return PackedSequence(data, batch_sizes, None, None)
    lengths, order = lengths.sort(descending=True)
    order = order.to(input.device)
    input = input.index_select(0 if batch_first else 1, order)
    data, batch_sizes = aten._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, order, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in input, but got total_length={total_length} and max sequence length being {longest}"  # noqa: E501
            )
        longest = total_length
    padded, lengths = aten._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest
    )
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    return aten.pad_sequence(sequences, batch_first, padding_value, padding_side)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    places = torch.arange(padded_sequences.size(1), device=lengths.device)
    return [padded_sequences[i][places < lengths[i]] for i in range(padded_sequences.size(0))]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    lengths = torch.tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


FUNCTIONS = (
    *(invert_permutation, pack_padded_sequence, pad_packed_sequence, pad_sequence),
    *(unpad_sequence, pack_sequence, unpack_sequence),
)
for _function in FUNCTIONS:
    _function._jit_override_qualname = f"__torch__.torch.nn.utils.rnn.{_function.__name__}"

# -- layers ----------------------------------------------------------------------------------------


@method_of("check_input", "LSTM", "GRU", "RNN")
def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
    if input.dtype != self._flat_weights[0].dtype and not torch.is_autocast_enabled():
        raise ValueError(
            "RNN input dtype does not match weight dtype. Convert the input or the model."
        )
    if batch_sizes is not None and input.dim() != 2:
        raise RuntimeError(f"input must have 2 dimensions, got {input.dim()}")
    if input.size(-1) != self.input_size:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"  # noqa: E501
        )


@method_of("check_hidden_size", "LSTM", "GRU", "RNN")
def check_state(self, hx: Tensor, batch: int, size: int, name: str) -> None:
    layers = self.num_layers * (2 if self.bidirectional else 1)
    if hx.size() != [layers, batch, size]:
        raise RuntimeError(f"Expected {name} size {(layers, batch, size)}, got {hx.size()}")


@method_of("first_state", "LSTM", "GRU", "RNN")
def first_state(self, input: Tensor, batch: int, size: int) -> Tensor:
    layers = self.num_layers * (2 if self.bidirectional else 1)
    return torch.zeros(layers, batch, size, dtype=input.dtype, device=input.device)


def permuted(state: Tensor, permutation: Tensor | None) -> Tensor:
    if permutation is None:
        return state
    return state.index_select(1, permutation)


def check_rank(input: Tensor, name: str) -> None:
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")


@method_of("run_states", "LSTM")
def lstm_states(
    self, input: Tensor, batch_sizes: Tensor | None, h: Tensor, c: Tensor, batch: int
) -> tuple[Tensor, Tensor, Tensor]:
    self.check_input(input, batch_sizes)
    size = self.proj_size if self.proj_size > 0 else self.hidden_size
    self.check_hidden_size(h, batch, size, "hidden[0]")
    self.check_hidden_size(c, batch, self.hidden_size, "hidden[1]")
    if batch_sizes is None:
        return torch.lstm(
            input, [h, c], self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
    return torch.lstm(
        input, batch_sizes, [h, c], self._flat_weights, self.bias, self.num_layers, self.dropout,
        self.training, self.bidirectional,
    )  # fmt: skip


@method_of("forward__0", "LSTM")
def lstm(
    self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    check_rank(input, "LSTM")
    is_batched = input.dim() == 3
    batch_dim = 0 if self.batch_first else 1
    if not is_batched:
        input = input.unsqueeze(batch_dim)
    batch = input.size(batch_dim)
    if hx is None:
        size = self.proj_size if self.proj_size > 0 else self.hidden_size
        h, c = (
            self.first_state(input, batch, size),
            self.first_state(input, batch, self.hidden_size),
        )
    else:
        h, c = hx
        rank = 3 if is_batched else 2
        if h.dim() != rank or c.dim() != rank:
            word = "batched" if is_batched else "unbatched"
            raise RuntimeError(
                f"For {word} {rank}-D input, hx and cx should also be {rank}-D but got ({h.dim()}-D, {c.dim()}-D) tensors"  # noqa: E501
            )
        if not is_batched:
            h, c = h.unsqueeze(1), c.unsqueeze(1)
    output, h_n, c_n = self.run_states(input, None, h, c, batch)
    if not is_batched:
        return output.squeeze(batch_dim), (h_n.squeeze(1), c_n.squeeze(1))
    return output, (h_n, c_n)


@method_of("forward__1", "LSTM")
def lstm_packed(
    self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[PackedSequence, tuple[Tensor, Tensor]]:
    data, batch_sizes, sorted_indices, unsorted_indices = input
    batch = int(batch_sizes[0])
    if hx is None:
        size = self.proj_size if self.proj_size > 0 else self.hidden_size
        h, c = self.first_state(data, batch, size), self.first_state(data, batch, self.hidden_size)
    else:
        h, c = permuted(hx[0], sorted_indices), permuted(hx[1], sorted_indices)
    output, h_n, c_n = self.run_states(data, batch_sizes, h, c, batch)
    packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
    return packed, (permuted(h_n, unsorted_indices), permuted(c_n, unsorted_indices))


@method_of("run_states", "GRU", "RNN")
def rnn_states(
    self, input: Tensor, batch_sizes: Tensor | None, h: Tensor, batch: int
) -> tuple[Tensor, Tensor]:
    self.check_input(input, batch_sizes)
    self.check_hidden_size(h, batch, self.hidden_size, "hidden")
    if batch_sizes is None:
        if self.mode == "GRU":
            return torch.gru(
                input, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
        if self.mode == "RNN_TANH":
            return torch.rnn_tanh(
                input, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
        return torch.rnn_relu(
            input, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
    if self.mode == "GRU":
        return torch.gru(
            input, batch_sizes, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional,
        )  # fmt: skip
    if self.mode == "RNN_TANH":
        return torch.rnn_tanh(
            input, batch_sizes, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional,
        )  # fmt: skip
    return torch.rnn_relu(
        input, batch_sizes, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
        self.training, self.bidirectional,
    )  # fmt: skip


@method_of("forward__0", "GRU", "RNN")
def rnn(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    check_rank(input, self._class_name)
    is_batched = input.dim() == 3
    batch_dim = 0 if self.batch_first else 1
    if not is_batched:
        input = input.unsqueeze(batch_dim)
    batch = input.size(batch_dim)
    if hx is None:
        h = self.first_state(input, batch, self.hidden_size)
    else:
        h = hx
        rank = 3 if is_batched else 2
        if h.dim() != rank:
            word = "batched" if is_batched else "unbatched"
            raise RuntimeError(
                f"For {word} {rank}-D input, hx should also be {rank}-D but got {h.dim()}-D tensor"
            )
        if not is_batched:
            h = h.unsqueeze(1)
    output, h_n = self.run_states(input, None, h, batch)
    if not is_batched:
        return output.squeeze(batch_dim), h_n.squeeze(1)
    return output, h_n


@method_of("forward__1", "GRU", "RNN")
def rnn_packed(
    self, input: PackedSequence, hx: Tensor | None = None
) -> tuple[PackedSequence, Tensor]:
    data, batch_sizes, sorted_indices, unsorted_indices = input
    batch = int(batch_sizes[0])
    if hx is None:
        h = self.first_state(data, batch, self.hidden_size)
    else:
        h = permuted(hx, sorted_indices)
    output, h_n = self.run_states(data, batch_sizes, h, batch)
    packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
    return packed, permuted(h_n, unsorted_indices)


# -- cells -----------------------------------------------------------------------------------------


def check_cell_input(input: Tensor, name: str) -> None:
    if input.dim() != 1 and input.dim() != 2:
        raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")


def check_cell_state(state: Tensor, name: str, which: str) -> None:
    if state.dim() != 1 and state.dim() != 2:
        raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")


@forward_of("LSTMCell")
def lstm_cell(
    self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    check_cell_input(input, "LSTMCell")
    is_batched = input.dim() == 2
    if not is_batched:
        input = input.unsqueeze(0)
    if hx is None:
        zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        hx = (zeros, zeros)
    else:
        check_cell_state(hx[0], "LSTMCell", "hx[0]")
        check_cell_state(hx[1], "LSTMCell", "hx[1]")
        if not is_batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
    h, c = torch.lstm_cell(
        input, [hx[0], hx[1]], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
    )
    if not is_batched:
        return h.squeeze(0), c.squeeze(0)
    return h, c


@forward_of("GRUCell", "RNNCell")
def cell(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
    check_cell_input(input, self._class_name)
    is_batched = input.dim() == 2
    if not is_batched:
        input = input.unsqueeze(0)
    if hx is None:
        hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
    else:
        check_cell_state(hx, self._class_name, "hidden")
        if not is_batched:
            hx = hx.unsqueeze(0)
    result = self.step(input, hx)
    return result if is_batched else result.squeeze(0)


@method_of("step", "GRUCell")
def gru_step(self, input: Tensor, hx: Tensor) -> Tensor:
    return torch.gru_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


@method_of("step", "RNNCell")
def rnn_step(self, input: Tensor, hx: Tensor) -> Tensor:
    if self.nonlinearity == "tanh":
        return torch.rnn_tanh_cell(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
    if self.nonlinearity == "relu":
        return torch.rnn_relu_cell(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
    raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
