"""Files made to hurt whoever reads them, in classes; the same bytes every time.

`cases()` yields them; `read_hostile.py` reads them under an audit hook.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
SYSTEM = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}


@dataclass
class Case:
    kind: str
    name: str
    data: bytes
    # "refused": a CheckpointError must come; "read": an object must come; "any": either.
    expect: str = "any"
    reader: str = "checkpoint"


# -- pickles, opcode by opcode ---------------------------------------------------------------------


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if len(raw) < 256:
        return b"\x8a" + bytes([len(raw)]) + raw
    return b"\x8b" + struct.pack("<i", len(raw)) + raw


def value_of(value: object) -> bytes:
    """Opcodes of a plain value; bytes are opcodes already."""
    if isinstance(value, bytes):
        return value
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, tuple):
        return b"(" + b"".join(value_of(entry) for entry in value) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(value_of(entry) for entry in value) + b"e"
    raise TypeError(value)


def call(module: str, attribute: str, *args: object) -> bytes:
    return name(module, attribute) + value_of(args) + b"R"


def whole(body: bytes, protocol: int = 2) -> bytes:
    return b"\x80" + bytes([protocol]) + body + b"."


NO_HOOKS = call("collections", "OrderedDict")


def storage(
    kind: object = "FloatStorage", key: object = "0", location: object = "cpu", count: object = 4
) -> bytes:
    kind_name = name("torch", kind) if isinstance(kind, str) else value_of(kind)
    return value_of(("storage", kind_name, key, location, count)) + b"Q"


def tensor(
    stored: bytes | None = None,
    offset: object = 0,
    size: object = (2, 2),
    stride: object = (2, 1),
    wants: object = False,
    *rest: object,
) -> bytes:
    stored = storage() if stored is None else stored
    args = (stored, offset, size, stride, wants, NO_HOOKS, *rest)
    return call("torch._utils", "_rebuild_tensor_v2", *args)


# -- archives --------------------------------------------------------------------------------------

FLOATS = struct.pack("<4f", 1, 2, 3, 4)
LONGS = struct.pack("<4q", 0, 1, 2, 1)


def archive(
    body: bytes,
    storages: dict[str, bytes] | None = None,
    extra: dict[str, bytes] | None = None,
    method: int = zipfile.ZIP_STORED,
) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        entries = {"a/data.pkl": body, "a/byteorder": b"little", "a/version": b"3\n"}
        for key, content in ({"0": FLOATS, "1": LONGS} if storages is None else storages).items():
            entries[f"a/data/{key}"] = content
        for entry, content in {**entries, **(extra or {})}.items():
            made.writestr(zipfile.ZipInfo(entry), content, method)
    return file.getvalue()


def stream(
    body: bytes,
    keys: object = ("0",),
    data: bytes | None = None,
    head: tuple[object, ...] = (MAGIC, PROTOCOL, SYSTEM),
) -> bytes:
    parts = [pickle.dumps(entry, 2) for entry in head]
    if data is None:
        data = struct.pack("<q", 4) + FLOATS
    listed = list(keys) if isinstance(keys, tuple) else keys
    return b"".join([*parts, body, pickle.dumps(listed, 2), data])


def old_storage(count: object = 4, part: object = None) -> bytes:
    pid = ("storage", name("torch", "FloatStorage"), "0", "cpu", count, part)
    return value_of(pid) + b"Q"


# -- the classes -----------------------------------------------------------------------------------

Bodies = Iterator[tuple[str, bytes]]


def opcodes() -> Bodies:
    for code in range(256):
        if chr(code) not in "NK)]}" or code > 127:
            yield f"alone-{code:02x}", bytes([code])
    for code in b"RbaseuoQ\x81\x90\x91\x92\x93td12":
        yield f"numbers-{code:02x}", b"(K\x01K\x02K\x03" + bytes([code])
        yield f"mark-{code:02x}", b"K\x01(" + bytes([code])
    system = name("os", "system")
    command = text("touch /tmp/hostile")
    yield "reduce", system + command + b"\x85R"
    yield "inst", b"(" + command + b"ios\nsystem\n"
    yield "obj", b"(" + system + command + b"o"
    yield "newobj", system + command + b"\x85\x81"
    yield "newobj-ex", system + command + b"\x85}\x92"
    yield "newobj-ex-keywords", system + b")}(" + text("command") + command + b"u\x92"
    yield "build", system + b")R}(" + text("__class__") + command + b"ub"
    yield "build-slots", system + b")RN}(" + text("__dict__") + command + b"u\x86b"
    yield "extension-1", b"\x82\x01"
    yield "extension-2", b"\x83\x01\x00"
    yield "extension-4", b"\x84\x01\x00\x00\x00"
    yield "persid-text", b"Pstorage\n"
    yield "persid-number", b"K\x01Q"
    yield "persid-name", system + b"Q"
    yield "next-buffer", b"\x97"
    yield "readonly-buffer", b"\x97\x98"
    yield "call-number", b"K\x01)R"
    yield "call-type-of-storage", name("torch", "FloatStorage") + b")R"
    yield "call-dtype", name("torch", "float32") + b")R"
    yield "call-tensor-class", name("torch", "Tensor") + b"(K\x04tR"
    yield "call-parameter-class", name("torch.nn.parameter", "Parameter") + b")\x81"
    yield "args-not-tuple", name("collections", "OrderedDict") + b"]R"
    yield "protocol", b"\x80\xff"
    yield "frame", b"\x95" + b"\xff" * 8
    yield "string-without-quotes", b"Sabc\n"
    yield "string-escape", b"S'\\N{DIGIT ONE}'\n"
    yield "unicode-escape", b"V\\u12\n"
    yield "utf-8", b"X\x02\x00\x00\x00\xff\xfe"
    yield "integer", b"I12x\n"
    yield "integer-digits", b"I" + b"9" * 100_000 + b"\n"
    yield "long-digits", b"L" + b"9" * 100_000 + b"L\n"
    yield "float-digits", b"F" + b"9" * 100_000 + b"\n"
    yield "float", b"Fx\n"


DANGEROUS = """
    os system|posix system|nt system|subprocess Popen|builtins eval|builtins exec|builtins getattr
    |builtins __import__|builtins open|builtins compile|__builtin__ eval|__builtin__ apply
    |importlib import_module|runpy run_path|marshal loads|types CodeType|types FunctionType
    |functools partial|operator attrgetter|operator methodcaller|copyreg _reconstructor
    |copy_reg _reconstructor|pickle loads|_pickle loads|ctypes CDLL|socket socket|webbrowser open
    |shutil rmtree|pathlib Path|pip main|code interact|bdb Bdb|pdb run|timeit timeit|cProfile run
    |numpy load|numpy.f2py.crackfortran myeval|numpy.testing._private.utils runstring
    |numpy.core.multiarray fromfile|torch load|torch.hub load|torch.jit load
    |torch.utils.cpp_extension load_inline|torch._utils _import_dotted_name
    |torch.serialization load|torch.storage _load_from_bytes|torch._tensor _rebuild_from_type
    |torch.serialization os.system|torch._utils _rebuild_tensor_v2.__globals__
    |collections OrderedDict.__init__.__globals__|numpy.core os|rushlight.io.checkpoint os.system
    |torch os|torch sys.modules|torch __builtins__|torch.os system|sys modules|sys exit|os  system
    |OS system|collections ordereddict|torch._utils  _rebuild_tensor_v2|torch Float16Storage
