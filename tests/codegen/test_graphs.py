"""Compiled graphs give what an eager run gives: values, dtypes, strides."""

from __future__ import annotations

import operator
import random
import threading
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.codegen import lower, native
from rushlight.codegen.loops import Kernel
from rushlight.codegen.values import Call, Product
from rushlight.core.tensor import Tensor
from tests.codegen.recording import Recording, aten, flat

pytest.importorskip("llvmlite")

TOLERANCE = {"float32": 2e-5, "float64": 1e-11}


def assert_same(got: Any, wanted: Any, tolerance: float | None = None) -> None:
    for mine, theirs in zip(flat(got), flat(wanted), strict=True):
        if not isinstance(theirs, Tensor):
            assert mine == theirs
            continue
        assert mine.dtype is theirs.dtype
        assert mine.shape == theirs.shape
        assert mine.stride() == theirs.stride()
        limit = TOLERANCE.get(mine.dtype.name, 0.0) if tolerance is None else tolerance
        np.testing.assert_allclose(
            np.asarray(mine._array), np.asarray(theirs._array), rtol=limit, atol=limit
        )


def run(recording: Recording) -> Any:
    return lower(recording, recording.inputs)(*recording.inputs)


def kernels(recording: Recording) -> list[Kernel]:
    compiled = lower(recording, recording.inputs)
    assert_same(compiled(*recording.inputs), recording.results)
    return [item for item in compiled.schedule if isinstance(item, Kernel)]


def randn(*shape: int, dtype: Any = rushlight.float32) -> Tensor:
    return rushlight.randn(shape, dtype=dtype)


# -- products -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_returned", [False, True])
def test_product_of_a_sum_that_has_one_dim_less(is_returned: bool) -> None:
    r = Recording()
    x, w = r.input(randn(4, 3)), r.input(randn(3, 5))
    total = r.call(aten.sum.dim_IntList, x, [0])
    product = r.call(aten.mm.default, r.call(aten.unsqueeze.default, total, 0), w)
    results = [r.call(aten.squeeze.dim, product, 0), product]
    r.output(*results, total) if is_returned else r.output(*results)
    assert_same(run(r), r.results)


# -- fusion ---------------------------------------------------------------------------------------


def test_chain_is_one_loop() -> None:
    r = Recording()
    x, w, b = r.input(randn(7, 9)), r.input(randn(9)), r.input(randn(9))
    y = r.call(aten.gelu.default, r.call(aten.add.Tensor, r.call(aten.mul.Tensor, x, w), b))
    (kernel,) = kernels(r.output(y))
    assert len(kernel.loops) == 1


@pytest.mark.parametrize("shape", [(5, 300), (2, 3, 17), (300,), (4, 1)])
@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("name", ["_softmax", "_log_softmax"])
def test_softmax_is_one_kernel(shape: tuple[int, ...], dim: int, name: str) -> None:
    r = Recording()
    y = r.call(getattr(aten, name).default, r.input(randn(*shape)), dim, False)
    (kernel,) = kernels(r.output(y))
    if dim == -1 and len(shape) > 1 and shape[-1] > 1:
        # The row's exponentials never reach memory of their own size.
        assert all([b.extent <= shape[-1] for b in kernel.buffers() if b.role == "local"])
        assert kernel.rows


def test_layer_norm_with_what_surrounds_it() -> None:
    r = Recording()
    x, w, b = r.input(randn(6, 5, 32)), r.input(randn(32)), r.input(randn(32))
    h = r.call(aten.gelu.default, r.call(aten.add.Tensor, x, x))
    norm = r.call(aten.native_layer_norm.default, h, [32], w, b, 1e-5)
    parts = [r.call(operator.getitem, norm, i) for i in range(3)]
    y = r.call(aten.relu.default, parts[0])
    (kernel,) = kernels(r.output(y, parts[1], parts[2]))
    assert len(kernel.rows or ()) == 2


def test_reductions_and_their_uses() -> None:
    r = Recording()
    x = r.input(randn(4, 6, 8))
    total = r.call(aten.sum.dim_IntList, x, [0, 2], True)
    share = r.call(aten.div.Tensor, x, total)
    column = r.call(aten.sum.dim_IntList, share, [1])
    top = r.call(aten.amax.default, column, [0])
    everything = r.call(aten.mean.default, share)
    kernels(r.output(share, column, top, everything))


