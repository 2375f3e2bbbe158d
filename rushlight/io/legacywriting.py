"""Writing the format that came before the zip archive: pickles one after another, then storages.

Each storage is its number of elements and its bytes, in the order of the list of keys before them.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from typing import Any

from rushlight.core.storage import Storage
from rushlight.io.containers import MAGIC_NUMBER, PROTOCOL_VERSION

__all__ = ["legacy_file"]

# torch: what a machine is asked to agree with.
SYSTEM = {
    "protocol_version": PROTOCOL_VERSION,
    "little_endian": sys.byteorder == "little",
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}


def legacy_file(obj: Any, pickler_class: Any, protocol: int) -> bytes:
    """The whole file; `pickler_class` writes objects under torch's names."""
    names: dict[str, Any] = {}
    counts: dict[str, int] = {}
    storages: dict[str, Storage] = {}

    class Pickler(pickler_class):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> Any:
            found = super().persistent_id(obj)
            if found is None or len(found) == 6:
                # A storage is asked about by way of the part it stands for, which is done.
                return found
            _, name, key, _, counts[key] = found
            storages.update(dict(self.storages.values()))
            # Without elements there is no data to disagree about.
            if counts[key] and names.setdefault(key, name) is not name:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different "
                    "types"
                )
            # The last entry speaks of views, which storages once had themselves.
            return (*found, None)

    file = io.BytesIO()
    for head in (MAGIC_NUMBER, PROTOCOL_VERSION, SYSTEM):
        pickle.dump(head, file, protocol=protocol)
    Pickler(file, protocol).dump(obj)
    keys = sorted(storages)
    pickle.dump(keys, file, protocol=protocol)
    for key in keys:
        storage = storages[key]
        file.write(struct.pack("<q", counts[key]))
        if storage.buffer is not None:
            file.write(storage.buffer.tobytes())
    return file.getvalue()
