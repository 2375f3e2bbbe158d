"""Settings of the whole suite."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def facts_are_checked():
    """Every graph compiled by a test is compared with what its dry run promised."""
    from rushlight.aot import config

    with config.patch(debug_assert=True):
        yield
