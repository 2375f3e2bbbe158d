"""Normalisation: values, running statistics, gradients of gradients."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.autograd.checking import gradcheck, gradgradcheck


def vector(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_batch_norm_normalises_and_tracks():
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]], dtype=torch.float64)
    mean, var = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    result, save_mean, save_invstd = torch.native_batch_norm(
        x, None, None, mean, var, True, 0.5, 0.0
    )
    assert result.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert save_mean.tolist() == [2.0, 4.0] and save_invstd.tolist() == [1.0, 0.5]
    assert mean.tolist() == [1.0, 2.0] and var.tolist() == [1.5, 4.5]


def test_evaluation_uses_running_statistics():
    x = torch.ones(1, 2)
    stats = torch.tensor([0.0, 1.0]), torch.tensor([4.0, 1.0])
    result, save_mean, _ = torch.native_batch_norm(x, None, None, *stats, False, 0.1, 0.0)
    assert result.tolist() == [[0.5, 0.0]]
    assert tuple(save_mean.shape) == (0,)
    with pytest.raises(RuntimeError, match="running_mean should contain 2 elements not 3"):
        torch.batch_norm(x, None, None, torch.ones(3), torch.ones(3), False, 0.1, 0.0, False)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_gradients(training):
    torch.manual_seed(0)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    stats = torch.tensor([0.1, -0.2], dtype=torch.float64), torch.tensor([1.5, 0.7]).double()

    def run(x, weight, bias):
        used = [None, None] if training else [t.clone() for t in stats]
        return torch.batch_norm(x, weight, bias, *used, training, 0.1, 1e-3, False)

    inputs = (x, vector(0.5, 2.0), vector(1.0, -1.0))
    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)


def test_layer_and_group_norm_gradients():
    torch.manual_seed(0)
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    parameters = vector(0.5, 2.0, 1.0, -1.0), vector(1.0, 0.0, 2.0, 3.0)
    for run in (
        lambda x, w, b: torch.layer_norm(x, (4,), w, b),
        lambda x, w, b: torch.group_norm(x, 2, w, b),
    ):
        assert gradcheck(run, (x, *parameters))
        assert gradgradcheck(run, (x, *parameters))


def test_layer_norm_checks_its_shape():
    text = r"expected input with shape \[\*, 5\], but got input of size\[3, 4\]"
    with pytest.raises(RuntimeError, match=text):
        torch.layer_norm(torch.ones(3, 4), (5,))
    with pytest.raises(
        NotImplementedError, match="\"LayerNormKernelImpl\" not implemented for 'Long'"
    ):
        torch.layer_norm(torch.ones(3, 4, dtype=torch.int64), (4,))


def test_instance_norm_is_per_sample():
    x = torch.tensor([[[1.0, 3.0]], [[10.0, 30.0]]])
    result = torch.instance_norm(x, None, None, None, None, True, 0.1, 0.0, False)
    assert result.tolist() == [[[-1.0, 1.0]], [[-1.0, 1.0]]]


def test_meta_tensors_have_shapes():
    x = torch.empty(2, 3, 4, device="meta")
    assert tuple(torch.native_layer_norm(x, (4,), None, None, 1e-5)[1].shape) == (2, 3, 1)
    assert tuple(torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1].shape) == (
        3,
    )


@pytest.mark.parametrize("sizes", [(0, 3), (0, 3, 2, 2), (2, 3, 0, 2)])
def test_empty_batches_leave_running_statistics(sizes):
    mean, var = torch.zeros(3), torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    x = torch.zeros(sizes, requires_grad=True)
    result = torch.batch_norm(x, weight, torch.zeros(3), mean, var, True, 0.1, 1e-5, False)
    assert result.shape == sizes
    assert mean.tolist() == [0, 0, 0] and var.tolist() == [1, 1, 1]
    result.sum().backward()
    assert weight.grad.tolist() == [0, 0, 0] and x.grad.shape == sizes
    with pytest.raises(RuntimeError, match="at least one element"):
        torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5)


@pytest.mark.parametrize(
    ("sizes", "layout"),
    [((2, 4, 5, 6), torch.channels_last), ((2, 4, 5, 3, 2), torch.channels_last_3d)],
)
def test_group_norm_keeps_the_memory_format(sizes, layout):
    plain = torch.randn(sizes, dtype=torch.float64)
    x = plain.to(memory_format=layout).requires_grad_()
    result = torch.group_norm(x, 2)
    assert result.is_contiguous(memory_format=layout)
    assert torch.allclose(result, torch.group_norm(plain, 2))
    (slope,) = torch.autograd.grad(result.square().sum() + result.sin().sum(), x)
    assert slope.is_contiguous(memory_format=layout)
    other = plain.clone().requires_grad_()
    again = torch.group_norm(other, 2)
    (expected,) = torch.autograd.grad(again.square().sum() + again.sin().sum(), other)
    assert torch.allclose(slope, expected)


def test_batch_norm_of_a_vector_has_no_channels():
    for training in (False, True):
        with pytest.raises(RuntimeError, match="running_mean should contain 0 elements not 3"):
            torch.nn.functional.batch_norm(
                torch.ones(3), torch.zeros(3), torch.ones(3), training=training
            )


def test_tangents_of_a_bias_in_a_batch_of_single_rows():
    rows, biases = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[1.0, 0.0], [0.5, 2.0]])
    along = torch.tensor([1.0, 3.0])

    def push(x, b):
        return torch.func.jvp(lambda b: torch.layer_norm(x, (2,), None, b), (b,), (along,))[1]

    assert torch.vmap(push)(rows, biases).tolist() == [[1.0, 3.0], [1.0, 3.0]]


def test_strides_of_size_one_do_not_lead_batch_norm_astray():
    # Sizes, strides and the strides of the result.
    cases = [
        ((2, 3, 2, 1), (6, 1, 3, 1), (6, 1, 3, 3)),
        ((2, 1, 2, 3), (6, 1, 3, 1), (6, 6, 3, 1)),
        ((2, 3, 1, 1), (3, 1, 1, 1), (3, 1, 1, 1)),
    ]
    for sizes, strides, wanted in cases:
        x = torch.rand(12).as_strided(sizes, strides)
        channels = torch.ones(sizes[1])
        for training in (False, True):
            result = torch.nn.functional.batch_norm(x, channels, channels, training=training)
            assert result.stride() == wanted


def test_running_statistics_are_not_moved_by_nothing():
    running = torch.ones(1), torch.ones(1)
    with pytest.raises(RuntimeError, match=r"at least one element, but got input_sizes = \[0, 1\]"):
        torch.batch_norm_update_stats(torch.rand(0, 1), *running, 0.5)
    assert [value.item() for value in running] == [1.0, 1.0]


def test_weights_of_groups_are_one_for_each_channel():
    x = torch.ones(2, 4, 3)
    for name, weight in (("weight", torch.ones(3)), ("bias", torch.ones(1)), ("bias", None)):
        given = {name: weight}
        if weight is None:
            assert torch.nn.functional.group_norm(x, 2, **given).shape == x.shape
            continue
        with pytest.raises(RuntimeError, match=f"Expected {name} to be a vector of size"):
            torch.nn.functional.group_norm(x, 2, **given)
