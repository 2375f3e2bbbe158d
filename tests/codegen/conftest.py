"""Compiled code of the tests goes to a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("RUSHLIGHT_CACHE_DIR")
    os.environ["RUSHLIGHT_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["RUSHLIGHT_CACHE_DIR"]
    else:
        os.environ["RUSHLIGHT_CACHE_DIR"] = before
