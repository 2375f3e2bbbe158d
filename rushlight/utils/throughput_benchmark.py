"""torch.utils.throughput_benchmark: how many calls of a module several threads get done."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import Any

from rushlight.base.errors import MissingFeature

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(
    time_us: float | None = None, time_ms: float | None = None, time_s: float | None = None
) -> str:
    """A span of time in the largest unit of which there is one."""
    given = [
        value * factor
        for value, factor in ((time_us, 1.0), (time_ms, 1e3), (time_s, 1e6))
        if value is not None
    ]
    if len(given) != 1:
        raise AssertionError("Expected only one of time_us, time_ms, time_s is given.")
    micro = given[0]
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if micro >= size:
            return f"{micro / size:.3f}{unit}"
    return f"{micro:.3f}us"


class BenchmarkConfig:
    """How a benchmark runs."""

    num_calling_threads = 1
    num_worker_threads = 1
    num_warmup_iters = 1
    num_iters = 100
    profiler_output_path = ""


class BenchmarkExecutionStats:
    """What a benchmark measured."""

    def __init__(self, latency_avg_ms: float, num_iters: int) -> None:
        self.latency_avg_ms = latency_avg_ms
        self.num_iters = num_iters


class ExecutionStats:
    """What a benchmark measured, and what follows from it."""

    def __init__(self, c_stats: Any, benchmark_config: Any) -> None:
        self._c_stats = c_stats
        self.benchmark_config = benchmark_config

    @property
    def latency_avg_ms(self) -> float:
        return float(self._c_stats.latency_avg_ms)

    @property
    def num_iters(self) -> int:
        return int(self._c_stats.num_iters)

    @property
    def iters_per_second(self) -> float:
        """Of all calling threads together."""
        return self.num_iters / self.total_time_seconds

    @property
    def total_time_seconds(self) -> float:
        threads: int = self.benchmark_config.num_calling_threads
        return self.num_iters * (self.latency_avg_ms / 1000.0) / threads

    def __str__(self) -> str:
        return (
            f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}\n"
            f"Total number of iterations: {self.num_iters}\n"
            "Total number of iterations per second (across all threads): "
            f"{self.iters_per_second:.2f}\n"
            f"Total time: {format_time(time_s=self.total_time_seconds)}"
        )


class ThroughputBenchmark:
    """Calls a module on inputs that were added, from several threads at once."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._inputs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        return self._module(*args, **kwargs)

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        self._inputs.append((args, kwargs))

    def benchmark(
        self,
        num_calling_threads: int = 1,
        num_warmup_iters: int = 10,
        num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> ExecutionStats:
        """Runs inputs drawn from those added, and measures the calls after the warm-up."""
        if not self._inputs:
            raise RuntimeError(
                "Please provide benchmark inputs.Did you forget to call add_input()?"
            )
        config = BenchmarkConfig()
        config.num_calling_threads = num_calling_threads
        config.num_warmup_iters = num_warmup_iters
        config.num_iters = num_iters
        config.profiler_output_path = profiler_output_path
        if profiler_output_path:
            raise MissingFeature("a profile of a throughput benchmark", code="RL0016")
        return self.measured(config)

    def measured(self, config: BenchmarkConfig) -> ExecutionStats:
        ready = threading.Barrier(config.num_calling_threads + 1)
        left = [config.num_iters]
        lock = threading.Lock()
        seconds: list[float] = []
        failures: list[BaseException] = []

        def call() -> None:
            draw = random.Random()
            waiting = True
            try:
                for _ in range(config.num_warmup_iters):
                    args, kwargs = draw.choice(self._inputs)
                    self._module(*args, **kwargs)
                waiting = False
                ready.wait()
                start = time.perf_counter()
                while True:
                    with lock:
                        if left[0] <= 0:
                            break
                        left[0] -= 1
                    args, kwargs = draw.choice(self._inputs)
                    self._module(*args, **kwargs)
                seconds.append(time.perf_counter() - start)
            except BaseException as failure:
                failures.append(failure)
                if waiting:
                    ready.abort()

        threads = [threading.Thread(target=call) for _ in range(config.num_calling_threads)]
        for thread in threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            ready.wait()
        for thread in threads:
            thread.join()
        causes = [each for each in failures if not isinstance(each, threading.BrokenBarrierError)]
        if causes:
            raise causes[0]
        latency = sum(seconds) * 1000.0 / config.num_iters
        return ExecutionStats(BenchmarkExecutionStats(latency, config.num_iters), config)
