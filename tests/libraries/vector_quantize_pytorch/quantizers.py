"""Quantisers of vectors: codes, losses, codebooks that learn."""

import torch
from showing import show
from vector_quantize_pytorch import (
    FSQ,
    LFQ,
    GroupedResidualVQ,
    RandomProjectionQuantizer,
    ResidualVQ,
    SimVQ,
    VectorQuantize,
)

torch.manual_seed(0)
vectors = torch.randn(2, 16, 8)
book = {"dim": 8, "codebook_size": 12}
makers = {
    "plain": lambda: VectorQuantize(**book, decay=0.8),
    "cosine": lambda: VectorQuantize(**book, use_cosine_sim=True, kmeans_init=True, kmeans_iters=3),
    "heads": lambda: VectorQuantize(
        **book, heads=2, codebook_dim=4, separate_codebook_per_head=True
    ),
    "learned": lambda: VectorQuantize(**book, learnable_codebook=True, ema_update=False),
    "residual": lambda: ResidualVQ(**book, num_quantizers=3),
    "grouped": lambda: GroupedResidualVQ(**book, num_quantizers=2, groups=2),
    "finite": lambda: FSQ([4, 3, 3], dim=8),
    "lookup": lambda: LFQ(codebook_size=16, dim=8),
    "random": lambda: RandomProjectionQuantizer(
        dim=8, num_codebooks=2, codebook_dim=4, codebook_size=9
    ),
    "simple": lambda: SimVQ(**book),
}
for name, make in makers.items():
    torch.manual_seed(1)
    quantizer = make()
    torch.manual_seed(2)
    found = quantizer(vectors)
    found = found if isinstance(found, tuple) else (found,)
    show(**{name: [value for value in found if isinstance(value, torch.Tensor)]})
