"""`FileCheck`: what a text must hold, in order.

Checks are run one after another, each from where the one before it matched. A `check_not` looks
between its neighbours.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["FileCheck"]

WORDS = {
    "check": "CHECK",
    "next": "CHECK-NEXT",
    "same": "CHECK-SAME",
    "not": "CHECK-NOT",
    "dag": "CHECK-DAG",
    "regex": "CHECK-REGEX",
    "highlighted": "CHECK-SOURCE-HIGHLIGHTED",
}
DIRECTIVE = re.compile(
    r"^\s*#\s*CHECK(?P<word>-[A-Z-]*?)?(?:-(?P<count>\d+))?(?P<exactly>-EXACTLY)?:(?P<text>.*)$"
)
CONTEXT_LINES = 3


@dataclass(frozen=True)
class Check:
    """One demand; `count` for those that ask for several matches."""

    what: str
    text: str
    count: int = 0

    def __str__(self) -> str:
        word = f"CHECK-COUNT-{self.count}" if self.what == "count" else WORDS[self.what]
        return f"{word}: {self.text}"


class FileCheck:
    """Builds a list of checks; `run` holds a text against it.

    >>> FileCheck().check("aten::mm").check_next("aten::add").run("aten::mm()\\naten::add()")
    """

    def __init__(self) -> None:
        # Each group is met as a whole: single checks, or dags in any order.
        self.groups: list[list[Check]] = []
        self.has_run = False

    def add(self, check: Check) -> FileCheck:
        joins = check.what == "dag" or check.what == "not"
        if joins and self.groups and self.groups[-1][0].what == check.what:
            self.groups[-1].append(check)
        else:
            self.groups.append([check])
        return self

    def check(self, text: str) -> FileCheck:
        """The text comes after what was found before."""
        return self.add(Check("check", text))

    def check_next(self, text: str) -> FileCheck:
        """The text comes in the line after."""
        return self.add(Check("next", text))

    def check_same(self, text: str) -> FileCheck:
        """The text comes in the same line."""
        return self.add(Check("same", text))

    def check_not(self, text: str) -> FileCheck:
        """The text does not come between the neighbouring checks."""
        return self.add(Check("not", text))

    def check_dag(self, text: str) -> FileCheck:
        """The text comes, in any order with the dags beside it."""
        return self.add(Check("dag", text))

    def check_regex(self, text: str) -> FileCheck:
        """A match of the pattern comes."""
        return self.add(Check("regex", text))

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes `count` times, and with `exactly` not once more before the next check."""
        self.groups.append([Check("count", text, count)])
        if exactly:
            self.groups.append([Check("not", text)])
        return self

    def check_source_highlighted(self, text: str) -> FileCheck:
        """The text comes with a row of ~ below it."""
        return self.add(Check("highlighted", text))

    def run(self, *texts: Any) -> None:
        """Holds a text or graph against the checks; `run(checks, text)` reads them from a text."""
        self.has_run = True
        if len(texts) == 2:
            self.read(str(texts[0]))
        if not self.groups:
            raise RuntimeError(
                "No checks have been added to this instance ofFilecheck! Check for bad input."
            )
        Search(str(texts[-1])).run(self.groups)

    def read(self, directives: str) -> None:
        for line in directives.splitlines():
            found = DIRECTIVE.match(line)
            if found is None:
                continue
            text = found["text"].strip()
            word = (found["word"] or "").strip("-").lower().replace("source-", "")
            if word.startswith("count"):
                self.check_count(text, int(found["count"]), bool(found["exactly"]))
            else:
                self.add(Check(word or "check", text))

    def __del__(self) -> None:
        if not self.has_run and self.groups:
            lines = "".join([f"\n\t{check}" for group in self.groups for check in group])
            print(
                f"You have not run this instance of FileCheck!\nFileCheck checks:{lines}",
                file=sys.stderr,
            )


