"""Writes by index: index_put, index_add, index_copy, index_fill, masks, put, scatter."""

from __future__ import annotations

import pytest

import rushlight as torch


def t(values, **options):
    return torch.tensor(values, **options)


def test_index_put_accumulates_every_occurrence():
    x = torch.zeros(2, 3, 4)
    places = (t([0, 0, 1]), t([1, 1, 2]))
    x.index_put_(places, t([[1.0], [2.0], [4.0]]), accumulate=True)
    assert x[0, 1].tolist() == [3, 3, 3, 3]
    assert x.sum().item() == 28


def test_index_put_keeps_strides():
    x = torch.zeros(3, 4).t()
    assert x.index_put((t([0]),), t(1.0)).stride() == (1, 4)


def test_index_put_on_separated_dimensions():
    x = torch.zeros(2, 3, 4).transpose(0, 2)
    x.index_put_((t([0, 3, 0]), torch.tensor([0, 1, 2])), t([1.0, 2.0, 3.0])[:, None], True)
    assert x[0, 0].tolist() == [1, 1]
    assert x[3, 1].tolist() == [2, 2]


def test_index_add_and_its_gradient():
    x = torch.zeros(3, 2, requires_grad=True)
    source = torch.ones(4, 2, requires_grad=True)
    y = x.index_add(0, t([0, 2, 0, 2]), source, alpha=3)
    assert y.tolist() == [[6, 6], [0, 0], [6, 6]]
    (y * t([[1.0], [2.0], [4.0]])).sum().backward()
    assert x.grad.tolist() == [[1, 1], [2, 2], [4, 4]]
    assert source.grad.tolist() == [[3, 3], [12, 12], [3, 3], [12, 12]]


def test_half_precision_accumulates_in_single():
    ones = torch.ones(4096, dtype=torch.bfloat16)
    x = torch.zeros(1, dtype=torch.bfloat16)
    assert x.index_add(0, torch.zeros(4096, dtype=torch.int64), ones).item() == 4096


@pytest.mark.parametrize(
    ("reduce", "include_self", "expected"),
    [
        ("sum", True, [9.0, 6.0]),
        ("prod", True, [24.0, 8.0]),
        ("mean", True, [3.0, 3.0]),
        ("amax", True, [4.0, 4.0]),
        ("amin", False, [3.0, 4.0]),
        ("mean", False, [3.5, 4.0]),
    ],
)
def test_scatter_reduce(reduce, include_self, expected):
    x = t([2.0, 2.0])
    found = x.scatter_reduce(0, t([0, 0, 1]), t([3.0, 4.0, 4.0]), reduce, include_self=include_self)
    assert found.tolist() == expected


