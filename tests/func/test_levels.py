"""Transforms as levels of one stack: any nesting, in any order, equals the formula written out."""

import itertools
import threading

import pytest

import rushlight as torch
from rushlight.core.state import LOCAL, PROCESS
from rushlight.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from rushlight.utils.checkpoint import checkpoint

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


def test_tangents_of_a_batch_below_a_level_are_laid_out_anew():
    """The spectrum is a view whose tangent lies differently; a level stands between it and vmap."""
    x = torch.tensor([[1.0, 2.0, 4.0, 8.0], [3.0, 1.0, 0.0, 5.0]])
    along = torch.tensor([1.0, 0.0, 2.0, 1.0])

    def f(x):
        return torch.fft.fft(x).abs()

    def pushed(x):
        return torch.func.jvp(f, (x,), (along,))[1].sum()

    found = torch.func.vmap(torch.func.grad(pushed))(x)
    wanted = torch.stack([torch.func.grad(pushed)(row) for row in x])
    assert torch.allclose(found, wanted, atol=1e-5)
    found = torch.func.vmap(lambda row: torch.func.linearize(f, row)[1](along))(x)
    wanted = torch.stack([torch.func.jvp(f, (row,), (along,))[1] for row in x])
    assert torch.allclose(found, wanted, atol=1e-5)


def test_tangents_of_another_layout_under_two_batches():
    # The outer batch lies last, so that a tangent must be laid out anew.
    def f(x):
        return vjp(lambda y: hessian(lambda z: (z**3).sum())(y).sum(0), x)[1](x)[0]

    x = torch.tensor([[0.5, 1.0], [2.0, -1.0], [3.0, 0.25]])
    assert torch.equal(vmap(f, in_dims=1, out_dims=1)(x), 6 * x)


def test_tensors_made_from_data_may_be_written_to():
    def f(x):
        y = torch.tensor([0.0, 0.0], dtype=torch.float64)
        y[1:] = x[1:]
        return y * x

    expected = torch.tensor([0.0, 0.49], dtype=torch.float64)
    for transform in (functionalize, lambda f: functionalize(functionalize(f))):
        close(transform(f)(X), expected)
    close(jvp(f, (X,), (X,))[1], 2 * expected)
    close(grad(lambda x: functionalize(f)(x).sum())(X), 2 * X * torch.tensor([0, 1]))


# -- what calls inside of transforms remember ------------------------------------------------------


def samplewise(function, *batches):
    return torch.stack([function(*sample) for sample in zip(*batches, strict=True)])


def network(weight, bias, x):
    hidden = torch.nn.functional.linear(x, weight, bias).tanh()
    return (hidden * hidden[:1] + x[: hidden.shape[0]]).exp().sum()


def arguments(seed, batch, inner, outer, dtype):
    torch.manual_seed(seed)
    shapes = [(batch, outer, inner), (batch, outer), (batch, inner)]
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


def check_gradients(seed, batch, inner, outer, dtype):
    values = arguments(seed, batch, inner, outer, dtype)
    for place in range(3):
        alone = grad(network, argnums=place)
        torch.testing.assert_close(vmap(alone)(*values), samplewise(alone, *values))


def test_calls_of_many_sizes_and_dtypes_in_turn():
    for seed in range(30):
        dtype = (torch.float32, torch.float64)[seed % 2]
        check_gradients(seed, 1 + seed % 4, 2 + seed % 5, 1 + seed % 2, dtype)


def test_operands_of_mixed_kinds_in_turn():
    """One op, with operands that are batched or not, of other ranks, dtypes and strides."""
    vector, matrix = torch.randn(3, 4), torch.randn(3, 2, 4)
    shared, number = torch.randn(4), torch.randn(3)
    doubles, integers = vector.double(), torch.arange(12).reshape(3, 4)
    turned = torch.randn(4, 3).t()
    pairs = [
        ((vector, vector), (0, 0)),
        ((vector, shared), (0, None)),
        ((shared, vector), (None, 0)),
        ((vector, matrix), (0, 0)),
        ((matrix, shared), (0, None)),
        ((number, vector), (0, 0)),
        ((number, shared.double()), (0, None)),
        ((doubles, vector), (0, 0)),
        ((integers, number), (0, 0)),
        ((turned, vector), (0, 0)),
        ((turned.t(), vector), (1, 0)),
        ((vector, 2.5), (0, None)),
    ]
    for _ in range(3):
        for (first, second), dims in pairs:
            found = vmap(torch.mul, in_dims=dims)(first, second)
            wanted = torch.stack(
                [
                    torch.mul(
                        *[
                            value if dim is None else value.select(dim, index)
                            for value, dim in zip((first, second), dims, strict=True)
                        ]
                    )
                    for index in range(3)
                ]
            )
            assert found.dtype is wanted.dtype
            assert torch.equal(found, wanted)