def test_outer_reduction_keeps_accuracy() -> None:
    x = rushlight.full((20000, 3), 0.1)
    r = Recording()
    y = r.call(aten.sum.dim_IntList, r.input(x), [0])
    z = r.call(aten.sum.default, r.graph.find_nodes(op="placeholder")[0])
    got = run(r.output(y, z))
    exact = float(np.float32(0.1)) * 20000
    np.testing.assert_allclose(got[0].tolist(), [exact] * 3, rtol=1e-6)
    np.testing.assert_allclose(got[1].item(), exact * 3, rtol=1e-6)


def test_light_values_are_computed_again_heavy_ones_once() -> None:
    r = Recording()
    x = r.input(randn(8, 64))
    e = r.call(aten.exp.default, x)
    a = r.call(aten.sum.dim_IntList, e, [1], True)
    y = r.call(aten.div.Tensor, e, a)
    (kernel,) = kernels(r.output(y))
    assert str(kernel).count("exp(") == 1


# -- views ----------------------------------------------------------------------------------------


def test_views_are_index_maps() -> None:
    r = Recording()
    x = r.input(randn(4, 6))
    a = r.call(aten.t.default, x)
    b = r.call(aten.slice.Tensor, a, 0, 1, 5, 2)
    c = r.call(aten.unsqueeze.default, b, 1)
    d = r.call(aten.expand.default, c, [2, 3, 4])
    e = r.call(aten.mul.Tensor, d, 2)
    f = r.call(aten.select.int, e, 1, 1)
    g = r.call(aten.permute.default, f, [1, 0])
    h = r.call(aten.add.Tensor, g, 1)
    (kernel,) = kernels(r.output(h))
    assert len(kernel.buffers()) == 2


@pytest.mark.parametrize("shape", [(64, 64), (37, 51), (8, 32), (3, 33, 40)])
def test_transposing_loops(shape: tuple[int, ...]) -> None:
    r = Recording()
    x, y = r.input(randn(*shape)), r.input(randn(*shape[:-2], shape[-1], shape[-2]))
    turned = r.call(aten.transpose.int, x, -1, -2)
    copy = r.call(aten.clone.default, turned, memory_format=rushlight.contiguous_format)
    kernels(r.output(copy, r.call(aten.add.Tensor, y, turned)))


def test_view_of_a_computed_value() -> None:
    r = Recording()
    x, y = r.input(randn(4, 6)), r.input(randn(6, 4))
    product = r.call(aten.mul.Tensor, x, r.call(aten.t.default, y))
    line = r.call(aten.view.default, product, [24])
    kernels(r.output(r.call(aten.exp.default, line), line))


def test_results_that_are_views_share_memory() -> None:
    r = Recording()
    x = r.input(randn(4, 6))
    y = r.call(aten.exp.default, x)
    got = run(r.output(y, r.call(aten.t.default, y), r.call(aten.select.int, x, 0, 1), x))
    got[1].fill_(1.0)
    assert bool((got[0] == 1).all())
    assert got[2].data_ptr() == r.inputs[0][1].data_ptr()
    assert got[3] is r.inputs[0]


def test_results_that_are_all_of_something_are_tensors_of_their_own() -> None:
    r = Recording()
    x = r.input(randn(4, 6))
    y = r.call(aten.exp.default, x)
    shape = [4, 6]
    views = [r.call(aten.view.default, value, shape) for value in (x, y, y)]
    got = run(r.output(*views, y))
    assert len({id(tensor) for tensor in (*got, r.inputs[0])}) == 5
    got[0].t_()
    got[1].t_()
    assert r.inputs[0].shape == got[2].shape == got[3].shape == (4, 6)
    assert got[0].data_ptr() == r.inputs[0].data_ptr()
    assert got[1].data_ptr() == got[2].data_ptr() == got[3].data_ptr()


def test_a_view_of_what_a_product_copied_is_a_view_still() -> None:
    r = Recording()
    x, w = r.input(randn(4, 6)), r.input(randn(6, 3))
    rows = r.call(aten.slice.Tensor, x, 0, 1, 3)
    product = r.call(aten.mm.default, rows, w)
    got = run(r.output(product, r.call(aten.view.default, rows, [2, 6]), rows))
    assert {tensor.data_ptr() for tensor in got[1:]} == {r.inputs[0][1].data_ptr()}


