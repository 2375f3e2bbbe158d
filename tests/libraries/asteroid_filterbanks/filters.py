"""Analysis and synthesis with learnt, sinc and Fourier filters; a few steps of training."""

import torch

from asteroid_filterbanks import (
    STFTFB,
    Encoder,
    make_enc_dec,
    transforms,
)
from showing import gradients, show

torch.manual_seed(0)
sound = torch.randn(2, 1, 400)
for name in ("free", "stft", "analytic_free", "param_sinc"):
    torch.manual_seed(1)
    encoder, decoder = make_enc_dec(name, n_filters=32, kernel_size=16, stride=8)
    coded = encoder(sound)
    out = decoder(coded)
    show(**{name: coded, f"{name}_out": out})
    if out.requires_grad:
        out.square().mean().backward()
        show(**{f"{name}_gradients": gradients(encoder)})
bank = STFTFB(n_filters=32, kernel_size=32, stride=16)
spec = Encoder(bank)(sound)
show(mag=transforms.mag(spec), phase=transforms.angle(spec), real=transforms.to_torchaudio(spec))
torch.manual_seed(2)
encoder, decoder = make_enc_dec("free", n_filters=32, kernel_size=16, stride=8)
step = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-2)
losses = []
for _ in range(6):
    step.zero_grad()
    out = decoder(torch.relu(encoder(sound)))
    loss = (out - sound[..., : out.shape[-1]]).square().mean()
    loss.backward()
    step.step()
    losses.append(loss.item())
show(losses=losses)
