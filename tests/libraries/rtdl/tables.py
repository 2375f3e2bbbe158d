"""Embeddings of numbers, and networks for tables: outputs, gradients, steps of training."""

import torch
from rtdl_num_embeddings import (
    LinearReLUEmbeddings,
    PeriodicEmbeddings,
    PiecewiseLinearEmbeddings,
    compute_bins,
)
from rtdl_revisiting_models import MLP, FTTransformer, ResNet

from showing import gradients, show

torch.manual_seed(0)
X = torch.randn(40, 3)
y = torch.randn(40)
bins = compute_bins(X, n_bins=5)
bt = compute_bins(X, y=y, regression=True, tree_kwargs={"min_samples_leaf": 4}, n_bins=4)
show(bins=bins, bt=bt)
for e in (
    PiecewiseLinearEmbeddings(bins, 6, activation=False, version="B"),
    PeriodicEmbeddings(3, 6, lite=False),
    LinearReLUEmbeddings(3, 6),
):
    o = e(X)
    o.square().sum().backward()
    show(o=o, g=gradients(e))
for m in (
    MLP(d_in=3, d_out=1, n_blocks=2, d_block=16, dropout=0.1),
    ResNet(
        d_in=3,
        d_out=1,
        n_blocks=2,
        d_block=16,
        d_hidden=None,
        d_hidden_multiplier=2.0,
        dropout1=0.2,
        dropout2=0.0,
    ),
):
    o = m(X)
    o.square().sum().backward()
    show(o=o, g=gradients(m))
m = FTTransformer(
    n_cont_features=3,
    cat_cardinalities=[4, 3],
    d_out=1,
    n_blocks=2,
    d_block=16,
    attention_n_heads=2,
    attention_dropout=0.1,
    ffn_d_hidden=None,
    ffn_d_hidden_multiplier=4 / 3,
    ffn_dropout=0.1,
    residual_dropout=0.0,
)
opt = m.make_default_optimizer()
for _ in range(3):
    opt.zero_grad()
    o = m(X, torch.randint(0, 3, (40, 2)))
    l = (o.squeeze(-1) - y).square().mean()
    l.backward()
    opt.step()
    show(l=l)
show(g=gradients(m))