def test_split_and_getitem() -> None:
    r = Recording()
    x = r.input(randn(6, 4))
    parts = r.call(aten.split.Tensor, x, 2)
    a, b = r.call(operator.getitem, parts, 0), r.call(operator.getitem, parts, 2)
    kernels(r.output(r.call(aten.add.Tensor, a, b), b))


# -- calls in between -----------------------------------------------------------------------------


def test_library_calls_between_kernels() -> None:
    r = Recording()
    x, w, b = r.input(randn(8, 16)), r.input(randn(32, 16)), r.input(randn(32))
    h = r.call(aten.addmm.default, b, x, r.call(aten.t.default, w))
    h = r.call(aten.relu.default, h)
    v = r.constant("weight", randn(32, 4))
    y = r.call(aten.mm.default, h, v)
    y = r.call(aten._log_softmax.default, y, 1, False)
    compiled = lower(r.output(y, h), r.inputs)
    for _ in range(3):
        assert_same(compiled(*r.inputs), r.results)
    kinds = [type(item) for item in compiled.schedule]
    assert kinds.count(Product) == 2
    assert Call not in kinds
    assert "aten.relu" not in str(compiled)


def test_products_share_their_operands() -> None:
    r = Recording()
    x = r.call(aten.exp.default, r.input(randn(3, 4)))
    turned = r.call(aten.t.default, x)
    compiled = lower(r.output(r.call(aten.mm.default, x, turned)), r.inputs)
    assert_same(compiled(*r.inputs), r.results)
    assert [type(item) for item in compiled.schedule] == [Kernel, Product]


def test_batched_products() -> None:
    r = Recording()
    q, k, v = [r.input(randn(2, 5, 8)) for _ in range(3)]
    scores = r.call(aten.bmm.default, q, r.call(aten.transpose.int, k, 1, 2))
    scores = r.call(aten.mul.Scalar, scores, 0.35)
    mask = r.call(aten.tril.default, r.call(aten.ones.default, [5, 5]))
    hidden = r.call(aten.logical_not.default, mask)
    scores = r.call(aten.masked_fill.Scalar, scores, hidden, float("-inf"))
    weights = r.call(aten._softmax.default, scores, -1, False)
    y = r.call(aten.bmm.default, weights, v)
    part = r.call(aten.bmm.default, r.call(aten.slice.Tensor, q, 1, 1, 4), k_of(r, k))
    bias = r.input(randn(3))
    biased = r.call(aten.addmm.default, bias, r.input(randn(4, 5)), r.input(randn(5, 3)),
                    beta=0.5, alpha=2)  # fmt: skip
    kernels(r.output(y, part, biased))


def k_of(r: Recording, k: Any) -> Any:
    return r.call(aten.transpose.int, r.call(aten.slice.Tensor, k, 2, 0, 8), 1, 2)


def test_what_cannot_be_said_is_called() -> None:
    r = Recording()
    x = r.input(randn(5))
    y = r.call(aten.lgamma.default, r.call(aten.abs.default, x))
    z = r.call(aten.sort.default, y)
    s = r.call(aten.exp.default, r.call(operator.getitem, z, 0))
    index = r.call(operator.getitem, z, 1)
    assert_same(run(r.output(s, index)), r.results)


def test_integer_division_by_zero_is_refused_as_ever() -> None:
    r = Recording()
    x, y = r.input(rushlight.tensor([4, 6])), r.input(rushlight.tensor([1, 2]))
    compiled = lower(r.output(r.call(aten.floor_divide.default, x, y)), r.inputs)
    assert compiled(*r.inputs)[0].tolist() == [4, 3]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(r.inputs[0], rushlight.tensor([1, 0]))


def test_writes_come_after_earlier_reads() -> None:
    r = Recording()
    buffer, x = rushlight.zeros(3), randn(3)
    b, a = r.input(buffer.clone()), r.input(x)
    before = r.call(aten.add.Tensor, b, 1)
    new = r.call(aten.mul.Tensor, a, 2)
    node = r.graph.call_function(aten.copy_.default, (b, new), {})
    node.meta["val"] = b.meta["val"]
    r.known[node] = r.known[b]
    r.graph.output((before, node))
    target = rushlight.zeros(3)
    got = lower(r, r.inputs)(target, x)
    assert got[0].tolist() == [1, 1, 1]
    assert got[1] is target or got[1].data_ptr() == target.data_ptr()
    assert target.tolist() == (x * 2).tolist()


