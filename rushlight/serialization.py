"""`torch.serialization`: how checkpoints are written and read, and whom a program trusts."""

from __future__ import annotations

import pickle as _pickle
from collections.abc import Callable
from enum import Enum as _Enum
from typing import Any, TypeAlias

from rushlight.base.errors import CheckpointError
from rushlight.core.device import device as _device
from rushlight.core.storage import Storage
from rushlight.io import containers as _containers
from rushlight.io.checkpoint import (
    Inert,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    load,
    load_inert,
    safe_globals,
    save,
)
from rushlight.io.places import default_restore_location, location_tag, register_package
from rushlight.io.rebuild import layout_of as _get_layout

DEFAULT_PROTOCOL = 2
# What `load` takes as `map_location`.
MAP_LOCATION: TypeAlias = Callable[[Storage, str], Storage] | _device | str | dict[str, str] | None
UnpicklingError = _pickle.UnpicklingError

__all__ = [
    "CheckpointError",
    "Inert",
    "LoadEndianness",
    "SourceChangeWarning",
    "_get_layout",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "load_inert",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
]


class LoadEndianness(_Enum):
    """The byte order of files that do not tell theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """The source of a class differs from the one that a file was written with."""


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order that files without a mark are read in; None means little."""
    chosen = _containers.endianness[0]
    return None if chosen is None else LoadEndianness[chosen.upper()]


def set_default_load_endianness(endianness: Any) -> None:
    """Choose the byte order that files without a mark are read in."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            "Invalid argument type in function set_default_load_endianness: expected a "
            f"LoadEndianness or None, not {type(endianness).__name__}"
        )
    _containers.endianness[0] = None if endianness is None else endianness.name.lower()


def get_crc32_options() -> bool:
    """Whether `save` writes checksums: it always does."""
    return True


def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted for compatibility; checksums are always written."""


def get_default_mmap_options() -> int:
    """The flags of mappings that `load(mmap=True)` makes: private ones."""
    from mmap import MAP_PRIVATE

    return MAP_PRIVATE


class set_default_mmap_options:
    """Private mappings are what there is; shared ones would let loading change a file."""

    def __init__(self, flags: int) -> None:
        from mmap import MAP_PRIVATE, MAP_SHARED

        if flags == MAP_SHARED:
            from rushlight.base.errors import MissingFeature

            raise MissingFeature("mmap.MAP_SHARED for checkpoints", code="RL0904")
        if flags != MAP_PRIVATE:
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        pass
