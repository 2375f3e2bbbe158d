"""Convolutions in one to three dims, plain and transposed.

The kernels are those of `correlation`. A transposed convolution is the gradient of a plain one in
its input.
"""

from __future__ import annotations

from typing import Any

from rushlight.arrays.precision import dtype_of
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.device import contiguous_format
from rushlight.core.dtype import unsupported
from rushlight.core.state import PROCESS
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import WINDOW, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, conj, late
from rushlight.opset.window.correlation import (
    convolved,
    input_gradient,
    padded,
    plain_sizes,
    transposed_sizes,
    weight_gradient,
    widen,
)

__all__ = ["convolution", "convolution_backward"]

# -- geometry --------------------------------------------------------------------------------------


def output_shape(
    shape: Any, filters: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: Any,
) -> tuple[Any, ...]:  # fmt: skip
    kernel = filters[2:]
    if transposed:
        sizes = transposed_sizes(shape[2:], kernel, stride, padding, dilation, output_padding)
        return (shape[0], filters[1] * groups, *sizes)
    return (shape[0], filters[0], *plain_sizes(shape[2:], kernel, stride, padding, dilation))


def filled(value: Any, count: int, name: str) -> list[Any]:
    """One value per spatial dim."""
    values = [value] if isinstance(value, int) else list(value)
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {count} values to match "
            f"the convolution dimensions, but got {name}={values}"
        )
    return values


# torch: volumes of other dtypes have no kernel for channels last.
VOLUMES_LAST = frozenset((dtypes.float32, dtypes.float16, dtypes.bfloat16))


def result_format(input: Any, weight: Any) -> Any:
    """Channels last where the input or the weight is: the format of a result and of gradients."""
    if len(weight.shape) == 5 and input._dtype not in VOLUMES_LAST:
        return contiguous_format
    for source in (input, weight):
        found = geometry.suggest_memory_format(sizes_of(source), strides_of(source))
        if found is not contiguous_format:
            return found
    return contiguous_format


def lay_out(sizes: Any, dtype: Any, format: Any) -> Spec:
    return Spec(sizes, dtype, geometry.strides_for_memory_format(tuple(sizes), format))


def check_options(
    stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> None:
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(o < 0 for o in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError("non-positive dilation is not supported")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


def check_dtypes(input: Any, weight: Any, bias: Any, dilation: Any, transposed: bool) -> None:
    dtype = dtype_of(input)
    if dtype_of(weight) is not dtype:
        names = [f"torch.{found.legacy_tensor_name}" for found in (dtype, dtype_of(weight))]
        raise RuntimeError(
            f"Input type ({names[0]}) and weight type ({names[1]}) should be the same or input "
            "should be a MKLDNN tensor and weight is a dense tensor"
        )
    if bias is not None and dtype_of(bias) is not dtype:
        raise RuntimeError(
            f"Input type ({dtype.cpp_name}) and bias type ({dtype_of(bias).cpp_name}) should be "
            "the same"
        )
    small = dtype.category < dtypes.FLOAT and dtype is not dtypes.int64
    dilated = any(d > 1 for d in dilation)
    if dtype is dtypes.bool_ or (small and (transposed or dilated)):
        volume = len(weight.shape) == 5
        if transposed:
            name = f"slow_conv_transpose{3 if volume else 2}d_out_cpu"
        elif dilated:
            name = "slow_conv_dilated<>"
        else:
            name = "compute_columns3d" if volume else "slow_conv2d_cpu"
        raise unsupported(name, dtype)


def check(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> None:  # fmt: skip
    check_options(stride, padding, dilation, output_padding, groups)
    shape, filters = geometry.show(input.shape), geometry.show(weight.shape)
    if len(weight.shape) < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if len(weight.shape) != len(input.shape):
        raise RuntimeError(
            f"Expected {len(weight.shape)}-dimensional input for {len(weight.shape)}-dimensional "
            f"weight {filters}, but got {len(input.shape)}-dimensional input of size {shape} "
            "instead"
        )
    if geometry.decided(weight.shape[0] < groups):
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {filters} instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{filters}] instead"
        )
    expected = weight.shape[0] if transposed else weight.shape[1] * groups
    if input.shape[1] != expected:
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else f'groups={groups}, '}weight of size "
            f"{filters}, expected input{shape} to have {expected} channels, but got "
            f"{input.shape[1]} channels instead"
        )
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and not geometry.same_sizes(tuple(bias.shape), (outputs,)):
        given = "transposed=1, weight" if transposed else "weight"
        raise RuntimeError(
            f"Given {given} of size {filters}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {geometry.show(bias.shape)} instead"
        )
    check_dtypes(input, weight, bias, dilation, transposed)
    if transposed:
        check_elements(input)
        check_output(input, weight, stride, padding, dilation, output_padding)
        return
    sizes = [n + 2 * p for n, p in zip(input.shape[2:], padding, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(geometry.decided(n < k) for n, k in zip(sizes, reach, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, sizes))}). Kernel "
            f"size: ({' x '.join(map(str, reach))}). Kernel size can't be greater than actual "
            "input size"
        )
    check_elements(input)


