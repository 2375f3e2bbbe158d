"""Predicts the time of a training step on many processes, from what is measured on a few.

    python tools/scaling.py measure --out build/scaling.json     # 1, 2 and 4 processes, here
    python tools/scaling.py predict build/scaling.json           # and 8 to 4096

A step is compute and messages. Compute is measured as each process does it while the others
compute, too, without any message. A message costs a latency and a time a byte, fitted to measured
collectives; the collectives are those of `rushlight/distributed/algorithms.py`. Nothing of the
measured steps themselves is fed in: the prediction is checked against them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COUNTS = (1, 2, 4)
MANY = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
WIDTH, LAYERS, HEADS, LENGTH, WORDS, BATCH = 128, 4, 4, 64, 64, 4
SIZES = (1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)


# -- the model -------------------------------------------------------------------------------------


def make(torch: Any) -> Any:
    nn = torch.nn
    torch.manual_seed(0)

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.layers = nn.ModuleList([
                nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, batch_first=True)
                for _ in range(LAYERS)
            ])  # fmt: skip
            self.head = nn.Linear(WIDTH, WORDS)

        def forward(self, text: Any) -> Any:
            hidden = self.words(text)
            for layer in self.layers:
                hidden = layer(hidden)
            return self.head(hidden).transpose(1, 2)

    return GPT()


def timed(run: Any, times: int, wait: Any) -> float:
    """The median time of a step, all processes beginning together."""
    found = []
    for turn in range(times + 2):
        wait()
        began = time.perf_counter()
        run()
        if turn >= 2:
            found.append(time.perf_counter() - began)
    return statistics.median(found)


def in_turns(steps: dict[str, Any], times: int, wait: Any) -> dict[str, float]:
    """The median times of several steps, taking turns: what else the machine does hits all."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(times + 2):
        for name, run in steps.items():
            wait()
            began = time.perf_counter()
            run()
            if turn >= 2:
                found[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in found.items()}


# -- measuring -------------------------------------------------------------------------------------


def work(out: str, times: int) -> None:
    """What each process measures; rank 0 writes it."""
    import rushlight as torch
    import rushlight.distributed as dist
    from rushlight.distributed.comm_hooks import noop_hook
    from rushlight.distributed.fsdp import fully_shard
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

    model = make(torch)
    data = DistributedDataParallel(make(torch))
    # What averaging costs without messages: gradients go into buckets and back.
    alone = DistributedDataParallel(make(torch))
    alone.register_comm_hook(None, noop_hook)
    spread = make(torch)
    for layer in spread.layers:
        fully_shard(layer)
    # The same for spreading: on meshes of one process each.
    mesh = dist.DeviceMesh("cpu", [rank], _groups=[dist.new_subgroups(1)[0]])
    spread_alone = make(torch)
    for layer in spread_alone.layers:
        fully_shard(layer, mesh=mesh)
    steps = {
        "compute": step(model),
        "data compute": step(alone),
        "data": step(data),
        "sharded": step(fully_shard(spread)),
        "sharded compute": step(fully_shard(spread_alone, mesh=mesh)),
    }
    facts: dict[str, Any] = {
        "processes": size,
        "parameters": sum([p.numel() for p in model.parameters()]) * 4,
        "bundles": LAYERS + 1,
        **in_turns(steps, times, dist.barrier),
    }
    facts["all_reduce"] = {}
    facts["all_gather"] = {}
    for count in SIZES:
        values = torch.ones(count // 4)
        whole = torch.ones(count // 4 * size)
        facts["all_reduce"][count] = timed(lambda v=values: dist.all_reduce(v), times, dist.barrier)
        facts["all_gather"][count] = timed(
            lambda v=values, w=whole: dist.all_gather_into_tensor(w, v), times, dist.barrier
        )
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


def fit(times: dict[str, float], volume: Any) -> tuple[float, float]:
    """(seconds a call, seconds a byte that passes): least squares of relative errors."""
    rows = [(volume(int(size)), took) for size, took in times.items()]
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
        self.reduce = fit(facts["all_reduce"], lambda b: 2 * b * (size - 1) / size)
        self.gather = fit(facts["all_gather"], lambda b: b * (size - 1))

    def calls(self, size: int) -> float:
        """Messages grow with the number of processes: every process writes to all others."""
        return (size - 1) / (self.measured - 1)

    def all_reduce(self, count: float, size: int) -> float:
        latency, rate = self.reduce
        return latency * self.calls(size) + rate * 2 * count * (size - 1) / size

    def all_gather(self, whole: float, size: int) -> float:
        latency, rate = self.gather
        return latency * self.calls(size) + rate * whole * (size - 1) / size

    def reduce_scatter(self, whole: float, size: int) -> float:
        latency, rate = self.reduce
        return (latency * self.calls(size) + rate * whole * (size - 1) / size) / 2


def predict(facts: dict[str, Any], costs: Costs, size: int) -> dict[str, float]:
    """Seconds a step, as each process has its own batch; tensor parallelism shares one."""
    whole, bundles = facts["parameters"], facts["bundles"]
    buckets = max(1.0, whole / (25 << 20))
    data = facts["data compute"] + buckets * costs.all_reduce(whole / buckets, size)
    each = whole / bundles
    # Gathered before the forward and again before the backward, scattered after it.
    passes = 2 * costs.all_gather(each, size) + costs.reduce_scatter(each, size)
    sharded = facts["sharded compute"] + bundles * passes
    # Two sums of activations a layer in the forward, two in the backward.
    activations = BATCH * LENGTH * WIDTH * 4
    ways = min(size, HEADS)
    tensor = facts["compute"] / ways + LAYERS * 4 * costs.all_reduce(activations, ways)
    if size > ways:
        tensor += costs.all_reduce(whole / ways, size // ways)
    return {"data": data, "sharded": sharded, "tensor": tensor}


def report(path: Path) -> int:
    measured = {facts["processes"]: facts for facts in json.loads(path.read_text())}
    print("| processes | data | measured | off | sharded | measured | off | tensor x data |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    worst = 0.0
    for size in [*[count for count in COUNTS if count > 1], *MANY]:
        facts = measured.get(size)
        costs = Costs(facts or measured[max(measured)])
        # Beyond this machine a process has cores of its own.
        found = predict(facts or measured[1], costs, size)
        row = [str(size)]
        for kind in ("data", "sharded"):
            row.append(f"{1000 * found[kind]:.1f}")
            if facts:
                off = found[kind] / facts[kind] - 1
                worst = max(worst, abs(off))
                row += [f"{1000 * facts[kind]:.1f}", f"{100 * off:+.0f} %"]
            else:
                row += ["", ""]
        print(f"| {' | '.join(row)} | {1000 * found['tensor']:.1f} |")
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
