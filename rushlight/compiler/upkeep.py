"""What is kept on disk, looked after: `rushlight cache`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.aot.cache import ENTRIES
from rushlight.base.config import config
from rushlight.base.diskcache import DiskCache
from rushlight.codegen import native
from rushlight.codegen.cache import OBJECTS
from rushlight.core import dtype as dtypes
from rushlight.core.op import OpOverload
from rushlight.opset import families, registry
from rushlight.opset.large import LARGE

__all__ = ["KINDS", "clear", "usage", "warm"]

KINDS: dict[str, DiskCache] = {"graphs": ENTRIES, "code": OBJECTS}
# A call on two of these is large, and has rows.
ROWS, COLUMNS = 256, 128
# Ops with more than tensors to give, which models call on large tensors.
CALLS = (
    "x.sum()", "x.mean()", "x.sum(0)", "x.sum(1)", "x.mean(0)", "x.mean(1)", "x.amax(1)",
    "x.var(1)", "x.std(1)", "x.norm()", "x.argmax(1)", "x.cumsum(0)", "x.cumsum(1)",
    "x.cumprod(1)", "x.prod(1)", "x.logsumexp(1)", "x.sort(1)", "x.topk(5, 1)",
    "x.softmax(1)", "x.log_softmax(1)", "x.clamp(0, 1)", "x.clamp(min=0)", "x ** 3", "x ** 2",
    "x * 2", "x + 1", "x / 3", "x - 1", "x > 0", "x.to(torch.bfloat16)", "x.to(torch.float64)",
    "x.to(torch.int64)", "x.where(x > 0, 0.0)", "x.masked_fill(x > 0, 0.0)", "x.t().contiguous()",
    "x.gather(1, places)", "x.index_select(0, rows)", "x.index_add(0, rows, x)",
    "x.scatter_add(1, places, x)", "F.gelu(x)", "F.gelu(x, approximate='tanh')", "F.relu(x)",
    "F.layer_norm(x, [columns])", "F.rms_norm(x, [columns])", "F.cross_entropy(x, classes)",
    "F.mse_loss(x, y)", "F.l1_loss(x, y)", "F.embedding(rows, x)", "F.dropout(x)",
    "torch.rand(len(rows), columns)", "torch.randn(len(rows), columns)",
)  # fmt: skip


def usage() -> dict[str, Any]:
    """Entries and bytes of each kind."""
    found: dict[str, Any] = {}
    for kind, cache in KINDS.items():
        sizes = [size for _, size in cache.entries()]
        found[kind] = {"folder": cache.root(), "entries": len(sizes), "bytes": sum(sizes)}
    return found


def clear(kinds: list[str]) -> dict[str, Any]:
    """Remove what is kept of these kinds; what that was."""
    before = usage()
    for kind in kinds:
        KINDS[kind].clear()
    return {kind: before[kind] for kind in kinds}


def warm(progress: Callable[[str], None]) -> int:
    """Make the native code of eager calls on large float32 tensors, so that no program waits for
    it; how many pieces of code there are then that were not there before. Needs llvmlite."""
    native.this_host()
    before = usage()["code"]["entries"]
    calls = list(all_calls())
    with warnings.catch_warnings(), config.patch(eager_native=True):
        warnings.simplefilter("ignore")
        for number, (label, call) in enumerate(calls, 1):
            progress(f"{number} of {len(calls)}: {label}")
            call()
    return int(usage()["code"]["entries"] - before)


def all_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "convolution, batch norm, attention", call_heavy
    families.load_all()
    for op in registry.registered("aten"):
        if is_elementwise(op):
            yield op.name(), lambda op=op: call_elementwise(op)
    scope = arguments()
    for text in CALLS:
        yield text, lambda text=text: call_text(text, scope)


def is_elementwise(op: OpOverload) -> bool:
    arguments = op._schema.arguments
    rest = arguments[len(op.tensor_positions) :]
    written = op.kind.name == "POINTWISE" and not op._schema.is_mutable
    return written and bool(op.tensor_positions) and all(a.has_default for a in rest)


def call_elementwise(op: OpOverload) -> None:
    import rushlight

    given = [rushlight.ones(LARGE) for _ in op.tensor_positions]
    try:
        result = op(*given)
        if dtypes.float32.category != result.dtype.category:
            return
        given = [value.requires_grad_() for value in given]
        op(*given).sum().backward()
    except (RuntimeError, TypeError, AttributeError):
        # Not an op of float32, or one without a derivative.
        return


def arguments() -> dict[str, Any]:
    import rushlight

    rows = rushlight.arange(ROWS)
    return {
        "torch": rushlight,
        "F": rushlight.nn.functional,
        "y": rushlight.ones(ROWS, COLUMNS),
        "rows": rows,
        "columns": COLUMNS,
        "places": rushlight.arange(COLUMNS).expand(ROWS, COLUMNS).contiguous(),
        "classes": rows % COLUMNS,
    }


def call_text(text: str, scope: dict[str, Any]) -> None:
    """One of `CALLS`, and its backward where it has one."""
    x = scope["torch"].ones(ROWS, COLUMNS, requires_grad=True)
    result = eval(text, {**scope, "x": x})
    if isinstance(result, tuple):
        result = result[0]
    if result.requires_grad:
        result.sum().backward()


def call_heavy() -> None:
    """One call makes the module of all heavy kernels, and the pool's."""
    import rushlight

    rushlight.nn.functional.conv2d(rushlight.ones(2, 16, 24, 24), rushlight.ones(16, 16, 3, 3))
