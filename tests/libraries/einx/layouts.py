"""Einx: reductions, products, layouts and subscripts by names."""

import einx
import torch
from showing import show

torch.manual_seed(0)
x, w = torch.randn(4, 6, 8, requires_grad=True), torch.randn(8, 5)
show(
    total=einx.sum("a [b] c", x),
    mean=einx.mean("[...]", x),
    split=einx.id("a (b c) d -> b a c d", x, b=2),
    product=einx.dot("a b [c], [c] d -> a b d", x, w),
    softmax=einx.softmax("a [b] c", x),
    shifted=einx.add("a b c, b", x, torch.randn(6)),
    picked=einx.get_at("[h] c, p -> p c", w, torch.tensor([1, 4])),
)
einx.softmax("a [b] c", x).square().sum().backward()
show(gradient=x.grad)
