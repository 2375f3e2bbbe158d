"""Signatures say what they mean: the share of parameters of any type stays below a limit."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "rushlight"
# The most of a package's parameters that may be annotated `Any`.
LIMITS = {
    "aot": 0.25,
    "autograd": 0.49,
    "codegen": 0.25,
    "core": 0.25,
    "func": 0.41,
    "graph": 0.25,
    "opset": 0.70,
    "symbolic": 0.25,
}


def aliases_of_any(tree: ast.Module) -> set[str]:
    """`Any` and the names that a module gives it."""
    found = {"Any"}
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            continue
        if is_any(statement.value, found):
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def is_any(annotation: ast.expr | None, names: set[str]) -> bool:
    """Whether an annotation admits everything: `Any`, or a union with it."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return is_any(annotation.left, names) or is_any(annotation.right, names)
    if isinstance(annotation, ast.Constant):
        return annotation.value in names
    return isinstance(annotation, ast.Name) and annotation.id in names


def parameters(tree: ast.Module) -> list[ast.arg]:
    """The parameters of all functions, less `self` and `cls`."""
    found: list[ast.arg] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            found += [*given.posonlyargs, *given.args, *given.kwonlyargs]
            found += [entry for entry in (given.vararg, given.kwarg) if entry is not None]
    return [
        entry for entry in found if entry.annotation is not None or entry.arg not in ("self", "cls")
    ]


@pytest.mark.parametrize("package", LIMITS)
def test_few_parameters_are_of_any_type(package):
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in (PACKAGE / package).rglob("*.py")
    }
    names = set().union(*map(aliases_of_any, trees.values()))
    total = 0
    loose: dict[str, int] = {}
    for path, tree in trees.items():
        entries = parameters(tree)
        total += len(entries)
        count = sum(is_any(entry.annotation, names) for entry in entries)
        if count:
            loose[str(path.relative_to(PACKAGE))] = count
    share = sum(loose.values()) / total
    worst = sorted(loose, key=loose.__getitem__, reverse=True)[:5]
    assert share <= LIMITS[package], (
        f"{share:.1%} of the parameters in {package} are annotated Any, more than "
        f"{LIMITS[package]:.0%}; most of them in {', '.join(worst)}"
    )


def test_aliases_and_unions_count_as_any():
    source = "Loose = Any\ndef f(self, a: Loose, b: int | Any, c: list[Any], *d: 'Any', e=0): ..."
    tree = ast.parse(source)
    names = aliases_of_any(tree)
    assert names == {"Any", "Loose"}
    counted = {entry.arg: is_any(entry.annotation, names) for entry in parameters(tree)}
    assert counted == {"a": True, "b": True, "c": False, "d": True, "e": False}
