"""The operators of torchaudio's compiled library, beside loops written out and recorded numbers."""

from __future__ import annotations

import itertools

import pytest

import rushlight as torch

LOGITS = [
    [[0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1], [0.1, 0.1, 0.2, 0.8, 0.1]],
    [[0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.1, 0.2, 0.1, 0.1], [0.7, 0.1, 0.2, 0.1, 0.1]],
]


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    library = tmp_path_factory.mktemp("lib") / "libtorchaudio.so"
    library.write_bytes(b"\x7fELF\0torchaudio\0forced_align(Tensor a, int b) -> (Tensor, Tensor)\0")
    torch.ops.load_library(library)
    return torch.ops.torchaudio


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_a_filter_runs_over_its_own_output(ops):
    x, weights = torch.randn(2, 1, 20), torch.tensor([[0.2, -0.4, 1.0]])
    out = torch.zeros(2, 1, 22)
    assert ops._lfilter_core_loop(x, weights, out) is out
    for at in range(20):
        wanted = x[:, :, at] + 0.4 * out[:, :, at + 1] - 0.2 * out[:, :, at]
        torch.testing.assert_close(out[:, :, at + 2], wanted)


def test_an_overdriven_signal_loses_its_slow_part(ops):
    clean, inner = torch.rand(1, 3), torch.tensor([[1.0, 0.5, -1.0]])
    before, held, out = torch.zeros(1), torch.zeros(1), torch.zeros(1, 3)
    ops._overdrive_core_loop(clean, inner, before, held, out)
    steps = torch.tensor([[1.0, 0.495, -1.007475]])
    torch.testing.assert_close(out, clean * 0.5 + steps * 0.75)
    assert (before.item(), held.item()) == (-1.0, pytest.approx(-1.007475))


def test_the_path_of_an_alignment_is_the_likeliest(ops):
    torch.manual_seed(0)
    marks = torch.randn(1, 6, 4).log_softmax(-1)
    path, scores = ops.forced_align(marks, ints([1, 2, 2]), ints(6), ints(3), 0)

    def score(steps):
        return sum(marks[0, frame, step].item() for frame, step in enumerate(steps))

    spelling = [
        steps
        for steps in itertools.product(range(4), repeat=6)
        if [step for step, _ in itertools.groupby(steps) if step] == [1, 2, 2]
    ]
    assert tuple(path[0].tolist()) == max(spelling, key=score)
    assert scores.sum().item() == pytest.approx(score(path[0].tolist()), abs=1e-5)
    with pytest.raises(RuntimeError, match="targets length is too long for CTC"):
        ops.forced_align(marks[:, :3], ints([1, 2, 2]), ints(3), ints(3), 0)


@pytest.mark.parametrize("fused", [True, False])
def test_costs_of_transducers_and_their_gradients(ops, fused):
    logits = torch.tensor([LOGITS])
    given = logits if fused else logits.log_softmax(-1)
    costs, grads = ops.rnnt_loss_forward(given, ints([1, 2]), ints(2), ints(2), 4, -1.0, fused)
    assert costs.tolist() == pytest.approx([5.09566688538])
    if not fused:
        leaf = logits.clone().requires_grad_()
        leaf.log_softmax(-1).backward(grads)
        grads = leaf.grad
    assert grads[0, 0, 0].tolist() == pytest.approx(
        [0.17703132, -0.39992708, 0.17703132, 0.17703132, -0.13116692], abs=1e-6
    )
    assert grads[0, 1, 2].tolist() == pytest.approx(
        [0.30741188, 0.16871123, 0.18645471, 0.16871123, -0.83128875], abs=1e-6
    )
    clamped = ops.rnnt_loss_forward(given, ints([1, 2]), ints(2), ints(2), 4, 0.1, fused)[1]
    assert clamped.abs().max().item() == pytest.approx(0.1)
