"""Pages of the site that are written while it is built: the API, the gallery, pictures, plots.

What they tell is read off the package: signatures, docstrings, records of operators, what the
examples print. Nothing is fetched.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import api  # noqa: E402
import gallery  # noqa: E402
import home  # noqa: E402
import inside  # noqa: E402
import plots  # noqa: E402


def on_config(config: Any) -> Any:
    """Put the generated pages into the navigation."""
    for entry in config.nav:
        if "API" in entry:
            entry["API"] = [{page.title: page.path} for page in api.pages()]
        if "Benchmarks" in entry:
            entry["Benchmarks"] = [{page.title: page.path} for page in plots.pages()]
    return config


def on_files(files: Files, config: Any) -> Files:
    for page in (*home.pages(), *api.pages(), *gallery.pages(), *inside.pages(), *plots.pages()):
        known = files.get_file_from_path(page.path)
        if known is not None:
            files.remove(known)
        files.append(File.generated(config, page.path, content=page.text))
        for path, content in page.beside.items():
            files.append(File.generated(config, path, content=content))
    return files
