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
    from rushlight.core.attributes import own_slots
    from rushlight.core.tensor import STATE

    # Classes of other slots cannot change places, which Python says in its own words.
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in (*STATE, *own_slots(type(t1))):
        held = [getattr(tensor, name) if hasattr(tensor, name) else None for tensor in (t2, t1)]
        for tensor, value in zip((t1, t2), held, strict=True):
            setattr(tensor, name, value)


def rename_privateuse1_backend(backend_name: str) -> None:
    """Refused: devices are CPU, meta and CUDA."""
    from rushlight.base.errors import MissingFeature

    raise MissingFeature("backends of one's own (rename_privateuse1_backend)")
