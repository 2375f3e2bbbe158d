"""Reads the hostile files under an audit hook and prints a line of JSON for each.

A line tells what came out, the seconds and bytes it took, and what the hook heard.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

from hostile import NO_HOOKS, Case, archive, call, cases, indices, tensor, whole

from rushlight.base.errors import CheckpointError
from rushlight.io import safetensors as reader
from rushlight.io.checkpoint import load_inert

# Said of every frame and identity that Python looks up, of tensors that become parameters, and of
# the mapping that was asked for; none of them runs anything.
QUIET = {"sys._getframe", "builtins.id", "object.__setattr__", "mmap.__new__"}


def main() -> None:
    warnings.simplefilter("ignore")

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "file"

    def read(data: bytes, kind: str) -> object:
        if kind == "safetensors":
            return reader.load(data)
        if kind == "mapped":
            return load_inert(path, mmap=True)
        return load_inert(io.BytesIO(data))

    def attempt(case: Case) -> tuple[str, str]:
        try:
            return "read", type(read(case.data, case.reader)).__name__
        except CheckpointError as error:
            return "refused", str(error)
        except BaseException as error:
            return "raised", f"{type(error).__name__}: {error}"

    corpus = list(cases())
    warm_up = [case for case in corpus if case.expect == "read"]
    coo = call("torch.serialization", "_get_layout", "torch.sparse_coo")
    csr = call("torch.serialization", "_get_layout", "torch.sparse_csr")
    two = tensor(size=(2,), stride=(1,))
    ends, plain = indices((3,), (1,)), indices((2,), (1,))
    bodies = (
        call("torch._utils", "_rebuild_sparse_tensor", coo, (indices(), two, (2,), False)),
        call("torch._utils", "_rebuild_sparse_tensor", csr, (ends, plain, two, (2, 2))),
        call("torch._utils", "_rebuild_parameter", tensor(), True, NO_HOOKS),
        tensor() + b"}K\x01Nsb",
    )
    warm_up.extend(Case("", "", archive(whole(body))) for body in bodies)
    for case in (*warm_up, *corpus[:1]):
        path.write_bytes(case.data)
        attempt(case)

    events: list[str] = []
    listening = False

    def hook(event: str, args: tuple) -> None:
        if listening and event not in QUIET:
            said = [arg if isinstance(arg, (str, int)) else type(arg).__name__ for arg in args]
            if event != "open" or not isinstance(said[1], str) or said[1] not in ("r", "rb"):
                events.append(f"{event} {said}"[:200])

    sys.addaudithook(hook)
    for case in corpus:
        path.write_bytes(case.data)
        events.clear()
        listening = True
        began = time.process_time()
        outcome, detail = attempt(case)
        seconds = time.process_time() - began
        listening = False
        peak = 0
        # Memory is slow to measure where much happens: those wait for `all`.
        if seconds < 0.05 or "all" in sys.argv:
            tracemalloc.start()
            attempt(case)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        line = {
            "kind": case.kind, "name": case.name, "expect": case.expect, "outcome": outcome,
            "detail": detail[:300], "seconds": seconds, "peak": peak, "size": len(case.data),
            "events": list(events),
        }  # fmt: skip
        print(json.dumps(line))


if __name__ == "__main__":
    main()