""".replace("\n    |", "|").strip()


def names() -> Bodies:
    for pair in DANGEROUS.split("|"):
        module, _, attribute = pair.partition(" ")
        yield f"call {pair}", call(module, attribute, "touch /tmp/hostile")
    yield "stack-global", text("os") + text("system") + b"\x93" + text("x") + b"\x85R"
    yield "stack-global-number", b"K\x01K\x02\x93"
    yield "stack-global-bytes", b"C\x02osC\x06system\x93"
    yield "stack-global-list", b"]]\x93"
    yield "empty", b"c\n\n"
    yield "nul", name("os\0", "system") + b")R"
    yield "long", name("a" * 100_000, "b" * 100_000)
    yield "not-text", b"c\xff\n\xfe\n"
    yield (
        "memo-confusion",
        text("os")
        + b"q\x00"
        + text("path")
        + b"q\x010h\x00"
        + text("system")
        + b"\x93"
        + text("x")
        + b"\x85R",
    )
    yield (
        "memo-swap",
        name("collections", "OrderedDict")
        + b"q\x000"
        + name("os", "system")
        + b"q\x000h\x00"
        + text("x")
        + b"\x85R",
    )
    yield "name-as-argument", call("builtins", "list", [name("os", "system")])
    yield "name-in-tensor", tensor(name("os", "system"))
    yield "from-type", call(
        "torch._tensor", "_rebuild_from_type_v2", name("os", "system"), name("torch", "Tensor"),
        ("x",), b"}",
    )  # fmt: skip
    yield "from-type-class", call(
        "torch._tensor", "_rebuild_from_type_v2", name("torch._utils", "_rebuild_tensor_v2"),
        name("os", "system"), (storage(), 0, (2,), (1,), False, NO_HOOKS), b"}",
    )  # fmt: skip


def containers() -> Bodies:
    targets = {
        "list": b"]", "dict": b"}", "tuple": b")", "set": b"\x8f", "text": text("x"),
        "number": b"K\x01", "none": b"N", "tensor": tensor(), "class": name("os", "system"),
        "ordered": NO_HOOKS, "size": call("torch", "Size", (1, 2)), "bytes": b"C\x01x",
        "device": call("torch", "device", "cpu"), "dtype": name("torch", "float32"),
        "frozenset": b"(\x91", "storage": storage(), "function": name("torch", "Size"),
    }  # fmt: skip
    writes = {
        "append": b"K\x01a", "appends": b"(K\x01K\x02e", "setitem": b"K\x00K\x01s",
        "setitems": b"(K\x00K\x01u", "additems": b"(K\x01\x90", "build": b"}b", "odd": b"(K\x01u",
    }  # fmt: skip
    for target, made in targets.items():
        for write, code in writes.items():
            yield f"{write}-{target}", made + code
    for key in ("list", "dict", "set", "tensor", "function"):
        yield f"key-{key}", b"}" + targets[key] + b"Ns"
        yield f"member-{key}", b"\x8f(" + targets[key] + b"\x90"
        yield f"tuple-key-{key}", b"}" + targets[key] + b"\x85Ns"
        yield f"set-of-{key}", call("builtins", "set", [targets[key]])
        yield f"ordered-{key}", call("collections", "OrderedDict", [[targets[key], 1]])
    yield "bad-pairs", call("collections", "OrderedDict", [[1, 2, 3]])
    yield "ordered-of-text", call("collections", "OrderedDict", "ab")
    yield "counter-of-list", call("collections", "Counter", [1, 2])
    yield "counter-of-texts", call("collections", "Counter", b"}" + text("a") + text("b") + b"s")


def storage_lies() -> Bodies:
    for count in (5, 1 << 20, 1 << 40, 1 << 62, 1 << 70, 1 << 600, -1, -4, 1.5, "4", None, [4]):
        yield f"count-{str(count)[:24]}", tensor(storage(count=count))
    yield "count-true", tensor(storage(count=True), size=(1,), stride=(1,))
    for key in ("9", "", "../0", "/etc/passwd", "0\0", "\ud800", "x" * 10_000, None, 1.0, (0,), 7):
        raw = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
        named = text(raw) if isinstance(raw, bytes) else raw
        yield f"key-{str(key)[:12]!a}", tensor(storage(key=named))
    for location in ("cuda:0", "xla", "", "cpu:x", "/dev/sda", "meta:1", 3, None, "c" * 10_000):
        yield f"location-{str(location)[:12]}", tensor(storage(location=location))
    for kind in ("Tensor", "float32", "Storage", "NoStorage"):
        yield f"kind-{kind}", tensor(storage(kind))
    yield "kind-text", tensor(storage(text("FloatStorage")))
    yield "kind-none", tensor(storage(None))
    yield "wider", tensor(storage("DoubleStorage"))
    yield "two-lengths", b"(" + tensor(storage(count=1), 0, (1,), (1,)) + tensor() + b"t"
    yield "two-kinds", b"(" + tensor() + tensor(storage("ComplexDoubleStorage")) + b"t"
    yield "id-short", value_of(("storage", "x")) + b"Q"
    yield (
        "id-long",
        value_of(("storage", name("torch", "FloatStorage"), "0", "cpu", 4, 5, 6)) + b"Q",
    )
    yield "id-other", value_of(("file", name("torch", "FloatStorage"), "0", "cpu", 4)) + b"Q"
    yield "id-list", value_of(["storage", name("torch", "FloatStorage"), "0", "cpu", 4]) + b"Q"
    yield "id-empty", b")Q"
    yield (
        "part-outside",
        value_of(("storage", name("torch", "FloatStorage"), "0", "cpu", 4, ("1", 3, 2))) + b"Q",
    )
    yield (
        "part-negative",
        value_of(("storage", name("torch", "FloatStorage"), "0", "cpu", 4, ("1", -1, 2))) + b"Q",
    )


def tensor_lies() -> Bodies:
    for offset in (1, 4, -1, 1 << 62, 1 << 70, "0", None, 0.0, False):
        yield f"offset-{offset}", tensor(offset=offset)
    geometries: dict[str, tuple[object, object]] = {
        "size-large": ((3, 2), (2, 1)), "stride-large": ((2, 2), (3, 1)),
        "stride-negative": ((2, 2), (-2, 1)), "size-negative": ((-1, 2), (2, 1)),
        "size-huge": ((1 << 62, 1 << 62), (0, 0)), "size-huge-1": ((1 << 61, 4), (0, 0)),
        "stride-huge": ((2,), (1 << 61,)), "stride-beyond": ((2,), (1 << 70,)),
        "size-wraps": ((1 << 32, 1 << 32), (1 << 32, 1)), "ranks-differ": ((2, 2), (1,)),
        "rank-65": ((1,) * 65, (1,) * 65), "rank-9999": ((1,) * 9999, (1,) * 9999),
        "size-text": (("2",), (1,)), "size-float": ((2.0,), (1,)), "size-none": (None, (1,)),
        "size-bool": ((True,), (1,)), "size-nested": (((2,),), (1,)), "size-number": (2, 1),
        "empty-huge": ((0, 1 << 61, 1 << 61), (1, 1, 1)), "size-class": (name("os", "x"), (1,)),
    }  # fmt: skip
    for label, (size, stride) in geometries.items():
        yield label, tensor(size=size, stride=stride)
    yield "empty-offset", tensor(offset=5, size=(0,), stride=(1,))
    yield "conj-float", tensor(None, 0, (2,), (1,), False, b"}" + text("conj") + b"\x88s")
    yield "metadata-list", tensor(None, 0, (2,), (1,), False, [1])
    yield "metadata-class", tensor(None, 0, (2,), (1,), False, name("os", "system"))
    yield "few-arguments", call("torch._utils", "_rebuild_tensor_v2", storage(), 0)
    yield "many-arguments", tensor(None, 0, (2,), (1,), False, None, 1, 2, 3)
    yield "no-storage", tensor(b"N")
    yield "tensor-as-storage", tensor(tensor())
    yield (
        "v3-without-dtype",
        call(
            "torch._utils",
            "_rebuild_tensor_v3",
            storage(),
            0,
            (2,),
            (1,),
            False,
            NO_HOOKS,
            "float32",
        ),
    )
    yield "v3-wider", call(
        "torch._utils", "_rebuild_tensor_v3", storage(), 0, (4,), (1,), False, NO_HOOKS,
        name("torch", "float64"),
    )  # fmt: skip
    meta = ("torch._utils", "_rebuild_meta_tensor_no_storage")
    yield "meta-huge", call(*meta, name("torch", "int8"), (1 << 40, 1 << 40), (1, 1), False)
    yield "meta-ranks", call(*meta, name("torch", "int8"), (1, 2), (1,), False)
    yield "meta-dtype", call(*meta, "int8", (1,), (1,), False)
    parameter = ("torch._utils", "_rebuild_parameter")
    yield "parameter-number", call(*parameter, 1, True, NO_HOOKS)
    yield "parameter-class", call(*parameter, name("os", "system"), True, NO_HOOKS)
    for attribute in ("data", "grad", "__class__", "_array", "__dict__", "shape", "1x", "a b", ""):
        state = b"}" + text(attribute) + text("x") + b"s"
        yield (
            f"attribute-{attribute}",
            call("torch._utils", "_rebuild_parameter_with_state", tensor(), True, NO_HOOKS, state),
        )
    yield "attribute-number", tensor() + b"}K\x01K\x02sb"
    yield "attribute-slots", tensor() + b"}}" + text("_array") + b"Ns\x86b" + b"}K\x01Nsb"
    yield "state-tuple", tensor() + value_of((storage(), 0, (9,), (9,))) + b"b"
    yield "from-type-ordered", call(
        "torch._tensor", "_rebuild_from_type_v2", name("collections", "OrderedDict"),
        name("torch", "Tensor"), (), b"}",
    )  # fmt: skip
    yield "from-type-number", call(
        "torch._tensor", "_rebuild_from_type_v2", name("torch._utils", "_rebuild_tensor_v2"), 3,
        (storage(), 0, (2,), (1,), False, NO_HOOKS), b"}",
    )  # fmt: skip


def indices(size: object = (1, 2), stride: object = (2, 1), offset: int = 0) -> bytes:
    return tensor(storage("LongStorage", "1"), offset, size, stride)


def sparse_lies() -> Bodies:
    coo = call("torch.serialization", "_get_layout", "torch.sparse_coo")
    csr = call("torch.serialization", "_get_layout", "torch.sparse_csr")
    bsc = call("torch.serialization", "_get_layout", "torch.sparse_bsc")
    dense = call("torch.serialization", "_get_layout", "torch.strided")
    two = tensor(size=(2,), stride=(1,))

    def made(layout: object, *parts: object) -> bytes:
        return call("torch._utils", "_rebuild_sparse_tensor", layout, parts)

    yield "beyond", made(coo, indices(offset=1), two, (2,), False)
    yield "not-in-order", made(coo, indices(offset=2), two, (3,), True)
    yield "count", made(coo, indices((1, 3), (3, 1)), two, (9,), False)
    yield "rank", made(coo, indices(), two, (2, 2, 2), False)
    yield "float-indices", made(coo, tensor(size=(1, 2)), two, (9,), False)
    yield "size-negative", made(coo, indices(), two, (-2,), False)
    yield "size-huge", made(coo, indices((2, 2)), two, (1 << 40, 1 << 40), False)
    yield "size-text", made(coo, indices(), two, "2", False)
    wide = indices((1, 1 << 40), (0, 0))
    yield "expanded", made(coo, wide, tensor(size=(1 << 40,), stride=(0,)), (9,), False)
    yield "expanded-values", made(coo, indices(), tensor(size=(2, 1 << 40), stride=(0, 0)), (2, 9))
    yield "part-number", made(coo, 1, 2, (2,), False)
    yield "part-parameter", made(coo, indices(), name("os", "system"), (2,), False)
    yield "part-sparse", made(coo, indices(), made(coo, indices(), two, (2,), False), (2,), False)
    yield "few-parts", made(coo, indices())
    yield "many-parts", made(coo, indices(), two, (2,), False, 1, 2)
    yield "layout-text", made("torch.sparse_coo", indices(), two, (2,), False)
    yield "layout-strided", made(dense, indices(), two, two, (2,))
    yield "layout-unknown", call("torch.serialization", "_get_layout", "torch.system")
    yield "layout-number", call("torch.serialization", "_get_layout", 3)
    ends, plain = indices((3,), (1,)), indices((2,), (1,))
    yield "csr-beyond", made(csr, ends, indices((2,), (1,), 1), two, (2, 2))
    yield "csr-rows", made(csr, ends, plain, two, (5, 5))
    yield "csr-ends", made(csr, indices((3,), (1,), 1), plain, two, (2, 2))
    yield "csr-huge", made(csr, ends, plain, two, (1 << 61, 1 << 61))
    yield "csr-expanded", made(csr, indices((1 << 40,), (0,)), plain, two, ((1 << 40) - 1, 2))
    yield "csr-few", made(csr, ends, plain, two)
    yield "bsc-blocks", made(bsc, ends, plain, two, (2, 2))


def recursion() -> Bodies:
    deep = 60_000
    yield "tuples", b")" + b"\x85" * deep
    yield "lists", b"]" * deep + b"a" * (deep - 1)
    yield "dicts", b"}" + b"}" * deep + b""
    yield "dict-chain", b"}" + b"K\x00}" * (deep // 2) + b"s" * (deep // 2)
    yield "inert-chain", name("a", "b") + b"q\x00" + b")R" + b"\x85q\x010h\x00h\x01R" * (deep // 8)
    yield "inert-states", name("a", "b") + b")R" * 1 + (b"ca\nb\n)R" * 9000) + b"b" * 9000
    yield "inert-lists", (b"ca\nb\n" * 9000) + b"a" * 8999
    yield "marks", b"(" * deep + b"t" * deep
    yield "list-of-itself", b"]q\x00h\x00a"
    yield "dict-of-itself", b"}q\x00K\x00h\x00s"
    yield "tuple-of-itself", b"]q\x00h\x00\x85a"
    yield "key-deep", b"}" + b")" + b"\x85" * deep + b"Ns"
    yield "key-doubling", b"})" + b"q\x00h\x00\x86" * 60 + b"Ns"
    yield "member-doubling", b"\x8f()" + b"q\x00h\x00\x86" * 60 + b"\x90"
    yield "frozenset-deep", b")" + b"q\x000(h\x00\x91\x85" * 3000
    yield "frozenset-doubling", b")" + (b"q\x000(h\x00\x91q\x01h\x01\x86" * 60) + b"q\x000}h\x00Ns"
    yield (
        "set-of-doubling",
        b")" + b"q\x00h\x00\x86" * 60 + b"q\x000" + name("builtins", "set") + b"](h\x00e\x85R",
    )
    rebuild = name("torch._utils", "_rebuild_parameter") + b"q\x050"
    again = b"q\x000h\x05(h\x00\x88NtR"
    yield "parameters", rebuild + tensor() + again * 3000
    attributes = tensor() + b"q\x00" + (b"}" + text("a") + b"h\x00sb") * 3000
    yield "attributes-of-itself", attributes
    chain = tensor() + b"".join(
        b"q\x000" + tensor() + b"}" + text("a") + b"h\x00sb" for _ in range(800)
    )
    yield "attribute-chain", chain
    size = name("torch", "Size") + b"q\x000)" + b"\x85q\x010h\x00h\x01R" * 2000
    yield "sizes", size
    yield (
        "from-type-nested",
        b")"
        + (b"q\x000" + name("torch._tensor", "_rebuild_from_type_v2") + b"q\x01(h\x01h\x01h\x00}t")
        * 2000
        + b"R",
    )


def bombs() -> Bodies:
    many = 15_000
    yield "laughs", b"]" + b"q\x00](h\x00h\x00h\x00h\x00e" * 200
    yield "sets", b"\x8f" * 250_000 + b"(1"
    yield "lists", b"]" * 300_000
    yield "dicts", b"}" * 300_000
    yield "marks-and-tuples", b"(t" * 100_000
    pairs = value_of([["a", 1]] * 1000) + b"q\x000"
    ordered = name("collections", "OrderedDict") + b"q\x010"
    yield "ordered-again", pairs + ordered + b"h\x01h\x00\x85R" * many
    yield "ordered-empty", ordered + b"h\x01)R" * many
    long_text = text("x" * 100_000) + b"q\x000"
    encode = name("_codecs", "encode") + b"q\x010"
    yield "encode-again", long_text + encode + b"h\x01h\x00\x85R" * many
    numbers = value_of(list(range(2000))) + b"q\x000"
    for maker in ("list", "tuple", "set", "frozenset"):
        made = name("builtins", maker) + b"q\x010"
        yield f"{maker}-again", numbers + made + b"h\x01h\x00\x85R" * many
        yield f"{maker}-dropped", numbers + made + b"h\x01h\x00\x85R0" * many
    raw = b"B" + struct.pack("<I", 100_000) + bytes(100_000) + b"q\x000"
    yield (
        "bytearray-again",
        raw + name("builtins", "bytearray") + b"q\x010" + (b"h\x01h\x00\x85R" * many),
    )
    yield "arguments-again", b"(" + b"K\x01" * 50_000 + b"tq\x000" + ordered + b"h\x01h\x00R" * many
    wide = b"}(" + b"".join(text(f"a{n}") + b"N" for n in range(3000)) + b"uq\x020"
    yield "attributes-again", tensor() + wide + b"h\x02b" * many
    prime = (1 << 61) - 1
    yield (
        "keys-collide",
        b"}(" + b"".join(number(n * prime) + b"N" for n in range(1, 20_000)) + b"u",
    )
    yield (
        "members-collide",
        b"\x8f(" + b"".join(number(n * prime) for n in range(1, 20_000)) + b"\x90",
    )
    yield "set-collides", call("builtins", "set", [n * prime for n in range(1, 20_000)])
    yield (
        "ordered-collides",
        call("collections", "OrderedDict", [[n * prime, 0] for n in range(1, 10_000)]),
    )
    make = name("builtins", "complex") + b"q\x000"
    complexes = b"".join(
        b"h\x00" + value_of((float(-1000003 * n), float(n))) + b"RN" for n in range(1, 10_000)
    )
    yield "complex-collide", make + b"}(" + complexes + b"u"
    long_key = b"(" + b"K\x01" * 4000 + b"tq\x000"
    yield "long-key-again", long_key + b"}" + b"h\x00Ns" * many
    yield "memo-jumps", b"N" + b"".join(b"r" + struct.pack("<I", n * 7919) for n in range(30_000))
    yield "memo-huge", b"Np" + b"9" * 4000 + b"\n"
    yield "memo-negative", b"Np-1\n"
    yield "memoize", b"N" + b"\x94" * 200_000
    yield "names", b"".join(name("m", f"n{n}") for n in range(30_000))
    yield "calls", name("m", "n") + b"q\x000" + b"h\x00)R" * 60_000
    yield "bytes-8", b"\x8e" + struct.pack("<Q", 1 << 62)
    yield "bytearray-8", b"\x96" + struct.pack("<Q", 1 << 40)
    yield "unicode-8", b"\x8d" + struct.pack("<Q", 1 << 63)
    yield "unicode-4", b"X" + struct.pack("<I", 0xFFFFFFFF)
    yield "binstring-negative", b"T" + struct.pack("<i", -5)
    yield "long-4", b"\x8b" + struct.pack("<i", 0x7FFFFFFF)
    yield "long-4-large", number(1 << 400_000)
    yield "long-4-negative", b"\x8b" + struct.pack("<i", -1)
    yield "expanded", tensor(size=(1 << 50,), stride=(0,))
    yield (
        "parameter-expanded",
        call(
            "torch._utils",
            "_rebuild_parameter",
            tensor(size=(1 << 50,), stride=(0,)),
            True,
            NO_HOOKS,
        ),
    )
    stored = storage() + b"q\x000" + name("torch._utils", "_rebuild_tensor_v2") + b"q\x010"
    hooks = NO_HOOKS + b"q\x020K\x04\x85q\x030K\x01\x85q\x040"
    yield "tensors", stored + hooks + b"h\x01(h\x00K\x00h\x03h\x04\x89h\x02tR" * 8000
    long_array = b"B" + struct.pack("<I", 100_000) + bytes(100_000)
    u1 = call("numpy", "dtype", "u1", False, True)
    state = value_of((1, (100_000,), u1, False, long_array)) + b"q\x000"
    made = call("numpy._core.multiarray", "_reconstruct", name("numpy", "ndarray"), (0,), "b")
    yield "array-again", state + made + b"h\x00b" * many
    coo = call("torch.serialization", "_get_layout", "torch.sparse_coo")
    parts = (indices((1, 9000), (0, 0)), tensor(size=(9000,), stride=(0,)), (2,), False)
    arguments = value_of((coo, parts)) + b"q\x000"
    rebuild = name("torch._utils", "_rebuild_sparse_tensor") + b"q\x010"
    yield "sparse-again", arguments + rebuild + b"h\x01h\x00R" * many
    pid = ("storage", name("torch", "FloatStorage"), "0", "cpu", 4)
    yield "references", value_of(pid) + b"q\x000" + b"h\x00Q" * 60_000
    yield "integers", b"I1\n" * 50_000
    yield "wide-text", text("\U0001f600" + "x" * 200_000) * 3


def values() -> Bodies:
    dtype = ("numpy", "dtype")
    f8 = call(*dtype, "f8", False, True)
    scalar = ("numpy._core.multiarray", "scalar")
    for kind in (
        "O",
        "V8",
        "U9",
        "S5",
        "M8",
        "f16",
        "f999999999",
        "b1,f8",
        "",
        "(9,9)f8",
        "f" * 9999,
    ):
        yield f"dtype-{kind[:12]}", call(*scalar, call(*dtype, kind, False, True), text("x"))
    yield "dtype-number", call(*dtype, 3)
    yield "dtype-list", call(*dtype, [("a", "f8")])
    yield "dtype-state", f8 + value_of((3, "!", None, None, None, -1, -1, 0)) + b"b"
    yield "dtype-state-short", f8 + value_of((3,)) + b"b"
    yield "dtype-state-names", f8 + value_of((3, "<", None, ("a",), None, -1, -1, 0)) + b"b"
    yield "scalar-short", call(*scalar, f8, b"C\x04abcd")
    yield "scalar-text", call(*scalar, f8, "abcdefgh")
    yield "scalar-long", call(*scalar, f8, b"B\x00\x01\x00\x00" + bytes(256))
    yield "scalar-class", call(*scalar, name("os", "system"), b"C\x08abcdefgh")
    empty = call(
        "numpy._core.multiarray", "_reconstruct", name("numpy", "ndarray"), (0,), b"C\x01b"
    )
    states: dict[str, tuple[object, ...]] = {
        "short": (1, (2,), f8, False, b"C\x08abcdefgh"),
        "huge": (1, (1 << 40,), f8, False, b"C\x00"), "negative": (1, (-1,), f8, False, b"C\x00"),
        "class": (1, (1,), name("os", "x"), False, b"N"),
        "object": (1, (1,), call(*dtype, "O", False, True), False, [1]), "few": (1, 2),
        "overflow": (1, (1 << 61, 1 << 61), f8, False, b"C\x00"), "text": (1, "1", f8, False, "x"),
    }  # fmt: skip
    for label, state in states.items():
        yield f"array-{label}", empty + value_of(state) + b"b"
    yield (
        "array-of-class",
        call("numpy._core.multiarray", "_reconstruct", name("os", "system"), (0,), b"C\x01b"),
    )
    yield "ndarray-called", name("numpy", "ndarray") + value_of(((1 << 40,),)) + b"R"
    yield "encode-codec", call("_codecs", "encode", "x", "rot13")
    yield "encode-codec-zip", call("_codecs", "encode", "x", "zlib_codec")
    yield "encode-number", call("_codecs", "encode", 3)
    yield "encode-wide", call("_codecs", "encode", "\u1234")
    yield "bytearray-size", call("builtins", "bytearray", 1 << 40)
    yield "bytearray-codec", call("builtins", "bytearray", "x", "idna")
    yield "complex-text", call("builtins", "complex", "1" * 1000)
    yield "complex-class", call("builtins", "complex", name("os", "x"))
    yield "slice-text", call("builtins", "slice", "a")
    yield "slice-class", call("builtins", "slice", name("os", "system"))
    yield "list-of-number", call("builtins", "list", 1 << 40)
    yield "list-of-text", call("builtins", "list", "x" * 1000)
    yield "tuple-of-dict", call("builtins", "tuple", b"}")
    for device in ("cpu:-1", "cpu:99999999999", "system", "", "c" * 9999, "cuda:x", "\0"):
        yield f"device-{device[:12]!a}", call("torch", "device", device)
    yield "device-number", call("torch", "device", 1)
    yield "device-index", call("torch", "device", "cuda", -1)
    yield "device-index-huge", call("torch", "device", "cuda", 1 << 40)
    yield "size-huge", call("torch", "Size", (1 << 70,))
    yield "size-text", call("torch", "Size", "12")
    yield "size-long", call("torch", "Size", (1,) * 10_000)
    yield "version", call("torch.torch_version", "TorchVersion", name("os", "system"))


# -- whole files -----------------------------------------------------------------------------------


def patched(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]


def zips() -> Iterator[Case]:
    body = whole(tensor())
    good = archive(body)
    first = good.index(b"PK\x01\x02")
    end = good.index(b"PK\x05\x06")

    def case(label: str, data: bytes, expect: str = "refused") -> Case:
        return Case("zip", label, data, expect)

    for cut in (3, 4, 29, 30, 100, first, first + 45, end, end + 21, len(good) - 1):
        yield case(f"cut-{cut}", good[:cut])
    yield case("deflated", archive(body, method=zipfile.ZIP_DEFLATED))
    bomb = archive(body, {"0": bytes(30 << 20)}, method=zipfile.ZIP_DEFLATED)
    yield case("bomb", bomb)
    yield case("bzip2", archive(body, method=zipfile.ZIP_BZIP2))
    yield case("lzma", archive(body, method=zipfile.ZIP_LZMA))
    yield case("prefix", b"MZ" + good)
    yield case("prefix-zip", archive(body, {}) + good)
    yield case("suffix", good + b"x" * 100)
    yield case("suffix-zip", good + archive(whole(b"N"), {}))
    yield case("checksum", good.replace(FLOATS, FLOATS[:-1] + b"\x7f"))
    flipped = good.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v1")
    yield case("checksum-pickle", flipped)
    yield case("two-names", patched(good, good.index(b"a/data.pkl"), b"a/data.pkx"))
    yield case("twice", good.replace(b"a/data/1", b"a/data/0"))
    yield case("no-pickle", archive(body).replace(b"a/data.pkl", b"a/date.pkl"))
    yield case("no-folder", archive(body).replace(b"a/", b"a_"))
    yield case("other-folder", archive(body).replace(b"a/byteorder", b"b/byteorder"), "any")
    yield case("traversal", archive(body, extra={"../../etc/passwd": b"x", "/abs": b"y"}), "any")
    yield case("folder-traversal", archive(body).replace(b"a/data", b"./data"), "any")
    yield case("script", archive(body, extra={"a/constants.pkl": b"x"}))
    yield case("byteorder", archive(body, extra={"a/byteorder": b"middle"}))
    yield case("byteorder-long", archive(body, extra={"a/byteorder": b"l" * 100_000}))
    yield case("byteorder-big", archive(body, extra={"a/byteorder": b"big"}), "read")
    untyped = storage(name("torch.storage", "UntypedStorage"), count=16)
    swapped = archive(whole(tensor(untyped)), extra={"a/byteorder": b"big"})
    yield case("byteorder-untyped", swapped)
    yield case("empty", b"PK\x05\x06" + bytes(18))
    yield case("only-header", b"PK\x03\x04" + bytes(100))
    yield case("many-ends", good[:-2] + struct.pack("<H", 65520) + b"PK\x05\x06" * 16380, "read")
    yield case("many-ends-true", good[:-2] + struct.pack("<H", 65520) + bytes(65520), "read")
    for label, place, form, wrong in (
        ("flags", first + 8, "<H", 1), ("method", first + 10, "<H", 8),
        ("packed", first + 20, "<I", 1 << 30), ("plain", first + 24, "<I", 1 << 30),
        ("name-size", first + 28, "<H", 60_000), ("extra-size", first + 30, "<H", 60_000),
        ("comment-size", first + 32, "<H", 60_000), ("offset", first + 42, "<I", 1 << 30),
        ("offset-inside", first + 42, "<I", 5), ("local-method", 8, "<H", 8),
        ("local-flags", 6, "<H", 1), ("local-name-size", 26, "<H", 60_000),
        ("local-extra-size", 28, "<H", 60_000), ("local-magic", 0, "<I", 7),
        ("disk", end + 4, "<H", 1), ("count", end + 10, "<H", 60_000), ("few", end + 10, "<H", 1),
        ("directory-size", end + 12, "<I", 1 << 30), ("directory", end + 16, "<I", 1 << 30),
        ("directory-start", end + 16, "<I", 0), ("comment", end + 20, "<H", 7),
        ("full-count", end + 10, "<H", 0xFFFF), ("full-offset", end + 16, "<I", 0xFFFFFFFF),
        ("full-size", first + 24, "<I", 0xFFFFFFFF),
    ):  # fmt: skip
        yield case(f"field-{label}", patched(good, place, struct.pack(form, wrong)))
    counts = struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    for label, fields in (
        ("end", (1 << 62, 7, 46, 322)), ("count", (end, 1 << 60, 46, first)),
        ("size", (end, 7, 1 << 63, first)), ("offset", (end, 7, end - first, 1 << 63)),
        ("itself", (end + 3, 7, end - first, first)),
    ):  # fmt: skip
        place, count, size, offset = fields
        record = b"PK\x06\x06" + struct.pack(
            "<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset
        )
        locator = b"PK\x06\x07" + struct.pack("<IQI", 0, place, 1)
        yield case(f"zip64-{label}", good[:end] + record + locator + b"PK\x05\x06" + counts)
    many = {str(n): b"" for n in range(5000)}
    yield case("many-entries", archive(body, many | {"0": FLOATS}), "read")
    shared = bytearray(archive(body))
    one, two = shared.index(b"a/data/0", first), shared.index(b"a/data/1", first)
    shared[two - 46 + 42 : two] = shared[one - 46 + 42 : one]
    yield case("overlap", bytes(shared))


def streams() -> Iterator[Case]:
    body = whole(tensor(old_storage()))

    def case(label: str, data: bytes, expect: str = "refused") -> Case:
        return Case("stream", label, data, expect)

    good = stream(body)
    yield case("good", good, "read")
    for cut in (1, 10, 15, 60, len(good) - 30, len(good) - 16, len(good) - 1):
        yield case(f"cut-{cut}", good[:cut])
    yield case("magic", stream(body, head=(MAGIC + 1, PROTOCOL, SYSTEM)))
    yield case("magic-text", stream(body, head=("magic", PROTOCOL, SYSTEM)))
    yield case("protocol", stream(body, head=(MAGIC, 9, SYSTEM)))
    yield case("system-list", stream(body, head=(MAGIC, PROTOCOL, [])))
    yield case("system-big", stream(body, head=(MAGIC, PROTOCOL, {"little_endian": False})))
    yield case("keys-number", stream(body, 3))
    yield case("keys-dict", stream(body, {"0": 1}))
    yield case("keys-unknown", stream(body, ("0", "9")))
    yield case("keys-twice", stream(body, ("0", "0"), (struct.pack("<q", 4) + FLOATS) * 2))
    yield case("keys-none", stream(body, ()))
    yield case("keys-nested", stream(body, ([],)))
    for count in (3, 5, -1, 1 << 40):
        yield case(f"header-{count}", stream(body, data=struct.pack("<q", count) + FLOATS))
    for count in (5, 1 << 40, 1 << 62, -1):
        yield case(f"count-{count}", stream(whole(tensor(old_storage(count)))))
    for part in (
        ("1", 3, 2),
        ("1", -1, 2),
        ("1", 0, 1 << 62),
        ("1", 0),
        3,
        (1, 0, 2),
        ("1", "0", 2),
    ):
        yield case(f"part-{part}"[:24], stream(whole(tensor(old_storage(4, part)))))
    two = b"(" + old_storage(4, ("1", 0, 2)) + old_storage(4, ("1", 0, 3)) + b"t"
    yield case("parts-differ", stream(whole(two)))
    both = b"(" + old_storage(4) + old_storage(2) + b"t"
    yield case("two-lengths", stream(whole(both)))
    module = value_of(("module", name("os", "system"), "x.py", "source")) + b"Q)R"
    yield case("module", stream(whole(module), ()), "read")
    yield case("system", stream(whole(call("os", "system", "x")), ()), "read")
    persistent = whole(old_storage())
    yield case("early-storage", b"".join((pickle.dumps(MAGIC, 2), persistent, good)))
    indices_ = value_of(("storage", name("torch", "LongStorage"), "0", "cpu", 2, None)) + b"Q"
    sparse = call(
        "torch._utils", "_rebuild_sparse_tensor",
        call("torch.serialization", "_get_layout", "torch.sparse_coo"),
        (tensor(indices_, 0, (1, 2), (2, 1)), tensor(indices_, 0, (2,), (1,)), (2,), False),
    )  # fmt: skip
    yield case("sparse", stream(whole(sparse), data=struct.pack("<qqq", 2, 7, 9)))
    yield case("deep", stream(whole(b")" + b"\x85" * 30_000), ()), "read")
    yield case("bomb", stream(whole(b"\x8f" * 300_000 + b"(1"), ()))
    yield case("tar", b"storages".ljust(257, b"\0") + b"ustar  \0" + bytes(4096))
    yield case("tar-old", b"pickle".ljust(512, b"\0") + bytes(4096))
    yield case("gzip", b"\x1f\x8b\x08" + zlib.compress(good))
    yield case("pickle", pickle.dumps({"a": 1}))
    yield case("pickle-system", whole(call("os", "system", "touch /tmp/hostile")))
    for label, data in (
        ("empty", b""), ("one", b"\x80"), ("zeros", bytes(5000)), ("text", b"Not found\n" * 50),
        ("html", b"<!DOCTYPE html><html>404"), ("png", b"\x89PNG\r\n\x1a\n" + bytes(64)),
        ("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
        ("safetensors", struct.pack("<Q", 16) + b'{"__metadata__":'), ("newlines", b"\n" * 9000),
        ("hdf", b"\x89HDF\r\n\x1a\n" + bytes(64)), ("marks", b"(" * 9000), ("stop", b"."),
    ):  # fmt: skip
        yield case(f"other-{label}", data)


def tensors_file(header: object, data: bytes = bytes(16), size: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if size is None else size) + raw + data


def safetensors() -> Iterator[Case]:
    def entry(kind: object = "F32", shape: object = (4,), place: object = (0, 16)) -> dict:
        return {"dtype": kind, "shape": shape, "data_offsets": place}

    def case(label: str, data: bytes, expect: str = "refused") -> Case:
        return Case("safetensors", label, data, expect, "safetensors")

    good = tensors_file({"a": entry()})
    yield case("good", good, "read")
    for cut in (0, 1, 7, 8, 9, 20, len(good) - 1):
        yield case(f"cut-{cut}", good[:cut])
    yield case("longer", good + b"x")
    for size in (0, 1, 1 << 20, 100_000_001, 1 << 40, (1 << 64) - 1):
        yield case(f"header-size-{size}", tensors_file({"a": entry()}, size=size))
    for kind in ("F33", "f32", "", None, 3, ["F32"], "O", "F4", "F64"):
        yield case(f"dtype-{kind}", tensors_file({"a": entry(kind)}))
    for shape in ((5,), (-4,), (4.0,), ("4",), (True,), 4, None, (1 << 62, 4), (1 << 63,), (2, 3),
                  (1,) * 65, ([4],),
                  (1 << 32, 1 << 32), (0, 1 << 61, 1 << 61), (10**30,)):  # fmt: skip
        yield case(f"shape-{str(shape)[:20]}", tensors_file({"a": entry(shape=shape)}))
    for place in ((0, 17), (1, 17), (16, 0), (-16, 0), (0,), (0, 8, 16), "0", None, (0.0, 16.0),
                  (0, 1 << 62), (1 << 63, (1 << 63) + 16), (4, 20)):  # fmt: skip
        yield case(f"place-{str(place)[:20]}", tensors_file({"a": entry(place=place)}))
    half = entry(shape=(2,), place=(0, 8))
    yield case("overlap", tensors_file({"a": half, "b": entry(shape=(3,), place=(4, 16))}))
    yield case("same", tensors_file({"a": half, "b": half, "c": entry(shape=(2,), place=(8, 16))}))
    yield case("hole", tensors_file({"a": half, "b": entry(shape=(1,), place=(12, 16))}))
    yield case("hole-end", tensors_file({"a": half}))
    yield case("hole-start", tensors_file({"a": entry(shape=(2,), place=(8, 16))}))
    yield case("no-tensors", tensors_file({}))
    yield case("no-tensors-no-data", tensors_file({}, b""), "read")
    one = json.dumps(entry())
    yield case("name-twice", tensors_file(b'{"a":%s,"a":%s}' % (one.encode(), one.encode())))
    fields = b'"shape":[4],"data_offsets":[0,16]'
    twice = b'{"a":{"dtype":"F32","dtype":"F32",' + fields + b"}}"
    yield case("field-twice", tensors_file(twice))
    yield case("field-more", tensors_file({"a": {**entry(), "x": 1}}))
    yield case("field-less", tensors_file({"a": {"dtype": "F32", "shape": [4]}}))
    yield case("entry-list", tensors_file({"a": [1, 2]}))
    yield case("list", tensors_file([1, 2]))
    yield case("text", tensors_file(b'"abc"'))
    yield case("number", tensors_file(b"12345678"))
    yield case("not-json", tensors_file(b"{" * 50))
    yield case("not-text", tensors_file(b'{"\xff\xfe":1}'))
    yield case("nan", tensors_file(b'{"a":NaN}'))
    yield case("space-first", tensors_file(b" " + json.dumps({"a": entry()}).encode()))
    yield case("space-last", tensors_file(json.dumps({"a": entry()}).encode() + b" " * 50), "read")
    yield case("junk-last", tensors_file(json.dumps({"a": entry()}).encode() + b"x"))
    yield case("nul-last", tensors_file(json.dumps({"a": entry()}).encode() + bytes(8)))
    yield case("metadata-list", tensors_file({"__metadata__": [1], "a": entry()}))
    yield case("metadata-number", tensors_file({"__metadata__": {"x": 1}, "a": entry()}))
    yield case("metadata-nested", tensors_file({"__metadata__": {"x": {"y": "z"}}, "a": entry()}))
    yield case("metadata", tensors_file({"__metadata__": {"x": "1"}, "a": entry()}), "read")
    yield case("deep", tensors_file(b"{" + b'"a":{' * 100_000))
    yield case("deep-lists", tensors_file(b'{"a":' + b"[" * 200_000))
    yield case("many-lists", tensors_file(b'{"a":[' + b"[]," * 300_000 + b"[]]}"))
    yield case("many-objects", tensors_file(b'{"a":[' + b"{}," * 300_000 + b"{}]}"))
    flat = b",".join(b'"%x":1' % n for n in range(150_000))
    yield case("many-names", tensors_file(b"{" + flat + b"}"))
    empty = entry(shape=(0,), place=(0, 0))
    yield case("many-empty", tensors_file({str(n): empty for n in range(5000)}, b""), "read")
    digits = b'{"a":{"dtype":"F32","shape":[' + b"9" * 100_000 + b'],"data_offsets":[0,16]}}'
    yield case("digits", tensors_file(digits))
    yield case("brackets-in-name", tensors_file({"[{[{[{[{[{:::": entry()}), "read")
    yield case("pickle", pickle.dumps({"a": 1}))
    yield case("zip", archive(whole(b"N")))


PICKLES: dict[str, tuple[Callable[[], Bodies], str]] = {
    "opcodes": (opcodes, "any"),
    "names": (names, "any"),
    "containers": (containers, "any"),
    "storage lies": (storage_lies, "refused"),
    "tensor lies": (tensor_lies, "refused"),
    "sparse lies": (sparse_lies, "refused"),
    "recursion": (recursion, "any"),
    "bombs": (bombs, "any"),
    "values": (values, "any"),
}


def cases() -> Iterator[Case]:
    for kind, (bodies, expect) in PICKLES.items():
        for label, body in bodies():
            yield Case(kind, label, archive(whole(body)), expect)
    for case in zips():
        yield case
        # Bytes that are mapped are not looked through.
        expect = "any" if case.name == "checksum" else case.expect
        yield replace(case, kind="mapped zip", reader="mapped", expect=expect)
    yield from streams()
    yield from safetensors()
