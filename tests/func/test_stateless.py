"""functional_call with names that the module has no parameter or buffer for."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.func import functional_call

X = torch.tensor([1.0, 2.0])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.attribute = torch.zeros(2)
        self.number = 3
        self.register_buffer("none", None)

    def forward(self, x):
        added = getattr(self, "extra", 0)
        return x + added + self.attribute + (0 if self.none is None else self.none)


def test_other_names():
    net = Net()
    assert functional_call(net, {"extra": X}, (X,)).tolist() == [2.0, 4.0]
    assert not hasattr(net, "extra")
    assert functional_call(net, {"attribute": X}, (X,)).tolist() == [2.0, 4.0]
    assert net.attribute.tolist() == [0.0, 0.0]
    assert functional_call(net, {"none": X}, (X,)).tolist() == [2.0, 4.0]
    assert net.none is None
    assert functional_call(net, {"layer.extra": X}, (X,)).tolist() == [1.0, 2.0]
    assert not hasattr(net.layer, "extra")


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"number": X}, TypeError, "attribute `number`: 3 is not an instance of torch.Tensor"),
        ({"absent.weight": X}, AttributeError, "Net has no attribute `absent`"),
        ({"layer.absent.weight": X}, AttributeError, "Linear has no attribute `absent`"),
        ({"layer.weight": 3}, TypeError, "3 is not an instance of torch.Tensor"),
        ({"": X}, KeyError, "tensor name can't be empty string"),
    ],
)
def test_names_that_lead_nowhere(given, kind, words):
    with pytest.raises(kind) as caught:
        functional_call(Net(), given, (X,))
    assert words in str(caught.value).replace("\\", "")


def test_strict():
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'extra'"):
        functional_call(Net(), {"extra": X}, (X,), strict=True)


def test_modules_that_hold_each_other():
    first, second = Net(), Net()
    first._modules["other"], second._modules["other"] = second, first
    first.forward = lambda x: first.layer(x) + second.layer(x)
    given = {"other.layer.weight": torch.eye(2), "other.layer.bias": torch.zeros(2)}
    given |= {"other.other.layer.weight": torch.eye(2), "layer.bias": torch.zeros(2)}
    before = first.layer.weight
    assert functional_call(first, given, (X,), tie_weights=False).tolist() == [2.0, 4.0]
    assert first.layer.weight is before
