"""Nested tensors of the jagged layout: geometry, functions, gradients, refusals.

What functions answer is compared with the same function of each component.
"""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import rushlight as torch
from rushlight.base.errors import MissingFeature
from rushlight.nn import functional as F

A = torch.arange(6.0).view(2, 3)
B = torch.arange(12.0).view(4, 3) + 10


def jagged(*parts, **options):
    return torch.nested.nested_tensor(list(parts), layout=torch.jagged, **options)


def same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_geometry():
    nt = jagged(A, B)
    j = nt.size(1)
    assert repr(nt.shape) == f"torch.Size([2, {j}, 3])" and nt.dim() == nt.ndim == 3
    assert nt.is_nested and nt.layout is torch.jagged and nt.is_contiguous() and len(nt) == 2
    assert nt.size(-1) == 3 and nt.numel() == 18 and str(nt.stride()) == f"(3*{j}, 3, 1)"
    assert nt.offsets().tolist() == [0, 2, 6] and nt.lengths() is None
    assert (nt._min_seqlen, nt._max_seqlen) == (2, 4)
    assert repr(nt) == f"NestedTensor(size=(2, {j}, 3), offsets=tensor([0, 2, 6]), contiguous=True)"
    with pytest.raises(IndexError):
        nt.size(3)
    same(nt.unbind(), (A, B))
    same(list(nt), (A, B))
    assert torch.equal(nt[-1], B) and torch.equal(nt[1, 2], B[2]) and nt[..., 1:].size(2) == 2
    assert nt._nested_tensor_size().tolist() == [[2, 3], [4, 3]]


def test_the_size_of_a_ragged_dim_is_equal_to_itself_alone():
    nt, other = jagged(A, B), jagged(A, B)
    j = nt.size(1)
    assert j == (nt * 2).size(1) and j != other.size(1) and j != 4
    assert nt.shape == nt.exp().shape and nt.shape != other.shape
    assert j > 1 and j >= 2 and not j < 2 and 2 * j == j * 2 and 2 * j > j
    with pytest.raises(ValueError, match="indeterminate"):
        assert j >= 5
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        nt + other


def test_construction():
    ragged_last = jagged(torch.zeros(2, 3), torch.zeros(2, 4))
    assert ragged_last._ragged_idx == 2 and ragged_last.size(1) == 2
    values = torch.arange(8.0).view(8, 1)
    given = torch.nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 6]))
    assert given.offsets().tolist() == [0, 2, 8]
    holes = torch.nested.nested_tensor_from_jagged(
        values, torch.tensor([0, 4, 8]), torch.tensor([2, 4])
    )
    same(holes.unbind(), (values[:2], values[4:]))
    same(holes.contiguous().unbind(), holes.unbind())
    assert holes.contiguous().numel() == 6 and not holes.is_contiguous()
    across = torch.nested.nested_tensor_from_jagged(values.T, torch.tensor([0, 3, 8]), jagged_dim=2)
    same(across.unbind(), (values.T[:, :3], values.T[:, 3:]))
    dense = torch.nested.as_nested_tensor(torch.ones(2, 3, 4), layout=torch.jagged)
    assert dense.offsets().tolist() == [0, 3, 6]
    table = torch.arange(6.0).view(2, 3)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    picked = torch.nested.masked_select(table, mask)
    same(picked.unbind(), (table[0, [0, 2]], table[1, [1]]))
    batch = torch.arange(30.0).view(2, 5, 3)
    starts, counts = torch.tensor([0, 1]), torch.tensor([2, 4])
    for layout in (torch.jagged, torch.strided):
        cut = torch.nested.narrow(batch, 1, starts, counts, layout=layout)
        same(cut.unbind(), (batch[0, :2], batch[1, 1:5]))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "empty tensor list"), ([torch.ones(2), torch.ones(2, 3)], "the same dim"),
        ([torch.tensor(1.0)], "zero-dim"), ([torch.ones(2, 3), torch.ones(3, 4)], "single ragged"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused(parts, words):
    with pytest.raises(RuntimeError, match=words):
        jagged(*parts)


@pytest.mark.parametrize(
    "function",
    [
        torch.sin, F.gelu, torch.square, F.relu6, lambda x: (x > 3) & ~(x < 9), lambda x: 2**x,
        lambda x: x * 2 + 1, lambda x: 1 - x, lambda x: x + x, lambda x: x > 3,
        lambda x: x + torch.tensor([1.0, 2.0, 3.0]), lambda x: x.clamp(0, 4),
        lambda x: x.double(),
        lambda x: torch.where(x > 3, x, x * 0), lambda x: x.masked_fill(x > 3, 0.0),
        lambda x: torch.softmax(x, -1), lambda x: F.layer_norm(x, (3,)),
        lambda x: x.clone().add_(1), lambda x: x.unsqueeze(-1).expand(*[-1] * x.dim(), 4),
        lambda x: x.unflatten(-1, [3, 1]),
        lambda x: torch.cat([x, x * 2], -1), lambda x: torch.stack([x, x * 2], -1),
        lambda x: x.unsqueeze(-1).squeeze(-1), lambda x: x.chunk(3, -1)[1],
        lambda x: x.narrow(-1, 1, 2),
        lambda x: x.split([1, 2], -1)[1], lambda x: x.select(-1, 1), lambda x: x.sum(-1),
        lambda x: x.amax(-1, keepdim=True), lambda x: x.max(-1).indices, lambda x: x.mT,
        lambda x: x.mT.contiguous(), lambda x: x @ torch.arange(6.0).view(3, 2),
        lambda x: F.linear(x, torch.arange(6.0).view(2, 3), torch.ones(2)),
        lambda x: x.softmax(-2), lambda x: x.log_softmax(-2),
        lambda x: x - x.mean(-2, keepdim=True),
        lambda x: x.detach().fill_(2.0), lambda x: torch.zeros_like(x),
        lambda x: x.transpose(-2, -1).mT,
    ],
)  # fmt: skip
def test_functions_do_to_components_what_they_do_to_tensors(function):
    """Dims are counted from the end, so that a component's are those of the whole."""
    found = function(jagged(A, B))
    same(found.unbind(), (function(A), function(B)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(-2), lambda x: x.mean(-2, keepdim=True), lambda x: x.amax(-2),
        lambda x: x.min(-2).values, lambda x: x.argmax(-2), lambda x: (x > 3).any(-2),
        lambda x: (x > 3).all(-2), lambda x: x.prod(-2), lambda x: x.mT @ x,
    ],
)  # fmt: skip
def test_reductions_of_the_ragged_dim_are_ordinary_tensors(function):
    found = function(jagged(A, B))
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, torch.stack([function(A), function(B)]))


