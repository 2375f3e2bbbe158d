"""Record what PyTorch answers to every op's samples, for tests/opset/test_reference.py.

Run with a Python that has PyTorch: `python tools/record_reference.py [FAMILY ...]`. For each op,
dtype and sample it keeps the inputs, the results (values, sizes, strides), gradients of first order
in float32, float64 and complex128 and of second order in float64, or the class of the exception.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# The warnings of samples that resize are no news.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

import rushlight  # noqa: E402
from rushlight.core import dtype as dtypes  # noqa: E402
from rushlight.core.tensor import Tensor, storage_of, strides_of  # noqa: E402
from rushlight.opset import audit, registry  # noqa: E402
from rushlight.opset.samples.maker import DTYPES, Sample, errors_of, samples_of  # noqa: E402
from tests.reference import forms, manifest, store  # noqa: E402

GRADIENT_DTYPES = ("float32", "float64", "complex128")
# Ops whose results hold whatever the memory held.
UNSET = ("empty", "new_empty", "resize", "empty_like", "empty_strided", "empty_permuted")


# -- conversion ------------------------------------------------------------------------------------


def torch_dtype(kind: Any) -> Any:
    return getattr(torch, kind.name)


def torch_tensor(tensor: Tensor) -> Any:
    """The same memory, sizes, strides and offset; a sparse tensor with the same parts."""
    sizes, kind = tuple(tensor.shape), torch_dtype(tensor.dtype)
    if tensor.layout.name == "sparse_coo":
        parts = [torch_tensor(part.detach()) for part in forms.sparse_parts(tensor)]
        made = torch.sparse_coo_tensor(*parts, sizes, is_coalesced=tensor.is_coalesced())
    elif tensor.layout.name != "strided":
        parts = [torch_tensor(part.detach()) for part in forms.sparse_parts(tensor)]
        layout = getattr(torch, tensor.layout.name)
        made = torch.sparse_compressed_tensor(*parts, sizes, layout=layout)
    elif tensor.device.type == "meta":
        made = torch.empty_strided(sizes, strides_of(tensor), dtype=kind, device="meta")
    else:
        memory = torch.from_numpy(storage_of(tensor).buffer.copy()).untyped_storage()
        made = torch.empty(0, dtype=kind)
        made.set_(memory, tensor.storage_offset(), sizes, strides_of(tensor))
        made = made.conj() if tensor.is_conj() else made
        made = torch._neg_view(made) if tensor.is_neg() else made
    return made.requires_grad_() if tensor.requires_grad else made


def torch_value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch_tensor(value)
    if isinstance(value, rushlight.dtype):
        return torch_dtype(value)
    if isinstance(value, rushlight.device):
        return torch.device(str(value))
    if isinstance(value, (rushlight.layout, rushlight.memory_format)):
        return getattr(torch, str(value).rsplit(".", 1)[-1])
    if isinstance(value, rushlight.Size):
        return tuple(value)
    return value


def numpy_values(tensor: Any) -> Any:
    dense = tensor.detach()
    dense = dense if dense.layout is torch.strided else dense.to_dense()
    plain = dense.resolve_conj()
    plain = (plain.resolve_neg() if plain.is_neg() else plain).contiguous()
    if plain.dtype is torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if plain.dtype is torch.complex32:
        return torch.view_as_real(plain).contiguous().numpy()
    if "float8" in str(plain.dtype):
        return plain.view(torch.uint8).numpy()
    return plain.numpy(force=True)


def torch_function(op: Any) -> tuple[Any, str]:
    """(callable, where it was found) of an op; (None, "") when PyTorch has none."""
    packet = getattr(torch.ops.aten, op.base_name, None)
    if packet is not None and op._overloadname in packet.overloads():
        return getattr(packet, op._overloadname), "aten"
    return public_function(op), "public"


def public_function(op: Any, methods: bool = True) -> Any:
    name = op.base_name
    places = (torch, torch.nn.functional, torch.special)
    for place in (*places, torch.Tensor) if methods else places:
        found = getattr(place, name, None)
        if callable(found):
            return found
    return None


# -- recording -------------------------------------------------------------------------------------


class Recorder:
    """Runs one family's samples."""

    def __init__(self) -> None:
        self.writer = store.Writer(torch.__version__.split("+")[0])
        self.missing: list[str] = []
        self.broken: list[str] = []
        self.texts: list[str] = []
        self.count = 0

    def leaf(self, value: Any, with_values: bool, with_offset: bool) -> Any:
        if isinstance(value, torch.Tensor):
            strides: Any = list(value.stride()) if value.layout is torch.strided else []
            if list(torch.empty(value.shape, device="meta").stride()) == strides:
                strides = None
            name = str(value.dtype).removeprefix("torch.")
            if name not in dtypes.BY_NAME:
                return ["other", str(value.dtype), str(value.layout)]
            if value.layout is not torch.strided:
                return self.sparse_leaf(value, name)
            at = self.writer.array(numpy_values(value)) if with_values else None
            offset = value.storage_offset() if with_offset else None
            return [name, list(value.shape), strides, offset, at]
        if isinstance(value, (list, tuple)):
            return {"list": [self.leaf(item, with_values, with_offset) for item in value]}
        if isinstance(value, complex):
            return {"value": ["complex", value.real, value.imag]}
        if isinstance(value, (bool, int, float, str)) or value is None:
            return {"value": [type(value).__name__, repr(value)]}
        return {"value": ["str", str(value)]}

    def sparse_leaf(self, value: Any, name: str) -> Any:
        layout = str(value.layout).removeprefix("torch.")
        coalesced = value.is_coalesced() if layout == "sparse_coo" else None
        parts = [self.leaf(part.detach(), True, False) for part in forms.sparse_parts(value)]
        return ["sparse", layout, name, list(value.shape), coalesced, parts]

    def op(self, op: Any) -> None:
        name = op.name()
        call, _ = torch_function(op)
        if call is None:
            self.missing.append(name)
            return
        entry = self.writer.op(name)
        for kind in DTYPES:
            try:
                cases = samples_of(op, kind)
            except Exception as error:
                self.broken.append(f"{name} {kind.name}: {type(error).__name__}: {error}")
                continue
            records, seen = [], set()
            for case in cases:
                record, key = self.call(op, case)
                if key not in seen:
                    seen.add(key)
                    records.append(record | self.sample(op, call, case, kind))
                    self.count += 1
            if records:
                entry[kind.name] = records
        self.errors(op, call, entry)

    def errors(self, op: Any, call: Any, entry: dict[str, Any]) -> None:
        # An op that is no public function here is called as the overload that it is.
        hidden = op.options.get("function", True) is False and registry.public(op.base_name) is None
        public = (None if hidden else public_function(op, methods=False)) or call
        try:
            cases = errors_of(op)
        except Exception as error:
            self.broken.append(f"{op.name()} errors: {type(error).__name__}: {error}")
            return
        records, seen = [], set()
        for _, case in cases:
            record, key = self.call(op, case)
            if key in seen:
                continue
            seen.add(key)
            made = store.mapped(case, torch_value)
            try:
                public(*made.args, **made.kwargs)
            except Exception as error:
                lines = str(error).splitlines() or [""]
                records.append(record | {"error": type(error).__name__, "says": lines[0][:300]})
            else:
                self.broken.append(f"{op.name()} errors: PyTorch accepts {case!r}")
        if records:
            entry["errors"] = records

    def call(self, op: Any, case: Sample) -> tuple[dict[str, Any], str]:
        """The record of a call without its answer, and the sample's digest."""
        form, chunks = forms.form_of(case)
        key = forms.digest_of(form, chunks)
        if not forms.is_kept(form):
            self.texts.append(f"{op.name()} {case!r}")
        elif forms.digest(forms.rebuilt(form, chunks)) != key:
            self.broken.append(f"{op.name()} {case!r}: does not come back from its form")
        return self.writer.call(form, chunks), key

    def sample(self, op: Any, call: Any, case: Sample, kind: Any) -> dict[str, Any]:
        made = store.mapped(case, torch_value)
        try:
            torch.manual_seed(0)
            result = call(*made.args, **made.kwargs)
        except Exception as error:
            return {"error": type(error).__name__}
        fixed = not op.base_name.startswith(UNSET) and op.kind.name != "RANDOM"
        if fixed and not op._schema.is_mutable:
            torch.manual_seed(1)
            again = call(*made.args, **made.kwargs)
            try:
                fixed = same(result, again)
            except NotImplementedError:
                return {"unreadable": True}
        out = self.leaf(result, fixed, op.is_view_op)
        record: dict[str, Any] = {"out": out}
        if fixed and kind.name in GRADIENT_DTYPES and "value" not in str(out)[:12]:
            self.gradients(op, call, case, kind, record)
        return record

    def gradients(self, op: Any, call: Any, case: Sample, kind: Any, record: Any) -> None:
        leaves: list[Any] = []
        written = {id(value) for value in written_arguments(op, case)}

        def ready(value: Any) -> Any:
            made = torch_value(value)
            if isinstance(made, torch.Tensor) and (made.is_floating_point() or made.is_complex()):
                leaves.append(made.requires_grad_())
                return made.clone() if id(value) in written else made
            return made

        prepared = store.mapped(case, ready)
        if not leaves:
            return
        try:
            result = store.settle(op, call(*prepared.args, **prepared.kwargs))
            outs = [t for t in store.flat(result) if isinstance(t, torch.Tensor)]
            if any(t.layout is not torch.strided for t in outs):
                return
            used = [i for i, t in enumerate(outs) if t.requires_grad]
            record["needs"] = used
            if not used:
                return
            chosen = [outs[i] for i in used]
            cots = [cotangent(i, outs[i]) for i in used]
            second = kind.name == "float64"
            first = torch.autograd.grad(
                chosen, leaves, cots, allow_unused=True, create_graph=second
            )
        except Exception as error:
            record["grad_error"] = type(error).__name__
            return
        record["grad"] = [
            None if g is None else [list(g.shape), self.writer.array(shortened(g))] for g in first
        ]
        if second:
            record["second"] = second_order(first, leaves)


