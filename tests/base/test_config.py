"""Settings: environment, assignment, refusals."""

from __future__ import annotations

import pytest

from rushlight.base.config import KNOBS, Config


def test_defaults_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KNOBS:
        monkeypatch.delenv(f"RUSHLIGHT_{name.upper()}", raising=False)
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
