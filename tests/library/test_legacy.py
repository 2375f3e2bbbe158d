"""Operators by the older API: torch._custom_ops and torch._custom_op.impl."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import Tensor
from rushlight.library import legacy

pytestmark = pytest.mark.filterwarnings("ignore:torch._custom_op is deprecated")


@pytest.fixture
def names():
    made = []
    yield made
    for name in made:
        if name in legacy.global_registry:
            legacy.destroy(name)


def test_parts_are_registered_by_name(names):
    names.append("legacy::foo")

    @legacy.define_op("legacy::foo")
    def foo(x: Tensor, k: float) -> Tensor: ...

    assert foo.__name__ == "foo"
    seen = []
    legacy.impl("legacy::foo", device_types="cpu")(lambda x, k: x.sin() * k)
    legacy.impl_abstract("legacy::foo")(lambda x, k: torch.empty_like(x))

    @legacy.impl_save_for_backward("legacy::foo")
    def save(inputs, output):
        seen.append(type(inputs).__name__)
        return {"x": inputs.x, "k": inputs.k}

    @legacy.impl_backward("legacy::foo")
    def backward(ctx, saved, grad):
        return {"x": grad * saved["x"].cos() * saved["k"]}

    x = torch.zeros(2, requires_grad=True)
    torch.ops.legacy.foo(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and seen == ["foo_args"]
    assert torch.ops.legacy.foo(torch.ones(4, device="meta"), 1.0).shape == (4,)


def test_an_operator_object(names):
    names.append("legacy::bar")

    @legacy.custom_op("legacy::bar")
    def bar(x: Tensor) -> Tensor: ...

    @bar.impl("cpu")
    def _(x):
        return x * 3

    assert bar(torch.ones(1)).item() == 3.0 and repr(bar) == '<CustomOp(op="legacy::bar")>'
    with pytest.raises(RuntimeError, match="already has a cpu impl registered from Python at"):
        bar.impl("cpu")(abs)
    bar._destroy()
    with pytest.raises(AttributeError, match="'_OpNamespace' 'legacy' object has no attribute"):
        _ = torch.ops.legacy.bar


def test_lists_and_results_that_are_not_differentiable(names):
    names.append("legacy::pair")

    @legacy.custom_op("legacy::pair")
    def pair(xs: list[Tensor]) -> tuple[Tensor, Tensor]: ...

    pair.impl("cpu")(lambda xs: (xs[0] + xs[1], xs[0] * 1))
    pair.impl_save_for_backward()(lambda inputs, output: len(inputs.xs))
    pair.impl_backward(output_differentiability=[True, False])(
        lambda ctx, saved, first, second: {"xs": [first * saved, None]}
    )
    x = torch.ones(1, requires_grad=True)
    first, second = pair([x, torch.ones(1)])
    assert first.requires_grad and not second.requires_grad
    first.backward()
    assert x.grad.item() == 2.0


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda grad: grad, "expected the output of the backward function to be a dict"),
        (lambda grad: {}, "to have keys {'x'} but got"),
        (lambda grad: {"x": 3}, "got object of type <class 'int'> as the gradient for input 'x'"),
    ],
)
def test_gradients_are_checked(names, answer, text):
    names.append("legacy::wrong")

    @legacy.custom_op("legacy::wrong")
    def wrong(x: Tensor) -> Tensor: ...

    wrong.impl("cpu")(lambda x: x.clone())
    wrong.impl_save_for_backward()(lambda inputs, output: None)
    wrong.impl_backward()(lambda ctx, saved, grad: answer(grad))
    with pytest.raises(RuntimeError, match=text):
        wrong(torch.ones(1, requires_grad=True)).backward()


def test_both_halves_of_a_gradient_are_needed(names):
    names.append("legacy::half")

    @legacy.custom_op("legacy::half")
    def half(x: Tensor) -> Tensor: ...

    half.impl("cpu")(lambda x: x.clone())
    half.impl_backward()(lambda ctx, saved, grad: {"x": grad})
    with pytest.raises(RuntimeError, match="unable to find a 'save_for_backward' registration"):
        half(torch.ones(1, requires_grad=True))


def f(x: Tensor) -> Tensor: ...
def g(self: Tensor) -> Tensor: ...


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: legacy.custom_op("nons")(f), "Expected there to be a namespace in nons"),
        (lambda: legacy.custom_op("a::b.c")(f), "do not handle overloads"),
        (lambda: legacy.custom_op("aten::f")(f), "'aten' is a reserved namespace"),
        (lambda: legacy.custom_op("legacy::q")(f), "to have name 'q' but got 'f'"),
        (lambda: legacy.custom_op("legacy::f")(3), "to be a Python function, got"),
        (lambda: legacy.custom_op("legacy::g")(g), "does not support arguments named 'self'"),
        (
            lambda: legacy.custom_op("legacy::f", "(Tensor(a!) x) -> ()")(f),
            "only supports functional operators",
        ),
        (
            lambda: legacy.custom_op("legacy::f", "(Tensor x) -> Tensor")(f),
            "we expect `func` to have no type annotations",
        ),
    ],
)
def test_refusals(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_an_operator_of_a_library_takes_a_gradient():
    with torch.library._scoped_library("legacy", "FRAGMENT") as lib:
        lib.define("given(Tensor x) -> Tensor")
        lib.impl("given", lambda x: x.detach().clone(), "CPU")
        legacy.impl_save_for_backward("legacy::given")(lambda inputs, output: ())
        legacy.impl_backward("legacy::given")(lambda ctx, saved, grad: {"x": grad * 4})
        x = torch.ones(1, requires_grad=True)
        torch.ops.legacy.given(x).backward()
        assert x.grad.item() == 4.0
        legacy.destroy("legacy::given")
