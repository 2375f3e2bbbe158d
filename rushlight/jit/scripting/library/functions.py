# mypy: ignore-errors
# ruff: noqa: B028, C901, RUF005
"""`nn.functional` as it is compiled: typed functions over operators.

Their names, arguments and defaults are those of `nn.functional`; errors are raised where they are
there.
"""

import math
import warnings

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.annotations import BroadcastingList

aten = torch.ops.aten
Ints2 = BroadcastingList(2)[int]
Ints3 = BroadcastingList(3)[int]

# -- activations -----------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.relu_(input)
    else:
        result = torch.relu(input)
    return result


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = aten.relu6_(input)
    else:
        result = aten.relu6(input)
    return result


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = aten.elu_(input, alpha)
    else:
        result = aten.elu(input, alpha)
    return result


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.selu_(input)
    else:
        result = torch.selu(input)
    return result


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.celu_(input, alpha)
    else:
        result = torch.celu(input, alpha)
    return result


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    if inplace:
        result = aten.leaky_relu_(input, negative_slope)
    else:
        result = aten.leaky_relu(input, negative_slope)
    return result


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    if inplace:
        result = torch.rrelu_(input, lower, upper, training)
    else:
        result = torch.rrelu(input, lower, upper, training)
    return result


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return aten.silu_(input)
    return aten.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return aten.mish_(input)
    return aten.mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return aten.hardswish_(input)
    return aten.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return aten.hardsigmoid_(input)
    return aten.hardsigmoid(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        result = aten.hardtanh_(input, min_val, max_val)
    else:
        result = aten.hardtanh(input, min_val, max_val)
    return result


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    if inplace:
        result = aten.threshold_(input, threshold, value)
    else:
        result = aten.threshold(input, threshold, value)
    return result


def glu(input: Tensor, dim: int = -1) -> Tensor:
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return aten.glu(input, dim)


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."  # noqa: E501
    )
    if ndim == 0 or ndim == 1 or ndim == 3:
        ret = 0
    else:
        ret = 1
    return ret


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    if dtype is None:
        ret = input.softmax(dim)
    else:
        ret = input.softmax(dim, dtype=dtype)
    return ret


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    if dtype is None:
        ret = (-input).softmax(dim)
    else:
        ret = (-input).softmax(dim, dtype=dtype)
    return ret


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    if dtype is None:
        ret = input.log_softmax(dim)
    else:
        ret = input.log_softmax(dim, dtype=dtype)
    return ret


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.")
    gumbels = -torch.empty_like(logits).exponential_().log()
    gumbels = (logits + gumbels) / tau
    y_soft = gumbels.softmax(dim)
    if hard:
        index = y_soft.max(dim, keepdim=True)[1]
        y_hard = torch.zeros_like(logits).scatter_(dim, index, 1.0)
        ret = y_hard - y_soft.detach() + y_soft
    else:
        ret = y_soft
    return ret


# -- dropout ---------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return (
        torch.alpha_dropout_(input, p, training)
        if inplace
        else torch.alpha_dropout(input, p, training)
    )


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return (
        torch.feature_alpha_dropout_(input, p, training)
        if inplace
        else torch.feature_alpha_dropout(input, p, training)
    )


def _channel_dropout(
    input: Tensor, p: float, training: bool, inplace: bool, is_batched: bool
) -> Tensor:
    if is_batched:
        if inplace:
            return torch.feature_dropout_(input, p, training)
        return torch.feature_dropout(input, p, training)
    if inplace:
        torch.feature_dropout_(input.unsqueeze(0), p, training)
        return input
    return torch.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)


