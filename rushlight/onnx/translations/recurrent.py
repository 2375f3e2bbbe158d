"""Recurrent layers: a node of ONNX for each layer, both directions in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.onnx.building import Builder, Value, translates

# The order in which ONNX has the gates that torch has as 0, 1, 2 ...
LSTM_GATES, GRU_GATES, PLAIN = (0, 3, 1, 2), (1, 0, 2), (0,)


class Layers:
    """A stack of layers of one kind over a sequence."""

    def __init__(
        self, b: Builder, op: str, gates: Sequence[int], params: Sequence[Value], has_biases: bool,
        both_ways: bool, **attributes: Any,
    ) -> None:  # fmt: skip
        self.b = b
        self.op = op
        self.gates = gates
        self.params = params
        self.per_direction = 4 if has_biases else 2
        self.directions = 2 if both_ways else 1
        self.attributes = attributes

    def ordered(self, weight: Value) -> Value:
        """Rows of gates in the order of ONNX."""
        if len(self.gates) == 1:
            return weight
        b = self.b
        parts = b.many("Split", [weight], [weight.dtype] * len(self.gates), axis=0,
                       num_outputs=len(self.gates))  # fmt: skip
        return b.op("Concat", *[parts[gate] for gate in self.gates], axis=0)

    def stacked(self, values: Sequence[Value]) -> Value:
        """One row for each direction."""
        b = self.b
        rows = [b.unsqueeze(value, 0) for value in values]
        return rows[0] if len(rows) == 1 else b.op("Concat", *rows, axis=0)

    def weights(self, layer: int) -> list[Value | None]:
        """(W, R, B) of a layer."""
        first = layer * self.directions * self.per_direction
        mine = [
            self.params[first + way * self.per_direction :][: self.per_direction]
            for way in range(self.directions)
        ]
        found: list[Value | None] = [
            self.stacked([self.ordered(each[place]) for each in mine]) for place in (0, 1)
        ]
        if self.per_direction == 2:
            return [*found, None]
        biases = [
            self.b.op("Concat", self.ordered(each[2]), self.ordered(each[3]), axis=0)
            for each in mine
        ]
        return [*found, self.stacked(biases)]

    def run(self, x: Value, states: Sequence[Value], layers: int, batch_first: bool) -> list[Value]:
        """(results of all steps, last states ...)."""
        b = self.b
        hidden = states[0].shape[-1]
        if batch_first:
            x = b.op("Transpose", x, perm=[1, 0, 2])
        lasts: list[list[Value]] = [[] for _ in states]
        for layer in range(layers):
            start = layer * self.directions
            given = [b.slice(state, 0, start, start + self.directions) for state in states]
            steps, *last = b.many(
                self.op, [x, *self.weights(layer), None, *given],
                [x.dtype] * (1 + len(states)),
                hidden_size=hidden,
                direction="bidirectional" if self.directions == 2 else "forward",
                **self.attributes,
            )  # fmt: skip
            for held, each in zip(lasts, last):
                held.append(each)
            # From (step, direction, sample, unit) to units of both directions side by side.
            if self.directions == 1:
                x = b.squeeze(steps, 1)
            else:
                x = b.op("Reshape", b.op("Transpose", steps, perm=[0, 2, 1, 3]), b.ints([0, 0, -1]))
        if batch_first:
            x = b.op("Transpose", x, perm=[1, 0, 2])
        return [x, *[b.op("Concat", *held, axis=0) for held in lasts]]


@translates("lstm.input")
def lstm(
    b: Builder, x: Value, states: Sequence[Value], params: Sequence[Value], has_biases: bool,
    layers: int, dropout: float, train: bool, both_ways: bool, batch_first: bool,
) -> list[Value]:  # fmt: skip
    stack = Layers(b, "LSTM", LSTM_GATES, params, has_biases, both_ways)
    return stack.run(x, states, layers, batch_first)


@translates("gru.input")
def gru(
    b: Builder, x: Value, state: Value, params: Sequence[Value], has_biases: bool,
    layers: int, dropout: float, train: bool, both_ways: bool, batch_first: bool,
) -> list[Value]:  # fmt: skip
    stack = Layers(b, "GRU", GRU_GATES, params, has_biases, both_ways, linear_before_reset=1)
    return stack.run(x, [state], layers, batch_first)


def plain(activation: str) -> Any:
    def apply(
        b: Builder, x: Value, state: Value, params: Sequence[Value], has_biases: bool,
        layers: int, dropout: float, train: bool, both_ways: bool, batch_first: bool,
    ) -> list[Value]:  # fmt: skip
        names = [activation] * (2 if both_ways else 1)
        stack = Layers(b, "RNN", PLAIN, params, has_biases, both_ways, activations=names)
        return stack.run(x, [state], layers, batch_first)

    return apply


translates("rnn_tanh.input")(plain("Tanh"))
translates("rnn_relu.input")(plain("Relu"))
