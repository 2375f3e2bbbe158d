"""functional_call and friends: whose tensors are used, what is put back, what is refused."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.func import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vmap,
)

TWO, THREE = torch.tensor(2.0), torch.tensor(3.0)
W = torch.tensor([[2.0]])
X = torch.tensor([1.0, 2.0])


class Tied(nn.Module):
    """Two names for one parameter, a buffer that it replaces, and a tensor that is neither."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.ones(()))
        self.b = self.a
        self.register_buffer("c", torch.zeros(()))
        self.plain = torch.tensor(5.0)
        self.flag = False

    def forward(self, x):
        self.c = self.c + 1
        return x * self.a + self.b + self.c * 100 + self.plain * 1000


def called(given, **options):
    module = Tied()
    value = functional_call(module, given, TWO, **options).item()
    assert (module.a.item(), module.a is module.b, module.plain.item()) == (1.0, True, 5.0)
    assert list(module.state_dict()) == ["a", "b", "c"]
    assert not hasattr(module, "other")
    return value, module.c.item()


# Values that torch 2.13 answers: the result, and the module's own buffer afterwards.
@pytest.mark.parametrize(
    "given, options, expected",
    [
        ({}, {}, (5103.0, 1.0)),
        ({"a": THREE}, {}, (5109.0, 1.0)),
        ({"b": THREE}, {}, (5109.0, 1.0)),
        ({"a": THREE}, {"tie_weights": False}, (5107.0, 1.0)),
        ({"a": THREE, "b": THREE}, {}, (5109.0, 1.0)),
        ({"a": THREE, "b": TWO}, {"tie_weights": False}, (5108.0, 1.0)),
        ({"c": THREE}, {}, (5403.0, 0.0)),
        ({"plain": THREE}, {}, (3103.0, 1.0)),
        ({"other": THREE}, {}, (5103.0, 1.0)),
        ({"a": THREE, "c": TWO}, {"strict": True}, (5309.0, 0.0)),
        (({"a": THREE}, {"c": TWO}), {}, (5309.0, 0.0)),
        ([{"a": THREE}, {"c": TWO}], {}, (5309.0, 0.0)),
    ],
)
def test_tensors_in_place_of_the_modules(given, options, expected):
    assert called(given, **options) == expected


def test_what_the_module_puts_in_place_is_found_in_the_dict():
    given = {"a": THREE, "c": TWO}
    called(given)
    assert given["c"].item() == 3.0
    assert given["a"] is THREE
    parts = {"a": THREE}, {"c": TWO}
    called(parts)
    assert parts[1]["c"] is TWO


@pytest.mark.parametrize(
    "given, options, kind, text",
    [
        ({"a": THREE, "b": TWO}, {}, ValueError,
         r"got multiple values for keys \['a', 'b'\], which are tied"),
        ({"other": THREE}, {"strict": True}, RuntimeError,
         r"(?s)for Tied:\n\tUnexpected key\(s\): 'other'.\n\tMissing key\(s\): 'a', 'b', 'c'."),
        ({"a": THREE, "c": TWO}, {"strict": True, "tie_weights": False}, RuntimeError,
         r"Missing key\(s\): 'b'"),
        ({"other.w": THREE}, {}, AttributeError, "Tied has no attribute `other`"),
        ({"plain.w": THREE}, {}, TypeError, "submodule `plain`"),
        ({"a": 3.0}, {}, TypeError, "3.0 is not an instance of torch.Tensor"),
        ({"flag": THREE}, {}, TypeError, "attribute `flag`: False is not an instance"),
        ({"": THREE}, {}, KeyError, "be empty string"),
        (({"a": THREE}, {"a": TWO}), {}, ValueError, r"\['a'\] appeared in multiple dictionaries"),
        (({"a": THREE}, 3), {}, ValueError, "all elements of parameter_and_buffer_dicts"),
        (3, {}, ValueError, "to be a dict, or a list/tuple of dicts, but got <class 'int'>"),
    ],
)  # fmt: skip
def test_refusals(given, options, kind, text):
    with pytest.raises(kind, match=text):
        called(given, **options)


def test_a_refused_name_leaves_the_module_as_it_was():
    module = Tied()
    with pytest.raises(TypeError):
        functional_call(module, {"a": THREE, "flag": THREE}, TWO)
    assert module.a.item() == 1.0


