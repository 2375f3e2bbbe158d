"""The page of how a function becomes machine code."""

from __future__ import annotations

import re

import pytest

import rushlight as torch

pytest.importorskip("llvmlite")


def kernels(page: str) -> list[str]:
    return re.findall(r'<div class="kernel" style=[^>]*><b>(\w+):', page)


def test_forward_and_backward_from_lines_to_instructions() -> None:
    weight = torch.ones(4, requires_grad=True)

    def f(x):
        return (x * weight).exp().sum()

    line = f.__code__.co_firstlineno + 1
    page = torch.viz.native(f)(torch.ones(3, 4))
    assert weight.grad is None
    assert page.startswith("<!doctype html>")
    assert "2 graphs" in page
    forward, backward = page.split("<h2>graph ")[1:]
    assert kernels(forward)[0] == "fused_mul_exp_sum"
    assert "mul" in " ".join(kernels(backward))
    for part in (forward, backward):
        assert f"test_native.py:{line}" in part
        assert "for i0 in range(" in part
        assert "define " in part
        assert "ret" in part.split("machine code")[1]


def test_text_of_programs_cannot_leave_its_place() -> None:
    def f(x):
        return x.sin() + 1  # </pre><script>alert(1)</script>

    page = torch.viz.native(f)(torch.ones(3))
    assert "<script" not in page
    assert kernels(page) == ["fused_sin_add"]


def test_what_has_no_kernel_is_a_page_too() -> None:
    page = torch.viz.native(lambda x: x.sort().values)(torch.ones(3))
    assert "1 graph, 0 kernels" in page
