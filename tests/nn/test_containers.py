"""Sequential, ModuleList, ModuleDict, ParameterList and ParameterDict."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import rushlight as torch
from rushlight import nn


def shown(module):
    return [f"{name}:{type(child).__name__}" for name, child in module.named_children()]


def raised(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def three(kind):
    modules = [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]
    return kind(*modules) if kind is nn.Sequential else kind(modules)


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList])
def test_numbered_modules_are_lists(kind):
    made = three(kind)
    assert len(made) == 3 and type(made[-1]) is nn.Sigmoid and made[0] in made
    assert type(made[torch.tensor(1)]) is nn.Tanh
    made[1] = nn.ELU()
    del made[0]
    assert shown(made) == ["0:ELU", "1:Sigmoid"]
    made.append(nn.ReLU()).insert(0, nn.GELU())
    assert shown(made) == ["0:GELU", "1:ELU", "2:Sigmoid", "3:ReLU"]
    assert type(made.pop(1)) is nn.ELU and type(made.pop(-1)) is nn.ReLU
    made.extend([nn.ReLU6()])
    assert [type(module) for module in made] == [nn.GELU, nn.Sigmoid, nn.ReLU6]
    del made[0:2]
    assert shown(made) == ["0:ReLU6"]
    for call in (lambda: made[1], lambda: made[-2], lambda: made.__setitem__(1, nn.ReLU()),
                 lambda: made.__delitem__(1), lambda: made.pop(1)):  # fmt: skip
        assert raised(call)[0] == "IndexError"
    assert raised(lambda: made[3]) == ("IndexError", "index 3 is out of range")
    assert raised(lambda: made["0"]) == (
        "TypeError", "'str' object cannot be interpreted as an integer",
    )  # fmt: skip
    assert raised(lambda: made.append(3)) == ("TypeError", "int is not a Module subclass")


def test_slices_of_sequential_keep_names_and_of_lists_do_not():
    assert shown(three(nn.Sequential)[1:]) == ["1:Tanh", "2:Sigmoid"]
    assert shown(three(nn.ModuleList)[1:]) == ["0:Tanh", "1:Sigmoid"]


def test_sequential_arithmetic():
    one = nn.Sequential(nn.ReLU())
    assert shown(one + nn.Sequential(nn.Tanh())) == ["0:ReLU", "1:Tanh"]
    assert len(one * 3) == 3 and (3 * one)[2] is one[0]
    other = nn.Sequential(nn.Tanh())
    other += one
    other *= 2
    assert [type(module).__name__ for module in other] == ["Tanh", "ReLU", "Tanh", "ReLU"]
    assert raised(lambda: one + 3) == (
        "ValueError",
        "add operator supports only objects of Sequential class, but <class 'int'> is given.",
    )
    assert raised(lambda: one * 0)[0] == "ValueError"
    assert raised(lambda: one * 1.5)[0] == "TypeError"
    assert raised(lambda: one.insert(5, nn.ReLU())) == ("IndexError", "Index out of range: 5")
    assert raised(lambda: one.insert(0, 3))[0] == "AssertionError"


def test_named_sequential():
    made = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh(), c=nn.ELU()))
    assert shown(made) == ["a:ReLU", "b:Tanh", "c:ELU"] and made.b is made[1]
    made.append(nn.GELU())
    assert shown(made)[-1] == "3:GELU"
    del made[1]
    assert shown(made) == ["0:ReLU", "1:ELU", "2:GELU"]


def test_repr_of_a_list_joins_equal_neighbours():
    made = nn.ModuleList([nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU()), nn.Tanh()])
    assert repr(made) == (
        "ModuleList(\n  (0-1): 2 x Sequential(\n    (0): ReLU()\n  )\n  (2): Tanh()\n)"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_list():
    made = nn.ModuleList([nn.ReLU()])
    assert shown(made.__add__([nn.Tanh()])) == ["0:ReLU", "1:Tanh"] and len(made) == 1
    made += [nn.ELU()]
    assert shown(made) == ["0:ReLU", "1:ELU"]
    assert raised(lambda: made.extend(nn.ReLU())) == (
        "TypeError", "ModuleList.extend should be called with an iterable, but got ReLU",
    )  # fmt: skip


def test_module_dict():
    made = nn.ModuleDict({"z": nn.ReLU(), "a": nn.Tanh()})
    assert list(made) == ["z", "a"] and "z" in made and len(made) == 2
    made["c"] = nn.ELU()
    made.update([["d", nn.GELU()]])
    made.update(nn.ModuleDict({"e": nn.SELU()}))
    assert list(made.keys()) == ["z", "a", "c", "d", "e"]
    assert type(made.pop("z")) is nn.ReLU
    del made["a"]
    assert shown(made) == ["c:ELU", "d:GELU", "e:SELU"]
    assert [name for name, _ in made.items()] == ["c", "d", "e"] and len(made.values()) == 3
    for given, wanted in (
        (3, ("TypeError", "ModuleDict.update should be called with an iterable of key/value pairs, "
             "but got int")),
        ([3], ("TypeError", "ModuleDict update sequence element #0 should be Iterable; isint")),
        ([["a"]], ("ValueError", "ModuleDict update sequence element #0 has length 1; 2 is "
                   "required")),
    ):  # fmt: skip
        assert raised(lambda given=given: made.update(given)) == wanted
    assert raised(lambda: made.__setitem__("keys", nn.ReLU()))[0] == "KeyError"
    made.clear()
    assert len(made) == 0


def test_parameter_list():
    made = nn.ParameterList([torch.ones(1), nn.Parameter(torch.zeros(1, 2)), 3])
    assert all(isinstance(value, nn.Parameter) for value in made[:2])
    assert list(made.state_dict()) == ["0", "1"] and len(made) == 3 and made[-1] == 3
    assert repr(made) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 1]\n"
        "    (1): Parameter containing: [torch.float32 of size 1x2]\n"
        "    (2): Object of type: int\n)"
    )
    made += [torch.ones(2)]
    made[0] = torch.zeros(3)
    assert [name for name, _ in made.named_parameters()] == ["0", "1", "3"]
    assert made[0].shape == (3,) and made[0].requires_grad
    assert raised(lambda: nn.ParameterList(torch.ones(2))) == (
        "TypeError", "ParameterList.extend should be called with an iterable, but got Tensor",
    )  # fmt: skip
    assert raised(lambda: made(1)) == ("RuntimeError", "ParameterList should not be called.")


def test_parameter_dict():
    made = nn.ParameterDict({"b": torch.ones(2), "a": 3})
    assert list(made) == ["a", "b"] and made["a"] == 3 and list(made.state_dict()) == ["b"]
    assert repr(made) == (
        "ParameterDict(\n    (a): Object of type: int\n"
        "    (b): Parameter containing: [torch.FloatTensor of size 2]\n)"
    )
    made.update([("d", torch.ones(1)), ("c", torch.ones(1))])
    assert list(made.keys()) == ["a", "b", "d", "c"] and next(reversed(made)) == "c"
    assert made.get("absent", 5) == 5 and made.setdefault("a", 7) == 3
    assert made.popitem()[0] == "c" and made.pop("d").tolist() == [1.0]
    del made["a"]
    assert [name for name, _ in made.items()] == ["b"] and "a" not in made
    assert list(made.copy()) == ["b"] and list(made | nn.ParameterDict({"x": 1})) == ["b", "x"]
    assert raised(lambda: made[3])[0] == "TypeError"
    assert raised(lambda: made(1)) == ("RuntimeError", "ParameterDict should not be called.")
    made.clear()
    assert len(made) == 0 and list(made.parameters()) == []
