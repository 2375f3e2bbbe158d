"""Files of results, by content."""

from __future__ import annotations

import os

import pytest

from rushlight.base import diskcache
from rushlight.base.config import Config


def test_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diskcache, "config", Config())
    monkeypatch.delenv("RUSHLIGHT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join("some", "place"))
    assert diskcache.directory() == os.path.join("some", "place", "rushlight")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert diskcache.directory().endswith(os.path.join(".cache", "rushlight"))
