"""PyTorch Geometric: layers over graphs, batches, pooling, and their gradients."""

import torch
import torch_geometric.nn as pyg
from showing import gradients, show
from torch_geometric.data import Batch, Data

torch.manual_seed(0)
x = torch.randn(10, 6)
edges = torch.randint(0, 10, (2, 30))
weights = torch.rand(30)
LAYERS = {
    "GCN": lambda: pyg.GCNConv(6, 4), "SAGE": lambda: pyg.SAGEConv(6, 4),
    "GAT": lambda: pyg.GATConv(6, 4, heads=2), "GATv2": lambda: pyg.GATv2Conv(6, 4),
    "GIN": lambda: pyg.GINConv(torch.nn.Linear(6, 4)), "Graph": lambda: pyg.GraphConv(6, 4),
    "Cheb": lambda: pyg.ChebConv(6, 4, 3), "TAG": lambda: pyg.TAGConv(6, 4),
    "SG": lambda: pyg.SGConv(6, 4, 2), "APPNP": lambda: pyg.APPNP(3, 0.1),
    "Transformer": lambda: pyg.TransformerConv(6, 4, heads=2), "ARMA": lambda: pyg.ARMAConv(6, 4),
    "Edge": lambda: pyg.EdgeConv(torch.nn.Linear(12, 4)), "Gated": lambda: pyg.GatedGraphConv(8, 2),
    "PNA": lambda: pyg.PNAConv(6, 4, ["mean", "max"], ["identity", "amplification"], torch.ones(6)),
}  # fmt: skip
for name, make in LAYERS.items():
    torch.manual_seed(1)
    layer = make()
    given = x.clone().requires_grad_()
    out = layer(given, edges)
    out.square().mean().backward()
    show(**{name: out, f"{name}_grad": given.grad})
torch.manual_seed(1)
show(weighted=pyg.GCNConv(6, 4)(x, edges, weights))

batch = Batch.from_data_list([Data(x=x, edge_index=edges), Data(x=x[:4], edge_index=edges % 4)])
for pool in (pyg.global_mean_pool, pyg.global_max_pool, pyg.global_add_pool):
    show(**{pool.__name__: pool(batch.x, batch.batch)})
torch.manual_seed(2)
model = pyg.GCN(6, 8, 2, 3)
out = model(batch.x, batch.edge_index)
torch.nn.functional.cross_entropy(out, torch.arange(14) % 3).backward()
show(model=out, gradients=gradients(model))