def check_elements(input: Any) -> None:
    """Refuse an input without places; one without samples or channels is fine."""
    batch, channels, *places = input.shape
    if (
        not any(geometry.is_size(size, 0) for size in places)
        or geometry.is_size(batch, 0)
        or geometry.is_size(channels, 0)
    ):
        return
    # torch: one spatial dim is the second of two.
    seen = (batch, channels, 1, *places) if len(places) == 1 else input.shape
    raise RuntimeError(
        "Only zero batch or zero channel inputs are supported, but got input shape: "
        f"{geometry.show(seen)}"
    )


AXES = ("depth", "height", "width")


def check_output(
    input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any
) -> None:
    """Refuse a transposed convolution without an output, or with padding beyond its reach."""
    if any(o >= s and o >= d for o, s, d in zip(output_padding, stride, dilation, strict=True)):
        given = (("output_padding", output_padding), ("stride", stride), ("dilation", dilation))
        shown = []
        for name, values in given:
            # torch: one spatial dim is the second of two.
            full = (0 if name == "output_padding" else 1, *values) if len(values) == 1 else values
            shown += [f"{name}_{a}: {v}" for a, v in zip(AXES[-len(full) :], full, strict=True)]
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            + " ".join(shown)
        )
    sizes = input.shape[2:]
    found = transposed_sizes(sizes, weight.shape[2:], stride, padding, dilation, output_padding)
    if any(geometry.decided(size < 0) for size in found):
        raise RuntimeError(
            f"Given input size per channel: ({' x '.join(map(str, sizes))}). Calculated output "
            f"size per channel: ({' x '.join(map(str, found))}). Output size is too small"
        )


# -- the op ----------------------------------------------------------------------------------------

convolution = op(
    "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    kind=WINDOW,
    method=False,
    layout="shape",
    out_dtype=True,
    lower="convolved",
    batch=late("window.batched:convolution"),
)


