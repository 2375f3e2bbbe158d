"""Record, with PyTorch, what `torch.compile` makes of the programs in tests/capture/features.py and
idioms.py: graphs, operators in each, breaks. Writes tests/reference/capture/{features,idioms}.json."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "capture"
RECORDED = ROOT / "tests" / "reference" / "capture"


def load(name):
    source = PROGRAMS / f"{name}.py"
    names = {
        "__name__": name,
        "torch": torch,
        "nn": nn,
        "F": F,
        "np": np,
        "graph_break": torch._dynamo.graph_break,
    }
    module = type(sys)(name)
    sys.modules[name] = module
    module.__dict__.update(names)
    exec(compile(source.read_text(), str(source), "exec"), module.__dict__)
    return {name: f for name, f in module.__dict__.items() if name.startswith("p_")}


def arguments():
    return torch.arange(6.0).reshape(2, 3) / 5 + 0.1, torch.ones(2, 3)


def record(f):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    ops = []

    def backend(gm, inputs):
        ops.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward

    found = {}
    try:
        torch.compile(f, backend=backend)(*arguments())
    except Exception as error:
        found["error"] = type(error).__name__
    found["ops"] = ops
    found["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
    return found


def main():
    os.environ.setdefault("TORCH_LOGS", "-all")
    for name in ("features", "idioms"):
        found = {program: record(f) for program, f in load(name).items()}
        target = RECORDED / f"{name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        header = {"torch": importlib.metadata.version("torch")}
        rows = {"": header, **found}.items()
        lines = [f'"{program}": {json.dumps(value)}' for program, value in rows]
        target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{name}: {len(found)} programs")


if __name__ == "__main__":
    main()
