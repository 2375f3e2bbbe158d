"""Scripted library modules and functions compute what they do in Python."""

from __future__ import annotations

import io
import warnings

import pytest

import rushlight as torch
from rushlight.jit.passes.dce import eliminate_dead_code

nn = torch.nn
F = nn.functional


def image():
    return torch.rand(2, 4, 6, 6)


def rows():
    return torch.randn(3, 4)


def sequence():
    return torch.rand(5, 2, 4)


def classes():
    return torch.tensor([1, 0, 3])


LAYERS = {
    "linear": (lambda: nn.Linear(4, 2), rows),
    "linear_without_bias": (lambda: nn.Linear(4, 2, bias=False), rows),
    "identity": (nn.Identity, rows),
    "flatten": (nn.Flatten, image),
    "unflatten": (lambda: nn.Unflatten(1, (2, 2)), rows),
    "conv1d": (lambda: nn.Conv1d(4, 3, 3, padding=1), lambda: torch.rand(2, 4, 6)),
    "conv2d": (lambda: nn.Conv2d(4, 3, 3, stride=2, padding=1), image),
    "conv2d_same": (lambda: nn.Conv2d(4, 3, 3, padding="same"), image),
    "conv2d_reflect": (lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"), image),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), lambda: torch.rand(1, 2, 4, 4, 4)),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(4, 3, 3), lambda: torch.rand(2, 4, 6)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), image),
    "batch_norm1d": (lambda: nn.BatchNorm1d(4), rows),
    "batch_norm2d": (lambda: nn.BatchNorm2d(4), image),
    "batch_norm_cumulative": (lambda: nn.BatchNorm2d(4, momentum=None), image),
    "batch_norm_without_stats": (lambda: nn.BatchNorm2d(4, track_running_stats=False), image),
    "instance_norm": (lambda: nn.InstanceNorm2d(4), image),
    "layer_norm": (lambda: nn.LayerNorm(4), rows),
    "layer_norm_two_dims": (lambda: nn.LayerNorm([6, 6]), image),
    "rms_norm": (lambda: nn.RMSNorm(4), rows),
    "group_norm": (lambda: nn.GroupNorm(2, 4), image),
    "local_response_norm": (lambda: nn.LocalResponseNorm(2), image),
    "max_pool1d": (lambda: nn.MaxPool1d(2), lambda: torch.rand(2, 4, 6)),
    "max_pool2d": (lambda: nn.MaxPool2d(2), image),
    "max_pool2d_tuple": (lambda: nn.MaxPool2d((2, 3), stride=(1, 2)), image),
    "max_pool2d_indices": (lambda: nn.MaxPool2d(2, return_indices=True), image),
    "avg_pool1d": (lambda: nn.AvgPool1d(2), lambda: torch.rand(2, 4, 6)),
    "avg_pool2d": (lambda: nn.AvgPool2d(2), image),
    "adaptive_avg_pool1d": (lambda: nn.AdaptiveAvgPool1d(2), lambda: torch.rand(2, 4, 6)),
    "adaptive_avg_pool2d": (lambda: nn.AdaptiveAvgPool2d((2, 3)), image),
    "adaptive_avg_pool2d_one": (lambda: nn.AdaptiveAvgPool2d(1), image),
    "adaptive_max_pool2d": (lambda: nn.AdaptiveMaxPool2d(2), image),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), image),
    "zero_pad": (lambda: nn.ZeroPad2d(1), image),
    "constant_pad": (lambda: nn.ConstantPad2d((1, 2, 0, 1), 3.0), image),
    "reflection_pad": (lambda: nn.ReflectionPad2d(1), image),
    "replication_pad": (lambda: nn.ReplicationPad2d(2), image),
    "upsample": (lambda: nn.Upsample(scale_factor=2.0), image),
    "upsample_size": (lambda: nn.Upsample(size=(3, 9), mode="bilinear"), image),
    "unfold": (lambda: nn.Unfold(2), image),
    "embedding": (lambda: nn.Embedding(5, 3), classes),
    "embedding_padding": (lambda: nn.Embedding(5, 3, padding_idx=-1), classes),
    "lstm": (lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True), sequence),
    "lstm_batch_first": (lambda: nn.LSTM(4, 3, batch_first=True), sequence),
    "lstm_unbatched": (lambda: nn.LSTM(4, 3), lambda: torch.rand(5, 4)),
    "gru": (lambda: nn.GRU(4, 3, bias=False), sequence),
    "rnn": (lambda: nn.RNN(4, 3, nonlinearity="relu"), sequence),
    "lstm_cell": (lambda: nn.LSTMCell(4, 3), rows),
    "gru_cell": (lambda: nn.GRUCell(4, 3), rows),
    "sequential": (lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5)), rows),
    "encoder_layer": (lambda: nn.TransformerEncoderLayer(4, 2, 8), sequence),
    "encoder_layer_first": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, norm_first=True, batch_first=True),
        sequence,
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, None, False),
        sequence,
    ),
    "prelu": (nn.PReLU, rows),
    "softmax": (lambda: nn.Softmax(1), rows),
    "log_softmax": (lambda: nn.LogSoftmax(1), rows),
    "threshold": (lambda: nn.Threshold(0.1, 20.0), rows),
    "dropout2d": (lambda: nn.Dropout2d(0.5), image),
    **{
        name.lower(): (getattr(nn, name), rows)
        for name in (
            *("ReLU", "ReLU6", "ELU", "SELU", "CELU", "LeakyReLU", "SiLU", "Mish", "Hardswish"),
            *("Hardsigmoid", "Hardtanh", "GELU", "GLU", "Sigmoid", "Tanh", "LogSigmoid"),
            *("Softplus", "Softshrink", "Hardshrink", "Softsign", "Tanhshrink", "RReLU"),
        )
    },
}

