"""Compiled forms of `nn` and `nn.functional` do what Python does, for every combination of options.

A form and its Python are compared in what they give, what they warn of, what they refuse, what they
write to their inputs, and what they draw.
"""

from __future__ import annotations

import inspect
import itertools

import pytest

import rushlight as torch
from rushlight.jit.scripting.library import function_forms
from tests.jit.comparing import FLAGS, at, check_same, combinations, t

nn = torch.nn
F = nn.functional


NONE_MEAN_SUM = ("mean", "sum", "none", "elementwise_mean", "oops")
OLD = {"size_average": (None, True, False), "reduce": (None, True, False)}
REDUCED = {**OLD, "reduction": NONE_MEAN_SUM}
CHANCES = {"p": (0.0, 0.5, 1.5), "training": FLAGS, "inplace": FLAGS}


def pairs():
    return [(t(3, 4), t(3, 4)), (t(3, 4), t(4))]


def lists(*cases):
    return lambda: list(cases)


# Name -> (a list of positional arguments, the values of each option).
FUNCTIONS = {
    **{
        name: (lambda: [(t(3, 4),)], {"inplace": FLAGS})
        for name in ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid")
    },
    "elu": (lambda: [(t(3, 4),)], {"alpha": (1.0, 0.5), "inplace": FLAGS}),
    "celu": (lambda: [(t(3, 4),)], {"alpha": (1.0, 0.5), "inplace": FLAGS}),
    "leaky_relu": (lambda: [(t(3, 4),)], {"negative_slope": (0.01, 2.0), "inplace": FLAGS}),
    "rrelu": (lambda: [(t(3, 4),)], {"training": FLAGS, "inplace": FLAGS, "lower": (0.1, 0.2)}),
    "hardtanh": (
        lambda: [(t(3, 4),)],
        {"min_val": (-1.0, 2.0), "max_val": (1.0, 3.0), "inplace": FLAGS},
    ),
    "threshold": (lambda: [(t(3, 4), 0.1, 2.0)], {"inplace": FLAGS}),
    "glu": (lambda: [(t(4, 4),), (at(1.0),), (t(3, 3),)], {"dim": (-1, 0)}),
    "sigmoid": (lambda: [(t(3, 4),)], {}),
    "tanh": (lambda: [(t(3, 4),)], {}),
    "softsign": (lambda: [(t(3, 4),)], {}),
    "tanhshrink": (lambda: [(t(3, 4),)], {}),
    **{
        name: (
            lambda: [(t(4),), (t(3, 4),), (t(2, 3, 4),), (t(2, 2, 3, 4),), (at(1.0),)],
            {"dim": (None, 0, -1), "dtype": (None, torch.float64)},
        )
        for name in ("softmax", "softmin", "log_softmax")
    },
    "gumbel_softmax": (
        lambda: [(t(3, 4),)],
        {"tau": (1.0, 0.5), "hard": FLAGS, "eps": (1e-10, 1e-3), "dim": (-1, 0)},
    ),
    "dropout": (lambda: [(t(3, 4),)], CHANCES),
    "alpha_dropout": (lambda: [(t(3, 4),)], CHANCES),
    "feature_alpha_dropout": (lambda: [(t(3, 4, 5),)], CHANCES),
    "dropout1d": (lambda: [(t(4, 5),), (t(3, 4, 5),), (t(4),), (t(2, 3, 4, 5),)], CHANCES),
    "dropout2d": (lambda: [(t(4, 5),), (t(3, 4, 5),), (t(2, 3, 4, 5),)], CHANCES),
    "dropout3d": (lambda: [(t(3, 4, 5),), (t(2, 3, 4, 5),), (t(2, 3, 2, 2, 2),)], CHANCES),
    "embedding": (
        lambda: [(at([1, 0, 3]), t(5, 3))],
        {
            "padding_idx": (None, 0, 2, -1, 7, -7),
            "max_norm": (None, 1.0),
            "norm_type": (2.0, 1.0),
            "scale_grad_by_freq": FLAGS,
        },
    ),
    "embedding_bag": (
        lambda: [
            (at([1, 0, 3]), t(5, 3), at([0, 1])),
            (at([[1, 0], [3, 2]]), t(5, 3)),
            (at([[1, 0], [3, 2]]), t(5, 3), at([0, 1])),
            (at([1, 0, 3]), t(5, 3)),
            (at([1, 0, 3]), t(5), at([0, 1])),
            (t(5, 3), at([1, 0, 3]), at([0, 1])),
            (at([[[1, 0, 3]]]), t(5, 3), at([0, 1])),
            (at([1, 0, 3]), t(5, 3), at([[0, 1]])),
        ],
        {
            "mode": ("sum", "mean", "max", "oops"),
            "max_norm": (None, 1.0),
            "per_sample_weights": (None, at([0.5, 1.0, 2.0])),
            "include_last_offset": FLAGS,
            "padding_idx": (None, 0),
            "scale_grad_by_freq": FLAGS,
        },
    ),
    "batch_norm": (
        lambda: [(t(rows, 4), torch.zeros(4), torch.ones(4)) for rows in (3, 1)],
        {
            "weight": (None, torch.full((4,), 2.0)),
            "bias": (None, torch.full((4,), 2.0)),
            "training": FLAGS,
            "momentum": (0.1, 0.5),
        },
    ),
    "instance_norm": (
        lambda: [(t(3, 4, 5),), (t(3, 4, 1),), (t(3, 4, 5), torch.zeros(4), torch.ones(4))],
        {"weight": (None, torch.full((4,), 2.0)), "use_input_stats": FLAGS},
    ),
    "layer_norm": (
        lambda: [(t(3, 4), [4]), (t(3, 4), [3, 4])],
        {"weight": (None, torch.full((4,), 2.0)), "eps": (1e-5, 1.0)},
    ),
    "rms_norm": (
        lambda: [(t(3, 4), [4])],
        {"weight": (None, torch.full((4,), 2.0)), "eps": (None, 1.0)},
    ),
    "group_norm": (
        lambda: [(t(3, 4, 2), 2), (t(1, 4), 4), (t(4), 2), (t(3, 4, 2), 0)],
        {"weight": (None, torch.full((4,), 2.0)), "eps": (1e-5, 1.0)},
    ),
    "local_response_norm": (
        lambda: [(t(2, 5, 3), 2), (t(2, 5, 3, 3), 3), (t(2, 5), 2), (t(0, 5, 3), 2)],
        {"alpha": (1e-4, 0.5), "beta": (0.75, 2.0), "k": (1.0, 2.0)},
    ),
    "normalize": (
        lambda: [(t(3, 4),), (torch.zeros(2, 2),)],
        {"p": (2.0, 1.0), "dim": (1, 0), "eps": (1e-12, 2.0)},
    ),
    "adaptive_avg_pool2d": (lambda: [(t(2, 4, 6), [2, 3]), (t(4, 6), [2, 3])], {}),
    "adaptive_avg_pool3d": (lambda: [(t(2, 4, 6, 3), [2, 3, 1])], {}),
    **{
        f"lp_pool{n}d": (
            lambda n=n: [
                (t(2, 2, *[6] * n), 2.0, [2] * n),
                (t(2, 2, *[6] * n), 3, [2] * n),
                (t(2, 2, *[6] * n), float("inf"), [2] * n),
                (t(2, 2, *[6] * n), -float("inf"), [3] * n),
            ],
            {"stride": (None, [1] * n), "ceil_mode": FLAGS},
        )
        for n in (1, 2, 3)
    },
    "max_unpool1d": (
        lambda: [(t(1, 1, 2), at([[[1, 3]]]), [2]), (t(1, 1, 2), at([[[1, 3]]]), [2], [2], [1])],
        {"output_size": (None, [5], [1, 1, 5], [9], [1, 2])},
    ),
    "max_unpool2d": (
        lambda: [(t(1, 1, 1, 2), at([[[[1, 3]]]]), [2, 2])],
        {"stride": (None, [2, 2]), "output_size": (None, [2, 5], [1, 1, 3, 4], [2, 9], [1])},
    ),
    "max_unpool3d": (
        lambda: [(t(1, 1, 1, 1, 2), at([[[[[1, 3]]]]]), [2, 2, 2])],
        {"output_size": (None, [2, 3, 5], [9, 2, 2])},
    ),
    "cross_entropy": (
        lambda: [(t(3, 4), at([1, 0, 3])), (t(3, 4), t(3, 4).softmax(1))],
        {
            **REDUCED,
            "weight": (None, at([0.5, 1.0, 2.0, 1.0])),
            "label_smoothing": (0.0, 0.1),
        },
    ),
    "nll_loss": (
        lambda: [(t(3, 4), at([1, 0, 3])), (t(4), at([1, 2])), (t(4), at(1))],
        {**REDUCED, "ignore_index": (-100, 0), "weight": (None, at([0.5, 1.0, 2.0, 1.0]))},
    ),
    "mse_loss": (pairs, {**REDUCED, "weight": (None, torch.full((3, 4), 2.0), torch.ones(4))}),
    "l1_loss": (pairs, {**REDUCED, "weight": (None, torch.full((3, 4), 2.0), torch.ones(4))}),
    "smooth_l1_loss": (pairs, {**REDUCED, "beta": (1.0, 0.0, 0.5)}),
    "huber_loss": (
        pairs,
        {"reduction": NONE_MEAN_SUM, "delta": (1.0, 0.5), "weight": (None, torch.ones(3, 4) * 2)},
    ),
    "binary_cross_entropy": (
        lambda: [(torch.rand(3, 4), torch.rand(3, 4)), (torch.rand(3, 4), torch.rand(4))],
        {**REDUCED, "weight": (None, torch.full((4,), 2.0), torch.ones(3, 4))},
    ),
    "binary_cross_entropy_with_logits": (
        pairs,
        {**REDUCED, "weight": (None, torch.ones(4) * 2), "pos_weight": (None, torch.ones(4) * 3)},
    ),
    "kl_div": (
        lambda: [(t(3, 4), torch.rand(3, 4)), (at(1.0), at(2.0))],
        {**OLD, "reduction": (*NONE_MEAN_SUM, "batchmean"), "log_target": FLAGS},
    ),
    "ctc_loss": (
        lambda: [(t(5, 2, 4).log_softmax(2), at([[1, 2], [1, 3]]), at([5, 4]), at([2, 1]))],
        {"reduction": NONE_MEAN_SUM, "zero_infinity": FLAGS, "blank": (0, 3)},
    ),
    "poisson_nll_loss": (
        lambda: [(torch.rand(3, 4), torch.rand(3, 4) * 5)],
        {**REDUCED, "log_input": FLAGS, "full": FLAGS, "eps": (1e-8, 1.0)},
    ),
    "gaussian_nll_loss": (
        lambda: [
            (t(3, 4), t(3, 4), torch.rand(3, 4)),
            (t(3, 4), t(3, 4), torch.rand(3)),
            (t(3, 4), t(3, 4), torch.rand(3, 1)),
            (t(3, 4), t(3, 4), torch.rand(1, 1)),
            (t(3, 4), t(3, 4), torch.rand(2, 4)),
            (t(3, 4), t(3, 4), -torch.rand(3, 4)),
            (t(3, 4), t(3, 4), 0.5),
            (t(3, 4), t(3, 4), -0.5),
        ],
        {"full": FLAGS, "eps": (1e-6, 0.5), "reduction": NONE_MEAN_SUM},
    ),
    "hinge_embedding_loss": (pairs, {**REDUCED, "margin": (1.0, 2.0)}),
    "multilabel_margin_loss": (
        lambda: [(t(3, 4), at([[3, 0, -1, 1]] * 3))],
        REDUCED,
    ),
    "soft_margin_loss": (pairs, REDUCED),
    "multilabel_soft_margin_loss": (pairs, {**REDUCED, "weight": (None, torch.full((4,), 2.0))}),
    "margin_ranking_loss": (
        lambda: [(t(3, 4), t(3, 4), torch.ones(3, 4)), (t(3, 4), t(3, 4), torch.ones(4))],
        {**REDUCED, "margin": (0.0, 0.5)},
    ),
    "cosine_embedding_loss": (
        lambda: [(t(3, 4), t(3, 4), at([1, -1, 1]))],
        {**REDUCED, "margin": (0.0, 0.5)},
    ),
    "multi_margin_loss": (
        lambda: [(t(3, 4), at([1, 0, 3]))],
        {
            **REDUCED,
            "p": (1, 2, 3),
            "margin": (1.0, 0.5),
            "weight": (None, at([0.5, 1.0, 2.0, 1.0]), torch.ones(1, 4)),
        },
    ),
    "triplet_margin_loss": (
        lambda: [(t(3, 4), t(3, 4), t(3, 4))],
        {**REDUCED, "margin": (1.0, -1.0), "p": (2.0, 1.0), "swap": FLAGS},
    ),
    "unfold": (lambda: [(t(1, 2, 5, 5), [2, 3])], {"padding": (0, [1, 1]), "stride": ([1, 2], 2)}),
    "fold": (lambda: [(t(1, 8, 12), [4, 5], [2, 2])], {"dilation": ([1, 1],)}),
    "pad": (
        lambda: [(t(1, 2, 5, 5), [1, 2]), (t(1, 2, 5, 5), [1, 2, 0, 1])],
        {"mode": ("constant", "reflect", "replicate", "circular", "oops"), "value": (None, 2.0)},
    ),
    "grid_sample": (
        lambda: [(t(1, 2, 4, 4), torch.rand(1, 3, 3, 2))],
        {
            "mode": ("bilinear", "nearest", "bicubic", "oops"),
            "padding_mode": ("zeros", "border", "reflection", "oops"),
            "align_corners": (None, False, True),
        },
    ),
    "affine_grid": (
        lambda: [
            (t(1, 2, 3), [1, 1, 2, 2]),
            (t(1, 2, 3), [1, 1, 1, 2]),
            (t(1, 3, 4), [1, 1, 2, 2, 2]),
            (t(1, 2, 3), [1, 1, 2]),
            (t(2, 3), [1, 1, 2, 2]),
            (t(1, 2, 3), [1, 1, 0, 2]),
        ],
        {"align_corners": (None, False, True)},
    ),
}


