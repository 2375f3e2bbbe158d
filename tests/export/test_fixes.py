from __future__ import annotations

from typing import Any

import pytest

from rushlight.capture.exc import UserError
from rushlight.export import Dim
from rushlight.export import refine_dynamic_shapes_from_suggested_fixes as refine

HEAD = "Constraints violated!\n  - something\n\nSuggested fixes:\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("  a = 4", "{'x': (4, b), 'y': [{0: 9}, None]}"),
        ("  a = Dim('a', min=3, max=6)", "{'x': (a, b), 'y': [{0: 2*a + 1}, None]}"),
        ("  b = 2*a + 1", "{'x': (a, 2*a + 1), 'y': [{0: 2*a + 1}, None]}"),
        ("  b = a", "{'x': (a, a), 'y': [{0: 2*a + 1}, None]}"),
        (
            "  _a = Dim('_a', max=12)\n  a = 3*_a - 1\n  b = 3*_a",
            "{'x': (3*_a - 1, 3*_a), 'y': [{0: 6*_a - 1}, None]}",
        ),
        (
            "  b = 7\n\nThe error above occurred when ...",
            "{'x': (a, 7), 'y': [{0: 2*a + 1}, None]}",
        ),
    ],
)
def test_fixes_are_put_into_the_specification(lines: str, expected: str) -> None:
    a, b = Dim("a"), Dim("b")
    found = refine(HEAD + lines, {"x": (a, b), "y": [{0: 2 * a + 1}, None]})

    def shown(part: Any) -> str:
        return part.__name__ if isinstance(part, Dim) else repr(part)

    text = (
        f"{{'x': ({', '.join(map(shown, found['x']))}), "
        f"'y': [{{0: {shown(found['y'][0][0])}}}, {found['y'][1]}]}}"
    )
    assert text == expected


def test_bounds_that_are_not_written() -> None:
    """A new root begins at 2, the least size that tracing reasons about; others keep theirs."""
    found = refine(HEAD + "  _a = Dim('_a', max=12)\n  a = 3*_a - 1", {"x": (Dim("a"),)})
    root = found["x"][0].root
    assert (root.min, root.max, found["x"][0].min) == (2, 12, 5)
    found = refine(HEAD + "  a = Dim('a', max=6)", {"x": (Dim("a", min=1),)})
    assert (found["x"][0].min, found["x"][0].max) == (1, 6)


def test_texts_without_fixes() -> None:
    with pytest.raises(UserError, match="Suggested fixes not found"):
        refine("nothing here", {})
    with pytest.raises(AssertionError, match="'zz' is for no dim"):
        refine(HEAD + "  zz = 3", {"x": (Dim("a"),)})
