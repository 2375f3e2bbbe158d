"""Archives: PyTorch's are read, ours read back, and a program needs nothing but its file."""

import importlib.util
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError

HERE = Path(__file__).parent
HOME = HERE.parent / "reference" / "jit" / "archives"
EXPECTED = json.loads((HOME / "results.json").read_text())


@pytest.fixture(scope="module")
def archived():
    """The models, with Rushlight for PyTorch."""
    names = {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional}
    spec = importlib.util.spec_from_file_location("archived", HERE / "archived.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for name, each in names.items():
            patch.setitem(sys.modules, name, each)
        patch.setitem(sys.modules, "archived", module)
        spec.loader.exec_module(module)
        yield module


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_archives_of_pytorch_give_what_they_gave(name, archived):
    inputs = archived.MODELS[name.rpartition("_")[0]]()[1]
    loaded = torch.jit.load(HOME / f"{name}.pt")
    assert archived.close(archived.plain(loaded(*inputs)), EXPECTED[name])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_archives_of_pytorch_written_again(name, archived):
    inputs = archived.MODELS[name.rpartition("_")[0]]()[1]
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.load(HOME / f"{name}.pt"), buffer)
    buffer.seek(0)
    again = torch.jit.load(buffer)
    assert archived.close(archived.plain(again(*inputs)), EXPECTED[name])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_our_archives(name, archived):
    model, how = name.rsplit("_", 1)
    made, inputs = archived.compiled(model, how)
    buffer = io.BytesIO()
    torch.jit.save(made, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer)
    assert archived.close(archived.plain(loaded(*inputs)), EXPECTED[name])


def test_another_process_needs_only_the_file(tmp_path):
    script = (
        "import sys, rushlight as torch\n"
        f"m = torch.jit.load({str(HOME / 'gru_script.pt')!r})\n"
        "x = torch.linspace(-1, 1, 24).view(3, 2, 4)\n"
        "y = m(x)\n"
        "y.sum().backward()\n"
        "print(y.shape, all(p.grad is not None for p in m.g.parameters()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(HERE.parent.parent), "PATH": ""},
        cwd=tmp_path,
    )
    assert done.stdout == "torch.Size([2, 6]) True\n", done.stderr


def test_files_beside_the_program():
    traced = torch.jit.trace(lambda x: x + 1, torch.ones(2))
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer, _extra_files={"notes.txt": "hello", "raw": b"\x00\x01"})
    buffer.seek(0)
    files = {"notes.txt": "", "raw": "", "absent": "kept"}
    torch.jit.load(buffer, _extra_files=files)
    assert files == {"notes.txt": b"hello", "raw": b"\x00\x01", "absent": "kept"}


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda d: d["a"][0] + d["a"][1], ({"a": [torch.ones(3), torch.ones(2, 3)]},)),
        (lambda l: l[0][0] + l[1][0], ([(torch.ones(3),), (torch.ones(3),)],)),
        (lambda x: x.split(1)[0] + x.unbind(0)[0], (torch.ones(2, 2),)),
    ],
)
def test_unpacked_containers(function, inputs):
    made = torch.jit.trace(function, inputs, check_trace=False)
    for _ in range(2):
        buffer = io.BytesIO()
        torch.jit.save(made, buffer)
        buffer.seek(0)
        made = torch.jit.load(buffer)
    assert torch.equal(made(*inputs), function(*inputs))


def test_numbers_stay_numbers():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(lambda a: a + 1.5, torch.rand(3)), buffer)
    buffer.seek(0)
    whole = torch.ones(2, dtype=torch.int64)
    assert torch.jit.load(buffer)(whole).dtype is torch.float32


def test_shared_tensors_stay_shared():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 2)
            self.b = torch.nn.Linear(2, 2)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Tied(), torch.ones(1, 2)), buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer)
    assert loaded.a.weight is loaded.b.weight


@pytest.mark.parametrize(
    ("given", "reason"),
    [("nowhere.pt", "does not exist"), (".", "is a directory")],
)
def test_paths_that_are_no_files(given, reason):
    with pytest.raises(ValueError, match=reason):
        torch.jit.load(given)


def with_defaults(x: float = 2, y: float | None = 3, z: int = True):
    return x


def one_of(x: int | float | str):
    if isinstance(x, (float, str)):
        return 2
    return 1


def is_whole(x: int | float):
    if isinstance(x, int):
        return "whole"
    return "not"


def test_texts_are_those_that_pytorch_reads():
    scripted = torch.jit.script(with_defaults)
    assert str(scripted.schema) == "with_defaults(float x=2., float? y=3., int z=1) -> float"
    assert "x: float=2.,\n    y: Optional[float]=3.,\n    z: int=1" in scripted.code
    assert scripted() == 2.0
    assert "_0 = isinstance(x, int)\n" in torch.jit.script(is_whole).code
    assert "_0 = isinstance(x, (float, str))\n" in torch.jit.script(one_of).code
    loaded = torch.jit.load(io.BytesIO(torch.jit.script(one_of).save_to_buffer()))
    assert [loaded(value) for value in (1, 2.5, "a")] == [1, 2, 2]


def divides(x: torch.Tensor):
    return x / 2


def fills(x: torch.Tensor):
    return torch.full([2], 1) + torch.linspace(0, 1, 2)


def bends(x: torch.Tensor):
    return torch.nn.functional.gelu(x, approximate="tanh")


def divides_numbers(x: int):
    return x / 2


def versions_of(raw):
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names = [name for name in archive.namelist() if name.endswith("version")]
        return [(name.partition("/")[2], archive.read(name)) for name in names]


def test_files_have_the_version_that_their_operators_need():
    """PyTorch reads `div` of version 3 as the division that gives whole numbers."""
    for function, wanted in (
        (is_whole, ("version", b"3\n")),
        (divides, ("version", b"4\n")),
        (fills, (".data/version", b"8\n")),
        (bends, (".data/version", b"10\n")),
    ):
        raw = torch.jit.script(function).save_to_buffer()
        assert versions_of(raw) == [wanted]
        torch.jit.load(io.BytesIO(raw))


def test_operators_of_older_files_are_not_mistaken():
    for function, is_refused in ((divides, True), (divides_numbers, False)):
        raw = torch.jit.script(function).save_to_buffer()
        old = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(raw)) as source, zipfile.ZipFile(old, "w") as archive:
            for name in source.namelist():
                is_version = name.endswith("version")
                archive.writestr(name, b"3\n" if is_version else source.read(name))
        old.seek(0)
        if is_refused:
            with pytest.raises(CheckpointError, match="aten::div is another operator"):
                torch.jit.load(old)
        else:
            assert torch.jit.load(old)(3) == 1.5
