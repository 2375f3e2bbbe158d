"""Quantised tensors and what computes with them, beside what torch gives (recorded)."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base.errors import MissingFeature

RECORDED = json.loads((Path(__file__).parent / "recorded" / "quantized.json").read_text())


def world():
    torch.manual_seed(3)
    r = torch.randn
    x = r(3, 4)
    q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    image = torch.quantize_per_tensor(r(1, 2, 4, 4), 0.1, 20, torch.quint8)
    many = r(200)
    w = r(3, 4)
    bias = r(3)
    h = r(3, 5)
    c = r(3, 5)

    def packed(w):
        q, sums, scale, zero = torch.fbgemm_linear_quantize_weight(w)
        return q, torch.fbgemm_pack_quantized_matrix(q), sums, scale, zero

    def both(wi, wh, b):
        one, two = packed(wi), packed(wh)
        return (
            one[0],
            two[0],
            b,
            b * 0.5,
            one[1],
            two[1],
            one[2],
            two[2],
            one[3],
            two[3],
            one[4],
            two[4],
        )

    def observed(rows, even):
        n = 3 if rows else 1
        low, high = torch.full((n,), float("inf")), torch.full((n,), -float("inf"))
        scale, zero = torch.ones(n), torch.zeros(n, dtype=torch.int32)
        on = torch.tensor([1])
        made = [
            torch.fused_moving_avg_obs_fake_quant(
                v,
                on,
                on,
                low,
                high,
                scale,
                zero,
                0.1,
                *((-128, 127) if even else (0, 255)),
                0,
                rows,
                even,
            )
            for v in (x, 2 * x)
        ]
        return [*made, low, high, scale, zero]

    made = dict(
        torch=torch,
        x=x,
        q=q,
        image=image,
        many=many,
        w=w,
        bias=bias,
        h=h,
        c=c,
        packed=packed,
        both=both,
        observed=observed,
    )
    for n in (1, 3, 4):
        made.update({f"wi{n}": r(5 * n, 4), f"wh{n}": r(5 * n, 5), f"b{n}": r(5 * n)})
    return made


def show(v):
    if isinstance(v, torch.Tensor):
        if v.is_quantized:
            d = {
                "dtype": str(v.dtype),
                "ints": v.int_repr().tolist(),
                "floats": v.dequantize().tolist(),
            }
            if "tensor" in str(v.qscheme()):
                d["scale"] = [v.q_scale(), v.q_zero_point()]
            else:
                d["scale"] = [
                    v.q_per_channel_scales().tolist(),
                    v.q_per_channel_zero_points().tolist(),
                    v.q_per_channel_axis(),
                ]
            return d
        return v.tolist()
    if isinstance(v, (list, tuple)):
        return [show(e) for e in v]
    return v


def near(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            near(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            near(one, other)
    else:
        assert found == (
            pytest.approx(expected, rel=1e-5, abs=1e-6) if isinstance(expected, float) else expected
        )


@pytest.mark.parametrize("name", RECORDED)
def test_values_are_torchs(name):
    near(show(eval(RECORDED[name]["program"], world())), RECORDED[name]["gives"])


def test_ordinary_tensors_have_no_scale():
    with pytest.raises(NotImplementedError, match="aten::q_scale"):
        torch.ones(2).q_scale()
    by_rows = torch.quantize_per_channel(
        torch.ones(2, 2), torch.ones(2), torch.zeros(2, dtype=torch.int64), 0, torch.qint8
    )
    with pytest.raises(RuntimeError, match="kPerTensorAffine"):
        by_rows.q_scale()
    with pytest.raises(RuntimeError, match="uniformly quantized"):
        by_rows.t()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((torch.ones(2).double(), 0.1, 0, torch.qint8), "Float Tensor, got Double"),
        ((torch.ones(2), 0.1, 0, torch.int8), "Char is not supported"),
        ((torch.ones(2), 0.1, 300, torch.quint8), "above upper bound"),
        ((torch.ones(2), 0.1, -1, torch.quint8), "below lower bound"),
    ],
)
def test_wrong_calls(given, words):
    with pytest.raises(RuntimeError, match=words):
        torch.quantize_per_tensor(*given)


def test_an_op_without_a_rule_refuses_and_says_what_to_do():
    q = world()["q"]
    with pytest.raises(MissingFeature, match=r"add on quantised tensors \(RL0012\).*dequantize"):
        q + q


def test_copies_are_of_their_own():
    q = world()["q"]
    for other in (copy.deepcopy(q), pickle.loads(pickle.dumps(q)), q.clone()):
        assert torch.equal(q, other)
        other.fill_(0.3)
        assert not torch.equal(q, other)


def test_views_share_memory():
    q = world()["q"]
    q[1].fill_(0.5)
    assert q.dequantize()[1].tolist() == pytest.approx([0.5] * 4)


def test_one_number_keeps_its_shape():
    q = torch.quantize_per_tensor(torch.tensor([[0.5, 1.0]]), 0.1, 5, torch.quint8)
    one = q[0][0]
    for made in (
        torch.relu(one),
        torch.clamp(one, 0.0, 0.5),
        torch.ops.quantized.add(one, one, 0.1, 5),
        torch.nn.functional.relu6(one),
    ):
        assert made.shape == ()
    assert q.ravel().shape == (2,)
