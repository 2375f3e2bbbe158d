"""Checkpoints: files of PyTorch's are read, what is written comes back, places and trust."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import pickletools
import subprocess
import sys
import warnings
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError
from rushlight.io.walker import Inert

FILES = Path(__file__).parent / "files"
ROOT = Path(__file__).parent.parent.parent
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128 complex32 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz"
)


def written(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def again(obj, **options):
    return torch.load(written(obj), **options)


# -- files of PyTorch's ----------------------------------------------------------------------------


@pytest.fixture(params=["everything.pt", "everything.pt mapped", "everything_old.pt", "ours"])
def everything(request):
    name, _, mapped = request.param.partition(" ")
    if name == "ours":
        return again(torch.load(FILES / "everything.pt"))
    return torch.load(FILES / name, mmap=bool(mapped))


def test_every_dtype(everything):
    for name in DTYPES.split():
        found = everything[name]
        assert found.dtype is getattr(torch, name)
        assert found.tolist() == ([0, 1, 1, 1] if name == "bool" else [0, 1, 2, 1])


def test_views_share_their_storage(everything):
    base, turned, part, row = everything["views"]
    assert turned.shape == (6, 4) and turned.stride() == (1, 6)
    assert part.tolist() == [[6, 8, 10], [12, 14, 16]] and part.storage_offset() == 6
    base[2, 0] = 100
    assert turned[0, 2] == part[1, 0] == row[0] == 100


def test_geometry(everything):
    assert everything["expanded"].stride() == (0,) and everything["expanded"].tolist() == [1] * 5
    assert everything["empty"].shape == (0, 3) and everything["scalar"].item() == 3.5
    assert everything["meta"].device.type == "meta" and everything["meta"].shape == (2, 3)


def test_lazy_bits(everything):
    assert everything["conj"].is_conj() and everything["conj"].tolist() == [1 - 2j, 3 + 1j]
    assert everything["neg"].is_neg() and everything["neg"].tolist() == [-2]


def test_parameters_and_attributes(everything):
    assert everything["leaf"].requires_grad and everything["leaf"].is_leaf
    assert type(everything["parameter"]) is torch.nn.Parameter
    assert everything["parameter"].requires_grad
    with_attributes = everything["parameter with attributes"]
    assert type(with_attributes) is torch.nn.Parameter and not with_attributes.requires_grad
    assert (with_attributes.tag, with_attributes.number) == ("x", 3)
    assert everything["tensor with attributes"].notes == [1, 2]


def test_sparse(everything):
    dense = [[0, 1], [0, 0], [2, 0]]
    for name, coalesced in (("coo", False), ("coalesced", True)):
        found = everything[name]
        assert found.layout is torch.sparse_coo and found.is_coalesced() is coalesced
        assert found.to_dense().tolist() == dense
    for name in ("csr", "csc", "bsr", "bsc"):
        found = everything[name]
        assert str(found.layout) == f"torch.sparse_{name}"
        assert found.to_dense().tolist() == torch.eye(4).tolist()


def test_plain_values(everything):
    expected = [None, True, False, 1, -1, 2**40, 2**70, 1.5, "text", "é☃", b"bytes"]
    assert everything["values"] == expected
    more = [bytearray(b"xy"), {1, 2}, 1 + 2j, (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ()]
    assert everything["more"] == more
    assert [type(value) for value in everything["more"]] == [type(value) for value in more]
    dicts = everything["dicts"]
    assert type(dicts) is OrderedDict and dicts == {"a": 1, "b": {"c": {}}, "d": Counter("aab")}
    assert type(dicts["d"]) is Counter
    devices = [torch.device("cpu"), torch.device("cuda", 1)]
    assert everything["kinds"] == [torch.float16, *devices, torch.sparse_csr]
    assert type(everything["size"]) is torch.Size and everything["size"] == (1, 2)


def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


@pytest.mark.parametrize("name", ["training.pt", "training_old.pt"])
def test_training_goes_on(name):
    found = torch.load(FILES / name)
    model = network()
    model.load_state_dict(found["model"])
    assert type(found["model"]) is OrderedDict and found["model"]._metadata["0"] == {"version": 1}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.state[model[2].bias]["step"] == 1
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert optimizer.state[model[2].bias]["step"] == 2
    copied = again(optimizer.state_dict())
    assert copied["param_groups"] == optimizer.state_dict()["param_groups"]
    assert (
        copied["state"][3]["exp_avg"].tolist() == optimizer.state[model[2].bias]["exp_avg"].tolist()
    )


def test_whole_modules_when_trusted():
    model = torch.load(FILES / "module.pt", weights_only=False)
    assert isinstance(model, torch.nn.Sequential) and isinstance(model[0], torch.nn.Linear)
    assert model[0].weight[0].tolist() == pytest.approx([0, 0.1, 0.2])
    back = again(model, weights_only=False)
    assert back(torch.ones(1, 3)).tolist() == model(torch.ones(1, 3)).tolist()


def test_files_without_checksums():
    assert torch.load(FILES / "no_checksums.pt")["w"].tolist() == [1, 1]


# -- unknown classes -------------------------------------------------------------------------------


def test_unknown_classes_are_refused_and_shown():
    with pytest.raises(pickle.UnpicklingError, match=r"safe: shapes\.Point\..*add_safe_globals"):
        torch.load(FILES / "unknown.pt")
    found = torch.serialization.load_inert(FILES / "unknown.pt")
    assert found["w"].tolist() == [1, 1]
    point = found["point"]
    assert isinstance(point, Inert) and repr(point) == "<inert shapes.Point>"
    assert (point.args, point.state) == ((), {"x": 1})
    assert torch.serialization.get_unsafe_globals_in_checkpoint(FILES / "unknown.pt") == [
        "shapes.Point"
    ]


class Point:
    pass


def test_classes_that_a_program_allows():
    with torch.serialization.safe_globals([(Point, "shapes.Point")]):
        assert torch.serialization.get_safe_globals() == [(Point, "shapes.Point")]
        point = torch.load(FILES / "unknown.pt")["point"]
    assert type(point) is Point and point.x == 1
    assert torch.serialization.get_safe_globals() == []
    torch.serialization.add_safe_globals([(Point, "shapes.Point")])
    assert type(torch.load(FILES / "unknown.pt")["point"]) is Point
    torch.serialization.clear_safe_globals()
    with pytest.raises(CheckpointError, match="Weights only load failed"):
        torch.load(FILES / "unknown.pt")


def test_whole_modules_need_trust_or_vouching():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    classes = [torch.nn.Sequential, torch.nn.Linear, torch.nn.ReLU]
    for file in (written(model), FILES / "module.pt"):
        with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
            torch.load(file)
        if not isinstance(file, Path):
            file.seek(0)
        with torch.serialization.safe_globals(classes):
            found = torch.load(file)
        assert isinstance(found, torch.nn.Sequential) and isinstance(found[0], torch.nn.Linear)
        assert found(torch.ones(1, found[0].in_features)).shape[0] == 1


def test_old_names_of_builtins_are_known():
    with torch.serialization.safe_globals([range]):
        assert again(range(3)) == range(3)


@pytest.mark.parametrize("entry, error", [((Point, "a", "b"), ValueError), ((Point, 1), TypeError)])
def test_bad_entries_are_refused(entry, error):
    with pytest.raises(error, match="Expected"):
        torch.serialization.add_safe_globals([entry])


class Tagged(torch.Tensor):
    pass


def test_subclasses():
    tagged = torch.ones(2).as_subclass(Tagged)
    tagged.tag = "x"
    with pytest.raises(CheckpointError, match="Tagged"):
        again(tagged)
    record = torch.serialization.load_inert(written(tagged))
    assert isinstance(record, Inert) and record.args[0].tolist() == [1, 1]
    assert record.state == {"tag": "x"}
    with torch.serialization.safe_globals([Tagged]):
        found = again(tagged)
    assert type(found) is Tagged and found.tag == "x"
    trusted = again(tagged, weights_only=False)
    assert type(trusted) is Tagged and trusted.tag == "x"


def test_blocked_modules_stay_blocked():
    body = b"\x80\x02cos\nsystem\n(X\x01\x00\x00\x00xtR."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", body)
    with torch.serialization.safe_globals([(os.system, "os.system")]):
        with pytest.raises(CheckpointError, match=r"os\.system"):
            torch.load(io.BytesIO(file.getvalue()))
        found = torch.serialization.load_inert(io.BytesIO(file.getvalue()))
        assert isinstance(found, Inert)


# -- writing ---------------------------------------------------------------------------------------


def test_shared_storages_are_written_once():
    base = torch.arange(1000.0)
    file = written([base, base[10:20], base.view(10, 100), base.detach()])
    names = zipfile.ZipFile(file).namelist()
    assert [name for name in names if "/data/" in name] == ["archive/data/0"]
    file.seek(0)
    first, part, square, _ = torch.load(file)
    first[10] = -1
    assert part[0] == -1 and square[0, 10] == -1


def test_the_same_object_stays_the_same():
    tensor, inner = torch.ones(2), [1]
    found = again({"a": tensor, "b": tensor, "c": inner, "d": inner})
    assert found["a"] is found["b"] and found["c"] is found["d"]


def test_equal_objects_make_equal_files():
    obj = {"a": torch.ones(2), "b": [1, "x"]}
    assert written(obj).getvalue() == written(obj).getvalue()


def test_archives_are_aligned_and_whole():
    archive = zipfile.ZipFile(written({str(n): torch.ones(n) for n in range(5)}))
    assert archive.testzip() is None
    for entry in archive.infolist():
        header = archive.fp.seek(entry.header_offset) and archive.fp.read(30)
        if header:
            sizes = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
            assert (entry.header_offset + 30 + sum(sizes)) % 64 == 0


def test_pickles_use_only_opcodes_that_torch_reads():
    obj = torch.load(FILES / "everything.pt")
    pickle_ = zipfile.ZipFile(written(obj)).read("archive/data.pkl")
    known = (
        "PROTO GLOBAL BINPUT LONG_BINPUT BINGET LONG_BINGET BINUNICODE BININT BININT1 BININT2 "
        "LONG1 BINFLOAT NONE NEWTRUE NEWFALSE EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST "
        "APPEND APPENDS EMPTY_DICT SETITEM SETITEMS MARK REDUCE BUILD NEWOBJ BINPERSID STOP"
    )
    found = {operation.name for operation, _, _ in pickletools.genops(pickle_)}
    assert found <= set(known.split())
    names = {arg for operation, arg, _ in pickletools.genops(pickle_) if operation.name == "GLOBAL"}
    assert not any("rushlight" in name for name in names)


def test_protocols():
    for protocol in range(2, 6):
        found = torch.load(written([torch.ones(2), {"a": 1}], pickle_protocol=protocol))
        assert found[0].tolist() == [1, 1] and found[1] == {"a": 1}


def test_files_that_can_only_be_written_to():
    class Sink:
        def __init__(self):
            self.parts = []

        def write(self, data):
            self.parts.append(bytes(data))

    sink = Sink()
    torch.save(torch.ones(3), sink)
    assert torch.load(io.BytesIO(b"".join(sink.parts))).tolist() == [1, 1, 1]


def test_storages():
    tensor = torch.tensor([1.0, 2.0])
    found = again(tensor.storage())
    assert found.dtype is torch.float32 and found.tolist() == [1, 2]
    assert again(tensor.untyped_storage()).tolist() == list(tensor.numpy().tobytes())


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(AttributeError, match="'write'"):
        torch.save(1, 3)
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        torch.save(1, tmp_path / "missing" / "x.pt")
    path = tmp_path / "kept.pt"
    torch.save(1, path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        torch.save(lambda: 1, path)
    assert torch.load(path) == 1


def test_numpy_values():
    values = {"f": np.float64(2.5), "i": np.int64(3), "a": np.arange(6).reshape(2, 3)}
    found = again(values)
    assert type(found["f"]) is np.float64 and found["f"] == 2.5 and found["i"] == 3
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert again(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]


# -- reading ---------------------------------------------------------------------------------------


def test_paths_and_positions(tmp_path):
    path = tmp_path / "x.pt"
    for target in (path, str(path)):
        torch.save([1], target)
        assert torch.load(target) == [1]
    file = io.BytesIO(b"before")
    file.seek(0, io.SEEK_END)
    torch.save([2], file)
    file.seek(6)
    assert torch.load(file) == [2]
    old = (FILES / "training_old.pt").read_bytes()
    file = io.BytesIO(b"before" + old + old + b"behind")
    file.seek(6)
    for _ in range(2):
        assert torch.load(file)["epoch"] == 3
    assert file.read() == b"behind"


def test_files_that_only_read():
    class Plain:
        def __init__(self, data):
            self.file = io.BytesIO(data)
            self.read, self.seek, self.tell = self.file.read, self.file.seek, self.file.tell

    assert torch.load(Plain(written(torch.ones(3)).getvalue())).tolist() == [1, 1, 1]
    with pytest.raises(AttributeError, match="seekable"):
        torch.load(object())


def test_mapped_files_are_not_changed(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.zeros(4), path)
    before = path.read_bytes()
    found = torch.load(path, mmap=True)
    found += 1
    assert found.tolist() == [1] * 4
    assert path.read_bytes() == before and torch.load(path).tolist() == [0] * 4


def test_what_cannot_be_mapped():
    with pytest.raises(ValueError, match="f must be a file path"):
        torch.load(written(1), mmap=True)
    with pytest.raises(CheckpointError, match="mmap can only be used"):
        torch.load(FILES / "training_old.pt", mmap=True)


def on_cuda():
    raw = written(torch.ones(2)).getvalue()
    body = zipfile.ZipFile(io.BytesIO(raw)).read("archive/data.pkl")
    there = body.replace(b"\x03\x00\x00\x00cpu", b"\x06\x00\x00\x00cuda:0")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", there)
        archive.writestr("archive/data/0", torch.ones(2).numpy().tobytes())
    file.seek(0)
    return file


def test_map_location():
    with pytest.raises(CheckpointError, match="map_location=torch.device\\('cpu'\\)"):
        torch.load(on_cuda())
    seen = []

    def choose(storage, location):
        seen.append((storage.nbytes(), location))
        return storage

    for place in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, choose):
        assert torch.load(on_cuda(), map_location=place).tolist() == [1, 1]
    assert seen == [(8, "cuda:0")]
    with pytest.raises(CheckpointError, match="CUDA"):
        torch.load(on_cuda(), map_location=lambda storage, location: None)
    with pytest.raises(CheckpointError, match="CUDA"):
        torch.load(on_cuda(), map_location={"cuda:1": "cpu"})
    with pytest.raises(TypeError, match="storage or None"):
        torch.load(on_cuda(), map_location=lambda storage, location: 3)
    with pytest.raises(KeyError, match="cuda:0"):
        torch.load(on_cuda(), map_location=lambda storage, location: {}[location])
    for place in ("meta", torch.device("meta"), {"cuda:0": "meta"}):
        assert torch.load(on_cuda(), map_location=place).device.type == "meta"


def test_packages_restore_their_locations(monkeypatch):
    from rushlight.io import places

    monkeypatch.setattr(places, "PACKAGES", list(places.PACKAGES))
    torch.serialization.register_package(
        5, lambda storage: None, lambda storage, place: storage if place == "cuda:0" else None
    )
    assert torch.load(on_cuda()).tolist() == [1, 1]


def with_entry(name, content):
    """A file of two int32 and two complex64, with another entry."""
    raw = written([torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1 + 2j, 3j])])
    source = zipfile.ZipFile(raw)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for entry in source.namelist():
            if entry != "archive/byteorder":
                archive.writestr(entry, source.read(entry))
        if name:
            archive.writestr(name, content)
    file.seek(0)
    return file


def test_byte_order():
    numbers, complexes = torch.load(with_entry("archive/byteorder", b"big"))
    assert numbers.tolist() == [1 << 24, 2 << 24]
    raw = complexes.numpy().view(np.float32).byteswap().view(np.complex64)
    assert raw.tolist() == [1 + 2j, 3j]
    orders = torch.serialization.LoadEndianness
    try:
        for order, first in ((orders.BIG, 1 << 24), (orders.LITTLE, 1), (None, 1)):
            torch.serialization.set_default_load_endianness(order)
            assert torch.serialization.get_default_load_endianness() is order
            assert torch.load(with_entry("", b""))[0][0] == first
    finally:
        torch.serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="LoadEndianness"):
        torch.serialization.set_default_load_endianness("big")


def test_errors_are_those_that_torch_raises():
    for kind in (pickle.UnpicklingError, RuntimeError):
        with pytest.raises(kind, match="not a valid checkpoint"):
            torch.load(io.BytesIO(b"nonsense"))
    with pytest.raises(FileNotFoundError):
        torch.load("/no/such/file.pt")
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        torch.load(written(1), weights_only=True, pickle_module=pickle)
    with pytest.raises(CheckpointError, match="safetensors"):
        torch.load(io.BytesIO(b'\x10\0\0\0\0\0\0\0{"__metadata__":{}}'))
    with pytest.raises(CheckpointError, match="empty"):
        torch.load(io.BytesIO())


def test_settings_of_the_module():
    module = torch.serialization
    storage = torch.ones(2).untyped_storage()
    assert module.location_tag(storage) == "cpu"
    assert module.default_restore_location(storage, "cpu") is storage
    assert module.default_restore_location(storage, "meta").device.type == "meta"
    with pytest.raises(RuntimeError, match="don't know how to restore"):
        module.default_restore_location(storage, "xla")
    with module.set_default_mmap_options(module.get_default_mmap_options()):
        pass
    with pytest.raises(NotImplementedError, match="MAP_SHARED"):
        module.set_default_mmap_options(mmap.MAP_SHARED)
    with pytest.raises(ValueError, match="Invalid argument"):
        module.set_default_mmap_options(77)
    module.set_crc32_options(False)
    assert module.get_crc32_options() is True


def test_damage_is_found():
    raw = bytearray(written(torch.arange(100.0)).getvalue())
    raw[700] ^= 1
    with pytest.raises(CheckpointError, match="checksum"):
        torch.load(io.BytesIO(raw))


def test_loading_is_not_part_of_importing():
    code = "import sys, rushlight; print([m for m in sys.modules if m.startswith('rushlight.io')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "[]"


def test_mutated_files():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from fuzz_checkpoints import fuzz
    finally:
        sys.path.remove(str(ROOT / "tools"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes, complaints, _ = fuzz(2000, seed=3)
    assert complaints == []
    assert len(outcomes) == 6


def test_saving_to_an_open_file_reaches_the_disk(tmp_path):
    with open(tmp_path / "x.pt", "wb") as file:
        torch.save(torch.ones(2), file)
        assert torch.load(tmp_path / "x.pt").tolist() == [1, 1]


def test_the_format_before_the_zip_archive_is_written(tmp_path):
    x = torch.arange(6.0).view(2, 3)
    file = tmp_path / "old.pt"
    given = {"a": x, "b": [x.t(), 1], "e": torch.empty(0)}
    torch.save(given, file, _use_new_zipfile_serialization=False)
    assert file.read_bytes()[:4] == b"\x80\x02\x8a\n"
    found = torch.load(file)
    assert torch.equal(found["a"], x) and found["b"][1] == 1 and found["e"].shape == (0,)
    assert found["b"][0].data_ptr() == found["a"].data_ptr()
    buffer = io.BytesIO()
    torch.save([x], buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer)[0], x)
    with pytest.raises(RuntimeError, match="different types"):
        torch.save([x, x.view(torch.int32)], io.BytesIO(), _use_new_zipfile_serialization=False)


def test_memory_of_no_elements_has_no_dtype_in_old_files():
    x, file = torch.tensor([]), io.BytesIO()
    torch.save([x, x.view(torch.int32)], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [tensor.dtype for tensor in torch.load(file)] == [torch.float32, torch.int32]


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def bare(value):
            return value.inner if isinstance(value, Wrapped) else value

        found = func(*[bare(value) for value in args], **(kwargs or {}))
        return Wrapped(found) if isinstance(found, torch.Tensor) else found


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize("wrap", [Wrapped, lambda value: value.as_subclass(Marked)])
@pytest.mark.parametrize("as_parameter", [False, True])
def test_tensors_of_other_classes_stay_what_they_are(wrap, as_parameter):
    given = wrap(torch.arange(6.0).reshape(2, 3).t())
    given = torch.nn.Parameter(given) if as_parameter else given
    file = io.BytesIO()
    torch.save(given, file)
    for options in ({"weights_only": True}, {"weights_only": False}):
        file.seek(0)
        with torch.serialization.safe_globals([Wrapped, Marked]):
            found = torch.load(file, **options)
        assert type(found) is type(given) and found.stride() == (1, 3)
        assert isinstance(found, torch.nn.Parameter) is as_parameter
        assert found.requires_grad is as_parameter
        plain = found.inner if isinstance(found, Wrapped) else found
        assert plain.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_parameters_are_of_classes_that_know_how_to_detach():
    class Unwraps(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*[getattr(value, "inner", value) for value in args])

    with pytest.raises(RuntimeError, match=r"requires that detach\(\) returns an instance of the"):
        torch.nn.Parameter(Unwraps(torch.ones(2)))


class Slotted(torch.Tensor):
    __slots__ = ("held",)


class Told(torch.Tensor):
    def __getstate__(self):
        return ("told", self.held)

    def __setstate__(self, state):
        self.held = [*state]


@pytest.mark.parametrize("cls", [Slotted, Told])
def test_slots_and_states_of_classes_are_kept(cls):
    given = torch.ones(2).as_subclass(cls)
    given.held, file = "more", io.BytesIO()
    if cls is Slotted:
        given.other = 3
    torch.save(given, file)
    for options in ({"weights_only": True}, {"weights_only": False}):
        file.seek(0)
        with torch.serialization.safe_globals([cls]):
            found = torch.load(file, **options)
        if cls is Slotted:
            assert found.held == "more" and found.other == 3 and "held" not in found.__dict__
        else:
            assert found.held == ["told", "more"]


def test_older_files_are_written_to_the_end(tmp_path):
    with open(tmp_path / "older", "wb") as file:
        torch.save(torch.ones(2), file, _use_new_zipfile_serialization=False)
        assert torch.load(tmp_path / "older").tolist() == [1.0, 1.0]


def test_memory_is_written_with_one_dtype():
    values = torch.ones(2, dtype=torch.complex64)
    for given in ([values, values.imag], [values.storage(), values.real], [values.imag, values]):
        with pytest.raises(RuntimeError, match="view the same data as different types"):
            torch.save(given, io.BytesIO())
    torch.save([values, values[1:]], io.BytesIO())


def test_the_environment_decides_about_trust(monkeypatch):
    file = io.BytesIO()
    torch.save(Counted(), file)

    def load(**options):
        file.seek(0)
        return torch.load(file, **options)

    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(CheckpointError, match="Weights only load failed"):
        load(weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "yes")
    with pytest.raises(RuntimeError, match="Only one of"):
        load()
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert type(load()) is Counted
    with pytest.raises(CheckpointError, match="Weights only load failed"):
        load(weights_only=True)


class Counted:
    pass
