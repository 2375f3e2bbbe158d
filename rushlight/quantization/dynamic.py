"""Layers with int8 or half-precision weights that take floats and give floats.

What they take is quantised by the range that it has, seven bits of it, when they are called.
"""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import nn
from rushlight.core import dtype as dtypes
from rushlight.nn.module import Module
from rushlight.nn.transformer import NonDynamicallyQuantizableLinear
from rushlight.nn.utils.rnn import PackedSequence, pad_packed_sequence
from rushlight.opset import functions
from rushlight.quantization import convs, memoryless, static
from rushlight.quantization import intrinsic as nni
from rushlight.quantization.observers import QINT8
from rushlight.quantization.operators import recurrent
from rushlight.quantization.qconfig import default_dynamic_qconfig
from rushlight.quantization.static import operator
from rushlight.quantization.weighted import quantized_weight
from rushlight.subclasses.quantized import quantize_per_tensor

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "GRUCell",
    "LSTMCell",
    "Linear",
    "LinearReLU",
    "PackedParameter",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "pack_weight_bias",
]  # fmt: skip


class Linear(static.Linear):
    """Quantises its input by the range that it has, and gives floats."""

    _version = 4
    _FLOAT_MODULE: Any = (nn.Linear, NonDynamicallyQuantizableLinear, memoryless.Linear)
    name = "DynamicQuantizedLinear"
    op = "linear"

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = QINT8
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype)
        self.version = 4

    def forward(self, x: Any) -> Any:
        packed = self._packed_params
        if packed.dtype is QINT8:
            short = self.version is None or self.version >= 4
            return operator(f"{self.op}_dynamic")(x, packed._packed_params, reduce_range=short)
        return operator(f"{self.op}_dynamic_fp16")(x, packed._packed_params)

    def extra_repr(self) -> str:
        said = (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"dtype={self._packed_params.dtype}"
        )
        if self._packed_params.dtype is QINT8:
            said += f", qscheme={self.weight().qscheme()}"
        return said

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        inner = mod[0] if isinstance(mod, nni._FusedModule) else mod
        config = mod.qconfig if getattr(mod, "qconfig", None) else None
        watching = getattr(inner, "weight_fake_quant", None)
        if watching is None:
            make = config.weight if config and config.weight else default_dynamic_qconfig.weight
            watching = make()
        made = cls(inner.in_features, inner.out_features, dtype=watching.dtype)
        if watching.dtype is dtypes.float16:
            made.set_weight_bias(inner.weight.float(), inner.bias)
        elif watching.dtype is QINT8:
            watching(inner.weight)
            made.set_weight_bias(quantized_weight(inner.weight, watching), inner.bias)
        else:
            raise RuntimeError("Unsupported dtype specified for dynamic quantized Linear!")
        return made

    @classmethod
    def from_reference(cls, ref_qlinear: Any) -> Any:  # type: ignore[override]
        watching = ref_qlinear.weight_dtype
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=watching)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made


class LinearReLU(Linear):
    _FLOAT_MODULE = nni.LinearReLU
    name, op = "DynamicQuantizedLinearReLU", "linear_relu"


# -- convolutions ----------------------------------------------------------------------------------


class OfFloats:
    """A convolution that quantises its input as it comes."""

    op: str

    def forward(self, input: Any, reduce_range: bool = True) -> Any:
        conv: Any = self
        return operator(f"{self.op}_dynamic")(
            conv.checked(input), conv._packed_params, reduce_range
        )

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"


class Conv1d(OfFloats, convs.Conv1d):
    pass


class Conv2d(OfFloats, convs.Conv2d):
    pass


class Conv3d(OfFloats, convs.Conv3d):
    pass


class ConvTranspose1d(OfFloats, convs.ConvTranspose1d):
    pass


class ConvTranspose2d(OfFloats, convs.ConvTranspose2d):
    pass


class ConvTranspose3d(OfFloats, convs.ConvTranspose3d):
    pass


# -- recurrent layers ------------------------------------------------------------------------------


def pack_weight_bias(qweight: Any, bias: Any, dtype: Any) -> Any:
    """A weight and its bias, packed as their dtype is."""
    return operator("linear_prepack" if dtype is QINT8 else "linear_prepack_fp16")(qweight, bias)