class Search:
    """A text and how far it has been matched."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0

    def run(self, groups: list[list[Check]]) -> None:
        barred: list[Check] = []
        for group in groups:
            if group[0].what == "not":
                barred += group
                continue
            before = self.end
            start = self.match(group)
            self.forbid(barred, before, start)
            barred = []
        self.forbid(barred, self.end, len(self.text))

    def match(self, group: list[Check]) -> int:
        """Goes on behind what the group matches; where that begins."""
        check = group[0]
        if check.what == "dag":
            places = [(self.find(each, each.text, self.end), len(each.text)) for each in group]
            self.end = max([place + size for place, size in places])
            return min([place for place, _ in places])
        if check.what == "count":
            first = -1
            for _ in range(check.count):
                place = self.find(check, check.text, self.end)
                first = place if first < 0 else first
                self.end = place + len(check.text)
            return first
        if check.what == "regex":
            found = re.compile(check.text).search(self.text, self.end)
            if found is None:
                raise RuntimeError(
                    f'Expected to find regex "{check.text}" but did not find it\n'
                    f"Searched string:\n{self.around(self.end)}From {check}\n"
                )
            self.end = found.end()
            return found.start()
        if check.what == "highlighted":
            return self.highlighted(check)
        return self.plain(check)

    def plain(self, check: Check) -> int:
        place = self.find(check, check.text, self.end)
        if check.what == "next":
            newline = self.find(check, "\n", self.end)
            self.refuse_newline(check, newline + 1, place)
        elif check.what == "same":
            self.refuse_newline(check, self.end, place)
        self.end = place + len(check.text)
        return place

    def refuse_newline(self, check: Check, start: int, end: int) -> None:
        if "\n" in self.text[start:end]:
            raise RuntimeError(
                f'Expected to not find "\\n" but found it\n{self.text}From {check}\n'
            )

    def highlighted(self, check: Check) -> int:
        place = self.text.find(check.text, self.end)
        while place >= 0:
            line_start = self.text.rfind("\n", 0, place) + 1
            line_end = self.text.find("\n", place)
            column = place - line_start
            marks = self.text[line_end + 1 :].partition("\n")[0] if line_end >= 0 else ""
            wanted = "~" * len(check.text)
            if (
                marks[:column].strip(" ~") == ""
                and marks[column : column + len(wanted)] == wanted
                and marks[column - 1 : column] != "~"
                and marks[column + len(wanted) : column + len(wanted) + 1] != "~"
            ):
                self.end = line_end + 1 + column + len(wanted)
                return place
            place = self.text.find(check.text, place + 1)
        raise RuntimeError(
            f'Expected to find "{check.text}"highlighted but it is not.\n{self.text}\n'
        )

    def find(self, check: Check, text: str, start: int) -> int:
        place = self.text.find(text, start)
        if place < 0:
            shown = text.replace("\n", "\\n")
            raise RuntimeError(
                f'Expected to find "{shown}" but did not find it\n'
                f"Searched string:\n{self.around(start)}From {check}\n"
            )
        return place

    def forbid(self, checks: list[Check], start: int, end: int) -> None:
        for check in checks:
            place = self.text.find(check.text, start, end)
            if place >= 0:
                raise RuntimeError(
                    f'Expected to not find "{check.text}" but found it\n'
                    f"{self.marked(place, len(check.text))}From {check}\n"
                )

    def around(self, start: int) -> str:
        """The text from the line in which `start` lies, and some lines before it."""
        lines = self.text.splitlines(keepends=True)
        first = max(self.text.count("\n", 0, start) - CONTEXT_LINES + 1, 0)
        return "".join(lines[first:])

    def marked(self, place: int, size: int) -> str:
        """The lines around a place, which is marked."""
        lines = self.text.splitlines()
        at = self.text.count("\n", 0, place)
        column = place - (self.text.rfind("\n", 0, place) + 1)
        shown = [
            *lines[max(at - CONTEXT_LINES + 1, 0) : at + 1],
            " " * column + "~" * size + " <--- HERE",
            *lines[at + 1 : at + CONTEXT_LINES + 1],
        ]
        return "\n".join(shown) + "\n"
