"""out= forms: the strides of a tensor that was resized."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
from rushlight.opset.derived import out_record


def test_elementwise_results_keep_their_strides():
    x = torch.rand(2, 3).t()
    assert torch.add(x, x, out=torch.empty(0)).stride() == (1, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.sin(x, out=torch.empty(1)).stride() == (1, 3)
    target = torch.empty(3, 2)
    assert torch.add(x, x, out=target).stride() == (2, 1)
    assert target.tolist() == (x + x).tolist()


def test_other_results_are_row_major():
    x = torch.rand(2, 3).t()
    assert torch.mm(x, x.t(), out=torch.empty(0)).stride() == (3, 1)


OVERLAP = "some elements of the input tensor and the written-to tensor refer to a single memory"


def test_elements_are_not_written_where_another_reads_them():
    x = torch.arange(6.0)
    for write in (
        lambda: x[1:].add_(x[:-1]),
        lambda: x[1:].copy_(x[:-1]),
        lambda: torch.add(x[:-1], 1, out=x[1:]),
        # Looked for before the result's sizes are given.
        lambda: torch.sin(x, out=x.view(2, 3)),
        lambda: torch.add(x[0], x, out=x[0]),
    ):
        with pytest.raises(RuntimeError, match=OVERLAP):
            write()
    square = x.reshape(2, 3)[:, :2].clone()
    with pytest.raises(RuntimeError, match=OVERLAP):
        square.copy_(square.t())
    with pytest.raises(RuntimeError, match=OVERLAP):
        square.add_(square.t())
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("place", [slice(None), slice(0, 2), ..., None, (slice(None), 0)])
def test_numbers_are_not_put_where_elements_share_memory(place):
    rows = torch.zeros(3, 2).expand(2, 3, 2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        rows[place] = 1.5
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        rows.fill_(torch.tensor(1.5))
    rows[0] = 2.5
    assert rows.tolist() == [[[2.5, 2.5]] * 3] * 2
    assert rows.fill_(3.5)[1, 2, 1] == 3.5


def test_the_same_elements_and_other_ones_may_be_written():
    x = torch.arange(6.0)
    assert x.add_(x[:]).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert x[:3].copy_(x[3:]).tolist() == [6.0, 8.0, 10.0]
    grid = torch.arange(4.0).reshape(2, 2)
    assert grid[:, 0].add_(grid[0]).tolist() == [0.0, 3.0]
    lazy = torch.tensor([1 + 2j])
    assert lazy.conj().copy_(torch.tensor([3 + 4j])).tolist() == [3 + 4j]
    assert lazy.tolist() == [3 - 4j]


def test_products_fit_what_they_are_written_to():
    with pytest.raises(RuntimeError, match=r"Bad in-place call: input tensor size \[3, 1\]"):
        torch.ones(3, 1).addmm_(torch.ones(3, 2), torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="have dtype float, but got double instead"):
        torch.mm(torch.ones(1, 1), torch.ones(1, 1), out=torch.empty(0, dtype=torch.float64))
    wide = torch.empty(0, dtype=torch.float64)
    assert torch.addr(torch.ones(1, 1), torch.ones(1), torch.ones(1), out=wide).tolist() == [[2.0]]


def test_indices_are_long_integers():
    with pytest.raises(RuntimeError, match="have dtype long int, but got float instead"):
        torch.argmax(torch.ones(3), out=torch.empty(0))
    with pytest.raises(RuntimeError, match="have dtype float, but got double instead"):
        indices = torch.empty(0, dtype=torch.int64)
        torch.max(torch.ones(3), 0, out=(torch.empty(0, dtype=torch.float64), indices))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.add(x, 1, out=out),
        lambda x, out: torch.take(x, torch.tensor([0]), out=out),
        lambda x, out: torch.masked_select(x, x > 0, out=out),
        lambda x, out: torch.index_select(x, 0, torch.tensor([0]), out=out),
    ],
)
def test_overlap_of_out_is_seen_before_it_is_resized(call):
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        call(torch.ones(3), torch.zeros(1).expand(5))


X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
DOUBLE, INT, FLOAT = torch.float64, torch.int32, torch.float32


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda out: torch.neg(X, out=out), DOUBLE),
        (lambda out: torch.abs(X, out=out), DOUBLE),
        (lambda out: torch.clamp(X, 0, out=out), DOUBLE),
        (lambda out: torch.floor(X, out=out), DOUBLE),
        (lambda out: torch.where(X > 0, X, X, out=out), DOUBLE),
        (lambda out: torch.nonzero(X, out=out), INT),
        (lambda out: torch.all(X, out=out), FLOAT),
        (lambda out: torch.any(X, 0, out=out), FLOAT),
        (lambda out: torch.isposinf(X, out=out), torch.uint8),
        (lambda out: torch.signbit(X, out=out), FLOAT),
        (lambda out: torch.amax(X, 0, out=out), DOUBLE),
        (lambda out: torch.index_select(X, 0, torch.tensor([0]), out=out), DOUBLE),
        (lambda out: torch.gather(X, 0, torch.tensor([[0]]), out=out), DOUBLE),
        (lambda out: torch.take(X, torch.tensor([0]), out=out), DOUBLE),
        (lambda out: torch.tril(X, out=out), DOUBLE),
        (lambda out: torch.diag(X, out=out), DOUBLE),
        (lambda out: torch.matmul(X, X.t(), out=out), DOUBLE),
        (lambda out: torch.quantile(X, 0.5, out=out), DOUBLE),
        (lambda out: torch.linalg.inv(X @ X.t(), out=out), DOUBLE),
    ],
)
def test_out_of_another_dtype_is_refused_where_nothing_is_cast(call, dtype):
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        call(torch.empty(0, dtype=dtype))


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda out: torch.add(X, 1, out=out), DOUBLE),
        (lambda out: torch.exp(X, out=out), DOUBLE),
        (lambda out: torch.pow(X, 2, out=out), DOUBLE),
        (lambda out: torch.eq(X, X, out=out), FLOAT),
        (lambda out: torch.all(X, out=out), torch.uint8),
        (lambda out: torch.max(X, out=out), DOUBLE),
        (lambda out: torch.mean(X, 0, out=out), DOUBLE),
        (lambda out: torch.cat([X, X], out=out), DOUBLE),
        (lambda out: torch.logsumexp(X, 0, out=out), DOUBLE),
    ],
)
def test_out_of_another_dtype_is_cast_to_elsewhere(call, dtype):
    assert call(torch.empty(0, dtype=dtype)).dtype is dtype


def test_out_is_the_dtype_in_which_sums_are_made():
    halves = torch.tensor([0.5, 0.75, 2.0])
    for reduce, expected in ((torch.sum, 2), (torch.prod, 0)):
        assert reduce(halves, 0, out=torch.empty(0, dtype=INT)).item() == expected
    assert torch.cumsum(halves, 0, out=torch.empty(0, dtype=INT)).tolist() == [0, 0, 2]


@pytest.mark.parametrize("name", ["clamp", "clamp_min", "clamp_max"])
def test_forms_with_out_keep_apart_whichever_is_asked_for_first(name):
    packet = getattr(torch.ops.aten, name)
    kept = {form: packet.table.pop(form) for form in ("out", "Tensor_out") if form in packet.table}
    try:
        assert out_record(packet.Tensor)._overloadname == "Tensor_out"
        assert out_record(packet.default)._overloadname == "out"
        assert packet.out.functional is packet.default
        assert packet.Tensor_out.functional is packet.Tensor
    finally:
        packet.table.update(kept)


def test_a_refused_cast_leaves_the_out_tensor_alone():
    target = torch.full((2, 1), -1)
    with pytest.raises(RuntimeError, match="result type Double can't be cast"):
        torch.maximum(torch.ones(1, 3, dtype=torch.float64), torch.ones(3), out=target)
    assert target.tolist() == [[-1], [-1]]


def test_ops_without_a_gradient_write_into_out_tensors_for_operands_that_have_one():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    assert torch.le(x, 0, out=torch.empty(0, dtype=torch.bool)).tolist() == [False, True]
    assert torch.argmax(x, out=torch.empty(0, dtype=torch.int64)).item() == 0
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.mul(x, 2, out=torch.empty(0))


def test_an_operand_is_not_resized_to_hold_the_result():
    operand = torch.ones(1)
    for write in (torch.add, torch.ne, torch.maximum):
        with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match"):
            write(torch.ones(3), operand, out=operand)
    assert operand.shape == (1,)
