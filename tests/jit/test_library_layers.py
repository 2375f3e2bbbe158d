"""Compiled layers do what they do in Python, however they are made, called and switched."""

from __future__ import annotations

import itertools
import warnings

import pytest

import rushlight as torch
from rushlight.jit.scripting.library import layer_forms
from tests.jit.comparing import FLAGS, at, check_same, combinations, t

nn = torch.nn


def images():
    return [(t(2, 4, 6, 6),), (t(4, 6, 6),), (t(2, 4, 6),)]


def rows():
    return [(t(3, 4),), (t(2, 3, 4),)]


def volumes():
    return [(t(1, 2, 4, 4, 4),), (t(2, 4, 4, 4),)]


def lines():
    return [(t(2, 4, 6),), (t(4, 6),), (t(2, 2, 4, 6),)]


INPUTS = {1: lines, 2: images, 3: volumes}
CHANNELS = {1: 4, 2: 4, 3: 2}
OLD = {"size_average": (None, False), "reduce": (None, False)}
REDUCED = {**OLD, "reduction": ("mean", "sum", "none")}
WEIGHT = {"weight": (None, at([0.5, 1.0, 2.0, 1.0]))}


def per_count(name, positional, options, inputs=INPUTS):
    return {
        f"{name}{n}d": (lambda n=n: positional(n), options(n), inputs[n]) for n in sorted(inputs)
    }


def pairs():
    return [(t(3, 4), t(3, 4)), (t(3, 4), t(4))]


def sequences(*sizes):
    return lambda: [(t(*sizes),)]


