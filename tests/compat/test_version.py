"""Programs that ask torch for its version are told of a release whose behaviour they get."""

import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


def test_torch_has_a_version_of_torch():
    code = (
        "import rushlight, rushlight.compat\n"
        "own = rushlight.__version__\n"
        "rushlight.compat.install()\n"
        "import torch\n"
        "print(tuple(map(int, torch.__version__.split('+')[0].split('.')[:2])) >= (2, 0))\n"
        "print(torch.__version__.endswith('+rushlight' + own))\n"
        "rushlight.compat.uninstall()\n"
        "print(rushlight.__version__ == own)\n"
    )
    assert run(code).split() == ["True", "True", "True"]
