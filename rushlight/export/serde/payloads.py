"""Tensors beside a program: bytes of storages, each once, and what is seen in them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from rushlight.core.fake import FakeTensor
from rushlight.core.parameter import Parameter
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, storage_of
from rushlight.core.typedstorage import TypedStorage
from rushlight.export.serde.absent import Absent, unpickled
from rushlight.export.serde.names import DTYPES, decoded, made_device
from rushlight.export.serde.schema import Record, checked, parse_json, refuse
from rushlight.export.serde.writing import json_bytes, written_tensor
from rushlight.io import checkpoint
from rushlight.io.rebuild import rebuild_meta, tensor_over

__all__ = ["read_payloads", "write_payloads"]

OBJECTS = ("custom_obj_", "opaque_obj_")


def write_payloads(
    add: Callable[[str, Any], None],
    values: dict[str, Any],
    folder: str,
    prefix: str,
    config_name: str,
) -> None:
    """Write tensors (and objects) into a folder of an archive, and a list of them."""
    config: dict[str, Any] = {}
    known: dict[tuple[int, Any], str] = {}
    objects = 0
    for name, value in values.items():
        if not isinstance(value, Tensor):
            path = f"{OBJECTS[0]}{objects}"
            objects += 1
            add(folder + path, object_bytes(value, name))
            config[name] = payload(path, False, True, None)
            continue
        is_parameter = isinstance(value, Parameter)
        plain = value.layout.name == "strided" and not (value.is_conj() or value.is_neg())
        if not plain:
            path = f"{prefix}{len(known)}"
            known[(id(value), None)] = path
            add(folder + path, object_bytes(value, name))
            config[name] = payload(path, is_parameter, True, written_tensor(value))
            continue
        storage = storage_of(value)
        key = (id(storage), value.dtype)
        if key not in known:
            known[key] = f"{prefix}{len(known)}"
            add(folder + known[key], bytes_of(value, storage))
        config[name] = payload(known[key], is_parameter, False, written_tensor(value))
    add(config_name, json_bytes({"config": config}))


def payload(path: str, is_param: bool, use_pickle: bool, meta: Any) -> dict[str, Any]:
    return {
        "path_name": path,
        "is_param": is_param,
        "use_pickle": use_pickle,
        "tensor_meta": meta,
    }


def bytes_of(tensor: Any, storage: Storage) -> Any:
    if isinstance(tensor, FakeTensor) or storage.buffer is None:
        return b""
    return storage.buffer


def object_bytes(value: Any, name: str) -> bytes:
    file = io.BytesIO()
    try:
        checkpoint.save(value, file)
    except Exception as failure:
        raise refuse(f"the constant {name!r} cannot be written ({failure})") from failure
    return file.getvalue()


# -- reading ------------------------------------------------------------------------------------


class Payloads:
    """Tensors of one folder of an archive."""

    def __init__(
        self, folder: str, size: Callable[[str], int], array: Callable[[str], Any]
    ) -> None:
        self.folder = folder
        self.size = size
        self.array = array
        self.storages: dict[str, Any] = {}

    def value(self, meta: Record) -> Any:
        path = meta.path_name
        if "/" in path or "\\" in path or path.startswith("."):
            raise refuse(f"{path[:80]!r} is no name of a payload")
        if meta.use_pickle:
            found, unknown = unpickled(bytes(self.array(self.folder + path)))
            if unknown:
                raise refuse(f"it holds objects of classes that are not known: {unknown}")
            return found
        if meta.tensor_meta is None:
            raise refuse(f"nothing is said of the payload {path[:80]!r}")
        return self.tensor(path, meta)

    def tensor(self, path: str, meta: Record) -> Any:
        described = meta.tensor_meta
        numbers = (*described.sizes, *described.strides, described.storage_offset)
        if any(number.tag != "as_int" for number in numbers):
            raise refuse(f"the payload {path[:80]!r} has symbolic sizes")
        if not self.size(self.folder + path) and 0 not in [size.value for size in described.sizes]:
            return self.without_values(meta)
        place = made_device(described.device)
        if place.type not in ("cpu", "meta"):
            raise refuse(f"its weights are on {place}; save it from the CPU")
        dtype = decoded(DTYPES, described.dtype, "dtype")
        sizes = tuple([size.value for size in described.sizes])
        strides = tuple([stride.value for stride in described.strides])
        offset = described.storage_offset.value
        storage = self.storage(path)
        found = tensor_over(TypedStorage.over(storage, dtype), offset, sizes, strides)
        if meta.is_param:
            return Parameter(found, requires_grad=described.requires_grad)
        if described.requires_grad:
            found.requires_grad_(True)
        return found

    def without_values(self, meta: Record) -> Any:
        """A tensor whose bytes are not there: on the meta device, or a fake to be."""
        described = meta.tensor_meta
        if described.device.type != "meta":
            return Absent(described, meta.is_param)
        found = rebuild_meta(
            decoded(DTYPES, described.dtype, "dtype"),
            tuple([size.value for size in described.sizes]),
            tuple([stride.value for stride in described.strides]),
            False,
        )
        return Parameter(found, described.requires_grad) if meta.is_param else found

    def storage(self, path: str) -> Storage:
        found = self.storages.get(path)
        if found is None:
            found = self.storages[path] = Storage(self.array(self.folder + path))
        return found


def read_payloads(
    folder: str, config: bytes, size: Callable[[str], int], array: Callable[[str], Any]
) -> dict[str, Any]:
    """Values by name, as a folder of an archive and its list have them."""
    listed = checked(parse_json(config, "list of weights"), "PayloadConfig").config
    payloads = Payloads(folder, size, array)
    return {name: payloads.value(meta) for name, meta in listed.items()}
