"""Modules imported on first use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rushlight.base.errors import MissingExtra
from rushlight.base.lazy import lazy_import


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
