"""Layers import downwards, and by import statements.

`make lint` checks the statements. It cannot see modules that are named by strings: here are those
that may import by name, and no string names a module of a layer above its own.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rushlight"
FILES = sorted(PACKAGE.rglob("*.py"))

# The files that import modules by name, and what for.
IMPORTERS = {
    "__init__.py": "names of the package, on first use",
    "arrays/numpy_.py": "special functions, on first use",
    "base/lazy.py": "modules and names, on first use",
    "capture/breaks.py": "what the user's program imports",
    "capture/frame.py": "what the user's program imports",
    "compat/__init__.py": "parts of multiprocessing, on first use",
    "compat/helpers.py": "what a dotted name leads to",
    "compat/layers.py": "layers of torch's modules, for their dictionaries",
    "compat/finder.py": "torch's module names",
    "compat/launcher.py": "the program to run",
    "compat/near.py": "torch's module names",
    "compat/publicnames.py": "torch's module names",
    "compat/shim/rushlight_shim.py": "torch's module names",
    "aot/fingerprint.py": "the module that a class says it is in, where torch means Rushlight",
    "graph/host.py": "the private names that the package's root enters",
    "graph/names.py": "the packages around a function's own module",
    "io/checkpoint.py": "the names in trusted files",
    "ops.py": "torch.ops.import_module",
    "opset/families.py": "the index of ops",
    "opset/samples/from_schema.py": "an op's own family",
}
# The files that may name modules of any layer.
ABOVE_ALL = ("__init__.py", "compat/aliases.py")
# torch: pickles name functions of nn.functional without their module.
NAMED_ABOVE = {
    ("io/checkpoint.py", "rushlight.nn.functional"),
    # Ranks and sizes are asked of process groups where a program has any.
    ("data/distributed.py", "rushlight.distributed"),
    # torch: training over processes is among the modules.
    ("nn/parallel.py", "rushlight.distributed.ddp"),
}


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def layers() -> dict[str, int]:
    """Every top-level name, with the number of its layer from above."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    return {name: number for number, line in enumerate(found) for name in re.findall(r"\w+", line)}


def imports_by_name(tree: ast.AST) -> bool:
    """Whether some call imports a module whose name is a value."""
    called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(name.rpartition(".")[2] in ("__import__", "_import_module", "import_module")
               for name in called)  # fmt: skip


def named_modules(tree: ast.AST) -> set[str]:
    """The modules of the package that strings name, but for what classes say of themselves."""
    told = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("__module__")
    }
    found = set()
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in told else None
        if isinstance(text, str) and re.fullmatch(r"rushlight(\.\w+)+(:\w+)?\.?", text):
            name = text.partition(":")[0].rstrip(".")
            place = ROOT.joinpath(*name.split("."))
            if place.is_dir() or place.with_suffix(".py").exists():
                found.add(name)
    return found


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_no_module_is_reached_by_its_name(path):
    tree = ast.parse(path.read_text())
    name = relative(path)
    assert imports_by_name(tree) == (name in IMPORTERS), (
        f"{name}: import modules by statements, or enter the file and its reason in IMPORTERS"
    )
    if name in ABOVE_ALL:
        return
    number = layers()
    own = name.split("/")[0].removesuffix(".py")
    above = {
        module
        for module in named_modules(tree)
        if number[module.split(".")[1]] <= number[own] and module.split(".")[1] != own
    }
    assert not {module for module in above if (name, module) not in NAMED_ABOVE}, (
        f"{name} names modules that lie above it or beside it"
    )


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_no_module_sets_names_of_another(path):
    """What a module leaves to others to provide is a port: `core/ports.py`."""
    tree = ast.parse(path.read_text())
    modules = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rushlight")
        for alias in node.names
        if ROOT.joinpath(*f"{node.module}.{alias.name}".split(".")).with_suffix(".py").exists()
    }
    written = [
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) in modules
    ]
    assert not written


def test_every_package_has_a_layer():
    tops = {relative(path).split("/")[0].removesuffix(".py") for path in FILES} - {"__init__"}
    assert tops <= set(layers())


def test_the_checks_see_what_they_look_for():
    for text in ("import_module('rushlight.x')", "importlib.import_module(a)", "__import__(a)"):
        assert imports_by_name(ast.parse(text))
    assert not imports_by_name(ast.parse("import rushlight.x"))
    tree = ast.parse("import_module(f'rushlight.opset.{x}'); modules['rushlight.nn.module']")
    assert named_modules(tree) == {"rushlight.opset", "rushlight.nn.module"}
    assert not named_modules(ast.parse("class A:\n    __module__ = 'rushlight.nn'"))


def import_alone(name: str) -> str:
    """What goes wrong when a module is the first of its neighbours to be imported."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except BaseException as error:
            os.write(write, repr(error)[:2000].encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def modules_of(place: str) -> list[str]:
    found = [relative(path).removesuffix(".py").replace("/", ".") for path in FILES]
    names = [name.removesuffix(".__init__") for name in found]
    return [f"rushlight.{n}" for n in names if n.startswith(place) and "__" not in n]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="modules are imported in forked processes")
@pytest.mark.parametrize(
    "place", ["jit.scripting", pytest.param("", marks=pytest.mark.slow)], ids=["scripting", "all"]
)
def test_every_module_can_be_the_first(place):
    script = (
        "import sys, json; sys.path.insert(0, {root!r}); import rushlight\n"
        "from tests.test_layers import import_alone\n"
        "print(json.dumps({{n: t for n in {names!r} if (t := import_alone(n))}}))"
    ).format(root=str(ROOT), names=[n for n in modules_of(place) if "compat.shim" not in n])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
