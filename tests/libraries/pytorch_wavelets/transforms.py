"""Wavelet transforms of pictures and series, their inverses and gradients."""

import torch

from pytorch_wavelets import (
    DTCWTForward,
    DTCWTInverse,
    DWT1DForward,
    DWT1DInverse,
    DWTForward,
    DWTInverse,
    ScatLayer,
)
from showing import show

torch.manual_seed(0)
x = torch.randn(2, 3, 32, 32, requires_grad=True)
for mode in ("zero", "symmetric", "periodization", "reflect"):
    x.grad = None
    low, highs = DWTForward(J=2, wave="db3", mode=mode)(x)
    back = DWTInverse(wave="db3", mode=mode)((low, highs))
    (low.square().sum() + highs[0].sum() + back.pow(3).sum()).backward()
    show(**{mode: low, mode + "_h": highs[1], mode + "_b": back, mode + "_g": x.grad})
x.grad = None
low, highs = DTCWTForward(J=3, biort="near_sym_b", qshift="qshift_b")(x)
back = DTCWTInverse(biort="near_sym_b", qshift="qshift_b")((low, highs))
(low.square().sum() + back.pow(3).sum() + highs[1].square().sum()).backward()
show(dt=low, h=highs[2], back=(back - x).abs().max() < 1e-4, g=x.grad)
x.grad = None
o = ScatLayer()(x)
o.square().sum().backward()
show(scat=o, g=x.grad)
s = torch.randn(2, 1, 64, requires_grad=True)
l, h = DWT1DForward(wave="db2", J=3)(s)
show(l=l, h=h[2], b=DWT1DInverse(wave="db2")((l, h)))