def test_ties_share_the_gradient():
    x = t([5.0, 1.0], requires_grad=True)
    src = t([5.0, 5.0, 0.0], requires_grad=True)
    x.scatter_reduce(0, t([0, 0, 1]), src, "amax").sum().backward()
    third = pytest.approx(1 / 3)
    assert x.grad.tolist() == [third, 1]
    assert src.grad.tolist() == [third, third, 0]


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_prod_refuses_second_order_with_several_zeros(name):
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    src = t([0.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = getattr(x, name)(0, t([0, 0, 0]), src, "prod")
    (grad,) = torch.autograd.grad(y.sum(), src, create_graph=True)
    assert grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="Double backward is unsupported for"):
        grad.sum().backward()


def test_node_names():
    x = torch.zeros(2, 2, requires_grad=True)
    index = t([[0, 1]])
    assert x.scatter(0, index, x).grad_fn.name() == "ScatterBackward0"
    assert x.scatter(0, index, 1.0).grad_fn.name() == "ScatterBackward1"
    assert x.masked_fill(x > 0, 1.0).grad_fn.name() == "MaskedFillBackward0"
    assert x.masked_fill(x > 0, t(1.0)).grad_fn.name() == "MaskedFillBackward1"
    refused = x.scatter(0, index, x, reduce="add")
    with pytest.raises(RuntimeError, match="derivative for aten::scatter is not implemented"):
        refused.sum().backward()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.scatter(0, t([[0, 9]]), 1.0), RuntimeError, "index 9 is out of bounds"),
        (lambda x: x.gather(0, t([[0, -1]])), RuntimeError, "index -1 is out of bounds"),
        (lambda x: x.gather(0, t([0])), RuntimeError, "same number of dimensions"),
        (lambda x: x.index_select(0, t([7])), IndexError, "index out of range in self"),
        (lambda x: x.index_fill(0, t([-4]), 1), IndexError, "index -4 is out of bounds"),
        (lambda x: x.masked_fill(t([1, 0]), 1), RuntimeError, "only supports boolean masks"),
        (lambda x: x.take(t([9])), IndexError, "tried to access index 9"),
        (lambda x: x[:1].expand(3, 2).index_add_(0, t([0]), x[:1]), RuntimeError, "more than one"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call(torch.zeros(3, 2))


def test_masks():
    x = torch.arange(6.0).reshape(2, 3)
    mask = t([True, False, True])
    assert x.masked_select(mask).tolist() == [0, 2, 3, 5]
    assert x.masked_fill(mask, -1).tolist() == [[-1, 1, -1], [-1, 4, -1]]
    assert x.masked_scatter(mask, t([9.0, 8.0, 7.0, 6.0])).tolist() == [[9, 1, 8], [7, 4, 6]]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.zeros(3).masked_fill_(torch.ones(2, 3, dtype=torch.bool), 1)


def test_embedding_gradient():
    weight = torch.ones(4, 2, requires_grad=True)
    index = t([[0, 1], [1, 3]])
    torch.embedding(weight, index, padding_idx=3).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [2, 2], [0, 0], [0, 0]]


