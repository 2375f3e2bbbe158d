"""Filters, resampling and bands of sound, and their gradients."""

import torch

import julius
from showing import show

torch.manual_seed(0)
sound = torch.randn(2, 400, requires_grad=True)
outcomes = {
    "resampled": julius.resample_frac(sound, 8, 5),
    "low": julius.lowpass_filter(sound, 0.1),
    "low_fft": julius.lowpass_filter(sound, 0.05, fft=True),
    "high": julius.highpass_filter(sound, 0.2, stride=3),
    "band": julius.bandpass_filter(sound, 0.1, 0.3),
    "bands": julius.split_bands(sound, 8000, n_bands=4),
    "fft": julius.fft_conv1d(sound[:, None], torch.randn(3, 1, 32), stride=2, padding=4),
    "longer": julius.core.unfold(sound, 64, 48),
}
for name, out in outcomes.items():
    sound.grad = None
    out.square().mean().backward(retain_graph=True)
    show(**{name: out, f"{name}_grad": sound.grad})
show(mels=julius.core.mel_frequencies(6, 20, 4000))