def written_arguments(op: Any, case: Sample) -> list[Any]:
    return [case.args[i] for i in op.mutated_positions if i < len(case.args)]


def cotangent(position: int, out: Any) -> Any:
    kind = dtypes.by_name(str(out.dtype).removeprefix("torch."))
    array = store.cotangent(position, tuple(out.shape), kind)
    if kind is dtypes.bfloat16:
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def shortened(gradient: Any) -> Any:
    """Gradients in double precision keep 36 bits: far beyond the tolerance, half the bytes."""
    array = numpy_values(gradient).copy()
    if array.dtype in (np.float64, np.complex128):
        bits = array.reshape(-1).view(np.uint64)
        bits &= np.uint64(0xFFFFFFFFFF000000)
    return array


def second_order(first: Any, leaves: Any) -> Any:
    total: Any = None
    for i, gradient in enumerate(first):
        if gradient is None or not gradient.requires_grad:
            continue
        term = (gradient * cotangent(100 + i, gradient)).sum()
        total = term if total is None else total + term
    if total is None:
        return None
    try:
        found = torch.autograd.grad(total, leaves, allow_unused=True)
    except Exception as error:
        return type(error).__name__
    return [
        None if g is None else [float(f"{x:.11g}") for x in store.projection(numpy_values(g))]
        for g in found
    ]