PLACES = [0, 1, 2, 3, 4]
WRITERS = {
    "index_add_": lambda x, index, source: x.index_add_(0, index, source),
    "index_copy_": lambda x, index, source: x.index_copy_(0, index, source),
    "index_reduce_": lambda x, index, source: x.index_reduce_(0, index, source, "prod"),
    "index_put_": lambda x, index, source: x.index_put_((index,), source),
    "setitem": lambda x, index, source: x.__setitem__(index, source),
    "put_": lambda x, index, source: x.put_(index, source),
    "scatter_": lambda x, index, source: x.scatter_(0, index, source),
    "scatter_ reducing": lambda x, index, source: x.scatter_(0, index, source, reduce="add"),
    "scatter_add_": lambda x, index, source: x.scatter_add_(0, index, source),
    "scatter_reduce_": lambda x, index, source: x.scatter_reduce_(0, index, source, "sum"),
    "take out": lambda x, index, source: torch.take(source, index, out=x),
    "gather out": lambda x, index, source: torch.gather(source, 0, index, out=x),
    "index_select out": lambda x, index, source: torch.index_select(source, 0, index, out=x),
    "index_add out": lambda x, index, source: torch.index_add(x, 0, index, source, out=x),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_is_read_may_not_be_what_is_written(write):
    for source in (slice(0, 5), slice(1, 6)):
        memory = torch.arange(8) % 5
        with pytest.raises(RuntimeError, match="input tensor and the written-to tensor"):
            write(memory[:5], t(PLACES), memory[source])
    with pytest.raises(RuntimeError, match="input tensor and the written-to tensor"):
        write(memory[:5], memory[1:6], torch.ones(5, dtype=torch.int64))
    write(memory[:5], t(PLACES), torch.ones(5, dtype=torch.int64))


def test_an_index_may_not_be_filled():
    memory = torch.arange(8)
    with pytest.raises(RuntimeError, match="input tensor and the written-to tensor"):
        memory[:5].index_fill_(0, memory[:5], 1)
    with pytest.raises(RuntimeError, match="input tensor and the written-to tensor"):
        memory[:5].scatter_(0, memory[1:6], 1)
    assert memory[:5].index_fill_(0, t([0, 1]), memory[3]).tolist() == [3, 3, 2, 3, 4]


def test_partly_read_in_order_is_refused():
    memory = torch.arange(8)
    for call in (
        lambda x, out: torch.cumsum(x, 0, out=out),
        lambda x, out: torch.cat([x], out=out),
    ):
        with pytest.raises(RuntimeError, match="input tensor and the written-to tensor"):
            call(memory[1:6], memory[:5])
    assert torch.cumsum(memory[:3], 0, out=memory[:3]).tolist() == [0, 1, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_expanded_tensors_are_written_with_a_warning(dtype):
    index, mask = t([0, 1, 2]), t([True, False, True])
    ones = torch.ones(3, dtype=dtype)

    def expanded():
        return torch.zeros(1, dtype=dtype).expand(3)

    with pytest.warns(UserWarning, match="index_put_ on expanded tensors"):
        assert expanded().index_put_((index,), ones).tolist() == [1, 1, 1]
    with pytest.warns(UserWarning, match="index_put_ on expanded tensors"):
        assert expanded().index_put_((index,), ones, accumulate=True).tolist() == [3, 3, 3]
    with pytest.warns(UserWarning, match="index_fill_ on expanded tensors"):
        assert expanded().index_fill_(0, index, 2).tolist() == [2, 2, 2]
    with pytest.warns(UserWarning, match="masked_fill_ on expanded tensors"):
        assert expanded().masked_fill_(mask, 2).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        expanded().index_add_(0, index, ones)


def test_a_source_without_dims_has_one_element():
    assert torch.zeros(3).scatter(0, t([1]), t(2.0)).tolist() == [0, 2, 0]
    assert torch.zeros(3).scatter_add(0, t([1]), t(2.0)).tolist() == [0, 2, 0]


@pytest.mark.parametrize("name", ["scatter", "scatter_add"])
def test_a_source_larger_than_its_index_has_zeros_in_its_gradient(name):
    target = torch.zeros(3, 2)
    source = torch.ones(3, 3, requires_grad=True)
    index = torch.tensor([[0, 1], [1, 0]])
    getattr(target, name)(0, index, source).sum().backward()
    assert source.grad.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]


def test_nothing_is_written_to_tensors_without_elements():
    x, index = torch.empty(0, 2, 0), torch.tensor([5])
    assert x.index_add(0, index, torch.ones(1, 2, 0)).shape == (0, 2, 0)
    assert x.index_copy(1, index, torch.ones(0, 1, 0)).shape == (0, 2, 0)
    assert x.index_fill(1, index, 1.0).shape == (0, 2, 0)
    assert torch.take_along_dim(torch.empty(3, 0), torch.zeros(3, 0, dtype=torch.long)).shape == (
        0,
    )


def test_pairs_of_halves_accumulate():
    half, index = torch.complex32, torch.tensor([0, 0, 1])
    one = torch.ones(3, dtype=half)
    added = torch.zeros(2, dtype=half).index_add(0, index, one)
    put = torch.zeros(2, dtype=half).index_put((index,), one, accumulate=True)
    for found in (added, put):
        assert found.to(torch.complex64).tolist() == [2, 1]
    source = torch.ones(3, dtype=half, requires_grad=True)
    source.index_select(0, torch.tensor([0, 0])).backward(torch.ones(2, dtype=half))
    assert source.grad.to(torch.complex64).tolist() == [2, 0, 0]


def test_rows_that_are_not_there_are_refused_in_empty_tensors_too():
    for sizes, dim in (((3, 0), 1), ((0, 1), 0)):
        x = torch.zeros(sizes)
        source = torch.zeros([1 if at == dim else size for at, size in enumerate(sizes)])
        with pytest.raises(IndexError, match="out of bounds"):
            x.index_fill(dim, torch.tensor([0]), 1)
        with pytest.raises(IndexError, match="out of bounds"):
            x.index_copy(dim, torch.tensor([0]), source)
    assert torch.zeros(3, 0).index_fill(0, torch.tensor([1]), 1).shape == (3, 0)
    assert torch.zeros(0, 0).index_fill(-1, torch.tensor([0]), 1).shape == (0, 0)
