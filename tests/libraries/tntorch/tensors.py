"""Tensor networks of tntorch: decomposition, arithmetic, cross approximation, optimisation."""

import tntorch as tn
import torch

from showing import show

torch.manual_seed(0)
x = torch.rand(6, 7, 8)
t = tn.Tensor(x, ranks_tt=4)
show(tt=t.torch(), ranks=t.ranks_tt, tucker=tn.Tensor(x, ranks_tucker=3).torch())
a, b = tn.rand([6, 6, 6], ranks_tt=3), tn.rand([6, 6, 6], ranks_tt=2)
show(
    sum=(a + b).torch(),
    product=(a * b).torch(),
    dot=tn.dot(a, b),
    norm=tn.norm(a),
    mean=tn.mean(a),
    var=tn.var(a),
)
both = a + a
both.round_tt(1e-6)
show(rounded=both.ranks_tt, part=a[2, :, 1:4].torch(), reduce=tn.sum(a, dim=1).torch())
c = tn.cross(
    function=lambda x, y: torch.exp(-x * y), domain=[torch.linspace(0, 1, 12)] * 2, verbose=False
)
show(cross=c.torch(), sobol=tn.sobol(a, tn.symbols(3)[0]))
guess = tn.rand([6, 6, 6], ranks_tt=3, requires_grad=True)
tn.optimize(
    guess, lambda g: tn.relative_error(a, g), tol=None, max_iter=8, print_freq=0, verbose=False
)
show(fit=tn.relative_error(a, guess))
