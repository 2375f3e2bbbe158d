"""Structural pruning by Torch-Pruning: dependency graphs, importances, counts of operations."""

import torch
import torch_pruning as tp
import torchvision

from showing import show

torch.manual_seed(0)
x = torch.randn(1, 3, 64, 64)
for name in (
    "MagnitudeImportance",
    "TaylorImportance",
    "BNScaleImportance",
    "RandomImportance",
    "LAMPImportance",
):
    torch.manual_seed(1)
    model = torchvision.models.resnet18(weights=None, num_classes=10).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight)
    if name == "TaylorImportance":
        model(x).sum().backward()
    importance = getattr(tp.importance, name)()
    pruner = tp.pruner.MagnitudePruner(
        model,
        x,
        importance=importance,
        pruning_ratio=0.5,
        ignored_layers=[model.fc],
        iterative_steps=2,
    )
    before = tp.utils.count_ops_and_params(model, x)
    pruner.step()
    pruner.step()
    after = tp.utils.count_ops_and_params(model, x)
    show(
        **{
            name: [before, after],
            f"{name}_out": model(x),
            f"{name}_width": model.layer1[0].conv1.out_channels,
        }
    )
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)
)
graph = tp.DependencyGraph().build_dependency(net, torch.randn(1, 3, 8, 8))
group = graph.get_pruning_group(net[0], tp.prune_conv_out_channels, idxs=[1, 5])
show(valid=graph.check_pruning_group(group), steps=len(group))
group.prune()
show(shapes=[list(p.shape) for p in net.parameters()])
