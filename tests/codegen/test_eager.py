"""Native kernels of eager calls: what NumPy's answer, whichever runs."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config
from rushlight.codegen import eager, native
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset import audit, elementwise, large
from rushlight.opset.network import normkernels
from rushlight.opset.samples.maker import has_samples, samples_of
from tests.codegen.recording import flat

pytest.importorskip("llvmlite")

F = rushlight.nn.functional
# Relative to NumPy's kernels, whose last digits differ by function and order of summation.
TOLERANCE = {"float32": 3e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1e-2}
OPS = [
    op
    for op in audit.records()
    if has_samples(op)
    and not op._schema.is_mutable
    and op.tensor_positions
    and (op.options.get("scalar") is not None or large.is_lowered(op))
]


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Samples are small: here native code takes them all the same."""
    for module in (large, elementwise, normkernels):
        monkeypatch.setattr(module, "LARGE", 1)
    monkeypatch.setattr(large, "MOST_VARIANTS", 1 << 10)
    yield
    for op in OPS:
        op.native_kernels.clear()


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def difference(mine: Any, theirs: Any) -> str | None:
    """How two answers differ, None where they do not beyond rounding."""
    if not isinstance(theirs, Tensor) or not isinstance(mine, Tensor):
        return None if type(mine) is type(theirs) else f"{mine}, expected {theirs}"
    facts = [(t.dtype, t.shape, t.stride()) for t in (mine, theirs)]
    if facts[0] != facts[1]:
        return f"{facts[0]}, expected {facts[1]}"
    limit = TOLERANCE.get(mine.dtype.name, 0.0)
    one, two = [np.asarray(t._array) for t in (mine, theirs)]
    if one.dtype.names is not None:
        return None
    if one.dtype.itemsize == 2 and limit:
        one, two = one.astype(np.float32), two.astype(np.float32)
    if not np.allclose(one, two, limit, limit / 3, equal_nan=one.dtype.kind in "fc"):
        return f"{one.ravel()[:8]}, expected {two.ravel()[:8]}"
    return None


def check(ops: list[Any], dtype: Any, most: int | None) -> int:
    """Compare backends on and off; the number of kernels that native code has."""
    lines: list[str] = []
    native = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in ops:
            before = len([k for k in op.native_kernels.values() if k is not None])
            for case in samples_of(op, dtype)[:most]:

                def run(op: Any = op, case: Any = case) -> Any:
                    return op(*case.args, **case.kwargs)

                with config.patch(eager_native=False):
                    expected = outcome(run)
                found = outcome(run)
                mine, theirs = flat(found), flat(expected)
                if len(mine) != len(theirs):
                    lines.append(f"{op.name()} {dtype.name} {case!r}: {found}, not {expected}")
                    continue
                texts = [difference(a, b) for a, b in zip(mine, theirs, strict=True)]
                # The next call takes the kernel's door, if it has one.
                again = flat(outcome(run))
                texts += [
                    None if same_bits(a, b) else f"{a}, then {b}" for a, b in zip(mine, again)
                ]
                lines += [f"{op.name()} {dtype.name} {case!r}: {t}" for t in texts if t]
            native += len([k for k in op.native_kernels.values() if k is not None]) - before
    assert not lines, "\n".join(lines)
    return native


def same_bits(one: Any, two: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(two, Tensor) or one._array is None:
        return type(one) is type(two)
    facts = [(t.dtype, t.shape, t.stride(), np.asarray(t._array).tobytes()) for t in (one, two)]
    return facts[0] == facts[1]


@pytest.mark.parametrize(("name", "floor"), [("float32", 110), ("bfloat16", 50), ("int64", 15)])
def test_first_samples(everything_is_large: None, name: str, floor: int) -> None:
    some = OPS if name == "float32" else OPS[::3]
    assert check(some, dtypes.by_name(name), 1) >= floor


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int64", "uint8"])
def test_all_samples(everything_is_large: None, name: str) -> None:
    assert check(OPS, dtypes.by_name(name), None) > 50


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 0.5, -2.0]
EXACT: dict[str, Callable[[Any], Any]] = {
    "relu": rushlight.relu,
    "clamp": lambda x: x.clamp(-1.0, 0.5),
    "cube": lambda x: x**3,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "hardtanh": F.hardtanh,
    "sign": rushlight.sign,
    "addcmul": lambda x: rushlight.addcmul(x, x, x, value=0.25),
    "where": lambda x: rushlight.where(x > 0, x, -x),
    "to bfloat16": lambda x: x.to(rushlight.bfloat16),
    "half sum": lambda x: x.to(rushlight.bfloat16) + x.to(rushlight.bfloat16),
}


