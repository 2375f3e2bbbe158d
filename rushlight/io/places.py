"""Where storages go when a file is read: devices by name, and the packages that know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base.errors import CheckpointError, error
from rushlight.core.device import device
from rushlight.core.storage import Storage
from rushlight.core.typedstorage import TypedStorage
from rushlight.io.walker import CallerError, shown

__all__ = ["default_restore_location", "is_meta", "location_tag", "register_package", "restored"]

Tagger = Callable[[Any], str | None]
Restorer = Callable[[Any, str], Any]


def cpu_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def cpu_restore(storage: Any, location: str) -> Any:
    if location == "cpu":
        return storage
    # torch: a CPU has no index, but names with one are read.
    return storage if location.startswith("cpu:") and location[4:].isdigit() else None


def meta_tag(storage: Any) -> str | None:
    return "meta" if storage.device.type == "meta" else None


def meta_restore(storage: Any, location: str) -> Any:
    return Storage.meta(storage.nbytes()) if location == "meta" else None


# (priority, function(storage) -> location or None, function(storage, location) -> storage or None)
PACKAGES: list[tuple[int, Tagger, Restorer]] = [
    (10, cpu_tag, cpu_restore),
    (22, meta_tag, meta_restore),
]


def register_package(priority: int, tagger: Tagger, deserializer: Restorer) -> None:
    """Name and restore storages in another way; lower priorities are asked first."""
    PACKAGES.append((priority, tagger, deserializer))
    PACKAGES.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The name of the device that a storage is on, as files record it."""
    for _, tagger, _ in PACKAGES:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(
        f"don't know how to determine data location of {type(storage).__name__} on {storage.device}"
    )


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage on the device that a file names."""
    for _, _, restore in PACKAGES:
        found = restore(storage, location)
        if found is not None:
            return found
    if location == "cuda" or location.startswith("cuda:"):
        raise error("RL0912", CheckpointError)
    raise error("RL0913", CheckpointError, location=shown(location))


def is_meta(map_location: Any) -> bool:
    """Whether everything goes to the meta device, so that no bytes need to be read."""
    return isinstance(map_location, (str, device)) and str(map_location) == "meta"


def restored(storage: Storage, location: str, map_location: Any) -> Storage:
    """A storage where `map_location` (None, a name, a device, a dict or a function) puts it."""
    found: Any = None
    if isinstance(map_location, dict):
        location = str(map_location.get(location, location))
    elif isinstance(map_location, (str, bytes, device)):
        location = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
    elif map_location is not None:
        try:
            found = map_location(storage, location)
        except Exception as error:
            raise CallerError(error) from error
    if found is None:
        found = default_restore_location(storage, location)
    if isinstance(found, TypedStorage):
        found = found._untyped_storage
    if not isinstance(found, Storage):
        wrong = f"map_location must return a storage or None, not {type(found).__name__}"
        raise CallerError(TypeError(wrong))
    return found
