"""Normalisation layers."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core import ports
from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.opset.creation import create

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
    "SyncBatchNorm",
]  # fmt: skip


def add_affine(module: Module, shape: Any, scales: bool, shifts: bool, place: Any) -> None:
    """Give a module a `weight` of ones and a `bias` of zeros, or None where it has none."""
    weight = Parameter(create.ones(shape, **place)) if scales else None
    module.register_parameter("weight", weight)
    bias = Parameter(create.zeros(shape, **place)) if shifts else None
    module.register_parameter("bias", bias)


def reset_affine(module: Any) -> None:
    if module.weight is not None:
        module.weight.data.fill_(1)
    if module.bias is not None:
        module.bias.data.zero_()


def as_shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class ChannelNorm(Module):
    """What batch and instance norm share: parameters and running statistics per channel."""

    _version = 2
    # Numbers of dims of the input that are accepted.
    dims: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        size, place = (num_features,), {"device": device, "dtype": dtype}
        add_affine(self, size, affine, affine and bias, place)
        tracked = track_running_stats
        self.register_buffer("running_mean", create.zeros(size, **place) if tracked else None)
        self.register_buffer("running_var", create.ones(size, **place) if tracked else None)
        count = create.zeros((), dtype=dtypes.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        reset_affine(self)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        older = (local_metadata.get("version") or 1) < 2
        if older and self.track_running_stats and key not in state_dict:
            # torch: files from before the counter existed.
            own = self.num_batches_tracked
            known = own is not None and own.device.type != "meta"
            state_dict[key] = own if known else functions.zeros((), dtype=dtypes.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_input_dim(self, input: Any) -> None:
        """Refuses inputs of other ranks. Classes of users say here what theirs take."""
        if not self.dims:
            # torch: its base class leaves the question to classes of users.
            raise NotImplementedError(f"{type(self).__name__} has no _check_input_dim")
        if input.dim() not in self.dims:
            wanted = " or ".join(f"{count}D" for count in self.dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(ChannelNorm):
    """Normalises each channel over the batch; in evaluation, with the running statistics."""

    def _forget_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean = self.running_var = self.num_batches_tracked = None
            self.track_running_stats = False

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


class InstanceNorm(ChannelNorm):
    """Normalises each channel of each sample."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        """The rank of one sample."""
        return self.dims[0]

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        batched = input.dim() != self._get_no_batch_dim()
        source = input if batched else input.unsqueeze(0)
        if source.shape[1] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={int(batched)} to match num_features "
                    f"({self.num_features}), but got: {source.shape[1]}."
                )
            warnings.warn(
                f"input's size at dim={int(batched)} does not match num_features. You can silence "
                "this warning by not passing in num_features, which is not used because "
                "affine=False",
                stacklevel=2,
            )
        result = F.instance_norm(
            source,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result if batched else result.squeeze(0)


class BatchNorm1d(BatchNorm):
    """Batch norm of (N, C) or (N, C, L)."""

    dims = (2, 3)


class BatchNorm2d(BatchNorm):
    """Batch norm of (N, C, H, W)."""

    dims = (4,)


class BatchNorm3d(BatchNorm):
    """Batch norm of (N, C, D, H, W)."""

    dims = (5,)


class SyncBatchNorm(BatchNorm):
    """Batch norm over the batches of all processes; of one process, plain batch norm."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Any) -> Any:
        if not self.training or ports.synced_norm is None:
            return super().forward(input)
        self._check_input_dim(input)
        return ports.synced_norm(self, input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch norm in it replaced, its parameters and buffers kept."""
        result = module
        if isinstance(module, BatchNorm):
            made = SyncBatchNorm(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
            result = made
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class InstanceNorm1d(InstanceNorm):
    """Instance norm of (C, L) or (N, C, L)."""

    dims = (2, 3)


class InstanceNorm2d(InstanceNorm):
    """Instance norm of (C, H, W) or (N, C, H, W)."""

    dims = (3, 4)


class InstanceNorm3d(InstanceNorm):
    """Instance norm of (C, D, H, W) or (N, C, D, H, W)."""

    dims = (4, 5)


class LayerNorm(Module):
    """Normalisation over the last dims, with an optional learned scale and shift."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        place = {"device": device, "dtype": dtype}
        shifts = elementwise_affine and bias
        add_affine(self, self.normalized_shape, elementwise_affine, shifts, place)

    def reset_parameters(self) -> None:
        reset_affine(self)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Division by the root mean square over the last dims, with an optional learned scale."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = shape = as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = create.ones(shape, device=device, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", None if made is None else Parameter(made))

    def reset_parameters(self) -> None:
        if self.weight is not None:
            self.weight.data.fill_(1)

    def forward(self, x: Any) -> Any:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalises groups of channels of each sample."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        place = {"device": device, "dtype": dtype}
        add_affine(self, (num_channels,), affine, affine and bias, place)

    def reset_parameters(self) -> None:
        reset_affine(self)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class ResponseNorm(Module):
    """What norms over neighbouring channels share."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(ResponseNorm):
    """Division by a power of the mean square over neighbouring channels."""

    def forward(self, input: Any) -> Any:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(ResponseNorm):
    """`LocalResponseNorm` of (N, C, H, W) over windows of an odd width."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Any) -> Any:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2
        squares = input * input
        padded = functions.pad(squares, (0, 0, 0, 0, reach, reach))
        sums = padded.unfold(1, 2 * reach + 1, 1).sum(-1)
        # torch: the first channel never leaves the window.
        count = input.shape[1] - reach - 1
        if count > 0:
            first = functions.pad(
                squares[:, :1].expand(-1, count, -1, -1), (0, 0, 0, 0, reach + 1, 0)
            )
            sums = sums + first
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta
