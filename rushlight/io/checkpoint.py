"""`save` and `load`: objects that hold tensors, in torch's checkpoint format.

Files are written as torch writes them and can be read by it. By default `load` reads without
importing or calling anything that the file names; a file that names others is refused.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.base.errors import CheckpointError, error
from rushlight.core import dtype as dtypes
from rushlight.core.attributes import own_slots
from rushlight.core.device import device, layout
from rushlight.core.fake import FakeTensor
from rushlight.core.hooks import HookDict
from rushlight.core.parameter import Parameter
from rushlight.core.size import Size
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, storage_of, strides_of
from rushlight.core.typedstorage import TypedStorage
from rushlight.io import nested, quantized
from rushlight.io.containers import Archive, Source
from rushlight.io.opening import open_source
from rushlight.io.places import location_tag
from rushlight.io.rebuild import NAMES, SAFE_GLOBALS, STORAGE_NAMES, set_state
from rushlight.io.walker import CallerError, Inert, Known, shown
from rushlight.io.zipformat import ALIGNMENT, ZipWriter
from rushlight.subclasses.jagged import JaggedTensor
from rushlight.subclasses.nested import NestedTensor

__all__ = [
    "Inert",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "load_inert",
    "safe_globals",
    "save",
]

DEFAULT_PROTOCOL = 2
STORAGE_NAME_OF = {dtype: name for name, dtype in STORAGE_NAMES.items()} | quantized.WRITTEN
# dtypes that have no storage class of their own: their storages are bytes.
UNTYPED = frozenset((dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.complex32, *dtypes.FLOAT8))


# -- writing ----------------------------------------------------------------------------------


class TorchName:
    """A name that is written to the file as it stands, whatever it means here."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Any:
        # pickle insists that what is called when a file is read can be called.
        raise TypeError(f"{self.module}.{self.name} is only a name")


WRITTEN: dict[tuple[str, str], TorchName] = {}


def named(module: str, name: str) -> TorchName:
    """A name of torch's; always the same object, so that a file spells it once."""
    found = WRITTEN.get((module, name))
    if found is None:
        found = WRITTEN[module, name] = TorchName(module, name)
    return found


# Only pickle's own pickler in Python lets names be written as they are wanted.
PurePickler: Any = getattr(pickle, "_Pickler")  # noqa: B009


class Pickler(PurePickler):  # type: ignore[misc]
    """Writes rushlight's objects under torch's names; storages are set aside."""

    dispatch = dict(PurePickler.dispatch)

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        # id of a storage -> (key, storage); storages over the same memory are one.
        self.storages: dict[int, tuple[str, Storage]] = {}
        # id of a storage -> the dtype it is written with.
        self.seen_as: dict[int, dtypes.dtype | None] = {}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, StoredPart):
            if self.seen_as.setdefault(id(obj.storage), obj.dtype) is not obj.dtype and obj.count():
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different "
                    "types"
                )
            return ("storage", obj.type_name(), *self.stored(obj.storage), obj.count())
        if isinstance(obj, TypedStorage):
            return self.persistent_id(StoredPart(obj._untyped_storage, obj.dtype))
        if isinstance(obj, Storage):
            return self.persistent_id(StoredPart(obj, None))
        return None

    def stored(self, storage: Storage) -> tuple[str, str]:
        known = self.storages.get(id(storage))
        if known is None:
            known = self.storages[id(storage)] = (str(len(self.storages)), storage)
        return known[0], location_tag(storage)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            if isinstance(obj, (NestedTensor, JaggedTensor)):
                return nested.parts_of(obj, named)
            # A class may have its own way.
            as_usual = type(obj).__reduce_ex__ is Tensor.__reduce_ex__
            return reduced(obj) if as_usual or obj.is_quantized else NotImplemented
        if isinstance(obj, HookDict):
            return OrderedDict, (), None, None, iter(obj.items())
        if isinstance(obj, Size):
            return named("torch", "Size"), (tuple(obj),)
        if isinstance(obj, device):
            index = () if obj.index is None else (obj.index,)
            return named("torch", "device"), (obj.type, *index)
        if isinstance(obj, layout):
            return named("torch.serialization", "_get_layout"), (str(obj),)
        return NotImplemented

    def save_name(self, obj: TorchName) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[TorchName] = save_name

    def save_dtype(self, obj: dtypes.dtype) -> None:
        self.save(named("torch", obj.name))

    dispatch[dtypes.dtype] = save_dtype

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = str(getattr(obj, "__module__", ""))
        if module.partition(".")[0] in ("rushlight", "torch"):
            target = public_name(obj)
            if id(obj) not in self.memo:
                self.write(pickle.GLOBAL + f"{target.module}\n{target.name}\n".encode())
                self.memoize(obj)
            return
        super().save_global(obj, name)

    def save_type(self, obj: Any) -> None:
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch[type] = save_type


def public_name(obj: Any) -> TorchName:
    """The name under which torch has a class of ours."""
    import rushlight

    written_as = getattr(obj, "written_as", None)
    if written_as is not None:
        return named(*written_as)
    name = obj.__qualname__
    for facade in ("nn", "optim", "optim.lr_scheduler", "nn.utils.rnn", "distributions"):
        package = rushlight
        for part in facade.split("."):
            package = getattr(package, part, None)  # type: ignore[assignment]
        if getattr(package, name, None) is obj:
            return named(f"torch.{facade}", name)
    module = obj.__module__
    root, dot, rest = module.partition(".")
    return named(f"torch{dot}{rest}" if root == "rushlight" else module, name)


class StoredPart:
    """A storage and the dtype that a tensor sees it with."""

    __slots__ = ("dtype", "storage")

    def __init__(self, storage: Storage, dtype: dtypes.dtype | None) -> None:
        self.storage = storage
        self.dtype = dtype

    def type_name(self) -> TorchName:
        if self.dtype is None:
            return named("torch.storage", "UntypedStorage")
        return named("torch", STORAGE_NAME_OF[self.dtype])

    def count(self) -> int:
        width = 1 if self.dtype is None else self.dtype.itemsize
        return int(self.storage.nbytes_) // width


def reduced(tensor: Any) -> Any:
    """How a tensor is written: a function of torch's and its arguments."""
    if tensor.is_quantized:

        def store(held: Any, dtype: dtypes.dtype) -> StoredPart:
            return StoredPart(storage_of(held), dtype)

        return quantized.parts_of(tensor, store, named)
    function, args = plain_parts(tensor)
    attributes = state_of(tensor)
    # A parameter of another class is a tensor of that class with a mark.
    if issubclass(type(tensor), Parameter):
        hooks: OrderedDict[Any, Any] = OrderedDict()
        data = Rebuilt(function, args)
        if attributes:
            name = named("torch._utils", "_rebuild_parameter_with_state")
            return name, (data, tensor.requires_grad, hooks, attributes)
        name = named("torch._utils", "_rebuild_parameter")
        return name, (data, tensor.requires_grad, hooks)
    if type(tensor) is Tensor and not attributes:
        return function, args
    cls = named("torch", "Tensor") if type(tensor) is Tensor else type(tensor)
    name = named("torch._tensor", "_rebuild_from_type_v2")
    return name, (function, cls, args, attributes)


def state_of(tensor: Any) -> Any:
    """What a tensor holds beside its memory: what its class says, or attributes and slots."""
    rule: Any = getattr(type(tensor), "__getstate__", None)
    if rule is not getattr(object, "__getstate__", None):
        return rule(tensor)
    attributes = dict(tensor.__dict__)
    slots = {
        name: getattr(tensor, name) for name in own_slots(type(tensor)) if hasattr(tensor, name)
    }
    return (attributes or None, slots) if slots else attributes


class Rebuilt:
    """Is written as a call."""

    __slots__ = ("args", "function")

    def __init__(self, function: Any, args: Any) -> None:
        self.function = function
        self.args = args

    def __reduce__(self) -> Any:
        return self.function, self.args


def plain_parts(tensor: Any) -> tuple[TorchName, tuple[Any, ...]]:
    args: tuple[Any, ...]
    wants = bool(tensor.requires_grad)
    if tensor.layout.name != "strided":
        return sparse_parts(tensor)
    if tensor._array is None:
        if wraps_others(type(tensor)):
            place = tuple(tensor.shape), strides_of(tensor), int(tensor._offset)
            args = (type(tensor), tensor.dtype, *place, tensor.layout, tensor.device, wants)
            return named("torch._utils", "_rebuild_wrapper_subclass"), args
        if tensor.device.type != "meta":
            raise error("RL0905", type=type(tensor).__name__)
        args = (tensor.dtype, tuple(tensor.shape), strides_of(tensor), wants)
        return named("torch._utils", "_rebuild_meta_tensor_no_storage"), args
    dtype = tensor.dtype
    hooks: OrderedDict[Any, Any] = OrderedDict()
    untyped = dtype in UNTYPED
    part = StoredPart(storage_of(tensor), None if untyped else dtype)
    args = (part, int(tensor._offset), tuple(tensor.shape), strides_of(tensor), wants, hooks)
    if untyped:
        args = (*args, dtype)
    bits = {name: True for name, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on}
    if bits:
        args = (*args, bits)
    version = "_rebuild_tensor_v3" if untyped else "_rebuild_tensor_v2"
    return named("torch._utils", version), args


