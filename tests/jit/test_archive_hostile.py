"""Hostile archives: one class of errors, nothing imported, nothing run, bounded memory."""

import io
import json
import os
import random
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError
from tests.jit import fuzz_archive

HERE = Path(__file__).parent
HOME = HERE.parent / "reference" / "jit" / "archives"

WATCHED = """
import sys, io, json, time, pickle, os
import rushlight as torch
from rushlight.base.errors import CheckpointError
# What reading takes is loaded first: a sound file is read, and run.
sound = open(sys.argv[1], "rb").read()
module = torch.jit.load(io.BytesIO(sound))
module(torch.linspace(-1, 1, 24).view(3, 2, 4))
try:
    torch.jit.load(io.BytesIO(b"nothing"))
except CheckpointError:
    pass
seen = []
WANTED = ("import", "os.system", "subprocess.Popen", "open", "socket.connect", "os.remove")
def hook(event, args):
    if event in WANTED and seen is not None:
        seen.append(f"{event} {args[:1]}")
sys.addaudithook(hook)
found = []
for name in sorted(os.listdir(sys.argv[2])):
    file = open(os.path.join(sys.argv[2], name), "rb")
    raw = file.read()
    del seen[:]
    start = time.process_time()
    try:
        torch.jit.load(io.BytesIO(raw))
        outcome = "read"
    except CheckpointError:
        outcome = "refused"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {str(error)[:200]}"
    events = [event for event in seen if not event.startswith("import ('rushlight")]
    found.append([name, outcome, events, time.process_time() - start])
print(json.dumps(found))
"""


def rewritten(base, changes):
    """An archive with other contents for some names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        contents = {name.partition("/")[2]: base.read(name) for name in base.namelist()}
        for name, content in {**contents, **changes}.items():
            if content is not None:
                archive.writestr(f"archive/{name}", content)
    return buffer.getvalue()


CALL = b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR."
DEEP = "(" * 3000 + "x" + ")" * 3000
METHOD = "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    {body}\n"
CODE = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n{rest}"
EMPTY = b"\x80\x02c__torch__\nM\n)\x81}X\x08\x00\x00\x00training\x88sb."
BODIES = {
    "import": "import os",
    "imported": "return __import__('os')",
    "eval": "return eval('1')",
    "open": "return open('/etc/passwd')",
    "dunder": "return x.__class__.__bases__",
    "lambda": "return (lambda: x)()",
    "call of a module": "return torch.os.system('true')",
    "from_file": "return torch.from_file('/etc/passwd', False, 10)",
    "global": "global q\n    return x",
    "deep": f"return {DEEP}",
    "constant": "return CONSTANTS.c99",
    "name": "return nothing_known",
    "package": "return __torch__.os.system(x)",
    "type": "return annotate(os.system('true'), x)",
    "yield": "yield x",
    "walrus": "return (y := x)",
    "f-string": "return f'{x.__class__}'",
}
CLASSES = {
    "base": "class M(os.PathLike):\n  training : bool\n",
    "metaclass": "class M(Module, metaclass=type):\n  training : bool\n",
    "decorator": "@print\nclass M(Module):\n  training : bool\n",
    "annotation": CODE.format(rest="  a : exec('1')\n"),
    "attribute": CODE.format(rest="  __annotations__[\"a\\n__import__('os')\"] = int\n"),
    "statement": CODE.format(rest="  print(1)\n"),
    "default": CODE.format(
        rest="  def f(self: __torch__.M, x: int=print(1)) -> int:\n    return x\n"
    ),
    "endless": CODE.format(
        rest="  def __setstate__(self: __torch__.M, s: Dict[str, bool]) -> NoneType:\n"
        "    while True:\n      self.training = True\n    return None\n"
    ),
    "no text": "\x00\x01\x02",
}


# What shows that the others are refused for what they say.
SOUND = {
    "body": CODE.format(rest=METHOD.format(body="return torch.neg(x)")),
    "state": CODE.format(
        rest="  def __setstate__(self: __torch__.M, s: Dict[str, bool]) -> NoneType:\n"
        '    self.training = s["training"]\n    return None\n'
    ),
}


def hostile_files():
    base = zipfile.ZipFile(HOME / "gru_script.pt")
    raw = (HOME / "gru_script.pt").read_bytes()
    yield "pickle", rewritten(base, {"data.pkl": CALL})
    yield "constants", rewritten(base, {"constants.pkl": CALL})
    yield "no code", rewritten(base, dict.fromkeys(texts(base)))
    yield "no constants", rewritten(base, {"constants.pkl": None})
    for name, body in BODIES.items():
        text = CODE.format(rest=METHOD.format(body=body))
        yield f"body {name}", rewritten(base, {"code/__torch__.py": text, "data.pkl": EMPTY})
    for name, text in CLASSES.items():
        yield f"class {name}", rewritten(base, {"code/__torch__.py": text, "data.pkl": EMPTY})
    for name, text in SOUND.items():
        yield f"sound {name}", rewritten(base, {"code/__torch__.py": text, "data.pkl": EMPTY})
    yield "cut", raw[: len(raw) // 2]
    yield "empty", b""
    yield "text", b"PK\x03\x04 not really"
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in base.namelist():
            archive.writestr(name, base.read(name))
        archive.writestr("gru_script/code/__torch__/bomb.py", b" " * (200 << 20))
    yield "bomb", bomb.getvalue()
    dice = random.Random(0)
    for number in range(60):
        damaged = bytearray(raw)
        for _ in range(dice.choice((1, 3, 30))):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        yield f"damaged {number}", bytes(damaged)


def texts(base):
    return [name.partition("/")[2] for name in base.namelist() if name.endswith(".py")]


def test_hostile_archives(tmp_path):
    for name, content in hostile_files():
        (tmp_path / name.replace(" ", "_").replace("/", "_")).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, HOME / "gru_script.pt", tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": str(HERE.parent.parent), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    wrong = []
    for name, outcome, events, seconds in found:
        allowed = {"damaged": ("read", "refused"), "sound": ("read",)}.get(
            name.partition("_")[0], ("refused",)
        )
        if outcome not in allowed or events or seconds > 5:
            wrong.append((name, outcome, events, seconds))
    assert not wrong
    assert len(found) > 90


# How long a file may take, in seconds of this process.
MOST_SECONDS = 5


def check_changed(count, seed):
    """Changed archives are read or refused, in bounded time, and what is read is whole."""
    files = sorted(HOME.glob("*.pt"))
    for name, raw in fuzz_archive.cases(files, count, seed):
        start = time.process_time()
        try:
            module = torch.jit.load(io.BytesIO(raw))
            for part in module.modules():
                for method in part._c._get_methods():
                    assert method.code
                    assert method.function.program
        except CheckpointError:
            pass
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
        assert time.process_time() - start < MOST_SECONDS, name


@pytest.mark.parametrize("seed", range(4))
def test_changed_archives(seed):
    check_changed(60, seed)


@pytest.mark.slow
@pytest.mark.skipif("FUZZ_ARCHIVE" not in os.environ, reason="set FUZZ_ARCHIVE to a count")
@pytest.mark.parametrize("part", range(10))
def test_many_changed_archives(part):
    check_changed(int(os.environ["FUZZ_ARCHIVE"]) // 10, 100 + part)
