"""Spectrograms as layers: STFT and its inverse, mel, MFCC, constant Q, gammatone, trained filters."""

import torch
from nnAudio import features

from showing import gradients, show

torch.manual_seed(0)
wave = torch.randn(2, 8000)
layers = {
    "stft": features.STFT(n_fft=256, hop_length=64, output_format="Magnitude", verbose=False),
    "complex": features.STFT(n_fft=256, output_format="Complex", freq_scale="log", fmin=50, fmax=3000, sr=8000, verbose=False),
    "mel": features.MelSpectrogram(sr=8000, n_fft=256, n_mels=20, hop_length=64, verbose=False),
    "mfcc": features.MFCC(sr=8000, n_mfcc=13, n_fft=256, n_mels=20, verbose=False),
    "cqt": features.CQT1992v2(sr=8000, fmin=110, n_bins=24, hop_length=64, verbose=False),
    "cqt2010": features.CQT2010v2(sr=8000, fmin=110, n_bins=24, hop_length=64, verbose=False),
    "vqt": features.VQT(sr=8000, fmin=110, n_bins=24, hop_length=64, verbose=False),
    "gamma": features.Gammatonegram(sr=8000, n_fft=256, n_bins=16, hop_length=64, verbose=False),
    "short": features.STFT(n_fft=128, verbose=False),
}  # fmt: skip
for name, layer in layers.items():
    show(**{name: layer(wave)})
inverse = features.STFT(n_fft=256, hop_length=64, iSTFT=True, verbose=False)
spec = inverse(wave, output_format="Complex")
show(back=inverse.inverse(spec, onesided=True, length=8000))
trained = features.MelSpectrogram(
    sr=8000, n_fft=256, n_mels=20, trainable_mel=True, trainable_STFT=True, verbose=False
)
step = torch.optim.Adam(trained.parameters(), 1e-3)
for _ in range(3):
    step.zero_grad()
    loss = trained(wave).log1p().mean()
    loss.backward()
    step.step()
    show(loss=loss, gradients=gradients(trained))
