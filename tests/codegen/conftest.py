"""Compiled code of the tests goes to a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rushlight.base.config import config


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with config.patch(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        yield
