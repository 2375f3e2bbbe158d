"""`rushlight env`, and what the packaging world is told of `torch`."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]
ASK = (
    "import importlib.metadata as m, importlib.util as u, sys\n"
    "assert 'rushlight' not in sys.modules\n"
    "assert u.find_spec('torch') is not None\n"
    "assert m.version('torch').startswith('2.13.0+rushlight')\n"
    "import torch.nn as nn, torch\n"
    "assert torch.__version__ >= (2, 6) and torch.__version__ == m.version('torch')\n"
    "print(nn.Linear(2, 3).weight.shape, torch.version.__version__)\n"
)


def run(python, *words, **environment):
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [str(python), *words], capture_output=True, text=True, env={**settings, **environment}
    )


def command(*words):
    return run(sys.executable, "-m", "rushlight", *words, PYTHONPATH=str(ROOT))


@pytest.fixture
def python(tmp_path):
    """A new environment that sees this one's packages, but for what stands in path files."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "with_numpy.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")
    return tmp_path / "env" / "bin" / "python"


def test_an_environment_gets_torch_and_loses_it_again(python):
    assert run(python, "-c", "import torch").returncode == 1
    done = command("env", "--python", str(python))
    assert done.returncode == 0, done.stderr
    asked = run(python, "-c", ASK)
    assert asked.returncode == 0, asked.stderr
    # Children, and a second call.
    child = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch'], check=True)"
    )
    assert run(python, "-c", child).returncode == 0
    assert command("env", "--python", str(python)).returncode == 0
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    record = next(site.glob("torch-*.dist-info")) / "RECORD"
    listed = {line.partition(",")[0] for line in record.read_text().splitlines()}
    written = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    assert listed == written - {"with_numpy.pth"}
    assert command("env", "--python", str(python), "--remove").returncode == 0
    assert sorted(p.name for p in site.iterdir()) == ["with_numpy.pth"]
    assert command("env", "--python", str(python), "--remove").returncode == 1
    assert run(python, "-c", "import torch").returncode == 1


def test_an_environment_with_pytorch_is_left_alone(python):
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("")
    done = command("env", "--python", str(python))
    assert done.returncode == 1 and "RL1314" in done.stderr
    assert not list(site.glob("rushlight*"))


def test_what_is_no_python(tmp_path):
    done = command("env", "--python", str(tmp_path / "nothing"))
    assert done.returncode == 1 and "RL1313" in done.stderr


def test_metadata_in_a_process_that_installs_the_aliases():
    code = (
        "import importlib.metadata as m, importlib.util as u, rushlight.compat as c\n"
        "def known():\n"
        "    try:\n"
        "        return m.version('torch')\n"
        "    except m.PackageNotFoundError:\n"
        "        return None\n"
        "before = known()\n"
        "c.install()\n"
        "assert known() == '2.13.0+rushlight0.1.0' and u.find_spec('torch') is not None\n"
        "assert 'torch' in [d.name for d in m.distributions()]\n"
        "assert m.distribution('torch').read_text('INSTALLER').strip() == 'rushlight'\n"
        "c.uninstall()\n"
        "assert known() == before\n"
    )
    done = run(sys.executable, "-c", code, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr


def test_a_script_under_run_sees_the_metadata(tmp_path):
    (tmp_path / "script.py").write_text(ASK.replace("assert 'rushlight' not in sys.modules\n", ""))
    done = command("run", str(tmp_path / "script.py"))
    assert done.returncode == 0, done.stderr
