"""Every law of `statements.py` about every differentiable op, in float64 and complex128.

A case is one sample of an op under one law. `make laws` runs all of them; `make test` a fixed
share. Errors count as failures unless they carry a code and `exceptions.py` gives the reason.
"""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

from tests.laws.exceptions import OUTSIDE, REFUSED, entry_of
from tests.laws.statements import LAWS, disagreement
from tests.laws.subjects import OPS, Subject, name_of, subjects_of
from tests.opset import floors

SHARE = 40  # one of so many pairs of an op and a law is part of `make test`


def pairs() -> list[Any]:
    found = []
    for law in LAWS:
        for op in OPS:
            label = f"{law}-{name_of(op)}"
            marks = () if zlib.crc32(label.encode()) % SHARE == 0 else (pytest.mark.slow,)
            found.append(pytest.param(law, op, id=label, marks=marks))
    return found


def failures_of(name: str, law: str, subject: Subject) -> tuple[int, list[str]]:
    """(comparisons made, what was wrong with them)."""
    label = f"{subject.dtype.name} {subject.case!r}"
    lines = []
    made = 0
    try:
        for what, left, right in LAWS[law].law(subject):
            made += 1
            difference = disagreement(left, right)
            if difference is not None:
                lines.append(f"{label} {what}: {difference}")
    except Exception as error:
        code = getattr(error, "code", "")
        if not code or not entry_of(REFUSED, name, law, label, code):
            text = " ".join(str(error).split())[:300]
            lines.append(f"{label}: {type(error).__name__} {code}: {text}")
    return made, lines


@pytest.mark.parametrize(("law", "op"), pairs())
def test_law(law: str, op: Any, record_property: Any) -> None:
    name = name_of(op)
    terms = LAWS[law]
    comparisons, cases = 0, 0
    lines: list[str] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        subjects = subjects_of(op, terms.samples, terms.largest, terms.in_place)
        floors.ran("laws", name, len(subjects))
        for subject in subjects:
            if entry_of(OUTSIDE, name, law, f"{subject.dtype.name} {subject.case!r}"):
                continue
            made, wrong = failures_of(name, law, subject)
            comparisons += made
            cases += made > 0
            lines += wrong
    record_property("law", law)
    record_property("cases", cases)
    record_property("comparisons", comparisons)
    if lines:
        pytest.fail("\n".join([name, *lines[:6]]), pytrace=False)
