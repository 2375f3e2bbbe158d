"""stft and istft: round trips, where frames start, messages."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as torch

SIGNAL = torch.arange(20.0).sin()
WINDOW = torch.hann_window(8)


def test_round_trip() -> None:
    spectra = torch.stft(SIGNAL, 8, window=WINDOW, return_complex=True)
    assert spectra.shape == (5, 11) and spectra.stride() == (1, 5)
    back = torch.istft(spectra, 8, window=WINDOW)
    assert np.allclose(back.numpy(), SIGNAL.numpy(), atol=1e-6)
    assert torch.istft(spectra, 8, window=WINDOW, length=12).shape == (12,)


def test_batches_and_methods_agree() -> None:
    both = torch.stack([SIGNAL, SIGNAL.flip(0)])
    whole = both.stft(8, 3, window=WINDOW, return_complex=True)
    single = torch.stft(both[1], 8, 3, window=WINDOW, return_complex=True)
    assert torch.equal(whole[1], single)
    with warnings.catch_warnings():
        # Said once in a process.
        warnings.simplefilter("ignore")
        parts = torch.stft(SIGNAL, 8, window=WINDOW, return_complex=False)
    assert parts.shape == (5, 11, 2) and parts.dtype is torch.float32


def test_aligned_windows_start_with_the_signal() -> None:
    x, weights = torch.arange(1.0, 13.0), torch.tensor([1.0, 2.0, 3.0])
    options = {"window": weights, "center": False, "return_complex": True}
    aligned = torch.stft(x, 6, 2, 3, align_to_window=True, **options)
    assert aligned[0].real.tolist() == [14, 26, 38, 50, 62]
    assert torch.stft(x, 6, 2, 3, **options)[0].real.tolist() == [20, 32, 44, 56]


def test_complex_signals_are_two_sided() -> None:
    found = torch.stft(SIGNAL + 0j, 8, window=WINDOW)
    assert found.shape == (8, 11)
    back = torch.istft(found, 8, window=WINDOW, return_complex=True)
    assert back.dtype is torch.complex64
    with pytest.raises(RuntimeError, match="Cannot have onesided output"):
        torch.stft(SIGNAL + 0j, 8, window=WINDOW, onesided=True)


@pytest.mark.parametrize(
    ("args", "options", "text"),
    [
        ((8,), {}, "stft requires the return_complex parameter be given"),
        ((30,), {"center": False}, "expected 0 < n_fft < 20, but got n_fft=30"),
        ((8, 0), {}, "expected hop_length > 0, but got hop_length=0"),
        ((8, 2, 9), {}, "win_length=9, window=None, normalized=0, onesided=None, return_complex=1"),
        ((8,), {"window": torch.ones(3)}, "window tensor of size equal to win_length=8"),
        ((8,), {"align_to_window": True}, "should only be set when center = false"),
    ],
)
def test_refusals(args: Any, options: Any, text: str) -> None:
    if args != (8,) or options:
        options = {"return_complex": True, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError) as caught:
            torch.stft(SIGNAL, *args, **options)
    assert text in str(caught.value)


def test_inverse_refusals() -> None:
    spectra = torch.stft(SIGNAL, 8, window=WINDOW, return_complex=True)
    with pytest.raises(RuntimeError, match="requires a complex-valued input"):
        torch.istft(torch.view_as_real(spectra), 8, window=WINDOW)
    with pytest.raises(RuntimeError, match="to match n_fft when onesided=False, but got 5"):
        torch.istft(spectra, 8, window=WINDOW, onesided=False)
    with pytest.raises(RuntimeError, match="window overlap add min: 1"):
        torch.istft(spectra, 8, window=torch.zeros(8))
    with pytest.raises(RuntimeError, match="Complex windows are incompatible"):
        torch.istft(spectra, 8, window=WINDOW + 0j)
    with pytest.warns(UserWarning, match="shorter than the length parameter"):
        assert torch.istft(spectra, 8, window=WINDOW, length=40)[-1].item() == 0


def test_gradients_flow_through_both() -> None:
    x = SIGNAL.clone().double().requires_grad_()
    window = WINDOW.double()
    spectra = torch.stft(x, 8, window=window, return_complex=True)
    torch.istft(spectra, 8, window=window).sum().backward()
    assert np.allclose(x.grad.numpy(), 1)
