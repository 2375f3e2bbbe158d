"""The recorder that is active, and how to do without it for a while: torch's names."""

from __future__ import annotations

from typing import Any

from rushlight.core.recording import Recorder
from rushlight.core.state import LOCAL, changed

__all__ = [
    "ProxyTorchDispatchMode", "disable_proxy_modes_tracing", "get_innermost_proxy_mode",
    "get_proxy_mode", "maybe_disable_fake_tensor_mode",
]  # fmt: skip

ProxyTorchDispatchMode = Recorder


def get_proxy_mode() -> Recorder | None:
    """What records calls now; None where nothing does. One above autograd comes first."""
    state: Any = LOCAL.state
    return state.pre_proxy or state.proxy  # type: ignore[no-any-return]


get_innermost_proxy_mode = get_proxy_mode


def disable_proxy_modes_tracing() -> changed:
    """Calls within it are not recorded."""
    return changed(proxy=None, pre_proxy=None)


def maybe_disable_fake_tensor_mode() -> changed:
    """Within it tensors have values again."""
    return changed(fake=None)