# Name of the class -> (positional arguments, the values of each option, a list of inputs).
LAYERS = {
    "Identity": ((), {}, rows),
    "Linear": ((4, 2), {"bias": FLAGS}, rows),
    "Bilinear": ((4, 4, 2), {"bias": FLAGS}, lambda: [(t(3, 4), t(3, 4))]),
    "Flatten": ((), {"start_dim": (0, 1), "end_dim": (-1, 1)}, images),
    "Unflatten": ((1, (2, 2)), {}, lambda: [(t(3, 4),)]),
    **{
        name: ((), {"inplace": FLAGS}, rows)
        for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid")
    },
    "ELU": ((), {"alpha": (1.0, 0.5), "inplace": FLAGS}, rows),
    "CELU": ((), {"alpha": (1.0, 0.5), "inplace": FLAGS}, rows),
    "LeakyReLU": ((), {"negative_slope": (0.01, 0.5), "inplace": FLAGS}, rows),
    "RReLU": ((), {"lower": (0.1, 0.2), "inplace": FLAGS}, rows),
    "Hardtanh": ((), {"min_val": (-1.0, -0.1), "inplace": FLAGS}, rows),
    "Threshold": ((0.1, 2.0), {"inplace": FLAGS}, rows),
    "GLU": ((), {"dim": (-1, 0)}, rows),
    "GELU": ((), {"approximate": ("none", "tanh")}, rows),
    **{
        name: ((), {}, rows) for name in ("Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink")
    },
    "Softplus": ((), {"beta": (1.0, 2.0), "threshold": (20.0, 0.5)}, rows),
    "Softshrink": ((), {"lambd": (0.5, 0.1)}, rows),
    "Hardshrink": ((), {"lambd": (0.5, 0.1)}, rows),
    "PReLU": ((), {"num_parameters": (1, 3)}, lambda: [(t(2, 3, 4),)]),
    **{name: ((), {"dim": (None, 0, 1)}, rows) for name in ("Softmax", "Softmin", "LogSoftmax")},
    "Softmax2d": ((), {}, lambda: [*images(), (t(3, 4),)]),
    **{
        name: ((), {"p": (0.0, 0.5), "inplace": FLAGS}, inputs)
        for name, inputs in {
            "Dropout": rows,
            "Dropout1d": lines,
            "Dropout2d": images,
            "Dropout3d": volumes,
            "AlphaDropout": rows,
            "FeatureAlphaDropout": images,
        }.items()
    },
    **per_count(
        "Conv",
        lambda n: (CHANNELS[n], 2, 3),
        lambda n: {
            "stride": (1, 2) if n < 3 else (1,),
            "padding": (0, 1, "same", "valid"),
            "padding_mode": ("zeros", "reflect", "circular"),
            "bias": FLAGS,
        },
    ),
    **per_count(
        "ConvTranspose",
        lambda n: (CHANNELS[n], 2, 3),
        lambda n: {"stride": (1, 2), "padding": (0, 1), "dilation": (1, 2), "bias": FLAGS},
        {
            1: lambda: [(t(2, 4, 5),), (t(2, 4, 5), [11]), (t(4, 5), [12]), (t(2, 4, 5), [1, 2])],
            2: lambda: [(t(2, 4, 5, 5),), (t(2, 4, 5, 5), [11, 12]), (t(2, 4, 5, 5), [99, 12])],
            3: lambda: [(t(1, 2, 3, 3, 3),), (t(1, 2, 3, 3, 3), [1, 2, 7, 7, 8])],
        },
    ),
    **per_count(
        "BatchNorm",
        lambda n: (CHANNELS[n],),
        lambda n: {
            "momentum": (0.1, None),
            "affine": FLAGS,
            "track_running_stats": FLAGS,
            "eps": (1e-5, 0.1),
        },
    ),
    "SyncBatchNorm": ((4,), {"momentum": (0.1, None), "affine": FLAGS}, images),
    **per_count(
        "InstanceNorm",
        lambda n: (CHANNELS[n],),
        lambda n: {"affine": FLAGS, "track_running_stats": FLAGS, "eps": (1e-5, 0.1)},
        {
            1: lambda: [*lines(), (t(2, 3, 6),), (t(2, 4, 1),)],
            2: lambda: [*images(), (t(2, 3, 6, 6),)],
            3: volumes,
        },
    ),
    "LayerNorm": (
        (4,),
        {"elementwise_affine": FLAGS, "bias": FLAGS, "eps": (1e-5, 0.1)},
        rows,
    ),
    "RMSNorm": ((4,), {"elementwise_affine": FLAGS, "eps": (None, 0.1)}, rows),
    "GroupNorm": ((2, 4), {"affine": FLAGS, "eps": (1e-5, 0.1)}, lambda: [(t(3, 4),), (t(4),)]),
    "LocalResponseNorm": ((2,), {"alpha": (1e-4, 0.5), "k": (1.0, 2.0)}, images),
    "CrossMapLRN2d": ((3,), {"alpha": (1e-4, 0.5), "beta": (0.75, 0.5)}, images),
    **per_count(
        "MaxPool",
        lambda n: (2,),
        lambda n: {
            "stride": (None, 1),
            "padding": (0, 1),
            "dilation": (1, 2),
            "return_indices": FLAGS,
            "ceil_mode": FLAGS,
        },
    ),
    **per_count(
        "MaxUnpool",
        lambda n: (2,),
        lambda n: {"stride": (None, 2), "padding": (0,)},
        {
            1: lambda: [
                nn.functional.max_pool1d(t(2, 4, 6), 2, return_indices=True),
                (*nn.functional.max_pool1d(t(2, 4, 7), 2, return_indices=True), [7]),
            ],
            2: lambda: [nn.functional.max_pool2d(t(2, 4, 6, 6), 2, return_indices=True)],
            3: lambda: [nn.functional.max_pool3d(t(1, 2, 4, 4, 4), 2, return_indices=True)],
        },
    ),
    **per_count(
        "AvgPool",
        lambda n: (2,),
        lambda n: {
            "stride": (None, 1),
            "padding": (0, 1),
            "ceil_mode": FLAGS,
            "count_include_pad": FLAGS,
            **({"divisor_override": (None, 3)} if n > 1 else {}),
        },
    ),
    **per_count("AdaptiveAvgPool", lambda n: (2,), lambda n: {}),
    **per_count("AdaptiveMaxPool", lambda n: (2,), lambda n: {"return_indices": FLAGS}),
    **per_count(
        "LPPool",
        lambda n: (2, 2),
        lambda n: {"stride": (None, 1), "ceil_mode": FLAGS},
    ),
    **per_count(
        "FractionalMaxPool",
        lambda n: (2,),
        lambda n: {"output_ratio": (0.5, 0.6), "return_indices": FLAGS},
        {2: images, 3: volumes},
    ),
    "PixelShuffle": ((2,), {}, images),
    "PixelUnshuffle": ((2,), {}, images),
    "ChannelShuffle": ((2,), {}, images),
    **{
        f"{name}Pad{n}d": ((1, *rest), {}, INPUTS[n])
        for name, rest in {
            "Zero": (),
            "Constant": (2.5,),
            "Reflection": (),
            "Replication": (),
            "Circular": (),
        }.items()
        for n in (1, 2, 3)
    },
    "Upsample": (
        (),
        {
            "size": (None, (5, 5)),
            "scale_factor": (None, 2, (2.0, 1.5)),
            "mode": ("nearest", "bilinear", "area"),
            "align_corners": (None, True),
            "recompute_scale_factor": (None, True),
        },
        lambda: [(t(2, 4, 6, 6),)],
    ),
    "UpsamplingNearest2d": ((), {"scale_factor": (2,)}, lambda: [(t(2, 4, 6, 6),)]),
    "UpsamplingBilinear2d": ((), {"size": ((5, 7),)}, lambda: [(t(2, 4, 6, 6),)]),
    "Unfold": ((2,), {"padding": (0, 1), "stride": (1, (1, 2))}, images),
    "Fold": (((4, 5), 2), {"dilation": (1,)}, lambda: [(t(1, 8, 12),), (t(8, 12),)]),
    "Embedding": (
        (5, 3),
        {"padding_idx": (None, 0, -1), "max_norm": (None, 1.0), "scale_grad_by_freq": FLAGS},
        lambda: [(at([1, 0, 3]),), (at([[1], [2]]),)],
    ),
    "EmbeddingBag": (
        (5, 3),
        {"mode": ("sum", "mean", "max"), "max_norm": (None, 1.0), "padding_idx": (None, 1)},
        lambda: [
            (at([1, 0, 3]), at([0, 1])),
            (at([[1, 0], [3, 2]]),),
            (at([1, 0, 3]), at([0, 1]), at([0.5, 1.0, 2.0])),
        ],
    ),
    "CosineSimilarity": ((), {"dim": (1, 0), "eps": (1e-8, 1.0)}, pairs),
    "PairwiseDistance": ((), {"p": (2.0, 1.0), "keepdim": FLAGS}, pairs),
    "CrossEntropyLoss": (
        (),
        {**REDUCED, **WEIGHT, "label_smoothing": (0.0, 0.1)},
        lambda: [(t(3, 4), at([1, 0, 3]))],
    ),
    "NLLLoss": (
        (),
        {**REDUCED, **WEIGHT, "ignore_index": (-100, 0)},
        lambda: [(t(3, 4), at([1, 0, 3]))],
    ),
    **{name: ((), REDUCED, pairs) for name in ("MSELoss", "L1Loss", "SoftMarginLoss")},
    "SmoothL1Loss": ((), {**REDUCED, "beta": (1.0, 0.0)}, pairs),
    "HuberLoss": ((), {"reduction": ("mean", "sum"), "delta": (1.0, 0.5)}, pairs),
    "BCELoss": ((), {**REDUCED, **WEIGHT}, lambda: [(torch.rand(3, 4), torch.rand(3, 4))]),
    "BCEWithLogitsLoss": (
        (),
        {**REDUCED, **WEIGHT, "pos_weight": (None, torch.ones(4) * 3)},
        pairs,
    ),
    "KLDivLoss": (
        (),
        {**OLD, "reduction": ("mean", "batchmean", "sum"), "log_target": FLAGS},
        lambda: [(t(3, 4), torch.rand(3, 4))],
    ),
    "CTCLoss": (
        (),
        {"reduction": ("mean", "sum", "none"), "zero_infinity": FLAGS},
        lambda: [(t(5, 2, 4).log_softmax(2), at([[1, 2], [1, 3]]), at([5, 4]), at([2, 1]))],
    ),
    "PoissonNLLLoss": (
        (),
        {**REDUCED, "log_input": FLAGS, "full": FLAGS},
        lambda: [(torch.rand(3, 4), torch.rand(3, 4) * 5)],
    ),
    "GaussianNLLLoss": (
        (),
        {"reduction": ("mean", "sum", "none"), "full": FLAGS, "eps": (1e-6, 0.5)},
        lambda: [(t(3, 4), t(3, 4), torch.rand(3, 4)), (t(3, 4), t(3, 4), 0.5)],
    ),
    "HingeEmbeddingLoss": ((), {**REDUCED, "margin": (1.0, 2.0)}, pairs),
    "MultiLabelMarginLoss": ((), REDUCED, lambda: [(t(3, 4), at([[3, 0, -1, 1]] * 3))]),
    "MultiLabelSoftMarginLoss": ((), {**REDUCED, **WEIGHT}, pairs),
    "MarginRankingLoss": (
        (),
        {**REDUCED, "margin": (0.0, 0.5)},
        lambda: [(t(3, 4), t(3, 4), torch.ones(3, 4)), (t(3, 4), t(3, 4), torch.ones(4))],
    ),
    "CosineEmbeddingLoss": (
        (),
        {**REDUCED, "margin": (0.0, 0.5)},
        lambda: [(t(3, 4), t(3, 4), at([1, -1, 1]))],
    ),
    "MultiMarginLoss": (
        (),
        {**REDUCED, **WEIGHT, "p": (1, 2), "margin": (1.0, 0.5)},
        lambda: [(t(3, 4), at([1, 0, 3]))],
    ),
    "TripletMarginLoss": (
        (),
        {**REDUCED, "p": (2.0, 1.0), "swap": FLAGS},
        lambda: [(t(3, 4), t(3, 4), t(3, 4))],
    ),
    "TripletMarginWithDistanceLoss": (
        (),
        {"margin": (1.0, 0.5), "swap": FLAGS, "reduction": ("mean", "sum", "none")},
        lambda: [(t(3, 4), t(3, 4), t(3, 4)), (t(3, 4), t(3, 4), t(4))],
    ),
    **{
        name: (
            (4, 3),
            {
                "num_layers": (1, 2),
                "bias": FLAGS,
                "batch_first": FLAGS,
                "dropout": (0.5,),
                "bidirectional": FLAGS,
                **extra,
            },
            inputs,
        )
        for name, extra, inputs in (
            (
                "LSTM",
                {"proj_size": (0, 2)},
                lambda: [
                    *recurrent(),
                    (t(5, 2, 4), (t(1, 2, 3), t(1, 2, 3))),
                    (t(5, 4), (t(1, 3), t(1, 3))),
                    (t(5, 4), (t(1, 2, 3), t(1, 2, 3))),
                ],
            ),
            (
                "GRU",
                {},
                lambda: [*recurrent(), (t(5, 2, 4), t(1, 2, 3)), (t(5, 4), t(1, 3))],
            ),
            (
                "RNN",
                {"nonlinearity": ("tanh", "relu")},
                lambda: [*recurrent(), (t(5, 2, 4), t(2, 2, 3)), (t(5, 2, 4), t(1, 3))],
            ),
        )
    },
    **{
        name: (
            (4, 3),
            {"bias": FLAGS, **extra},
            lambda name=name: [
                *[(t(*sizes),) for sizes in ((2, 4), (4,), (1, 2, 4))],
                *[
                    (t(*sizes[:-1], 4), (t(*sizes), t(*sizes)) if name == "LSTMCell" else t(*sizes))
                    for sizes in ((2, 3), (3,), (1, 2, 3))
                ],
            ],
        )
        for name, extra in (
            ("LSTMCell", {}),
            ("GRUCell", {}),
            ("RNNCell", {"nonlinearity": ("tanh", "relu", "oops")}),
        )
    },
}


