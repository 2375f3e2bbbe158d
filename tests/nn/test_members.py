"""Tensors of modules by dotted names: torch's private accessors, which libraries use."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn.utils.members import (
    NamedMemberAccessor,
    set_tensor,
    swap_submodule,
    swap_tensor,
)

nn = torch.nn


def net():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def test_parameters_and_buffers_are_swapped_as_they_are():
    model = net()
    weight, plain = model[0].weight, torch.ones(3, 2)
    assert swap_tensor(model[0], "weight", plain) is weight
    assert model[0].weight is plain and model[0]._parameters["weight"] is plain
    assert swap_tensor(model[0], "weight", weight) is plain
    mean = model[1].running_mean
    assert swap_tensor(model[1], "running_mean", None) is mean and model[1].running_mean is None
    set_tensor(model[1], "running_mean", mean)
    assert model[1].running_mean is mean


def test_what_was_not_there_goes_again():
    layer, plain = nn.Linear(2, 3), torch.ones(3)
    with pytest.raises(AttributeError, match="Linear has no attribute `other`"):
        swap_tensor(layer, "other", plain)
    before = swap_tensor(layer, "other", plain, allow_missing=True)
    assert layer.other is plain
    assert swap_tensor(layer, "other", before, allow_missing=True) is plain
    assert not hasattr(layer, "other")


@pytest.mark.parametrize(
    "arguments, error",
    [(("a.b", torch.ones(1)), KeyError), (("", torch.ones(1)), KeyError), (("bias", 3), TypeError),
     (("training", torch.ones(1)), TypeError)],
)  # fmt: skip
def test_wrong_calls(arguments, error):
    with pytest.raises(error):
        swap_tensor(nn.Linear(2, 2), *arguments)
    with pytest.raises(TypeError):
        swap_tensor(object(), "x", torch.ones(1))
    with pytest.raises(KeyError):
        swap_submodule(net(), "7", nn.ReLU())


def test_dotted_names():
    model = net()
    accessor = NamedMemberAccessor(model)
    assert accessor.get_tensor("0.bias") is model[0].bias
    names = [name for name, _ in accessor.named_tensors()]
    assert names == [*dict(model.named_parameters()), *dict(model.named_buffers())]
    assert accessor.check_keys(["0.bias", "x"]) == (sorted(set(names) - {"0.bias"}), ["x"])
    others = {"0.bias": torch.zeros(3), "1.running_var": torch.ones(3)}
    kept = accessor.get_tensors(others)
    before, absent = accessor.swap_tensors_dict(others)
    assert not absent and all(a is b for a, b in zip(before.values(), kept, strict=True))
    assert model[0].bias is others["0.bias"]
    accessor.set_tensors_dict(before)
    assert model[0].bias is kept[0]
    with pytest.raises(RuntimeError, match="Missing key"):
        accessor.swap_tensors_dict({"0.bias": torch.zeros(3), "0.other": torch.zeros(3)})
    assert model[0].bias is kept[0] and not hasattr(model[0], "other")
    relu = nn.ReLU()
    linear = accessor.swap_submodule("0", relu)
    assert model[0] is relu and isinstance(linear, nn.Linear)


def test_losses_of_users_begin_as_torchs_bases_do():
    from rushlight.nn.losses import Loss, WeightedLoss

    class Own(Loss):
        def __init__(self):
            super().__init__(reduction="sum")

    class Weighted(WeightedLoss):
        def __init__(self, weight):
            super().__init__(weight, reduction="none")

    assert Own().reduction == "sum" and Loss().reduction == "mean"
    found = Weighted(torch.ones(2))
    assert found.reduction == "none" and "weight" in dict(found.named_buffers())
    weighted = {"NLLLoss", "BCELoss", "CrossEntropyLoss", "MultiLabelSoftMarginLoss"}
    for name in weighted:
        assert issubclass(getattr(nn, name), WeightedLoss)
    for name in ("MSELoss", "BCEWithLogitsLoss", "KLDivLoss"):
        assert not issubclass(getattr(nn, name), WeightedLoss)