# Messages of compiled code that say it in other words: names of dtypes, numbers as they print.
OTHER_WORDS = ("RNN input dtype", "Expected theta")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    make, options = FUNCTIONS[name]
    function = getattr(F, name)
    compiled = torch.jit.script(function)
    torch.manual_seed(0)
    for number, args in enumerate(make()):
        for kwargs in combinations(options):
            where = f"{name} case {number} {kwargs}"
            wanted, got = check_same(function, compiled, args, kwargs, where)
            assert wanted in got or wanted.startswith(OTHER_WORDS), f"{where}: {wanted} {got}"


def test_every_function_is_compared():
    known = {function.__name__ for function in function_forms()}
    elsewhere = {
        # Of packed sequences and attention: below.
        *("invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence"),
        *("unpad_sequence", "pack_sequence", "unpack_sequence", "multi_head_attention_forward"),
        # Chosen by a flag: below.
        *("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"),
        *("adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices"),
        *("adaptive_max_pool3d_with_indices", "fractional_max_pool2d_with_indices"),
        "fractional_max_pool3d_with_indices",
        # Of several signatures: below, and in tests/libraries.
        *("_assert", "tensordot"),
        *("interpolate", "upsample", "upsample_nearest", "upsample_bilinear"),
    }
    assert known - elsewhere == set(FUNCTIONS)


