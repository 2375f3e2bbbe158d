"""Attention over heads, transformers and recurrent modules, against values of the reference.

Parameters and inputs are sines and cosines, so that a sum, a sum of squares and the sum of all
gradients' absolute values tell one computation from another.
"""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight.opset import functions


def wave(*shape):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count, dtype=torch.float64) * 0.3).cos().reshape(shape)


def filled(module):
    with torch.no_grad():
        module.double()
        for number, parameter in enumerate(module.parameters()):
            steps = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((steps * 0.7 + number).sin().reshape(parameter.shape) * 0.5)
    return module.eval()


def first(value):
    return first(value[0]) if isinstance(value, tuple) else value


def measured(module, *args, **kwargs):
    output = first(module(*args, **kwargs))
    output.pow(2).sum().backward()
    slope = sum(p.grad.abs().sum().item() for p in module.parameters() if p.grad is not None)
    return output.sum().item(), output.pow(2).sum().item(), slope


def made(name, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return filled(getattr(nn, name)(*args, **kwargs))


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("LSTM", {}, (-0.24441199826, 0.272362030213, 3.3962329153)),
        (
            "LSTM",
            {"num_layers": 2, "bidirectional": True, "batch_first": True},
            (-1.304720570937, 0.539344093378, 9.31345211),
        ),
        ("LSTM", {"proj_size": 2, "bias": False}, (0.060017013113, 0.001687489447, 0.1479021113)),
        ("GRU", {"bidirectional": True}, (5.59056753147, 4.577013895805, 34.5942610212)),
        (
            "RNN",
            {"nonlinearity": "relu", "num_layers": 2},
            (11.174743228328, 14.385233695016, 197.8380330761),
        ),
    ],
)
def test_recurrent(name, options, wanted):
    assert measured(made(name, 3, 4, **options), wave(2, 2, 3)) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("RNNCell", (-0.418053037211, 3.182097975734, 15.6804643355)),
        ("LSTMCell", (-0.155745381314, 0.197636828212, 2.0132323676)),
        ("GRUCell", (0.912532361128, 0.793392137417, 5.5248876259)),
    ],
)
def test_cells(name, wanted):
    assert measured(made(name, 3, 4), wave(2, 3)) == pytest.approx(wanted, rel=1e-9)


def causal(size):
    return nn.Transformer.generate_square_subsequent_mask(size, dtype=torch.float64)


PADDING = [[False] * 5, [False, False, True, True, False]]


@pytest.mark.parametrize(
    ("options", "operands", "call", "wanted"),
    [
        ({}, "x x x", {}, (-8.976693777608, 6.743400891131, 81.1468057262)),
        (
            {"add_bias_kv": True, "add_zero_attn": True},
            "x y y",
            {"key_padding_mask": PADDING},
            (-2.185250623897, 5.990181588429, 74.291518602),
        ),
        (
            {"kdim": 3, "vdim": 2, "batch_first": True},
            "a b c",
            {"need_weights": False},
            (-3.445736714456, 3.24960802789, 43.7258410855),
        ),
        (
            {},
            "x x x",
            {"attn_mask": 3, "is_causal": True, "need_weights": False},
            (-8.870171053024, 7.123576631807, 84.7457800682),
        ),
    ],
)
def test_attention_over_heads(options, operands, call, wanted):
    known = {
        "x": wave(3, 2, 4),
        "y": wave(5, 2, 4),
        "a": wave(2, 3, 4),
        "b": wave(2, 5, 3),
        "c": wave(2, 5, 2),
    }
    call = dict(call)
    if "key_padding_mask" in call:
        call["key_padding_mask"] = torch.tensor(call["key_padding_mask"])
    if "attn_mask" in call:
        call["attn_mask"] = causal(call["attn_mask"])
    module = made("MultiheadAttention", 4, 2, **options)
    found = measured(module, *[known[name] for name in operands.split()], **call)
    assert found == pytest.approx(wanted, rel=1e-9)


def test_weights_agree_with_the_output_without_them():
    module = made("MultiheadAttention", 4, 2)
    x = wave(3, 2, 4)
    shown, weights = module(x, x, x)
    hidden, nothing = module(x, x, x, need_weights=False)
    assert nothing is None and torch.allclose(shown, hidden)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    by_head = module(x, x, x, average_attn_weights=False)[1]
    assert torch.allclose(by_head.mean(1), weights)
    alone = module(x[:, 0], x[:, 0], x[:, 0])
    assert torch.allclose(alone[0], shown[:, 0]) and torch.allclose(alone[1], weights[0])


