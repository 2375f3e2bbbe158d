"""Settings of the whole suite."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def facts_are_checked():
    """Every graph compiled by a test is compared with what its dry run promised."""
    from rushlight.aot import config

    with config.patch(debug_assert=True):
        yield


@pytest.fixture(autouse=True)
def state_is_left_as_it_was():
    """A test that leaves a mode, a kernel or a thread behind would slow down all that follow."""
    from rushlight.core.state import PROCESS

    before = PROCESS.special
    yield
    assert PROCESS.special == before
