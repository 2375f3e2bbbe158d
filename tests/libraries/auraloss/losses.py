"""Losses of sound by auraloss, with gradients."""

import auraloss
import numpy
import torch

from showing import show

torch.manual_seed(0)
a, b = torch.randn(2, 1, 8000), torch.randn(2, 1, 8000)
stereo = torch.randn(2, 2, 8000)
losses = {
    "esr": auraloss.time.ESRLoss(), "dc": auraloss.time.DCLoss(), "logcosh": auraloss.time.LogCoshLoss(),
    "snr": auraloss.time.SNRLoss(), "sisdr": auraloss.time.SISDRLoss(), "sdsdr": auraloss.time.SDSDRLoss(),
    "stft": auraloss.freq.STFTLoss(fft_size=256, hop_size=64, win_length=256),
    "mrstft": auraloss.freq.MultiResolutionSTFTLoss(
        fft_sizes=[256, 512], hop_sizes=[64, 128], win_lengths=[256, 512]
    ),
}  # fmt: skip
for name, loss in losses.items():
    x = a.clone().requires_grad_()
    value = loss(x, b)
    value.backward()
    show(**{name: value, f"{name}_grad": x.grad})
torch.manual_seed(1)
random = auraloss.freq.RandomResolutionSTFTLoss(resolutions=2, min_fft_size=64, max_fft_size=512)
numpy.random.seed(0)
show(random=random(a, b))
summed = auraloss.freq.SumAndDifferenceSTFTLoss(fft_sizes=[256], hop_sizes=[64], win_lengths=[256])
show(
    summed=summed(stereo, stereo.flip(0)),
)
