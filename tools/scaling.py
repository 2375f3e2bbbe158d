"""Predicts the time of a training step on many processes, from what is measured on a few.

    python tools/scaling.py measure --out build/scaling.json     # 1, 2 and 4 processes, here
    python tools/scaling.py predict build/scaling.json           # and 8 to 4096

A step is compute and messages. Compute is the same step with all messages left out, while the
others compute, too; where a message would be, all wait for the slowest, as they would for it. A
message costs a latency and a time a byte, fitted to measured collectives,
which take turns with the steps; how many there are and how large is recorded. Nothing of the
measured times of whole steps is fed in: the prediction is checked against them. Nothing is taken
off for messages that travel while a process computes: where all cores compute, that saves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COUNTS = (1, 2, 4)
MANY = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
WIDTH, LAYERS, HEADS, LENGTH, WORDS, BATCH = 128, 4, 4, 64, 64, 4
KINDS = ("data", "sharded", "tensor")
SIZES = (1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)


# -- the model -------------------------------------------------------------------------------------


def make(torch: Any) -> Any:
    nn = torch.nn
    torch.manual_seed(0)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, hidden: Any) -> Any:
            known = self.norm1(hidden)
            heads = [
                linear(known).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                for linear in (self.q, self.k, self.v)
            ]
            mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            hidden = hidden + self.out(mixed.transpose(1, 2).flatten(2))
            return hidden + self.down(torch.nn.functional.gelu(self.up(self.norm2(hidden))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
            self.head = nn.Linear(WIDTH, WORDS)

        def forward(self, text: Any) -> Any:
            hidden = self.words(text)
            for layer in self.layers:
                hidden = layer(hidden)
            return self.head(hidden).transpose(1, 2)

    return GPT()


def in_turns(steps: dict[str, Any], times: int, wait: Any) -> dict[str, list[float]]:
    """The times of several steps, taking turns: what else the machine does hits all."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(times + 2):
        for name, run in steps.items():
            wait()
            began = time.perf_counter()
            run()
            if turn >= 2:
                found[name].append(time.perf_counter() - began)
    return found


# -- measuring -------------------------------------------------------------------------------------


