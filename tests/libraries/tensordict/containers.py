"""tensordict: batches of named tensors, modules over them, classes, stacks, files."""

import tempfile

import torch
from showing import show
from tensordict import TensorDict, TensorDictParams, tensorclass
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict({"x": torch.randn(4, 3), "in": {"y": torch.arange(8).view(4, 2)}}, batch_size=[4])
show(
    keys=sorted(map(str, data.keys(True, True))), part=data[1:3]["in", "y"], shape=list(data.shape)
)
show(stacked=torch.stack([data, data + 1], 0)["x"], sum=data.sum(dim=0)["x"])
show(
    joined=torch.cat([data, data], 0).shape,
    flat=data.view(2, 2)["x"],
    mapped=data.apply(lambda t: t * 2)["in", "y"],
)
show(half=data.to(torch.float64)["x"].dtype, same=bool((data == data).all()))
show(
    gathered=data.gather(0, torch.tensor([2, 0]))["x"],
    where=torch.where(torch.tensor([True, False, True, False]), data, data * 0)["x"],
)

net = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(3, 4), in_keys=["x"], out_keys=["hidden"]),
    TensorDictModule(torch.nn.Linear(4, 1), in_keys=["hidden"], out_keys=["out"]),
)
out = net(data.clone())["out"]
out.sum().backward()
show(out=out, grad=net[0].module.weight.grad)
params = TensorDict.from_module(net)
with params.data.mul(0.5).to_module(net):
    show(halved=net(data.clone())["out"])
many = torch.stack([params.data, params.data * 2], 0)


def call(params, data):
    with params.to_module(net):
        return net(data)["out"]


show(mapped_over=torch.vmap(call, (0, None))(many, data))
show(optimised=[list(p.shape) for p in TensorDictParams(params.data.clone()).parameters()])


@tensorclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


pair = Pair(torch.rand(5, 2), torch.zeros(5), batch_size=[5])
show(pair=pair[2:4].left, added=(pair + 1).right, kind=type(pair[0]).__name__)
with tempfile.TemporaryDirectory() as folder:
    data.memmap(folder)
    show(mapped_file=TensorDict.load_memmap(folder)["x"])
    torch.save(data, f"{folder}/data.pt")
    show(saved=torch.load(f"{folder}/data.pt", weights_only=False)["in", "y"])