def wraps_others(cls: type) -> bool:
    """Whether tensors of a class have their values in attributes."""
    own = getattr(cls, "__torch_dispatch__", None)
    return own is not Tensor.__torch_dispatch__ and not issubclass(cls, FakeTensor)


def sparse_parts(tensor: Any) -> tuple[TorchName, tuple[Any, ...]]:
    name = named("torch._utils", "_rebuild_sparse_tensor")
    if tensor.layout.name == "sparse_coo":
        parts = (tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced())
    elif tensor.layout.name in ("sparse_csr", "sparse_bsr"):
        parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values(), tensor.shape)
    else:
        parts = (tensor.ccol_indices(), tensor.row_indices(), tensor.values(), tensor.shape)
    return name, (tensor.layout, parts)


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file (a path, or a file opened for writing bytes).

    >>> import io, rushlight as torch
    >>> file = io.BytesIO()
    >>> torch.save({"w": torch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'w': tensor([1., 1.])}
    """
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute, not "
            f"{type(f).__name__}"
        )
    if not _use_new_zipfile_serialization:
        from rushlight.io.legacywriting import legacy_file

        whole = legacy_file(obj, Pickler, pickle_protocol)
        if not is_path:
            f.write(whole)
            if hasattr(f, "flush"):
                f.flush()
        else:
            with open(f, "wb") as file:
                file.write(whole)
        return
    body = io.BytesIO()
    pickler = Pickler(body, pickle_protocol)
    pickler.dump(obj)
    if not is_path:
        write_archive(f.write, "archive", body.getvalue(), pickler, _disable_byteorder_record)
        if hasattr(f, "flush"):
            f.flush()
        return
    path = os.fspath(f)
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    stem = os.path.splitext(os.path.basename(path))[0] or "archive"
    if not stem.isascii():
        # torch: its reader knows no other names.
        stem = "archive"
    with open(path, "wb") as file:
        write_archive(file.write, stem, body.getvalue(), pickler, _disable_byteorder_record)


def write_archive(
    write: Any, stem: str, body: bytes, pickler: Pickler, without_byteorder: bool
) -> None:
    """The object's pickle and the storages it refers to. Equal objects make equal files."""
    archive = ZipWriter(write)
    archive.add(f"{stem}/data.pkl", body)
    archive.add(f"{stem}/.storage_alignment", str(ALIGNMENT).encode())
    if not without_byteorder:
        archive.add(f"{stem}/byteorder", sys.byteorder.encode())
    for key, storage in pickler.storages.values():
        archive.add(f"{stem}/data/{key}", b"" if storage.buffer is None else storage.buffer)
    archive.add(f"{stem}/version", b"3\n")
    archive.close()


# -- reading ----------------------------------------------------------------------------------


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
    **pickle_load_args: Any,
) -> Any:
    """Read an object that `save` (torch's, too) has written.

    With `weights_only` (the default) nothing that the file names is imported or called, and a file
    with objects of unknown classes is refused (`load_inert` shows what it holds). With
    `weights_only=False` the file is unpickled, which runs code that it brings: do that with
    files you trust only.
    """
    weights_only = forced(weights_only)
    if weights_only is None:
        weights_only = pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    with opened(f) as file:
        source = open_source(file, map_location, mapped(f, file) if mmap else None)
        if not weights_only:
            return unpickled(source, pickle_module or pickle, encoding, pickle_load_args)
        result, inert = source.load(encoding)
        if inert:
            raise CheckpointError(
                "Weights only load failed: the file names classes or functions that are not known "
                f"to be safe: {listed(inert)}. If you trust the file, allow them with "
                "torch.serialization.add_safe_globals([...]), or load it with weights_only=False, "
                "which lets it run code. torch.serialization.load_inert(f) shows what it holds."
            )
        return result


def load_inert(f: Any, map_location: Any = None, *, mmap: bool = False) -> Any:
    """What a file holds, with `Inert` records for objects of unknown classes; nothing that the
    file names is imported or called."""
    with opened(f) as file:
        source = open_source(file, map_location, mapped(f, file) if mmap else None)
        return source.load("utf-8")[0]


def listed(names: set[str]) -> str:
    """Some names of a file, for a text that must stay short."""
    some = [name if len(name) <= 100 else shown(name) for name in sorted(names)[:10]]
    return ", ".join(some) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def mapped(f: Any, file: Any) -> Any:
    """The file as memory; writes to it stay private."""
    if not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    from mmap import ACCESS_COPY, mmap

    try:
        return mmap(file.fileno(), 0, access=ACCESS_COPY)
    except ValueError:
        # An empty file cannot be mapped, and is refused when it is opened.
        return None


