"""torch.utils.benchmark: how long statements take, with repetitions and a table to compare.

`Timer` runs a statement with one thread unless told otherwise; `Measurement` holds seconds.
"""

from __future__ import annotations

import timeit as _standard
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean, median, quantiles
from typing import Any

from rushlight.base.lazy import namespace
from rushlight.core.process import get_num_threads, set_num_threads

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]

timer = _standard.default_timer
UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
# A spread of more than this part of the median is told.
LARGE_SPREAD = 0.1


def select_unit(t: float) -> tuple[str, float]:
    """The unit that a time is best told in, and its seconds."""
    found = UNITS[0]
    for unit in UNITS:
        if t >= unit[1]:
            found = unit
    return found


@dataclass(frozen=True)
class TaskSpec:
    """What was measured."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{self.stmt}"


@dataclass
class Measurement:
    """Seconds of runs of a statement, `number_per_run` times each."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def median(self) -> float:
        return median(self.times)

    @property
    def mean(self) -> float:
        return fmean(self.times)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def has_warnings(self) -> bool:
        return self.iqr > LARGE_SPREAD * self.median

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def label(self) -> str | None:
        return self.task_spec.label

    @property
    def sub_label(self) -> str | None:
        return self.task_spec.sub_label

    @property
    def description(self) -> str | None:
        return self.task_spec.description

    @property
    def num_threads(self) -> int:
        return self.task_spec.num_threads

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, with the runs of all."""
        found: dict[tuple[TaskSpec, int], Measurement] = {}
        for each in measurements:
            key = each.task_spec, each.number_per_run
            if key in found:
                found[key].raw_times.extend(each.raw_times)
            else:
                found[key] = Measurement(each.number_per_run, list(each.raw_times), each.task_spec)
        return list(found.values())

    def __repr__(self) -> str:
        unit, seconds = select_unit(self.median)
        lines = [f"<torch.utils.benchmark.utils.common.Measurement object at {hex(id(self))}>"]
        lines.append(self.title)
        runs = f"{len(self.raw_times)} measurement{'s' if len(self.raw_times) > 1 else ''}"
        runs += f", {self.number_per_run} runs per measurement, {self.num_threads} thread"
        kind = "Median: " if len(self.raw_times) > 1 else ""
        lines.append(f"  {kind}{self.median / seconds:.2f} {unit}")
        if len(self.raw_times) > 1:
            lines.append(f"  IQR:    {self.iqr / seconds:.2f} {unit}")
        return "\n".join([*lines, "  " + runs])


class Threads:
    """So many threads for a block."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        self.before = get_num_threads()
        if self.number != self.before:
            set_num_threads(self.number)

    def __exit__(self, *details: Any) -> None:
        if self.number != self.before:
            set_num_threads(self.before)


class Timer:
    """Measures a statement of Python.

    >>> from rushlight.utils.benchmark import Timer
    >>> Timer("x + 1", globals={"x": 1}).timeit(10).number_per_run
    10
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py"):
            from rushlight.base.refusals import refusal

            raise refusal("torch.utils.benchmark.Timer(language='c++')", "RL0015")
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply "
                "be moved to `setup`."
            )
        self._globals = {"torch": _torch(), **(globals or {})}
        self._timer = _standard.Timer(stmt, setup, timer, self._globals)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def run(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Runs the statement so often, once to warm up and once for the time."""
        with Threads(self._task_spec.num_threads):
            self.run(max(number // 100, 2))
            return Measurement(number, [self.run(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], None] | None = None) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def block_size(self, min_run_time: float) -> int:
        """How often to run at a time, so that reading the clock costs a thousandth at most."""
        overhead = median([self.run(0) for _ in range(5)])
        number = 1
        while True:
            taken = self.run(number)
            if (overhead / taken <= 1e-4 and taken >= min_run_time / 1000) or taken > min_run_time:
                return number
            number *= 10

    def collect(self, min_run_time: float, number: int, is_done: Callable[[list[float]], bool]
                ) -> list[float]:  # fmt: skip
        times: list[float] = []
        while sum(times) < min_run_time or not is_done(times):
            times.append(self.run(number))
        return times

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs of a size found by trying, until `min_run_time` seconds have gone into them."""
        with Threads(self._task_spec.num_threads):
            number = self.block_size(min_run_time)
            times = self.collect(min_run_time, number, lambda times: True)
        for each in times if callback is not None else ():
            assert callback is not None
            callback(number, each)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Runs until their spread is below `threshold` of the median, or the time is over."""
        with Threads(self._task_spec.num_threads):
            number = self.block_size(min_run_time)

            def is_done(times: list[float]) -> bool:
                found = Measurement(number, times, self._task_spec)
                if len(times) > 3 and found.iqr < threshold * found.median:
                    return True
                return sum(times) >= max_run_time

            return Measurement(number, self.collect(min_run_time, number, is_done), self._task_spec)


def _torch() -> Any:
    import rushlight

    return rushlight


class Compare:
    """Measurements as a table: labels are tables, sub-labels rows, descriptions columns."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trims = self._colours = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        for each in results:
            if not isinstance(each, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(each)} instead."
                )
            self._results.append(each)

    def trim_significant_figures(self) -> None:
        """Print no more digits than the spread allows."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Mark the best of each row or column, where the table is printed on a terminal."""
        self._colours = True

    def highlight_warnings(self) -> None:
        """Measurements with a large spread are marked always."""

    def print(self) -> None:
        print(self)

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(each.label for each in merged)
        return "\n".join([self.table(label, [e for e in merged if e.label == label])
                          for label in labels])  # fmt: skip

    def table(self, label: str | None, entries: list[Measurement]) -> str:
        unit, seconds = select_unit(min(each.median for each in entries))
        columns = list(dict.fromkeys(each.description or each.title for each in entries))
        lines: list[list[str]] = []
        for threads in sorted({each.num_threads for each in entries}):
            lines.append([f"{threads} threads:", *[""] * len(columns)])
            here = [each for each in entries if each.num_threads == threads]
            for row in dict.fromkeys(each.sub_label or each.task_spec.stmt for each in here):
                found = {
                    each.description or each.title: each
                    for each in here
                    if (each.sub_label or each.task_spec.stmt) == row
                }
                lines.append([f"      {row}", *[self.cell(found.get(c), seconds) for c in columns]])
        cells = list(zip(["", *columns], *lines, strict=True))
        widths = [max(map(len, column)) for column in cells]

        def joined(line: list[str]) -> str:
            first, *rest = line
            cells = [f"{text:>{width}}" for text, width in zip(rest, widths[1:], strict=True)]
            return "  |  ".join([f"{first:<{widths[0]}}", *cells]).rstrip(" |")

        head = joined(["", *columns])
        title = f" {label or ''} ".center(len(head), "-")
        where = {"ns": "nano", "us": "micro", "ms": "milli", "s": ""}[unit]
        foot = f"Times are in {where}seconds ({unit})."
        rule = "-" * len(head)
        return "\n".join([f"[{title}]", head, rule, *map(joined, lines), "", foot, ""])

    def cell(self, found: Measurement | None, seconds: float) -> str:
        if found is None:
            return ""
        digits = f"{found.median / seconds:.3g}" if self._trims else f"{found.median / seconds:.1f}"
        return digits + (" (!)" if found.has_warnings else "")


__getattr__, __dir__ = namespace(
    __name__,
    refused={
        "RL0016": "CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts",
        "RL0019": "FuzzedParameter FuzzedSparseTensor FuzzedTensor Fuzzer ParameterAlias",
    },
)
