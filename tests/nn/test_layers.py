"""Layers beside values recorded from PyTorch: results, texts and the names in their state.

Parameters and inputs are waves of given phase, so that no random numbers are involved.
"""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn


def wave(*shape, start=0.2, step=0.73, dtype=torch.float32):
    count = 1
    for size in shape:
        count *= size
    values = torch.arange(count, dtype=torch.float64) * step + start
    return values.sin().reshape(shape).to(dtype)


def filled(module):
    """Every parameter set, in order of their names."""
    for number, (_, parameter) in enumerate(sorted(module.named_parameters())):
        values = wave(*parameter.shape, start=number * 0.11, step=0.37, dtype=torch.float64) * 0.5
        with torch.no_grad():
            parameter.copy_(values)
    return module


def made(text):
    return filled(eval(f"nn.{text}", {"nn": nn, "torch": torch}))


def close(values, wanted):
    return list(values) == pytest.approx(wanted, rel=2e-5, abs=2e-6)


RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
# constructor, input's shape, repr, names of the state, result's shape, its first values
LAYERS = RECORDED["layers"]
# constructor, repr, result's shape, its first values, all for the bags [0, 4] and [2, 1]
TABLES = RECORDED["tables"]
# constructor, repr, names of the state, result
LOSSES = RECORDED["losses"]


def ids(rows):
    return [row[0] for row in rows]


@pytest.mark.parametrize(
    ("text", "shape", "shown", "keys", "size", "first"), LAYERS, ids=ids(LAYERS)
)
def test_layers(text, shape, shown, keys, size, first):
    module = made(text)
    assert repr(module) == shown
    assert list(module.state_dict()) == keys
    result = module(wave(*shape))
    assert list(result.shape) == size
    assert close(result.flatten().tolist()[:8], first)


@pytest.mark.parametrize(("text", "shown", "size", "first"), TABLES, ids=ids(TABLES))
def test_tables(text, shown, size, first):
    module = made(text)
    assert repr(module) == shown
    result = module(torch.tensor([[0, 4], [2, 1]]))
    assert list(result.shape) == size
    assert close(result.flatten().tolist()[:6], first)


@pytest.mark.parametrize(("text", "shown", "keys", "wanted"), LOSSES, ids=ids(LOSSES))
def test_losses(text, shown, keys, wanted):
    module = made(text)
    assert (repr(module), list(module.state_dict())) == (shown, keys)
    if text.startswith(("NLL", "Cross")):
        result = module(wave(4, 3), torch.tensor([0, 1, 2, 2]))
    else:
        result = module(wave(2, 2), wave(2, 2).flip(0).abs())
    assert close(result.flatten().tolist(), wanted)


@pytest.mark.parametrize("text", ids(LAYERS) + ids(TABLES))
def test_copies_are_equal_and_apart(text):
    module = made(text)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(other) == repr(module)
        for (name, mine), (theirs_name, theirs) in zip(
            module.state_dict().items(), other.state_dict().items(), strict=True
        ):
            assert name == theirs_name and torch.equal(mine, theirs)
            assert mine.data_ptr() != theirs.data_ptr() or mine.numel() == 0


@pytest.mark.parametrize(
    "text",
    ["ReLU(True)", "ReLU6(True)", "SiLU(True)", "ELU(1.0, True)", "SELU(True)",
     "LeakyReLU(0.1, True)", "Hardtanh(-0.5, 0.5, True)", "Threshold(0.1, 2.0, True)"],
)  # fmt: skip
def test_inplace_activations_write_into_their_input(text):
    x = wave(2, 4)
    wanted = made(text.replace("True", "False"))(x)
    result = made(text)(x)
    assert result is x and torch.equal(x, wanted)


def test_batch_norm_tracks_and_uses_statistics():
    module = nn.BatchNorm1d(2)
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    module(x)
    assert close(module.running_mean.tolist(), [0.2, 0.4])
    assert close(module.running_var.tolist(), [1.1, 1.7])
    assert module.num_batches_tracked.item() == 1
    module.eval()
    assert close(module(x)[0].tolist(), [0.762767, 1.22713])
    assert module.num_batches_tracked.item() == 1
    module.reset_running_stats()
    assert module.running_mean.tolist() == [0.0, 0.0] and module.num_batches_tracked.item() == 0


def test_batch_norm_without_momentum_averages_all_batches():
    module = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 2.0, 6.0):
        module(torch.tensor([[value], [value]]))
    assert close(module.running_mean.tolist(), [3.0])


