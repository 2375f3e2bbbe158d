"""Losses and norms beyond their recorded cases: complaints, rare options, conversions."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

X = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nn.GaussianNLLLoss(True), TypeError, "positional argument"),
        (lambda: F.gaussian_nll_loss(X, X, -X), ValueError, "var has negative entry/entries"),
        (lambda: F.gaussian_nll_loss(X, X, -1.0), ValueError, "var has negative entry/entries"),
        (lambda: F.gaussian_nll_loss(X, X, torch.ones(5)), ValueError, "var is of incorrect size"),
        (lambda: F.gaussian_nll_loss(X, X, X.abs(), reduction="x"), ValueError, "x is not valid"),
        (lambda: nn.MultiMarginLoss(3), ValueError, "only p == 1 and p == 2 supported"),
        (lambda: nn.MultiMarginLoss(weight=X), ValueError, "None or 1D tensor, got 2D instead"),
        (lambda: nn.TripletMarginLoss(-1), ValueError, "margin to be greater than 0, got -1 inst"),
        (lambda: nn.TripletMarginWithDistanceLoss(margin=0), ValueError, "greater than 0, got 0"),
        (lambda: F.triplet_margin_with_distance_loss(X, X, X[0]), RuntimeError,
         "anchor 2D, positive 2D, and negative 1D inputs"),
        (lambda: F.margin_ranking_loss(X, X, X[0]), RuntimeError, "should have same dimension"),
        (lambda: F.hinge_embedding_loss(X, X, reduction="z"), ValueError, "z is not a valid value"),
        (lambda: F.multilabel_soft_margin_loss(X, X, reduction="k"), ValueError, "k is not valid"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, []), ValueError, "length larger than 0"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2]), ValueError, "unique, positive int"),
        (lambda: nn.Bilinear(0, 2, 3), ValueError, "in1_features must be > 0, but got"),
        (lambda: nn.Softmax2d()(X), ValueError, "expected input to be 3D or 4D, got 2D instead"),
        (lambda: nn.CircularPad2d(1)(X), ValueError, "expected 3D or 4D input .got 2D input."),
        (lambda: nn.CrossMapLRN2d(2)(X), ValueError, "Expected input to be 4D, got 2D instead"),
        (lambda: nn.LocalResponseNorm(2)(X), ValueError, "Expected 3D or higher dimensionality"),
        (lambda: nn.SyncBatchNorm(3)(X[0]), ValueError, "expected at least 2D input .got 1D"),
        (lambda: nn.SyncBatchNorm(0)(X[:, :0]), ValueError, "channels should be non-zero"),
        (lambda: nn.LinearCrossEntropyLoss(4, 3, label_smoothing=2), RuntimeError, "range .0, 1."),
        (lambda: F.linear_cross_entropy(X, X[:, :2], torch.tensor([0, 1])), RuntimeError,
         "in_features., got 3 and 2, respectively"),
    ],
)  # fmt: skip
def test_complaints(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_older_arguments():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.HingeEmbeddingLoss(size_average=False).reduction == "sum"
    with pytest.warns(FutureWarning, match="`NLLLoss2d` has been deprecated"):
        assert isinstance(nn.NLLLoss2d(), nn.NLLLoss)


def test_small_variances_still_learn():
    var = torch.tensor([0.0, 1.0], requires_grad=True)
    F.gaussian_nll_loss(torch.zeros(2), torch.ones(2), var, eps=0.5, reduction="sum").backward()
    assert var.grad.tolist() == pytest.approx([-1.0, 0.0])
    assert F.gaussian_nll_loss(torch.zeros(2), torch.ones(2), 2.0).item() == pytest.approx(0.596574)


def test_own_distances():
    far = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().amax(-1))
    assert far(X, X + 0.25, X + 0.5).item() == pytest.approx(0.75)
    assert far(X, X + 2.0, X + 0.5).item() == pytest.approx(2.5)


def test_adaptive_softmax_is_a_distribution():
    torch.manual_seed(0)
    module = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0)
    x = torch.randn(50, 8) * 3
    log_prob = module.log_prob(x)
    assert torch.allclose(log_prob.exp().sum(1), torch.ones(50))
    target = torch.arange(50) % 10
    output, loss = module(x, target)
    assert torch.allclose(output, log_prob.gather(1, target.unsqueeze(1)).squeeze(1), atol=1e-6)
    assert loss.item() == pytest.approx(-output.mean().item(), rel=1e-5)
    predicted = module.predict(x)
    rare = module.head(x).argmax(1) >= 3
    assert torch.equal(predicted[rare], log_prob.argmax(1)[rare])
    with pytest.raises(RuntimeError, match=r"should be in \[0, 9\], but values in range \[1, 12\]"):
        module(x[:2], torch.tensor([1, 12]))


def test_cross_map_norm():
    x = torch.arange(14.0).reshape(1, 7, 2, 1) / 7
    found = nn.CrossMapLRN2d(3, 0.3)(x).flatten().tolist()
    assert found[:4] == pytest.approx([0.0, 0.1407089, 0.2772691, 0.4069591], rel=1e-5)
    assert found[-2:] == pytest.approx([1.2660714, 1.3091942], rel=1e-5)


def test_conversion_to_sync_batch_norm():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(2)))
    norm = net[1]
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net.eval())
    assert made is net and type(net[1]) is nn.SyncBatchNorm is type(net[2][0])
    assert net[1].weight is norm.weight and net[1].running_var is norm.running_var
    assert not net[1].training and repr(net[1]).startswith("SyncBatchNorm(3, eps=1e-05")
    assert type(nn.SyncBatchNorm.convert_sync_batchnorm(norm)) is nn.SyncBatchNorm


def test_gradients_of_convolutions():
    x = torch.arange(12.0).reshape(1, 2, 6).requires_grad_()
    weight = (torch.arange(18.0).reshape(3, 2, 3) / 10).requires_grad_()
    result = F.conv1d(x, weight, stride=2, padding=1)
    seed = torch.arange(9.0).reshape(1, 3, 3)
    result.backward(seed)
    options = {"stride": 2, "padding": 1}
    assert torch.allclose(nn.grad.conv1d_input(x.shape, weight, seed, **options), x.grad)
    assert torch.allclose(nn.grad.conv1d_weight(x, weight.shape, seed, **options), weight.grad)


def test_classes():
    assert not isinstance(nn.LogSoftmax(1), nn.Softmax) and not isinstance(
        nn.Softmin(1), nn.Softmax
    )
    assert isinstance(nn.ZeroPad2d(1), nn.ConstantPad2d)
    with pytest.warns(FutureWarning, match="`max_value` is deprecated and renamed to `max_val`"):
        assert nn.Hardtanh(max_value=3.0).max_val == 3.0
    with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
        assert dict(nn.Container(a=nn.ReLU()).named_children()).keys() == {"a"}


def test_prefixes_of_state_dicts():
    state = nn.Sequential(nn.Linear(1, 1)).state_dict(prefix="module.")
    nn.parallel.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"] and "0" in state._metadata


def test_soft_margins_have_no_gradient_of_targets():
    x, target = torch.ones(2), torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'target'"):
        torch.nn.functional.soft_margin_loss(x, target)
    with torch.no_grad():
        assert torch.nn.functional.soft_margin_loss(x, target).item() > 0
