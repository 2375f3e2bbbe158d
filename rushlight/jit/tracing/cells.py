"""Cells of recurrent layers in traces. torch: graphs have the parts of a cell, not the cell."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions
from rushlight.opset.product.recurrent import GRU, LSTM, RELU, TANH, check_cell

NAMES = {"lstm_cell": LSTM, "gru_cell": GRU, "rnn_tanh_cell": TANH, "rnn_relu_cell": RELU}


def run_parts(name: str, args: tuple[Any, ...]) -> Any:
    """One step over operators that graphs have."""
    input, hx, w_ih, w_hh, b_ih, b_hh = args
    mode = NAMES[name]
    states = tuple(hx) if mode == LSTM else (hx,)
    check_cell(mode, input, states, w_ih, w_hh)
    if mode == GRU:
        return gru_step(functions.linear(input, w_ih, b_ih), hx, w_hh, b_hh)
    gates = functions.linear(states[0], w_hh, b_hh).add_(functions.linear(input, w_ih, b_ih))
    if mode == LSTM:
        return lstm_step(gates, states[1])
    return gates.tanh() if mode == TANH else gates.relu()


def lstm_step(gates: Any, cell: Any) -> tuple[Any, Any]:
    takes, forgets, candidate, shows = gates.unsafe_chunk(4, 1)
    takes, forgets = takes.sigmoid_(), forgets.sigmoid_()
    candidate, shows = candidate.tanh_(), shows.sigmoid_()
    cell = (forgets * cell).add_(takes * candidate)
    return shows * cell.tanh(), cell


def gru_step(share: Any, hx: Any, w_hh: Any, b_hh: Any) -> Any:
    inputs = share.unsafe_chunk(3, 1)
    own = functions.linear(hx, w_hh, b_hh).unsafe_chunk(3, 1)
    resets = own[0].add_(inputs[0]).sigmoid_()
    keeps = own[1].add_(inputs[1]).sigmoid_()
    candidate = inputs[2].add(own[2].mul_(resets)).tanh_()
    return (hx - candidate).mul_(keeps).add_(candidate)
