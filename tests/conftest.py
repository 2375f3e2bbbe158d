"""Settings of the whole suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# On a busy machine a call of some milliseconds may take a second.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(autouse=True, scope="session")
def facts_are_checked():
    """Every graph compiled by a test is compared with what its dry run promised."""
    from rushlight.aot import config

    with config.patch(debug_assert=True):
        yield


@pytest.fixture(autouse=True)
def state_is_left_as_it_was():
    """A test that leaves a mode, a kernel or a thread behind would slow down all that follow; one
    that leaves `torch` to mean Rushlight would change what classes say of themselves."""
    import rushlight
    from rushlight.core.state import PROCESS

    before = PROCESS.special, rushlight.__name__
    yield
    assert (PROCESS.special, rushlight.__name__) == before
