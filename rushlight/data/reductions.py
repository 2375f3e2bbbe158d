"""How tensors are taken apart for other processes, and put together there: torch's functions.

A tensor is its storage, an offset, sizes and strides; a sparse one is its parts.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from rushlight.core.device import sparse_bsr, sparse_coo, sparse_csr
from rushlight.core.interop import rebuild_tensor as over_storage
from rushlight.core.parameter import Parameter
from rushlight.core.typedstorage import TypedStorage
from rushlight.opset import functions
from rushlight.opset.sparse.compressed import sparse_compressed_tensor
from rushlight.opset.sparse.coo import sparse_coo_tensor

__all__ = [
    "SharedCache", "StorageWeakRef", "fd_id", "rebuild_meta_tensor",
    "rebuild_sparse_compressed_tensor", "rebuild_sparse_coo_tensor", "rebuild_storage_empty",
    "rebuild_tensor", "rebuild_typed_storage", "rebuild_typed_storage_child",
    "reduce_sparse_tensor", "reduce_tensor", "reduce_typed_storage", "reduce_typed_storage_child",
    "shared_cache",
]  # fmt: skip

# A cache drops references whose storages are gone when it grows beyond this, or twice what lives.
LEAST_LIMIT = 128


def untyped(storage: Any) -> Any:
    return storage._untyped_storage if isinstance(storage, TypedStorage) else storage


class StorageWeakRef:
    """A reference that does not keep a storage."""

    def __init__(self, storage: Any) -> None:
        self._reference = weakref.ref(untyped(storage))
        self.cdata = id(untyped(storage))

    def expired(self) -> bool:
        return self._reference() is None

    def __hash__(self) -> int:
        return hash(self.cdata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


class SharedCache(dict[Any, StorageWeakRef]):
    """References to storages by what other processes call them."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = LEAST_LIMIT
        self.lock = threading.Lock()

    def get(self, key: Any, default: Any = None) -> Any:
        with self.lock:
            return super().get(key, default)

    def __setitem__(self, key: Any, storage_ref: StorageWeakRef) -> None:
        with self.lock:
            super().__setitem__(key, storage_ref)
            if len(self) > self.limit:
                self.free_dead_references()

    def free_dead_references(self) -> None:
        for key in [key for key, reference in self.items() if reference.expired()]:
            del self[key]
        self.limit = max(LEAST_LIMIT, 2 * len(self))


shared_cache = SharedCache()


def fd_id(fd: int) -> tuple[int, int]:
    """What tells one file from others, whatever descriptor it is open by."""
    found = os.fstat(fd)
    return found.st_ino, found.st_dev


def of_class(cls: Any, tensor: Any, requires_grad: bool) -> Any:
    if cls is Parameter:
        return Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_tensor(cls: Any, storage: Any, metadata: Any) -> Any:
    """A tensor over a storage: offset, sizes, strides and whether it asks for gradients."""
    offset, size, stride, requires_grad = metadata
    made = over_storage(
        untyped(storage), storage.dtype, tuple(size), tuple(stride), offset, False, (False, False)
    )
    return of_class(cls, made, requires_grad)


def rebuild_meta_tensor(
    tensor_cls: Any, tensor_size: Any, tensor_stride: Any, tensor_offset: int, dtype: Any,
    storage_size_bytes: int, requires_grad: bool,
) -> Any:  # fmt: skip
    """A tensor without memory."""
    count = storage_size_bytes // dtype.itemsize
    base = functions.empty((count,), dtype=dtype, device="meta")
    made = base.as_strided(tuple(tensor_size), tuple(tensor_stride), tensor_offset).detach()
    return of_class(tensor_cls, made, requires_grad)


def reduce_tensor(tensor: Any) -> Any:
    """The function that rebuilds a tensor, and its arguments."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if tensor.layout.name != "strided":
        return reduce_sparse_tensor(tensor)
    cls, offset = type(tensor), tensor.storage_offset()
    size, stride, wants = tensor.size(), tensor.stride(), tensor.requires_grad
    if tensor.device.type == "meta":
        nbytes = tensor.untyped_storage().nbytes()
        return rebuild_meta_tensor, (cls, size, stride, offset, tensor.dtype, nbytes, wants)
    storage = TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype)
    return rebuild_tensor, (cls, storage, (offset, size, stride, wants))


def rebuild_sparse_coo_tensor(
    rebuild_indices_func: Any, rebuild_indices_args: Any, rebuild_values_func: Any,
    rebuild_values_args: Any, shape: Any, is_coalesced: bool,
) -> Any:  # fmt: skip
    parts = rebuild_indices_func(*rebuild_indices_args), rebuild_values_func(*rebuild_values_args)
    return sparse_coo_tensor(*parts, shape, is_coalesced=is_coalesced)


def rebuild_sparse_compressed_tensor(
    rebuild_compressed_indices_func: Any, rebuild_compressed_indices_args: Any,
    rebuild_plain_indices_func: Any, rebuild_plain_indices_args: Any, rebuild_values_func: Any,
    rebuild_values_args: Any, shape: Any, layout: Any,
) -> Any:  # fmt: skip
    return sparse_compressed_tensor(
        rebuild_compressed_indices_func(*rebuild_compressed_indices_args),
        rebuild_plain_indices_func(*rebuild_plain_indices_args),
        rebuild_values_func(*rebuild_values_args), shape, layout=layout,
    )  # fmt: skip


def reduce_sparse_tensor(sparse: Any) -> Any:
    if sparse.layout is sparse_coo:
        parts = [*reduce_tensor(sparse._indices()), *reduce_tensor(sparse._values())]
        return rebuild_sparse_coo_tensor, (*parts, sparse.shape, sparse.is_coalesced())
    if sparse.layout in (sparse_csr, sparse_bsr):
        ends, plain = sparse.crow_indices(), sparse.col_indices()
    else:
        ends, plain = sparse.ccol_indices(), sparse.row_indices()
    parts = [part for each in (ends, plain, sparse.values()) for part in reduce_tensor(each)]
    return rebuild_sparse_compressed_tensor, (*parts, sparse.shape, sparse.layout)


def rebuild_storage_empty(cls: Any) -> Any:
    return cls()


def rebuild_typed_storage(storage: Any, dtype: Any) -> Any:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def reduce_typed_storage(storage: Any) -> Any:
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def rebuild_typed_storage_child(storage: Any, storage_type: Any) -> Any:
    return storage_type(wrap_storage=storage)


def reduce_typed_storage_child(storage: Any) -> Any:
    return rebuild_typed_storage_child, (storage._untyped_storage, type(storage))
