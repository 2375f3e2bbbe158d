"""Tests of capture on a Python without NumPy, where the package cannot be imported as a whole.

    python tests/capture/plain.py tests/capture/test_core.py [more arguments of pytest]

needs pytest and nothing else. A Python that finds pytest elsewhere gets it by PYTHONPATH.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def serve_package() -> None:
    """Make `rushlight` a package whose own body did not run, and graphs have a library."""
    sys.modules["numpy"] = None  # type: ignore[assignment]
    root = types.ModuleType("rushlight")
    root.__path__ = [str(REPOSITORY / "rushlight")]
    root.__file__ = str(REPOSITORY / "rushlight" / "__init__.py")
    sys.modules["rushlight"] = root

    from rushlight.graph import host

    class Nothing:
        """Stands for the classes that graphs ask for: nothing is one of these."""

    names = {"Tensor": Nothing, "device": Nothing, "nn": types.SimpleNamespace(Module=Nothing)}
    root.__dict__.update(names, _FUNCTIONS={})
    host.serve(root, {}, ())  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(REPOSITORY))
    os.chdir(REPOSITORY)
    # Plugins of the environment that pytest was borrowed from may not fit this Python.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    serve_package()
    import pytest

    print(f"Python {sys.version}")
    # The tests' own settings are about the whole package.
    fixed = ["-p", "no:cacheprovider", "-p", "no:faulthandler", "--noconftest", "-c", os.devnull]
    return int(pytest.main([*fixed, "--rootdir", str(REPOSITORY), *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
