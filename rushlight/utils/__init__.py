"""torch.utils: tools beside the tensor library. Submodules are imported when named."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace

__all__ = ["rename_privateuse1_backend", "swap_tensors"]

__getattr__, __dir__ = namespace(__name__, modules=("checkpoint", "data", "dlpack", "hooks"))


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange two tensors: every reference to one now means the other."""
    import weakref

    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    from rushlight.core.tensor import Tensor

    for name in Tensor.__slots__:
        if name in ("__dict__", "__weakref__"):
            continue
        first, second = getattr(t1, name), getattr(t2, name)
        setattr(t1, name, second)
        setattr(t2, name, first)


def rename_privateuse1_backend(backend_name: str) -> None:
    """Refused: devices are CPU, meta and CUDA."""
    from rushlight.base.errors import MissingFeature

    raise MissingFeature("backends of one's own (rename_privateuse1_backend)")
