"""Pruning: masks, repetition, removal and complaints."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import prune

W = [[-1.0, 2.0, 0.5, 4.0], [3.0, -2.5, 1.5, 0.125]]


def layer():
    made = nn.Linear(4, 2)
    made.weight.data.copy_(torch.tensor(W))
    return made


def test_smallest_elements():
    module = prune.l1_unstructured(layer(), "weight", amount=0.25)
    assert module.weight.tolist() == [[-1.0, 2.0, 0.0, 4.0], [3.0, -2.5, 1.5, 0.0]]
    assert list(module.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert prune.is_pruned(nn.Sequential(module)) and not prune.is_pruned(layer())
    module(torch.ones(1, 4)).sum().backward()
    assert module.weight_orig.grad.tolist() == [[1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]]


def test_again_and_back():
    module = prune.l1_unstructured(layer(), "weight", amount=2)
    prune.l1_unstructured(module, "weight", amount=2)
    assert module.weight.tolist() == [[0.0, 2.0, 0.0, 4.0], [3.0, -2.5, 0.0, 0.0]]
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    assert module.weight.tolist() == [[0.0, 2.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]]
    (hook,) = module._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 3
    assert [type(method).__name__ for method in hook][2] == type(hook[2]).__name__ == "LnStructured"
    prune.remove(module, "weight")
    assert list(module.state_dict()) == ["bias", "weight"] and not prune.is_pruned(module)
    assert module.weight.tolist() == [[0.0, 2.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(module, "weight")


def test_at_random():
    torch.manual_seed(0)
    module = prune.random_unstructured(layer(), "weight", 3)
    assert module.weight_mask.sum().item() == 5.0
    module = prune.random_structured(layer(), "weight", 0.5, dim=1)
    assert sorted(module.weight_mask.sum(0).tolist()) == [0.0, 0.0, 2.0, 2.0]


def test_several_parameters_as_one():
    first, second = layer(), layer()
    second.weight.data.mul_(10)
    parts = [(first, "weight"), (second, "weight")]
    prune.global_unstructured(parts, prune.L1Unstructured, amount=0.5)
    assert first.weight.tolist() == [[0.0, 0.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]]
    assert second.weight_mask.tolist() == [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0]]
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured(parts, prune.LnStructured, amount=1, n=1)
    with pytest.raises(TypeError, match="parameters is not an Iterable"):
        prune.global_unstructured(3, prune.L1Unstructured)


def test_given_masks_and_scores():
    mask = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1]])
    module = prune.custom_from_mask(layer(), "weight", mask)
    assert module.weight.tolist() == [[-1.0, 0.0, 0.5, 0.0], [0.0, -2.5, 0.0, 0.125]]
    assert prune.identity(layer(), "bias").bias_mask.tolist() == [1.0, 1.0]
    scores = torch.arange(8.0).reshape(2, 4)
    module = prune.l1_unstructured(layer(), "weight", 4, importance_scores=scores)
    assert module.weight_mask.tolist() == [[0.0] * 4, [1.0] * 4]
    pruned = prune.L1Unstructured(2).prune(torch.tensor([3.0, -1.0, 2.0, 5.0]))
    assert pruned.tolist() == [3.0, 0.0, 0.0, 5.0]


def test_a_failed_attempt_leaves_no_trace():
    module = layer()
    with pytest.raises(ValueError, match="should be smaller than the number of parameters"):
        prune.l1_unstructured(module, "weight", 20)
    assert set(module.state_dict()) == {"bias", "weight"} and not prune.is_pruned(module)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: prune.L1Unstructured(1.5), ValueError, "amount=1.5 should either be a float in"),
        (lambda: prune.L1Unstructured(-1), ValueError, "or a non-negative integer"),
        (lambda: prune.L1Unstructured("a"), TypeError, "Invalid type for amount: a. Must be int"),
        (lambda: prune.ln_structured(layer(), "bias", 1, 2, 0), ValueError, "multidimensional"),
        (lambda: prune.random_structured(layer(), "weight", 1, 5), IndexError, "Invalid index 5"),
        (lambda: prune.BasePruningMethod(), TypeError, "Can't instantiate abstract class"),
    ],
)
def test_complaints(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_what_own_methods_are_made_of():
    assert prune.count_to_prune(3, 8) == 3 and prune.count_to_prune(0.3, 8) == 2
    prune.check_count(0.9, 8)
    with pytest.raises(ValueError, match="amount=9 should be smaller than the number"):
        prune.check_count(9, 8)
    with pytest.raises(TypeError, match="Must be int or float"):
        prune.check_amount("all")
    assert prune.norms_along(torch.tensor(W), 1, 0).tolist() == [7.5, 7.125]