def test_operands_that_share_memory():
    x = torch.randn(3, 4)
    assert torch.equal(vmap(torch.mul)(x, x), x * x)
    assert torch.equal(vmap(lambda y: y[:2] * y[1:3])(x), x[:, :2] * x[:, 1:3])
    assert torch.equal(
        vmap(grad(lambda y: (y * y.view(2, 2).t().reshape(4)).sum()))(x).sum(0),
        samplewise(grad(lambda y: (y * y.view(2, 2).t().reshape(4)).sum()), x).sum(0),
    )

    def written(y):
        z = y.clone()
        z.mul_(y)
        return (z * y).sum()

    torch.testing.assert_close(vmap(grad(written))(x), 3 * x * x)


def test_threads_do_not_see_each_others_transforms():
    failures = []

    def work(start):
        try:
            for seed in range(start, start + 12):
                check_gradients(seed, 1 + seed % 3, 3, 2, torch.float64)
                a = torch.ones(3, requires_grad=True)
                (a * a).sum().backward()
                assert a.grad.tolist() == [2.0] * 3
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number * 7,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("depth", range(4))
def test_the_state_is_as_before_when_a_call_fails_at_any_depth(depth):
    before = PROCESS.special
    states = []

    def fails(x):
        states.append(LOCAL.state.layers)
        return x.sum() + x.reshape(7).sum()

    function = fails
    for transform in (grad, lambda f: vmap(f), lambda f: jacrev(f))[:depth]:
        function = transform(function)
    with pytest.raises(RuntimeError):
        function(torch.randn(2, 3, 4)[(0,) * max(0, 2 - depth)])
    assert states == [depth > 0]
    state = LOCAL.state
    assert (state.layers, state.others, state.transforms, state.owner) == (False, False, (), None)
    assert state.grad
    assert PROCESS.special == before


def test_a_pullback_made_without_grad_mode_records_nothing_outside_of_it():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        _, pull = vjp(lambda y: y * x, torch.ones(2))
    found = pull(torch.ones(2))[0]
    assert found.tolist() == [1.0, 1.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 4, 2, 3)])
def test_losses_over_classes(shape, weighted, reduction):
    torch.manual_seed(0)
    scores = torch.randn(5, *shape, dtype=torch.float64)
    places = () if len(shape) == 1 else (shape[0], *shape[2:])
    labels = torch.randint(0, 4, (5, *places))
    weight = torch.rand(4, dtype=torch.float64) if weighted else None

    def loss(x, label):
        return torch.nn.functional.cross_entropy(
            x, label, weight=weight, reduction=reduction, ignore_index=1
        )

    def total(x, label):
        return loss(x, label).sum()

    for function in (loss, grad(total)):
        found = vmap(function)(scores, labels)
        torch.testing.assert_close(found, samplewise(function, scores, labels), equal_nan=True)
        shared = vmap(function, in_dims=(0, None))(scores, labels[0])
        wanted = torch.stack([function(x, labels[0]) for x in scores])
        torch.testing.assert_close(shared, wanted, equal_nan=True)


