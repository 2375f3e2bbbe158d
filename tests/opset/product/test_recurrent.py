"""Layers in one piece and step by step, packed or not; alignments."""

from __future__ import annotations

import itertools
import math

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.autograd.forward_ad import dual_level, make_dual, unpack_dual
from rushlight.nn import functional as F
from rushlight.opset import families

families.load_all()
from rushlight.opset.product import recurrent  # noqa: E402

MODES = {
    "lstm": recurrent.LSTM,
    "gru": recurrent.GRU,
    "rnn_tanh": recurrent.TANH,
    "rnn_relu": recurrent.RELU,
}
each_mode = pytest.mark.parametrize("name", MODES)


def layer(name, seed=0, batch=2, size=2):
    """(weights, states) of one layer of three inputs."""
    torch.manual_seed(seed)
    rows = recurrent.GATES[MODES[name]] * size
    shapes = [(rows, 3), (rows, size), (rows,), (rows,)]
    weights = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]
    count = 2 if name == "lstm" else 1
    states = [
        torch.randn(batch, size, dtype=torch.float64, requires_grad=True) for _ in range(count)
    ]
    return weights, states


@each_mode
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [None, [2, 2, 1]])
def test_one_piece_is_the_same_as_its_steps(name, reverse, sizes):
    mode = MODES[name]
    weights, states = layer(name)
    shape = (3, 2, 3) if sizes is None else (5, 3)
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    leaves = [x, *weights, *states]
    found = []
    for function in (recurrent.run_layer, recurrent.by_steps):
        options = (True,) if function is recurrent.run_layer else ()
        output, last = function(mode, x, (*weights, None), tuple(states), sizes, reverse, *options)
        loss = output.sin().sum() + sum(part.cos().sum() for part in last)
        found.append([output, *last, *torch.autograd.grad(loss, leaves)])
    assert found[0][0].grad_fn.name() == "MkldnnRnnLayerBackward0"
    assert found[1][0].grad_fn.name() != "MkldnnRnnLayerBackward0"
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@each_mode
def test_derivatives(name):
    weights, states = layer(name)
    count = len(states)

    def run(x, *rest):
        given = [state.unsqueeze(0) for state in rest[:count]]
        given = given if name == "lstm" else given[0]
        return getattr(torch, name)(x, given, rest[count:], True, 1, 0.0, True, False, False)

    x = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    operands = (x, *states, *weights)
    assert gradcheck(run, operands, fast_mode=True)
    assert gradgradcheck(run, operands, fast_mode=True)
    direction = torch.randn_like(x)
    with dual_level():
        tangent = unpack_dual(run(make_dual(x, direction), *operands[1:])[0]).tangent
    step = 1e-6
    both = [run(x + sign * step * direction, *operands[1:])[0] for sign in (1, -1)]
    assert torch.allclose(tangent, (both[0] - both[1]) / (2 * step), atol=1e-7)


@each_mode
def test_every_sample_of_a_batch(name):
    weights, _ = layer(name)
    x = torch.randn(4, 3, 2, 3, dtype=torch.float64)
    zeros = torch.zeros(1, 2, 2, dtype=torch.float64)
    hx = [zeros, zeros] if name == "lstm" else zeros

    def run(each):
        options = (True, 1, 0.0, False, False, False)
        return getattr(torch, name)(each, hx, weights, *options)[0]

    assert torch.allclose(torch.vmap(run)(x), torch.stack([run(each) for each in x]))


def test_what_is_not_needed_for_gradients_is_not_kept():
    weights, states = layer("lstm")
    x = torch.randn(3, 2, 3, dtype=torch.float64)
    operands = (x, *weights, *states, False, [], recurrent.LSTM, 2, 1, True, False, False)
    assert tuple(torch.mkldnn_rnn_layer(*operands, False)[3].shape) == (6, 0)
    kept = torch.autograd.grad(torch.mkldnn_rnn_layer(*operands, True)[0].sum(), weights)
    anew = torch.autograd.grad(torch.mkldnn_rnn_layer(*operands, False)[0].sum(), weights)
    assert all(map(torch.equal, kept, anew))


