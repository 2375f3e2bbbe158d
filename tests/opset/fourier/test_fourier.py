"""torch.fft: precision, memory, messages, and what samples do not reach."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as torch


def close(found: Any, wanted: Any) -> bool:
    return bool(np.allclose(found.resolve_conj().numpy(), wanted, rtol=1e-5, atol=1e-5))


def test_round_trips() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    assert close(torch.fft.ifft(torch.fft.fft(x)), x.numpy())
    assert close(torch.fft.irfft(torch.fft.rfft(x, dim=0), 3, 0), x.numpy())
    assert close(torch.fft.irfftn(torch.fft.rfftn(x), (3, 4)), x.numpy())
    assert close(torch.fft.hfft(torch.fft.ihfft(x), 4), x.numpy())
    assert close(torch.fft.ifftshift(torch.fft.fftshift(x)), x.numpy())


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_precision_is_kept(kind: str) -> None:
    found = torch.fft.rfft(torch.ones(4, dtype=getattr(torch, kind)))
    assert found.dtype is {"float32": torch.complex64, "float64": torch.complex128}[kind]
    assert torch.fft.irfft(found).dtype is getattr(torch, kind)
    assert torch.fft.fft(torch.ones(3, dtype=torch.int64)).dtype is torch.complex64


def test_transformed_dims_lie_innermost() -> None:
    x = torch.zeros(2, 3, 4)
    assert torch.fft.fft(x, dim=0).stride() == (1, 8, 2)
    assert torch.fft.rfftn(x, dim=(0, 1)).stride() == (2, 1, 4)
    assert torch.fft.fftn(torch.zeros(4, 3).t()).stride() == (1, 3)
    assert torch.fft.fft(x.to("meta"), dim=0).stride() == (1, 8, 2)


def test_only_some_inverses_are_conjugated_views() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.fft.ihfft(x).is_conj() and torch.fft.ifft(x).is_conj()
    assert not torch.fft.ihfftn(x).is_conj()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: torch.fft.fft(x, 0), RuntimeError, "Invalid number of data points (0)"),
        (lambda x: torch.fft.fft(x, norm="big"), RuntimeError, 'normalization mode: "big"'),
        (lambda x: torch.fft.fft(x.half()), RuntimeError, "Unsupported dtype Half"),
        (lambda x: torch.fft.rfft(x + 0j), RuntimeError, "rfft expects a real input tensor"),
        (lambda x: torch.fft.fftn(x, dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
        (lambda x: torch.fft.rfftn(x, dim=()), RuntimeError, "must transform at least one axis"),
        (lambda x: torch.fft.fft(x[0, 0]), IndexError, "tensor has no dimensions"),
        (lambda x: torch.fft.fft2(x[0]), IndexError, "Dimension out of range"),
        (
            lambda x: torch.fft.fft(x, out=torch.empty(3, 4)),
            RuntimeError,
            "fft expects a complex output tensor, but got Float",
        ),
        (
            lambda x: torch.fft.irfft(x, out=torch.empty(0, dtype=torch.complex64)),
            RuntimeError,
            "irfft expects a floating point output tensor, but got ComplexFloat",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call(torch.ones(3, 4))
    assert text in str(caught.value)


def test_out_is_resized_and_may_be_wider() -> None:
    out = torch.empty(0, dtype=torch.complex128)
    assert torch.fft.rfft(torch.ones(4), out=out) is out
    assert out.tolist() == [4, 0, 0]


def test_frequencies() -> None:
    assert torch.fft.fftfreq(5, 0.5).tolist() == pytest.approx([0, 0.4, 0.8, -0.8, -0.4])
    assert torch.fft.rfftfreq(4).tolist() == [0, 0.25, 0.5]
    assert torch.fft.fftfreq(0).shape == (0,)
    assert math.isnan(torch.fft.rfftfreq(0).item())
    assert torch.fft.fftfreq(3, requires_grad=True).requires_grad


def test_gradient_of_half_a_spectrum() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 5.0], dtype=torch.float64, requires_grad=True)
    power = torch.fft.rfft(x).abs().square().sum()
    (grad,) = torch.autograd.grad(power, x)
    # By hand: 2 Re sum_k conj(X_k) exp(-i k n) over the half that is there.
    spectrum = np.fft.rfft(x.detach().numpy())
    turns = np.exp(-2j * np.pi * np.outer(np.arange(3), np.arange(4)) / 4)
    assert close(grad, 2 * (spectrum.conj() @ turns).real)


def test_batches() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert close(torch.vmap(torch.fft.fft)(x), torch.fft.fft(x).numpy())
    moved = torch.vmap(lambda v: torch.fft.rfft(v, dim=0), in_dims=1)(x)
    assert close(moved, torch.fft.rfft(x.movedim(1, 0), dim=1).numpy())


def test_module_lists_its_functions() -> None:
    assert {"fft", "ihfftn", "rfftfreq"} <= set(dir(torch.fft))
    with pytest.raises(AttributeError):
        torch.fft.dct
