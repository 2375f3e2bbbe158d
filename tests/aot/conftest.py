"""A cache of graphs for one test."""

from __future__ import annotations

import pytest


@pytest.fixture
def folder(tmp_path):
    """Graphs are kept here; what cannot be kept is an error."""
    from rushlight.aot import config
    from rushlight.base.config import config as settings
    from rushlight.base.counters import counters

    counters["aot_autograd"].clear()
    place = settings.patch(cache_dir=str(tmp_path / "cache"))
    with place, config.patch(enable_autograd_cache=True, strict_autograd_cache=True):
        yield tmp_path / "cache"