def recurrent():
    pack = nn.utils.rnn.pack_padded_sequence
    return [
        *[(t(*sizes),) for sizes in ((5, 2, 4), (5, 4), (4,), (5, 2, 3))],
        (pack(t(5, 2, 4), at([5, 3])),),
        (pack(t(5, 2, 4), at([3, 5]), enforce_sorted=False),),
    ]


def states_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def quietly(make, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*args, **kwargs)


def check_layer(module, inputs, where):
    """Compares a module with its compiled form while it trains and when it does not."""
    compiled = quietly(torch.jit.script, module)
    before = states_of(module)
    for training, args in itertools.product(FLAGS, inputs):
        kept = []

        def run(target, *args, kept=kept, training=training):
            target.train(training)
            target.load_state_dict(before)
            try:
                return target(*args)
            finally:
                kept.append(states_of(target))

        wanted, got = check_same(
            lambda *args: run(module, *args), lambda *args: run(compiled, *args), args, {}, where
        )
        assert wanted in got or wanted.startswith("RNN input dtype"), f"{where}: {wanted} {got}"
        if not wanted:
            assert all([torch.equal(kept[0][name], kept[1][name]) for name in before]), where


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    positional, options, inputs = LAYERS[name]
    positional = positional() if callable(positional) else positional
    for kwargs in combinations(options):
        torch.manual_seed(0)
        try:
            module = quietly(getattr(nn, name), *positional, **kwargs)
        except ValueError:
            continue
        check_layer(module, inputs(), f"{name} {kwargs}")


