"""Code in the documentation runs."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MODULES = (
    "rushlight",
    "rushlight.autograd.backward",
    "rushlight.autograd.forward_ad",
    "rushlight.autograd.grad_mode",
    "rushlight.data.collate",
    "rushlight.data.dataset",
    "rushlight.data.distributed",
    "rushlight.data.loader",
    "rushlight.data.sampler",
    "rushlight.data.worker",
    "rushlight.func.vmap",
    "rushlight.io.checkpoint",
    "rushlight.nn.containers",
    "rushlight.nn.linear",
    "rushlight.nn.module",
    "rushlight.optim.adam",
    "rushlight.optim.sgd",
    "rushlight.autograd.checkpoint",
    "rushlight.viz.graphs",
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    scope: dict = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), scope)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0


def test_settings_page_lists_every_setting():
    from rushlight.base.config import KNOBS, variable

    text = (ROOT / "docs" / "settings.md").read_text()
    rows = {
        f"| `{variable(name)}` | {type(k.default).__name__} | {k.doc} |"
        for name, k in KNOBS.items()
    }
    assert {line for line in text.splitlines() if line.startswith("| `")} == rows