PAIRS = {
    "mse": (nn.MSELoss, lambda: (rows(), rows())),
    "l1": (lambda: nn.L1Loss(reduction="sum"), lambda: (rows(), rows())),
    "smooth_l1": (nn.SmoothL1Loss, lambda: (rows(), rows())),
    "huber": (nn.HuberLoss, lambda: (rows(), rows())),
    "cross_entropy": (nn.CrossEntropyLoss, lambda: (rows(), classes())),
    "cross_entropy_weight": (
        lambda: nn.CrossEntropyLoss(weight=torch.rand(4), label_smoothing=0.1),
        lambda: (rows(), classes()),
    ),
    "nll": (nn.NLLLoss, lambda: (rows().log_softmax(1), classes())),
    "bce": (nn.BCELoss, lambda: (rows().sigmoid(), torch.rand(3, 4))),
    "bce_logits": (nn.BCEWithLogitsLoss, lambda: (rows(), torch.rand(3, 4))),
    "kl": (lambda: nn.KLDivLoss(reduction="batchmean"), lambda: (rows(), rows().softmax(1))),
    "margin_ranking": (nn.MarginRankingLoss, lambda: (rows(), rows(), torch.ones(3, 4))),
    "hinge_embedding": (nn.HingeEmbeddingLoss, lambda: (rows(), torch.ones(3, 4))),
    "cosine_embedding": (nn.CosineEmbeddingLoss, lambda: (rows(), rows(), torch.ones(3))),
    "soft_margin": (nn.SoftMarginLoss, lambda: (rows(), torch.ones(3, 4))),
    "poisson": (nn.PoissonNLLLoss, lambda: (rows(), torch.rand(3, 4))),
    "triplet": (nn.TripletMarginLoss, lambda: (rows(), rows(), rows())),
    "pairwise": (nn.PairwiseDistance, lambda: (rows(), rows())),
    "softmax2d": (nn.Softmax2d, lambda: (image(),)),
    "channel_shuffle": (lambda: nn.ChannelShuffle(2), lambda: (image(),)),
    "rnn_cell": (lambda: nn.RNNCell(4, 3), lambda: (rows(),)),
    "decoder_layer": (
        lambda: nn.TransformerDecoderLayer(4, 2, 8).eval(),
        lambda: (sequence(), sequence()),
    ),
    "bilinear": (lambda: nn.Bilinear(4, 4, 2), lambda: (rows(), rows())),
    "cosine": (nn.CosineSimilarity, lambda: (rows(), rows())),
}


def same(a, b):
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b or torch.allclose(a, b, atol=1e-6)


def test_attention_with_masks():
    module = nn.MultiheadAttention(4, 2)
    x = torch.rand(5, 2, 4)
    mask = torch.triu(torch.ones(5, 5), 1).bool()
    padding = torch.tensor([[False] * 5, [False] * 4 + [True]])
    scripted = torch.jit.script(module)
    assert same(scripted(x, x, x), module(x, x, x))
    assert same(
        scripted(x, x, x, attn_mask=mask, key_padding_mask=padding),
        module(x, x, x, attn_mask=mask, key_padding_mask=padding),
    )
    assert same(scripted(x, x, x, need_weights=False), module(x, x, x, need_weights=False))
    assert same(scripted(x[:, 0], x[:, 0], x[:, 0]), module(x[:, 0], x[:, 0], x[:, 0]))


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    make, inputs = LAYERS[name]
    module, given = make(), inputs()
    for training in (True, False):
        module.train(training)
        kept = {key: value.clone() for key, value in module.state_dict().items()}
        torch.manual_seed(0)
        expected = module(given)
        changed = {key: value.clone() for key, value in module.state_dict().items()}
        module.load_state_dict(kept)
        scripted = torch.jit.script(module)
        torch.manual_seed(0)
        assert same(scripted(given), expected)
        for key, value in scripted.state_dict().items():
            assert torch.equal(value, changed[key])


