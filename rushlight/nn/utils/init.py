"""Modules without initial values."""

from __future__ import annotations

from typing import Any

from rushlight.nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters are not initialised: made without memory, then given some.

    >>> import rushlight as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 3, 2).weight.shape
    torch.Size([2, 3])
    """
    import inspect

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