def same(left: Any, right: Any) -> bool:
    for a, b in zip(store.flat(left), store.flat(right)):
        if isinstance(a, torch.Tensor) and a.layout is torch.strided:
            x, y = numpy_values(a), numpy_values(b)
            if x.tobytes() != y.tobytes():
                return False
    return True


# -- command ---------------------------------------------------------------------------------------


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def record_family(name: str, ops: list[Any], tell: Any) -> None:
    begin = time.monotonic()
    recorder = Recorder()
    for i, op in enumerate(sorted(ops, key=lambda op: op.name())):
        progress(f"{name}: {i + 1}/{len(ops)} {op.name()}")
        tell(op.name())
        recorder.op(op)
    path = store.path_of(name)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    size = recorder.writer.save(path) if recorder.count else 0
    progress("")
    seconds = time.monotonic() - begin
    print(
        f"{name}: {len(ops)} ops, {recorder.count} samples, {size / 1024:.0f} KiB, {seconds:.1f} s"
    )
    for text in recorder.missing:
        print(f"  not in PyTorch: {text}")
    for text in recorder.texts:
        print(f"  recorded without its inputs: {text}")
    for text in recorder.broken:
        print(f"  {text}")
    sys.stdout.flush()


def in_child(name: str, ops: list[Any], skipped: list[str]) -> str | None:
    """Record in a child process, because bad input can end the process inside PyTorch. The op at
    which that happened, or None."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            chosen = [op for op in ops if op.name() not in skipped]
            record_family(name, chosen, lambda text: os.write(writing, f"{text}\n".encode()))
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as lines:
        begun = lines.read().split()
    _, status = os.waitpid(child, 0)
    if status == 0:
        return None
    return begun[-1] if begun else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Record PyTorch's answers to every op's samples.")
    parser.add_argument("family", nargs="*", help="only these modules of rushlight.opset")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    by_family: dict[str, list[Any]] = {}
    for op in audit.records():
        by_family.setdefault(op.family, []).append(op)
    wanted = options.family or sorted(by_family)
    unknown = sorted(set(wanted) - set(by_family))
    if unknown:
        parser.error(f"no such family: {', '.join(unknown)}. There are: {', '.join(by_family)}")
    if not options.family:
        for path in store.FOLDER.rglob("*.xz"):
            path.unlink()
    total = 0
    for name in wanted:
        skipped: list[str] = []
        while (crashed := in_child(name, by_family[name], skipped)) is not None:
            skipped.append(crashed)
            print(f"{name}: PyTorch crashes on {crashed}; it is left out")
            if not crashed:
                return 1
        path = store.path_of(name)
        total += path.stat().st_size if path.exists() else 0
    store.family.cache_clear()
    manifest.PATH.write_text(manifest.manifest())
    print(f"total {total / 1024:.0f} KiB, PyTorch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