FORCED, NOT_FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def forced(weights_only: bool | None) -> bool | None:
    """What the environment makes of the argument."""
    with_trust, without = (
        os.environ.get(n) in ("1", "y", "yes", "true") for n in (NOT_FORCED, FORCED)
    )
    if with_trust and without:
        raise RuntimeError(
            f"Only one of `{FORCED}` or `{NOT_FORCED}` should be set, but both were set."
        )
    if without:
        return True
    if with_trust and weights_only is None:
        warnings.warn(
            f"Environment variable {NOT_FORCED} detected, since the`weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.",
            UserWarning,
            stacklevel=3,
        )
        return False
    return weights_only


@contextmanager
def opened(f: Any) -> Iterator[Any]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file
        return
    for needed in ("read", "seek", "tell"):
        if not hasattr(f, needed):
            raise AttributeError(
                f"load(): 'f' must be a path or a file with {needed}(), not {type(f).__name__}. "
                "You can only torch.load from a file that is seekable. Please pre-load the data "
                "into a buffer like io.BytesIO and try to load from it instead."
            )
    yield f


def unpickled(source: Source, pickle_module: Any, encoding: str, options: dict[str, Any]) -> Any:
    """The object as pickle makes it, with torch's names standing for ours."""

    class Unpickler(pickle_module.Unpickler):  # type: ignore[misc]
        def find_class(self, module: str, name: str) -> Any:
            if module == "torch" or module.startswith("torch."):
                return own(module, name)
            return super().find_class(module, name)

        def persistent_load(self, pid: Any) -> Any:
            return source.persistent(pid)

    try:
        return Unpickler(source.pickles(), encoding=encoding, **options).load()
    except CallerError as error:
        raise error.args[0] from None


def own(module: str, name: str) -> Any:
    """What a name of torch's stands for here, for files that are trusted."""
    from importlib import import_module

    if (module, name) == ("torch._tensor", "_rebuild_from_type_v2"):
        return rebuild_trusted
    found = NAMES.get((module, name))
    if isinstance(found, Known):
        return found.call if found.target is None else found.target
    if found is not None:
        return found
    if sys.modules.get("torch") is sys.modules["rushlight"]:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            pass
    # torch's classes are often defined deeper than they are public.
    path = "rushlight" + module[len("torch") :]
    places = [path]
    while "." in path:
        path = path.rpartition(".")[0]
        places.append(path)
    for place in (*places, "rushlight.nn.functional"):
        try:
            target: Any = import_module(place)
            for part in name.split("."):
                target = getattr(target, part)
        except (ImportError, AttributeError):
            continue
        return target
    raise error("RL0906", AttributeError, name=f"{module}.{name}")


def rebuild_trusted(function: Any, cls: type, args: Any, state: Any) -> Any:
    """A tensor of any class, with attributes."""
    made = function(*args)
    if type(made) is not cls:
        made = made.as_subclass(cls)
    if state is not None and state != {}:
        set_state(made, state)
    return made


# -- classes that a program vouches for -------------------------------------------------------


def name_of(entry: Any) -> tuple[tuple[str, str], tuple[Any, Any]]:
    if isinstance(entry, tuple):
        if len(entry) != 2:
            raise ValueError(
                "Expected tuple of length 2 (global, str of callable full path), but got tuple of "
                f"length: {len(entry)}"
            )
        if type(entry[1]) is not str:
            raise TypeError(
                "Expected second item in tuple to be str of callable full path, but got: "
                f"{type(entry[1])}"
            )
        module, _, name = entry[1].rpartition(".")
        return (module, name), (entry, entry[0])
    module = entry.__module__
    if module.partition(".")[0] in ("rushlight", "torch"):
        # Files name torch's classes by where torch defines them.
        module = "torch"
    return (module, entry.__qualname__), (entry, entry)


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make objects of these classes and call these functions.

    An entry is a class or function, or a pair of one and the full name that files have for it.
    """
    SAFE_GLOBALS.update([name_of(entry) for entry in safe_globals])


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return [entry for entry, _ in SAFE_GLOBALS.values()]


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was given."""
    SAFE_GLOBALS.clear()


class safe_globals:
    """Classes that `load` may make objects of, inside a `with` block."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.entries = dict([name_of(entry) for entry in safe_globals])

    def __enter__(self) -> None:
        SAFE_GLOBALS.update(self.entries)

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        for name in self.entries:
            SAFE_GLOBALS.pop(name, None)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names of a file that `load` refuses. Its storages are not read."""
    with opened(f) as file:
        source = open_source(file, "meta")
        if not isinstance(source, Archive):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        return sorted(source.load("utf-8")[1])
