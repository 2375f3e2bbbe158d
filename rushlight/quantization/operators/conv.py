"""`quantized::conv1d` to `conv3d`, plain and transposed: sums of products of bytes, then scaled.

What a byte stands for is taken first, so that places outside an input are zeros. Convolutions in
one dimension are kept as those in two, as torch keeps them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.tensor import values_of, wrap
from rushlight.opset import functions
from rushlight.quantization.operators.defining import quantized
from rushlight.quantization.operators.numbers import floats, of_integers, per_tensor, rounded
from rushlight.quantization.operators.packed import CLASSES, PackedParams
from rushlight.subclasses.quantized import QINT8, QUINT8, QuantizedTensor, choose_qparams

__all__ = ["Conv2dPackedParamsBase", "Conv3dPackedParamsBase"]

# Products of nine-bit and eight-bit numbers whose sums are whole numbers that float32 holds.
EXACT_IN_SINGLE = (1 << 24) // (255 * 128)


class ConvPackedParams(PackedParams):
    """The int8 weight of a convolution, and where it is put."""

    dims = 0

    def __init__(
        self, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
        dilation: Any, groups: int, transposed: bool,
    ) -> None:  # fmt: skip
        super().__init__(weight, bias)
        if not isinstance(weight, QuantizedTensor) or weight.dtype is not QINT8:
            raise RuntimeError("The weight of a quantised convolution should be of torch.qint8")
        if weight.dim() != self.dims + 2:
            raise RuntimeError(
                f"Weights are expected to have {self.dims + 2} dimensions, got {weight.dim()}"
            )
        self.kept_stride, self.kept_padding = list(stride), list(padding)
        self.kept_dilation, self.kept_groups = list(dilation), groups
        self.kept_output_padding, self.transposed = list(output_padding), transposed
        made = weight.quantizer
        count = weight.shape[1] * groups if transposed else weight.shape[0]
        if made.axis is None:
            self.scales, self.zero_points = np.float32([made.scale]), np.int64([made.zero_point])
        elif transposed:
            raise RuntimeError("Quantized weight of ConvTranspose should have one scale.")
        else:
            self.scales = values_of(made.scale).astype(np.float32)
            self.zero_points = values_of(made.zero_point).astype(np.int64)
        whole = values_of(weight).astype(np.int64)
        shape = (-1,) + (1,) * (whole.ndim - 1)
        self.whole = whole - self.zero_points.reshape(shape)
        if bias is not None and tuple(bias.shape) != (count,):
            raise RuntimeError(f"bias should have {count} elements, got {list(bias.shape)}")
        inner = whole[0].size if not transposed else whole.size // whole.shape[1]
        exact = inner <= EXACT_IN_SINGLE and not self.zero_points.any()
        kept = dtypes.float32 if exact else dtypes.float64
        self.kept = wrap(self.whole.astype(kept.np), kept)

    def contents(self) -> Any:
        """torch: facts in one tensor, after their count; then the weight, and the bias alone."""
        facts = [self.dims, *self.kept_stride, *self.kept_padding, *self.kept_dilation]
        facts += [*self.kept_output_padding, self.kept_groups, int(self.transposed)]
        told = wrap(np.array(facts, np.int16), dtypes.int16)
        return "2", [told, self.kept_weight], [self.kept_bias]

    @classmethod
    def from_contents(cls, contents: Any) -> Any:
        _, (told, weight), (bias,) = contents
        count, *facts = told.tolist()
        places = [facts[start * count : (start + 1) * count] for start in range(4)]
        stride, padding, dilation, output_padding = places
        groups, transposed = facts[4 * count :]
        return cls(
            weight, bias, stride, padding, output_padding, dilation, groups, bool(transposed)
        )

    def stride(self) -> list[int]:
        return self.kept_stride

    def padding(self) -> list[int]:
        return self.kept_padding

    def output_padding(self) -> list[int]:
        return self.kept_output_padding

    def dilation(self) -> list[int]:
        return self.kept_dilation

    def groups(self) -> int:
        return self.kept_groups

    def transpose(self) -> bool:
        return self.transposed

    def sums(self, integers: Any, zero_point: int) -> Any:
        """The sums of products, in steps of both scales: whole numbers, as floats."""
        dtype = self.kept.dtype
        given = wrap(integers.astype(dtype.np) - dtype.np.type(zero_point), dtype)
        made = functions.convolution(
            given, self.kept, None, self.kept_stride, self.kept_padding, self.kept_dilation,
            self.transposed, self.kept_output_padding, self.kept_groups,
        )  # fmt: skip
        return values_of(made)

    def by_channel(self, values: Any) -> Any:
        return values.reshape((1, -1) + (1,) * self.dims)


class Conv2dPackedParamsBase(ConvPackedParams, name="quantized.Conv2dPackedParamsBase"):
    dims = 2


class Conv3dPackedParamsBase(ConvPackedParams, name="quantized.Conv3dPackedParamsBase"):
    dims = 3


def as_plane(tensor: Any) -> Any:
    """A weight or an input of one dimension, as one of two that is one row high."""
    return tensor.unsqueeze(-2)


def plane_of(weight: Any) -> Any:
    """The same for a weight with a scale for each channel, whose views would lose it."""
    made = weight.quantizer
    return of_integers(np.expand_dims(values_of(weight), -2), made)


def prepacked(dims: int, weight: Any, bias: Any, *where: Any, transposed: bool = False) -> Any:
    cls = Conv3dPackedParamsBase if dims == 3 else Conv2dPackedParamsBase
    stride, padding, output_padding, dilation, groups = where
    parts = [list(part) for part in (stride, padding, output_padding, dilation)]
    if dims == 1:
        weight = plane_of(weight)
        for part, outer in zip(parts, (1, 0, 0, 1), strict=True):
            part[:] = [outer, part[-1]]
    stride, padding, output_padding, dilation = parts
    return cls(weight, bias, stride, padding, output_padding, dilation, groups, transposed)


def convolved(
    qx: Any, packed: Any, scale: float, zero_point: int, relu: bool, accumulated: Any = None
) -> Any:
    if not isinstance(qx, QuantizedTensor) or qx.dtype is not QUINT8:
        raise RuntimeError(
            f"The activation of a quantised convolution should be of torch.quint8, got {qx.dtype}"
        )
    if qx.dim() != packed.dims + 2:
        raise RuntimeError(f"Expected activation tensor to have {packed.dims + 2} dimensions.")
    made, single = qx.quantizer, np.float32
    numbers = packed.sums(values_of(qx), made.zero_point).astype(single)
    numbers = numbers * packed.by_channel(single(made.scale) * packed.scales)
    if packed.kept_bias is not None:
        numbers = numbers + packed.by_channel(values_of(packed.kept_bias).astype(single))
    if accumulated is not None:
        numbers = numbers + floats(accumulated)
    if relu:
        numbers = np.maximum(numbers, single(0))
    target = per_tensor(made.dtype, scale, zero_point)
    return rounded(numbers * (single(1) / single(scale)), target)


def dynamic(x: Any, packed: Any, reduce_range: bool) -> Any:
    """A convolution of floats that become bytes over the range that they have.

    torch: so does the result, by the same scale, before it is floats again.
    """
    numbers = values_of(x.detach())
    most = 127 if reduce_range else 255
    made = per_tensor(QUINT8, *choose_qparams(numbers.min(), numbers.max(), 0, most))
    given = of_integers(made.quantize(numbers), made)
    return convolved(given, packed, made.scale, made.zero_point, relu=False).dequantize()


def without_row(found: Any) -> Any:
    return found.squeeze(-2)


PLACED = "int[] stride, int[] padding, int[] dilation, int groups"
GROWN = "int[] stride, int[] padding, int[] output_padding, int[] dilation, int groups"


def define_packing(dims: int) -> None:
    held = f"{CLASSES}quantized.Conv{max(dims, 2)}dPackedParamsBase"
    names = [f"conv{dims}d"] + (["conv"] if dims == 2 else [])

    @quantized(*[
        f"{name}_prepack(Tensor weight, Tensor? bias, {PLACED}) -> {held}" for name in names
    ])  # fmt: skip
    def prepack(
        weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        nothing = [0] * dims
        return prepacked(dims, weight, bias, stride, padding, nothing, dilation, groups)

    @quantized(f"conv_transpose{dims}d_prepack(Tensor weight, Tensor? bias, {GROWN}) -> {held}")
    def prepack_transposed(
        weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any,
        groups: int,
    ) -> Any:  # fmt: skip
        where = stride, padding, output_padding, dilation, groups
        return prepacked(dims, weight, bias, *where, transposed=True)

    @quantized(*[
        f"{name}_unpack({held} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)"
        for name in (*names, f"conv_transpose{dims}d")
    ])  # fmt: skip
    def unpack(packed_weights: Any) -> Any:
        weight, bias = packed_weights.unpack()
        if dims == 1:
            weight = of_integers(values_of(weight).squeeze(-2), weight.quantizer)
        return weight, bias

    if dims == 1:
        return
    for fact, type_of in {
        "stride": "int[]", "padding": "int[]", "output_padding": "int[]", "dilation": "int[]",
        "groups": "int", "transpose": "int",
    }.items():  # fmt: skip

        @quantized(*[
            f"{name}_{fact}({held} packed_weights) -> {type_of}"
            for name in (f"conv{dims}d", f"conv_transpose{dims}d")
        ])  # fmt: skip
        def tell(packed_weights: Any, fact: str = fact) -> Any:
            said = getattr(packed_weights, fact)()
            return int(said) if isinstance(said, bool) else said


def define_products(dims: int) -> None:
    held = f"{CLASSES}quantized.Conv{max(dims, 2)}dPackedParamsBase packed_weight"
    scaled = f"Tensor qx, {held}, float output_scale, int output_zero_point"
    form = "" if dims == 1 else ".new"

    @quantized(f"conv{dims}d{form}({scaled}) -> Tensor",
               f"conv_transpose{dims}d({scaled}) -> Tensor")  # fmt: skip
    def plain(qx: Any, packed_weight: Any, output_scale: float, output_zero_point: int) -> Any:
        given = as_plane(qx) if dims == 1 else qx
        made = convolved(given, packed_weight, output_scale, output_zero_point, relu=False)
        return without_row(made) if dims == 1 else made

    @quantized(f"conv{dims}d_relu{form}({scaled}) -> Tensor")
    def with_relu(qx: Any, packed_weight: Any, output_scale: float, output_zero_point: int) -> Any:
        given = as_plane(qx) if dims == 1 else qx
        made = convolved(given, packed_weight, output_scale, output_zero_point, relu=True)
        return without_row(made) if dims == 1 else made

    @quantized(
        f"conv{dims}d_dynamic(Tensor qx, {held}, bool reduce_range=False) -> Tensor",
        f"conv_transpose{dims}d_dynamic(Tensor qx, {held}, bool reduce_range=False) -> Tensor",
    )
    def of_floats(qx: Any, packed_weight: Any, reduce_range: bool = False) -> Any:
        made = dynamic(as_plane(qx) if dims == 1 else qx, packed_weight, reduce_range)
        return without_row(made) if dims == 1 else made


def define_older(dims: int) -> None:
    """Forms that are told again where the weight is put."""
    held = f"{CLASSES}quantized.Conv{dims}dPackedParamsBase weight"
    given = f"Tensor qx, {held}, {PLACED}, float output_scale, int output_zero_point"

    @quantized(f"conv{dims}d({given}) -> Tensor")
    def plain(qx: Any, weight: Any, *rest: Any) -> Any:
        return convolved(qx, weight, *rest[-2:], relu=False)

    @quantized(f"conv{dims}d_relu({given}) -> Tensor")
    def with_relu(qx: Any, weight: Any, *rest: Any) -> Any:
        return convolved(qx, weight, *rest[-2:], relu=True)


for _dims in (1, 2, 3):
    define_packing(_dims)
    define_products(_dims)
    if _dims > 1:
        define_older(_dims)

ACCUMULATING = (
    f"Tensor qx, Tensor qaccum, {CLASSES}quantized.Conv2dPackedParamsBase packed_weight, "
    "float output_scale, int output_zero_point"
)


@quantized(f"conv2d_add({ACCUMULATING}) -> Tensor")
def conv2d_add(qx: Any, qaccum: Any, packed_weight: Any, scale: float, zero_point: int) -> Any:
    return convolved(qx, packed_weight, scale, zero_point, relu=False, accumulated=qaccum)


@quantized(f"conv2d_add_relu({ACCUMULATING}) -> Tensor")
def conv2d_add_relu(qx: Any, qaccum: Any, packed_weight: Any, scale: float, zero_point: int) -> Any:
    return convolved(qx, packed_weight, scale, zero_point, relu=True, accumulated=qaccum)