PRODUCTS = {
    "addmm": (torch.addmm, [(4,), (3, 2), (2, 4)]),
    "addmm of one row": (torch.addmm, [(1, 4), (3, 2), (2, 4)]),
    "addmm of a matrix": (torch.addmm, [(3, 4), (3, 2), (2, 4)]),
    "addmv": (torch.addmv, [(3,), (3, 2), (2,)]),
    "mv": (torch.mv, [(3, 2), (2,)]),
    "mm": (torch.mm, [(3, 2), (2, 4)]),
    "bmm": (torch.bmm, [(2, 3, 2), (2, 2, 4)]),
    "dot": (torch.dot, [(3,), (3,)]),
    "vdot": (torch.vdot, [(3,), (3,)]),
    "outer": (torch.outer, [(3,), (2,)]),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_any_operands_batched(name, dtype):
    function, shapes = PRODUCTS[name]
    torch.manual_seed(0)
    for chosen in itertools.product((False, True), repeat=len(shapes)):
        if not any(chosen):
            continue
        values = [
            torch.randn((5, *shape) if is_batched else shape, dtype=dtype)
            for shape, is_batched in zip(shapes, chosen, strict=True)
        ]
        dims = tuple(0 if is_batched else None for is_batched in chosen)

        def sample(index, values=values, dims=dims):
            return [v if dim is None else v[index] for v, dim in zip(values, dims, strict=True)]

        wanted = torch.stack([function(*sample(index)) for index in range(5)])
        close(vmap(function, in_dims=dims)(*values), wanted)
        # The derivative along one operand at a time, and along all of them.
        tangents = [torch.randn_like(value) for value in sample(0)]
        _, pushed = jvp(function, tuple(sample(0)), tuple(tangents))
        step = 1e-6
        ahead = function(*[v + step * t for v, t in zip(sample(0), tangents, strict=True)])
        behind = function(*[v - step * t for v, t in zip(sample(0), tangents, strict=True)])
        torch.testing.assert_close(pushed, (ahead - behind) / (2 * step), rtol=1e-7, atol=1e-8)


def test_scaled_sums_push_the_tangents_of_any_operands():
    torch.manual_seed(0)
    values = [torch.randn(shape, dtype=torch.float64) for shape in ((3, 4), (3, 2), (2, 4))]
    for count in range(1, 4):
        for chosen in itertools.combinations(range(3), count):

            def function(*given, chosen=chosen):
                operands = list(values)
                for place, value in zip(chosen, given, strict=True):
                    operands[place] = value
                return torch.addmm(*operands, beta=0.5, alpha=2)

            primals = tuple(values[place] for place in chosen)
            for value, pushed in zip(
                jacfwd(function, tuple(range(count)))(*primals),
                jacrev(function, tuple(range(count)))(*primals),
                strict=True,
            ):
                close(value, pushed)


def test_a_layer_of_one_vector_is_the_plain_one():
    torch.manual_seed(0)
    weight, bias, x = [torch.randn(s, dtype=torch.float64) for s in ((4, 3), (4,), (3,))]
    linear = torch.nn.functional.linear
    for given in (None, bias):
        jacobian = jacrev(lambda y, given=given: linear(y, weight, given))
        close(jacobian(x), weight)
        close(
            vmap(lambda y, given=given: linear(y, weight, given))(x[None])[0],
            linear(x, weight, given),
        )
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        vmap(lambda y: linear(y, weight, bias))(torch.ones(2, 5, dtype=torch.float64))


def test_tangents_of_a_tensor_whose_elements_share_memory():
    zeros = jacrev(lambda x: x.new_ones(3))(X)
    expanded = X[:1].expand(3)
    close(jacfwd(lambda x: x * x)(expanded), torch.diag(2 * expanded))
    close(jacfwd(lambda x: x.sum())(zeros), torch.ones(3, 2, dtype=torch.float64))


def test_a_view_far_into_memory_has_tangents_inside_functionalize():
    second = X.unbind()[1]
    one = torch.tensor(1.0, dtype=torch.float64)
    pushed = functionalize(lambda x: jvp(torch.sin, (x,), (one,))[1])
    value, tangent = jvp(pushed, (second,), (one,))
    close(value, second.cos())
    close(tangent, -second.sin())


class Scaled(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, dx, dy):
        x, y = ctx.saved_tensors
        return dx * y + x * dy


def test_a_function_of_a_constant_has_tangents_inside_functionalize():
    @functionalize
    def pushed(x):
        return jvp(lambda y: Scaled.apply(y, x.detach()), (x,), (x,))[1]

    close(pushed(X), X * X)


def test_checkpoint_inside_of_transforms():
    def region(x):
        return checkpoint(lambda y: y.sin() * y, x, use_reentrant=False)

    first = X.cos() * X + X.sin()
    close(grad(lambda x: region(x).sum())(X), first)
    close(jvp(region, (X,), (ONES,))[1], first)
    close(vmap(region)(X), X.sin() * X)
    close(vmap(grad(region))(X), first)
    close(hessian(lambda x: region(x).sum())(X), torch.diag(2 * X.cos() - X * X.sin()))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: torch.linalg.solve(a, V).sum(),
        lambda a: torch.linalg.det(a),
        lambda a: torch.logdet(a @ a),
        lambda a: (a * torch.tensor([[1.0, 0.0]], dtype=torch.float64)).cumprod(1).sum(),
    ],
)
def test_grad_mode_says_nothing_about_forward_mode(function):
    """Gradient formulas have shortcuts that cannot be differentiated: not for use below a jvp."""
    expected = hessian(function)(A)
    with torch.no_grad():
        close(hessian(function)(A), expected)
        close(jacfwd(jacfwd(function))(A), expected)


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


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f(x.requires_grad_()).backward(torch.ones(1)),
        lambda f, x: torch.autograd.grad(f(x.requires_grad_()), x, torch.ones(1)),
        lambda f, x: vjp(f, x)[1](torch.ones(1)),
        lambda f, x: vmap(lambda y: vjp(f, y)[1](torch.ones(1)))(x.expand(3, 2)),
    ],
)
def test_a_view_made_without_grad_mode_starts_no_gradient(call):
    def every_second(x):
        with torch.no_grad():
            return x[::2]

    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        call(every_second, torch.ones(2))