@pytest.mark.parametrize("name", PAIRS)
def test_layer_of_two(name):
    make, inputs = PAIRS[name]
    module, given = make(), inputs()
    assert same(torch.jit.script(module)(*given), module(*given))


def test_functions():
    def program(x, size: int):
        a = F.relu(x) + F.leaky_relu(x, 0.2) + F.elu(x) + F.silu(x) + F.gelu(x)
        b = F.softmax(x, dim=1) + F.log_softmax(x, dim=-1) + F.dropout(x, 0.5, False)
        c = F.max_pool2d(x.view(1, 1, 3, 4), 2)
        d, e = F.max_pool2d(x.view(1, 1, 3, 4), 2, return_indices=True)
        f = F.interpolate(x.view(1, 1, 3, 4), [size, size], mode="nearest")
        g = F.interpolate(x.view(1, 1, 3, 4), scale_factor=[2.0, 2.0], mode="bilinear")
        h = F.layer_norm(x, [4]) + F.normalize(x, dim=1)
        return a, b, c, d, e, f, g, h, F.mse_loss(x, x * 2), F.pad(x, [1, 1])

    x = torch.randn(3, 4)
    assert same(torch.jit.script(program)(x, 5), program(x, 5))


def test_gradients_follow():
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    x = torch.randn(5, 4)
    scripted = torch.jit.script(module)
    scripted(x).sum().backward()
    got = [parameter.grad.clone() for parameter in scripted.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    assert all(map(torch.equal, got, [parameter.grad for parameter in module.parameters()]))


def test_warnings_come_from_the_compiled_line():
    def program(x):
        warnings.warn(f"size {x.size(0)}", stacklevel=2)
        return F.softmax(x)

    scripted = torch.jit.script(program)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        scripted(torch.rand(3))
    assert [str(each.message)[:18] for each in heard] == ["size 3", "Implicit dimension"]
    assert heard[0].filename == __file__
    assert heard[0].lineno == program.__code__.co_firstlineno + 1
    eliminate_dead_code(scripted.graph)
    assert "aten::warn" in str(scripted.graph)
    loaded = torch.jit.load(io.BytesIO(scripted.save_to_buffer()))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        loaded(torch.rand(3))
    assert str(heard[0].message) == "size 3"


def test_labels_of_compiled_code_are_recorded():
    def program(x):
        with torch.autograd.profiler.record_function("first"):
            y = x + 1
        with torch.profiler.record_function("second", "detail"):
            y = y * 2
        return y

    scripted = torch.jit.script(program)
    loaded = torch.jit.load(io.BytesIO(scripted.save_to_buffer()))
    for run in (scripted, loaded):
        with torch.autograd.profiler.profile() as profile:
            run(torch.ones(2))
        names = [event.name for event in profile.function_events]
        order = [name for name in names if name in ("first", "aten::add", "second", "aten::mul")]
        assert order == ["first", "aten::add", "second", "aten::mul"]


def test_a_label_ends_with_an_error():
    def program(x):
        with torch.autograd.profiler.record_function("fails"):
            y = x.view(7)
        return y

    scripted = torch.jit.script(program)
    with torch.autograd.profiler.profile() as profile:
        with pytest.raises(RuntimeError, match="invalid for input of size 2"):
            scripted(torch.ones(2))
        with torch.autograd.profiler.record_function("after"):
            pass
    spans = {event.name: event for event in profile.function_events}
    assert spans["fails"].time_range.end <= spans["after"].time_range.start


def test_recurrent_layers_take_packed_sequences():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 3, bidirectional=True)
            self.gru = nn.GRU(6, 2)

        def forward(self, x, lengths):
            sequence = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            found, (h, c) = self.lstm(sequence)
            found, last = self.gru(found)
            return nn.utils.rnn.pad_packed_sequence(found), h, c, last

    module, x, lengths = Tagger(), torch.rand(5, 3, 4), torch.tensor([3, 5, 1])
    scripted = torch.jit.script(module)
    assert 'CallMethod[name="forward__1"]' in str(scripted.graph)
    loaded = torch.jit.load(io.BytesIO(scripted.save_to_buffer()))
    for run in (scripted, loaded):
        (a, b), *rest = run(x, lengths)
        (wanted, sizes), *others = module(x, lengths)
        assert same((a, b, *rest), (wanted, sizes, *others))


def test_log_sigmoid_is_compiled_by_the_name_of_its_module():
    def both(x: torch.Tensor) -> torch.Tensor:
        return F.logsigmoid(x) + torch.nn.functional.logsigmoid(-x)

    x = torch.randn(3)
    assert torch.equal(torch.jit.script(both)(x), F.logsigmoid(x) + F.logsigmoid(-x))
