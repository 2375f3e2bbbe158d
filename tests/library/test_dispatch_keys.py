"""Kernels by dispatch key, on operators of the library and of a program's own. Expectations are
what torch 2.13 answers."""

from __future__ import annotations

import gc

import pytest

import rushlight as torch
from rushlight import library
from rushlight.core import keys
from rushlight.core.keys import DispatchKey, DispatchKeySet
from rushlight.core.modes import TorchDispatchMode
from rushlight.library import Library

autocast = torch.autocast


@pytest.fixture
def aten():
    with library._scoped_library("aten", "IMPL") as lib:
        yield lib


def cos(x):
    return torch.cos(x)


def five(x):
    return torch.full((1,), 5.0)


class Sub(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return torch.full((1,), 9.0)


# Key -> a call that its kernel answers, and a call that it must not answer.
REACHED = {
    "CPU": (lambda: torch.sin(torch.zeros(1)), lambda: torch.sin(torch.zeros(1, device="meta"))),
    "Meta": (
        lambda: torch.sin(torch.zeros(1, device="meta")),
        lambda: torch.sin(torch.zeros(1)),
    ),
    "Autograd": (lambda: torch.sin(torch.zeros(1)), lambda: torch.tanh(torch.zeros(1))),
    "AutogradCPU": (
        lambda: torch.sin(torch.zeros(1)),
        lambda: torch.tanh(torch.zeros(1)),
    ),
    "Functionalize": (
        lambda: torch.func.functionalize(torch.sin)(torch.zeros(1)),
        lambda: torch.sin(torch.zeros(1)),
    ),
    "FuncTorchBatched": (
        lambda: torch.vmap(torch.sin)(torch.zeros(2, 3)),
        lambda: torch.sin(torch.zeros(1)),
    ),
    "SparseCPU": (
        lambda: torch.sin(torch.eye(2).to_sparse()),
        lambda: torch.sin(torch.zeros(1)),
    ),
    "SparseCsrCPU": (
        lambda: torch.sin(torch.eye(2).to_sparse_csr()),
        lambda: torch.sin(torch.eye(2).to_sparse()),
    ),
    "Python": (
        lambda: torch.sin(torch.zeros(1).as_subclass(Sub)),
        lambda: torch.sin(torch.zeros(1)),
    ),
    "ADInplaceOrView": (
        lambda: torch.sin(torch.zeros(1)),
        lambda: torch.tanh(torch.zeros(1)),
    ),
}


@pytest.mark.parametrize("key", REACHED)
def test_a_kernel_is_called_where_its_key_is_and_no_longer_than_its_library_lives(key):
    inside, outside = REACHED[key]
    before = outside()
    inside()  # what calls remember is found anew
    called = []

    def kernel(x):
        called.append(True)
        return torch.empty(x.shape, device="meta") if key == "Meta" else torch.full((1,), 5.0)

    lib = Library("aten", "IMPL")
    lib.impl("sin", kernel, key)
    result = inside()
    assert called == [True]
    if key != "Meta":
        assert set(result.flatten().tolist()) == {5.0}
    again = outside()
    assert called == [True] and again.shape == before.shape
    del lib
    gc.collect()
    inside()
    assert called == [True]


def test_kernels_for_all_backends_yield_to_the_operator_s_own(aten):
    aten.impl("sin", cos, "CompositeImplicitAutograd")
    aten.impl("sin", cos, "CompositeExplicitAutograd")
    assert torch.sin(torch.zeros(1)).item() == 0.0


def test_a_composite_s_body_can_be_replaced(aten):
    aten.impl("linear", lambda x, w, b=None: x * 7, "CompositeImplicitAutograd")
    x = torch.ones(1, 2, requires_grad=True)
    y = torch.nn.functional.linear(x, torch.ones(2, 2))
    assert y.tolist() == [[7.0, 7.0]] and y.requires_grad


def test_a_factory_takes_a_kernel_for_all_backends(aten):
    aten.impl("ones", lambda size, **options: torch.full(size, 7.0), "CompositeExplicitAutograd")
    assert torch.ones(2).tolist() == [7.0, 7.0]


def test_what_a_kernel_below_autograd_calls_is_not_recorded(aten):
    aten.impl("mul.Tensor", lambda x, y: torch.add(x, y), "CPU")
    x = torch.full((2,), 3.0, requires_grad=True)
    y = x * x
    assert y.tolist() == [6.0, 6.0] and type(y.grad_fn).__name__ == "MulBackward0"


def test_formulas_call_replaced_operators(aten):
    aten.impl("cos", lambda x: torch.full_like(x, 9.0), "CPU")
    x = torch.ones(2, requires_grad=True)
    torch.sin(x).sum().backward()
    assert x.grad.tolist() == [9.0, 9.0]


def test_an_autocast_kernel_stands_for_the_casts(aten):
    def mm(a, b):
        with autocast("cpu", enabled=False):
            return torch.mm(a.double(), b.double())

    aten.impl("mm", mm, "AutocastCPU")
    x = torch.ones(2, 2)
    with autocast("cpu", torch.bfloat16):
        assert torch.mm(x, x).dtype is torch.float64
    assert torch.mm(x, x).dtype is torch.float32


def test_a_fallthrough_switches_a_layer_off_for_an_operator():
    x = torch.ones(2, 2, requires_grad=True)
    lib = Library("aten", "IMPL")
    lib.impl("mm", library.fallthrough_kernel, "AutocastCPU")
    lib.impl("sin", library.fallthrough_kernel, "AutogradCPU")
    with autocast("cpu", torch.bfloat16):
        assert torch.mm(x, x).dtype is torch.float32
    assert not torch.sin(x).requires_grad
    lib._destroy()
    with autocast("cpu", torch.bfloat16):
        assert torch.mm(x, x).dtype is torch.bfloat16
    assert torch.sin(x).requires_grad


def test_modes_pass_by_an_operator_whose_python_key_falls_through(aten):
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    aten.impl("sin", library.fallthrough_kernel, "Python")
    x = torch.zeros(1)
    with Mode():
        y = torch.sin(x)
        torch.cos(x)
    assert y.item() == 0.0 and seen == ["aten.cos.default"]


def test_the_kernel_of_another_library_is_in_force_again():
    first, second = Library("aten", "IMPL"), Library("aten", "IMPL")
    first.impl("sin", lambda x: x, "CPU")
    second.impl("sin", lambda x: x * 0 + 2, "CPU")
    assert torch.sin(torch.ones(1)).item() == 2.0
    second._destroy()
    assert torch.sin(torch.ones(1)).item() == 1.0
    with pytest.raises(RuntimeError, match="already a kernel registered from python overriding"):
        Library("aten", "IMPL").impl("sin", cos, "CPU", allow_override=False)
    first._destroy()
    assert torch.sin(torch.zeros(1)).item() == 0.0


def test_kernels_get_no_arguments_at_the_end_that_have_their_default():
    log = []
    with library._scoped_library("keyed", "FRAGMENT") as lib:
        lib.define(
            'f(Tensor x, int[] s, float[]? k=None, str m="a", *, bool flag=False, Scalar a=1)'
            " -> Tensor"
        )
        lib.impl("f", lambda *a, **k: (log.append((a[1:], k)), a[0] + 0)[1], "CPU")
        f, x = torch.ops.keyed.f, torch.ones(1)
        f(x, [1])
        f(x, (1, 2), [1.5])
        f(x, [1], None, "b", flag=True, a=2.5)
        f(x, [1], m="q")
    assert log == [
        (([1],), {}),
        (([1, 2], [1.5]), {}),
        (([1], None, "b"), {"flag": True, "a": 2.5}),
        (([1], None, "q"), {}),
    ]


def test_a_kernel_may_ask_for_the_keys_of_the_call():
    seen = []
    with library._scoped_library("keyed", "FRAGMENT") as lib:
        lib.define("g(Tensor x) -> Tensor")

        def at_autograd(present, x):
            seen.append(present.has(DispatchKey.AutogradCPU))
            return torch.ops.keyed.g.default.redispatch(present & keys.AFTER_AUTOGRAD, x)

        lib.impl("g", at_autograd, "Autograd", with_keyset=True)
        lib.impl("g", lambda ks, x: (seen.append(str(ks)), x + 1)[1], "CPU", with_keyset=True)
        assert torch.ops.keyed.g(torch.ones(1)).item() == 2.0
    assert seen == [True, "DispatchKeySet(CPU)"]


def test_autograd_kernels_are_chosen_by_device():
    with library._scoped_library("keyed", "FRAGMENT") as lib:
        lib.define("h(Tensor x) -> Tensor")
        lib.impl("h", lambda x: x + 1, "CPU")
        lib.impl("h", lambda x: x + 100, "AutogradCUDA")
        assert torch.ops.keyed.h(torch.ones(1)).item() == 2.0
        lib.impl("h", lambda x: x + 10, "AutogradCPU")
        assert torch.ops.keyed.h(torch.ones(1)).item() == 11.0


def test_results_without_an_autograd_kernel_warn_in_backward():
    with library._scoped_library("keyed", "FRAGMENT") as lib:
        lib.define("plain(Tensor x) -> Tensor")
        lib.impl("plain", lambda x: x.detach().clone(), "CPU")
        x = torch.ones(1, requires_grad=True)
        y = torch.ops.keyed.plain(x)
        assert y.requires_grad
        with pytest.warns(UserWarning, match="keyed::plain: an autograd kernel was not registered"):
            y.sum().backward()
        assert x.grad is None


# -- keys and sets ---------------------------------------------------------------------------------


def test_key_sets():
    both = DispatchKeySet(DispatchKey.CPU) | DispatchKeySet("AutogradCPU")
    assert repr(both) == "DispatchKeySet(CPU, AutogradCPU)"
    assert both.highestPriorityTypeId() is DispatchKey.AutogradCPU
    assert both.has("CPU") and not both.remove("CPU").has(DispatchKey.CPU)
    assert both - DispatchKeySet("CPU") == DispatchKeySet("AutogradCPU")
    assert repr(DispatchKeySet(DispatchKey.Autograd)) == "DispatchKeySet()"
    assert DispatchKeySet.from_raw_repr(both.raw_repr()) == both
    assert str(DispatchKey.CPU) == "DispatchKey.CPU"
    with pytest.raises(RuntimeError, match="could not parse dispatch key: Foo"):
        DispatchKeySet("Foo")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(1), "CPU, ADInplaceOrView, AutogradCPU, AutocastCPU"),
        (lambda: torch.ones(1, device="meta"), "Meta, ADInplaceOrView, AutogradMeta"),
        (
            lambda: torch.eye(2).to_sparse(),
            "SparseCPU, ADInplaceOrView, AutogradCPU, AutocastCPU",
        ),
        (
            lambda: torch.ones(1, dtype=torch.complex64).conj(),
            "CPU, Conjugate, ADInplaceOrView, AutogradCPU, AutocastCPU",
        ),
        (
            lambda: torch.ones(1).as_subclass(Sub),
            "CPU, Python, ADInplaceOrView, AutogradCPU, AutocastCPU, PythonTLSSnapshot",
        ),
    ],
)
def test_the_keys_of_tensors(make, text):
    assert repr(keys.keys_of((make(),))) == f"DispatchKeySet({text})"


def test_guards_hold_until_they_are_left_or_gone():
    x = torch.ones(1, requires_grad=True)
    guard = keys.AutoDispatchBelowAutograd()
    assert not torch.sin(x).requires_grad
    del guard
    assert torch.sin(x).requires_grad
    with keys.ExcludeDispatchKeyGuard(DispatchKeySet("AutogradCPU")):
        assert not torch.sin(x).requires_grad
        with keys.IncludeDispatchKeyGuard(DispatchKeySet("AutogradCPU")):
            assert torch.sin(x).requires_grad
        assert not torch.sin(x).requires_grad
        with keys.ForceDispatchKeyGuard(DispatchKeySet("CPU"), DispatchKeySet("Python")):
            assert torch.sin(x).requires_grad
        assert not torch.sin(x).requires_grad
    assert torch.sin(x).requires_grad