def test_batch_norm_loads_a_state_from_before_the_counter():
    module = nn.BatchNorm1d(2)
    state = dict(module.state_dict())
    del state["num_batches_tracked"]
    assert repr(module.load_state_dict(state)) == "<All keys matched successfully>"


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("BatchNorm1d(3)", (4, 3, 2, 2), "expected 2D or 3D input (got 4D input)"),
        ("BatchNorm2d(3)", (4, 3), "expected 4D input (got 2D input)"),
        ("BatchNorm1d(3)", (1, 3), "Expected more than 1 value per channel when training, got "
         "input size torch.Size([1, 3])"),
        ("InstanceNorm2d(3)", (2, 3), "expected 3D or 4D input (got 2D input)"),
        ("InstanceNorm1d(3)", (2, 3, 1), "Expected more than 1 spatial element when training, got "
         "input size torch.Size([2, 3, 1])"),
        ("InstanceNorm1d(3, affine=True)", (4, 5), "expected input's size at dim=0 to match "
         "num_features (3), but got: 4."),
        ("GroupNorm(2, 2)", (1, 2), "Expected more than 1 value per channel when training, got "
         "input size [1, 2]"),
        ("LSTM(2, 3)", (2,), "LSTM: Expected input to be 2D or 3D, got 1D instead"),
        ("LSTMCell(2, 3)", (2, 2, 2), "LSTMCell: Expected input to be 1D or 2D, got 3D instead"),
    ],
)  # fmt: skip
def test_inputs_of_a_wrong_shape(text, shape, message):
    with pytest.raises(ValueError) as caught:
        made(text)(wave(*shape))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("Conv1d(4, 6, 3, groups=0)", ValueError, "groups must be a positive integer"),
        ("Conv1d(4, 6, 3, groups=3)", ValueError, "in_channels must be divisible by groups"),
        ("Conv1d(4, 6, 3, groups=4)", ValueError, "out_channels must be divisible by groups"),
        ("Conv1d(4, 6, 3, padding='x')", ValueError, "Invalid padding string 'x', should be one "
         "of {'same', 'valid'}"),
        ("Conv1d(4, 6, 3, padding='same', stride=2)", ValueError, "padding='same' is not supported "
         "for strided convolutions"),
        ("Conv1d(4, 6, 3, padding_mode='x')", ValueError, "padding_mode must be one of {'circular',"
         " 'reflect', 'replicate', 'zeros'}, but got padding_mode='x'"),
        ("ConvTranspose1d(4, 6, 3, padding_mode='circular')", ValueError, 'Only "zeros" padding '
         "mode is supported for ConvTranspose1d"),
        ("ConvTranspose1d(4, 6, 3, padding='same')", ValueError, "ConvTranspose1d takes padding as "
         "numbers, but got padding='same'"),
        ("GroupNorm(3, 4)", ValueError, "num_channels (4) must be divisible by num_groups (3)"),
        ("Dropout(-1)", ValueError, "dropout probability has to be between 0 and 1, but got -1"),
        ("Hardtanh(2, 1)", AssertionError, "max_val (1) must be greater than min_val (2)"),
        ("ReLU(False, 3)", TypeError, "ReLU.__init__() takes from 1 to 2 positional arguments but "
         "3 were given"),
        ("ReLU(slope=3)", TypeError, "ReLU.__init__() got an unexpected keyword argument 'slope'"),
        ("Tanh(1)", TypeError, "Tanh.__init__() takes 1 positional argument but 2 were given"),
        ("MSELoss(None, size_average=True)", TypeError, "MSELoss.__init__() got multiple values "
         "for argument 'size_average'"),
        ("Embedding(3, 2, padding_idx=5)", AssertionError,
         "Padding_idx must be within num_embeddings"),
        ("EmbeddingBag(3, 2, padding_idx=-4)", AssertionError,
         "padding_idx must be within num_embeddings"),
        ("Embedding(3, 2, _weight=torch.ones(2, 2))", AssertionError, "Shape of weight does not "
         "match num_embeddings and embedding_dim"),
        ("Embedding.from_pretrained(torch.ones(3))", AssertionError, "Embeddings parameter is "
         "expected to be 2-dimensional"),
        ("LSTM(2, 0)", ValueError, "hidden_size must be greater than zero"),
        ("LSTM(2, 3, 0)", ValueError, "num_layers must be greater than zero"),
        ("LSTM(2, 3.5)", TypeError, "hidden_size should be of type int, got: float"),
        ("GRU(2, 3, dropout=1.5)", ValueError, "dropout should be a number in range [0, 1] "
         "representing the probability of an element being zeroed"),
    ],
)  # fmt: skip
def test_wrong_constructors(text, kind, message):
    with pytest.raises(kind) as caught:
        made(text)
    assert str(caught.value) == message