@convolution.shape
def _(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    count = len(weight.shape) - 2
    stride, padding = filled(stride, count, "stride"), filled(padding, count, "padding")
    dilation = filled(dilation, count, "dilation")
    output_padding = filled(output_padding, count, "output_padding")
    check(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    shape = output_shape(
        input.shape, weight.shape, stride, padding, dilation, transposed, output_padding, groups
    )
    return lay_out(shape, input._dtype, result_format(input, weight))


@convolution.kernel
def _(
    xp: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    count = weight.ndim - 2
    stride, padding = filled(stride, count, "stride"), filled(padding, count, "padding")
    dilation = filled(dilation, count, "dilation")
    output_padding = filled(output_padding, count, "output_padding")
    check(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    if transposed:
        sizes = transposed_sizes(
            input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding
        )
        result = input_gradient(input, weight, bias, sizes, stride, padding, dilation, groups)
    else:
        result = convolved(input, weight, bias, stride, padding, dilation, groups)
    return result.astype(input.dtype, copy=False)


@convolution.vjp
def _(
    grad: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, transposed: Any,
    output_padding: Any, groups: Any, needs: Any,
) -> Any:  # fmt: skip
    sizes = [grad.shape[1]] if needs[2] else None
    return aten.convolution_backward(
        grad, conj(input), conj(weight), sizes, stride, padding, dilation, transposed,
        output_padding, groups, list(needs),
    )  # fmt: skip


def convolution_samples(make: Any) -> Any:
    none = [1], [0], [1], False, [0], 1
    yield make(2, 2, 4), make(3, 2, 2), make(3), *none
    yield make(1, 1, 3, 3), make(2, 1, 2, 2), None, *none
    yield make(1, 2, 5, 4), make(2, 2, 2, 2), make(2), [2, 1], [1, 0], [1, 2], False, [0, 0], 1
    yield make(1, 2, 4, 3), make(4, 1, 2, 2), make(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 2
    yield make(1, 1, 2, 3, 2), make(1, 1, 2, 2, 1), make(1), [1], [0], [1], False, [0], 1
    yield make(1, 2, 3), make(2, 2, 3), make(2), [2], [1], [1], True, [1], 1
    yield make(1, 2, 2, 2), make(2, 1, 2, 2), make(2), [1, 2], [0, 1], [1, 1], True, [0, 1], 2
    yield make.strided(1, 2, 4), make(1, 2, 2), None, [1], [2], [2], False, [0], 1


convolution.samples = convolution_samples
convolution.errors = lambda make: [
    (RuntimeError, (make(1, 3, 3), make(1, 1, 2), None, [1], [0], [1], False, [0], 1)),
    (RuntimeError, (make(1, 1, 2), make(1, 1, 3), None, [1], [0], [1], False, [0], 1)),
    (RuntimeError, (make(1, 1, 4), make(1, 1, 3), None, [0], [0], [1], False, [0], 1)),
    (RuntimeError, (make(1, 1, 4), make(1, 1, 3), None, [1], [-1], [1], False, [0], 1)),
    (RuntimeError, (make(1, 1, 4), make(1, 1, 3), make(2), [1], [0], [1], False, [0], 1)),
]

convolution_backward = op(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    kind=WINDOW,
    method=False,
    out=False,
    layout="shape",
    differentiable=["grad_output", "input", "weight"],
    lower="convolution_gradients",
    batch=late("window.batched:convolution_backward"),
)


def check_gradient(
    grad_output: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: Any,
) -> None:  # fmt: skip
    expected = output_shape(
        input.shape, weight.shape, stride, padding, dilation, transposed, output_padding, groups
    )
    if not geometry.fitting(tuple(grad_output.shape), expected):
        raise RuntimeError(
            f"convolution_backward: expected grad_output of size {geometry.show(expected)}, but "
            f"got {geometry.show(grad_output.shape)}"
        )


@convolution_backward.shape
def _(
    grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Any,
) -> Any:  # fmt: skip
    count = len(weight.shape) - 2
    stride, padding = filled(stride, count, "stride"), filled(padding, count, "padding")
    dilation = filled(dilation, count, "dilation")
    output_padding = filled(output_padding, count, "output_padding")
    check_gradient(
        grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups
    )
    format = result_format(input, weight)
    specs = (
        lay_out(input.shape, input._dtype, format),
        lay_out(weight.shape, weight._dtype, format),
        Spec((grad_output.shape[1],), grad_output._dtype),
    )
    return tuple([s if wanted else None for s, wanted in zip(specs, output_mask, strict=True)])


@convolution_backward.kernel
def _(
    xp: Any, grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Any,
) -> Any:  # fmt: skip
    count = weight.ndim - 2
    stride, padding = filled(stride, count, "stride"), filled(padding, count, "padding")
    dilation = filled(dilation, count, "dilation")
    output_padding = filled(output_padding, count, "output_padding")
    check_gradient(
        grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups
    )
    if input.dtype.kind in "iub":
        raise unsupported("slow_conv2d_cpu_grad_input", dtype_of(input))
    grad = grad_output
    options = stride, padding, dilation, groups
    found: list[Any] = [None, None, None]
    if output_mask[0]:
        if transposed:
            value = convolved(grad, weight, None, *options)
            value = value[tuple(slice(0, size) for size in input.shape)]
        else:
            value = input_gradient(grad, weight, None, input.shape[2:], *options)
        found[0] = value.astype(input.dtype, copy=False)
    if output_mask[1]:
        pair = (grad, input) if transposed else (input, grad)
        value = weight_gradient(*pair, weight.shape[2:], *options)
        found[1] = value.astype(weight.dtype, copy=False)
    if output_mask[2]:
        axes = (0, *range(2, grad.ndim))
        found[2] = widen(grad).sum(axis=axes).astype(grad_output.dtype)
    return tuple(found)


@convolution_backward.vjp
def _(
    grads: Any, grad_output: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any,
    transposed: Any, output_padding: Any, groups: Any, needs: Any,
) -> Any:  # fmt: skip
    """Convolution is linear in its input and in its weight, so its gradients' are convolutions."""
    options = stride, padding, dilation, transposed, output_padding, groups
    over_input, over_weight, over_bias = grads
    for_grad: Any = None
    for_input: Any = None
    for_weight: Any = None

    def add(value: Any) -> None:
        nonlocal for_grad
        for_grad = value if for_grad is None else for_grad + value

    if over_input is not None:
        if needs[0]:
            add(aten.convolution(over_input, conj(weight), None, *options))
        if needs[2]:
            for_weight = aten.convolution_backward(
                conj(grad_output), over_input, weight, None, *options, [False, True, False]
            )[1]
    if over_weight is not None:
        if needs[0]:
            add(aten.convolution(conj(input), over_weight, None, *options))
        if needs[1]:
            for_input = aten.convolution_backward(
                conj(grad_output), input, over_weight, None, *options, [True, False, False]
            )[0]
    if over_bias is not None and needs[0]:
        places = [1] * (grad_output.dim() - 2)
        add(over_bias.reshape((1, over_bias.shape[0], *places)).expand(grad_output.shape))
    return for_grad, for_input, for_weight


def backward_samples(make: Any) -> Any:
    plain = [1], [0], [1], False, [0], 1
    for mask in ([True, True, True], [True, False, False]):
        yield make(1, 2, 3), make(1, 2, 4), make(2, 2, 2), [2], *plain, mask
    yield (
        make(1, 2, 3, 2), make(1, 2, 5, 3), make(2, 1, 2, 2), [2], [2, 1], [1, 0], [1, 1], False,
        [0, 0], 2, [True, True, True],
    )  # fmt: skip
    yield make(1, 2, 6), make(1, 2, 3), make(2, 2, 3), [2], [2], [1], [1], True, [1], 1, [True] * 3


convolution_backward.samples = backward_samples

# -- by dimension ----------------------------------------------------------------------------------


def batched(input: Any, count: int, name: str) -> tuple[Any, bool]:
    """The input with a batch dim, and whether it had one."""
    if input.dim() == count + 2:
        return input, True
    if input.dim() == count + 1:
        return input.unsqueeze(0), False
    raise RuntimeError(
        f"Expected {count + 1}D (unbatched) or {count + 2}D (batched) input to {name}, but got "
        f"input of size: {geometry.show(input.shape)}"
    )


def same_padding(input: Any, weight: Any, stride: Any, dilation: Any) -> tuple[Any, list[Any]]:
    """Input and padding such that the result has the input's size."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(total % 2 for total in totals):
        # The odd one goes to the end.
        extra: list[Any] = []
        for total in reversed(totals):
            extra += [0, total % 2]
        input = aten.constant_pad_nd(input, extra, 0)
    return input, [total // 2 for total in totals]


def by_name(
    input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: Any
) -> Any:
    """A convolution whose padding is "same" or "valid"."""
    count = weight.dim() - 2
    steps, gaps = filled(stride, count, "stride"), filled(dilation, count, "dilation")
    zeros = [0] * count
    if padding == "same":
        input, widths = same_padding(input, weight, steps, gaps)
    elif padding == "valid":
        widths = zeros
    else:
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    return aten.convolution(input, weight, bias, steps, widths, gaps, False, zeros, groups)


composite(
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, "
    "SymInt[] dilation, SymInt groups) -> Tensor",
    autocast="lower",
    method=False,
    out=False,
    samples=lambda make: [(make(1, 2, 4), make(2, 2, 3), make(2), [1], "same", [1], 1)],
)(by_name)


def define(count: int) -> None:
    """conv{count}d, its overload with padding by name, and conv_transpose{count}d."""
    ones, zeros, twos = [1] * count, [0] * count, [2] * count

    def plain(
        input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
    ) -> Any:
        source, had_batch = batched(input, count, f"conv{count}d")
        result = aten.convolution(
            source, weight, bias, stride, padding, dilation, False, zeros, groups
        )
        return result if had_batch else result.squeeze(0)

    def named(
        input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: Any
    ) -> Any:
        source, had_batch = batched(input, count, f"conv{count}d")
        # Layers get to see the op; without any there is nobody to show it to.
        mode = aten._convolution_mode if PROCESS.special else by_name
        result = mode(source, weight, bias, stride, padding, dilation, groups)
        return result if had_batch else result.squeeze(0)

    def transposed(
        input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
        groups: Any, dilation: Any,
    ) -> Any:  # fmt: skip
        source, had_batch = batched(input, count, f"conv_transpose{count}d")
        result = aten.convolution(
            source, weight, bias, stride, padding, dilation, True, output_padding, groups
        )
        return result if had_batch else result.squeeze(0)

    head = "Tensor input, Tensor weight, Tensor? bias=None"
    one, zero = f"SymInt[{count}] {{}}={ones}", f"SymInt[{count}] {{}}={zeros}"
    step, gap = one.format("stride"), one.format("dilation")
    width, more = zero.format("padding"), zero.format("output_padding")
    shape = (1, 2, *[3] * count)
    filters = (2, 2, *[2] * count)
    facts: Any = {
        "autocast": "lower",
        "functional": True,
        "method": False,
        "out": False,
        "traced_parts": True,
    }
    first = composite(
        f"conv{count}d({head}, {step}, {width}, {gap}, SymInt groups=1) -> Tensor",
        **facts,
        out_dtype=count == 2,
    )(plain)
    first.samples = lambda make: [
        (make(*shape), make(*filters), make(2)),
        (make(*shape[1:]), make(*filters), None, twos, ones),
    ]
    second = composite(
        f'conv{count}d.padding({head}, {step}, str padding="valid", {gap}, SymInt groups=1) '
        "-> Tensor",
        **facts,
    )(named)
    second.samples = lambda make: [
        (make(*shape), make(*filters), make(2), ones, "same"),
        (make(*shape), make(*filters), None, ones, "valid"),
    ]
    overload = "" if count == 1 else ".input"
    third = composite(
        f"conv_transpose{count}d{overload}({head}, {step}, {width}, {more}, SymInt groups=1, "
        f"{gap}) -> Tensor",
        **facts,
    )(transposed)
    third.samples = lambda make: [
        (make(*shape), make(*filters), make(2)),
        (make(*shape[1:]), make(*filters), None, twos, ones, ones),
    ]


for dims in (1, 2, 3):
    define(dims)


@composite(
    "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, "
    "bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
    autocast="lower",
    method=False,
    out=False,
)
def by_backend(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: Any, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
    allow_tf32: bool,
) -> Any:  # fmt: skip
    return aten.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


by_backend.samples = lambda make: [
    (
        make(1, 2, 4), make(2, 2, 2), make(2), [1], [0], [1], False, [0], 1, False, False, False,
        False,
    ),
]  # fmt: skip


# -- time first ------------------------------------------------------------------------------------


def time_gradient(grad: Any, self: Any, weight: Any, pad: int, which: int) -> Any:
    """The gradient of the input (0) or the weights (1), from the convolution of channels first."""
    found = aten.convolution_backward(
        grad.permute(1, 2, 0),
        conj(self).permute(1, 2, 0),
        conj(weight).permute(2, 1, 0),
        None,
        [1],
        [pad],
        [1],
        False,
        [0],
        1,
        [which == 0, which == 1, False],
    )[which]
    return found.permute(2, 1, 0) if which else found.permute(2, 0, 1)


conv_tbc = op(
    "conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
    functional=True,
    autocast="lower",
    kind=WINDOW,
    method=False,
    batch=late("window.batched:conv_tbc"),
    vjp={
        "self": lambda grad, self, weight, pad: time_gradient(grad, self, weight, pad, 0),
        "weight": lambda grad, self, weight, pad: time_gradient(grad, self, weight, pad, 1),
        "bias": lambda grad: grad.sum((0, 1)),
    },
)


def time_extent(self: Any, weight: Any, bias: Any, pad: int) -> tuple[Any, ...]:
    """Sizes of the result, for tensors and arrays alike."""
    if len(self.shape) != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if len(weight.shape) != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if len(bias.shape) != 1:
        raise RuntimeError("Bias must be 1-D")
    if self.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if bias.shape[0] != weight.shape[2]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    sizes = (self.shape[0] + 2 * pad - weight.shape[0] + 1, self.shape[1], weight.shape[2])
    if geometry.decided(sizes[0] < 0):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {sizes[0]}: {list(sizes)}"
        )
    return sizes


@conv_tbc.shape
def _(self: Any, weight: Any, bias: Any, pad: int) -> Any:
    return Spec(time_extent(self, weight, bias, pad), self._dtype)


@conv_tbc.kernel
def _(xp: Any, self: Any, weight: Any, bias: Any, pad: int) -> Any:
    sizes = time_extent(self, weight, bias, pad)
    dtype = dtypes.from_numpy(self.dtype)
    for other in (weight, bias):
        if other.dtype != self.dtype:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {dtype.cpp_name} != "
                f"{dtypes.from_numpy(other.dtype).cpp_name}"
            )
    if dtype is dtypes.bool_:
        raise unsupported("addmm_impl_cpu_", dtype)
    whole = padded(widen(self), [(pad, pad), (0, 0), (0, 0)])
    width, _, results = weight.shape
    if not whole.size or not sizes[0]:
        return xp.broadcast_to(bias, sizes).copy()
    windows = xp.lib.stride_tricks.sliding_window_view(whole, width, 0)
    rows = xp.moveaxis(windows, 3, 2).reshape(sizes[0] * sizes[1], -1)
    found = rows @ widen(weight).reshape(-1, results) + widen(bias)
    return found.reshape(sizes).astype(self.dtype)


conv_tbc.samples = lambda make: [
    (make(3, 2, 2), make(2, 2, 3), make(3)),
    (make(3, 2, 2), make(2, 2, 3), make(3), 1),
    (make.strided(4, 1, 2), make.strided(3, 2, 2), make(2), 2),
]
conv_tbc.errors = lambda make: [
    (RuntimeError, (make(2, 2), make(2, 2, 3), make(3))),
    (RuntimeError, (make(3, 2, 2), make(2, 3), make(3))),
    (RuntimeError, (make(3, 2, 2), make(2, 2, 3), make(2))),
    (RuntimeError, (make(3, 2, 2), make(2, 3, 3), make(3))),
    (RuntimeError, (make(3, 2, 2), make(5, 2, 3), make(3))),
]
