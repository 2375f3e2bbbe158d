"""torch.utils: tools beside the tensor library. Submodules are imported when named."""

from __future__ import annotations

from rushlight.base.lazy import namespace

__all__ = ["rename_privateuse1_backend", "swap_tensors"]

__getattr__, __dir__ = namespace(
    __name__,
    homes={"swap_tensors": "rushlight.core.attributes"},
    modules=("checkpoint", "data", "deterministic", "dlpack", "hooks", "weak"),
)


def rename_privateuse1_backend(backend_name: str) -> None:
    """Refused: devices are CPU, meta and CUDA."""
    from rushlight.base.errors import MissingFeature

    raise MissingFeature("backends of one's own (rename_privateuse1_backend)")
