"""Modules imported on first use."""

from __future__ import annotations

import math
import os
import sys
import types
from pathlib import Path

import pytest

from rushlight.base.errors import MissingExtra
from rushlight.base.lazy import lazy_import, namespace


def test_imported_when_first_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_module.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = lazy_import("late_module")
    assert "late_module" not in sys.modules
    assert repr(module) == "<lazy module 'late_module'>"
    assert module.value == 7
    assert "late_module" in sys.modules
    assert "value" in dir(module)
    with pytest.raises(AttributeError, match="absent"):
        module.absent
    del sys.modules["late_module"]


def test_missing_package_names_its_extra() -> None:
    module = lazy_import("no_such_package_here.part", extra="compile")
    with pytest.raises(MissingExtra, match=r"rushlight\[compile\]"):
        module.anything
    with pytest.raises(ModuleNotFoundError):
        lazy_import("no_such_package_here").anything


def test_failure_inside_an_installed_package_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("import no_such_package_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        lazy_import("broken_module", extra="compile").anything
    assert not isinstance(caught.value, MissingExtra)


def test_names_come_into_being_when_first_used(monkeypatch):
    module = types.ModuleType("tests_lazy_namespace")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    asked = []

    def make(name):
        asked.append(name)
        return name.upper() if name.startswith("word") else None

    get, list_names = namespace(
        module.__name__, {"sqrt": "math"}, {"ospath": "os.path"}, make=make, names=("word",)
    )
    module.__getattr__, module.__dir__ = get, list_names
    assert {"ospath", "sqrt", "word"} <= set(dir(module)) and not asked
    assert module.sqrt is math.sqrt and vars(module)["sqrt"] is math.sqrt
    assert module.ospath is os.path
    assert module.wordy == "WORDY" and module.wordy == "WORDY" and asked == ["wordy"]
    with pytest.raises(AttributeError, match="'tests_lazy_namespace' has no attribute 'other'"):
        module.other


def test_names_that_are_not_kept_are_made_again():
    get, _ = namespace(__name__, make=lambda name: object(), keep=False)
    assert get("thing") is not get("thing")
    assert "thing" not in globals()