def test_dropout_lies_between_layers():
    weights, _ = layer("gru")
    upper, _ = layer("gru", 1)
    upper[0] = torch.randn(6, 2, dtype=torch.float64)
    x, hx = torch.randn(3, 2, 3, dtype=torch.float64), torch.zeros(2, 2, 2, dtype=torch.float64)
    whole = [
        torch.gru(x, hx, [*weights, *upper], True, 2, chance, True, False, False)[0]
        for chance in (0.0, 1.0)
    ]
    silent = torch.gru(torch.zeros_like(whole[0]), hx[1:], upper, True, 1, 0.0, True, False, False)
    assert torch.allclose(whole[1], silent[0]) and not torch.allclose(whole[0], whole[1])


# -- alignments ------------------------------------------------------------------------------------


def all_alignments(probabilities, target):
    """The probability of a target, path by path."""
    steps, classes = probabilities.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        merged = [label for label, _ in itertools.groupby(path)]
        if [label for label in merged if label] == target:
            total += math.prod(probabilities[step, label].item() for step, label in enumerate(path))
    return total


@pytest.mark.parametrize("target", [[], [1], [1, 2], [1, 1], [2, 1, 2]])
def test_a_loss_counts_every_alignment(target):
    torch.manual_seed(3)
    log_probs = torch.randn(4, 3, dtype=torch.float64).log_softmax(-1)
    wanted = -math.log(all_alignments(log_probs.exp(), target))
    labels = torch.tensor(target, dtype=torch.int64)
    found = F.ctc_loss(log_probs, labels, (4,), (len(target),), reduction="sum")
    assert found.item() == pytest.approx(wanted)


def test_gradients_of_normalised_scores():
    torch.manual_seed(4)
    scores = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 2], [3, 3], [2, 0]])

    def loss(scores):
        lengths = torch.tensor([5, 4, 3]), torch.tensor([2, 2, 1])
        return F.ctc_loss(scores.log_softmax(-1), targets, *lengths, reduction="none")

    assert gradcheck(loss, (scores,))


def test_impossible_targets():
    log_probs = torch.zeros(1, 2, 3, requires_grad=True)
    operands = (torch.tensor([[1, 2], [1, 2]]), (1, 1), (2, 2))
    assert F.ctc_loss(log_probs, *operands, reduction="none").tolist() == [math.inf] * 2
    assert F.ctc_loss(log_probs, *operands, zero_infinity=True).item() == 0
    F.ctc_loss(log_probs, *operands, zero_infinity=True).backward()
    assert log_probs.grad.abs().sum().item() == 0


def test_long_sequences_neither_overflow_nor_underflow():
    scores = torch.zeros(400, 1, 20, requires_grad=True)
    targets = torch.arange(1, 11).reshape(1, 10)
    loss = torch.nn.CTCLoss(reduction="sum")(scores.log_softmax(-1), targets, (400,), (10,))
    loss.backward()
    assert math.isfinite(loss.item()) and loss.item() > 500
    assert torch.isfinite(scores.grad).all() and scores.grad.abs().sum().item() > 1


@pytest.mark.parametrize(
    ("operands", "text"),
    [
        (([[1, 2]], (6,), (2,)), "at most 5, but got value 6"),
        (([[1, 2]], (5,), (3,)), "at least 3 at dimension 1, but got size 2"),
        (([[1, 2]], (5, 5), (2,)), "input_lengths must be of size batch_size"),
        (([[1, 7]], (5,), (2,)), "labels from 0 to 2, but got 7"),
        (([1, 2, 1], (5,), (2,)), "size 2 at dimension 0, but got size 3"),
    ],
)
def test_lengths_and_labels_must_fit(operands, text):
    targets, *lengths = operands
    with pytest.raises(RuntimeError, match=text):
        F.ctc_loss(torch.zeros(5, 1, 3), torch.tensor(targets), *lengths)
