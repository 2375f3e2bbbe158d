"""The registry: declared options, one record for each overload."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

import rushlight
from rushlight.core.op import OPTIONS, RULES, OpOverload
from rushlight.opset import custom, families, registry
from rushlight.opset.kinds import Kind
from rushlight.opset.registry import composite, find, mutation, op, packet, pointwise, view

PACKAGE = Path(rushlight.__file__).parent
# `.options` of an op, or of the record that an in-place form is derived from.
READ = re.compile(
    r"\boptions(?:\.(?:get|setdefault|pop)\(\s*|\[)[\"'](\w+)[\"']|[\"'](\w+)[\"'] in op\.options"
)
# Where `options` are those of ops; elsewhere they are of optimisers, windows or compilers.
READERS = (
    "core", "opset", "codegen", "autograd/nonfinite.py", "autograd/writing.py",
    "amp/autocasting.py", "library", "nn/functional/__init__.py", "higher_order/precision.py",
    "jit/tracing/recorder.py",
)  # fmt: skip


def kinds() -> Iterator[type[Kind]]:
    families.load_all()
    assert issubclass(custom.Custom, Kind)
    waiting = [Kind]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += found.__subclasses__()


def declared() -> set[str]:
    return {*OPTIONS, *(name for kind in kinds() for name in kind.options)}


def reads() -> dict[str, str]:
    """Option -> a file that reads it by name."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if where.startswith(READERS) and where != "core/fake.py":
            for match in READ.finditer(path.read_text()):
                found.setdefault(match[1] or match[2], where)
    return found


def test_every_option_that_is_read_is_declared():
    # Makers such as `sparse.coo.native` look at rules before they register an op.
    known = {*declared(), *RULES}
    assert {name: where for name, where in reads().items() if name not in known} == {}


def test_every_declared_option_is_read():
    # What compares with recorded results, or with runs without values, reads the others, and so do
    # fakes.
    assert declared() - set(reads()) == {"invariants", "reads_values", "structural"}


def test_no_kind_declares_an_option_of_all_ops():
    for kind in kinds():
        assert not set(kind.options) & {*OPTIONS, *RULES}, kind


ADD = "misspelt_add(Tensor self, Tensor other) -> Tensor"


@pytest.mark.parametrize(
    "register, wrong, near",
    [
        (lambda **o: op(ADD, **o), "metod", "method"),
        (lambda **o: op(ADD, **o), "kernle", "kernel"),
        (lambda **o: pointwise(ADD, scalar=lambda m, a, b: a, **o), "promot", "promote"),
        (lambda **o: view("misspelt(Tensor(a) self) -> Tensor(a)", **o), "untraked", "untracked"),
        (lambda **o: composite(ADD, **o)(lambda a, b: a), "out_chek", "out_check"),
        (lambda **o: mutation(find("neg"), lambda xp, a: a, **o), "may_overlp", "may_overlap"),
        (lambda **o: OpOverload(ADD, registry.OPAQUE, **o), "node_indx", "node_index"),
    ],
)
def test_misspelt_options_are_refused(register: Any, wrong: str, near: str):
    with pytest.raises(TypeError, match=rf"(misspelt|neg).*'{wrong}'.*nearest is '{near}'"):
        register(**{wrong: True})
    assert "misspelt_add" not in registry.PACKETS["aten"]


def test_options_of_another_kind_are_refused():
    with pytest.raises(
        TypeError, match="misspelt_add: an op of kind OPAQUE has no option 'promote'"
    ):
        op(ADD, promote="default")


def test_an_overload_is_registered_once():
    before = list(packet("neg").candidates)
    with pytest.raises(RuntimeError, match=r"aten::neg is registered already"):
        op("neg(Tensor self) -> Tensor")
    assert packet("neg").candidates == before


def test_aliases_share_the_forms_of_their_op():
    assert packet("absolute") is packet("abs")
    assert packet("absolute_") is packet("abs_")


@pytest.mark.parametrize(
    "form, schema",
    [
        (
            "add_.Tensor",
            "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        ),
        (
            "add.out",
            "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        ),
        ("neg.out", "neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"),
        (
            "sort.out",
            "sort.out(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, "
            "Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))",
        ),
    ],
)
def test_schemas_of_derived_forms(form: str, schema: str):
    name, _, overload = form.partition(".")
    assert str(find(name, overload)._schema).removeprefix("aten::") == schema


def test_threads_derive_one_record():
    start, found = Barrier(8), []

    def derive() -> None:
        start.wait()
        found.append((packet("xlogy_"), packet("xlogy").out, find("xlogy", "Tensor").bind))

    threads = [Thread(target=derive) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert all(a is b for entry in found for a, b in zip(entry, found[0], strict=True))