def test_pretrained_tables():
    rows = wave(3, 2)
    module = nn.Embedding.from_pretrained(rows, False, 1, 2.0, 3.0)
    assert repr(module) == "Embedding(3, 2, padding_idx=1, max_norm=2.0, norm_type=3.0)"
    assert module.weight.requires_grad
    bag = nn.EmbeddingBag.from_pretrained(rows, mode="sum")
    assert not bag.weight.requires_grad
    assert torch.equal(bag(torch.tensor([[0, 2]])), (rows[0] + rows[2]).unsqueeze(0))


def test_padding_row_is_zero_and_gets_no_gradient():
    module = nn.Embedding(3, 2, padding_idx=1)
    assert module.weight[1].tolist() == [0.0, 0.0]
    module(torch.tensor([0, 1, 1])).sum().backward()
    assert module.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_transposed_convolution_to_a_wanted_size():
    module = nn.ConvTranspose1d(2, 2, 3, stride=2)
    assert list(module(wave(1, 2, 3), output_size=[8]).shape) == [1, 2, 8]
    assert list(module(wave(1, 2, 3), output_size=[1, 2, 7]).shape) == [1, 2, 7]
    with pytest.raises(ValueError) as caught:
        module(wave(1, 2, 3), output_size=[9])
    assert str(caught.value) == (
        "requested an output size of [9], but valid sizes range from [7] to [8] (for an input of "
        "torch.Size([3]))"
    )
    with pytest.raises(ValueError, match=r"must have 1 or 3 elements \(got 2\)"):
        module(wave(1, 2, 3), output_size=[9, 9])


def test_transposed_convolution_is_the_adjoint():
    forward = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False, dtype=torch.float64)
    back = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, bias=False, dtype=torch.float64)
    back.weight = forward.weight
    x, y = wave(1, 2, 5, 5, dtype=torch.float64), wave(1, 3, 3, 3, dtype=torch.float64)
    assert (forward(x) * y).sum().item() == pytest.approx((x * back(y)).sum().item())


def test_older_arguments_of_losses():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        module = nn.MSELoss(size_average=False)
    assert module(torch.ones(3), torch.zeros(3)).item() == 3.0
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        module = nn.L1Loss(reduce=False)
    assert module(torch.ones(3), torch.zeros(3)).tolist() == [1.0, 1.0, 1.0]


def test_recurrent_dropout_needs_a_second_layer():
    with pytest.warns(UserWarning, match="expects num_layers greater than 1"):
        nn.RNN(2, 3, dropout=0.5)


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        ("GRU(2, 3)", (2, 3), "For batched 3-D input, hx should also be 3-D but got 2-D tensor"),
        ("GRU(2, 3)", (1, 3, 3), "Expected hidden size (1, 2, 3), got [1, 3, 3]"),
    ],
)
def test_wrong_hidden_states(text, state, message):
    with pytest.raises(RuntimeError) as caught:
        made(text)(wave(4, 2, 2), torch.zeros(state))
    assert str(caught.value) == message


def test_lstm_cell_is_one_step_of_the_layer():
    layer, cell = filled(nn.LSTM(2, 3)), nn.LSTMCell(2, 3)
    for name, parameter in cell.named_parameters():
        parameter.data = getattr(layer, f"{name}_l0").data
    x = wave(1, 2, 2)
    hidden, memory = cell(x[0])
    _, (last_hidden, last_memory) = layer(x)
    assert torch.allclose(hidden, last_hidden[0]) and torch.allclose(memory, last_memory[0])
    assert repr(nn.LSTMCell(2, 3, bias=False)) == "LSTMCell(2, 3, bias=False)"
    with pytest.raises(RuntimeError, match="input has inconsistent input_size: got 3 expected 2"):
        cell(wave(4, 3))
    with pytest.raises(RuntimeError, match="Input batch size 4 doesn't match hidden0 batch size 3"):
        cell(wave(4, 2), (torch.zeros(3, 3), torch.zeros(3, 3)))


def test_dropout_keeps_the_mean_and_rests_in_evaluation():
    module = nn.Dropout(0.25)
    x = torch.ones(4000)
    torch.manual_seed(0)
    result = module(x)
    assert result.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert result.mean().item() == pytest.approx(1.0, abs=0.05)
    assert torch.equal(module.eval()(x), x)


def test_unflatten_takes_a_tuple_of_sizes():
    for dim, sizes in ((1, (2, 2.0)), (1, 3), ("a", [("b", 2)]), ("a", (["b", 2],))):
        with pytest.raises(TypeError, match="unflattened_size must be"):
            torch.nn.Unflatten(dim, sizes)
    assert torch.nn.Unflatten(1, [2, -1])(torch.ones(1, 4)).shape == (1, 2, 2)
