"""Record the guards that PyTorch makes, for tests/symbolic/test_guard_parity.py.

Run with a Python that has PyTorch: `python tools/record_guards.py`. Programs are traced forward and
backward with all sizes dynamic; each op runs on fakes of its samples. Of samples those without
guards are left out; `null` stands for what PyTorch refuses, or has not.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tools"))

import torch  # noqa: E402
from record_reference import torch_function, torch_value  # noqa: E402
from torch._dispatch.python import enable_python_dispatcher  # noqa: E402
from torch._dynamo.source import ConstantSource  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.fx.experimental.symbolic_shapes import ShapeEnv  # noqa: E402

from rushlight.core import dtype as dtypes  # noqa: E402
from rushlight.opset import audit  # noqa: E402
from rushlight.opset.samples.maker import Sample, has_samples, samples_of  # noqa: E402
from tests.reference import forms, store  # noqa: E402
from tests.reference.guards import checking, programs  # noqa: E402


def guards_of_program(build: programs.Program) -> list[str] | None:
    torch.manual_seed(0)
    function, inputs = build(torch)
    try:
        traced = make_fx(programs.with_gradients(torch, function), tracing_mode="symbolic")(*inputs)
    except Exception as error:
        print(f"{build.__name__}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
        return None
    return checking.texts(traced.shape_env)


def guards_of_sample(call: Any, case: Sample) -> list[str] | None:
    made = store.mapped(case, torch_value)
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    count = 0

    def fake(value: Any) -> Any:
        nonlocal count
        if not isinstance(value, torch.Tensor):
            return value
        count += 1
        return mode.from_tensor(value.detach(), source=ConstantSource(f"t{count}"))

    bare = store.mapped(made, fake)
    try:
        with mode, enable_python_dispatcher():
            call(*bare.args, **bare.kwargs)
    except Exception:
        return None
    return checking.texts(env)


def guards_of_samples(op: Any, call: Any) -> dict[str, Any]:
    """Those of the op's samples that make guards or are refused."""
    entry: dict[str, Any] = {}
    for case in samples_of(op, dtypes.float32):
        if all(tensor.layout.name == "strided" for tensor in store.tensors_of(case)):
            found = guards_of_sample(call, case)
            if found != []:
                entry[forms.digest(case)] = found
    return entry


def in_child(function: Any, *args: Any) -> Any:
    """What a function returns in a process of its own; None where the process does not survive."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(function(*args), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def samples() -> dict[str, Any]:
    result: dict[str, Any] = {}
    # What is imported with the first calls is imported once, for all children.
    guards_of_program(programs.PROGRAMS["mlp"])
    for op in audit.records():
        call = torch_function(op)[0] if has_samples(op) else None
        entry = None if call is None else in_child(guards_of_samples, op, call)
        if entry is None:
            print(f"{op.name()}: not recorded", file=sys.stderr)
        if entry != {}:
            result[op.name()[6:]] = entry
    return result


def write(name: str, record: dict[str, Any]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(record.items())]
    (checking.FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    wanted = sys.argv[1:] or ["programs", "ops"]
    if "programs" in wanted:
        found = {name: guards_of_program(build) for name, build in programs.PROGRAMS.items()}
        write("programs", found)
    if "ops" in wanted:
        write("ops", samples())


if __name__ == "__main__":
    main()
