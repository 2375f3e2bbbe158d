"""How tensors of many kinds print."""

import torch

tensors = [
    torch.tensor(3),
    torch.tensor(2.5),
    torch.tensor(True),
    torch.tensor([]),
    torch.zeros(0, 3),
    torch.arange(10),
    torch.arange(4.0),
    torch.tensor([1e-8, 1.0]),
    torch.tensor([1e8, 1.0]),
    torch.tensor([1.5, float("nan"), float("inf")]),
    torch.tensor([1, -20, 300]),
    torch.tensor([[1.0, -2.5], [1000.0, 0.001]]),
    torch.ones(2, 2, 2),
    torch.eye(3, dtype=torch.int8),
    torch.tensor([1 + 2j, -0.5j]),
    torch.ones(3, dtype=torch.float64),
    torch.ones(2).half(),
    torch.ones(2).bfloat16() / 3,
    torch.tensor([True, False]),
    torch.arange(2000),
    torch.linspace(0, 1, 40),
    torch.arange(5000.0).reshape(50, 100),
    torch.empty(2, 3, device="meta"),
    torch.ones(2, requires_grad=True),
    torch.ones(2, requires_grad=True) * 2,
    torch.tensor(1.0, requires_grad=True).exp(),
    torch.tensor([0.1, 0.22, 0.333]).double(),
    torch.tensor([-0.0, 1e-45]),
    torch.tensor([123456.789, 0.5]),
    torch.tensor([1e20, 2e20]),
    torch.zeros(1, 1, 1),
]
for tensor in tensors:
    print(tensor)
print(repr(torch.Size([2, 3])), torch.float32, torch.device("cpu"), torch.strided)
print(torch.nn.Parameter(torch.ones(2)))
print(f"{torch.tensor(3.14159):.2f} {torch.tensor(7):>5d} {torch.tensor(1.0)}")
print([torch.tensor(1), torch.tensor([2.0])], {"a": torch.ones(1)})
print(torch.max(torch.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1))
print(torch.finfo(torch.float16).max, torch.iinfo(torch.int32).min)
torch.set_printoptions(precision=2, edgeitems=1, threshold=5, linewidth=40)
print(torch.arange(20.0) / 7, torch.arange(36).reshape(6, 6), sep="\n")
torch.set_printoptions(profile="full")
print(torch.arange(30))
torch.set_printoptions(profile="default", sci_mode=True)
print(torch.tensor([1.0, 20.0]))
torch.set_printoptions(profile="default")
