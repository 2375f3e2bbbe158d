"""Names of torch.serialization about storages and versions, for programs that read checkpoints."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.io.rebuild import STORAGE_NAMES

__all__ = [
    "StorageType", "check_module_version_greater_or_equal", "normalize_storage_type",
    "storage_to_tensor_type",
]  # fmt: skip


class StorageType:
    """The dtype that a storage's name in a checkpoint tells."""

    def __init__(self, name: str) -> None:
        self._dtype = STORAGE_NAMES[name]

    @property
    def dtype(self) -> dtypes.dtype:
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def normalize_storage_type(storage_type: type) -> Any:
    """The class of torch's of a storage class's name."""
    return getattr(sys.modules["rushlight"], storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """The tensor class beside a storage's class."""
    cls = type(storage)
    return getattr(sys.modules[cls.__module__], cls.__name__.replace("Storage", "Tensor"))


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's `__version__` is at least the given one."""
    try:
        parts = module.__version__.split(".")
        found = tuple(type(wanted)(parts[i]) for i, wanted in enumerate(req_version_tuple))
    except Exception as failure:
        text = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and "
            f"cannot be compared with tuple {req_version_tuple!s}"
        )
        if error_if_malformed:
            raise RuntimeError(text) from failure
        warnings.warn(f"{text}, but continuing assuming that requirement is met", stacklevel=2)
        return True
    return found >= req_version_tuple
