"""Recurrent layers and cells, and sequences of different lengths packed into one tensor.

A layer is one op, `mkldnn_rnn_layer`, wherever values are at hand: one product for the inputs'
share of all steps, then a loop over time; its gradient likewise. Under transforms and in graphs
that are recorded it is written over other ops, as are cells. Packed rows go by step before they go
by sequence, the longest sequence first, so that a step always works on the first rows of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from rushlight.arrays.precision import dtype_of, working
from rushlight.core import dtype as dtypes
from rushlight.core import geometry, ports
from rushlight.core.op import Tag
from rushlight.core.parameter import Parameter
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.opset.kinds import CONTRACTION, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, not_differentiable

RELU, TANH, LSTM, GRU = 0, 1, 2, 3
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
# Columns of the workspace, in multiples of the hidden size: what the gradient reads.
KEPT = {RELU: 0, TANH: 0, LSTM: 5, GRU: 4}
FLOATS = (dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.float16)


# -- one layer on arrays ---------------------------------------------------------------------------


class Layer:
    """A layer's operands as matrices: rows of all steps, where each step begins, its length."""

    def __init__(
        self, mode: int, input: Any, weights: Sequence[Any], states: Sequence[Any], reverse: bool,
        batch_sizes: Sequence[int],
    ) -> None:  # fmt: skip
        self.mode = mode
        self.work = working(dtype_of(input)).np
        wide: list[Any] = [None if a is None else a.astype(self.work, copy=False) for a in weights]
        self.input_weight, self.hidden_weight, self.input_bias, self.hidden_bias = wide
        self.states = [state.astype(self.work, copy=False) for state in states]
        self.size = self.hidden_weight.shape[1]
        self.input = input.reshape(-1, input.shape[-1]).astype(self.work, copy=False)
        if batch_sizes:
            self.sizes = list(batch_sizes)
        else:
            self.sizes = [input.shape[1]] * input.shape[0]
        self.begins = np.cumsum([0, *self.sizes]).tolist()
        self.reverse = reverse

    def steps(self) -> list[tuple[int, int, int]]:
        """(first row, last row, number of sequences), in order of computation."""
        found = list(zip(self.begins, self.begins[1:], self.sizes, strict=False))
        return found[::-1] if self.reverse else found

    def before(self, first: Any, values: Any) -> Any:
        """For each row the value of the step before it, or the first state."""
        found = np.empty((self.begins[-1], self.size), self.work)
        state = first.copy()
        for start, stop, count in self.steps():
            found[start:stop] = state[:count]
            state[:count] = values[start:stop]
        return found

    def shares(self) -> Any:
        """The inputs' share of the gates of all steps; the hidden bias too where it only adds."""
        found = self.input @ self.input_weight.T
        if self.input_bias is not None:
            bias = self.input_bias
            found += bias if self.mode == GRU else bias + self.hidden_bias
        return found

    def run(self, keep: bool) -> tuple[Any, ...]:
        """(outputs, last states, workspace)."""
        rows, size = self.begins[-1], self.size
        output = np.empty((rows, size), self.work)
        space = np.empty((rows, KEPT[self.mode] * size if keep else 0), self.work)
        shares = self.shares()
        if self.mode == LSTM:
            last = self.run_lstm(shares, output, space if keep else None)
        elif self.mode == GRU:
            last = self.run_gru(shares, output, space if keep else None)
        else:
            last = self.run_plain(shares, output)
        return output, *last, space

    def run_plain(self, shares: Any, output: Any) -> tuple[Any, ...]:
        weight = np.ascontiguousarray(self.hidden_weight.T)
        hidden = self.states[0].copy()
        for start, stop, count in self.steps():
            total = hidden[:count] @ weight
            total += shares[start:stop]
            part = output[start:stop]
            if self.mode == TANH:
                np.tanh(total, part)
            else:
                # NaN stays NaN.
                np.maximum(total, 0, out=part)
            hidden[:count] = part
        return (hidden,)

    def run_lstm(self, shares: Any, output: Any, space: Any) -> tuple[Any, ...]:
        size = self.size
        # sigmoid(x) = (1 + tanh(x / 2)) / 2: one tanh serves all gates.
        scale = np.full(4 * size, 0.5, self.work)
        scale[2 * size : 3 * size] = 1
        weight = np.ascontiguousarray(self.hidden_weight.T) * scale
        shares *= scale
        shift = 1 - scale
        hidden, cell = [state.copy() for state in self.states]
        for start, stop, count in self.steps():
            gates = hidden[:count] @ weight
            gates += shares[start:stop]
            np.tanh(gates, gates)
            gates *= scale
            gates += shift
            part = cell[:count]
            part *= gates[:, size : 2 * size]
            part += gates[:, :size] * gates[:, 2 * size : 3 * size]
            made = output[start:stop]
            np.tanh(part, made)
            made *= gates[:, 3 * size :]
            hidden[:count] = made
            if space is not None:
                space[start:stop, : 4 * size] = gates
                space[start:stop, 4 * size :] = part
        return hidden, cell

    def run_gru(self, shares: Any, output: Any, space: Any) -> tuple[Any, ...]:
        size = self.size
        weight = np.ascontiguousarray(self.hidden_weight.T)
        bias = 0 if self.hidden_bias is None else self.hidden_bias
        hidden = self.states[0].copy()
        half = self.work.type(0.5)
        for start, stop, count in self.steps():
            part = hidden[:count]
            own = part @ weight
            own += bias
            both = shares[start:stop, : 2 * size] + own[:, : 2 * size]
            both *= half
            np.tanh(both, both)
            both *= half
            both += half
            value = both[:, :size] * own[:, 2 * size :]
            value += shares[start:stop, 2 * size :]
            np.tanh(value, value)
            part -= value
            part *= both[:, size:]
            part += value
            output[start:stop] = part
            if space is not None:
                space[start:stop, : 2 * size] = both
                space[start:stop, 2 * size : 3 * size] = value
                space[start:stop, 3 * size :] = own[:, 2 * size :]
        return (hidden,)

    def gradients(
        self, output: Any, space: Any, grad: Any, lasts: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Gradients of the input, the weights and the first states."""
        size = self.size
        previous = self.before(self.states[0], output)
        wide = [
            np.zeros(state.shape, self.work) if last is None else last.astype(self.work)
            for last, state in zip(lasts, self.states, strict=True)
        ]
        if self.mode == LSTM:
            slopes = self.lstm_slopes(space, grad, wide)
            own = slopes
        elif self.mode == GRU:
            slopes, own = self.gru_slopes(space, previous, grad, wide)
        else:
            slopes = self.plain_slopes(output, grad, wide)
            own = slopes
        width = GATES[self.mode] * size
        slopes, own = slopes.reshape(-1, width), own.reshape(-1, width)
        biases = (None, None)
        if self.input_bias is not None:
            biases = slopes.sum(axis=0), own.sum(axis=0)
        weights = slopes.T @ self.input, own.T @ previous
        return slopes @ self.input_weight, *weights, *biases, *wide

    def walk(self) -> list[tuple[int, int, int]]:
        return self.steps()[::-1]

    def plain_slopes(self, output: Any, grad: Any, wide: list[Any]) -> Any:
        factor = 1 - output * output if self.mode == TANH else (output > 0).astype(self.work)
        slopes = np.empty_like(factor)
        hidden = wide[0]
        for start, stop, count in self.walk():
            part = hidden[:count]
            if grad is not None:
                part += grad[start:stop]
            made = np.multiply(part, factor[start:stop], slopes[start:stop])
            part[...] = made @ self.hidden_weight
        return slopes

    def lstm_slopes(self, space: Any, grad: Any, wide: list[Any]) -> Any:
        size = self.size
        gates = space[:, : 4 * size].reshape(-1, 4, size)
        enter, keep, value, leave = (gates[:, i] for i in range(4))
        cells = space[:, 4 * size :]
        bent = np.tanh(cells)
        into_leave = bent * leave * (1 - leave)
        into_cell = leave * (1 - bent * bent)
        factors = np.empty((len(space), 3, size), self.work)
        factors[:, 0] = value * enter * (1 - enter)
        factors[:, 1] = self.before(self.states[1], cells) * keep * (1 - keep)
        factors[:, 2] = enter * (1 - value * value)
        slopes = np.empty((len(space), 4, size), self.work)
        hidden, cell = wide
        for start, stop, count in self.walk():
            part, inner = hidden[:count], cell[:count]
            if grad is not None:
                part += grad[start:stop]
            inner += part * into_cell[start:stop]
            np.multiply(factors[start:stop], inner[:, None], slopes[start:stop, :3])
            np.multiply(part, into_leave[start:stop], slopes[start:stop, 3])
            inner *= keep[start:stop]
            part[...] = slopes[start:stop].reshape(count, 4 * size) @ self.hidden_weight
        return slopes

    def gru_slopes(self, space: Any, previous: Any, grad: Any, wide: list[Any]) -> tuple[Any, Any]:
        size = self.size
        reset, update, value, own = (space[:, i * size : (i + 1) * size] for i in range(4))
        for_own = np.empty((len(space), 3, size), self.work)
        into_value = (1 - update) * (1 - value * value)
        for_own[:, 0] = into_value * own * reset * (1 - reset)
        for_own[:, 1] = (previous - value) * update * (1 - update)
        for_own[:, 2] = into_value * reset
        hidden = wide[0]
        for start, stop, count in self.walk():
            part = hidden[:count]
            if grad is not None:
                part += grad[start:stop]
            into_value[start:stop] *= part
            made = for_own[start:stop]
            made *= part[:, None]
            part *= update[start:stop]
            part += made.reshape(count, 3 * size) @ self.hidden_weight
        slopes = for_own.copy()
        slopes[:, 2] = into_value
        return slopes, for_own


# -- one layer as an op ----------------------------------------------------------------------------

layer = op(
    "mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, "
    "Tensor weight3, Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, "
    "int hidden_size, int num_layers, bool has_biases, bool bidirectional, bool batch_first, "
    "bool train) -> (Tensor, Tensor, Tensor, Tensor)",
    autocast="lower",
    kind=CONTRACTION,
    method=False,
    non_differentiable=(3,),
)


@layer.shape
def _(
    input: Any, weight0: Any, weight1: Any, weight2: Any, weight3: Any, hx_: Any, cx_: Any,
    reverse: bool, batch_sizes: Any, mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    bidirectional: bool, batch_first: bool, train: bool,
) -> Any:  # fmt: skip
    biases = (weight2, weight3) if has_biases else (None, None)
    states = (hx_, cx_) if mode == LSTM else (hx_,)
    if not fits(mode, input, (weight0, weight1, *biases, None), states):
        refuse_sizes()
    dtype = input._dtype
    rows = input.shape[0] if batch_sizes else input.shape[0] * input.shape[1]
    kept = KEPT[mode] * hidden_size if train else 0
    return (
        Spec((*input.shape[:-1], hidden_size), dtype),
        Spec(hx_.shape, dtype),
        Spec(hx_.shape if mode == LSTM else (0,), dtype),
        Spec((rows, kept), dtypes.float32 if dtype.itemsize == 2 else dtype),
    )


@layer.kernel
def _(
    xp: Any, input: Any, weight0: Any, weight1: Any, weight2: Any, weight3: Any, hx_: Any, cx_: Any,
    reverse: bool, batch_sizes: Any, mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    bidirectional: bool, batch_first: bool, train: bool,
) -> Any:  # fmt: skip
    biases = (weight2, weight3) if has_biases else (None, None)
    states = (hx_, cx_) if mode == LSTM else (hx_,)
    if not sizes_fit(mode, input, (weight0, weight1, *biases), states):
        refuse_sizes()
    made = Layer(mode, input, (weight0, weight1, *biases), states, reverse, batch_sizes)
    output, hidden, *cell, space = made.run(train)
    last = cell[0] if cell else xp.empty(0, made.work)
    dtype = input.dtype
    output = output.reshape(*input.shape[:-1], hidden_size)
    return *[part.astype(dtype, copy=False) for part in (output, hidden, last)], space


@layer.vjp
def _(
    grads: Any, input: Any, weight0: Any, weight1: Any, weight2: Any, weight3: Any, hx_: Any,
    cx_: Any, reverse: Any, batch_sizes: Any, mode: Any, hidden_size: Any, num_layers: Any,
    has_biases: Any, bidirectional: Any, batch_first: Any, result0: Any, result1: Any, result2: Any,
    result3: Any, needs: Any,
) -> Any:  # fmt: skip
    operands = (input, weight0, weight1, weight2, weight3, hx_, cx_)
    if LOCAL.state.grad:
        return differentiable(grads, operands, reverse, batch_sizes, mode, has_biases, needs)
    options = (hidden_size, num_layers, has_biases)
    workspace = result3
    if workspace.shape[1] == 0 and KEPT[mode]:
        tail = (bidirectional, batch_first, True)
        workspace = layer(*operands, reverse, batch_sizes, mode, *options, *tail)[3]
    found = layer_backward(
        *operands, result0, result1, result2, *grads[:3], reverse, mode, *options, True,
        bidirectional, batch_sizes, batch_first, workspace,
    )  # fmt: skip
    unused = {*(() if has_biases else (3, 4)), *(() if mode == LSTM else (6,))}
    return tuple([None if i in unused else part for i, part in enumerate(found)])


def differentiable(
    grads: Any, operands: Any, reverse: bool, sizes: Any, mode: int, has_biases: bool, needs: Any
) -> Any:
    """The gradients as a graph of their own: those of the layer written over other ops."""
    # Other tensors with the same values: an operand may have been made from another one.
    copies = [t.view_as(t) if need else t for t, need in zip(operands, needs, strict=True)]
    biases = copies[3:5] if has_biases else [None, None]
    states = tuple(copies[5:] if mode == LSTM else copies[5:6])
    weights = (copies[1], copies[2], *biases, None)
    output, last = by_steps(mode, copies[0], weights, states, list(sizes) or None, reverse)
    pairs = [(r, g) for r, g in zip((output, *last), grads, strict=False) if g is not None]
    wanted = [i for i, need in enumerate(needs) if need]
    found = ports.gradients_of(
        [result for result, _ in pairs],
        [copies[i] for i in wanted],
        [grad for _, grad in pairs],
        create_graph=True,
        allow_unused=True,
    )
    answers: list[Any] = [None] * len(operands)
    for position, grad in zip(wanted, found, strict=True):
        answers[position] = grad
    return tuple(answers)


@layer.samples
def _(make: Any) -> Any:
    if make.dtype is not dtypes.float32:
        return
    for reverse in (False, True):
        yield (
            make(3, 2, 2), make(8, 2), make(8, 2), make(8), make(8), make(2, 2), make(2, 2),
            reverse, [], LSTM, 2, 1, True, False, False, True,
        )  # fmt: skip
    yield (
        make(2, 1, 2), make(4, 2), make(4, 1), make(4), make(4), make(1, 1), make(1, 1), False, [],
        LSTM, 1, 1, False, False, False, False,
    )  # fmt: skip


layer_backward = op(
    "mkldnn_rnn_layer_backward(Tensor input, Tensor weight1, Tensor weight2, Tensor weight3, "
    "Tensor weight4, Tensor hx_, Tensor cx_tmp, Tensor output, Tensor hy_, Tensor cy_, "
    "Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, bool reverse, int mode, "
    "int hidden_size, int num_layers, bool has_biases, bool train, bool bidirectional, "
    "int[] batch_sizes, bool batch_first, Tensor workspace) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    kind=CONTRACTION,
    method=False,
    out=False,
    vjp=not_differentiable("aten::mkldnn_rnn_layer_backward"),
    differentiable=["input", "weight1", "weight2", "hx_", "cx_tmp", "grad_output"],
)


@layer_backward.shape
def _(
    input: Any, weight1: Any, weight2: Any, weight3: Any, weight4: Any, hx_: Any, cx_tmp: Any,
    output: Any, hy_: Any, cy_: Any, grad_output: Any, grad_hy: Any, grad_cy: Any, reverse: bool,
    mode: int, hidden_size: int, num_layers: int, has_biases: bool, train: bool,
    bidirectional: bool, batch_sizes: Any, batch_first: bool, workspace: Any,
) -> Any:  # fmt: skip
    every = (input, weight1, weight2, weight3, weight4, hx_, cx_tmp)
    return tuple([Spec(t.shape, t._dtype) for t in every])


@layer_backward.kernel
def _(
    xp: Any, input: Any, weight1: Any, weight2: Any, weight3: Any, weight4: Any, hx_: Any,
    cx_tmp: Any, output: Any, hy_: Any, cy_: Any, grad_output: Any, grad_hy: Any, grad_cy: Any,
    reverse: bool, mode: int, hidden_size: int, num_layers: int, has_biases: bool, train: bool,
    bidirectional: bool, batch_sizes: Any, batch_first: bool, workspace: Any,
) -> Any:  # fmt: skip
    biases = (weight3, weight4) if has_biases else (None, None)
    states = (hx_, cx_tmp) if mode == LSTM else (hx_,)
    made = Layer(mode, input, (weight1, weight2, *biases), states, reverse, batch_sizes)
    flat = output.reshape(-1, hidden_size).astype(made.work, copy=False)
    grad = None
    if grad_output is not None:
        grad = grad_output.reshape(-1, hidden_size).astype(made.work, copy=False)
    lasts = (grad_hy, grad_cy)[: len(states)]
    found = [*made.gradients(flat, workspace, grad, lasts), None][:7]
    every = (input, weight1, weight2, weight3, weight4, hx_, cx_tmp)
    return tuple(
        [
            xp.zeros_like(t) if part is None else part.reshape(t.shape).astype(t.dtype, copy=False)
            for part, t in zip(found, every, strict=True)
        ]
    )


@layer_backward.samples
def _(make: Any) -> Any:
    if make.dtype is not dtypes.float32:
        return
    operands = (
        make(3, 2, 2), make(8, 2), make(8, 2), make(8), make(8), make(2, 2), make(2, 2),
    )  # fmt: skip
    made = layer(*operands, False, [], LSTM, 2, 1, True, False, False, True)
    yield (
        *operands, *made[:3], make(3, 2, 2), make(2, 2), make(2, 2), False, LSTM, 2, 1, True, True,
        False, [], False, made[3],
    )  # fmt: skip


# -- one layer over ops ----------------------------------------------------------------------------


def lstm_state(gates: Any, cell: Any) -> tuple[Any, Any]:
    """(hidden, cell) from the four gates: input, forget, cell, output."""
    enter, keep, value, leave = gates.unsafe_chunk(4, 1)
    cell = (keep.sigmoid() * cell) + (enter.sigmoid() * value.tanh())
    return leave.sigmoid() * cell.tanh(), cell


def gru_state(shares: Any, own: Any, hidden: Any) -> Any:
    reset, update, value = shares.unsafe_chunk(3, 1)
    own_reset, own_update, own_value = own.unsafe_chunk(3, 1)
    reset = (own_reset + reset).sigmoid()
    update = (own_update + update).sigmoid()
    value = (value + own_value * reset).tanh()
    return (hidden - value) * update + value


def step(mode: int, share: Any, state: tuple[Any, ...], weights: Any) -> tuple[Any, ...]:
    """The next state from the input's share of the gates and the state."""
    own = aten.linear(state[0], weights[1], weights[3])
    if mode == GRU:
        return (gru_state(share, own, state[0]),)
    if mode == LSTM:
        hidden, cell = lstm_state(own + share, state[1])
        if weights[4] is not None:
            hidden = aten.linear(hidden, weights[4])
        return hidden, cell
    total = own + share
    return (total.tanh() if mode == TANH else total.relu(),)


def by_steps(
    mode: int, input: Any, weights: Any, state: tuple[Any, ...], sizes: Any, reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    """(outputs of all steps, last state)."""
    shares = aten.linear(input, weights[0], weights[2])
    if sizes is not None:
        return by_packed_steps(mode, shares.split(sizes, 0), weights, state, sizes, reverse)
    outputs: list[Any] = []
    pieces = shares.unbind(0)
    for share in reversed(pieces) if reverse else pieces:
        state = step(mode, share, state, weights)
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    return aten.stack(outputs, 0), state


def by_packed_steps(
    mode: int, pieces: Any, weights: Any, first: tuple[Any, ...], sizes: Any, reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    order = list(zip(pieces, sizes, strict=True))
    count = sizes[-1] if reverse else sizes[0]
    state = tuple([part.narrow(0, 0, count) for part in first])
    outputs: list[Any] = []
    ended: list[tuple[Any, ...]] = []
    for share, size in reversed(order) if reverse else order:
        if size < count:
            ended.append(tuple([part.narrow(0, size, count - size) for part in state]))
            state = tuple([part.narrow(0, 0, size) for part in state])
        elif size > count:
            begun = [part.narrow(0, count, size - count) for part in first]
            state = tuple([aten.cat(pair, 0) for pair in zip(state, begun, strict=True)])
        count = size
        state = step(mode, share, state, weights)
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    ended.append(state)
    ended.reverse()
    last = tuple([aten.cat(parts, 0) for parts in zip(*ended, strict=True)])
    return aten.cat(outputs, 0), last


def fits(mode: int, input: Any, weights: Any, states: Any) -> bool:
    """Whether sizes and dtypes are such that a layer can be run at once."""
    *matrices, projection = weights
    if projection is not None:
        return False
    tensors = [input, *[t for t in matrices if t is not None], *states]
    return (
        input._dtype in FLOATS
        and all([t._dtype is input._dtype for t in tensors])
        and sizes_fit(mode, input, matrices, states)
    )


def sizes_fit(mode: int, input: Any, weights: Any, states: Any) -> bool:
    """Whether the weights (and biases or None) and states of a layer have sizes for its input.
    Takes tensors or arrays."""
    input_weight, hidden_weight, *biases = weights
    if len(hidden_weight.shape) != 2 or len(states[0].shape) != 2:
        return False
    size = hidden_weight.shape[1]
    rows = GATES[mode] * size
    count = states[0].shape[0] if len(input.shape) == 2 else input.shape[1]
    return (
        geometry.fitting(hidden_weight.shape, (rows, size))
        and geometry.fitting(input_weight.shape, (rows, input.shape[-1]))
        and all([bias is None or geometry.fitting(bias.shape, (rows,)) for bias in biases])
        and all([geometry.fitting(state.shape, (count, size)) for state in states])
    )


def refuse_sizes() -> NoReturn:
    raise RuntimeError("mkldnn_rnn_layer: sizes of the weights or states do not fit the input")


def has_values(tensor: Any) -> bool:
    """Whether a tensor is a plain one with values at hand."""
    plain = type(tensor) is Tensor or type(tensor) is Parameter
    return plain and tensor._array is not None


def at_once(mode: int, input: Any, weights: Any, states: Any, sizes: Any) -> bool:
    """Whether to run a layer as one op."""
    state = LOCAL.state
    if state.transforms or state.forward_level >= 0:
        return False
    # torch: where it has a layer as one op, too.
    is_torchs = mode == LSTM and input._dtype is dtypes.float32 and sizes is None
    # Steps that only a call can count cannot be written one by one.
    is_counted = sizes is not None or type(input.shape[0]) is int
    if (state.below or state.autocast is not None) and not is_torchs and is_counted:
        return False
    tensors = [t for t in (input, *weights, *states) if t is not None]
    if not state.below and not all([has_values(t) for t in tensors]):
        return False
    if sizes is not None and states[0].shape[0] != sizes[0]:
        return False
    return fits(mode, input, weights, states)


def run_layer(
    mode: int, input: Any, weights: Any, state: tuple[Any, ...], sizes: Any, reverse: bool,
    train: bool,
) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    if not at_once(mode, input, weights, state, sizes):
        return by_steps(mode, input, weights, state, sizes, reverse)
    has_biases = weights[2] is not None
    biases = weights[2:4]
    if not has_biases:
        zeros = aten.zeros((weights[0].shape[0],), dtype=input._dtype, device=input.device)
        biases = (zeros, zeros)
    if LOCAL.state.below:
        # torch: its layer reads memory as it lies, and graphs may run there.
        input = input.contiguous()
    output, *last, _ = layer(
        input, weights[0], weights[1], *biases, state[0], state[-1], reverse, sizes or [], mode,
        int(weights[1].shape[1]), 1, has_biases, False, False, train or LOCAL.state.grad,
    )  # fmt: skip
    return output, tuple(last[: len(state)])


# -- layers of layers ------------------------------------------------------------------------------


def run_stack(
    mode: int, input: Any, hx: Sequence[Any], params: Sequence[Any], options: Sequence[Any],
    batch_first: bool, batch_sizes: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """(output, last states): all layers and directions."""
    has_biases, num_layers, dropout, train, bidirectional = options
    projected = mode == LSTM and hx[0].shape[2] != hx[1].shape[2]
    count = 2 + 2 * has_biases + projected
    if len(params) % count:
        raise RuntimeError(
            f"MatrixRef: ArrayRef size {len(params)} not divisible by stride {count}"
        )
    groups = []
    for start in range(0, len(params), count):
        group = list(params[start : start + count])
        biases = group[2:4] if has_biases else [None, None]
        groups.append((*group[:2], *biases, group[-1] if projected else None))
    directions = 2 if bidirectional else 1
    if len(groups) < num_layers * directions:
        raise RuntimeError(
            f"expected weights of {num_layers * directions} layers and directions, but got those "
            f"of {len(groups)}"
        )
    sizes = None
    if batch_sizes is not None:
        sizes = [int(size) for size in batch_sizes.tolist()]
    else:
        if input.dim() != 3:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-input.dim()}, "
                f"{input.dim() - 1}], but got 2)"
            )
        if batch_first:
            input = input.transpose(0, 1)
        if geometry.is_size(input.shape[0], 0):
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    firsts = list(zip(*[part.unbind(0) for part in hx], strict=True))
    lasts: list[tuple[Any, ...]] = []
    for number in range(num_layers):
        outputs = []
        for direction in range(directions):
            place = number * directions + direction
            output, last = run_layer(
                mode, input, groups[place], firsts[place], sizes, direction == 1, train
            )
            outputs.append(output)
            lasts.append(last)
        input = outputs[0] if directions == 1 else aten.cat(outputs, -1)
        if dropout != 0 and train and number < num_layers - 1:
            input = aten.dropout(input, dropout, True)
    if batch_first:
        input = input.transpose(0, 1)
    return input, *[aten.stack(parts, 0) for parts in zip(*lasts, strict=True)]


TAIL = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"


def check_pair(hx: Sequence[Any]) -> None:
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")


@composite(
    f"lstm.input(Tensor input, Tensor[] hx, Tensor[] params, {TAIL}, bool batch_first) -> "
    "(Tensor, Tensor, Tensor)",
    method=False,
    out=False,
    tags=(Tag.nondeterministic_seeded,),
)
def lstm_input(input: Any, hx: Any, params: Any, *options: Any) -> Any:
    check_pair(hx)
    return run_stack(LSTM, input, hx, params, options[:-1], options[-1], None)


@composite(
    f"lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, {TAIL}) -> "
    "(Tensor, Tensor, Tensor)",
    method=False,
    out=False,
    tags=(Tag.data_dependent_output, Tag.nondeterministic_seeded),
)
def lstm_data(data: Any, batch_sizes: Any, hx: Any, params: Any, *options: Any) -> Any:
    check_pair(hx)
    return run_stack(LSTM, data, hx, params, options, False, batch_sizes)


def operands(make: Any, mode: int, has_biases: bool, directions: int = 1, layers: int = 1) -> Any:
    rows = 2 * GATES[mode]
    found: list[Any] = []
    for number in range(layers):
        for _ in range(directions):
            width = 3 if number == 0 else 2 * directions
            found += [make(rows, width), make(rows, 2)]
            found += [make(rows), make(rows)] if has_biases else []
    return found


def states(make: Any, mode: int, batch: int, count: int = 1) -> Any:
    made = [make(count, batch, 2) for _ in range(2 if mode == LSTM else 1)]
    return made if mode == LSTM else made[0]


def input_samples(mode: int) -> Any:
    def samples(make: Any) -> Any:
        if make.dtype.category != dtypes.FLOAT:
            return
        plain = (1, 0.0, False, False, False)
        yield make(2, 2, 3), states(make, mode, 2), operands(make, mode, True), True, *plain
        yield make(2, 1, 3), states(make, mode, 1), operands(make, mode, False), False, *plain
        two = (1, 0.0, True, True, True)
        hx, params = states(make, mode, 1, 2), operands(make, mode, True, 2)
        yield make(1, 2, 3), hx, params, True, *two
        hx, params = states(make, mode, 1, 2), operands(make, mode, False, 1, 2)
        yield make(2, 1, 3), hx, params, False, 2, 0.0, True, False, False

    return samples


def data_samples(mode: int) -> Any:
    def samples(make: Any) -> Any:
        if make.dtype.category != dtypes.FLOAT:
            return
        sizes = make.ints(2, low=1, high=1)
        sizes[0] = 2
        for directions in (1, 2):
            hx = states(make, mode, 2, directions)
            params = operands(make, mode, True, directions)
            yield make(3, 3), sizes, hx, params, True, 1, 0.0, False, directions == 2

    return samples


lstm_input.samples = input_samples(LSTM)
lstm_data.samples = data_samples(LSTM)
lstm_input.errors = lambda make: [
    (
        RuntimeError,
        (make(2, 2, 3), [make(1, 2, 2)], operands(make, LSTM, True), True, 1, 0.0, False, False,
         False),
    ),
    (
        RuntimeError,
        (make(2, 2, 3), states(make, LSTM, 2), operands(make, LSTM, True)[:3], True, 1, 0.0, False,
         False, False),
    ),
    (
        RuntimeError,
        (make(0, 2, 3), states(make, LSTM, 2), operands(make, LSTM, True), True, 1, 0.0, False,
         False, False),
    ),
]  # fmt: skip


def define(name: str, mode: int) -> None:
    """The stack and the cell of one kind with one state."""

    @composite(
        f"{name}.input(Tensor input, Tensor hx, Tensor[] params, {TAIL}, bool batch_first) -> "
        "(Tensor, Tensor)",
        method=False,
        out=False,
        samples=input_samples(mode),
        tags=(Tag.nondeterministic_seeded,),
    )
    def whole(input: Any, hx: Any, params: Any, *options: Any) -> Any:
        return run_stack(mode, input, (hx,), params, options[:-1], options[-1], None)

    @composite(
        f"{name}.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, {TAIL}) -> "
        "(Tensor, Tensor)",
        method=False,
        out=False,
        samples=data_samples(mode),
        tags=(Tag.data_dependent_output, Tag.nondeterministic_seeded),
    )
    def packed(data: Any, batch_sizes: Any, hx: Any, params: Any, *options: Any) -> Any:
        return run_stack(mode, data, (hx,), params, options, False, batch_sizes)

    rows = 2 * GATES[mode]

    @composite(
        f"{name}_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
        "Tensor? b_hh=None) -> Tensor",
        method=False,
        out=False,
    )
    def cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        return run_cell(mode, input, (hx,), (w_ih, w_hh, b_ih, b_hh, None))[0]

    def samples(make: Any) -> Any:
        if make.dtype.category >= dtypes.FLOAT:
            yield make(3, 2), make(3, 2), make(rows, 2), make(rows, 2), make(rows), make(rows)
            yield make.strided(2, 3), make(2, 2), make(rows, 3), make(rows, 2)

    cell.samples = samples
    cell.errors = lambda make: [
        (RuntimeError, (make(3, 2), make(3, 2), make(rows, 3), make(rows, 2))),
        (RuntimeError, (make(3, 2), make(2, 2), make(rows, 2), make(rows, 2))),
    ]


define("gru", GRU)
define("rnn_tanh", TANH)
define("rnn_relu", RELU)


def check_cell(mode: int, input: Any, states: tuple[Any, ...], w_ih: Any, w_hh: Any) -> None:
    """Refuses operands of one step whose sizes do not fit."""
    if geometry.decided(input.shape[-1] != w_ih.shape[1]):
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[1]}"
        )
    size = w_hh.shape[0] // GATES[mode]
    for number, state in enumerate(states):
        if geometry.decided(state.shape[0] != input.shape[0]):
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{number} batch size "
                f"{state.shape[0]}"
            )
        if geometry.decided(state.shape[1] != size):
            raise RuntimeError(
                f"hidden{number} has inconsistent hidden_size: got {state.shape[1]}, expected "
                f"{size}"
            )


