"""Adds up the cases that the laws were stated about; a whole run must reach a floor.

The counts travel with the tests' reports, so that they add up over worker processes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

FLOOR = 8000  # cases: one sample of an op under one law
CASES: Counter[str] = Counter()
COMPARISONS: Counter[str] = Counter()


def pytest_runtest_logreport(report: Any) -> None:
    found = dict(report.user_properties)
    if report.when == "call" and "law" in found:
        CASES[found["law"]] += found["cases"]
        COMPARISONS[found["law"]] += found["comparisons"]


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    if not CASES:
        return
    terminalreporter.section("laws")
    for law, count in sorted(CASES.items()):
        terminalreporter.line(f"{law:32}{count:7} cases{COMPARISONS[law]:8} comparisons")
    terminalreporter.line(f"{'all':32}{CASES.total():7} cases{COMPARISONS.total():8} comparisons")


def pytest_sessionfinish(session: Any) -> None:
    is_whole = session.config.option.markexpr == "slow or not slow" and not (
        session.config.option.keyword or hasattr(session.config, "workerinput")
    )
    if is_whole and CASES and CASES.total() < FLOOR and not session.exitstatus:
        session.exitstatus = 1
        print(f"\nonly {CASES.total()} cases of the laws ran; the floor is {FLOOR}")
