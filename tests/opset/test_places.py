"""One place per op: tables and registrations elsewhere in the package do not name it.

Quoted names are looked for, alone or in a string of names; calls such as `x.sin()` are uses.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "rushlight"
# Five ops and the files they are written in.
HOMES = {
    "sin": "opset/pointwise/elementary.py",
    "gelu": "opset/pointwise/activation.py",
    "index_select": "opset/indexing/index.py",
    "conv2d": "opset/window/conv.py",
    "scaled_dot_product_attention": "opset/product/attention.py",
}
# Written by `make index` from the ops.
GENERATED = {"opset/where.py"}
# What ops are in other languages stands with those languages.
TRANSLATIONS = ("deploy/", "onnx/")
# Names that mean something else than the op.
OTHERS = {
    ("sin", "codegen/vectormath.py"): "its native code",
    ("gelu", "nn/transformer.py"): "an argument of a layer",
    ("conv2d", "nn/init.py"): "a gain by the name of a layer",
    ("scaled_dot_product_attention", "subclasses/jaggedrules.py"): "an override of the function",
}


def names_in(text: str) -> list[str]:
    """The names that a string lists; [] for any other text."""
    words = text.replace(",", " ").split()
    return words if all([word.isidentifier() for word in words]) else []


def named_in(path: Path) -> set[str]:
    """The names that strings of a file hold, documentation aside."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in tree.body:
        # What a module defines itself is no mention of the op.
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            told |= {id(inner) for inner in ast.walk(node.value)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            found.update(names_in(node.value))
    return found


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    return {path.relative_to(PACKAGE).as_posix(): named_in(path) for path in PACKAGE.rglob("*.py")}


@pytest.mark.parametrize("name", HOMES)
def test_an_op_is_named_where_it_is_written(name: str, named: dict[str, set[str]]) -> None:
    found = {file for file, names in named.items() if name in names} - {HOMES[name]} - GENERATED
    found = {file for file in found if not file.startswith(TRANSLATIONS)}
    assert found == {file for op, file in OTHERS if op == name}
    assert len(found) <= 1


def test_the_count_sees_tables() -> None:
    assert names_in("sin cos\n  tan") == ["sin", "cos", "tan"]
    assert names_in("sin(Tensor self) -> Tensor") == []
