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

from rushlight.core import dtype as dtypes
from rushlight.opset.samples.maker import samples_of
from tests.laws.exceptions import OUTSIDE, REFUSED, covers, entries_of
from tests.laws.statements import LAWS, disagreement
from tests.laws.subjects import OPS, Subject, name_of, subjects_of
from tests.opset import floors

SHARE = 80  # one of so many pairs of an op and a law is part of `make test`


def pairs() -> list[Any]:
    found = []
    for law in LAWS:
        for op in OPS:
            label = f"{law}-{name_of(op)}"
            marks = () if zlib.crc32(label.encode()) % SHARE == 0 else (pytest.mark.slow,)
            found.append(pytest.param(law, op, id=label, marks=marks))
    return found


class Findings:
    """What came of one op under one law."""

    def __init__(self, op: Any, law: str) -> None:
        self.law = LAWS[law].law
        self.outside = entries_of(OUTSIDE, name_of(op), law)
        self.refused = entries_of(REFUSED, name_of(op), law)
        self.in_vain = set(self.refused)
        self.cases = self.comparisons = 0
        self.lines: list[str] = []

    def add(self, subject: Subject) -> None:
        label = f"{subject.dtype.name} {subject.case!r}"
        if any(covers(entry, label) for entry in self.outside):
            return
        self.cases += 1
        try:
            for what, left, right in self.law(subject):
                self.comparisons += 1
                difference = disagreement(left, right)
                if difference is not None:
                    self.lines.append(f"{label} {what}: {difference}")
        except Exception as error:
            code = getattr(error, "code", "")
            reasons = [entry for entry in self.refused if code and covers(entry, label, code)]
            self.in_vain -= set(reasons)
            if not reasons:
                text = " ".join(str(error).split())[:300]
                self.lines.append(f"{label}: {type(error).__name__} {code}: {text}")


def is_idle(entry: Any, op: Any) -> bool:
    """Whether an entry speaks of no sample of an op."""
    kinds = (dtypes.float64, dtypes.complex128)
    labels = [f"{kind.name} {case!r}" for kind in kinds for case in samples_of(op, kind)]
    return not any(covers(entry, label) for label in labels)


@pytest.mark.parametrize(("law", "op"), pairs())
def test_law(law: str, op: Any, record_property: Any) -> None:
    terms = LAWS[law]
    found = Findings(op, law)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        subjects = subjects_of(op, terms.samples, terms.largest, terms.in_place)
        floors.ran("laws", name_of(op), len(subjects))
        for subject in subjects:
            found.add(subject)
        idle = [entry for entry in found.outside if is_idle(entry, op)]
    for key, value in (("law", law), ("cases", found.cases), ("comparisons", found.comparisons)):
        record_property(key, value)
    if found.lines:
        pytest.fail("\n".join([name_of(op), *found.lines[:6]]), pytrace=False)
    if subjects:
        assert not found.in_vain, f"listed in vain: {found.in_vain}"
        assert not idle, f"no sample is meant by {idle}"
