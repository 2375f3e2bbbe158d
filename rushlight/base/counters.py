"""Counts of what happened in this process, by topic and event, for users who look at them."""

from __future__ import annotations

from collections import Counter, defaultdict

__all__ = ["counters"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
