"""Entries are data: reading one imports and executes nothing that it names."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.aot import api, cache
from rushlight.aot.api import make_options
from rushlight.aot.cache import AOTAutogradCache
from rushlight.aot.compilation import compile_traced, trace_flat
from rushlight.aot.compilers import nop
from rushlight.aot.encoding import Reader
from rushlight.core.fake import FakeTensorMode
from tests.aot import test_opset
from tests.aot.caching import (
    aten,
)

pytestmark = pytest.mark.usefixtures("folder")


INJECTED = "x): pass\nimport hostile_canary\ndef forward(self, y"


def sample_entry():
    graph = fx.Graph()
    a = graph.placeholder("a")
    graph.output((graph.call_function(aten.mul.Tensor, (a, 2.0)),))
    module = fx.GraphModule(torch.nn.Module(), graph)
    args = [torch.ones(3, requires_grad=True)]
    traced = api.trace_flat(lambda *given: module(*given), args, make_options(nop), 0)
    return json.loads(cache.encoded(traced, {}))


def speaking_module(text):
    """A graph that, asked how it prints, would answer with `text`."""
    speaker = {"name": "S", "attributes": [], "nodes": [
        ["output", "output", "output", {"tuple": [text]}, {"dict": []}, {}, False],
    ]}  # fmt: skip
    body = {"tuple": [None]}
    return {"graph": {
        "name": "G",
        "attributes": [["_custom_fx_repr_fn", {"graph": speaker}]],
        "nodes": [
            ["f", "get_attr", "_custom_fx_repr_fn", {"tuple": []}, {"dict": []}, {}, False],
            ["output", "output", "output", body, {"dict": []}, {}, False],
        ],
    }}  # fmt: skip


def hostile_entries():
    """(what it tries, the entry)"""

    def node(entry, kind):
        return next(n for n in entry["forward"]["graph"]["nodes"] if n[1] == kind)

    def change(what, do):
        entry = sample_entry()
        do(entry)
        return what, json.dumps(entry).encode()

    call = "call_function"
    targets = [
        {"op": ["os", "system", "default"]},
        {"op": ["aten", "mul", "__class__"]},
        {"op": ["aten", "mul", "_schema"]},
        {"op": ["hostile_canary", "op", "default"]},
        {"operator": "__import__"},
        {"operator": "eval"},
        {"hop": "hostile_canary"},
        {"function": ["os", "system"]},
        {"class": ["rushlight.core.parameter", "Parameter"]},
        "hostile_canary.run",
    ]
    for target in targets:
        yield change(f"call {target}", lambda e, t=target: node(e, call).__setitem__(2, t))
    for place in (0, 2):
        yield change("name", lambda e, p=place: node(e, "placeholder").__setitem__(p, INJECTED))
    yield change("node name", lambda e: node(e, call).__setitem__(0, INJECTED))
    yield change("node kind", lambda e: node(e, call).__setitem__(1, "call_module"))
    yield change("method", lambda e: node(e, call).__setitem__(1, "call_method"))
    yield change("keyword", lambda e: node(e, call).__setitem__(4, {"dict": [[INJECTED, 1]]}))
    yield change(
        "attribute", lambda e: e["forward"]["graph"]["attributes"].append([INJECTED, None])
    )
    tensor = {"tensor": ["float32", [1], "AACAPw=="]}
    for name in ("__class__", "forward", "_modules", "hostile_canary\n"):
        yield change(
            f"attribute {name}",
            lambda e, n=name: e["forward"]["graph"]["attributes"].append([n, tensor]),
        )
    text = "__import__('hostile_canary')"
    arguments = [
        speaking_module(text),
        {"record": ["GradGuard", {"plain": text}]},
        {"view": [{"op": ["aten", "mul", "Tensor"]}, {"tuple": []}, None]},
        {"class": ["hostile_canary", "Thing"]},
        {"reduce": ["os.system", "true"]},
        {"attribute": "__class__.__init__.__globals__"},
        {"bytes": "00"},
    ]
    for argument in arguments:
        yield change(
            f"argument {argument}",
            lambda e, a=argument: node(e, call)[3]["tuple"].append(a),
        )
    yield change("record", lambda e: e.__setitem__("facts", {"record": ["Popen", {}]}))
    yield change("facts", lambda e: e.__setitem__("facts", {"class": ["subprocess", "Popen"]}))
    yield change("wrapper", lambda e: e["wrappers"].append({"class": ["hostile_canary", "W"]}))
    yield change("field", lambda e: e["facts"]["record"][1].__setitem__("__class__", 1))
    yield "deep", b"[" * 100_000
    yield "pickle", pickle.dumps(Path)
    yield "python", b"__import__('hostile_canary')"


HOSTILE = """
    import sys
    from pathlib import Path
    import rushlight
    from rushlight.aot import cache
    from rushlight.aot.encoding import Reader
    from rushlight.core.fake import FakeTensorMode
    from rushlight.nn import Module

    folder = Path(sys.argv[1])
    sys.path.insert(0, str(folder))
    bodies = [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.entry"))]
    good = (folder / "good").read_bytes()
    def read(body):
        cache.ENTRIES.write("a" * 64, body)
        return cache.AOTAutogradCache.lookup("a" * 64, Reader(FakeTensorMode(), Module(), 0))[0]
    assert read(good) is not None

    watched = False
    seen = []
    EVENTS = ("import", "exec", "compile", "os.system", "subprocess.Popen", "os.exec", "pickle")
    def hook(event, args):
        if watched and event.startswith(EVENTS):
            if event == "import" and str(args[0]).startswith("rushlight."):
                return
            seen.append((event, str(args)[:200]))
    sys.addaudithook(hook)
    for name, body in bodies:
        watched = True
        found = read(body)
        watched = False
        assert found is None, name
        assert not seen, (name, seen)
    assert "hostile_canary" not in sys.modules
    watched = True
    read(good).forward(rushlight.ones(3))
    watched = False
    assert any(event == "exec" for event, _ in seen)
    print(len(bodies))
"""


def test_hostile_entries_import_and_execute_nothing(tmp_path, folder):
    (tmp_path / "hostile_canary.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "good").write_bytes(json.dumps(sample_entry()).encode())
    bodies = list(hostile_entries())
    for number, (_, body) in enumerate(bodies):
        (tmp_path / f"{number:03}.entry").write_bytes(body)
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(HOSTILE))
    root = str(Path(torch.__file__).parents[1])
    variables = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(folder), "PYTHONPATH": root}
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.stderr, run.stdout) == ("", f"{len(bodies)}\n")


def test_random_changes_of_an_entry_are_refused_or_read():
    """Whatever is in an entry with the right checksum, reading ends in a result or in none."""
    import random

    draw = random.Random(0)
    body = json.dumps(sample_entry()).encode()
    refused = 0
    for _ in range(300):
        data = bytearray(body)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(32, 127)
        cache.ENTRIES.write("b" * 64, bytes(data))
        reader = Reader(FakeTensorMode(), torch.nn.Module(), 0)
        found, place = AOTAutogradCache.lookup("b" * 64, reader)
        assert place == "b" * 64
        refused += found is None
    assert refused > 100


@pytest.mark.parametrize("number", range(4))
def test_graphs_of_ops_come_back_as_they_were(number, monkeypatch):
    """Of every tenth op with a sample: traced, written, read, and then compared with eager."""
    texts = []

    def compile_read(function, args, options, number):
        traced = trace_flat(function, args, options, number)
        body = cache.encoded(traced, {})
        found = cache.decoded(body, Reader(FakeTensorMode(), torch.nn.Module(), number))
        assert cache.encoded(found, {}) == body
        for graph, read in ((traced.forward, found.forward), (traced.backward, found.backward)):
            if graph is not None:
                assert readable(read) == readable(graph)
                texts.append(read.code)
        return compile_traced(found, options, number)

    def readable(graph):
        return graph.print_readable(print_output=False)

    monkeypatch.setattr(api, "compile_flat", compile_read)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in test_opset.OPS[number * 10 :: 40]:
            if "unwritten" in op.options:
                continue
            for case in test_opset.samples_of(op, torch.float64)[:1]:
                problem = test_opset.difference(op, case, "aot")
                assert not problem or test_opset.is_refusal(op, problem), (op, problem)
    assert len(texts) > 20
