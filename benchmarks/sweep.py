"""Every op on larger tensors: eager rushlight against eager torch, one thread, taking turns.

    python benchmarks/sweep.py [--ops common|all] [--sizes 16384,1048576] [--dtypes float32]
                               [--seconds S] [--clock cpu|wall] [--numpy] [--write FOLDER]
                               [--json FILE] [-k WORD]

`common` are some hundred ops by hand, forward and backward; `all` adds every op of the registry
whose first sample can be made that large. The table ends with geometric means and the worst.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import import_torch

# isort: split
import time

import numpy as np

import rushlight
from rushlight.base.config import config

# Seconds that each system runs before the other's turn, and the longest call that is timed at all.
SLICE, TOO_LONG = 0.004, 2.0

INTRODUCTION = """\
Time of rushlight divided by that of torch 2.13: one thread, both in one process taking turns, the
best of each, in the process's own CPU time, which other work on the machine disturbs least. Written
by `python benchmarks/sweep.py --ops all --write docs/benchmarks` on a shared machine (AMD EPYC, 2
cores) with other work on it: single ratios move by a third from run to run, means by a tenth.
`--numpy` measures without native code. Ops above 3 stand at the end with the reason."""

# Why ops may take more than three times torch's time.
REASONS = {
    "cholesky_ex": "no definite matrix: torch stops at a minor, NumPy raises and loops follow",
    "cholesky_inverse": "a triangular solve for the identity by loops over blocks, and a product",
    "kthvalue": "rows are sorted as a whole",
    "cummax": "NumPy scans values, and a second pass finds their places",
    "cummin": "NumPy scans values, and a second pass finds their places",
    "igamma": "series and fractions over whole arrays, in float64",
    "mvlgamma": "a logarithm of gamma for each half, in float64",
    "polynomial": "recurrences over whole arrays, one pass for each degree",
    "linalg_lu": "the permutation is followed in Python, one pivot after the other",
    "linalg_lstsq": "singular values for every driver, where torch's is a pivoted QR",
    "split": "a thousand results, each a Python object",
    "pow": "signs of negative bases in passes of their own",
    "renorm": "norms, factors and the product, one pass each",
    "nansum": "a sum, which is looked at for NaN",
    "unique_consecutive": "changes, places and counts, one pass each",
    "cat": "lists of tensors in Python, and a view for each gradient",
    "empty_like": "Python that takes longer than malloc",
    "gelu": "erf in float64 where there is no native code",
    "rrelu_with_noise": "a comparison, two products or choices and a copy, one pass each",
}

Run = Callable[[], Any]
Make = Callable[[Any, "Data"], Run]
Clock = Callable[[], float]


class Data:
    """Inputs of one size and dtype, the same numbers for both systems."""

    def __init__(self, t: Any, count: int, dtype: str) -> None:
        self.t, self.count, self.name = t, count, dtype
        self.dtype = getattr(t, dtype)
        self.drawn = 0
        self.rows = 1 << (int(math.log2(count)) // 2)
        self.columns = count // self.rows

    def numbers(self, shape: tuple[int, ...], low: float, high: float) -> Any:
        self.drawn += 1
        rng = np.random.default_rng(self.drawn)
        if self.name.startswith(("int", "uint")):
            return self.t.tensor(rng.integers(max(low, -9), high + 9, shape)).to(self.dtype)
        values = rng.uniform(low, high, shape).astype(np.float32)
        return self.t.from_numpy(values).to(self.dtype)

    def flat(self, low: float = -2.0, high: float = 2.0) -> Any:
        return self.numbers((self.count,), low, high)

    def square(self, low: float = -2.0, high: float = 2.0) -> Any:
        return self.numbers((self.rows, self.columns), low, high)

    def of(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Any:
        return self.numbers(shape, low, high)

    def images(self, channels: int = 16, high: float = 2.0) -> Any:
        side = max(4, math.isqrt(self.count // channels // 4))
        return self.numbers((4, channels, side, side), -high, high)

    def index(self, below: int, *shape: int) -> Any:
        self.drawn += 1
        return self.t.from_numpy(np.random.default_rng(self.drawn).integers(0, below, shape))

    def mask(self, *shape: int) -> Any:
        self.drawn += 1
        return self.t.from_numpy(np.random.default_rng(self.drawn).random(shape) < 0.5)


# -- the common hundred ----------------------------------------------------------------------------


def unary(name: str, low: float = -2.0, high: float = 2.0) -> Make:
    def make(t: Any, d: Data) -> Run:
        function, x = getattr(t, name), d.flat(low, high)
        return lambda: function(x)

    return make


def binary(name: str, low: float = -2.0) -> Make:
    def make(t: Any, d: Data) -> Run:
        function, x, y = getattr(t, name), d.flat(low), d.flat(low)
        return lambda: function(x, y)

    return make


def network(name: str, *rest: Any, **named: Any) -> Make:
    def make(t: Any, d: Data) -> Run:
        function, x = getattr(t.nn.functional, name), d.square()
        return lambda: function(x, *rest, **named)

    return make


def squares(name: str, *rest: Any, **named: Any) -> Make:
    def make(t: Any, d: Data) -> Run:
        function, x = getattr(t, name), d.square()
        return lambda: function(x, *rest, **named)

    return make


def images(name: str, *rest: Any, **named: Any) -> Make:
    def make(t: Any, d: Data) -> Run:
        function, x = getattr(t.nn.functional, name), d.images()
        return lambda: function(x, *rest, **named)

    return make


def program(text: str, **given: str) -> Make:
    """A call in words that both systems share; `given` says how its names are made from `d`."""

    def make(t: Any, d: Data) -> Run:
        scope: dict[str, Any] = {"t": t, "d": d, "F": t.nn.functional}
        for name, source in given.items():
            scope[name] = eval(source, scope)
        made: Run = eval(f"lambda: {text}", scope)
        return made

    return make


def common() -> dict[str, Make]:
    found: dict[str, Make] = {}
    for name in ("exp", "tanh", "sigmoid", "sin", "cos", "erf", "abs", "neg", "relu", "sign",
                 "floor", "round", "square", "exp2", "expm1", "tan", "atan", "isnan", "erfc",
                 "softsign"):  # fmt: skip
        found[name] = unary(name) if name != "softsign" else network(name)
    for name in ("log", "sqrt", "rsqrt", "log1p", "reciprocal", "lgamma", "digamma", "log2"):
        found[name] = unary(name, 0.1, 3.0)
    for name in ("erfinv", "asin", "acos", "atanh"):
        found[name] = unary(name, -0.95, 0.95)
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "atan2", "eq", "lt"):
        found[name] = binary(name)
    found["pow(x, y)"] = binary("pow", 0.2)
    for name in ("gelu", "silu", "leaky_relu", "elu", "softplus", "hardtanh", "mish", "hardswish",
                 "logsigmoid", "relu6", "selu"):  # fmt: skip
        found[name] = network(name)
    found["gelu tanh"] = network("gelu", approximate="tanh")
    found |= {
        "x ** 3": program("x ** 3", x="d.flat()"),
        "x ** 2.5": program("x ** 2.5", x="d.flat(0.1)"),
        "x * 2": program("x * 2", x="d.flat()"),
        "x + bias": program("x + y", x="d.square()", y="d.of(d.columns)"),
        "add_": program("x.add_(y, alpha=1e-4)", x="d.flat()", y="d.flat()"),
        "mul_": program("x.mul_(0.9999)", x="d.flat()"),
        "clamp": program("t.clamp(x, -1, 1)", x="d.flat()"),
        "where": program("t.where(m, x, y)", m="d.mask(d.count)", x="d.flat()", y="d.flat()"),
        "masked_fill": program("x.masked_fill(m, 0.0)", m="d.mask(d.count)", x="d.flat()"),
        "lerp": program("t.lerp(x, y, 0.3)", x="d.flat()", y="d.flat()"),
        "addcmul": program(
            "t.addcmul(x, y, z, value=0.5)", x="d.flat()", y="d.flat()", z="d.flat()"
        ),
        "nan_to_num": program("t.nan_to_num(x)", x="d.flat()"),
        "xlogy": program("t.xlogy(x, y)", x="d.flat(0.1)", y="d.flat(0.1)"),
        "logaddexp": program("t.logaddexp(x, y)", x="d.flat()", y="d.flat()"),
        "ndtri": program("t.special.ndtri(x)", x="d.flat(0.01, 0.99)"),
        "to(bfloat16)": program("x.to(t.bfloat16)", x="d.flat()"),
        "to(float32)": program("x.to(t.float32)", x="d.flat().to(t.bfloat16)"),
        "bfloat16 add": program("x + y", x="d.flat().bfloat16()", y="d.flat().bfloat16()"),
        "bfloat16 gelu": program("F.gelu(x)", x="d.flat().bfloat16()"),
        "clone": program("x.clone()", x="d.flat()"),
        "zeros_like": program("t.zeros_like(x)", x="d.flat()"),
        "transposed copy": program("x.t().contiguous()", x="d.square()"),
        "rand": program("t.rand(d.count)"),
        "randn": program("t.randn(d.count)"),
        "randint": program("t.randint(0, 100, (d.count,))"),
        "dropout": program("F.dropout(x, 0.1)", x="d.square()"),
        "arange": program("t.arange(d.count)"),
    }  # fmt: skip
    for name in ("sum", "mean", "amax", "var", "norm", "argmax", "prod", "logsumexp", "std"):
        if name != "logsumexp":
            found[name] = squares(name)
        if name not in ("norm", "prod"):
            found[f"{name}(dim=0)"] = squares(name, 0)
            found[f"{name}(dim=1)"] = squares(name, 1)
    for name in ("any", "count_nonzero"):
        found[name] = squares(name)
    for name in ("max", "cumsum", "cumprod", "sort", "argsort", "flip"):
        found[f"{name}(dim=1)"] = squares(name, (1,) if name == "flip" else 1)
    found["cumsum(dim=0)"] = squares("cumsum", 0)
    found["flip(dim=0)"] = squares("flip", (0,))
    found |= {
        "topk": squares("topk", 10),
        "softmax": network("softmax", 1),
        "softmax(dim=0)": network("softmax", 0),
        "log_softmax": network("log_softmax", 1),
        "layer_norm": program(
            "F.layer_norm(x, (d.columns,), w, b)", x="d.square()", w="d.of(d.columns)",
            b="d.of(d.columns)",
        ),
        "rms_norm": program("F.rms_norm(x, (d.columns,), w)", x="d.square()", w="d.of(d.columns)"),
        "group_norm": program("F.group_norm(x, 4)", x="d.images()"),
        "batch_norm": program("F.batch_norm(x, None, None, training=True)", x="d.images()"),
        "cross_entropy": program(
            "F.cross_entropy(x, y)", x="d.square()", y="d.index(d.columns, d.rows)"
        ),
        "mse_loss": program("F.mse_loss(x, y)", x="d.flat()", y="d.flat()"),
        "smooth_l1_loss": program("F.smooth_l1_loss(x, y)", x="d.flat()", y="d.flat()"),
        "bce_with_logits": program(
            "F.binary_cross_entropy_with_logits(x, y)", x="d.flat()", y="d.flat(0.0, 1.0)"
        ),
        "max_pool2d": images("max_pool2d", 2),
        "avg_pool2d": images("avg_pool2d", 2),
        "adaptive_avg_pool2d": images("adaptive_avg_pool2d", 1),
        "pad": images("pad", (1, 1, 1, 1)),
        "interpolate": images("interpolate", scale_factor=2),
        "mm": program("x @ y", x="d.of(d.rows, d.rows)", y="d.of(d.rows, d.rows)"),
        "bmm": program(
            "t.bmm(x, y)", x="d.of(d.count // 4096, 64, 64)", y="d.of(d.count // 4096, 64, 64)"
        ),
        "linear": program(
            "F.linear(x, w, b)", x="d.square()", w="d.of(64, d.columns)", b="d.of(64)"
        ),
        "linalg.solve": program(
            "t.linalg.solve(x, y)", x="d.of(d.count // 1024, 32, 32) + 8 * t.eye(32)",
            y="d.of(d.count // 1024, 32, 4)",
        ),
        "linalg.inv": program(
            "t.linalg.inv(x)", x="d.of(d.count // 1024, 32, 32) + 8 * t.eye(32)"
        ),
        "cat": program("t.cat([x, y])", x="d.square()", y="d.square()"),
        "cat(dim=1)": program("t.cat([x, y], 1)", x="d.square()", y="d.square()"),
        "stack": program("t.stack([x, y])", x="d.square()", y="d.square()"),
        "roll": program("t.roll(x, 3, 1)", x="d.square()"),
        "tril": squares("tril"),
        "repeat": program("x.repeat(2, 2)", x="d.square()"),
        "embedding": program(
            "F.embedding(i, w)", w="d.of(1000, 64)", i="d.index(1000, d.count // 64)"
        ),
        "one_hot": program("F.one_hot(i, 64)", i="d.index(64, d.count // 64)"),
        "index_select": program(
            "t.index_select(x, 0, i)", x="d.square()", i="d.index(d.rows, d.rows)"
        ),
        "gather": program(
            "t.gather(x, 1, i)", x="d.square()", i="d.index(d.columns, d.rows, d.columns)"
        ),
        "x[i]": program("x[i]", x="d.square()", i="d.index(d.rows, d.rows)"),
        "x[mask]": program("x[m]", x="d.flat()", m="d.mask(d.count)"),
        "scatter_add": program(
            "z.scatter_add(1, i, x)", x="d.square()", z="d.square()",
            i="d.index(d.columns, d.rows, d.columns)",
        ),
        "index_add": program(
            "z.index_add(0, i, x)", x="d.square()", z="d.square()", i="d.index(d.rows, d.rows)"
        ),
        "unique": program("t.unique(i)", i="d.index(1000, d.count)"),
        "nonzero": program("t.nonzero(m)", m="d.mask(d.count)"),
        "bincount": program("t.bincount(i)", i="d.index(1000, d.count)"),
        "searchsorted": program(
            "t.searchsorted(s, x)", s="t.linspace(-2, 2, 1000).to(d.dtype)", x="d.flat()"
        ),
    }  # fmt: skip
    return found


# Ops whose backward is timed as well: a leaf, the call on it, and a gradient of ones.
BACKWARD = (
    "exp", "tanh", "sigmoid", "relu", "gelu", "gelu tanh", "silu", "softplus", "x ** 3", "sqrt",
    "mul", "div", "add", "x + bias", "where", "sum(dim=1)", "mean", "amax(dim=1)", "var(dim=1)",
    "logsumexp(dim=1)", "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm",
    "batch_norm", "cross_entropy", "mse_loss", "bce_with_logits", "max_pool2d", "avg_pool2d",
    "linear", "mm", "cat", "index_select", "gather", "x[i]", "embedding", "cumsum(dim=1)",
    "transposed copy", "clamp", "erf", "log", "dropout", "elu", "hardswish",
)  # fmt: skip


def with_gradients(make: Make) -> Make:
    """Forward and backward of a case: its float inputs become leaves."""

    def made(t: Any, d: Data) -> Run:
        run = make(t, d)
        scopes = [cell.cell_contents for cell in run.__closure__ or ()]
        scopes += list(run.__globals__.values()) if "d" in run.__globals__ else []
        leaves = [
            x.requires_grad_() for x in scopes if isinstance(x, t.Tensor) and x.is_floating_point()
        ]

        def step() -> None:
            for leaf in leaves:
                leaf.grad = None
            result = run()
            result.backward(ones)

        ones = t.ones_like(run()).detach()
        return step

    return made


# -- the registry ----------------------------------------------------------------------------------


def registry() -> Iterator[tuple[str, Callable[[Any, Data], Run]]]:
    """Ops whose first usable sample can be made larger: its tensors are alike, and grow."""
    from rushlight.opset import audit
    from rushlight.opset.samples.maker import has_samples, samples_of

    seen: set[str] = set()
    for op in audit.records():
        name = op.base_name
        if name in seen or name.startswith("_") or op._schema.is_mutable or op.is_view_op:
            continue
        if not has_samples(op) or op.list_positions or op.kind.name in ("OPAQUE", "STATEMENT"):
            continue
        for case in samples_of(op, rushlight.float32):
            tensors = [v for v in case.args if isinstance(v, rushlight.Tensor)]
            named = [v for v in case.kwargs.values() if isinstance(v, rushlight.Tensor)]
            if not tensors or named or tensors[0].dim() not in (1, 2):
                continue
            if any([v.shape != tensors[0].shape or v.dtype is not rushlight.float32
                    or 0 in v.shape for v in tensors]):  # fmt: skip
                continue
            seen.add(name)
            yield name, enlarged(op, name, case)
            break


def enlarged(op: Any, name: str, case: Any) -> Callable[[Any, Data], Run]:
    low, high = op.options.get("domain", (None, None))

    def make(t: Any, d: Data) -> Run:
        args = []
        for value in case.args:
            if isinstance(value, rushlight.Tensor):
                shape = (d.count,) if value.dim() == 1 else (d.rows, d.columns)
                ends = (-2.0 if low is None else low, 2.0 if high is None else high)
                value = d.numbers(shape, *ends)
            args.append(value)
        function = getattr(t.ops.aten, name)
        return lambda: function(*args, **case.kwargs)

    return make


# -- timing ----------------------------------------------------------------------------------------


def timed(ours: Run, theirs: Run, seconds: float, clock: Clock) -> tuple[float, float] | None:
    """Best seconds per call of both, taking turns."""
    best, counts = [math.inf, math.inf], [1, 1]
    for at, run in enumerate((ours, theirs)):
        for _ in range(3):
            start = clock()
            run()
            best[at] = min(best[at], clock() - start)
            if best[at] > TOO_LONG:
                break
        counts[at] = max(1, int(SLICE / best[at]))
    # Half a dozen turns at least, however slow the op is or busy the machine.
    end, turns = clock() + seconds, 0
    while clock() < end or (turns < 6 and max(best) < 0.05):
        turns += 1
        for at, run in enumerate((ours, theirs)):
            start = clock()
            for _ in range(counts[at]):
                run()
            best[at] = min(best[at], (clock() - start) / counts[at])
    return best[0], best[1]


def measure(make: Make, torch: Any, size: int, dtype: str, seconds: float, clock: Clock) -> Any:
    runs = []
    for t in (rushlight, torch):
        try:
            t.manual_seed(0)
            runs.append(make(t, Data(t, size, dtype)))
            runs[-1]()
        except Exception as error:
            return (
                f"{type(error).__name__}: {str(error).splitlines()[0][:90] if str(error) else ''}"
            )
    return timed(runs[0], runs[1], seconds, clock)


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def report(table: dict[str, dict[str, Any]], columns: list[str]) -> list[str]:
    """The lines of the table as Markdown: time of rushlight divided by torch's."""
    lines = ["| op | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for name, row in table.items():
        cells = [f"{row[c][0] / row[c][1]:.2f}" if c in row else "" for c in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def summary(table: dict[str, dict[str, Any]], columns: list[str]) -> list[str]:
    lines = []
    for column in columns:
        found = {n: row[column][0] / row[column][1] for n, row in table.items() if column in row}
        worst = sorted(found, key=lambda n: -found[n])[:25]
        above = [len([r for r in found.values() if r > bar]) for bar in (1.5, 3, 10)]
        lines.append(
            f"{column}: {len(found)} ops, geometric mean {geometric_mean(list(found.values())):.2f}"
            f", above 1.5: {above[0]}, above 3: {above[1]}, above 10: {above[2]}"
        )
        lines.append("  worst: " + ", ".join([f"{n} {found[n]:.1f}" for n in worst]))
        own = {n: r for n, r in found.items() if not n.startswith("aten.")}
        above = [len([r for r in own.values() if r > bar]) for bar in (1.5, 3)]
        mean = geometric_mean(list(own.values()))
        lines.append(
            f"  of these by hand: {len(own)}, geometric mean {mean:.2f}, above 1.5: {above[0]}, "
            f"above 3: {above[1]}"
        )
    return lines


def reasons(table: dict[str, dict[str, Any]], columns: list[str]) -> list[str]:
    """A line for each op above 3, with the reason."""
    lines = []
    for name, row in table.items():
        ratios = [row[c][0] / row[c][1] for c in columns if c in row]
        if max(ratios) > 3:
            found = next((why for part, why in REASONS.items() if part in name), "not looked into")
            shown = ", ".join([f"{r:.1f}" for r in ratios])
            lines.append(f"- {name} ({shown}): {found}")
    return lines


def cases(which: str) -> dict[str, Make]:
    found = common()
    found |= {f"{n}, backward": with_gradients(found[n]) for n in BACKWARD}
    if which == "all":
        found |= {f"aten.{name}": make for name, make in registry() if name not in found}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ops", choices=("common", "all"), default="common")
    parser.add_argument("--sizes", default="16384,1048576")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--seconds", type=float, default=0.15, help="time for each case")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="cpu", help="what is counted")
    parser.add_argument("--numpy", action="store_true", help="no native code in eager calls")
    parser.add_argument("--write", metavar="FOLDER", help="write the table there as Markdown")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("-k", metavar="WORD", default="", help="only ops whose name has WORD")
    options = parser.parse_args()
    torch = import_torch()
    clock = time.perf_counter if options.clock == "wall" else time.process_time
    config.eager_native = not options.numpy
    warnings.simplefilter("ignore")
    sizes, kinds = [int(s) for s in options.sizes.split(",")], options.dtypes.split(",")
    columns = [f"{dtype} {size}" for dtype in kinds for size in sizes]
    table: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for name, make in cases(options.ops).items():
        if options.k not in name:
            continue
        row: dict[str, Any] = {}
        for dtype in kinds:
            for size in sizes:
                found = measure(make, torch, size, dtype, options.seconds, clock)
                if isinstance(found, str):
                    refused[f"{name}, {dtype}"] = found
                else:
                    row[f"{dtype} {size}"] = found
        if row:
            table[name] = row
            times = [f"{a * 1e6:10.1f} {b * 1e6:10.1f} {a / b:7.2f}" for a, b in row.values()]
            print(f"{name:28s} {'  '.join(times)}", flush=True)
    for name, why in refused.items():
        print(f"left out: {name}: {why}")
    lines = summary(table, columns)
    print("\n".join(lines))
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")
    if options.write:
        folder = Path(options.write)
        folder.mkdir(parents=True, exist_ok=True)
        text = ["# Eager ops beside torch", "", INTRODUCTION, ""]
        text += [*report(table, columns), "", *lines, "", *reasons(table, columns)]
        (folder / "sweep.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
