"""Settings: environment, assignment, refusals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight.aot.tracing import make_fx
from rushlight.base.config import KNOBS, Config, variable
from rushlight.base.config import config as settings


def test_defaults_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KNOBS:
        monkeypatch.delenv(variable(name), raising=False)
    config = Config()
    for name, knob in KNOBS.items():
        assert getattr(config, name) == knob.default
        assert name in Config.__annotations__ and knob.doc in config.describe()


@pytest.mark.parametrize(("text", "value"), [("1", True), ("On", True), ("0", False), ("", False)])
def test_environment(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("RUSHLIGHT_SHOW_STUBS", text)
    assert Config().show_stubs is value


def test_bad_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSHLIGHT_ANOMALY", "perhaps")
    with pytest.raises(ValueError, match="RUSHLIGHT_ANOMALY is 'perhaps'"):
        Config().anomaly


def test_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSHLIGHT_ANOMALY", "1")
    config = Config()
    config.anomaly = False
    assert config.anomaly is False
    with pytest.raises(TypeError, match="takes bool, not 1"):
        config.anomaly = 1
    with pytest.raises(AttributeError, match="no setting 'anomoly'"):
        config.anomoly = True
    with pytest.raises(AttributeError, match="no setting 'anomoly'"):
        config.anomoly


def test_patch_restores() -> None:
    config = Config()
    config.anomaly = False
    with pytest.raises(KeyError), config.patch(anomaly=True):
        assert config.anomaly
        raise KeyError
    assert not config.anomaly


def test_patch_gives_the_environment_its_say_again(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    with config.patch(cache_dir="here"):
        assert config.cache_dir == "here"
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "there")
    assert config.cache_dir == "there"
    monkeypatch.delenv("RUSHLIGHT_CACHE_DIR")
    assert config.cache_dir == "there"


def sources() -> dict[str, str]:
    root = Path(rushlight.__file__).parent
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}


def test_every_setting_has_a_reader() -> None:
    texts = sources()
    del texts["base/config.py"]
    for name in KNOBS:
        pattern = re.compile(rf"\b_?config\.{name}\b")
        assert any(map(pattern.search, texts.values())), name


def test_no_other_module_reads_settings_from_the_environment() -> None:
    pattern = re.compile(r"environ\S*\W+(RUSHLIGHT|FX)_|getenv")
    assert [path for path, text in sources().items() if pattern.search(text)] == []


def test_anomaly_is_on_from_the_start_in_every_thread() -> None:
    code = """
import threading
import rushlight as torch
def failing():
    try:
        torch.tensor([-1.0]).sqrt()
    except RuntimeError as error:
        print(torch.is_anomaly_enabled(), "sqrt" in str(error))
failing()
thread = threading.Thread(target=failing)
thread.start()
thread.join()
"""
    for text, expected in (("1", ["True True"] * 2), ("0", [])):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "RUSHLIGHT_ANOMALY": text},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout.splitlines() == expected, done.stderr


def test_generated_source_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    from rushlight.core.source import compile_source

    compile_source("a = 1\n", "stub of nothing", {})
    assert capsys.readouterr().err == ""
    with settings.patch(show_stubs=True):
        compile_source("a = 2\n", "stub of nothing", {})
    assert capsys.readouterr().err == "# stub of nothing\na = 2\n\n"


@pytest.mark.parametrize(("name", "mark"), [("show_stride", "[1]"), ("show_device", "cpu")])
def test_graphs_show_what_is_asked(monkeypatch: pytest.MonkeyPatch, name: str, mark: str) -> None:
    graph = make_fx(lambda x: x + 1)(rushlight.ones(3))
    for asked in (False, True):
        with settings.patch(**{name: asked}):
            assert (mark in graph.print_readable(print_output=False)) is asked
    monkeypatch.setenv(
        {"show_stride": "FX_GRAPH_SHOW_STRIDE"}.get(name, "FX_GRAPH_SHOW_DEVICE"), "1"
    )
    assert getattr(Config(), name) is True
