"""PyTorch programs, unmodified: what they print is what torch prints.

The `.expected` files under `programs` hold torch's own output. All programs run in one process,
each from a clean main module. Those in `programs/training` make their weights and data without
a random stream and print the loss of every step: their fractions agree with torch's to a
thousandth, all else to the letter. Those in `programs/seeded` fix nothing but the seed: losses
agree to the last printed digit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in HERE.glob("*.py"))
TRAINING = sorted(f"training/{path.stem}" for path in (HERE / "training").glob("*.py"))
SEEDED = sorted(f"seeded/{path.stem}" for path in (HERE / "seeded").glob("*.py"))
FRACTION = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")

DRIVER = """
import contextlib, io, json, runpy, sys, traceback, warnings
from rushlight.compat import install
install()
found = {}
for path in sys.argv[1:]:
    sys.argv = [path]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            traceback.print_exc(file=text)
    found[path] = text.getvalue()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def printed():
    paths = {str(HERE / f"{name}.py"): name for name in [*NAMES, *TRAINING, *SEEDED]}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *paths],
        capture_output=True, text=True, timeout=300, cwd=HERE.parent.parent, check=True,
    )  # fmt: skip
    return {paths[path]: text for path, text in json.loads(done.stdout).items()}


def expected(name):
    return (HERE / f"{name}.expected").read_text()


def agree(found, wanted, share=1e-3):
    """Whether two lines differ in fractions only, by a share or one in the last digit."""
    if FRACTION.sub("#", found) != FRACTION.sub("#", wanted):
        return False
    for ours, theirs in zip(FRACTION.findall(found), FRACTION.findall(wanted), strict=True):
        digits, _, exponent = theirs.partition("e")
        last = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
        if not abs(float(ours) - float(theirs)) <= max(share * abs(float(theirs)), 1.01 * last):
            return False
    return True


def test_programs_are_many():
    assert len(NAMES) >= 12 and len(TRAINING) >= 13 and len(SEEDED) >= 10
    assert all((HERE / f"{name}.expected").exists() for name in [*NAMES, *TRAINING, *SEEDED])


@pytest.mark.parametrize("name", NAMES)
def test_prints_what_torch_prints(name, printed):
    assert printed[name] == expected(name)


@pytest.mark.parametrize("name", TRAINING)
def test_trains_as_torch_trains(name, printed):
    found, wanted = printed[name].splitlines(), expected(name).splitlines()
    assert len(found) == len(wanted), printed[name]
    differing = [pair for pair in zip(found, wanted, strict=True) if not agree(*pair)]
    assert not differing


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_gives_torchs_losses(name, printed):
    found, wanted = printed[name].splitlines(), expected(name).splitlines()
    assert len(found) == len(wanted), printed[name]
    differing = [pair for pair in zip(found, wanted, strict=True) if not agree(*pair, share=0.0)]
    assert not differing


def test_agreement_is_of_text_and_of_fractions():
    assert agree("step 3 loss 1.0009 lr 2.0e-03", "step 3 loss 1.0000 lr 2.0e-03")
    assert not agree("step 3 loss 1.0015", "step 3 loss 1.0000")
    assert not agree("step 4 loss 1.0000", "step 3 loss 1.0000")
    assert not agree("loss nan", "loss 1.0000")
    assert agree("1.0001", "1.0000", 0.0) and not agree("1.0002", "1.0000", 0.0)
    assert not agree("loss 1.01e-04", "loss 1.00e-03")
    assert agree("mean -0.00001", "mean 0.00000") and not agree("mean 0.02", "mean 0.00")


def test_launcher_runs_one_of_them():
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(HERE / "game_of_life.py")],
        capture_output=True, text=True, timeout=120, cwd=HERE.parent.parent, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected("game_of_life")