@pytest.mark.parametrize(
    ("name", "options", "operands", "call", "wanted"),
    [
        ("TransformerEncoderLayer", {}, "x", {}, (-4.271804961877, 8.459157862774, 139.0422074869)),
        (
            "TransformerEncoderLayer",
            {"norm_first": True, "activation": "gelu", "batch_first": True},
            "a",
            {"src_key_padding_mask": [[False, False, True], [False, False, False]]},
            (10.446047684614, 22.691932466317, 330.7982225449),
        ),
        (
            "TransformerDecoderLayer",
            {},
            "x y",
            {},
            (-8.797476663759, 4.777206802911, 200.2284681576),
        ),
        (
            "Transformer",
            {},
            "y x",
            {"tgt_mask": 3},
            (10.581372414281, 7.678125813554, 243.0707338431),
        ),
    ],
)
def test_transformers(name, options, operands, call, wanted):
    known = {"x": wave(3, 2, 4), "y": wave(5, 2, 4), "a": wave(2, 3, 4)}
    sizes = (4, 2, 2, 2, 8) if name == "Transformer" else (4, 2, 8)
    call = dict(call)
    if "src_key_padding_mask" in call:
        call["src_key_padding_mask"] = torch.tensor(call["src_key_padding_mask"])
    if "tgt_mask" in call:
        call["tgt_mask"] = causal(call["tgt_mask"])
    module = made(name, *sizes, **options)
    found = measured(module, *[known[each] for each in operands.split()], **call)
    assert found == pytest.approx(wanted, rel=1e-9)


def test_names_and_looks():
    module = nn.TransformerDecoderLayer(4, 2, 8)
    assert list(module.state_dict())[:4] == [
        "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
        "self_attn.out_proj.bias",
    ]  # fmt: skip
    assert repr(nn.MultiheadAttention(4, 2)) == (
        "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=4, "
        "out_features=4, bias=True)\n)"
    )
    apart = nn.MultiheadAttention(4, 2, kdim=3)
    assert apart.in_proj_weight is None and tuple(apart.k_proj_weight.shape) == (4, 3)


def test_evaluation_without_gradients_puts_zeros_in_place_of_padding():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    module = filled(nn.TransformerEncoder(layer, 1))
    padding = torch.tensor([[False, False, True], [False, False, False]])
    with torch.no_grad():
        output = module(wave(2, 3, 4), src_key_padding_mask=padding)
    assert output[0, 2].abs().sum().item() == 0 and output[0, 1].abs().sum().item() > 0
    kept = module(wave(2, 3, 4), src_key_padding_mask=padding)
    assert kept[0, 2].abs().sum().item() > 0


def test_causal_masks_are_recognised():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    module = filled(nn.TransformerEncoder(layer, 1))
    x = wave(1, 3, 4)
    assert torch.allclose(module(x, mask=causal(3)), module(x, mask=causal(3), is_causal=False))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.MultiheadAttention(4, 3), AssertionError, "divisible by num_heads"),
        (lambda: nn.MultiheadAttention(0, 3), ValueError, "must be greater than 0"),
        (
            lambda: nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 6)] * 3),
            AssertionError,
            "was expecting embedding dimension of 4, but got 6",
        ),
        (
            lambda: nn.MultiheadAttention(4, 2)(*[torch.ones(2, 1, 4)] * 3, is_causal=True),
            RuntimeError,
            "Need attn_mask if specifying the is_causal hint",
        ),
        (
            lambda: nn.MultiheadAttention(4, 2)(
                *[torch.ones(2, 1, 4)] * 3, attn_mask=torch.ones(3, 2)
            ),
            RuntimeError,
            r"The shape of the 2D attn_mask is torch.Size\(\[3, 2\]\), but should be \(2, 2\)",
        ),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh"),
            RuntimeError,
            "activation should be relu/gelu, not tanh",
        ),
        (
            lambda: nn.Transformer(4, 2, 1, 1, 4, batch_first=True)(
                torch.ones(2, 3, 4), torch.ones(1, 3, 4)
            ),
            RuntimeError,
            "the batch number of src and tgt must be equal",
        ),
    ],
)
def test_mistakes(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_stacks_say_why_they_keep_padding():
    with pytest.warns(UserWarning, match="because encoder_layer.norm_first was True"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, norm_first=True), 1)


def test_kernels_are_chosen():
    x = wave(1, 1, 2, 3).requires_grad_()
    flash = F.scaled_dot_product_attention(x, x, x)
    assert flash.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    assert functions._fused_sdp_choice(x, x, x) == int(SDPBackend.FLASH_ATTENTION)
    with sdpa_kernel(SDPBackend.MATH):
        plain = F.scaled_dot_product_attention(x, x, x)
        assert functions._fused_sdp_choice(x, x, x) == int(SDPBackend.MATH)
    assert plain.grad_fn.name() != flash.grad_fn.name() and torch.allclose(plain, flash)
    with (
        sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]),
        pytest.raises(RuntimeError, match="No viable backend"),
    ):
        F.scaled_dot_product_attention(x, x, x)
    with pytest.raises(AssertionError, match="got int"), sdpa_kernel(1):
        pass
    assert F.scaled_dot_product_attention(x, x, x).grad_fn.name() == flash.grad_fn.name()


def test_gumbel_softmax():
    torch.manual_seed(0)
    logits = torch.zeros(200, 3, requires_grad=True)
    soft = F.gumbel_softmax(logits, tau=0.5)
    assert torch.allclose(soft.sum(-1), torch.ones(200))
    hard = F.gumbel_softmax(logits, hard=True)
    assert torch.allclose(hard.max(-1)[0], torch.ones(200), atol=1e-6)
    assert (hard.sum(0) > 40).all()
    (hard * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum().item() > 0


def test_one_hot_of_batches():
    found = torch.vmap(lambda x: F.one_hot(x, 3))(torch.tensor([[0, 2], [1, 1]]))
    assert found.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]]]
