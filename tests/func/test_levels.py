"""Transforms as levels of one stack: any nesting, in any order, equals the formula written out."""

import pytest

import rushlight as torch
from rushlight.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = torch.tensor([0.3, -0.7], dtype=torch.float64)
ONES = torch.ones(2, dtype=torch.float64)
W = torch.tensor([[1.0, 2.0, 0.5], [-1.0, 0.25, 3.0]], dtype=torch.float64)
A = torch.tensor([[2.0, 0.3], [-0.4, 1.5]], dtype=torch.float64)
V = torch.tensor([[0.1, -0.2], [0.7, 0.4]], dtype=torch.float64)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_gradient_with_respect_to_a_cotangent():
    _, pull = vjp(torch.sin, X)
    close(grad(lambda v: pull(v)[0].sum())(ONES), X.cos())


def test_gradient_with_respect_to_a_tangent():
    pushed = grad(lambda v: jvp(lambda y: y @ W, (X,), (v,))[1].sum())(X)
    close(pushed, W.sum(1))


def test_gradient_with_respect_to_a_tangent_through_a_write():
    def written(y):
        z = y.clone()
        return z.mul_(y)

    close(grad(lambda v: jvp(written, (X,), (v,))[1].sum())(X), 2 * X)


TRANSFORMS = {
    "grad": (lambda f: grad(lambda x: f(x).sum()), lambda x: x.cos()),
    "jacrev": (jacrev, lambda x: torch.diag(x.cos())),
    "jacfwd": (jacfwd, lambda x: torch.diag(x.cos())),
    "jvp": (lambda f: lambda x: jvp(f, (x,), (ONES,))[1], lambda x: x.cos()),
    "vjp": (lambda f: lambda x: vjp(f, x)[1](ONES)[0], lambda x: x.cos()),
    "hessian": (lambda f: hessian(lambda x: f(x).sum()), lambda x: torch.diag(-x.sin())),
    "vmap": (vmap, lambda x: x.sin()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functionalized_functions(name):
    transform, expected = TRANSFORMS[name]

    def writes(x):
        y = torch.zeros_like(x)
        y.copy_(x)
        return y.sin_()

    close(transform(functionalize(writes))(X), expected(X))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_under_inference_mode(name):
    transform, expected = TRANSFORMS[name]
    with torch.inference_mode():
        found = transform(torch.sin)(X)
    close(found.clone(), expected(X))


def test_forward_over_reverse_of_logdet():
    inverse = torch.linalg.inv(A)
    found = jvp(grad(torch.logdet), (A,), (V,))[1]
    close(found, -(inverse @ V @ inverse).mT)


def test_transforms_inside_a_custom_forward():
    seen = []

    class Pushes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(jvp(torch.sin, (x,), (torch.ones_like(x),))[1])
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    Pushes.apply(X.clone().requires_grad_())
    close(seen[0].detach(), X.cos())


def test_bounds_have_tangents():
    x = torch.tensor([1.0, 5.0], dtype=torch.float64)
    bound = torch.tensor(2.0, dtype=torch.float64)
    tangent = jvp(lambda m: torch.clamp(x, max=m), (bound,), (torch.ones_like(bound),))[1]
    close(tangent, torch.tensor([0.0, 1.0], dtype=torch.float64))


def test_orders_of_modes_agree():
    def f(x):
        return (x.sin() * x.flip(0)).prod() + (x @ x).exp()

    found = [outer(inner(f))(X) for outer in (jacfwd, jacrev) for inner in (jacfwd, jacrev)]
    for other in found[1:]:
        close(other, found[0])
    close(found[0], found[0].mT)


def test_nested_forward_mode():
    second = jvp(lambda x: jvp(torch.sin, (x,), (ONES,))[1], (X,), (ONES,))[1]
    close(second, -X.sin())


def test_batches_of_jacobians_without_a_forward_rule():
    rows = torch.stack([X, 2 * X])
    found = vmap(jacfwd(lambda t: t.softmax(-1)))(rows)
    for row, jacobian in zip(rows, found):
        p = row.softmax(-1)
        close(jacobian, torch.diag(p) - torch.outer(p, p))


def test_products_with_a_hessian_for_many_vectors():
    def f(x):
        return x.pow(3).sum()

    found = vmap(lambda v: jvp(grad(f), (X,), (v,))[1])(V)
    close(found, V * 6 * X)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "argmax", "count_nonzero"])
def test_full_reductions_over_any_batch_dim(name):
    reduce = getattr(torch, name)
    found = vmap(reduce, in_dims=1)(W)
    assert torch.equal(found, torch.stack([reduce(column) for column in W.T]))


def test_functionalize_inside_a_batch():
    assert torch.equal(vmap(functionalize(lambda x: x.clone().add_(1)))(W), W + 1)


def test_chunks_draw_the_same_numbers():
    def noisy(x):
        return x + torch.rand(())

    found = vmap(noisy, randomness="same", chunk_size=1)(torch.zeros(4))
    assert found.unique().numel() == 1


def test_pullbacks_without_recording_give_constants():
    x = X.clone().requires_grad_()
    _, pull = vjp(torch.sin, x)
    with torch.no_grad():
        assert not pull(ONES)[0].requires_grad


def test_functional_call_writes_replaced_attributes_back():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.seen = self.seen + 1
            return x

    state = {"seen": torch.tensor([4.0])}
    torch.func.functional_call(Counts(), state, (X,))
    assert state["seen"].item() == 5


def test_writes_to_captured_tensors_are_refused():
    captured = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        grad(lambda x: captured.add_(x).sum())(X)


def test_a_written_view_pulls_back_one_cotangent_for_all_samples():
    def written(x):
        whole = torch.stack([x, x])
        whole.select(0, 1).sin_()
        return whole

    x = torch.arange(6.0).reshape(2, 3)
    cotangent = torch.ones(2, 3)
    found = vmap(lambda value: vjp(written, value)[1](cotangent)[0])(x)
    torch.testing.assert_close(found, 1 + x.cos())


def test_second_derivatives_of_layer_norm_under_vmap():
    torch.manual_seed(0)
    x, weight = (torch.randn(*sizes, dtype=torch.float64) for sizes in ((2, 3), (3,)))

    def loss(x, weight):
        return torch.nn.functional.layer_norm(x, (3,), weight).pow(3).sum()

    forward = jacfwd(jacrev(loss, 1), 0)(x, weight)
    torch.testing.assert_close(forward, jacrev(jacrev(loss, 1), 0)(x, weight))
    torch.testing.assert_close(forward, jacrev(jacfwd(loss, 1), 0)(x, weight))