def test_reductions_of_everything_and_of_batches():
    nt = jagged(A, B)
    assert nt.sum() == (A.sum() + B.sum()) and nt.sum((0, 1, 2)) == nt.sum()
    torch.testing.assert_close(nt.mean((0, 1)), torch.cat([A, B]).mean(0))
    assert nt.sum((0, 1), keepdim=True).shape == (1, 1, 3)
    for dim, words in (
        (0, "batch dimension but not"),
        ((0, 2), "but not"),
        ((1, 2), "a ragged and"),
    ):
        with pytest.raises(RuntimeError, match=words):
            nt.sum(dim)


def test_ordinary_operands_broadcast_along_the_ragged_dim():
    nt = jagged(A, B)
    rows = torch.tensor([[[1.0]], [[10.0]]])
    same((nt + rows).unbind(), (A + 1, B + 10))
    same((rows.expand(2, 1, 3) * nt).unbind(), (A, B * 10))
    full = torch.arange(24.0).view(2, 4, 3)
    same((nt + full).unbind(), (A + full[0, :2], B + full[1]))


def test_padding_there_and_in_other_sizes():
    padded = jagged(A, B).to_padded_tensor(-1.0)
    assert (
        padded.shape == (2, 4, 3) and torch.equal(padded[0, :2], A) and (padded[0, 2:] == -1).all()
    )
    wide = torch.nested.to_padded_tensor(jagged(A, B), 0.0, (2, 5, 3))
    assert wide.shape == (2, 5, 3) and torch.equal(wide[1, :4], B) and not wide[:, 4].any()
    with pytest.raises(RuntimeError, match="Truncation"):
        torch.nested.to_padded_tensor(jagged(A, B), 0.0, (2, 3, 3))
    empty = jagged(torch.ones(0, 3), B)
    assert not empty.sum(1)[0].any() and empty.to_padded_tensor(7.0)[0].eq(7).all()


