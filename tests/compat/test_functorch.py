"""The package `functorch`: modules as functions, former names of transforms, paths that libraries
import. Values are those of torch 2.13."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

import rushlight as torch
from rushlight import compat, nn
from rushlight.compat import functorch
from rushlight.compat.make_functional import (
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)

ONES = torch.ones(2)


class Net(nn.Module):
    """A parameter and a buffer under two names each."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(2))
        self.b = self.a
        self.l = nn.Linear(2, 1, bias=False)
        self.register_buffer("c", torch.ones(()))
        self.d = self.c
        with torch.no_grad():
            self.l.weight.fill_(2.0)

    def forward(self, x):
        return self.l(x * self.a + self.b) + self.c + self.d


def test_modules_as_functions():
    net = Net()
    f, parameters, buffers = make_functional_with_buffers(net)
    assert type(f) is FunctionalModuleWithBuffers
    assert (f.param_names, f.buffer_names) == (("a", "l.weight"), ("c",))
    assert [tuple(p.shape) for p in parameters] == [(2,), (1, 2)]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in parameters)
    assert parameters[0] is not net.a
    assert f(parameters, buffers, ONES).tolist() == [10.0]
    assert f([torch.zeros(2), torch.ones(1, 2)], [torch.tensor(5.0)], ONES).tolist() == [6.0]
    # The function itself holds no values.
    assert {p.device.type for p in f.parameters()} == {"meta"}
    assert net(ONES).tolist() == [10.0]


def test_modules_without_buffers():
    layer = nn.Linear(2, 1)
    f, parameters = make_functional(layer, disable_autograd_tracking=True)
    assert [p.requires_grad for p in parameters] == [False, False]
    assert layer.weight.requires_grad
    assert torch.equal(f(parameters, ONES), layer(ONES))
    gradient = torch.func.grad(lambda p: f(p, ONES).sum())(parameters)
    assert gradient[0].tolist() == [[1.0, 1.0]]
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        make_functional(Net())


def test_a_failing_function_holds_no_values_after():
    f, parameters, buffers = make_functional_with_buffers(Net())
    with pytest.raises(TypeError):
        f(parameters, buffers)
    assert {p.device.type for p in f.parameters()} == {"meta"}


def test_ensembles():
    f, parameters, buffers = combine_state_for_ensemble([Net(), Net()])
    assert [tuple(p.shape) for p in (*parameters, *buffers)] == [(2, 2), (2, 1, 2), (2,)]
    assert not any(p.requires_grad for p in parameters)
    found = torch.func.vmap(f, (0, 0, None))(parameters, buffers, ONES)
    assert found.tolist() == [[10.0], [10.0]]
    for models, text in (
        ([], "Expected at least one model, got 0"),
        ([Net(), Net().eval()], "same training/eval mode"),
        ([Net(), nn.Linear(1, 1)], "of the same class"),
    ):
        with pytest.raises(RuntimeError, match=f"combine_state_for_ensemble: .*{text}"):
            combine_state_for_ensemble(models)


@pytest.mark.parametrize(
    "name, call",
    [
        ("vmap", lambda f: f(torch.sin)(torch.zeros(1)).item() == 0.0),
        ("grad", lambda f: f(torch.sin)(torch.tensor(0.0)).item() == 1.0),
        ("jvp", lambda f: f(torch.sin, (ONES,), (ONES,))[1].shape == (2,)),
        ("hessian", lambda f: f(torch.sum)(ONES).shape == (2, 2)),
        ("make_functional", lambda f: len(f(nn.Linear(1, 1))[1]) == 2),
    ],
)
def test_former_names_warn(name, call):
    with pytest.warns(FutureWarning, match=rf"`functorch\.{name}` is deprecated as of PyTorch 2.0"):
        assert call(getattr(functorch, name))


def test_former_names_tell_the_new_ones():
    for name, new in (("vmap", "torch.vmap"), ("jacrev", "torch.func.jacrev")):
        with pytest.warns(FutureWarning, match=rf"Please use `{new}` instead"):
            getattr(functorch, name)(torch.sin)


def test_batches_in_chunks():
    seen = []

    def double(x):
        seen.append(1)
        return x * 2

    found = functorch.chunk_vmap(double, chunks=2)(torch.arange(5.0))
    assert found.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert len(seen) == 2
    assert functorch.chunk_vmap(double, chunks=1)(ONES).tolist() == [2.0, 2.0]
    assert len(seen) == 3


@pytest.fixture
def installed() -> Iterator[None]:
    was = compat.is_installed()
    compat.install()
    yield
    if not was:
        compat.uninstall()


PATHS = {
    "functorch": "vmap grad grad_and_value vjp jvp jacrev jacfwd hessian functionalize make_fx "
    "make_functional make_functional_with_buffers combine_state_for_ensemble FunctionalModule "
    "FunctionalModuleWithBuffers __version__",
    "functorch.compile": "aot_function aot_module make_boxed_func default_partition",
    "functorch.experimental": "chunk_vmap functionalize hessian jacfwd jvp "
    "replace_all_batch_norm_modules_",
    "functorch.einops": "rearrange",
    "functorch.dim": "dims dimlists Dim DimList Tensor stack cat split softmax index "
    "DimensionBindError",
    "torch.func": "debug_unwrap functional_call functionalize grad grad_and_value hessian jacfwd "
    "jacrev jvp linearize rearrange replace_all_batch_norm_modules_ stack_module_state vjp vmap",
    "torch._vmap_internals": "vmap _vmap",
    "torch._functorch.apis": "vmap chunk_vmap grad grad_and_value",
    "torch._functorch.eager_transforms": "jvp vjp jacrev jacfwd hessian linearize functionalize "
    "_unwrap_for_grad _wrap_for_grad",
    "torch._functorch.vmap": "is_batchedtensor _add_batch_dim _remove_batch_dim",
    "torch._functorch.functional_call": "functional_call stack_module_state",
    "torch._functorch.make_functional": "make_functional FunctionalModule",
    "torch._functorch.batch_norm_replacement": "replace_all_batch_norm_modules_",
    "torch._functorch.pyfunctorch": "TransformType retrieve_current_functorch_interpreter",
    "torch._functorch.autograd_function": "VmapInfo",
    "torch._C._functorch": "is_batchedtensor get_unwrapped maybe_get_bdim maybe_get_level "
    "current_level maybe_current_level peek_interpreter_stack get_interpreter_stack "
    "is_gradtrackingtensor is_functorch_wrapped_tensor is_functionaltensor unwrap_if_dead "
    "is_dead_tensor_wrapper _vmap_increment_nesting _vmap_decrement_nesting _add_batch_dim "
    "_remove_batch_dim _grad_increment_nesting _grad_decrement_nesting _wrap_for_grad "
    "_unwrap_for_grad TransformType RandomnessType",
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_libraries_import(path, installed):
    module = importlib.import_module(path)
    assert [name for name in PATHS[path].split() if not hasattr(module, name)] == []
