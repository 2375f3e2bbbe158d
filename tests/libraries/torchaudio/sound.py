"""Filters, spectrograms, effects and losses of sound, and their gradients."""

import torch
import torchaudio.functional as F
import torchaudio.transforms as T
from showing import gradients, show
from torchaudio.models import Conformer, ConvTasNet, wav2vec2_model

torch.manual_seed(0)
sound = (torch.randn(2, 800) * 0.3).requires_grad_()
effects = {
    "lowpass": lambda: F.lowpass_biquad(sound, 8000, 1000.0),
    "equalizer": lambda: F.equalizer_biquad(sound, 8000, 1200.0, 3.0),
    "filtered": lambda: F.lfilter(
        sound, torch.tensor([1.0, -0.4, 0.1]), torch.tensor([0.2, 0.3, 0.1])
    ),
    "resampled": lambda: F.resample(sound, 8000, 6000),
    "spectrogram": lambda: T.Spectrogram(n_fft=64)(sound),
    "mel": lambda: T.MelSpectrogram(8000, n_fft=128, n_mels=16)(sound),
    "coefficients": lambda: T.MFCC(8000, n_mfcc=8, melkwargs={"n_fft": 128, "n_mels": 16})(sound),
    "decibels": lambda: T.AmplitudeToDB(top_db=60)(T.Spectrogram(n_fft=64)(sound)),
    "stretched": lambda: T.TimeStretch(n_freq=33, fixed_rate=1.2)(
        T.Spectrogram(n_fft=64, power=None)(sound)
    ).abs(),
    "shifted": lambda: F.pitch_shift(sound, 8000, 12, n_fft=128),
    "again": lambda: F.griffinlim(
        T.Spectrogram(n_fft=64)(sound), torch.hann_window(64), 64, 32, 64, 2.0, 3, 0.9, 800, False
    ),
    "mu": lambda: F.mu_law_decoding(F.mu_law_encoding(sound, 64), 64),
    "deltas": lambda: F.compute_deltas(sound[None]),
}
for name, effect in effects.items():
    torch.manual_seed(1)
    sound.grad = None
    out = effect()
    show(**{name: out})
    if out.requires_grad:
        out.square().mean().backward()
        show(**{f"{name}_grad": sound.grad})
show(overdrive=F.overdrive(sound.detach().clamp(-1, 1)), phaser=F.phaser(sound.detach(), 8000))
show(
    vad=F.vad(sound.detach(), 8000),
    pitch=F.detect_pitch_frequency(sound.detach(), 8000, win_length=5),
)
masking = torch.nn.Sequential(T.FrequencyMasking(8), T.TimeMasking(6))
torch.manual_seed(2)
show(masked=masking(torch.rand(2, 20, 30)))
for name, model, inputs in (
    ("conformer", Conformer(16, 2, 32, 1, 3), (torch.randn(2, 12, 16), torch.tensor([12, 9]))),
    ("tasnet", ConvTasNet(2, 8, 16, 3, 8, 16, 2, 1), (torch.randn(1, 1, 160),)),
):
    out = model(*inputs)
    out = out[0] if isinstance(out, tuple) else out
    out.square().mean().backward()
    show(**{name: out, f"{name}_gradients": gradients(model)})
