"""Lists of tensors, put together by device and dtype: what fused updates of many tensors take."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.device import device as Device
from rushlight.core.dtype import dtype as Dtype
from rushlight.core.tensor import Tensor

__all__ = [
    "device_has_foreach_support", "get_foreach_kernels_supported_devices",
    "get_fused_kernels_supported_devices", "group_tensors_by_device_and_dtype",
    "has_foreach_support",
]  # fmt: skip

Lists = list[list[Tensor | None]]


@no_grad()
def group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Device, Dtype], tuple[Lists, list[int]]]:
    """(device, dtype) of the first list's tensors -> the lists cut down to these places, and the
    places where they are asked for. A list may be empty; the others are as long as the first."""
    first = tensorlistlist[0]
    if any([len(tensors) not in (0, len(first)) for tensors in tensorlistlist]):
        raise RuntimeError("lists of tensors that are grouped must be of one length, or empty")
    places: dict[tuple[Device, Dtype], list[int]] = {}
    for place, tensor in enumerate(first):
        if tensor is None:
            raise RuntimeError("the first of the lists that are grouped holds None")
        places.setdefault((tensor.device, tensor.dtype), []).append(place)
    return {
        key: (
            [[tensors[place] for place in own] if tensors else [] for tensors in tensorlistlist],
            own if with_indices else [],
        )
        for key, own in places.items()
    }


def get_foreach_kernels_supported_devices() -> list[str]:
    """The devices on which updates of many tensors at a time are the faster ones."""
    return ["cuda", "xpu", "mtia"]


def get_fused_kernels_supported_devices() -> list[str]:
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia"]


def device_has_foreach_support(device: Device) -> bool:
    return device.type in (*get_foreach_kernels_supported_devices(), "cpu")


def has_foreach_support(tensors: Sequence[Tensor | None], device: Device) -> bool:
    plain = all([tensor is None or isinstance(tensor, Tensor) for tensor in tensors])
    return plain and device_has_foreach_support(device)
