"""Memory that is pinned, which none is here, and memory that processes share."""

from __future__ import annotations

from typing import Any

from rushlight.opset.exposure import install_method
from rushlight.opset.kinds import Spec
from rushlight.opset.registry import op


def is_pinned(self: Any, device: Any = None) -> bool:
    """False: host memory is never pinned."""
    return False


def pin_memory(self: Any, device: Any = None) -> Any:
    raise RuntimeError("Cannot access accelerator device when none is available.")


def kernel_of_pinning(xp: Any, self: Any, device: Any) -> Any:
    return pin_memory(self, device)


op(
    "_pin_memory(Tensor self, Device? device=None) -> Tensor",
    method=False,
    function=False,
    unavailable=True,
    kernel=kernel_of_pinning,
    shape=lambda self, device=None: Spec(self.shape, self._dtype),
    vjp={"self": lambda grad: grad},
    errors=lambda make: [(RuntimeError, (make(2),))],
)


def share_memory_(self: Any) -> Any:
    """Move the tensor to memory that processes forked later share; spawned ones get copies."""
    from rushlight.core.sharing import share

    share(self)
    return self


def is_shared(self: Any) -> bool:
    return bool(self._storage is not None and self._storage.shared)


for function in (is_pinned, pin_memory, share_memory_, is_shared):
    install_method(function, function.__name__)
