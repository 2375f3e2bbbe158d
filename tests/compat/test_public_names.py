"""The table of torch's public names: it tells the truth, and most of them are there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rushlight.base.errors import MissingFeature
from rushlight.base.lazy import namespace
from rushlight.base.reasons import REASONS
from rushlight.base.refusals import is_refused, refused

# What may not be less: names that work, and those that work or refuse, of a hundred.
WORKS, ANSWERS = 87, 100


@pytest.fixture(scope="module")
def table():
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "doctor", "--names", "--json"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_most_names_work_or_refuse(table):
    counts = {
        word: sum(len(row[word]) for row in table.values())
        for word in ("works", "refuses", "missing")
    }
    every = sum(counts.values())
    assert every == 4078
    assert 100 * counts["works"] >= WORKS * every
    assert 100 * (counts["works"] + counts["refuses"]) >= ANSWERS * every


def test_modules_list_only_what_they_have(table):
    code = """
import importlib, json, sys
import rushlight.compat
rushlight.compat.install()
bad = []
for path in json.load(sys.stdin):
    try:
        module = importlib.import_module(path)
    except ImportError:
        continue
    for name in dir(module):
        try:
            getattr(module, name)
        except Exception as error:
            bad.append((path, name, repr(error)))
print(json.dumps(bad))
"""
    paths = [path for path in table if path != "torch.Tensor"]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(paths), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(paths) > 300 and json.loads(done.stdout.splitlines()[-1]) == []


def test_every_refused_name_raises_its_code_when_it_is_used(table):
    """Using one raises; a class that refuses may still be subclassed and asked about."""
    code = """
import importlib, json, sys
import rushlight.compat
rushlight.compat.install()
from rushlight.compat.publicnames import owner_of
bad = []
for path, names in json.load(sys.stdin).items():
    for name in names:
        value = getattr(owner_of(path), name)
        if "__refusal__" not in value.__dict__:
            continue
        try:
            value()
        except Exception as error:
            if getattr(error, "code", None) != value.__refusal__:
                bad.append((path, name, repr(error)))
        else:
            bad.append((path, name, "returned"))
        if isinstance(value, type):
            class Sub(value, option=1): pass
            assert not isinstance(object(), value)
print(bad)
"""
    refusing = {path: row["refuses"] for path, row in table.items()}
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(refusing), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("torch.nn.Linear", "works"), ("torch.quasirandom.SobolEngine", "works"),
        ("torch.cuda.is_available", "works"), ("torch.cuda.CUDAGraph", "refuses"),
        ("torch.distributed.fsdp.MixedPrecision", "works"),
        ("torch.distributed.fsdp.FullyShardedDataParallel", "refuses"),
        ("torch.utils.cpp_extension.load", "refuses"),
        ("torch.Tensor.add", "works"), ("torch.Tensor.q_scale", "works"), ("torch.dtype", "works"),
        ("torch.no_such_name", "missing"), ("torch.no_such_module.x", "missing"),
    ],
)  # fmt: skip
def test_states(path, state):
    code = (
        "import rushlight.compat; rushlight.compat.install()\n"
        "from rushlight.compat.publicnames import state_of\n"
        f"print(state_of(*{path.rpartition('.')[::2]!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == state, done.stderr


def test_functions_that_only_raise_are_told_from_those_that_may_return():
    def raises(x):
        raise ValueError(x)

    def may_raise(x):
        if x:
            raise ValueError(x)

    def calls(x):
        print(x)

    class Unmakeable:
        def __new__(cls):
            raise TypeError

    assert (
        is_refused(raises) and is_refused(Unmakeable) and is_refused(refused("torch.a.b", "RL0011"))
    )
    assert not is_refused(may_raise) and not is_refused(calls) and not is_refused(int)


def test_a_namespace_lists_what_it_refuses(monkeypatch):
    from types import ModuleType

    module = ModuleType("a_namespace_of_tests")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    find, listed = namespace(module.__name__, refused={"RL0011": "Device run"})
    assert {"Device", "run"} <= set(listed())
    assert isinstance(find("Device"), type)
    with pytest.raises(MissingFeature, match=r"a_namespace_of_tests.run .*RL0011"):
        find("run")(1, 2, a=3)
    assert find("run") is refused("a_namespace_of_tests.run", "RL0011")
    assert "RL0011" in REASONS


def test_switches_of_the_compiler_that_have_one_value_say_what_to_set():
    from rushlight.compiler import config

    assert config.dynamic_shapes is True
    config.dynamic_shapes = True
    with pytest.raises(MissingFeature, match="automatic_dynamic_shapes"):
        config.dynamic_shapes = False
    with pytest.raises(MissingFeature), config.patch(force_disable_caches=True):
        pass
    assert config.force_disable_caches is False


def test_words_of_the_launcher():
    from rushlight.distributed import run

    assert run.parse_min_max_nnodes("4") == (4, 4)
    assert run.parse_min_max_nnodes("1:4") == (1, 4)
    with pytest.raises(RuntimeError, match="MIN:MAX"):
        run.parse_min_max_nnodes("1:2:3")
    assert run.determine_local_world_size("3") == 3
    with pytest.raises(ValueError, match="Unsupported nproc_per_node value: many"):
        run.determine_local_world_size("many")
    options = run.parse_args(["--master-addr", "here", "--master-port", "29", "script.py"])
    assert run.get_rdzv_endpoint(options) == "here:29"
    assert run.get_use_env(options)


def test_all_classes_of_results_are_listed():
    code = """
import rushlight.compat
rushlight.compat.install()
import torch
found = torch.return_types.all_return_types
print(len(found), torch.return_types.max in found, all(issubclass(each, tuple) for each in found))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["67", "True", "True"], done.stderr


def test_packages_of_code_and_data_are_refused_when_they_are_used():
    code = """
import rushlight.compat
rushlight.compat.install()
from torch.package import PackageExporter, PackageImporter
try:
    PackageImporter("model.pt")
except NotImplementedError as error:
    print(error.code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "RL0001", done.stderr
