"""Packages: the program's results without compiler, other sizes, writes, damage, CPUs that lack."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.base.errors import CheckpointError
from rushlight.deploy import load_package, package, targets
from rushlight.deploy.targets import FEATURES, LEVELS, Target, best_target
from rushlight.export import Dim, export
from rushlight.symbolic.checks import check
from tests.export.zoo import ZOO, dims

SIZES = ((4, 6), (3, 6), (7, 11))
ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "tests" / "reference" / "export"


class Net(torch.nn.Module):
    """A bit of everything: products, loops, a view, a write, operators by their kernels."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.last = torch.nn.Linear(16, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        hidden = torch.nn.functional.gelu(self.norm(self.first(x)))
        return self.last(hidden).softmax(-1), x.t(), {"order": hidden.sum(1).sort()[0]}


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """A program, its module and the folder of its package."""
    torch.manual_seed(0)
    batch = Dim("batch", min=2, max=64)
    program = export(Net().eval(), (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    folder = tmp_path_factory.mktemp("net") / "package"
    package(program, folder, targets=("host", "x86-64-v3", "x86-64"))
    return program, folder


def assert_same(found, expected):
    one, other = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(one) == len(other)
    for here, there in zip(one, other):
        torch.testing.assert_close(here, there, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ZOO)
def test_models_give_the_same_at_all_sizes_on_every_target(name, tmp_path):
    torch.manual_seed(0)
    model, entry = ZOO[name].build(), ZOO[name]
    twin = copy.deepcopy(model)
    program = export(model, entry.inputs(4, 6), dynamic_shapes=entry.shapes(*dims()))
    path = package(program, tmp_path / "model.pt2", targets=("host", "x86-64"))
    cases = [entry.inputs(*each) for each in SIZES]
    expected = [twin(*copy.deepcopy(args)) for args in cases]
    for target in ("host", "x86-64"):
        loaded = load_package(path, target=target)
        for args, wanted in zip(cases, expected):
            assert_same(loaded(*copy.deepcopy(args)), wanted)


@pytest.mark.parametrize("path", sorted(REFERENCE.glob("*.pt2")), ids=lambda path: path.stem)
def test_programs_of_pytorch(path, tmp_path):
    program = torch.export.load(path)
    loaded = load_package(package(program, tmp_path / "package", targets=("host",)))
    args, kwargs = copy.deepcopy(program.example_inputs)
    expected = copy.deepcopy(program).module()(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    assert_same(loaded(*args, **kwargs), expected)


@pytest.mark.parametrize("target", [None, "x86-64-v3", "x86-64"])
def test_state_is_written_and_belongs_to_the_package(net, target):
    program, folder = net
    if target is not None and Target(target, LEVELS[target]).missing():
        pytest.skip("this CPU lacks instructions")
    loaded, other = load_package(folder, target=target), load_package(folder, target=target)
    x = torch.randn(5, 8)
    module = copy.deepcopy(program).module()
    for _ in range(3):
        assert_same(loaded(x), module(x))
    assert loaded.named_state()["calls"].item() == 3
    assert other.named_state()["calls"].item() == 0
    twin = copy.deepcopy(loaded)
    twin(x)
    assert [p.named_state()["calls"].item() for p in (loaded, twin)] == [3, 4]


def test_a_fresh_process_needs_no_compiler_and_starts_at_once(net, tmp_path):
    program, folder = net
    x = torch.randn(6, 8)
    torch.save((x, copy.deepcopy(program).module()(x)), tmp_path / "case.pt")
    code = """
import sys, time
import rushlight as torch
from rushlight.deploy import load_package
torch.ones(2) + 1
load_package
given, expected = torch.load(sys.argv[2])
times = []
for _ in range(1):
    start = time.perf_counter()
    loaded = load_package(sys.argv[1])
    found = loaded(given)
    times.append(time.perf_counter() - start)
torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
heavy = ("llvmlite", "sympy", "networkx", "mpmath")
print(times[0], *[name for name in heavy if name in sys.modules])
print(*[n for n in sys.modules if n.startswith("rushlight.") and n.split(".")[1] in BARRED])
""".replace("BARRED", repr(("aot", "capture", "compiler", "fx", "jit", "onnx", "nn")))
    best = 1e9
    for _ in range(3):
        command = [sys.executable, "-c", code, str(folder), str(tmp_path / "case.pt")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        elapsed, *loaded = first.split()
        assert not loaded
        assert not second
        best = min(best, float(elapsed))
    # 50 ms on an idle machine; others share this one.
    assert best < 0.2


def test_what_a_call_gets_is_checked(net):
    loaded = load_package(net[1])
    for args, text in (
        ((torch.ones(5, 7),), r"\*args\[0\]\.shape\[1\] to be equal to 8, but got 7"),
        ((torch.ones(65, 8),), r"\*args\[0\]\.shape\[0\] to be <= 64, but got 65"),
        ((torch.ones(5),), "Unexpected number of dimensions"),
        ((torch.ones(5, 8, dtype=torch.float64),), "to have dtype torch.float32"),
        ((3,), "to be a tensor"),
        ((), "structure"),
        ((torch.ones(5, 8), 1), "structure"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=text):
            loaded(*args)


def test_relations_of_sizes_and_keywords(tmp_path):
    class Two(torch.nn.Module):
        def forward(self, x, *, y, scale: float = 2.0):
            return x + y[1:] * scale

    n = Dim("n", min=2, max=30)
    program = export(
        Two(),
        (torch.ones(4, 3),),
        {"y": torch.ones(5, 3), "scale": 2.0},
        dynamic_shapes={"x": {0: n}, "y": {0: n + 1}, "scale": None},
    )
    loaded = load_package(package(program, tmp_path / "two"))
    x, y = torch.randn(7, 3), torch.randn(8, 3)
    assert_same(loaded(x, scale=2.0, y=y), x + y[1:] * 2)
    with pytest.raises(RuntimeError, match="shape"):
        loaded(x, y=x, scale=2.0)
    with pytest.raises(RuntimeError, match=r"equal to 2\.0"):
        loaded(x, y=y, scale=3.0)


def test_inputs_are_written_and_memory_is_shared_as_in_the_module(tmp_path):
    class Writes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("seen", torch.zeros(3), persistent=False)

        def forward(self, ids, out):
            value = self.embedding(ids).sum(0)
            self.seen.add_(value)
            out.mul_(2).add_(value)
            return self.head(value), out, self.seen * 1

    torch.manual_seed(1)
    model = Writes()
    program = export(model, (torch.tensor([1, 2, 0]), torch.ones(3)))
    loaded = load_package(package(copy.deepcopy(program), tmp_path / "w.zip"))
    module = program.module()
    for _ in range(3):
        ids = torch.tensor([4, 0, 2])
        one, other = torch.arange(3.0), torch.arange(3.0)
        assert_same(loaded(ids, one), module(ids, other))
        torch.testing.assert_close(one, other)
    state = loaded.named_state()
    assert state["embedding.weight"].data_ptr() == state["head.weight"].data_ptr()


def test_strides_that_are_not_the_example_s(net):
    program, folder = net
    loaded, module = load_package(folder), copy.deepcopy(program).module()
    x = torch.randn(8, 10).t()[::2]
    assert not x.is_contiguous()
    assert_same(loaded(x), module(x))


def test_sizes_that_data_tells_and_assertions(tmp_path):
    class Picks(torch.nn.Module):
        def forward(self, x, n):
            found = x.nonzero().squeeze(1)
            k = n.item()
            check(k >= 0)
            check(k <= 4)
            return found * 2 + 1, torch.ones(k) * 3

    program = export(
        Picks(), (torch.tensor([1.0, 0, 2]), torch.tensor(3)), dynamic_shapes=({0: Dim("b")}, None)
    )
    loaded = load_package(package(program, tmp_path / "p"))
    for row, n in (([0.0, 0, 0, 5], 0), ([1.0] * 9, 4), ([0.0], 2)):
        found = loaded(torch.tensor(row), torch.tensor(n))
        assert_same(found, Picks()(torch.tensor(row), torch.tensor(n)))
    with pytest.raises(RuntimeError):
        loaded(torch.ones(2), torch.tensor(5))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "int32"])
def test_dtypes_on_every_target(dtype, tmp_path):
    class Halves(torch.nn.Module):
        def forward(self, x, y):
            return (x * y + x).abs().sum(0), x - y

    x = (torch.arange(12) % 5).reshape(3, 4).to(getattr(torch, dtype))
    program = export(Halves(), (x, x + 1), dynamic_shapes=({0: Dim("n")}, {0: Dim("n")}))
    path = package(program, tmp_path / "h", targets=("host", "x86-64"))
    y = torch.cat([x, x])
    for target in ("host", "x86-64"):
        assert_same(load_package(path, target=target)(y, y * 2), Halves()(y, y * 2))


def test_calls_of_threads_do_not_meet(net):
    program, folder = net
    loaded = load_package(folder)
    cases = [torch.randn(2 + n, 8) for n in range(8)]
    expected = [copy.deepcopy(program).module()(x) for x in cases]
    wrong: list[object] = []

    def work(x, wanted):
        for _ in range(30):
            try:
                assert_same(loaded(x), wanted)
            except AssertionError as problem:
                wrong.append(problem)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(cases, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_of_calls_are_each_their_own(net):
    loaded = load_package(net[1])
    x = torch.randn(9, 8)
    first = loaded(x)[0]
    kept = first.clone()
    loaded(torch.randn(9, 8))
    torch.testing.assert_close(first, kept, atol=0, rtol=0)


def test_new_weights(net):
    loaded = load_package(net[1])
    x = torch.randn(3, 8)
    fresh = {name: torch.zeros_like(value) for name, value in loaded.named_state().items()}
    with pytest.raises(ValueError, match="lacks"):
        loaded.load_constants({"last.bias": fresh["last.bias"]}, check_full_update=True)
    with pytest.raises(ValueError, match="not have"):
        loaded.load_constants({"bias": fresh["last.bias"]})
    with pytest.raises(ValueError, match="sizes"):
        loaded.load_constants({"last.bias": torch.zeros(9)})
    loaded.load_constants(fresh, check_full_update=True)
    torch.testing.assert_close(loaded(x)[0], torch.full((3, 4), 0.25))
    mine = torch.tensor([0.0, 0, 0, 100])
    loaded.load_constants({"last.bias": mine}, user_managed=True)
    mine[0] = 1000
    assert loaded(x)[0][0].tolist() == [1, 0, 0, 0]


# -- CPUs -----------------------------------------------------------------------------------------


def test_features_are_those_that_the_system_tells():
    place = Path("/proc/cpuinfo")
    if not place.exists() or "flags" not in place.read_text():
        pytest.skip("the system does not tell")
    flags = place.read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    told = {flag.replace("_", "") for flag in flags}
    names = {"sse3": "pni", "pclmul": "pclmulqdq", "bmi": "bmi1", "lzcnt": "abm", "sahf": "lahflm"}
    for name in FEATURES:
        assert (name in targets.here()) == (names.get(name, name).replace(".", "") in told), name


def test_code_for_another_cpu_is_not_run(net, monkeypatch):
    loaded = load_package(net[1])
    assert loaded.get_metadata()["target"] == "host"
    monkeypatch.setattr(targets, "here", lambda: frozenset(LEVELS["x86-64-v2"]))
    assert load_package(net[1]).get_metadata()["target"] == "x86-64"
    with pytest.raises(RuntimeError, match="x86-64-v3 needs avx"):
        load_package(net[1], target="x86-64-v3")
    monkeypatch.setattr(targets, "here", lambda: frozenset(("sse",)))
    with pytest.raises(RuntimeError, match="cannot run any code") as found:
        load_package(net[1])
    assert found.value.code == "RL1584"
    with pytest.raises(ValueError, match="no target 'pentium'"):
        load_package(net[1], target="pentium")


def test_the_first_target_that_runs_is_taken(monkeypatch):
    made = [Target(name, LEVELS[name]) for name in ("x86-64-v4", "x86-64-v3", "x86-64")]
    for have, at in (("x86-64-v4", 0), ("x86-64-v3", 1), ("x86-64-v2", 2), ("x86-64", 2)):
        monkeypatch.setattr(targets, "here", lambda have=have: frozenset(LEVELS[have]))
        assert best_target(made) == at


def test_code_uses_no_instructions_but_the_target_s(net, tmp_path):
    """Code for the first x86-64 has no register of those that came later."""
    objdump = Path("/usr/bin/objdump")
    if not objdump.exists():
        pytest.skip("nothing reads machine code here")
    for name, wide in (("x86-64", False), ("x86-64-v3", True)):
        (image,) = (net[1] / "code").glob(f"*-{name}-0.bin")
        command = [str(objdump), "-D", "-b", "binary", "-m", "i386:x86-64", str(image)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert ("%ymm" in text) == wide
        assert "%zmm" not in text


# -- damage ---------------------------------------------------------------------------------------


def copy_of(folder, place):
    for path in folder.rglob("*"):
        if path.is_file():
            to = place / path.relative_to(folder)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    return place


def rewritten(folder, change):
    """The package with another manifest, whose checksum is right."""
    data = json.loads((folder / "manifest.json").read_text())
    change(data)
    text = json.dumps(data).encode()
    (folder / "manifest.json").write_bytes(text)
    (folder / "manifest.sha256").write_bytes(hashlib.sha256(text).hexdigest().encode())
    return folder


def test_every_changed_byte_is_found(net, tmp_path):
    folder = copy_of(net[1], tmp_path / "p")
    chance = random.Random(3)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    # Code of targets that are not loaded is not read.
    files = [path for path in files if "v3" not in path.name and "x86" not in path.name]
    for path in files:
        whole = path.read_bytes()
        for _ in range(25):
            data = bytearray(whole)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data)
            with pytest.raises(CheckpointError) as found:
                load_package(folder)
            assert found.value.code == "RL1580"
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(CheckpointError):
            load_package(folder)
        path.unlink()
        with pytest.raises(CheckpointError):
            load_package(folder)
        path.write_bytes(whole)
    load_package(folder)


def test_damaged_archives(net, tmp_path):
    path = Path(package(net[0], tmp_path / "p.pt2", targets=("x86-64",)))
    whole = path.read_bytes()
    chance = random.Random(5)
    x = torch.ones(3, 8)
    expected = load_package(path)(x)
    for _ in range(120):
        data = bytearray(whole)
        if chance.random() < 0.3:
            data = data[: chance.randrange(len(data))]
        else:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            # Bytes between entries mean nothing.
            assert_same(load_package(path)(x), expected)
        except CheckpointError as problem:
            assert getattr(problem, "code", "RL09")[:4] in ("RL15", "RL09")


def test_manifests_that_tell_lies(net, tmp_path):
    def image(data):
        return data["targets"][0]["images"][0]

    changes = {
        "version": lambda d: d.update(version=1),
        "kind": lambda d: d.update(format="x"),
        "entry": lambda d: image(d)["entries"].update(fast_segment0=10**9, segment0=10**9),
        "import": lambda d: image(d)["imports"].update(memcpy=10**9),
        "unknown function": lambda d: image(d)["imports"].update(system=8),
        "place": lambda d: d["state"][0].update(place=[0, 10**12]),
        "extent": lambda d: d["state"][0].update(shape=[10**6, 8]),
        "outside": lambda d: image(d).update(file="../../etc/passwd"),
        "data": lambda d: image(d).update(writable=1),
        "all data": lambda d: image(d).update(writable=1 << 40),
        "no units": lambda d: d.update(units=[]),
        "no state": lambda d: d.pop("state"),
        "tree": lambda d: d.update(in_spec="{}"),
        "source": lambda d: d["units"][0].update(source="def ("),
    }
    for name, change in changes.items():
        folder = rewritten(copy_of(net[1], tmp_path / name), change)
        with pytest.raises((CheckpointError, NotImplementedError)) as found:
            load_package(folder)
        # What tensors say of themselves is judged by the reader of checkpoints.
        assert found.value.code == ("RL0901" if name == "extent" else "RL1580"), name


def test_a_package_is_loaded_by_its_own_call_alone(net, tmp_path):
    path = package(net[0], tmp_path / "p.pt2", targets=("x86-64",))
    for load in (torch.load, torch.export.load):
        with pytest.raises(RuntimeError):
            load(path)


# -- refusals -------------------------------------------------------------------------------------


def test_what_is_no_program_or_target(net, tmp_path):
    with pytest.raises(TypeError, match="ExportedProgram"):
        package(Net(), tmp_path / "x")
    with pytest.raises(ValueError, match="no target"):
        package(net[0], tmp_path / "x", targets=("i386",))
    assert not (tmp_path / "x").exists()


def test_systems_with_other_code(monkeypatch):
    from rushlight.deploy import memory

    monkeypatch.setattr(memory.platform, "machine", lambda: "aarch64")
    with pytest.raises(RuntimeError, match="x86-64") as found:
        memory.check_machine()
    assert found.value.code == "RL1581"


# -- torch's names --------------------------------------------------------------------------------


def test_names_of_torch(net, tmp_path):
    from rushlight.deploy import faces

    x = torch.randn(5, 8)
    expected = copy.deepcopy(net[0]).module()(x)
    path = faces.aoti_compile_and_package(
        net[0],
        package_path=str(tmp_path / "a.pt2"),
        inductor_configs={"aot_inductor.targets": ("x86-64",)},
    )
    assert_same(faces.aoti_load_package(path)(x), expected)
    made = faces.aot_compile(Net().eval(), (x,), dynamic_shapes=({0: Dim("n")},))
    assert len(faces.aot_load(made, "cpu")(torch.ones(3, 8))) == 3
    os.unlink(made)
    with pytest.raises(ValueError, match=r"\.pt2"):
        faces.aoti_compile_and_package(net[0], package_path=str(tmp_path / "a.so"))
    with pytest.raises(ValueError, match="max_autotune"):
        faces.aoti_compile_and_package(net[0], inductor_configs={"max_autotune": True})
    with pytest.raises(NotImplementedError, match="cuda"):
        faces.aot_load(path, "cuda")


def test_the_command(net, tmp_path, capsys):
    from rushlight.cli import main

    model = tmp_path / "model.pt2"
    torch.export.save(net[0], model)
    out = tmp_path / "out"
    assert main(["package", str(model), "-o", str(out), "--target", "x86-64"]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    x = torch.randn(5, 8)
    assert_same(load_package(out)(x), copy.deepcopy(net[0]).module()(x))
    assert main(["package", str(tmp_path / "none.pt2"), "-o", str(out)]) == 1
    assert "none.pt2" in capsys.readouterr().err


def test_memory_of_state_is_aligned(net):
    for value in load_package(net[1]).named_state().values():
        assert value.data_ptr() % 16 == 0
        assert np.asarray(value.numpy()).flags.writeable
