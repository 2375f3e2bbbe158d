"""Training on graphs: loaders, transforms, splits, neighbours' sums, mixed kinds of nodes."""

import torch
from showing import show
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, HeteroConv, SAGEConv, global_mean_pool
from torch_geometric.transforms import AddSelfLoops, NormalizeFeatures, ToUndirected
from torch_geometric.utils import (
    add_self_loops,
    coalesce,
    degree,
    dense_to_sparse,
    get_laplacian,
    scatter,
    softmax,
    subgraph,
    to_dense_adj,
    to_undirected,
)

torch.manual_seed(0)
graphs = []
for number in range(12):
    count = 4 + number % 3
    edges = torch.randint(0, count, (2, 2 * count))
    graph = Data(x=torch.rand(count, 3), edge_index=edges, y=torch.tensor([number % 2]))
    graphs.append(AddSelfLoops()(ToUndirected()(NormalizeFeatures()(graph))))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphConv(3, 8), GraphConv(8, 8)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, data):
        x = self.first(data.x, data.edge_index).relu()
        return self.last(global_mean_pool(self.second(x, data.edge_index), data.batch))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for _ in range(3):
    for batch in DataLoader(graphs, batch_size=5, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), batch.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
show(losses=losses)

edges, values = torch.randint(0, 6, (2, 15)), torch.rand(15)
for reduce in ("sum", "mean", "max", "min", "mul"):
    show(**{reduce: scatter(values, edges[0], dim_size=6, reduce=reduce)})
show(softmax=softmax(values, edges[1]), degree=degree(edges[0], 6), dense=to_dense_adj(edges))
show(merged=coalesce(edges, values)[1], both=to_undirected(edges), loops=add_self_loops(edges)[0])
show(laplacian=get_laplacian(edges, values, "sym")[1], part=subgraph([1, 2, 3], edges)[0])
show(sparse=dense_to_sparse(torch.eye(3))[0])
mixed = HeteroData()
mixed["user"].x, mixed["item"].x = torch.rand(4, 3), torch.rand(5, 3)
mixed["user", "likes", "item"].edge_index = torch.tensor([[0, 1, 2, 3], [1, 1, 4, 0]])
mixed["item", "of", "user"].edge_index = torch.tensor([[0, 2, 4], [1, 3, 0]])
layer = HeteroConv({kind: SAGEConv((3, 3), 4) for kind in mixed.edge_types})
show(**layer(mixed.x_dict, mixed.edge_index_dict))