def test_a_failing_module_gets_its_tensors_back():
    class Fails(Tied):
        def forward(self, x):
            raise KeyError("inside")

    module = Fails()
    with pytest.raises(KeyError, match="inside"):
        functional_call(module, {"a": THREE}, TWO)
    assert module.a.item() == 1.0 and module.a is module.b


def test_a_module_that_deletes_a_tensor():
    class Deletes(Tied):
        def forward(self, x):
            del self.a
            self.register_buffer("late", None)
            return x

    module = Deletes()
    assert functional_call(module, {"a": THREE}, TWO) is TWO
    assert module.a.item() == 1.0


def test_shared_and_circular_modules():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(1, 1, bias=False)
            self.m = self.l

        def forward(self, x):
            return self.l(self.m(x))

    class Circular(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(1, 1, bias=False)
            self.child = nn.Module()
            self.child.parent = self

        def forward(self, x):
            return self.child.parent.l(x)

    x = torch.tensor([3.0])
    assert functional_call(Shared(), {"l.weight": W}, x).item() == 12.0
    assert functional_call(Shared(), {"m.weight": W}, x, tie_weights=False).item() == 12.0
    for name in ("l.weight", "child.parent.l.weight"):
        assert functional_call(Circular(), {name: W}, x).item() == 6.0
    assert functional_call(Circular(), {"l.weight": W}, x, strict=True).item() == 6.0
    layer = nn.Linear(1, 1, bias=False)
    assert functional_call(layer, {"weight": W}, kwargs={"input": x}).item() == 6.0


def filled(value, **state):
    layer = nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.fill_(value)
        layer.bias.fill_(value + 1)
    return layer


def test_ensembles():
    models = nn.ModuleList([filled(1.0), filled(2.0)])
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].tolist() == [[[1.0]], [[2.0]]]
    assert parameters["bias"].tolist() == [[2.0], [3.0]]
    assert buffers == {}
    assert all(p.is_leaf and p.requires_grad for p in parameters.values())
    found = vmap(lambda p, x: functional_call(models[0], p, x), (0, None))(
        parameters, torch.tensor([3.0])
    )
    assert found.tolist() == [[5.0], [9.0]]
    frozen = stack_module_state([model.requires_grad_(False) for model in models])[0]
    assert not any(p.requires_grad for p in frozen.values())


@pytest.mark.parametrize(
    "models, text",
    [
        (list, "stack_module_state: Expected at least one model, got 0."),
        (lambda: [filled(1.0), nn.Conv1d(1, 1, 1)], "Expected all models to be of the same class."),
        (lambda: [filled(1.0), filled(1.0).eval()], "have the same training/eval mode."),
        (
            lambda: [filled(1.0), filled(2.0).requires_grad_(False)],
            "Expected weight from each model to have the same .requires_grad",
        ),
    ],
)
def test_models_that_are_no_ensemble(models, text):
    with pytest.raises(RuntimeError, match=text):
        stack_module_state(models())


def test_batch_norms_keep_no_statistics():
    net = nn.Sequential(
        nn.BatchNorm1d(2),
        nn.Sequential(nn.BatchNorm2d(2)),
        nn.InstanceNorm1d(2, track_running_stats=True),
    )
    assert replace_all_batch_norm_modules_(net) is net
    for norm in (net[0], net[1][0]):
        assert norm.running_mean is norm.running_var is norm.num_batches_tracked is None
        assert not norm.track_running_stats
    assert net[2].running_mean.tolist() == [0.0, 0.0]
    assert vmap(net[0])(torch.arange(12.0).view(2, 3, 2)).shape == (2, 3, 2)


# -- names that the module has no parameter or buffer for ------------------------------------------


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


def test_a_shared_module_gets_its_own_tensor_back():
    layer = torch.nn.Linear(1, 1)
    pair = torch.nn.ModuleList([layer, layer])
    own = layer.weight

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = pair

        def forward(self, x):
            return self.pair[0](x)

    given = {"pair.0.weight": torch.ones(1, 1), "pair.1.weight": torch.zeros(1, 1)}
    functional_call(Both(), given, (torch.ones(1, 1),), tie_weights=False)
    assert layer.weight is own
