"""Neural operators of three kinds: losses of functions, and gradients."""

import torch
from neuralop import H1Loss, LpLoss
from neuralop.models import FNO, TFNO, UNO

from showing import gradients, show

for name, make in dict(
    fno=lambda: FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2),
    tfno=lambda: TFNO(
        n_modes=(4, 4),
        hidden_channels=8,
        in_channels=1,
        out_channels=1,
        n_layers=2,
        factorization="tucker",
        implementation="factorized",
        rank=0.5,
    ),
    uno=lambda: UNO(
        in_channels=1,
        out_channels=1,
        hidden_channels=8,
        uno_out_channels=[8, 8, 8],
        uno_n_modes=[[4, 4], [4, 4], [4, 4]],
        uno_scalings=[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]],
        n_layers=3,
        channel_mlp_skip="linear",
    ),
).items():
    torch.manual_seed(0)
    m = make()
    x, y = torch.randn(2, 1, 16, 16), torch.randn(2, 1, 16, 16)
    out = m(x)
    loss = LpLoss(d=2, p=2)(out, y) + H1Loss(d=2)(out, y)
    loss.backward()
    show(**{name: out, name + "_loss": loss, name + "_g": gradients(m)})