def test_signatures_agree():
    for function, form in function_forms().items():
        wanted, got = inspect.signature(function), inspect.signature(form)
        # torch: compiled code has no out=.
        names = [name for name in wanted.parameters if name != "out" or name in got.parameters]
        assert names == list(got.parameters), function.__name__
        for name in names:
            parameter = wanted.parameters[name]
            assert got.parameters[name].default == parameter.default, (function.__name__, name)


# -- functions that are called from compiled code only ---------------------------------------------

Tensor = torch.Tensor


def interpolate_by_numbers(
    x: Tensor,
    size: int | None,
    scale_factor: float | None,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
):
    return F.interpolate(
        x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


def interpolate_by_lists(
    x: Tensor,
    size: list[int] | None,
    scale_factor: list[float] | None,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
):
    return F.interpolate(
        x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


@pytest.mark.parametrize(
    ("program", "sizes", "factors"),
    [
        (interpolate_by_numbers, (None, 5), (None, 1.5)),
        (interpolate_by_lists, (None, [5], [5, 6]), (None, [1.5], [2.0, 0.5])),
    ],
)
def test_interpolate(program, sizes, factors):
    compiled = torch.jit.script(program)
    options = {
        "size": sizes,
        "scale_factor": factors,
        "mode": (
            *("nearest", "linear", "bilinear", "trilinear", "bicubic", "area"),
            *("nearest-exact", "lanczos", "oops"),
        ),
        "align_corners": (None, False, True),
        "recompute_scale_factor": (None, True),
        "antialias": FLAGS,
    }
    for x in (t(1, 2, 4), t(1, 2, 4, 4), t(1, 1, 3, 3, 3), t(4, 4)):
        for kwargs in combinations(options):
            where = f"interpolate {tuple(x.shape)} {kwargs}"
            wanted, got = check_same(program, compiled, (x,), kwargs, where)
            assert wanted in got, where


def older_names(x: Tensor, size: list[int] | None, factor: float | None):
    a = F.upsample(x, size, factor)
    b = F.upsample(x, size, factor, mode="bilinear", align_corners=True)
    return a, b, F.upsample_nearest(x, size, factor), F.upsample_bilinear(x, size, factor)


def test_older_names_of_interpolate():
    compiled = torch.jit.script(older_names)
    for args in ((t(1, 2, 4, 4), [5, 3], None), (t(1, 2, 4, 4), None, 2.0)):
        check_same(older_names, compiled, args, {}, "upsample")


def pooled(x: Tensor, ceil: bool):
    a = F.max_pool1d(x[0], 2), F.max_pool1d(x[0], [3], [1], 1, 1, ceil)
    b = F.max_pool1d(x[0], 2, return_indices=True)
    c = F.max_pool2d(x, 2), F.max_pool2d(x, (3, 2), 1, (1, 0), 1, ceil, True)
    d = F.max_pool3d(x, 2), F.max_pool3d(x, 2, return_indices=True)
    e = F.adaptive_max_pool1d(x[0], 2), F.adaptive_max_pool1d(x[0], 2, True)
    f = F.adaptive_max_pool2d(x, 2), F.adaptive_max_pool2d(x, [1, 2], return_indices=True)
    g = F.adaptive_max_pool3d(x, 2), F.adaptive_max_pool3d(x, [1, 2, 2], return_indices=True)
    return a, b, c, d, e, f, g


def fractional(x: Tensor):
    a = F.fractional_max_pool2d(x, 2, 3), F.fractional_max_pool2d(x, 2, [2, 3], None, True)
    b = F.fractional_max_pool2d(x, (2, 3), output_ratio=(0.5, 0.6))
    c = F.fractional_max_pool3d(x, 2, 2), F.fractional_max_pool3d(x, 1, None, 0.5, True)
    return a, b, c


def test_pooling_by_flag():
    x = t(2, 6, 6, 6)
    for ceil in FLAGS:
        check_same(pooled, torch.jit.script(pooled), (x, ceil), {}, "pooled")
    check_same(fractional, torch.jit.script(fractional), (x,), {}, "fractional")


def packed(x: Tensor, lengths: Tensor, batch_first: bool, is_sorted: bool, total: int | None):
    rnn = nn.utils.rnn
    sequence = rnn.pack_padded_sequence(x, lengths, batch_first, is_sorted)
    steps = rnn.unpack_sequence(sequence)
    again = rnn.pack_sequence(steps, is_sorted)
    padded = rnn.pad_sequence(steps, batch_first, 2.0)
    cut = rnn.unpad_sequence(padded, lengths, batch_first)
    back = rnn.pad_packed_sequence(sequence, batch_first, -1.0, total)
    inverse = rnn.invert_permutation(sequence.sorted_indices)
    return sequence, steps, again, padded, cut, back, inverse


def test_packed_sequences():
    compiled = torch.jit.script(packed)
    for lengths, batch_first, is_sorted, total in itertools.product(
        (at([4, 2, 1]), at([2, 4, 1]), at([4, 0, 1])), FLAGS, FLAGS, (None, 2, 6)
    ):
        x = t(3, 4, 2) if batch_first else t(4, 3, 2)
        args = (x, lengths, batch_first, is_sorted, total)
        wanted, got = check_same(packed, compiled, args, {}, f"packed {args[1:]}")
        assert wanted in got
