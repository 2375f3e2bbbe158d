"""Kernels know which operators they compute, and from which lines."""

from __future__ import annotations

import operator

import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.codegen import lower
from rushlight.codegen.loops import Kernel
from rushlight.codegen.reports import fusion_report, memory_report
from tests.codegen.recording import Recording, aten

pytest.importorskip("llvmlite")


def labels(recording: Recording) -> list[str]:
    compiled = lower(recording, recording.inputs)
    return [item.label for item in compiled.schedule if isinstance(item, Kernel)]


def test_a_chain_is_named_after_what_it_computes() -> None:
    r = Recording()
    x, w = r.input(torch.randn(7, 9)), r.input(torch.randn(9))
    rows = r.call(aten.t.default, r.call(aten.mul.Tensor, x, w))
    assert labels(r.output(r.call(aten.sin.default, rows))) == ["fused_mul_sin"]


def test_operands_of_products_and_calls_are_their_own_kernels() -> None:
    r = Recording()
    x, w = r.input(torch.randn(4, 4)), r.input(torch.randn(4, 4))
    product = r.call(aten.mm.default, r.call(aten.exp.default, x), w)
    sorted_ = r.call(aten.sort.default, r.call(aten.cos.default, product))
    r.output(r.call(aten.neg.default, r.call(operator.getitem, sorted_, 0)))
    assert labels(r) == ["fused_exp", "fused_cos", "fused_neg"]


def test_a_view_of_a_pending_value_belongs_to_the_operand() -> None:
    r = Recording()
    x, w = r.input(torch.randn(4, 3)), r.input(torch.randn(4, 4))
    turned = r.call(aten.t.default, r.call(aten.exp.default, x))
    r.output(r.call(aten.relu.default, r.call(aten.mm.default, turned, w)))
    assert labels(r) == ["fused_exp", "fused_relu"]


def test_a_value_with_several_readers_is_computed_by_one() -> None:
    r = Recording()
    x = r.input(torch.randn(6, 5))
    heavy = r.call(aten.exp.default, x)
    rows, columns = (
        r.call(aten.sum.dim_IntList, heavy, [1]),
        r.call(aten.sum.dim_IntList, heavy, [0]),
    )
    r.output(rows, columns, heavy)
    assert sum("exp" in label for label in labels(r)) == 1


def test_long_names_are_cut() -> None:
    r = Recording()
    x = r.input(torch.randn(8))
    for name in ("sin", "cos", "exp", "tanh", "sigmoid", "erf", "neg", "abs", "sqrt", "softplus"):
        x = r.call(getattr(aten, name).default, x)
    x = r.call(aten.leaky_relu.default, x)
    (label,) = labels(r.output(x))
    assert len(label) == 64
    assert label.startswith("fused_sin_cos_exp")


def test_reports() -> None:
    r = Recording()
    x = r.input(torch.randn(64, 32))
    r.output(r.call(aten._softmax.default, r.call(aten.mul.Tensor, x, 2.0), -1, False))
    compiled = lower(r, r.inputs)
    assert fusion_report(compiled) == "fused_mul_softmax: mul, softmax in 3 loops over 64 × 32"
    told = memory_report(compiled)
    assert told.startswith("segment0 (fused_mul_softmax): writes b")
    assert "of 8,192 bytes" in told
    assert "1 temporary value" in told


def test_logs_tell_the_lines_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        y = x.sin() * 3
        return y.sum()

    first = f.__code__.co_firstlineno
    with config.patch(logs="fusion,memory"):
        torch.compile(f)(torch.randn(11, 3))
    told = capsys.readouterr().err
    expected = f"from test_origins.py:{first + 1}, test_origins.py:{first + 2}"
    assert f"[fusion] fused_sin_mul_sum: sin, mul, sum in 1 loop over 11 × 3 {expected}" in told
    assert "[memory] segment0 (fused_sin_mul_sum): writes r" in told
    assert "of 4 bytes" in told
