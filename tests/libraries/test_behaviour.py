"""What libraries expect of the classes and functions that they build on."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base import pytree


@pytest.fixture
def parameter():
    return torch.nn.Parameter(torch.zeros(4))


@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD([p], lr=1.0), torch.nn.ParameterList])
def test_gradients_that_are_views_become_zero_in_place(parameter, make):
    memory = torch.ones(8)
    with torch.no_grad():
        parameter.grad = memory[:4]
    owner = make([parameter]) if make is torch.nn.ParameterList else make(parameter)
    owner.zero_grad(set_to_none=False)
    assert memory.tolist() == [0.0] * 4 + [1.0] * 4


def test_an_optimizer_may_wrap_another_without_being_initialised(parameter):
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    parameter.grad = torch.ones(4)
    Wrapper(torch.optim.SGD([parameter], lr=1.0)).step()
    assert parameter.tolist() == [-1.0] * 4


def test_every_optimizer_is_in_the_modules_dict():
    classes = [value for value in torch.optim.__dict__.values() if isinstance(value, type)]
    assert {cls.__name__ for cls in classes} >= {"Adam", "LBFGS", "Muon", "SparseAdam"}


def test_register_kl_takes_classes_that_only_act_as_distributions():
    class Likeness:
        pass

    kl = torch.distributions.kl
    kl.register_kl(Likeness, Likeness)(lambda p, q: 7)
    assert torch.distributions.kl_divergence(Likeness(), Likeness()) == 7
    with pytest.raises(TypeError, match="type_p"):
        kl.register_kl("Normal", Likeness)
    del kl._KL_REGISTRY[Likeness, Likeness]


@pytest.mark.parametrize(
    "name, tree",
    [("dict", {"a": 1, "b": 2}), ("list", [1, 2]), ("tuple", (1, 2))],
)
def test_forms_of_builtin_containers_have_names(name, tree):
    children, context = getattr(pytree, f"_{name}_flatten")(tree)
    assert getattr(pytree, f"_{name}_unflatten")(children, context) == tree
    keyed, same = getattr(pytree, f"_{name}_flatten_with_keys")(tree)
    assert [child for _, child in keyed] == list(children) and same == context


def test_a_storage_over_a_file_is_read_by_slices(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    storage = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=16)
    part = torch.asarray(storage[4:12], dtype=torch.uint8)
    assert part.tolist() == list(range(4, 12))
    assert part.view(torch.int32).shape == (2,)


@torch.jit.script
def contract(x, y, dim: int):
    return torch.tensordot(x, y, ([dim], [1])) + torch.tensordot(x.t(), y.t(), dims=1)


def test_scripts_contract_dims_of_every_spelling():
    torch.manual_seed(0)
    x, y = torch.randn(3, 4), torch.randn(5, 3)
    x = x[:, :3]
    wanted = torch.tensordot(x, y, ([0], [1])) + torch.tensordot(x.t(), y.t(), 1)
    assert torch.allclose(contract(x, y, 0), wanted)


def test_a_mapped_index_of_one_number_is_an_op():
    from rushlight.func.subscripts import TransformGetItemToIndex

    table, places = torch.arange(5) * 10, torch.tensor([3, 0, 4])
    with TransformGetItemToIndex():
        found = torch.vmap(lambda place: table[place])(places)
    assert found.tolist() == [30, 0, 40]


def test_compiled_libraries_are_read_for_the_operators_they_name(tmp_path):
    known, unknown = tmp_path / "known.so", tmp_path / "unknown.so"
    known.write_bytes(b"\x7fELF\0torchvision::nms\0torchvision::roi_align(Tensor input)\0")
    unknown.write_bytes(b"\x7fELF\0elsewhere::op\0std::vector\0")
    torch.ops.load_library(str(known))
    assert str(known) in torch.ops.loaded_libraries
    with pytest.raises(OSError, match="RL0301"):
        torch.ops.load_library(str(unknown))
    with pytest.raises(OSError, match="No such file"):
        torch.ops.load_library(str(tmp_path / "none.so"))
