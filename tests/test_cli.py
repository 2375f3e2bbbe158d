"""The command line: launching scripts, the report of missing names, doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rushlight
from rushlight import cli, compat
from rushlight.compat import launcher
from rushlight.opset import audit as opset_audit

ROOT = str(Path(next(iter(rushlight.__path__))).resolve().parent)


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONPATH"] = ROOT
    return subprocess.run(
        [sys.executable, "-m", "rushlight", *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


# -------------------------------------------------------------------- run


def test_script_runs_as_main_and_its_children_see_torch(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    write(folder, "beside.py", "import torch\nname = torch.__name__\n")
    write(
        folder,
        "script.py",
        """
import json, multiprocessing, subprocess, sys
import beside
import torch, functorch.compile

def work(x):
    import torch
    return torch.__name__

if __name__ == "__main__":
    child = subprocess.run(
        [sys.executable, "-c", "import torch._C, functorch; print(torch.__name__)"],
        capture_output=True, text=True, check=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        worker = pool.map(work, [0])[0]
    main = sys.modules["__main__"]
    print(json.dumps({
        "argv": sys.argv, "path0": sys.path[0], "file": main.__file__, "spec": main.__spec__,
        "beside": beside.name, "child": child.stdout.strip(), "worker": worker,
        "globals": main.work is work}))
    sys.exit(7)
""",
    )
    done = command("run", "project/script.py", "-m", "--json", "--", "x", cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    seen = json.loads(done.stdout)
    assert seen.pop("argv") == ["project/script.py", "-m", "--json", "--", "x"]
    assert Path(seen.pop("path0")).resolve() == folder.resolve()
    assert Path(seen.pop("file")).resolve() == (folder / "script.py").resolve()
    assert seen == {
        "spec": None,
        "beside": "torch",
        "child": "torch",
        "worker": "torch",
        "globals": True,
    }


def test_missing_name_is_reported_with_its_place(tmp_path: Path) -> None:
    write(
        tmp_path, "lib.py", "import torch\n\n\ndef f():\n    return torch.no_such_name(1)  # here\n"
    )
    write(tmp_path, "script.py", "import lib\n\nlib.f()\n")
    done = command("run", "script.py", cwd=tmp_path)
    assert done.returncode == 3
    assert "torch.no_such_name is missing" in done.stderr
    assert "at lib.py:5" in done.stderr
    assert "return torch.no_such_name(1)  # here" in done.stderr
    assert "reached from script.py:3" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_errors_keep_their_traceback_without_our_frames(tmp_path: Path) -> None:
    package = tmp_path / "tool"
    package.mkdir()
    write(package, "__init__.py", "")
    write(
        package,
        "__main__.py",
        "import sys\nfrom . import part\n"
        "print(__spec__.name, __package__, sys.argv[1:])\npart.fail()\n",
    )
    write(package, "part.py", "def fail():\n    raise KeyError('lost')\n")
    done = command("run", "-m", "tool", "-h", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.split("\n")[0] == "tool.__main__ tool ['-h']"
    assert "KeyError: 'lost'" in done.stderr
    assert done.stderr.count("File ") == 2
    assert "launcher.py" not in done.stderr


def test_script_that_cannot_be_opened(tmp_path: Path) -> None:
    done = command("run", "absent.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "can't open file 'absent.py'" in done.stderr


@pytest.mark.parametrize(
    ("words", "head", "rest"),
    [
        (["run", "s.py", "--json", "-m"], ["run", "s.py"], ["--json", "-m"]),
        (["run", "-m", "pkg", "run"], ["run", "-m", "pkg"], ["run"]),
        (["run", "--traceback", "s.py"], ["run", "--traceback", "s.py"], []),
        (["run", "-h"], ["run", "-h"], []),
        (["doctor", "--op", "add", "x"], ["doctor", "--op", "add", "x"], []),
    ],
)
def test_words_after_the_target_belong_to_the_script(
    words: list[str], head: list[str], rest: list[str]
) -> None:
    assert cli._split_run(words) == (head, rest)


# -------------------------------------------------------------------- missing names


@pytest.fixture
def installed() -> Iterator[None]:
    was = compat.is_installed()
    compat.install()
    yield
    if not was:
        compat.uninstall()


def missing_from(source: str) -> launcher.Missing | None:
    try:
        exec(compile(source, "<script>", "exec"), {"__name__": "script"})
    except Exception as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        return launcher.find_missing(error)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch.no_such_module.x", "torch.no_such_module"),
        ("from torch import no_such_name", "torch.no_such_name"),
        ("from torch._C import NoSuch", "torch._C.NoSuch"),
        ("import torch\ntorch._C._functions.NoSuch", "torch._C._functions.NoSuch"),
        ("import torch._C._functions as f\nf.NoSuch", "torch._C._functions.NoSuch"),
        ("class T: __module__ = 'rushlight.made'\nT().frob", "torch.made.T.frob"),
        ("from functorch.compile import no_such", "functorch.compile.no_such"),
    ],
)
def test_missing_names_are_recognised(installed: None, source: str, name: str) -> None:
    found = missing_from(source)
    assert found is not None and found.name == name


@pytest.mark.parametrize(
    "source",
    [
        "import no_such_package",
        "None.torch",
        "raise AttributeError('torch')",
        "import os\nos.torch",
    ],
)
def test_other_failures_are_not_missing_names(installed: None, source: str) -> None:
    assert missing_from(source) is None


def test_missing_feature_is_reported(installed: None) -> None:
    errors = pytest.importorskip("rushlight.base.errors")
    found = missing_from(
        "from rushlight.base.errors import MissingFeature\nraise MissingFeature('torch.frob')"
    )
    assert found is not None and "torch.frob" in found.text
    assert issubclass(errors.MissingFeature, NotImplementedError)


def test_nearest_names(installed: None) -> None:
    assert "torch._C._functions" in launcher.nearest("torch._C._functionz")
    assert "functorch.compile" in launcher.nearest("functorch.compil")
    assert launcher.nearest("torch.zzqqxx_nothing_like_it") == []
    assert launcher.nearest("something else") == []


# -------------------------------------------------------------------- doctor


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rushlight {cli._rushlight_version()}\n"


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "doctor" in capsys.readouterr().out


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "rl0401"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("RL0401: {op}: no shape rule") and len(lines) == 3
    assert cli.main(["explain", "RL9998"]) == 1
    assert "no code 'RL9998'" in capsys.readouterr().err


def test_cache_is_shown_and_cleared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    from rushlight.base.config import config
    from rushlight.compiler import upkeep

    program = "import rushlight; rushlight.nn.functional.gelu(rushlight.ones(256, 128))"
    with config.patch(cache_dir=str(tmp_path)):
        # What this process has linked already is not made again: a fresh one makes it.
        command = [sys.executable, "-m", "rushlight", "cache"]
        environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        assert cli.main(["cache", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["code"]["entries"] >= 1
        assert facts["code"]["bytes"] > 1000
        assert facts["graphs"]["entries"] == 0
        (tmp_path / "objects" / "ab").mkdir(exist_ok=True)
        (tmp_path / "objects" / "ab" / "tmpx").write_bytes(b"half written")
        shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        assert f"code    {facts['code']['entries']} entries" in shown.stdout
        assert cli.main(["cache", "clear", "--kind", "graphs"]) == 0
        assert "graphs  removed 0 entries" in capsys.readouterr().out
        assert upkeep.usage()["code"] == facts["code"]
        assert cli.main(["cache", "clear"]) == 0
        assert f"code    removed {facts['code']['entries']} entries" in capsys.readouterr().out
        assert upkeep.usage()["code"]["entries"] == 0


@pytest.mark.slow
def test_a_warm_cache_leaves_nothing_to_compile(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "rushlight", "cache", "warm", "--json"]
    made = [
        json.loads(subprocess.check_output(command, env=environment, text=True))["made"]
        for _ in range(2)
    ]
    assert made[0] > 50
    assert made[1] == 0


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cost = {"numpy": {"cpu_seconds": 0.1, "modules": 100}, "rushlight": {"error": "ImportError: x"}}
    monkeypatch.setattr(cli, "_import_cost", lambda: cost)
    assert cli.main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts) == {"versions", "extras", "blas", "cpu", "threads", "mpi", "import"}
    assert facts["versions"]["numpy"].split(".")[0].isdigit()
    assert set(facts["extras"]) == {"compile", "mkl", "cuda", "onnx", "mpi", "tensorboard"}
    assert facts["threads"]["usable"] >= 1
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "numpy      100 ms CPU, 100 modules" in text
    assert "rushlight  failed: ImportError: x" in text
    assert "MPI" in text and "mpi4py" in text


def test_import_cost_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_IMPORT_RUNS", 1)
    cost = cli._import_cost()
    assert 0 < cost["numpy"]["cpu_seconds"] < 60
    assert cost["numpy"]["modules"] > 10
    assert "rushlight" in cost


COUNTS = {
    "entries": 3,
    "names": 2,
    "pairs": 6,
    "samples": 9,
    "errors": 4,
    "blanks": 1,
    "refused": 2,
}
ROWS = [
    ("add.Tensor", {"shape": "derived", "vjp": "given"}),
    ("sort", {"shape": "given", "vjp": "refused: not differentiable"}),
    ("nonzero", {"shape": "", "vjp": "refused: not differentiable", "vmap": "derived"}),
]


@pytest.fixture(params=["object", "mapping"])
def audit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    data: dict[str, Any] = {**COUNTS, "rows": ROWS}

    def describe(name: str) -> dict[str, Any]:
        if name != "sin":
            raise KeyError(name)
        return {
            "schema": "sin(Tensor self) -> Tensor",
            "kind": "POINTWISE",
            "rules": {"shape": "derived"},
            "stub": "def sin(self):\n    return run(self)\n",
        }

    found = data if request.param == "mapping" else SimpleNamespace(**data)
    monkeypatch.setattr(opset_audit, "collect", lambda: found)
    monkeypatch.setattr(opset_audit, "describe", describe)


def test_ops_as_json(audit: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--ops", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == COUNTS


def test_ops_as_table(audit: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "op          shape  vjp  vmap",
        "add.Tensor  d      G",
        "sort        G      r",
        "nonzero     ?      r    d",
    ]
    assert "     2  not differentiable: sort.vjp, nonzero.vjp" in lines
    assert lines[lines.index("Blank") + 1] == "  nonzero.shape"
    assert lines[-1] == "entries 3  names 2  pairs 6  samples 9  errors 4  blanks 1  refused 2"


def test_one_op(audit: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--op", "sin"]) == 0
    out = capsys.readouterr().out
    assert "schema: sin(Tensor self) -> Tensor\nkind: POINTWISE\n" in out
    assert "rules:\n  shape  derived\n" in out
    assert "stub:\n  def sin(self):\n      return run(self)\n" in out
    assert cli.main(["doctor", "--op", "nope"]) == 1
    assert "no operator 'nope'" in capsys.readouterr().err
