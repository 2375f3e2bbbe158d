"""The registry of reasons, and the exceptions that carry a code."""

from __future__ import annotations

import pytest

from rushlight.base import errors, reasons


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> str:
    reason = errors.Reason("{name} must be {expected}", "Because.", "Use {expected}.")
    monkeypatch.setitem(reasons.REASONS, "RL9999", reason)
    return "RL9999"


def test_text_is_the_template_and_advice_is_a_note(code: str) -> None:
    with pytest.raises(IndexError) as caught:
        errors.fail(code, IndexError, name="dim", expected=3)
    assert str(caught.value) == "dim must be 3"
    assert caught.value.code == code
    assert caught.value.__notes__ == ["RL9999: Because. Use 3."]
    assert errors.explain(code).splitlines()[1:] == ["Because.", "Use {expected}."]


def test_missing_feature() -> None:
    with pytest.raises(NotImplementedError) as caught:
        raise errors.MissingFeature("sparse layouts", remedy="Call to_dense() first.")
    assert str(caught.value) == (
        "Rushlight does not support sparse layouts (RL0001). Call to_dense() first."
    )
    assert caught.value.code == "RL0001"


def test_missing_extra_names_the_command() -> None:
    error = errors.MissingExtra("sympy", "compile")
    assert isinstance(error, ImportError) and error.name == "sympy"
    assert "pip install 'rushlight[compile]'" in str(error)