def test_nothing_is_recorded() -> None:
    r = Recording()
    x = randn(3, 3).requires_grad_()
    a = r.input(x.detach())
    y = r.call(aten.mm.default, r.call(aten.exp.default, a), a)
    got = lower(r.output(y), r.inputs)(x)
    assert not got[0].requires_grad
    assert rushlight.is_grad_enabled()


def test_threads_share_compiled_code() -> None:
    r = Recording()
    x, w = r.input(randn(60, 80)), r.input(randn(80, 70))
    hidden = r.call(aten.gelu.default, r.call(aten.mm.default, x, w))
    y = r.call(aten._softmax.default, r.call(aten.exp.default, hidden), 0, False)
    compiled = lower(r.output(y, r.call(aten.sum.dim_IntList, hidden, [0])), r.inputs)
    wrong: list[int] = []

    def work(number: int) -> None:
        given = r.inputs[0] + number
        first = [t.numpy().tobytes() for t in compiled(given, r.inputs[1])]
        again = [[t.numpy().tobytes() for t in compiled(given, r.inputs[1])] for _ in range(50)]
        wrong.extend([number for found in again if found != first])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_equal_kernels_are_compiled_once() -> None:
    r = Recording()
    x = r.input(randn(4, 4))
    for _ in range(5):
        x = r.call(aten._softmax.default, r.call(aten.mm.default, x, x), 1, False)
    compiled = lower(r.output(x), r.inputs)
    assert_same(compiled(*r.inputs), r.results)
    assert compiled.ir.count("define internal void @kernel") == 1


# -- inputs ---------------------------------------------------------------------------------------


def test_inputs_are_checked() -> None:
    r = Recording()
    compiled = lower(r.output(r.call(aten.exp.default, r.input(randn(3, 4)))), r.inputs)
    with pytest.raises(RuntimeError, match=r"sizes \[3, 4\] as when it was compiled"):
        compiled(randn(4, 3))
    with pytest.raises(RuntimeError, match=r"must be torch.float32"):
        compiled(randn(3, 4, dtype=rushlight.float64))
    turned = randn(4, 3).t()
    assert_same(compiled(turned)[0].contiguous(), turned.exp().contiguous())


def test_without_knowledge_of_array_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.this_host(), "fast", False)
    r = Recording()
    x, w = r.input(randn(4, 6)), r.input(randn(6, 5))
    y = r.call(aten._softmax.default, r.call(aten.mm.default, x, w), 1, False)
    compiled = lower(r.output(r.call(aten.exp.default, y), y), r.inputs)
    assert "Py_IncRef" not in compiled.ir
    assert_same(compiled(*r.inputs), r.results)


@pytest.mark.parametrize("dtype", [rushlight.int64, rushlight.int32, rushlight.uint8])
def test_sums_with_integers_are_loops(dtype: Any) -> None:
    r = Recording()
    x = r.input(rushlight.arange(12).view(3, 4).to(dtype))
    y = r.call(aten.add.Tensor, r.call(aten.mul.Tensor, x, 2), 1)
    z = r.call(aten.sub.Tensor, y, x, alpha=3)
    w = r.call(aten.rsub.Scalar, x, 2, 5)
    (kernel,) = kernels(r.output(y, z, w))
    assert len(kernel.loops) == 1


def test_empty_and_zero_dim() -> None:
    r = Recording()
    x, s = r.input(randn(0, 3)), r.input(randn())
    y = r.call(aten.add.Tensor, x, s)
    total = r.call(aten.sum.dim_IntList, y, [0])
    whole = r.call(aten.prod.default, y)
    t = r.call(aten.sum.default, r.call(aten.exp.default, s))
    assert_same(run(r.output(y, total, whole, t)), r.results)


def test_program_prints_as_python() -> None:
    r = Recording()
    x = r.input(randn(4, 8))
    compiled = lower(r.output(r.call(aten._softmax.default, x, 1, False)), r.inputs)
    text = str(compiled)
    assert "for i0 in range(4):" in text
    assert "= max(" in text
    compile(text, "<kernel>", "exec")


