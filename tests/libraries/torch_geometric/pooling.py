"""Graphs of several kinds: heterogeneous ones, pooling, transforms, neighbours, sparse adjacency."""

import torch
import torch_geometric as pyg
from showing import gradients, show
from torch_geometric import nn as gnn
from torch_geometric import transforms as T
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.utils import (
    add_self_loops, degree, dense_to_sparse, softmax, to_dense_adj, to_undirected,
)  # fmt: skip

torch.manual_seed(0)
edges = to_undirected(torch.randint(0, 10, (2, 20)))
x = torch.randn(10, 6)
show(edges=edges.sum(), degree=degree(edges[0], 10), dense=to_dense_adj(edges)[0])
show(loops=add_self_loops(edges)[0].shape, back=dense_to_sparse(torch.eye(3))[0])
show(soft=softmax(torch.randn(edges.size(1)), edges[0]))
for layer in (
    gnn.GATv2Conv(6, 4, heads=2), gnn.GINConv(torch.nn.Linear(6, 4)), gnn.SAGEConv(6, 4),
    gnn.TransformerConv(6, 4), gnn.ChebConv(6, 4, K=3), gnn.ARMAConv(6, 4), gnn.TAGConv(6, 4),
    gnn.PNAConv(6, 4, ["mean", "max"], ["identity", "amplification"],
                deg=torch.bincount(degree(edges[0], 10).long())),
):  # fmt: skip
    out = layer(x, edges)
    out.square().mean().backward()
    show(**{type(layer).__name__: out, "gradients": gradients(layer)})

batch = Batch.from_data_list([Data(x=x, edge_index=edges), Data(x=x[:4], edge_index=edges[:, :0])])
for pool in (gnn.global_mean_pool, gnn.global_max_pool, gnn.global_add_pool):
    show(**{pool.__name__: pool(batch.x, batch.batch)})
top = gnn.TopKPooling(6, ratio=0.5)
kept = top(batch.x, batch.edge_index, batch=batch.batch)
show(top=kept[0], places=kept[4])
show(aggregated=gnn.aggr.SoftmaxAggregation(learn=True)(batch.x, batch.batch))
show(norm=gnn.GraphNorm(6)(batch.x, batch.batch), set=gnn.aggr.Set2Set(6, 2)(batch.x, batch.batch))

hetero = HeteroData()
hetero["user"].x, hetero["item"].x = torch.randn(5, 3), torch.randn(4, 2)
hetero["user", "likes", "item"].edge_index = torch.tensor([[0, 1, 2, 4], [0, 1, 3, 2]])
hetero = T.ToUndirected()(hetero)
kind = gnn.HeteroConv({edge: gnn.SAGEConv((-1, -1), 4) for edge in hetero.edge_types}, aggr="sum")
show(**kind(hetero.x_dict, hetero.edge_index_dict))
data = T.Compose([T.NormalizeFeatures(), T.GCNNorm(), T.AddLaplacianEigenvectorPE(2)])(
    Data(x=x.abs(), edge_index=edges)
)
show(normal=data.x, weights=data.edge_weight, places=data.laplacian_eigenvector_pe.abs())
show(version=pyg.typing.WITH_TORCH_SPARSE)
