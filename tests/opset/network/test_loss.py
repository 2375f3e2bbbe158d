"""Losses: reductions, class targets, second derivatives, errors."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight.opset.registry import packet


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


NONE, MEAN, SUM = 0, 1, 2


def test_mse_reductions():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    loss = packet("mse_loss")
    assert loss(x, y, NONE).tolist() == [4.0, 9.0]
    assert loss(x, y).item() == 6.5
    assert loss(x, y, SUM).item() == 13.0
    assert loss(x, y).grad_fn.name() == "MseLossBackward0"
    with pytest.raises(NotImplementedError, match="\"mse_cpu\" not implemented for 'Long'"):
        loss(torch.tensor([1]), torch.tensor([2]))


def test_mse_double_backward():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    (grad,) = torch.autograd.grad(packet("mse_loss")(x, y), x, create_graph=True)
    assert grad.tolist() == [-2.0, -3.0]
    assert grad.grad_fn.name() == "MseLossBackwardBackward0"
    second = torch.autograd.grad(grad.sum(), (x, y))
    assert [g.tolist() for g in second] == [[1.0, 1.0], [-1.0, -1.0]]


def test_unreduced_layout():
    x = torch.zeros(2, 3).t()
    assert packet("mse_loss")(x, x, NONE).stride() == (1, 3)


def test_robust_losses():
    x, y = leaf([0.5, 3.0]), torch.zeros(2, dtype=torch.float64)
    assert packet("smooth_l1_loss")(x, y, NONE, 1.0).tolist() == [0.125, 2.5]
    assert packet("smooth_l1_loss")(x, y, NONE, 0.0).tolist() == [0.5, 3.0]
    assert packet("huber_loss")(x, y, NONE, 2.0).tolist() == [0.125, 4.0]
    packet("huber_loss")(x, y, SUM, 2.0).backward()
    assert x.grad.tolist() == [0.5, 2.0]
    with pytest.raises(RuntimeError, match="does not support negative values for beta"):
        packet("smooth_l1_loss")(x, y, MEAN, -1.0)


def test_binary_cross_entropy():
    x, y = leaf([0.25, 0.5]), torch.tensor([1.0, 0.0], dtype=torch.float64)
    loss = packet("binary_cross_entropy")
    assert loss(x, y, None, NONE).tolist() == [
        pytest.approx(math.log(4)),
        pytest.approx(math.log(2)),
    ]
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        loss(x * 4, y)
    zero = torch.zeros(1)
    assert loss(zero, torch.ones(1)).item() == 100.0


def test_logits_agree_with_probabilities():
    x = leaf([-1.5, 0.25, 30.0])
    y = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    first = torch.binary_cross_entropy_with_logits(x, y, None, None, NONE)
    second = packet("binary_cross_entropy")(x.sigmoid(), y, None, NONE)
    assert first.tolist()[:2] == pytest.approx(second.tolist()[:2])
    assert first[2].item() == pytest.approx(math.exp(-30))


def test_nll_loss():
    x = leaf([[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]])
    labels = torch.tensor([0, 1, -100])
    loss = packet("nll_loss_nd")
    assert loss(x, labels).item() == 2.5
    assert loss(x, labels, None, NONE).tolist() == [1.0, 4.0, 0.0]
    weight = torch.tensor([1.0, 3.0], dtype=torch.float64)
    assert loss(x, labels, weight).item() == 13.0 / 4.0
    loss(x, labels, weight).backward()
    assert x.grad.tolist() == [[-0.25, 0.0], [0.0, -0.75], [0.0, 0.0]]
    with pytest.raises(IndexError, match="Target 5 is out of bounds."):
        loss(x, torch.tensor([0, 1, 5]))
    with pytest.raises(ValueError, match=r"Expected input batch_size \(3\) to match target"):
        loss(x, torch.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        loss(x, labels, weight.requires_grad_())


def test_nll_loss_of_nothing():
    ignored = torch.tensor([-100, -100])
    assert math.isnan(packet("nll_loss")(torch.zeros(2, 3), ignored).item())
    assert packet("nll_loss")(torch.zeros(2, 3), ignored, None, SUM).item() == 0.0


def test_cross_entropy():
    loss = packet("cross_entropy_loss")
    x = leaf([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert loss(x, torch.tensor([1, 2])).item() == pytest.approx(math.log(4))
    assert loss(x, torch.tensor([1, 2]), None, MEAN, 2, 0.5).item() == pytest.approx(math.log(4))
    soft = torch.full((2, 4), 0.25, dtype=torch.float64)
    assert loss(x, soft).item() == pytest.approx(math.log(4))
    loss(x, torch.tensor([1, 2])).backward()
    assert x.grad[0].tolist() == pytest.approx([0.125, -0.375, 0.125, 0.125])
    images = torch.zeros(2, 3, 4)
    assert loss(images, torch.zeros(2, 4, dtype=torch.int64), None, NONE).shape == (2, 4)
    with pytest.raises(RuntimeError, match="label_smoothing must be between 0.0 and 1.0. Got: 2"):
        loss(x, torch.tensor([1, 2]), None, MEAN, -100, 2.0)


def test_kl_div():
    target = torch.tensor([0.5, 0.5, 0.0])
    found = torch.kl_div(torch.zeros(3), target, NONE)
    assert found.tolist() == pytest.approx([0.5 * math.log(0.5), 0.5 * math.log(0.5), 0.0])
    with pytest.raises(RuntimeError, match="Integral inputs not supported"):
        torch.kl_div(torch.tensor([1]), torch.tensor([1]))


def test_sizes_that_do_not_broadcast():
    half, words = torch.full((3,), 0.5), r"The size of tensor a \(3\) must match"
    with pytest.raises(RuntimeError, match=words):
        packet("binary_cross_entropy")(half, half[:2])
    with pytest.raises(RuntimeError, match=words):
        packet("binary_cross_entropy")(half, half, torch.ones(2))
    with pytest.raises(RuntimeError, match=words):
        packet("binary_cross_entropy_with_logits")(half, half, torch.ones(2))
    with pytest.raises(RuntimeError, match=words):
        packet("mse_loss_backward")(half, half, half[:2], NONE)


def test_logits_loss_is_of_its_targets_kind():
    loss = packet("binary_cross_entropy_with_logits")
    x = torch.ones(3)
    assert loss(x, x.double(), reduction=NONE).dtype is torch.float64
    assert loss(x.double(), x, reduction=NONE).dtype is torch.float32
    assert loss(x.to("meta"), x.double().to("meta"), reduction=NONE).dtype is torch.float64
    with pytest.raises(RuntimeError, match="result type Float can't be cast .* output type Long"):
        loss(x, torch.ones(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="with two bool tensors is not supported"):
        loss(x, x > 0)
    with pytest.raises(RuntimeError, match=r"output with shape \[\] doesn't match .* \[3\]"):
        loss(x, torch.tensor(1.0))


def test_margins_check_their_operands():
    rows, labels = torch.ones(2, 3), torch.tensor([0, 1])
    margin, several = packet("multi_margin_loss"), packet("multilabel_margin_loss")
    with pytest.raises(RuntimeError, match=r"inconsistent weight size, expected 3 but got \[2\]"):
        margin(rows, labels, 1, 1, torch.ones(2))
    with pytest.raises(RuntimeError, match=r"Expected non-empty vector or matrix .*\[2, 3, 2\]"):
        margin(torch.ones(2, 3, 2), labels)
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Int"):
        margin(rows, labels.int())
    with pytest.raises(NotImplementedError, match="multi_margin_loss_cpu_kernel.*'Half'"):
        margin(rows.half(), labels)
    with pytest.raises(NotImplementedError, match="multilabel_margin_loss_forward_out_frame"):
        several(rows.long(), torch.tensor([[0, 1, -1]] * 2))
    assert several(torch.tensor(1.0), torch.tensor(0)).item() == 0.0


def test_cosine_of_a_norm_that_overflows():
    x = torch.tensor([[1e30, 1.0]])
    assert packet("cosine_similarity")(x, torch.ones(1, 2)).tolist() == [0.0]


def test_layout_of_unreduced_losses():
    rows = torch.full((3, 4), 0.5)
    turned = torch.full((4, 3), 0.5).t()
    logits = packet("binary_cross_entropy_with_logits")
    assert logits(turned, rows, reduction=NONE).stride() == (4, 1)
    assert logits(rows, turned, reduction=NONE).stride() == (1, 3)
    back = packet("binary_cross_entropy_backward")
    assert back(turned, rows, rows, None, NONE).stride() == (4, 1)
    assert back(rows, turned, rows, None, NONE).stride() == (1, 3)


def test_forward_mode_of_ctc_is_that_of_the_backward():
    scores = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, 2], [2, 1]])

    def loss(values):
        return torch.nn.functional.ctc_loss(values.log_softmax(-1), targets, (4, 3), (2, 1))

    torch.testing.assert_close(torch.func.jacfwd(loss)(scores), torch.func.jacrev(loss)(scores))


@pytest.mark.parametrize("name", ["input_lengths", "target_lengths"])
def test_lengths_of_alignments_are_integers(name):
    lengths = {"input_lengths": torch.tensor([5]), "target_lengths": torch.tensor([2])}
    scores, targets = torch.zeros(5, 1, 4).log_softmax(2), torch.ones(2, dtype=torch.int32)
    lengths[name] = lengths[name].float()
    with pytest.raises(RuntimeError, match=f"{name} must be integral"):
        torch.nn.functional.ctc_loss(scores, targets, **lengths)


def test_labels_of_nothing_are_refused():
    with pytest.raises(RuntimeError, match="Expected non-empty vector or matrix"):
        torch.nn.functional.multilabel_margin_loss(torch.ones(0), torch.ones(10).long())


def test_margins_of_one_row_are_shaped_as_its_target():
    row = torch.tensor([1.0, 2.0, 4.0])
    for target in (torch.tensor(1), torch.tensor([1])):
        found = torch.nn.functional.multi_margin_loss(row, target, reduction="none")
        assert found.shape == target.shape and found.sum().item() == 1.0


def test_soft_margin_losses_have_the_dtype_and_sizes_of_the_input():
    loss = torch.nn.functional.soft_margin_loss
    narrow = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    assert loss(narrow, torch.tensor([1.0, -1.0]), reduction="sum").dtype is torch.bfloat16
    with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match"):
        loss(torch.ones(1), torch.ones(2))


def test_classes_are_counted_in_the_input():
    loss = torch.nn.functional.multilabel_soft_margin_loss
    found = loss(torch.tensor([0.5, 1.0]), torch.ones(3, 1), reduction="none")
    wanted = 3 * torch.log1p(torch.exp(-torch.tensor([0.5, 1.0]))) / 2
    assert torch.allclose(found, wanted)


def test_similarity_promotes_dtypes_whatever_the_ranks():
    found = torch.nn.functional.cosine_similarity(
        torch.tensor(1.0), torch.ones(1, dtype=torch.float16), dim=-1
    )
    assert found.dtype is torch.float32 and found.item() == 1.0