def run_cell(mode: int, input: Any, states: tuple[Any, ...], weights: Any) -> tuple[Any, ...]:
    """The next states: a layer of one step."""
    w_ih, w_hh, b_ih, b_hh, _ = weights
    check_cell(mode, input, states, w_ih, w_hh)
    sizes = [input.shape[0]]
    whole = input.dim() == 2 and (b_ih is None) == (b_hh is None)
    if whole and at_once(mode, input, weights, states, sizes):
        return run_layer(mode, input, weights, states, sizes, False, False)[1]
    return step(mode, aten.linear(input, w_ih, b_ih), states, weights)


@composite(
    "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
    "Tensor? b_hh=None) -> (Tensor, Tensor)",
    method=False,
    out=False,
)
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    check_pair(hx)
    return run_cell(LSTM, input, tuple(hx), (w_ih, w_hh, b_ih, b_hh, None))


@lstm_cell.samples
def _(make: Any) -> Any:
    if make.dtype.category >= dtypes.FLOAT:
        hx = [make(3, 2), make(3, 2)]
        yield make(3, 2), hx, make(8, 2), make(8, 2), make(8), make(8)
        yield make.strided(2, 3), [make(2, 2), make(2, 2)], make(8, 3), make(8, 2)


lstm_cell.errors = lambda make: [
    (RuntimeError, (make(3, 2), [make(3, 2)], make(8, 2), make(8, 2))),
    (RuntimeError, (make(3, 2), [make(3, 2), make(3, 2)], make(8, 3), make(8, 2))),
]