def _warn_of_dims(dims: int, count: int) -> None:
    if dims != count + 1 and dims != count + 2:
        warnings.warn(
            f"dropout{count}d: Received a {dims}-D input to dropout{count}d, which is deprecated and will result in an error in a future release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout{count}d exists to provide channel-wise dropout on inputs with {count} spatial dimensions, a channel dimension, and an optional batch dimension (i.e. {count + 1}D or {count + 2}D inputs)."  # noqa: E501
        )


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    dims = input.dim()
    if dims != 2 and dims != 3:
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {dims}D input. Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."  # noqa: E501
        )
    return _channel_dropout(input, p, training, inplace, dims == 3)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    _warn_of_dims(input.dim(), 2)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using dropout1d instead."  # noqa: E501
        )
    return _channel_dropout(input, p, training, inplace, True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    _warn_of_dims(input.dim(), 3)
    return _channel_dropout(input, p, training, inplace, input.dim() == 5)


# -- embeddings and norms --------------------------------------------------------------------------


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    row = -1
    if padding_idx is not None:
        rows = weight.size(0)
        if padding_idx < -rows or padding_idx >= rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        row = padding_idx + rows if padding_idx < 0 else padding_idx
    if max_norm is not None:
        with torch.no_grad():
            aten.embedding_renorm_(weight.detach(), input.contiguous(), max_norm, norm_type)
    return torch.embedding(weight, input, row, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    if weight.dtype == torch.int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`."  # noqa: E501
        )
        weight, input = input, weight
    if per_sample_weights is not None:
        if input.size() != per_sample_weights.size():
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({per_sample_weights.size()}) is not None, then it must have the same shape as the input ({input.size()})"  # noqa: E501
            )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type Tensor"  # noqa: E501
            )
        starts = torch.arange(
            0, input.numel(), input.size(1), dtype=input.dtype, device=input.device
        )
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        starts = offsets
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if mode == "sum":
        number = 0
    elif mode == "mean":
        number = 1
    elif mode == "max":
        number = 2
        if scale_grad_by_freq:
            raise ValueError("max mode does not support scaling the gradient by the frequency")
        if sparse:
            raise ValueError("max mode does not support sparse weights")
    else:
        raise ValueError("mode has to be one of sum, mean or max")
    if max_norm is not None:
        with torch.no_grad():
            aten.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."  # noqa: E501
        )
    return torch.embedding_bag(
        weight, input, starts, scale_grad_by_freq, number, sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )[0]  # fmt: skip


def _verify_batch_size(size: list[int]) -> None:
    size_prods = size[0]
    for i in range(len(size) - 2):
        size_prods *= size[i + 2]
    if size_prods == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training:
        _verify_batch_size(input.size())
    return torch.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def _verify_spatial_size(size: list[int]) -> None:
    size_prods = 1
    for i in range(2, len(size)):
        size_prods *= size[i]
    if size_prods == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {size}"
        )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if use_input_stats:
        _verify_spatial_size(input.size())
    return torch.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    return torch.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")  # fmt: skip # noqa: E501
    if num_groups > 0:
        _verify_batch_size(
            [input.size(0) * input.size(1) // num_groups, num_groups] + list(input.size()[2:])
        )
    return torch.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    dim = input.dim()
    if dim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {dim} dimensions)"  # noqa: E501
        )
    if input.numel() == 0:
        return input
    sizes = input.size()
    squares = (input * input).reshape(sizes[0], 1, sizes[1], sizes[2], -1)
    squares = aten.pad(squares, [0, 0, 0, 0, size // 2, (size - 1) // 2])
    means = aten.avg_pool3d(squares, [size, 1, 1], 1).reshape(sizes)
    return input / (means * alpha + k) ** beta


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    denom = input.norm(p, [dim], keepdim=True).clamp_min(eps).expand_as(input)
    if out is None:
        return input / denom
    return torch.div(input, denom, out=out)


# -- images ----------------------------------------------------------------------------------------


def interpolate(
    input: Tensor,
    size: list[int] | None = None,
    scale_factor: list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"  # noqa: E501
            )
    else:
        if align_corners is None:
            align_corners = False
    dim = input.dim() - 2
    output_size: list[int] | None = None
    scale_factors: list[float] | None = None
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    elif size is not None:
        if not isinstance(size, (list, tuple)):
            output_size = [size for _ in range(dim)]
        elif len(size) == dim:
            output_size = size
        else:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of {input.size()[2:]} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."  # noqa: E501
            )
        if recompute_scale_factor is not None and recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    elif scale_factor is not None:
        if not isinstance(scale_factor, (list, tuple)):
            factors = [scale_factor for _ in range(dim)]
        elif len(scale_factor) == dim:
            factors = scale_factor
        else:
            raise ValueError(
                f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of {input.size()[2:]} and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."  # noqa: E501
            )
        recomputes = recompute_scale_factor is not None and recompute_scale_factor
        if recomputes or mode == "area":
            output_size = [math.floor(float(input.size(i + 2)) * factors[i]) for i in range(dim)]
        else:
            scale_factors = factors
    else:
        raise ValueError("either size or scale_factor should be defined")
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"  # noqa: E501
        )
    if input.dim() == 3 and mode == "nearest":
        return aten.upsample_nearest1d(input, output_size, scale_factors)
    if input.dim() == 4 and mode == "nearest":
        return aten.upsample_nearest2d(input, output_size, scale_factors)
    if input.dim() == 5 and mode == "nearest":
        return aten.upsample_nearest3d(input, output_size, scale_factors)
    if input.dim() == 3 and mode == "nearest-exact":
        return aten._upsample_nearest_exact1d(input, output_size, scale_factors)
    if input.dim() == 4 and mode == "nearest-exact":
        return aten._upsample_nearest_exact2d(input, output_size, scale_factors)
    if input.dim() == 5 and mode == "nearest-exact":
        return aten._upsample_nearest_exact3d(input, output_size, scale_factors)
    if mode == "area":
        assert output_size is not None
        if input.dim() == 3:
            return torch.adaptive_avg_pool1d(input, output_size)
        if input.dim() == 4:
            return aten.adaptive_avg_pool2d(input, output_size)
        if input.dim() == 5:
            return aten.adaptive_avg_pool3d(input, output_size)
    if align_corners is not None:
        if input.dim() == 3 and mode == "linear":
            return aten.upsample_linear1d(input, output_size, align_corners, scale_factors)
        if input.dim() == 4 and mode == "bilinear":
            if antialias:
                return aten._upsample_bilinear2d_aa(
                    input, output_size, align_corners, scale_factors
                )
            return aten.upsample_bilinear2d(input, output_size, align_corners, scale_factors)
        if input.dim() == 5 and mode == "trilinear":
            return aten.upsample_trilinear3d(input, output_size, align_corners, scale_factors)
        if input.dim() == 4 and mode == "bicubic":
            if antialias:
                return aten._upsample_bicubic2d_aa(input, output_size, align_corners, scale_factors)
            return aten.upsample_bicubic2d(input, output_size, align_corners, scale_factors)
        if input.dim() == 4 and mode == "lanczos":
            if align_corners:
                raise ValueError("Lanczos mode does not support align_corners=True")
            if not antialias:
                raise ValueError("Lanczos mode requires antialias=True")
            return aten._upsample_lanczos2d_aa(input, output_size, align_corners, scale_factors)
    if dim == 1 or dim == 2 or dim == 3:
        ranks = {"linear": 3, "bilinear": 4, "trilinear": 5}
        if mode in ranks:
            raise NotImplementedError(
                f"Got {input.dim()}D input, but {mode} mode needs {ranks[mode]}D input"
            )
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"  # noqa: E501
    )


def upsample(
    input: Tensor,
    size: list[int] | None = None,
    scale_factor: list[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead."
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: list[int] | None = None, scale_factor: list[float] | None = None
) -> Tensor:
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead."
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: list[int] | None = None, scale_factor: list[float] | None = None
) -> Tensor:
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead."
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# A size and a factor are one number, or one for each dim.
for _resizing in (interpolate, upsample, upsample_nearest, upsample_bilinear):
    _resizing._jit_overloads = [
        {"size": f"{size} | None", "scale_factor": f"{factor} | None"}
        for factor in ("list[float]", "float")
        for size in ("int", "list[int]")
    ]


def _default_corners() -> bool:
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."  # noqa: E501
    )
    return False


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    if mode not in modes:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"  # noqa: E501
        )
    if padding_mode not in paddings:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"  # noqa: E501
        )
    corners = _default_corners() if align_corners is None else align_corners
    return torch.grid_sampler(input, grid, modes[mode], paddings[padding_mode], corners)


def affine_grid(theta: Tensor, size: list[int], align_corners: bool | None = None) -> Tensor:
    corners = _default_corners() if align_corners is None else align_corners
    if not theta.is_floating_point():
        raise ValueError("Expected theta to have floating point type")
    if len(size) != 4 and len(size) != 5:
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}."  # noqa: E501
        )
    count = len(size) - 2
    if theta.dim() != 3 or theta.size()[1:] != [count, count + 1]:
        raise ValueError(
            f"Expected a batch of {count}D affine matrices of shape Nx{count}x{count + 1} for size {size}. Got {theta.size()}."  # noqa: E501
        )
    if corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is not an intended use case of affine_grid. See the documentation of affine_grid for details."  # noqa: E501
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return torch.affine_grid_generator(theta, size, corners)


def unfold(
    input: Tensor,
    kernel_size: Ints2,
    dilation: Ints2 = 1,
    padding: Ints2 = 0,
    stride: Ints2 = 1,
) -> Tensor:
    return aten.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Ints2,
    kernel_size: Ints2,
    dilation: Ints2 = 1,
    padding: Ints2 = 0,
    stride: Ints2 = 1,
) -> Tensor:
    return aten.col2im(input, output_size, kernel_size, dilation, padding, stride)


def pad(
    input: Tensor, pad: list[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    return aten.pad(input, pad, mode, value)


__all__ = [
    name
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__ and callable(value)
]
for _name in __all__:
    globals()[_name]._jit_override_qualname = f"__torch__.torch.nn.functional.{_name}"
