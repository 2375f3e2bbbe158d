"""`autograd.functional`: values, shapes that mirror the arguments, graphs kept, strict mode."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.autograd import functional as F

X = rl.tensor([1.0, 2.0])
Y = rl.tensor([3.0, 4.0, 5.0])
REVERSE = {"vectorize": False}, {"vectorize": True}
ALL = (*REVERSE, {"vectorize": True, "strategy": "forward-mode"})


def two(a, b):
    return a.sum() * b, a**2


def cubes(a):
    return (a**3).sum()


def product(a, b):
    return (a.sum() ** 2 * b).sum()


@pytest.mark.parametrize("how", ALL)
def test_jacobian(how):
    assert F.jacobian(lambda a: a**2, X, **how).tolist() == [[2, 0], [0, 4]]
    (aa, ab), (ba, bb) = F.jacobian(two, (X, Y), **how)
    assert aa.tolist() == [[3, 3], [4, 4], [5, 5]]
    assert ab.tolist() == [[3, 0, 0], [0, 3, 0], [0, 0, 3]]
    assert ba.tolist() == [[2, 0], [0, 4]]
    assert bb.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert F.jacobian(lambda a: a.sum(), (X,), **how)[0].tolist() == [1, 1]
    assert F.jacobian(lambda a: a[:0], X, **how).shape == (0, 2)
    assert F.jacobian(lambda a: a.outer(a), X, **how).shape == (2, 2, 2)


@pytest.mark.parametrize(
    "how", [*REVERSE, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}]
)
def test_hessian(how):
    assert F.hessian(cubes, X, **how).tolist() == [[6, 0], [0, 12]]
    assert F.hessian(lambda a: a.sum(), X, **how).tolist() == [[0, 0], [0, 0]]
    (aa, ab), (ba, bb) = F.hessian(product, (X, Y), **how)
    assert aa.tolist() == [[24, 24], [24, 24]]
    assert ab.tolist() == [[6] * 3] * 2 and ba.tolist() == [[6] * 2] * 3
    assert bb.tolist() == [[0] * 3] * 3


def test_products():
    ones2, ones3 = rl.ones(2), rl.ones(3)
    value, found = F.vjp(two, (X, Y), (ones3, ones2))
    assert [v.tolist() for v in value] == [[9, 12, 15], [1, 4]]
    assert [v.tolist() for v in found] == [[14, 16], [3, 3, 3]]
    value, found = F.jvp(two, (X, Y), (ones2, ones3))
    assert [v.tolist() for v in value] == [[9, 12, 15], [1, 4]]
    assert [v.tolist() for v in found] == [[9, 11, 13], [2, 4]]
    for product_of in (F.vhp, F.hvp):
        value, found = product_of(product, (X, Y), (ones2, ones3))
        assert value.item() == 108
        assert [v.tolist() for v in found] == [[66, 66], [12, 12, 12]]
        assert product_of(lambda a: a.sum(), X, ones2)[1].tolist() == [0, 0]
    assert F.vjp(cubes, X)[1].tolist() == [3, 12]
    assert F.jvp(lambda a: a * X, rl.tensor(2.0))[1].tolist() == [1, 2]
    assert F.vhp(cubes, rl.tensor(2.0))[1].item() == 12


def test_captured_inputs_are_constants_and_nothing_is_accumulated():
    w = rl.tensor([1.0, 2.0], requires_grad=True)
    assert F.jacobian(lambda a: a * w, w).tolist() == [[1, 0], [0, 2]]
    with rl.no_grad():
        assert F.vjp(cubes, w)[1].tolist() == [3, 12]
    assert w.grad is None


def test_graph_is_kept_on_demand():
    w = rl.tensor([1.0, 2.0], requires_grad=True)
    assert not F.jacobian(cubes, w).requires_grad
    for how in REVERSE:
        made = F.jacobian(cubes, w, create_graph=True, **how)
        assert rl.autograd.grad(made.sum(), w)[0].tolist() == [6, 12]
        made = F.hessian(cubes, w, create_graph=True, **how)
        assert rl.autograd.grad(made.sum(), w)[0].tolist() == [6, 6]
    for product_of, expected in ((F.vjp, [6, 12]), (F.vhp, [6, 6]), (F.hvp, [6, 6])):
        v = None if product_of is F.vjp else rl.ones(2)
        _, made = product_of(cubes, w, v, create_graph=True)
        assert rl.autograd.grad(made.sum(), w)[0].tolist() == expected
    value, made = F.jvp(lambda a: a**3, w, rl.ones(2), create_graph=True)
    assert value.requires_grad and rl.autograd.grad(made.sum(), w)[0].tolist() == [6, 12]


ones = rl.ones(2)
leaf = rl.ones(2, requires_grad=True)
INDEPENDENT = "is independent of input {}. This is not allowed in strict mode"


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda: F.jacobian(two, (X, Y), strict=True), RuntimeError,
         "Output 1 of the user-provided function " + INDEPENDENT.format(1)),
        (lambda: F.jacobian(lambda a: ones, X, strict=True), RuntimeError,
         "Output 0 of the user-provided function does not require gradients."),
        (lambda: F.jacobian(lambda a: a * 2, leaf, strict=True, create_graph=True), RuntimeError,
         "The jacobian of the user-provided function " + INDEPENDENT.format(0)),
        (lambda: F.vjp(lambda a: leaf * 2, X, ones, strict=True), RuntimeError,
         "The output of the user-provided function " + INDEPENDENT.format(0)),
        (lambda: F.vjp(lambda a: a.sum(), leaf, strict=True, create_graph=True), RuntimeError,
         "The jacobian of the user-provided function " + INDEPENDENT.format(0)
         + " when create_graph=True."),
        (lambda: F.jvp(lambda a: a * 2, leaf, ones, strict=True, create_graph=True), RuntimeError,
         "The jacobian of the user-provided function " + INDEPENDENT.format(0)
         + " when create_graph=True."),
        (lambda: F.vhp(lambda a: (a * a).sum(), leaf, ones, strict=True, create_graph=True),
         RuntimeError, "The hessian of the user-provided function " + INDEPENDENT.format(0)
         + " when create_graph=True."),
        (lambda: F.vhp(lambda a, b: (a**2).sum(), (X, Y), (X, Y), strict=True), RuntimeError,
         "The output of the user-provided function " + INDEPENDENT.format(1)),
        (lambda: F.hvp(lambda a, b: (a * 2).sum(), (X, Y), (X, Y), strict=True), RuntimeError,
         "found that the jacobian of the user-provided function with respect to input 0 is"),
        (lambda: F.hessian(lambda a, b: (a**2).sum(), (X, Y), strict=True), RuntimeError,
         "found that the jacobian of the user-provided function with respect to input 1 is"),
        (lambda: F.hessian(lambda a: rl.ones(2), X, strict=True), RuntimeError,
         "Output 0 of the user-provided function does not require gradients."),
        (lambda: F.hessian(lambda a: a.sum(), X, strict=True), RuntimeError,
         "While computing the hessian, found that the jacobian of the user-provided function with "
         "respect to input 0 is independent of the input."),
        (lambda: F.jacobian(cubes, X, strict=True, vectorize=True), RuntimeError,
         "`strict=True` and `vectorized=True` are not supported together"),
        (lambda: F.jacobian(cubes, X, strategy="forward-mode"), NotImplementedError,
         "only implemented for `vectorize=True`"),
        (lambda: F.jacobian(cubes, X, strategy="sideways"), AssertionError,
         'Expected strategy to be either "forward-mode" or "reverse-mode"'),
        (lambda: F.jacobian(cubes, [X]), TypeError,
         "The inputs given to jacobian must be either a Tensor or a tuple of Tensors but the given "
         "inputs has type <class 'list'>."),
        (lambda: F.jacobian(lambda a: (a, 3), X), TypeError, "but the value at index 1 has type"),
        (lambda: F.hessian(lambda a: a, X), RuntimeError,
         "The Tensor returned by the function given to hessian should contain a single element"),
        (lambda: F.hessian(lambda a: (a.sum(), a.sum()), X), RuntimeError,
         "The function given to hessian should return a single Tensor"),
        (lambda: F.vjp(lambda a: a, X), RuntimeError, "The vector v can only be None if"),
        (lambda: F.vjp(lambda a: a, X, rl.ones(3)), RuntimeError,
         "v has invalid size: should be torch.Size([2]) but got torch.Size([3])."),
        (lambda: F.vjp(two, (X, Y), (rl.ones(3),)), RuntimeError,
         "v is a tuple of invalid length: should be 2 but got 1."),
    ],
)  # fmt: skip
def test_misuse(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: F.jacobian(f, (X, Y), vectorize=True, strategy="forward-mode"),
        lambda f: F.jacobian(f, (X, Y), vectorize=True),
        lambda f: F.hessian(
            lambda a, b: f(a, b)[0].sum(), (X, Y), vectorize=True,
            outer_jacobian_strategy="forward-mode",
        ),
    ],
)  # fmt: skip
def test_a_vectorized_call_runs_the_function_once(call):
    runs = []

    def counted(a, b):
        runs.append(1)
        return two(a, b)

    call(counted)
    assert len(runs) == 1


def test_forward_mode_without_columns():
    how = {"vectorize": True, "strategy": "forward-mode"}
    assert F.jacobian(lambda a: a.sum(), rl.zeros(0), **how).shape == (0,)
    assert F.jacobian(lambda a, b: b, (rl.zeros(0), X), **how)[0].shape == (2, 0)