def weight_of(config: Any) -> Any:
    """What makes an observer of weights, of a dtype that recurrent layers know."""
    own = config is not None and config.weight is not None
    make = config.weight if own else default_dynamic_qconfig.weight
    if make().dtype not in (QINT8, dtypes.float16):
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {make().dtype}")
    return make


def packed_by(make: Any, weight: Any, bias: Any) -> Any:
    watching = make()
    if watching.dtype is QINT8:
        watching(weight)
        return pack_weight_bias(quantized_weight(weight, watching), bias, QINT8)
    return pack_weight_bias(weight.float(), bias, dtypes.float16)


class PackedParameter(Module):
    """The packed weights of one layer in one direction."""

    def __init__(self, param: Any) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest)


class RNNBase(Module):
    """What LSTM and GRU share: layers, directions, and sequences of different lengths."""

    _version = 2
    _FLOAT_MODULE: Any = nn.RNNBase
    gates = 0

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1,
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, dtype: Any = QINT8,
    ) -> None:  # fmt: skip
        super().__init__()
        if mode not in ("LSTM", "GRU"):
            raise ValueError("Unrecognized RNN mode: " + mode)
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
                stacklevel=2,
            )
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.dtype, self.version, self.training = dtype, 2, False
        count = (4 if mode == "LSTM" else 3) * hidden_size
        made = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * self.directions()
            for _ in range(self.directions()):
                shapes = (count, width), (count, hidden_size), (count,), (count,)
                made.append(self.packed(*[functions.randn(shape) for shape in shapes]))
        self._all_weight_values = nn.ModuleList(made)

    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def packed(self, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> PackedParameter:
        if self.dtype is QINT8 and not w_ih.is_quantized:
            w_ih, w_hh = [quantize_per_tensor(each, 0.1, 0, QINT8) for each in (w_ih, w_hh)]
        parts = [pack_weight_bias(w, b, self.dtype) for w, b in ((w_ih, b_ih), (w_hh, b_hh))]
        return PackedParameter(recurrent.CellParamsBase(*parts))

    def _get_name(self) -> str:
        return f"DynamicQuantized{self.mode}"

    def extra_repr(self) -> str:
        said = [f"{self.input_size}, {self.hidden_size}"]
        usual = {
            "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        said += [
            f"{n}={getattr(self, n)}" for n, value in usual.items() if getattr(self, n) != value
        ]
        return ", ".join(said)

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def names(self) -> list[str]:
        """The layer and direction that names of weights end with."""
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [f"_l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def set_weight_bias(self, weight_bias_dict: Any) -> None:
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        made = [
            self.packed(*[weight_bias_dict[kind + name] for kind in kinds]) for name in self.names()
        ]
        self._all_weight_values = nn.ModuleList(made)

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for name, kept in zip(self.names(), self._all_weight_values, strict=True):
            for kind, part in (("ih", kept.param.packed_ih), ("hh", kept.param.packed_hh)):
                weight, bias = part.unpack()
                found["weight"][f"weight_{kind}{name}"] = weight
                found["bias"][f"bias_{kind}{name}"] = bias
        return found

    def get_weight(self) -> dict[str, Any]:
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Any]:
        return self._weight_bias()["bias"]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        if type(mod) not in (nn.LSTM, nn.GRU):
            raise AssertionError(
                "nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.bias:
            raise AssertionError("mod.bias must be True")
        make = weight_of(mod.qconfig)
        kind = LSTM if mod.mode == "LSTM" else GRU
        made = kind(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first,
            mod.dropout, mod.bidirectional, make().dtype,
        )  # fmt: skip
        kept = []
        for name in made.names():
            parts = [
                packed_by(make, getattr(mod, f"weight_{w}{name}"), getattr(mod, f"bias_{w}{name}"))
                for w in ("ih", "hh")
            ]
            kept.append(PackedParameter(recurrent.CellParamsBase(*parts)))
        made._all_weight_values = nn.ModuleList(kept)
        return made

    # -- running it ----------------------------------------------------------------------------

    def check_input(self, input: Any, packed: bool) -> None:
        wanted = 2 if packed else 3
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def run(self, steps: Any, lengths: Any, states: Any) -> tuple[Any, Any]:
        """All layers over (time, sample, feature); with lengths, each sample to its own."""
        ended = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.directions()):
                number = layer * self.directions() + direction
                cell = self._all_weight_values[number].param
                out, state = self.pass_over(cell, steps, lengths, states[number], direction == 1)
                outputs.append(out)
                ended.append(state)
            steps = functions.cat(outputs, -1) if len(outputs) > 1 else outputs[0]
            if self.dropout and self.training and layer < self.num_layers - 1:
                steps = functions.dropout(steps, self.dropout, True)
        return steps, ended

    def pass_over(
        self, cell: Any, steps: Any, lengths: Any, state: Any, backwards: bool
    ) -> tuple[Any, Any]:
        count, samples = steps.shape[:2]
        if lengths is None:
            given = cell.from_input(steps)
        else:
            # What is beyond a sample's end must not widen the range.
            inside = functions.arange(count).unsqueeze(1) < lengths
            rows = cell.from_input(steps[inside])
            given = functions.zeros((count, samples, rows.shape[-1]))
            given[inside] = rows
        outputs: list[Any] = []
        order = range(count)
        for step in reversed(order) if backwards else order:
            alive = samples if lengths is None else int((lengths > step).sum())
            before = tuple(part[:alive] for part in state)
            new = self.step(cell, given[step, :alive], before)
            state = tuple(
                functions.cat([part, old[alive:]]) if alive < samples else part
                for part, old in zip(new, state, strict=True)
            )
            ends = new[0].new_zeros((samples - alive, self.hidden_size))
            outputs.append(functions.cat([new[0], ends]) if alive < samples else new[0])
        return functions.stack(outputs[::-1] if backwards else outputs), state

    def step(self, cell: Any, given: Any, state: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = isinstance(input, PackedSequence)
        self.check_input(input.data if packed else input, packed)
        lengths = None
        if packed:
            unordered = PackedSequence(input.data, input.batch_sizes)
            steps, lengths = pad_packed_sequence(unordered)
        else:
            steps = input.transpose(0, 1) if self.batch_first else input
        states = self.initial(hx, steps, input.sorted_indices if packed else None)
        made, ended = self.run(steps, lengths, states)
        state = tuple(functions.stack(list(parts)) for parts in zip(*ended, strict=True))
        if not packed:
            made = made.transpose(0, 1) if self.batch_first else made
            return made, state if len(state) > 1 else state[0]
        inside = functions.arange(made.shape[0]).unsqueeze(1) < lengths
        result = PackedSequence(
            made[inside], input.batch_sizes, input.sorted_indices, input.unsorted_indices
        )
        if input.unsorted_indices is not None:
            state = tuple(part.index_select(1, input.unsorted_indices) for part in state)
        return result, state if len(state) > 1 else state[0]

    def initial(self, hx: Any, steps: Any, order: Any) -> list[Any]:
        """A state for each layer and direction."""
        wanted = (self.num_layers * self.directions(), steps.shape[1], self.hidden_size)
        if hx is None:
            nothing = steps.new_zeros(wanted)
            parts: tuple[Any, ...] = (nothing, nothing) if self.mode == "LSTM" else (nothing,)
        else:
            parts = tuple(hx) if self.mode == "LSTM" else (hx,)
            if order is not None:
                parts = tuple(part.index_select(1, order) for part in parts)
        for part in parts:
            if tuple(part.shape) != wanted:
                raise RuntimeError(f"Expected hidden size {wanted}, got {list(part.shape)}")
        return [tuple(part[number] for part in parts) for number in range(wanted[0])]


class LSTM(RNNBase):
    """An LSTM with int8 or half-precision weights."""

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def step(self, cell: Any, given: Any, state: Any) -> tuple[Any, ...]:
        return recurrent.lstm_step(given, cell.from_hidden(state[0]), state)


class GRU(RNNBase):
    """A GRU with int8 or half-precision weights."""

    _FLOAT_MODULE = nn.GRU

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    def step(self, cell: Any, given: Any, state: Any) -> tuple[Any, ...]:
        return (recurrent.gru_step(given, cell.from_hidden(state[0]), state[0]),)


class RNNCellBase(Module):
    """One step of a recurrent layer with int8 or half-precision weights."""

    op = ""
    _packed_weight_ih: Any
    _packed_weight_hh: Any

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 4,
        dtype: Any = QINT8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_dtype = dtype
        count = num_chunks * hidden_size
        self.bias_ih, self.bias_hh = [functions.randn((count,)) if bias else None for _ in "io"]
        weights = [functions.randn((count, width)) for width in (input_size, hidden_size)]
        if dtype is QINT8:
            weights = [quantize_per_tensor(each, 1.0, 0, QINT8) for each in weights]
        elif dtype is not dtypes.float16:
            raise RuntimeError(f"Unsupported dtype specified for quantized Cells: {dtype}")
        biases = self.bias_ih, self.bias_hh
        self._packed_weight_ih, self._packed_weight_hh = [
            pack_weight_bias(w, b, dtype) for w, b in zip(weights, biases, strict=True)
        ]

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        said = f"{self.input_size}, {self.hidden_size}"
        said += "" if self.bias is True else f", bias={self.bias}"
        kind = getattr(self, "nonlinearity", "tanh")
        return said + ("" if kind == "tanh" else f", nonlinearity={kind}")

    def checked(self, input: Any, hx: Any) -> None:
        if input.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.shape[1]}, expected "
                f"{self.input_size}"
            )
        if hx.shape[0] != input.shape[0] or hx.shape[1] != self.hidden_size:
            raise RuntimeError(
                f"hidden has inconsistent size: got {list(hx.shape)}, expected "
                f"{[input.shape[0], self.hidden_size]}"
            )

    def weights(self) -> tuple[Any, ...]:
        return self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh

    def forward(self, input: Any, hx: Any = None) -> Any:
        if hx is None:
            hx = input.new_zeros((input.shape[0], self.hidden_size))
        self.checked(input, hx)
        return operator(self.op)(input, hx, *self.weights())

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        if type(mod) not in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
            raise AssertionError(
                "nn.quantized.dynamic.RNNCellBase.from_float only works for nn.LSTMCell, "
                "nn.GRUCell and nn.RNNCell"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.bias:
            raise AssertionError("mod.bias must be True")
        make = weight_of(mod.qconfig)
        kind = {nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell, nn.RNNCell: RNNCell}[type(mod)]
        options = {"nonlinearity": mod.nonlinearity} if kind is RNNCell else {}
        made: Any = kind(
            mod.input_size, mod.hidden_size, bias=mod.bias, dtype=make().dtype, **options
        )
        made.bias_ih, made.bias_hh = mod.bias_ih, mod.bias_hh
        made._packed_weight_ih = packed_by(make, mod.weight_ih, mod.bias_ih)
        made._packed_weight_hh = packed_by(make, mod.weight_hh, mod.bias_hh)
        return made

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for kind, packed in (("ih", self._packed_weight_ih), ("hh", self._packed_weight_hh)):
            weight, bias = packed.unpack()
            found["weight"][f"weight_{kind}"], found["bias"][f"bias_{kind}"] = weight, bias
        return found

    def get_weight(self) -> dict[str, Any]:
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Any]:
        return self._weight_bias()["bias"]

    def set_weight_bias(self, weight_bias_dict: Any) -> None:
        for kind in ("ih", "hh"):
            weight, bias = weight_bias_dict[f"weight_{kind}"], weight_bias_dict[f"bias_{kind}"]
            packed = pack_weight_bias(weight, bias, self.weight_dtype)
            setattr(self, f"_packed_weight_{kind}", packed)
            setattr(self, f"bias_{kind}", bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            destination[prefix + name] = getattr(self, name)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            setattr(self, name, state_dict.pop(prefix + name))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest)


class RNNCell(RNNCellBase):
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        dtype: Any = QINT8,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self.nonlinearity = nonlinearity
        self.op = f"quantized_rnn_{nonlinearity}_cell_dynamic"


class LSTMCell(RNNCellBase):
    op = "quantized_lstm_cell_dynamic"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, num_chunks=4, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> Any:
        if hx is None:
            nothing = input.new_zeros((input.shape[0], self.hidden_size))
            hx = nothing, nothing
        for part in hx:
            self.checked(input, part)
        return operator(self.op)(input, list(hx), *self.weights())


class GRUCell(RNNCellBase):
    op = "quantized_gru_cell_dynamic"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = QINT8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, dtype)