def test_shared_values_print_once() -> None:
    r = Recording()
    x = r.input(randn(3))
    for _ in range(40):
        x = r.call(aten.mul.Tensor, x, x)
    compiled = lower(r.output(x), r.inputs)
    assert len(str(compiled)) < 4000


# -- random graphs --------------------------------------------------------------------------------

UNARY = ("exp", "tanh", "sigmoid", "neg", "abs", "relu", "sin", "erf", "silu", "gelu")
BINARY = ("add", "mul", "sub", "maximum", "minimum")


def grow(seed: int, dtype: Any) -> Recording:
    """A graph of elementwise ops, reductions, views and products, of values that stay tame."""
    rng = random.Random(seed)
    rushlight.manual_seed(seed)
    r = Recording()
    shapes = [(6, 8), (8,), (6, 1), (), (8, 6), (2, 3, 8)]
    pool = [r.input(randn(*rng.choice(shapes), dtype=dtype)) for _ in range(4)]
    pool.append(r.input(randn(8, 6, dtype=dtype).t()))
    for _ in range(rng.randrange(6, 16)):
        x = rng.choice(pool)
        choice = rng.random()
        if choice < 0.35:
            y = mapped(r, rng, x)
        elif choice < 0.65:
            y = combined(r, rng, x, rng.choice(pool))
        elif choice < 0.8:
            y = reduced(r, rng, x)
        elif choice < 0.9:
            y = viewed(r, rng, x)
        else:
            y = multiplied(r, x)
        if y is not None:
            pool.append(y)
    return r.output(*rng.sample(pool, min(4, len(pool))), pool[-1])


def mapped(r: Recording, rng: random.Random, x: Any) -> Any:
    name = rng.choice(UNARY)
    y = r.call(getattr(aten, name).default, x)
    return r.call(aten.tanh.default, y) if name == "exp" else y


def combined(r: Recording, rng: random.Random, x: Any, other: Any) -> Any:
    name = rng.choice(BINARY)
    op = getattr(aten, name)
    try:
        y = r.call(op.default if name in ("maximum", "minimum") else op.Tensor, x, other)
    except RuntimeError:
        # They do not broadcast.
        r.graph.erase_node(next(iter(reversed(r.graph.nodes))))
        return None
    return r.call(aten.tanh.default, y)


def reduced(r: Recording, rng: random.Random, x: Any) -> Any:
    shape = r.known[x].shape
    if not shape:
        return None
    dim, keep = rng.randrange(len(shape)), rng.random() < 0.6
    name = rng.choice(("sum", "amax", "mean", "softmax", "var"))
    if name == "softmax":
        return r.call(aten._softmax.default, x, dim, False)
    if name == "amax":
        return r.call(aten.amax.default, x, [dim], keep)
    if name == "sum":
        return r.call(aten.tanh.default, r.call(aten.sum.dim_IntList, x, [dim], keep))
    if name == "var" and shape[dim] > 1:
        return r.call(aten.var.correction, x, [dim], correction=1, keepdim=keep)
    return r.call(aten.mean.dim, x, [dim], keep)


def viewed(r: Recording, rng: random.Random, x: Any) -> Any:
    shape = r.known[x].shape
    if len(shape) < 2:
        return None
    name = rng.choice(("transpose", "select", "slice", "view"))
    if name == "transpose":
        return r.call(aten.transpose.int, x, 0, 1)
    if name == "select":
        return r.call(aten.select.int, x, 0, 0)
    if name == "slice":
        return r.call(aten.slice.Tensor, x, 0, 0, shape[0], 2)
    if r.known[x].is_contiguous():
        return r.call(aten.view.default, x, [r.known[x].numel()])
    return None


def multiplied(r: Recording, x: Any) -> Any:
    if r.known[x].dim() != 2:
        return None
    return r.call(aten.tanh.default, r.call(aten.mm.default, x, r.call(aten.t.default, x)))


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs(seed: int) -> None:
    dtype = rushlight.float64 if seed % 3 == 0 else rushlight.float32
    r = grow(seed, dtype)
    compiled = lower(r, r.inputs)
    for _ in range(2):
        assert_same(compiled(*r.inputs), r.results)
