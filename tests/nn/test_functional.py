"""Functions of nn.functional: options, reductions, warnings and complaints."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F

X = [[0.2, -0.6], [0.9, -1.5]]


@pytest.mark.parametrize(
    "name",
    ["relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish", "hardswish",
     "hardsigmoid", "hardtanh", "rrelu"],
)  # fmt: skip
def test_inplace(name):
    function = getattr(F, name)
    x = torch.tensor(X)
    wanted = function(x)
    assert torch.equal(x, torch.tensor(X))
    result = function(x, inplace=True)
    assert result is x and torch.equal(x, wanted)


@pytest.mark.parametrize("name", ["relu_", "elu_", "selu_", "celu_", "leaky_relu_", "hardtanh_"])
def test_underscored(name):
    x = torch.tensor(X)
    wanted = getattr(F, name[:-1])(x)
    assert getattr(F, name)(x) is x and torch.equal(x, wanted)


def test_values():
    x = torch.tensor([0.5, -2.0], dtype=torch.float64)
    assert F.softsign(x).tolist() == pytest.approx([1 / 3, -2 / 3])
    assert F.tanhshrink(x).tolist() == pytest.approx([0.03788284, -1.03597242])
    assert F.logsigmoid(x).tolist() == pytest.approx([-0.47407698, -2.12692801])
    assert F.normalize(torch.tensor([[3.0, 4.0]])).tolist() == [pytest.approx([0.6, 0.8])]
    assert F.normalize(torch.zeros(1, 2)).tolist() == [[0.0, 0.0]]
    assert F.normalize(torch.tensor([[3.0, 1.0]]), p=1, dim=1).tolist() == [[0.75, 0.25]]
    assert F.softmin(x, 0).tolist() == pytest.approx(F.softmax(-x, 0).tolist())
    first, second = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    assert F.cosine_similarity(first, second).tolist() == [pytest.approx(0.5**0.5)]


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'no_such_function'"):
        F.no_such_function
    assert "dropout" in F.__all__ and all(hasattr(F, name) for name in F.__all__)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_implicit_dims(name):
    x = torch.tensor(X)
    with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been"):
        result = getattr(F, name)(x)
    assert torch.equal(result, getattr(F, name)(x, 1))


def test_weighted_losses():
    x, y = torch.tensor([1.0, 3.0]), torch.zeros(2)
    weight = torch.tensor([1.0, 3.0])
    assert F.mse_loss(x, y, weight=weight).item() == 7.0
    assert F.mse_loss(x, y, weight=weight, reduction="none").tolist() == [1.0, 27.0]
    assert F.l1_loss(x, y, weight=weight).item() == 2.5
    assert F.l1_loss(x, y, weight=weight, reduction="sum").item() == 10.0
    assert F.huber_loss(x, y, weight=weight).item() == 4.0
    assert F.huber_loss(x, y, weight=weight, reduction="sum").item() == 8.0
    with pytest.raises(ValueError, match="Weights and input must have the same size"):
        F.mse_loss(x, y, weight=torch.ones(3))


def test_reductions():
    x, y = torch.tensor([1.0, 3.0]), torch.zeros(2)
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert F.mse_loss(x, y, size_average=False).item() == 10.0
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert F.cross_entropy(torch.zeros(2, 2), torch.tensor([0, 1]), reduce=False).shape == (2,)
    with pytest.warns(UserWarning, match="'elementwise_mean' is deprecated"):
        assert F.mse_loss(x, y, reduction="elementwise_mean").item() == 5.0
    with pytest.raises(ValueError, match="mode is not a valid value for reduction"):
        F.mse_loss(x, y, reduction="mode")
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(x, y + 1)


def test_sizes_that_broadcast_are_warned_of():
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(UserWarning, match="Using a target size"):
            loss(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(ValueError, match="different to the input size"):
        F.binary_cross_entropy(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy_with_logits(torch.ones(2, 3), torch.ones(3))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: F.hardtanh(torch.ones(1), 2, 1), ValueError, "min_val cannot be greater than"),
        (lambda: F.dropout(torch.ones(1), 1.5), ValueError, "has to be between 0 and 1"),
        (lambda: F.one_hot(torch.tensor([-1])), RuntimeError, "Class values must be non-negative"),
        (lambda: F.one_hot(torch.tensor([2]), 2), RuntimeError, "smaller than num_classes"),
        (lambda: F.one_hot(torch.tensor([1.0])), RuntimeError, "index tensor of type LongTensor"),
        (lambda: F.one_hot(torch.tensor([], dtype=torch.int64)), RuntimeError, "from empty tensor"),
        (lambda: F.group_norm(torch.ones(3), 1), RuntimeError, "Expected at least 2 dimensions"),
        (lambda: F.group_norm(torch.ones(1, 2), 2), ValueError, "more than 1 value per channel"),
        (lambda: F.nll_loss(torch.ones(3), torch.tensor([1, 1])), ValueError,
         "For 1D input, 1D target must have size 1"),
    ],
)  # fmt: skip
def test_complaints(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


TABLE = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_bags():
    table = torch.tensor(TABLE)
    flat, starts = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    assert F.embedding_bag(flat, table, starts).tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert F.embedding_bag(flat, table, starts, mode="max").tolist() == [[1.0, 2.0], [5.0, 6.0]]
    weights = torch.tensor([2.0, 1.0, 3.0])
    summed = F.embedding_bag(flat, table, starts, mode="sum", per_sample_weights=weights)
    assert summed.tolist() == [[2.0, 4.0], [18.0, 22.0]]
    ends = torch.tensor([0, 1, 3])
    assert F.embedding_bag(flat, table, ends, include_last_offset=True).shape == (2, 2)
    rows = F.embedding_bag(flat.reshape(1, 3), table, mode="sum", include_last_offset=True)
    assert rows.tolist() == [[9.0, 12.0]]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"offsets": None}, ValueError, "offsets has to be a 1D Tensor but got None"),
        ({"offsets": torch.tensor([[0]])}, ValueError, "offsets has to be a 1D Tensor"),
        ({"mode": "x"}, ValueError, "mode has to be one of sum, mean or max"),
        ({"mode": "max", "sparse": True}, ValueError, "max mode does not support sparse weights"),
        ({"mode": "max", "scale_grad_by_freq": True}, ValueError, "scaling the gradient by"),
        ({"per_sample_weights": torch.ones(3)}, NotImplementedError, "only supported for"),
        ({"per_sample_weights": torch.ones(2)}, ValueError, "same shape as the input"),
    ],
)
def test_wrong_bags(options, kind, message):
    given = {"offsets": torch.tensor([0]), **options}
    with pytest.raises(kind, match=message):
        F.embedding_bag(torch.tensor([0, 1, 2]), torch.tensor(TABLE), **given)


def test_local_response_norm_of_images_without_height_takes_halves() -> None:
    x = torch.linspace(-2, 2, 12).reshape(1, 4, 3)
    expected = F.local_response_norm(x.unsqueeze(-1), 2, alpha=0.5).squeeze(-1)
    assert torch.equal(F.local_response_norm(x, 2, alpha=0.5), expected)
    half = F.local_response_norm(x.to(torch.bfloat16), 2, alpha=0.5)
    assert (half.float() - expected).abs().max() < 0.02