class Silence:
    """Collectives that send nothing, and are written down."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        # Of each step, when it began, came to each collective, and ended.
        self.turns: list[list[float]] = []

    def __enter__(self) -> None:
        from rushlight.distributed.engine import Task
        from rushlight.distributed.groups import ProcessGroup
        from rushlight.distributed.work import Work

        self.before = ProcessGroup.collective
        self.sent.clear()
        self.turns.append([time.perf_counter()])

        def silent(
            group: Any, name: str, detail: str, program: Any, result: Any = None,
            async_op: bool = False, timeout: Any = None,
        ) -> Any:  # fmt: skip
            if result is None:
                # Objects, once: in which order gradients come.
                return self.before(group, name, detail, program, result, async_op, timeout)
            if group.size() > 1:
                first = result[0] if isinstance(result, list) else result
                many = group.size() if name.startswith("reduce_scatter") else 1
                self.turns[-1].append(time.perf_counter())
                self.sent.append((name, first.numel() * first.element_size() * many))
                if name.startswith("all_gather"):
                    first.zero_()
            task = Task(iter(()), name, group.party, -1)
            task.done = True
            return Work(task, group, result, 1.0) if async_op else None

        ProcessGroup.collective = silent

    def __exit__(self, *args: object) -> None:
        from rushlight.distributed.groups import ProcessGroup

        ProcessGroup.collective = self.before
        self.turns[-1].append(time.perf_counter())

    def seconds(self, gather: Any) -> float:
        """The median step in which all wait for the slowest at each collective."""
        every = gather([[b - a for a, b in pairwise(turn)] for turn in self.turns[2:]])
        return statistics.median([
            sum([max(parts) for parts in zip(*turn)]) for turn in zip(*every)
        ])  # fmt: skip


def work(out: str, times: int) -> None:
    """What each process measures; rank 0 writes it."""
    import rushlight as torch
    import rushlight.distributed as dist
    from rushlight.distributed.fsdp import fully_shard
    from rushlight.distributed.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from rushlight.nn.parallel import DistributedDataParallel

    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    text = torch.randint(0, WORDS, (BATCH, LENGTH))

    def step(model: Any) -> Any:
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01)

        def run() -> None:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(text), text).backward()
            optimiser.step()

        return run

    spread = make(torch)
    for layer in spread.layers:
        fully_shard(layer)
    split = make(torch)
    mesh = dist.init_device_mesh("cpu", (size,))
    plan = {each: ColwiseParallel() for each in ("q", "k", "v", "up")}
    for layer in split.layers:
        parallelize_module(
            layer, mesh, plan | {"out": RowwiseParallel(), "down": RowwiseParallel()}
        )
    model = make(torch)
    loud = {
        "data": step(DistributedDataParallel(make(torch))),
        "sharded": step(fully_shard(spread)),
        "tensor": step(split),
    }
    silence = {kind: Silence() for kind in loud}

    def quiet(kind: str) -> Any:
        def run() -> None:
            with silence[kind]:
                loud[kind]()

        return run

    steps = {"compute": step(model)} | loud
    steps |= {f"{kind} compute": quiet(kind) for kind in loud}
    for count in SIZES:
        whole, part = torch.ones(count // 4), torch.ones(count // 4 // size)
        steps |= {
            f"all_reduce {count}": lambda w=whole: dist.all_reduce(w),
            f"all_gather {count}": lambda w=whole, p=part: dist.all_gather_into_tensor(w, p),
            f"reduce_scatter {count}": lambda w=whole, p=part: dist.reduce_scatter_tensor(p, w),
        }
    facts: dict[str, Any] = {
        "processes": size,
        "parameters": sum([p.numel() for p in model.parameters()]) * 4,
        "bundles": LAYERS + 1,
    }

    def gather(own: Any) -> list[Any]:
        every: list[Any] = [None] * size
        dist.all_gather_object(every, own)
        return every

    every = gather(in_turns(steps, times, dist.barrier))
    for name in steps:
        turns = zip(*[each[name] for each in every])
        # The last one to come to a message waits for nobody.
        facts[name] = statistics.median([min(turn) if " " in name else turn[0] for turn in turns])
    for kind, each in silence.items():
        facts[f"{kind} compute"] = each.seconds(gather)
    facts["messages"] = {kind: each.sent for kind, each in silence.items()}
    if rank == 0:
        Path(out).write_text(json.dumps(facts))
    dist.destroy_process_group()


def measure(out: Path, times: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for count in COUNTS:
        part = out.with_suffix(f".{count}.json")
        subprocess.run(
            [sys.executable, "-m", "rushlight", "launch", "-n", str(count), __file__, "work",
             "--out", str(part), "--times", str(times)],
            check=True, cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        found.append(json.loads(part.read_text()))
        part.unlink()
    out.write_text(json.dumps(found, indent=1))


# -- predicting ------------------------------------------------------------------------------------


def fit(times: dict[int, float], volume: Any) -> tuple[float, float]:
    """(seconds a call, seconds a byte that passes): least squares of relative errors."""
    rows = [(volume(size), took) for size, took in times.items()]
    weights = [1 / took**2 for _, took in rows]
    total = sum(weights)
    mean_x = sum([w * x for w, (x, _) in zip(weights, rows)]) / total
    mean_y = sum([w * y for w, (_, y) in zip(weights, rows)]) / total
    spread = sum([w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, rows)])
    slope = sum([w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, rows)]) / spread
    slope = max(slope, 0.0)
    return max(mean_y - slope * mean_x, 1e-6), slope


class Costs:
    """Messages among the processes of one measurement, or among more by its latency and rate."""

    def __init__(self, facts: dict[str, Any]) -> None:
        size = facts["processes"]
        self.measured = size
        # What passes to and from a process of a tensor of so many bytes.
        passed = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
        self.fits = {}
        self.passed = passed
        for name, ways in passed.items():
            times = {count: facts[f"{name} {count}"] for count in SIZES}
            self.fits[name] = fit(times, lambda b, w=ways: w * b * (size - 1) / size)

    def cost(self, name: str, count: float, size: int) -> float:
        """A collective on a tensor of `count` bytes. Latency grows with the number of processes:
        every process writes to all others."""
        if size == 1:
            return 0.0
        kind = next((kind for kind in self.fits if name.startswith(kind)), "all_reduce")
        latency, rate = self.fits[kind]
        calls = (size - 1) / (self.measured - 1)
        return latency * calls + rate * self.passed[kind] * count * (size - 1) / size


def predict(facts: dict[str, Any], costs: Costs, size: int) -> dict[str, float]:
    """Seconds a step of so many processes as have been measured."""
    return {
        kind: facts[f"{kind} compute"]
        + sum([costs.cost(name, count, size) for name, count in facts["messages"][kind]])
        for kind in KINDS
    }


def extrapolate(measured: dict[int, dict[str, Any]], costs: Costs, size: int) -> dict[str, float]:
    """Seconds a step where each process has a core of its own. Messages are those of the largest
    measurement; tensor parallelism is within groups, data parallelism among them."""
    alone, most = measured[1], measured[max(measured)]
    found = {}
    for kind in ("data", "sharded"):
        sent = most["messages"][kind]
        found[kind] = alone[f"{kind} compute"] + sum([costs.cost(*each, size) for each in sent])
    ways = most["processes"]
    inside = sum([costs.cost(*each, ways) for each in most["messages"]["tensor"]])
    among = costs.cost("all_reduce", most["parameters"] / ways, size // ways)
    found["tensor"] = alone["tensor compute"] / ways + inside + among
    return found


def report(path: Path) -> int:
    measured = {facts["processes"]: facts for facts in json.loads(path.read_text())}
    print(f"| processes |{' |'.join([f' {kind} | measured | off' for kind in KINDS])} |")
    print(f"| --- |{' --- |' * 3 * len(KINDS)}")
    worst = 0.0
    for size in [*[count for count in COUNTS if count > 1], *MANY]:
        facts = measured.get(size)
        costs = Costs(facts or measured[max(measured)])
        found = predict(facts, costs, size) if facts else extrapolate(measured, costs, size)
        row = [str(size)]
        for kind in KINDS:
            row.append(f"{1000 * found[kind]:.1f}")
            if facts:
                off = found[kind] / facts[kind] - 1
                worst = max(worst, abs(off))
                row += [f"{1000 * facts[kind]:.1f}", f"{100 * off:+.0f} %"]
            else:
                row += ["", ""]
        print(f"| {' | '.join(row)} |")
    print(f"\nmilliseconds a step; furthest from a measurement: {100 * worst:.0f} %")
    return 0 if worst <= 0.15 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["measure", "predict", "work"])
    parser.add_argument("file", nargs="?", default="build/scaling.json")
    parser.add_argument("--out", default="build/scaling.json")
    parser.add_argument("--times", type=int, default=15)
    options = parser.parse_args()
    if options.command == "work":
        work(options.out, options.times)
    elif options.command == "measure":
        measure(Path(options.out), options.times)
    else:
        return report(Path(options.file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
