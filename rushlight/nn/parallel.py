"""Modules spread over devices: there is one, so they run where they are."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from rushlight.autograd.grad_mode import is_grad_enabled, set_grad_enabled
from rushlight.base.errors import MissingFeature
from rushlight.base.lazy import namespace
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = [
    "DataParallel", "consume_prefix_in_state_dict_if_present", "data_parallel", "gather",
    "parallel_apply", "replicate", "scatter", "scatter_kwargs",
]  # fmt: skip


def check_devices(devices: Any, name: str) -> list[Any]:
    """The devices as a list; only the CPU is one."""
    found = list(devices) if isinstance(devices, (list, tuple)) else [devices]
    if any([str(each) not in ("cpu", "None") for each in found]):
        raise MissingFeature(f"{name} over devices", code="RL1201")
    return found


class DataParallel(Module):
    """Calls the wrapped module; with no devices to split a batch over, nothing else happens."""

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids:
            raise MissingFeature("DataParallel over devices", code="RL1201")
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """`module(*inputs)`: with no devices to split a batch over, nothing else happens."""
    if device_ids:
        raise MissingFeature("data_parallel over devices", code="RL1201")
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> Any:
    """The tensors in `inputs` cut into a part for each device, and what else there is in each."""
    count = len(check_devices(target_gpus, "scatter"))

    def cut(value: Any) -> list[Any]:
        if isinstance(value, Tensor):
            return list(value.chunk(count, dim))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [type(value)(*parts) for parts in zip(*map(cut, value))]
        if isinstance(value, (tuple, list)) and value:
            return [type(value)(parts) for parts in zip(*map(cut, value))]
        if isinstance(value, dict) and value:
            return [type(value)(parts) for parts in zip(*map(cut, value.items()))]
        return [value] * count

    return cut(inputs)


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Any, dim: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """`scatter` of arguments and of named ones, equally many of both."""
    by_order = list(scatter(inputs, target_gpus, dim)) if inputs else []
    by_name = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    by_order += [()] * (len(by_name) - len(by_order))
    by_name += [{}] * (len(by_order) - len(by_name))
    return tuple(by_order), tuple(by_name)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Parts of a batch put together again; numbers become a vector."""
    check_devices(target_device, "gather")
    first = outputs[0]
    if isinstance(first, Tensor):
        if first.dim() == 0:
            outputs, dim = [each.unsqueeze(0) for each in outputs], 0
        return functions.cat(list(outputs), dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any([len(each) != len(first) for each in outputs]):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([each[key] for each in outputs], target_device, dim))
                           for key in first)  # fmt: skip
    columns = [gather(column, target_device, dim) for column in zip(*outputs)]
    return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)


def replicate(network: Any, devices: Any, detach: bool = False) -> list[Any]:
    """The module for each device: there is one, so that it is the module itself, each time."""
    return [network for _ in check_devices(devices, "replicate")]


def get_a_var(obj: Any) -> Any:
    """A tensor out of nested values; None where there is none."""
    if isinstance(obj, Tensor):
        return obj
    inner = obj.values() if isinstance(obj, dict) else obj
    if isinstance(obj, (list, tuple, dict)):
        for each in inner:
            found = get_a_var(each)
            if found is not None:
                return found
    return None


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
) -> list[Any]:
    """Every module on its inputs, each in a thread of its own."""
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs "
            f"{len(inputs)}"
        )
    if devices is not None:
        check_devices(devices, "parallel_apply")
    named = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    results: list[Any] = [None] * len(modules)
    failures: list[BaseException] = []
    with_grad = is_grad_enabled()

    def work(index: int) -> None:
        given = inputs[index]
        given = given if isinstance(given, (list, tuple)) else (given,)
        try:
            with set_grad_enabled(with_grad):
                results[index] = modules[index](*given, **named[index])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, len(modules))]
    for thread in threads:
        thread.start()
    if modules:
        work(0)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a wrapper's prefix, as "module.", off the names of a state dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)


# torch: training over processes is among the modules.
__getattr__, __dir__ = namespace(__name__, {"DistributedDataParallel": "rushlight.distributed.ddp"})
