"""linearize: values, one run of the function, levels around it, writes, and refusals."""

import gc
import weakref

import pytest

import rushlight as torch
from rushlight.core.modes import TorchDispatchMode
from rushlight.func import grad, jacfwd, jvp, linearize, vmap

X = torch.tensor([1.0, 2.0, 3.0])


def mixed(x):
    return x * x.sum()


def test_the_function_runs_once_and_only_its_linear_part_after():
    runs = []

    def f(x):
        runs.append(x.shape)
        return mixed(x).sin()

    value, push = linearize(f, X)
    assert value.tolist() == pytest.approx([-0.2794155, -0.5365729, -0.7509872])
    for tangent in (X, torch.ones(3)):
        wanted = jvp(lambda x: mixed(x).sin(), (X,), (tangent,))[1]
        assert push(tangent).tolist() == pytest.approx(wanted.tolist())
    assert len(runs) == 1


def test_what_the_function_computes_is_not_computed_again():
    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    _, push = linearize(lambda x: torch.linalg.inv(x.diag()).exp().sin().sum(), X)
    with Count():
        push(X)
    # The inverse, the exponential and the cosine are constants of the derivative.
    assert not {"linalg_inv_ex.default", "exp.default", "cos.default", "sin.default"} & set(names)
    assert "mul.Tensor" in names


def test_structures():
    value, push = linearize(
        lambda d, z: {"o": (d["a"] * d["b"], d["a"].sum() * z)}, {"a": X, "b": 2 * X}, X
    )
    assert value["o"][0].tolist() == [2.0, 8.0, 18.0]
    found = push({"a": X, "b": torch.ones(3)}, torch.zeros(3))
    assert found["o"][0].tolist() == [3.0, 10.0, 21.0]
    assert found["o"][1].tolist() == [6.0, 12.0, 18.0]


def test_what_does_not_depend_on_the_inputs_has_a_tangent_of_zeros():
    value, push = linearize(lambda x: (torch.ones(2), x, 3), X)
    assert value[2] == 3
    found = push(X)
    assert found[0].tolist() == [0.0, 0.0]
    assert found[1].tolist() == X.tolist()


def test_transforms_of_the_linear_function():
    _, push = linearize(mixed, X)
    expected = jacfwd(mixed)(X)
    assert torch.equal(vmap(push, out_dims=1)(torch.eye(3)), expected)
    assert torch.equal(grad(lambda t: push(t)[0])(X), expected[0])
    assert torch.equal(jvp(push, (X,), (torch.ones(3),))[1], expected.sum(1))


def test_under_transforms():
    batch = torch.stack([X, 2 * X])
    found = vmap(lambda x: linearize(mixed, x)[1](X))(batch)
    assert torch.equal(found, vmap(lambda x: jvp(mixed, (x,), (X,))[1])(batch))
    # The derivative of x**2 along t is 2 x t, whose derivative by x is 2 t.
    assert grad(lambda x: linearize(torch.square, x)[1](X).sum())(X).tolist() == [2.0, 4.0, 6.0]
    weight = torch.ones(3, requires_grad=True)
    _, push = linearize(lambda x: x * x * weight, X)
    assert torch.autograd.grad(push(X).sum(), weight)[0].tolist() == [2.0, 8.0, 18.0]
    _, outer = linearize(lambda x: linearize(lambda y: y**3, x)[1](X), X)
    assert outer(torch.ones(3)).tolist() == [6.0, 24.0, 54.0]


def test_writes_inside_leave_tangents_alone():
    def f(x):
        y = torch.zeros(3)
        y[0] = x[0] * x[1]
        y[1:].add_(x[1:]).mul_(x[1:])
        return y

    _, push = linearize(f, X)
    tangent = torch.ones(3)
    for _ in range(2):
        assert push(tangent).tolist() == [3.0, 4.0, 6.0]
        assert push(2 * tangent).tolist() == [6.0, 8.0, 12.0]
    assert tangent.tolist() == [1.0, 1.0, 1.0]
    _, push = linearize(lambda x: x.clone().mul_(x).sin_(), X)
    assert push(X).tolist() == pytest.approx([1.0806046, -5.2291489, -16.4003448])


def test_random_numbers_are_drawn_once():
    _, push = linearize(lambda x: x * torch.rand(3), X)
    assert torch.equal(push(X), push(X))


def test_a_custom_function_pushes_through_its_own_jvp():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * tangent

    _, push = linearize(Cube.apply, X)
    assert push(torch.ones(3)).tolist() == [3.0, 12.0, 27.0]
    assert push(X).tolist() == [3.0, 24.0, 81.0]


def test_only_constants_are_kept():
    seen = []

    def f(x):
        y = x.sin()
        seen.append(weakref.ref(y))
        return y * 2

    _, push = linearize(f, X)
    gc.collect()
    assert seen[0]() is None
    assert push(torch.zeros(3)).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "tangents, text",
    [
        ((X,), "Expected the tangents TreeSpec"),
        ((X, torch.ones(2)), r"tangent:1 with shape torch.Size\(\[2\]\) in flattened pytree"),
        ((X.double(), X), "tangent:0 with dtype torch.float64 in flattened pytree doesn't match"),
    ],
)
def test_refused_tangents(tangents, text):
    _, push = linearize(lambda x, y: x * y, X, X)
    with pytest.raises(RuntimeError, match=text):
        push(*tangents)


def test_inputs_are_tensors():
    with pytest.raises(ValueError, match="must be Tensor, got <class 'int'>"):
        linearize(lambda x: x, 3)


def test_a_batch_of_tangents_through_writes():
    def f(x):
        y = torch.zeros(3)
        y[0] = x[0] * x[1]
        y[1:] = x[1:] ** 2
        return y

    _, push = linearize(f, X)
    assert vmap(push, out_dims=1)(torch.eye(3)).tolist() == jacfwd(f)(X).tolist()
    assert jacfwd(f)(X).tolist() == [[2.0, 1.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


def test_inference_mode():
    column = torch.tensor([[1.0], [2.0]])
    with torch.inference_mode():
        _, push = linearize(lambda x: x - X, column)
        assert push(column).tolist() == [[1.0] * 3, [2.0] * 3]
        _, push = linearize(lambda x: vmap(lambda row: X * row)(x), column)
        assert push(column).tolist() == [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]


def test_no_grad_in_the_function_holds_in_every_run():
    ones = torch.ones(3)

    def f(x):
        def g(p):
            with torch.no_grad():
                held = p * x
            return held + p * p

        return linearize(g, x)[1](ones).sum()

    # What was computed without gradients is a constant to `grad`: 2 p is left of the sum.
    assert f(X).item() == 18.0
    assert grad(f)(X).tolist() == [2.0, 2.0, 2.0]
    push = linearize(lambda p: p * p, X)[1]
    with torch.no_grad():
        quiet = linearize(lambda p: p * p, X)[1]
    leaf = torch.ones(3, requires_grad=True)
    assert push(leaf).requires_grad and quiet(leaf).requires_grad