def test_every_layer_is_compared():
    elsewhere = {
        *("Sequential", "MultiheadAttention", "Transformer", "TransformerEncoder"),
        *("TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer"),
    }
    assert {cls.__name__ for cls in layer_forms()} - elsewhere == set(LAYERS)


# -- attention -------------------------------------------------------------------------------------

CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)
MASKS = {
    "none": None,
    "causal": CAUSAL,
    "bool": CAUSAL != 0,
    "other": torch.eye(5),
    "heads": torch.zeros(4, 5, 5),
    "wrong": torch.zeros(3, 3),
    "whole": torch.zeros(5, 5).long(),
}
PADDINGS = {
    "none": None,
    "bool": at([[False] * 5, [False, False, False, True, True]]),
    "float": torch.zeros(2, 5),
    "holes": at([[False] * 5, [False, True, False, True, False]]),
    "wrong": torch.zeros(2, 3),
}


def compare_calls(module, calls, where):
    compiled = quietly(torch.jit.script, module)
    for training, grad in ((True, True), (False, True), (False, False)):
        module.train(training)
        compiled.train(training)
        with torch.set_grad_enabled(grad):
            for args, kwargs in calls:
                shown = f"{where} training={training} grad={grad} {[*kwargs]}"
                wanted, got = check_same(module, compiled, args, kwargs, shown)
                assert wanted in got, f"{shown}: {wanted} {got}"


