"""Modules whose sizes come with their first input."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.base.signatures import signed
from rushlight.core import dtype as dtypes
from rushlight.nn import conv, norm
from rushlight.nn.linear import Linear
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from rushlight.opset import functions

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class LazyModuleMixin:
    """Makes of a module one that learns its sizes from its first input.

    A class names in `cls_to_become` what its objects are from then on, and defines
    `initialize_parameters`, which is called with the arguments of the first `forward`.
    """

    cls_to_become: type | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[misc]
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        hidden = self._non_persistent_buffers_set
        for name, value in [*self._parameters.items(), *self._buffers.items()]:
            if value is not None and name not in hidden:
                kept = keep_vars or is_lazy(value)
                destination[prefix + name] = value if kept else value.detach()

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, value in [*self._parameters.items(), *self._buffers.items()]:
            given = state_dict.get(prefix + name)
            if is_lazy(value) and given is not None and not is_lazy(given):
                with no_grad():
                    value.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self: Any) -> bool:
        return any(map(is_lazy, [*self._parameters.values(), *self._buffers.values()]))

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> None:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` come with the first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            width = self.weight.shape[-1]
            if input.shape[-1] != width:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to "
                    f"in_features from self.weight: {width}"
                )
            self.in_features = input.shape[-1]


class LazyConvolution(LazyModuleMixin):
    """A lazy convolution: it takes what the convolution does, and `in_channels` comes with the
    first input."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.cls_to_become is not None:
            signature = inspect.signature(cls.cls_to_become.__init__)  # type: ignore[misc]
            kept = [p for name, p in signature.parameters.items() if name != "in_channels"]
            signature = signature.replace(parameters=kept)
            cls.__init__ = signed(signature, cls.__name__, cls.build)  # type: ignore[method-assign]

    def build(self: Any, given: dict[str, Any]) -> None:
        """Make an empty convolution and forget its weight."""
        out_channels, bias = given.pop("out_channels"), given.pop("bias")
        LazyModuleMixin.__init__(self, in_channels=0, out_channels=0, bias=False, **given)
        place = {"device": given["device"], "dtype": given["dtype"]}
        self.weight = UninitializedParameter(**place)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**place)

    def reset_parameters(self: Any) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Any, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        single, batch = self.count + 1, self.count + 2
        if input.dim() not in (single, batch):
            raise RuntimeError(
                f"Expected {single}D (unbatched) or {batch}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[int(input.dim() == batch)]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        outer, inner = self.out_channels, self.in_channels
        if self.transposed:
            outer, inner = inner, outer
        self.weight.materialize((outer, inner // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class LazyNorm(LazyModuleMixin):
    """A lazy batch or instance norm: `num_features` comes with the first input."""

    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **place, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**place)
            if bias:
                self.bias = UninitializedParameter(**place)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**place)
            self.running_var = UninitializedBuffer(**place)
            self.num_batches_tracked = functions.zeros((), dtype=dtypes.int64, device=device)

    def reset_parameters(self: Any) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Any) -> None:
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for value in (self.weight, self.bias, self.running_mean, self.running_var):
                if is_lazy(value):
                    value.materialize((self.num_features,))
            self.reset_parameters()


def lazy(base: type, cls: type) -> Any:
    fields = {
        "cls_to_become": cls,
        "__module__": __name__,
        "__doc__": f"`{cls.__name__}` that learns its sizes from its first input.",
    }
    return type(f"Lazy{cls.__name__}", (base, cls), fields)


LazyConv1d = lazy(LazyConvolution, conv.Conv1d)
LazyConv2d = lazy(LazyConvolution, conv.Conv2d)
LazyConv3d = lazy(LazyConvolution, conv.Conv3d)
LazyConvTranspose1d = lazy(LazyConvolution, conv.ConvTranspose1d)
LazyConvTranspose2d = lazy(LazyConvolution, conv.ConvTranspose2d)
LazyConvTranspose3d = lazy(LazyConvolution, conv.ConvTranspose3d)
LazyBatchNorm1d = lazy(LazyNorm, norm.BatchNorm1d)
LazyBatchNorm2d = lazy(LazyNorm, norm.BatchNorm2d)
LazyBatchNorm3d = lazy(LazyNorm, norm.BatchNorm3d)
LazyInstanceNorm1d = lazy(LazyNorm, norm.InstanceNorm1d)
LazyInstanceNorm2d = lazy(LazyNorm, norm.InstanceNorm2d)
LazyInstanceNorm3d = lazy(LazyNorm, norm.InstanceNorm3d)