def large_tensor(seed: int, *shape: int) -> Tensor:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    values.reshape(-1)[:: max(1, values.size // 64)][: len(SPECIAL)] = SPECIAL
    return rushlight.from_numpy(values)


def bits(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().view(rushlight.uint8).numpy().tobytes()


@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_has_the_bits_of_numpy(name: str) -> None:
    for size in (large.LARGE, large.LARGE + 13, 3 * large.LARGE + 1):
        x = large_tensor(size, size)
        found = EXACT[name](x)
        with config.patch(eager_native=False):
            expected = EXACT[name](x)
        assert bits(found) == bits(expected), size


def test_which_kernel_runs_follows_from_the_call_alone() -> None:
    x = large_tensor(1, 2, large.LARGE)
    first = bits(F.gelu(x))
    assert all([bits(F.gelu(x)) == first for _ in range(100)])
    assert bits(F.gelu(x.reshape(-1))) == first
    assert bits(F.gelu(x.clone())) == first


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x[1:],
        lambda x: x[:1].expand(x.shape),
        lambda x: x.flip(0)[::2],
        lambda x: x.unsqueeze(1),
    ],
)
@pytest.mark.parametrize("name", ["gelu", "softmax", "sum", "layer_norm"])
def test_every_layout(layout: Any, name: str) -> None:
    calls: dict[str, Any] = {
        "gelu": F.gelu,
        "softmax": lambda x: F.softmax(x, -1),
        "sum": lambda x: x.sum(0),
        "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    }
    x = layout(rushlight.from_numpy(np.random.default_rng(2).random((256, 256), np.float32)))
    found = calls[name](x)
    with config.patch(eager_native=False):
        expected = calls[name](x)
    assert difference(found, expected) is None


def test_operands_may_be_one_tensor_or_written_to() -> None:
    x = large_tensor(3, large.LARGE)
    grads = [F.threshold(x, 0.1, 0.0), rushlight.addcmul(x, x, x), rushlight.lerp(x, x, 0.3)]
    with config.patch(eager_native=False):
        again = [F.threshold(x, 0.1, 0.0), rushlight.addcmul(x, x, x), rushlight.lerp(x, x, 0.3)]
    assert [bits(g) for g in grads] == [bits(g) for g in again]
    kept = x.clone()
    kept.clamp_(-0.5, 0.5)
    rushlight.clamp(x, -0.5, 0.5, out=x)
    assert bits(kept) == bits(x)


def test_results_have_memory_of_their_own() -> None:
    x = large_tensor(4, large.LARGE)
    kept = [F.gelu(x) for _ in range(20)]
    before = [bits(k) for k in kept]
    for _ in range(20):
        F.gelu(x + 1)
    assert [bits(k) for k in kept] == before
    assert len({k.data_ptr() for k in kept}) == len(kept)


def test_numbers_of_calls_do_not_need_code_of_their_own() -> None:
    x = large_tensor(5, large.LARGE)
    op = rushlight.ops.aten.leaky_relu.default
    F.leaky_relu(x, 0.5)
    before = len(op.native_kernels)
    for step in range(100):
        slope = step / 7
        found = F.leaky_relu(x, slope)
        with config.patch(eager_native=False):
            assert bits(found) == bits(F.leaky_relu(x, slope))
    assert len(op.native_kernels) == before


def test_more_variants_than_are_kept_stay_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    op = rushlight.ops.aten.pow.Tensor_Scalar
    monkeypatch.setattr(large, "MOST_VARIANTS", len(op.native_kernels) + 2)
    x = large_tensor(6, large.LARGE).abs()
    for exponent in range(3, 20):
        expected = np.power(x.numpy().astype(np.float64), exponent)
        np.testing.assert_allclose((x**exponent).numpy(), expected.astype(np.float32), 3e-6)
    assert len(op.native_kernels) <= large.MOST_VARIANTS


def test_threads_share_kernels() -> None:
    x = large_tensor(7, 3 * large.LARGE)
    calls = (F.gelu, F.silu, lambda t: F.softmax(t.view(3, -1), 1), lambda t: t.clamp(-1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [bits(call(x)) for call in calls]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(25):
            wrong.extend([1 for call, bytes_ in zip(calls, expected) if bits(call(x)) != bytes_])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_gradients_and_programs_agree() -> None:
    """Backward programs run the kernels that the engine runs."""
    w = large_tensor(8, 200, 200).nan_to_num(0.0, 1.0, -1.0).clamp(-3, 3).requires_grad_()

    def gradient() -> bytes:
        w.grad = None
        hidden = F.layer_norm(F.gelu(w), (200,))
        (F.softmax(hidden, 1) * F.silu(hidden)).sum().backward()
        return bits(w.grad)

    assert len({gradient() for _ in range(12)}) == 1


def test_without_the_compiler_numpy_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "can_compile", lambda: False)
    op = rushlight.ops.aten.mish.default
    op.native_kernels.clear()
    x = large_tensor(9, large.LARGE)
    found = F.mish(x)
    assert set(op.native_kernels.values()) == {None}
    op.native_kernels.clear()
    with config.patch(eager_native=False):
        assert bits(found) == bits(F.mish(x))


def test_the_log_names_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    op = rushlight.ops.aten.hardswish.default
    op.native_kernels.clear()
    with config.patch(logs="kernel"):
        F.hardswish(large_tensor(10, large.LARGE))
    assert "[kernel] eager aten::hardswish: native" in capsys.readouterr().err


def index_of(below: int, *shape: int) -> Tensor:
    return rushlight.from_numpy(np.random.default_rng(below).integers(0, below, shape))


LOOPS: dict[str, Callable[[Any], Any]] = {
    "cumsum, rows": lambda x: x.cumsum(-1),
    "cumsum, columns": lambda x: x.cumsum(0),
    "cumprod, middle": lambda x: (x * 0.1 + 1).cumprod(1),
    "gather": lambda x: x.gather(1, index_of(x.shape[1], *x.shape)),
    "gather, fewer": lambda x: x.gather(0, index_of(x.shape[0], 40, *x.shape[1:])),
    "scatter_add": lambda x: x.scatter_add(2, index_of(x.shape[2], *x.shape), x),
    "scatter_add, views": lambda x: x.transpose(0, 2).scatter_add(
        0, index_of(x.shape[2], *x.transpose(0, 2).shape), x.transpose(0, 2)
    ),
    "index_add": lambda x: x.index_add(0, index_of(x.shape[0], x.shape[0]), x),
    "index_put": lambda x: x.index_put((index_of(x.shape[0], 90),), x[:1], accumulate=True),
    "embedding": lambda x: rushlight.ops.aten.embedding_dense_backward(
        x[0], index_of(50, x.shape[1]), 50, -1, False
    ),
    "transposed": lambda x: x.transpose(1, 2).contiguous(),
    "transposed, rows": lambda x: x.flatten(1).t().clone(),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bfloat16", "complex64"])
def test_loops_have_the_bits_of_numpy(name: str, dtype: str) -> None:
    x = large_tensor(11, 31, 64, 23).nan_to_num(0.5, 1.0, -1.0).clamp(-3, 3)
    x = x.to(getattr(rushlight, dtype))
    found = LOOPS[name](x)
    with config.patch(eager_native=False):
        expected = LOOPS[name](x)
    assert bits(found) == bits(expected)
    assert found.stride() == expected.stride()


def test_signs_of_zeros_survive_sums() -> None:
    x = rushlight.full((large.LARGE,), -0.0)
    assert rushlight.signbit(x.cumsum(0)).all()
    assert rushlight.signbit(x.view(128, -1).cumsum(0)).all()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("optimizer", ["Adam", "AdamW"])
def test_steps_of_adam_have_the_bits_of_numpy(optimizer: str, decay: float) -> None:
    def train() -> list[bytes]:
        rng = np.random.default_rng(12)
        sizes = ((300, 70), (5000,), (7,))
        values = [rng.standard_normal(size).astype(np.float32) for size in sizes]
        given = [rushlight.from_numpy(v).requires_grad_() for v in values]
        step = getattr(rushlight.optim, optimizer)(given, lr=0.01, weight_decay=decay, fused=True)
        for _ in range(5):
            for p in given:
                p.grad = rushlight.from_numpy(rng.standard_normal(p.shape).astype(np.float32))
            step.step()
        return [bits(p) for p in given]

    found = train()
    with config.patch(eager_native=False):
        assert found == train()


def test_topk_is_the_head_of_a_stable_sort() -> None:
    for shape in ((4, 40), (130, 257), (2, 3, 1000)):
        for largest in (True, False):
            x = rushlight.from_numpy(np.random.default_rng(13).integers(-9, 9, shape)).float()
            x.view(-1)[::17] = math.nan
            found = x.topk(7, largest=largest)
            expected = x.sort(stable=True, descending=largest)
            assert bits(found.values) == bits(expected.values[..., :7])
            assert (found.indices == expected.indices[..., :7]).all()


def test_zeros_of_both_signs_are_different_arguments() -> None:
    x = rushlight.full((large.LARGE,), math.nan)
    for _ in range(2):
        assert not rushlight.signbit(x.nan_to_num(0.0)).any()
        assert rushlight.signbit(x.nan_to_num(-0.0)).all()


def test_what_shares_memory_with_a_target_is_left_to_numpy() -> None:
    start = np.random.default_rng(14).standard_normal((300, 80)).astype(np.float32)

    def writes() -> bytes:
        p = rushlight.from_numpy(start.copy()).requires_grad_()
        p.grad = p.detach()
        rushlight.optim.AdamW([p], lr=0.1, fused=True).step()
        return bits(p)

    found = writes()
    with config.patch(eager_native=False):
        assert found == writes()


def test_texts_that_need_arrays_stay_with_numpy() -> None:
    x = large_tensor(15, large.LARGE)
    op = rushlight.ops.aten.relu.default
    op.native_kernels.clear()
    found = large.fused(op, lambda m, value: value.astype(value.dtype), (x.numpy(),), large.AS_IS)
    assert found is None
    op.native_kernels.clear()


PLACES = [((300, 257), 1), ((300, 257), 0), ((40, 30, 50), 1), ((90_000,), 0)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize(("shape", "dim"), PLACES)
def test_places_along_a_dim_have_the_bits_of_numpy(
    shape: tuple[int, ...], dim: int, dtype: str
) -> None:
    rng = np.random.default_rng(1)
    kind = dtypes.by_name(dtype)
    x, y = [rushlight.from_numpy(rng.integers(-99, 99, shape) / 7).to(kind) for _ in range(2)]
    index = rushlight.from_numpy(rng.integers(0, shape[dim], shape))
    rows = rushlight.from_numpy(rng.integers(0, shape[dim], shape[dim]))

    def run() -> list[bytes]:
        found = [x.gather(dim, index), x.scatter_add(dim, index, y), x.index_add(dim, rows, y)]
        found.append(x.index_add(dim, rows, y, alpha=2))
        return [bits(value) for value in found]

    with config.patch(eager_native=False):
        expected = run()
    assert run() == expected
    for place in (-1, shape[dim]):
        wrong = index.clone()
        wrong.view(-1)[7] = place
        for call in (lambda: x.gather(dim, wrong), lambda: x.scatter_add(dim, wrong, y)):  # noqa: B023
            with pytest.raises(RuntimeError, match=f"index {place} is out of bounds"):
                call()


FORMULAS = sorted({*eager.FORMULAS, "angle", "hypot", "logaddexp2"})


@pytest.mark.parametrize("farthest", [9.0, 500.0, 1e9, 1e30])
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_arrays_are_those_of_native_code(name: str, farthest: float) -> None:
    rng = np.random.default_rng(3)
    values = rng.uniform(-farthest, farthest, 1 << 15).astype(np.float32)
    values[::5] = rng.uniform(-1, 1, values[::5].size)
    with_ends = values.copy()
    with_ends[: len(SPECIAL)] = SPECIAL
    function = getattr(rushlight.special, name, None) or getattr(rushlight, name)
    for array in (values, with_ends):
        args = [rushlight.from_numpy(array)]
        if name in ("hypot", "logaddexp2"):
            args.append(rushlight.from_numpy(np.ascontiguousarray(array[::-1])))
        with config.patch(eager_native=False):
            expected = function(*args)
        assert difference(function(*args), expected) is None