def test_attention_sees_the_places_of_its_component_only():
    torch.manual_seed(0)
    parts = [torch.randn(3, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)]

    def heads(x, batch=()):
        return x.unflatten(-1, [2, 4]).transpose(-3, -2)

    for causal in (False, True):
        nt = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
        found = F.scaled_dot_product_attention(*[heads(nt)] * 3, is_causal=causal)
        wanted = [
            F.scaled_dot_product_attention(*[heads(part)] * 3, is_causal=causal) for part in parts
        ]
        same(found.unbind(), wanted)
        joined = found.transpose(1, 2).flatten(-2)
        same(joined.unbind(), [each.transpose(0, 1).flatten(-2) for each in wanted])
        grads = torch.autograd.grad(joined.square().sum(), parts)
        same(grads, torch.autograd.grad(sum([each.square().sum() for each in wanted]), parts))
    with pytest.raises(ValueError, match="Masks"):
        F.scaled_dot_product_attention(*[heads(nt)] * 3, attn_mask=torch.ones(2, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sin(), lambda x: x.softmax(-2), lambda x: x.mean(-2), lambda x: x.sum(-2) ** 2,
        lambda x: x.mT @ x, lambda x: x - x.mean(-2, keepdim=True), lambda x: F.layer_norm(x, (3,)),
        lambda x: x.amax(-2),
    ],
)  # fmt: skip
def test_gradients_reach_components(function):
    def results(nested):
        parts = [(A / 7).requires_grad_(), (B / 7).requires_grad_()]
        if nested:
            found = function(torch.nested.as_nested_tensor(parts, layout=torch.jagged))
            loss = found.cos().sum()
        else:
            loss = sum([function(part).cos().sum() for part in parts])
        return torch.autograd.grad(loss, parts)

    same(results(True), results(False))


def test_leaves_have_nested_gradients():
    leaf = jagged(A, B, requires_grad=True)
    assert leaf.is_leaf and "requires_grad=True" in repr(leaf)
    for _ in range(2):
        (leaf * leaf).sum().backward()
    assert leaf.grad.shape == leaf.shape
    same(leaf.grad.unbind(), (4 * A, 4 * B))
    leaf.grad = None
    (found,) = torch.autograd.grad(leaf * 3, leaf, grad_outputs=torch.ones_like(leaf))
    assert found.shape == leaf.shape and (found == 3).values().all()
    seen = []
    leaf.register_hook(lambda grad: seen.append(grad.sum()))
    leaf.sum().backward()
    assert seen == [18.0] and (leaf * 2).grad_fn.name() == "MulBackward0"


def test_modules():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(9, 6),
        torch.nn.LayerNorm(6),
        torch.nn.Linear(6, 2),
        torch.nn.Dropout(0.0),
    )
    parts = [torch.tensor([1, 2, 3]), torch.tensor([4])]
    found = model(jagged(*parts))
    same(found.unbind(), [model(part) for part in parts])
    found.sum(1).square().sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    sum([model(part).sum(0).square().sum() for part in parts]).backward()
    same([p.grad for p in model.parameters()], grads)


def test_compiled_functions_take_them():
    def function(x):
        return (x.sin() * 2).sum(1)

    nt = jagged(A, B)
    torch.testing.assert_close(torch.compile(function, backend="eager")(nt), function(nt))


def test_copies_and_files():
    nt = jagged(A, B, requires_grad=True)
    file = io.BytesIO()
    torch.save(nt, file)
    file.seek(0)
    for made in (
        copy.deepcopy(nt), pickle.loads(pickle.dumps(nt)), torch.load(file, weights_only=False),
    ):  # fmt: skip
        same(made.unbind(), nt.unbind())
        assert made.requires_grad and made.is_leaf and made._ragged_idx == 1


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: x.transpose(0, 1), ValueError, "batch dimension"),
        (lambda x: x.flatten(0, 1), RuntimeError, "dim=0"),
        (lambda x: x.unsqueeze(0), RuntimeError, "dim=0"),
        (lambda x: torch.cat([x, x], 1), RuntimeError, "ragged dim"),
        (lambda x: x.view(-1), RuntimeError, "cannot view"),
        (lambda x: x @ x.mT, RuntimeError, "not supported between"),
        (lambda x: x.softmax(0), RuntimeError, "batch dimension"),
        (lambda x: x.tolist(), RuntimeError, "not supported"),
        (lambda x: torch.nested.as_nested_tensor(x, layout=torch.strided), RuntimeError, "layouts"),
        (lambda x: x.cumsum(-1), MissingFeature, "RL0520"),
        (lambda x: torch.vmap(torch.sin)(x), MissingFeature, "RL0520"),
        (lambda x: x.T, MissingFeature, "RL0520"),
    ],
)  # fmt: skip
def test_refusals(function, error, words):
    with pytest.raises(error, match=words):
        function(jagged(A, B))


def test_a_mask_of_more_dims_picks_row_by_row():
    table = torch.arange(12.0).reshape(2, 2, 3)
    picked = torch.nested.masked_select(table, table % 4 == 1)
    assert [part.tolist() for part in picked.unbind()] == [[1.0], [5.0], [], [9.0]]
    assert picked.offsets().tolist() == [0, 1, 2, 2, 3]
