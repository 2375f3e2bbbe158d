"""Private functions of torch that libraries call, over what Rushlight has.

Each does what torch's does on the CPU. Nothing in the package itself calls one of these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import rushlight
from rushlight import nn
from rushlight.core.dtype import dtype
from rushlight.core.modes import len_torch_function_stack
from rushlight.core.tensor import Tensor
from rushlight.func.nesting import remove_batch_dim
from rushlight.func.unwrapping import is_batched
from rushlight.symbolic.checks import check_with

CPU = rushlight.device("cpu")
# torch: the name of a device that users may add.
PRIVATE_DEVICE = "privateuseone"


class Required:
    """Stands for the default of an option that has none."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = Required()

# -- checks ----------------------------------------------------------------------------------------


def check_tensor_all(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raises unless all elements of a bool tensor are true."""
    check_tensor_all_with(RuntimeError, cond, message)


def check_tensor_all_with(
    error_type: type[Exception], cond: Any, message: Callable[[], object] | None = None
) -> None:
    """As `check_tensor_all`, raising the given error."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != rushlight.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    check_with(error_type, bool(cond.all()), message)


# -- devices ---------------------------------------------------------------------------------------


def get_accelerator(check: bool | None = None) -> Any:
    """The device beside the CPU, or the CPU where there is none."""
    return CPU


def get_default_device() -> str:
    """The kind of device that tensors are made on."""
    return str(rushlight.get_default_device().type)


def get_available_device_type() -> str | None:
    """The kind of device beside the CPU; None where there is none."""
    return None


def get_device_module(device_type: str) -> ModuleType:
    """The module `torch.cuda` of a kind of device."""
    found = getattr(rushlight, device_type, None)
    if found is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as "
            f"'torch.{device_type}'."
        )
    return found  # type: ignore[no-any-return]


def get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device among those of its kind."""
    if isinstance(device, int):
        return device
    if device is None and optional:
        return -1
    place = rushlight.device(device)
    if place.type == "cpu" and not allow_cpu:
        raise ValueError(f"Expected a non cpu device, but got: {place}")
    return -1 if place.index is None else place.index


def get_privateuse1_backend_name() -> str:
    """The name of the device that users may add."""
    return PRIVATE_DEVICE


# -- tensors ---------------------------------------------------------------------------------------


def element_size(kind: dtype) -> int:
    """Bytes of an element."""
    if not isinstance(kind, dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(kind)}")
    return kind.itemsize


def is_alias_of(x: Tensor, other: Tensor) -> bool:
    """Whether two tensors share a storage."""
    return x.untyped_storage() is other.untyped_storage() or (
        x.data_ptr() != 0 and x.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    )


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes as a tensor."""
    return rushlight.tensor(x.shape, dtype=rushlight.int64)


def is_contiguous_or_false(x: Tensor) -> bool:
    """Whether a tensor is contiguous, as far as that is known."""
    return bool(x.is_contiguous())


def maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result of a mapped function with the batch as a dim, or as it is where there is none."""
    if out_dim is None:
        if isinstance(batched_output, Tensor) and is_batched(batched_output):
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def is_torch_function_mode_enabled() -> bool:
    """Whether a mode sees calls of functions."""
    return len_torch_function_stack() > 0


# -- optimisers ------------------------------------------------------------------------------------


# What optimisers are made with.
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]


def use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that records gradients only where its optimiser is differentiable."""

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with rushlight.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return run


def default_to_fused_or_foreach(
    params: list[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether steps are taken in one kernel, or by functions on lists of tensors."""
    if differentiable or rushlight.jit.is_scripting():
        return False, False
    known = [p is None or type(p) in (Tensor, nn.Parameter) for p in params]
    floats = [p is None or p.is_floating_point() for p in params]
    fused = use_fused and all(known) and all(floats)
    # torch: lists are for other devices.
    return fused, False


def get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices whose steps can be recorded."""
    found = ["cuda", "xpu", "hpu", PRIVATE_DEVICE]
    return [*found, "xla"] if supports_xla else found


# -- the compiler of scripts -----------------------------------------------------------------------


def copy_to_script_wrapper(function: Any) -> Any:
    """Marks a method that scripted modules keep as Python."""
    from rushlight.jit.scripting.ignoring import COPY, mark

    return mark(function, COPY)


# -- compilation -----------------------------------------------------------------------------------


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The settings that a mode of `torch.compile` stands for; of all modes, where none is named."""
    modes: dict[str, dict[str, bool]] = {
        "default": {},
        "reduce-overhead": {"triton.cudagraphs": True},
        "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
        "max-autotune": {
            "max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True,
        },
    }  # fmt: skip
    return modes[mode] if mode else modes