@pytest.mark.parametrize("batch_first", FLAGS)
@pytest.mark.parametrize(
    "options", combinations({"bias": FLAGS, "add_bias_kv": FLAGS, "add_zero_attn": FLAGS})
)
def test_attention(options, batch_first):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=batch_first, **options)
    x, y = (t(2, 5, 4), t(2, 5, 4)) if batch_first else (t(5, 2, 4), t(5, 2, 4))
    calls = [
        ((x, x, x), {"attn_mask": mask, "key_padding_mask": padding, **flags})
        for mask, padding in itertools.product(MASKS.values(), PADDINGS.values())
        for flags in combinations({"need_weights": FLAGS, "is_causal": FLAGS})
    ]
    calls += [
        ((x, y, y), {}),
        ((x, y, x), {"average_attn_weights": False}),
        ((x[0], y[0], y[0]), {}),
    ]
    calls += [((t(5, 4), t(3, 4), t(3, 4)), {}), ((x, y[0], y), {}), ((x, x, x[:1]), {})]
    compare_calls(module, calls, f"attention {options}")


def test_attention_over_other_sizes():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    calls = [((t(5, 2, 4), t(6, 2, 3), t(6, 2, 5)), {}), ((t(5, 2, 4), t(6, 2, 3), t(4, 2, 5)), {})]
    compare_calls(module, calls, "attention of other sizes")


