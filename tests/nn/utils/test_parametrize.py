"""Parametrized tensors: values, gradients, setting, removing, and what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import parametrizations, parametrize

W = [[-1.0, 2.0, 0.5], [3.0, -2.0, 1.0], [0.0, 4.0, -3.0]]


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).mT

    def right_inverse(self, A):
        return A.triu()


class Doubled(nn.Module):
    def forward(self, X):
        return X * 2


class Halves(nn.Module):
    def forward(self, first, second):
        return first + second

    def right_inverse(self, W):
        return W / 2, W / 2


def layer():
    made = nn.Linear(3, 3)
    made.weight.data.copy_(torch.tensor(W))
    return made


def test_values_and_names():
    module = parametrize.register_parametrization(layer(), "weight", Symmetric())
    assert module.weight.tolist() == [[-1.0, 2.0, 0.5], [2.0, -2.0, 1.0], [0.5, 1.0, -3.0]]
    assert list(module.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(module).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(module) is nn.Linear
    assert parametrize.is_parametrized(module) and parametrize.is_parametrized(module, "weight")
    assert not parametrize.is_parametrized(module, "bias")
    assert repr(module) == (
        "ParametrizedLinear(\n  in_features=3, out_features=3, bias=True\n"
        "  (parametrizations): ModuleDict(\n    (weight): ParametrizationList(\n"
        "      (0): Symmetric()\n    )\n  )\n)"
    )
    parametrize.register_parametrization(module, "weight", Doubled())
    assert module.weight[0].tolist() == [-2.0, 4.0, 1.0]
    module(torch.ones(2, 3)).sum().backward()
    grad = module.parametrizations.weight.original.grad
    assert grad.tolist() == [[4.0, 8.0, 8.0], [0.0, 4.0, 8.0], [0.0, 0.0, 4.0]]


def test_setting():
    module = parametrize.register_parametrization(layer(), "weight", Symmetric())
    module.weight = torch.arange(9.0).reshape(3, 3)
    assert module.weight.tolist() == [[0.0, 1.0, 2.0], [1.0, 4.0, 5.0], [2.0, 5.0, 8.0]]
    parametrize.register_parametrization(module, "weight", Doubled())
    with pytest.raises(RuntimeError, match="parametrization Doubled does not implement right_inve"):
        module.weight = torch.ones(3, 3)


def test_removing():
    module = parametrize.register_parametrization(layer(), "weight", Symmetric())
    original = module.parametrizations.weight.original
    value = module.weight.detach().clone()
    parametrize.remove_parametrizations(module, "weight")
    assert type(module) is nn.Linear and module.weight is original
    assert torch.equal(module.weight, value) and set(module.state_dict()) == {"bias", "weight"}
    parametrize.register_parametrization(module, "weight", Doubled())
    parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    assert torch.equal(module.weight, value)
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(module, "weight")


def test_several_originals():
    module = parametrize.register_parametrization(layer(), "weight", Halves())
    assert [name for name, _ in module.named_parameters()] == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1",
    ]  # fmt: skip
    assert module.weight.tolist() == W
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    module.weight = torch.ones(3, 3)
    assert module.parametrizations.weight.original1[0].tolist() == [0.5] * 3
    parametrize.remove_parametrizations(module, "weight")
    assert isinstance(module.weight, nn.Parameter) and module.weight.tolist() == [[1.0] * 3] * 3


def test_cache():
    module = parametrize.register_parametrization(layer(), "weight", Symmetric())
    assert module.weight is not module.weight
    with parametrize.cached():
        kept = module.weight
        with parametrize.cached():
            assert module.weight is kept
        assert module.weight is kept
    assert module.weight is not kept


def test_copies():
    module = parametrize.register_parametrization(layer(), "weight", Symmetric())
    other = copy.deepcopy(module)
    module.weight = torch.zeros(3, 3)
    assert other.weight[0].tolist() == W[0]
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(module)
    third = parametrize.transfer_parametrizations_and_params(other, nn.Linear(3, 3))
    assert torch.equal(third.weight, other.weight)


class Cut(nn.Module):
    def forward(self, X):
        return X[:1]


class Widened(nn.Module):
    def forward(self, X):
        return X.double()


def test_changes_of_shape_and_dtype_are_refused():
    def register(module, *functions):
        for function in functions:
            parametrize.register_parametrization(module, "weight", function)

    start = "Registering a parametrization may not change the "
    with pytest.raises(ValueError, match=start + "shape of the tensor, unless `unsafe`"):
        register(layer(), Cut())
    with pytest.raises(ValueError, match=start + "dtype of the tensor, unless `unsafe`"):
        register(layer(), Widened())
    with pytest.raises(ValueError, match=start + "shape of the tensor, unless the `unsafe`"):
        register(layer(), Doubled(), Cut())
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized"):
        parametrize.register_parametrization(layer(), "nothing", Doubled())
    module = parametrize.register_parametrization(layer(), "weight", Cut(), unsafe=True)
    assert module.weight.shape == (1, 3)


def test_weight_norm():
    module = parametrizations.weight_norm(layer())
    assert list(module.state_dict())[1:] == [
        "parametrizations.weight.original0", "parametrizations.weight.original1",
    ]  # fmt: skip
    assert torch.allclose(module.weight, torch.tensor(W))
    norms = module.parametrizations.weight.original0
    assert norms.flatten().tolist() == pytest.approx([5.25**0.5, 14**0.5, 5.0])
    module(torch.ones(1, 3)).sum().backward()
    assert norms.grad.flatten().tolist() == pytest.approx([0.6546537, 0.5345225, 0.2], rel=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("near", [True, False])
def test_orthogonal(shape, kind, near):
    torch.manual_seed(0)
    module = nn.Linear(shape[1], shape[0])
    nn.init.orthogonal_(module.weight)
    before = module.weight.detach().clone()
    parametrizations.orthogonal(module, orthogonal_map=kind, use_trivialization=near)
    matrix = module.weight if shape[0] >= shape[1] else module.weight.T
    assert torch.allclose(matrix.T @ matrix, torch.eye(3), atol=1e-4)
    if near or kind == "householder":
        assert torch.allclose(module.weight, before, atol=1e-5)
    module.weight.sum().backward()
    assert module.parametrizations.weight.original.grad.abs().sum().item() > 0


def test_orthogonal_refuses():
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        parametrizations.orthogonal(layer(), "bias")
    with pytest.raises(ValueError, match='has to be one of "matrix_exp", "cayley", "householder"'):
        parametrizations.orthogonal(layer(), orthogonal_map="other")
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'other'"):
        parametrizations.orthogonal(layer(), "other")


def test_spectral_norm():
    torch.manual_seed(0)
    module = parametrizations.spectral_norm(layer())
    assert list(module.state_dict())[1:] == [
        "parametrizations.weight.original", "parametrizations.weight.0._u",
        "parametrizations.weight.0._v",
    ]  # fmt: skip
    for _ in range(50):
        module.weight
    values = torch.linalg.svdvals(module.eval().weight)
    assert values[0].item() == pytest.approx(1.0, rel=1e-4)
    kept = module.parametrizations.weight[0]._u.clone()
    module.weight
    assert torch.equal(module.parametrizations.weight[0]._u, kept)
    vector = parametrizations.spectral_norm(layer(), "bias")
    assert vector.bias.norm().item() == pytest.approx(1.0, rel=1e-5)
    with pytest.raises(ValueError, match="n_power_iterations to be positive"):
        parametrizations.spectral_norm(layer(), n_power_iterations=0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        parametrizations.spectral_norm(layer(), dim=2)


class Wrapping(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Wrapping(parts["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        bare = [value.inner if isinstance(value, Wrapping) else value for value in args]
        found = func(*bare, **(kwargs or {}))
        return Wrapping(found) if isinstance(found, torch.Tensor) else found


def test_originals_change_places_where_that_is_asked_for():
    class Wraps(nn.Module):
        def forward(self, x):
            return Wrapping(x)

    layer = nn.Linear(2, 2)
    weight, values = layer.weight, layer.weight.detach().clone()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        parametrize.register_parametrization(layer, "weight", Wraps())
        assert type(layer.weight) is Wrapping and layer.parametrizations.weight.original is weight
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight and type(weight) is Wrapping
    assert isinstance(weight, nn.Parameter) and torch.equal(weight.inner, values)
