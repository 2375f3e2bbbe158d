"""einops: rearranging, reducing, repeating, packing, einsum, and the layers."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from showing import gradients, show

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8, requires_grad=True)
patches = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
pooled = reduce(x, "b c (h 2) (w 2) -> b c h w", "max")
spread = repeat(x[:, :, :2, :2], "b c h w -> b c (h 2) (w k)", k=3)
product = einsum(patches, patches, "b i d, b j d -> b i j")
(patches.sum() + pooled.sum() + spread.sum() + product.sum()).backward()
show(patches=patches, pooled=pooled, spread=spread, product=product, grad=x.grad)
packed, shapes = pack([torch.rand(2, 5), torch.rand(2, 3, 4)], "b *")
show(packed=packed, shapes=[list(s) for s in shapes])
show(parts=[list(t.shape) for t in unpack(packed, shapes, "b *")])

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 4, 3),
    Reduce("b c (h 2) (w 2) -> b c h w", "mean"),
    Rearrange("b c h w -> b (h w) c"),
    EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=4, d=6),
)
out = model(x)
out.square().mean().backward()
show(layers=out, gradients=gradients(model))
