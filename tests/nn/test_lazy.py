"""Modules that learn their sizes, and the tensors they have until then."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.lazy import LazyModuleMixin
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


@pytest.mark.parametrize(
    ("module", "size", "shown", "shapes"),
    [
        (lambda: nn.LazyLinear(3), (2, 4), "Linear(in_features=4, out_features=3, bias=True)",
         {"weight": (3, 4), "bias": (3,)}),
        (lambda: nn.LazyConv2d(4, 3, groups=2, padding=1), (2, 4, 5, 5),
         "Conv2d(4, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2)",
         {"weight": (4, 2, 3, 3), "bias": (4,)}),
        (lambda: nn.LazyConv1d(4, 2, bias=False), (3, 5),
         "Conv1d(3, 4, kernel_size=(2,), stride=(1,), bias=False)", {"weight": (4, 3, 2)}),
        (lambda: nn.LazyConvTranspose1d(4, 3), (2, 3, 5),
         "ConvTranspose1d(3, 4, kernel_size=(3,), stride=(1,))",
         {"weight": (3, 4, 3), "bias": (4,)}),
        (lambda: nn.LazyBatchNorm2d(), (2, 3, 4, 4),
         "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, "
         "track_running_stats=True)",
         {"weight": (3,), "bias": (3,), "running_mean": (3,), "running_var": (3,),
          "num_batches_tracked": ()}),
        (lambda: nn.LazyInstanceNorm1d(bias=False), (2, 3, 4),
         "InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=False, "
         "track_running_stats=True)",
         {"weight": (3,), "running_mean": (3,), "running_var": (3,), "num_batches_tracked": ()}),
    ],
)  # fmt: skip
def test_first_input_sets_sizes(module, size, shown, shapes):
    made = module()
    assert repr(made).startswith("Lazy") and isinstance(made, LazyModuleMixin)
    assert list(made.state_dict()) == list(shapes)
    held = list(made.parameters())
    assert all(map(is_lazy, held)) and made.has_uninitialized_params()
    made(torch.ones(size))
    assert repr(made) == shown and not isinstance(made, LazyModuleMixin)
    assert {name: tuple(value.shape) for name, value in made.state_dict().items()} == shapes
    assert [type(value) for value in held] == [nn.Parameter] * len(held)
    assert all(one is other for one, other in zip(held, made.parameters(), strict=True))
    assert not made._forward_pre_hooks and not made._load_state_dict_pre_hooks


def test_values_are_initialised_and_train():
    torch.manual_seed(0)
    module = nn.LazyLinear(3)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.ones(2, 4)).sum().backward()
    bound = 1 / 4**0.5
    assert 0 < module.weight.abs().max().item() <= bound
    before = module.bias.detach().clone()
    optimizer.step()
    assert torch.allclose(module.bias, before - 1.0)


def test_uninitialized_tensors_refuse():
    weight = UninitializedParameter()
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
        weight + 1
    with pytest.raises(ValueError, match="explicitly manipulating `torch.nn.parameter.Uninit"):
        torch.relu(weight)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        weight.shape
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized"):
        nn.LazyLinear(2).share_memory()
    assert repr(weight) == "<UninitializedParameter>" and repr(UninitializedBuffer()) == (
        "<UninitializedBuffer>"
    )
    assert isinstance(weight, nn.Parameter) and isinstance(UninitializedBuffer(), nn.Buffer)


def test_dtypes_copies_and_pickles():
    module = nn.LazyLinear(2).double()
    assert is_lazy(module.weight) and module.weight.dtype is torch.float64
    other = copy.deepcopy(module)
    assert is_lazy(other.weight) and other.weight is not module.weight
    assert other(torch.ones(1, 3, dtype=torch.float64)).dtype is torch.float64
    assert is_lazy(module.weight)
    kept = pickle.loads(pickle.dumps(UninitializedParameter(requires_grad=False)))
    assert is_lazy(kept) and not kept.requires_grad
    weight = UninitializedParameter()
    weight.materialize((2, 3), dtype=torch.float64)
    assert type(weight) is nn.Parameter and weight.shape == (2, 3)
    assert weight.dtype is torch.float64 and weight.requires_grad


def test_state_dicts():
    module = nn.LazyLinear(2)
    source = nn.Linear(3, 2)
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        source.load_state_dict(module.state_dict())
    module.load_state_dict(source.state_dict())
    assert torch.equal(module.weight, source.weight) and type(module) is nn.LazyLinear
    assert module(torch.ones(1, 3)).shape == (1, 2) and type(module) is nn.Linear
    assert module.in_features == 3 and torch.equal(module.weight, source.weight)


def test_complaints():
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to"):
        nn.LazyConv2d(2, 3)(torch.ones(2))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv1d(4, 1, groups=2)(torch.ones(1, 3, 4))

    class Half(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = UninitializedParameter()

    with pytest.raises(NotImplementedError, match="is not implemented for Half"):
        Half()(1)
    Half.initialize_parameters = lambda self, value: None
    with pytest.raises(RuntimeError, match="module Half has not been fully initialized"):
        Half()(1)
    with pytest.raises(RuntimeError, match="can't be used with `DataParallel`"):
        nn.LazyLinear(2)._replicate_for_data_parallel()


def test_lazy_modules_load_from_lazy_modules():
    for make in (lambda: nn.LazyLinear(3), nn.LazyBatchNorm2d, lambda: nn.LazyConv2d(3, 2)):
        module = make()
        module.load_state_dict(make().state_dict())
        assert all(is_lazy(p) for p in module.parameters())
    given = nn.LazyLinear(3).state_dict()
    module = nn.LazyLinear(3)
    module.load_state_dict(given, assign=True)
    assert module.weight is given["weight"]
    with pytest.raises(RuntimeError, match="uninitialized"):
        nn.Linear(4, 3).load_state_dict(given)


def test_what_is_asked_of_parameters_without_a_shape():
    layer = torch.nn.LazyLinear(2)
    assert type(layer.weight.data) is torch.Tensor and layer.weight.data.normal_().shape == (0,)
    assert layer.weight.size() == (0,)
    for name in ("numel", "dim", "stride", "data_ptr"):
        with pytest.raises(ValueError, match=f"uninitialized parameter in <function .*{name}"):
            getattr(layer.weight, name)()
    with pytest.raises(ValueError, match="uninitialized parameter"):
        sum(p.numel() for p in layer.parameters())
    layer(torch.ones(1, 3))
    assert layer.weight.numel() == 6
