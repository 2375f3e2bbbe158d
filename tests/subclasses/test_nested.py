"""Nested tensors: geometry, elementwise ops, gradients, refusals."""

from __future__ import annotations

import io

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError, MissingFeature
from rushlight.io.nested import rebuild_jagged, rebuild_packed
from rushlight.io.rebuild import NAMES, rebuild_from_type


def pair():
    a = torch.arange(6.0).reshape(2, 3).requires_grad_()
    b = torch.arange(8.0).reshape(2, 4).requires_grad_()
    return a, b, torch.nested.as_nested_tensor([a, b])


def test_geometry():
    _, _, nested = pair()
    assert nested.is_nested and len(nested) == 2
    assert nested.size(0) == 2 and nested.size(1) == 2
    assert nested._nested_tensor_size().tolist() == [[2, 3], [2, 4]]
    with pytest.raises(RuntimeError, match="dimension 2 is irregular"):
        nested.size(2)
    padded = torch.nested.to_padded_tensor(nested, -1.0)
    assert tuple(padded.shape) == (2, 2, 4) and padded[0, 0, 3].item() == -1.0


def test_gradients_reach_the_components():
    a, b, nested = pair()
    (nested * 2).backward(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(2, 4)]))
    assert a.grad.tolist() == [[2.0] * 3] * 2 and tuple(b.grad.shape) == (2, 4)


def test_sum_keeps_its_input():
    leaf = torch.nested.nested_tensor([torch.ones(2), torch.ones(2)], requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad
    copy = leaf.clone()
    result = copy.sum(-1, keepdim=True)
    assert [part.tolist() for part in result.unbind()] == [[2.0], [2.0]]
    copy.add_(copy)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward(torch.nested.nested_tensor([torch.ones(1), torch.ones(1)]))


def test_refusals():
    _, _, nested = pair()
    with pytest.raises(MissingFeature, match="matmul on nested tensors"):
        nested.matmul(nested)
    with pytest.raises(RuntimeError, match="same dimension"):
        torch.nested.nested_tensor([torch.ones(2), torch.ones(2, 2)])


def test_rule_per_layout():
    t = torch.ones(2, requires_grad=True)
    torch.ops.aten._test_autograd_multiple_dispatch(t).backward(torch.full((2,), 3.0))
    assert t.grad.tolist() == [4.0, 4.0]
    a, _, nested = pair()
    grad = torch.nested.nested_tensor([torch.full((2, 3), 3.0), torch.ones(2, 4)])
    torch.ops.aten._test_autograd_multiple_dispatch(nested, True).backward(grad)
    assert a.grad.tolist() == [[12.0] * 3] * 2


def test_warning_inside_backward():
    t = torch.zeros((), requires_grad=True)
    with pytest.warns(UserWarning, match="Warn from backward"):
        torch.ops.aten._test_warn_in_autograd(t).backward()


def test_gradients_have_components():
    given = torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 3)], requires_grad=True)
    seen = []
    given.register_hook(lambda grad: seen.append([part.tolist() for part in grad.unbind()]))
    product = given * 2
    product.retain_grad()
    torch.nested.to_padded_tensor(product, 0.0).sum().backward()
    wanted = [[[2.0, 2.0]], [[2.0] * 3] * 2]
    assert given.grad.is_nested and [part.tolist() for part in given.grad.unbind()] == wanted
    assert seen == [wanted] and product.grad.unbind()[0].tolist() == [[1.0, 1.0]]
    given.unbind()[0].sum().backward()
    assert given.grad.unbind()[0].tolist() == [[3.0, 3.0]]
    given.grad = None
    assert given.grad is None


def jagged_parts():
    values, offsets = torch.arange(10.0).reshape(5, 2), torch.tensor([0, 2, 5])
    whole = torch.nested.nested_tensor_from_jagged(values, offsets)
    lengths = torch.tensor([1, 2])
    return [
        whole,
        whole.transpose(1, 2),
        torch.nested.nested_tensor_from_jagged(values, offsets, lengths=lengths),
        torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 1)]),
    ]


@pytest.mark.parametrize("place", range(4))
def test_nested_tensors_go_to_files_and_back(place):
    given, file = jagged_parts()[place], io.BytesIO()
    torch.save({"given": given}, file)
    for options in ({}, {"weights_only": False}):
        file.seek(0)
        found = torch.load(file, **options)["given"]
        assert type(found) is type(given) and found.is_nested
        parts = zip(found.unbind(), given.unbind(), strict=True)
        assert all(torch.equal(mine, theirs) for mine, theirs in parts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"offsets": torch.tensor([0, 2, 6])},
        {"offsets": torch.tensor([-1, 2, 5])},
        {"offsets": torch.tensor([0, 3, 2])},
        {"offsets": torch.tensor([0.0, 5.0])},
        {"lengths": torch.tensor([1, 4])},
        {"_ragged_idx": 3},
        {"values": 4},
    ],
)
def test_components_outside_of_the_values_are_refused(wrong):
    said = {"values": torch.zeros(5, 2), "offsets": torch.tensor([0, 2, 5]), "_ragged_idx": 1}
    assert rebuild_jagged(said).size(0) == 2
    with pytest.raises(CheckpointError, match="nested tensor"):
        rebuild_jagged(said | wrong)
    rows, order, begins = torch.tensor([[2], [3]]), torch.tensor([[1], [1]]), torch.tensor([0, 2])
    assert len(rebuild_packed(torch.zeros(5), rows, order, begins)) == 2
    for arguments in (
        (rows + 1, order, begins),
        (rows, order + 1, begins),
        (rows, order, begins + 1),
    ):
        with pytest.raises(CheckpointError, match="components of a nested tensor"):
            rebuild_packed(torch.zeros(5), *arguments)


def test_files_put_nothing_on_top_of_what_was_checked():
    given, file = jagged_parts()[0], io.BytesIO()
    given.more = 3
    torch.save(given, file)
    file.seek(0)
    assert "more" not in torch.load(file).__dict__
    made = rebuild_from_type(
        NAMES["torch.nested._internal.nested_tensor", "_rebuild_njt"],
        NAMES["torch.nested._internal.nested_tensor", "NestedTensor"],
        ({"values": torch.zeros(5, 2), "offsets": torch.tensor([0, 2, 5])},),
        {"_offsets": torch.tensor([0, 99])},
    )
    assert made._offsets.tolist() == [0, 2, 5]


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_texts_of_tensors_are_formatted():
    plain = torch.ones(2)
    parts = [plain, torch.ones(3)]
    for shown in (
        torch.nested.nested_tensor(parts),
        torch.nested.nested_tensor(parts, layout=torch.jagged),
        torch.masked.masked_tensor(plain, torch.tensor([True, False])),
        torch.quantize_per_tensor(plain, 0.5, 0, torch.quint8),
    ):
        assert f"{shown}" == str(shown) and len(f"{shown}") > 10
    assert f"{torch.quantize_per_tensor(torch.tensor(1.0), 0.5, 0, torch.qint8):.2f}" == "1.00"


def test_limits_of_the_integers_that_quantised_numbers_are():
    limits = [torch.iinfo(kind) for kind in (torch.qint8, torch.quint8, torch.qint32)]
    assert [(each.bits, each.min) for each in limits] == [(8, -128), (8, 0), (32, -(1 << 31))]