TRANSFORMERS = [
    {"norm_first": first, "batch_first": batch, "activation": name}
    for first, batch, name in (
        *((False, True, "relu"), (False, False, "gelu"), (True, True, "gelu")),
        (True, False, "relu"),
    )
]


def masked(names, *tensors):
    """Calls with every mask and padding, with and without the hint that a mask is causal."""
    mask, padding, causal = names
    return [
        (tensors, {mask: a, padding: b, causal: c})
        for a, b, c in itertools.product(MASKS.values(), PADDINGS.values(), FLAGS)
    ]


@pytest.mark.parametrize("options", TRANSFORMERS)
def test_encoder(options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, **options)
    x = t(2, 5, 4) if options["batch_first"] else t(5, 2, 4)
    names = ("src_mask", "src_key_padding_mask", "is_causal")
    compare_calls(layer, masked(names, x), f"encoder layer {options}")
    for norm, nested, check in (
        (None, True, True),
        (nn.LayerNorm(4), True, False),
        (None, False, True),
    ):
        encoder = quietly(nn.TransformerEncoder, layer, 2, norm, nested, check)
        calls = masked(("mask", "src_key_padding_mask", "is_causal"), x)
        calls += [((x,), {"mask": mask}) for mask in MASKS.values()]
        compare_calls(encoder, calls, f"encoder {options} {nested} {check}")
        for parameter in encoder.parameters():
            parameter.requires_grad_(False)
        compare_calls(encoder, calls[::3], f"frozen encoder {options} {nested} {check}")
        encoder.requires_grad_(True)


@pytest.mark.parametrize("options", TRANSFORMERS)
def test_decoder(options):
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.5, **options)
    x, y = (t(2, 5, 4), t(2, 5, 4)) if options["batch_first"] else (t(5, 2, 4), t(5, 2, 4))
    own = masked(("tgt_mask", "tgt_key_padding_mask", "tgt_is_causal"), x, y)
    other = masked(("memory_mask", "memory_key_padding_mask", "memory_is_causal"), x, y)
    compare_calls(layer, own[::2] + other[1::3], f"decoder layer {options}")
    for norm in (None, nn.LayerNorm(4)):
        decoder = nn.TransformerDecoder(layer, 2, norm)
        calls = own[::5] + other[::7] + [((x, y), {"tgt_mask": mask}) for mask in MASKS.values()]
        compare_calls(decoder, calls, f"decoder {options}")


@pytest.mark.parametrize("options", TRANSFORMERS)
def test_transformer(options):
    torch.manual_seed(0)
    module = quietly(nn.Transformer, 4, 2, 1, 1, 8, 0.5, **options)
    x, y = (t(2, 5, 4), t(2, 5, 4)) if options["batch_first"] else (t(5, 2, 4), t(5, 2, 4))
    names = ("src_mask", "tgt_mask", "src_key_padding_mask", "tgt_key_padding_mask")
    calls = [((x, y), {})]
    for name in names:
        given = PADDINGS if "padding" in name else MASKS
        calls += [((x, y), {name: mask}) for mask in given.values()]
    calls += [((x, t(5, 3, 4)), {}), ((x, t(2, 5, 3)), {})]
    compare_calls(module, calls, f"transformer {options}")


# -- refusals --------------------------------------------------------------------------------------


def test_layers_without_a_form_say_so():
    for module in (nn.AdaptiveLogSoftmaxWithLoss(16, 6, [2, 4]), nn.LinearCrossEntropyLoss(4, 5)):
        with pytest.raises(RuntimeError, match="cannot be compiled"):
            torch.jit.script(module)
        with pytest.raises(RuntimeError, match="cannot be compiled"):
            torch.jit.script(nn.Sequential(module))


def test_lazy_layers_are_called_first():
    message = "'torch.nn.modules.linear.LazyLinear' has uninitialized parameters weight"
    with pytest.raises(RuntimeError, match=message):
        torch.jit.script(nn.Sequential(nn.LazyLinear(3)))
    module = nn.LazyLinear(3)
    module(t(2, 4))
    assert torch.jit.script(module)(t(2, 4)).shape == (2, 3)
