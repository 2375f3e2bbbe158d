"""grad, vjp, jvp, Jacobians and Hessians: against formulas, nested, and under vmap."""

import pytest

import rushlight as torch
from rushlight.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

X = torch.tensor([1.0, 2.0, 3.0])


def cubes(x):
    return (x**3).sum()


def mixed(x):
    return x * x.sum()


MIXED = [[7.0, 1.0, 1.0], [2.0, 8.0, 2.0], [3.0, 3.0, 9.0]]


def test_gradients():
    assert grad(cubes)(X).tolist() == [3.0, 12.0, 27.0]
    assert grad(grad(torch.sin))(torch.tensor(1.0)).item() == pytest.approx(-0.841471)
    gradient, value = grad_and_value(cubes)(X)
    assert (gradient.tolist(), value.item()) == ([3.0, 12.0, 27.0], 36.0)
    assert not gradient.requires_grad
    assert not value.requires_grad


def test_arguments_are_chosen_by_position():
    f = lambda a, b: (a * b * b).sum()  # noqa: E731
    first, second = grad(f, argnums=(0, 1))(X, X)
    assert first.tolist() == [1.0, 4.0, 9.0]
    assert second.tolist() == [2.0, 8.0, 18.0]
    assert grad(f, argnums=-1)(X, X).tolist() == second.tolist()
    with pytest.raises(RuntimeError, match="only 2 positional inputs"):
        grad(f, argnums=2)(X, X)


def test_nested_structures_and_aux():
    f = lambda p: ((p["a"] * p["b"]).sum(), p["a"] + 1)  # noqa: E731
    gradient, aux = grad(f, has_aux=True)({"a": X, "b": 2 * X})
    assert gradient["a"].tolist() == [2.0, 4.0, 6.0]
    assert aux.tolist() == [2.0, 3.0, 4.0]
    assert not aux.requires_grad


def test_refusals():
    with pytest.raises(RuntimeError, match="return a scalar Tensor"):
        grad(mixed)(X)
    with pytest.raises(RuntimeError, match="return a Tensor, got"):
        grad(lambda x: 3)(X)
    with pytest.raises(
        RuntimeError, match="only Tensors of floating point dtype can require gradients"
    ):
        grad(torch.sum)(torch.tensor([1, 2]))


def test_grad_mode_outside_does_not_matter_and_inside_does():
    with torch.no_grad():
        assert grad(torch.sin)(torch.tensor(0.0)).item() == 1.0

    def half_hidden(x):
        with torch.no_grad():
            hidden = x * x
        return (hidden * x).sum()

    assert grad(half_hidden)(X).tolist() == [1.0, 4.0, 9.0]


def test_outer_graphs_go_on():
    weight = torch.ones(3, requires_grad=True)
    gradient = grad(lambda x: (weight * x * x).sum())(X)
    assert torch.autograd.grad(gradient.sum(), weight)[0].tolist() == [2.0, 4.0, 6.0]
    x = X.clone().requires_grad_()
    assert torch.autograd.grad(grad(cubes)(x).sum(), x)[0].tolist() == [6.0, 12.0, 18.0]


def test_unused_inputs_have_zero_gradients():
    assert grad(lambda a, b: a.sum(), argnums=1)(X, X).tolist() == [0.0, 0.0, 0.0]


def test_pullbacks():
    outputs, pull = vjp(lambda a, b: (a * b, a.sum()), X, 2 * X)
    assert outputs[1].item() == 6.0
    first, second = pull((X, torch.tensor(1.0)))
    assert first.tolist() == [3.0, 9.0, 19.0]
    assert second.tolist() == [1.0, 4.0, 9.0]
    rows, _ = vmap(pull)((torch.eye(3), torch.zeros(3)))
    assert torch.equal(rows, torch.diag(2 * X))
    with pytest.raises(RuntimeError, match="pytree structure"):
        pull(X)


def test_jacobians():
    for jacobian in (jacrev, jacfwd):
        assert jacobian(mixed)(X).tolist() == MIXED
    assert jacrev(mixed, chunk_size=2)(X).tolist() == MIXED
    rows, columns = jacrev(lambda a, b: a * b, argnums=(0, 1))(X, 2 * X)
    assert torch.equal(rows, torch.diag(2 * X))
    assert torch.equal(columns, torch.diag(X))


def test_hessians():
    expected = [[12.0, 12.0, 27.0], [12.0, 12.0, 0.0], [27.0, 0.0, 18.0]]
    f = lambda x: cubes(x) * x[0]  # noqa: E731
    assert hessian(f)(X).tolist() == expected
    assert jacrev(jacrev(f))(X).tolist() == expected


def test_pushes():
    value, pushed = jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    assert (value.item(), pushed.item()) == (0.0, 2.0)
    _, push = linearize(mixed, X)
    assert push(torch.ones(3)).tolist() == [9.0, 12.0, 15.0]


def test_batches():
    batch = torch.stack([X, 2 * X])
    assert vmap(grad(cubes))(batch).tolist() == [[3.0, 12.0, 27.0], [12.0, 48.0, 108.0]]
    expected = torch.tensor(MIXED)
    assert torch.equal(vmap(jacrev(mixed))(batch), torch.stack([expected, 2 * expected]))
    assert torch.equal(vmap(hessian(cubes))(batch)[1], torch.diag(12 * X))
    nested = vmap(vmap(grad(lambda x: x**2)))(torch.ones(2, 3))
    assert nested.tolist() == [[2.0] * 3] * 2


def test_gradients_of_each_sample():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    x, y = torch.randn(5, 3), torch.randn(5, 1)

    def loss(parameters, x, y):
        return (functional_call(net, parameters, (x,)) - y).square().sum()

    found = vmap(grad(loss), (None, 0, 0))(parameters, x, y)
    for place in range(5):
        wanted = torch.autograd.grad(
            loss(dict(net.named_parameters()), x[place], y[place]), list(net.parameters())
        )
        for name, gradient in zip(found, wanted):
            assert torch.allclose(found[name][place], gradient, atol=1e-6)


def test_ensembles():
    models = [torch.nn.Linear(2, 1) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = torch.randn(4, 2)
    outputs = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    for model, output in zip(models, outputs):
        assert torch.allclose(model(x), output)


def test_forward_over_reverse():
    x = torch.tensor([0.3, -1.2, 0.7], dtype=torch.float64)
    found = torch.func.jacfwd(torch.func.jacrev(torch.sin))(x)
    assert torch.equal(found.sum((0, 1)), -x.sin())


def test_functionalize_copies_writes_back():
    def step(x):
        view = x[0]
        view.add_(1)
        return x * 2

    x = torch.zeros(2, 2)
    assert functionalize(step)(x).tolist() == [[2.0, 2.0], [0.0, 0.0]]
    assert x.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match="invalid argument for remove"):
        functionalize(step, remove="everything")


# -- what torch 2.13 answers -----------------------------------------------------------------------

TRANSFORMS = [grad, grad_and_value, jacrev, jacfwd, hessian]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    "argnums, text",
    [
        (2, "Got argnum=2, but only 2 positional inputs"),
        (0.5, r"argnums must be int or Tuple\[int, ...\], got: <class 'float'>"),
        ([0], r"argnums must be int or Tuple\[int, ...\], got: <class 'list'>"),
        (("a",), "argnum must be int, got: <class 'str'>"),
        ((), "argnums must be non-empty"),
        ((0, 0), r"argnums elements must be unique, got \(0, 0\)"),
        ((0, -2), r"argnums elements must be unique, got \(0, 0\)"),
    ],
)
def test_wrong_positions(transform, argnums, text):
    with pytest.raises(RuntimeError, match=text):
        transform(lambda x, y: x.sum(), argnums=argnums)(X, X)


@pytest.mark.parametrize("transform", [grad, grad_and_value, jacrev])
def test_inputs_are_tensors(transform):
    with pytest.raises(ValueError, match="must be Tensor, got <class 'float'>"):
        transform(lambda x: x)(3.0)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda f: vjp(f, X), r"vjp\(f, \*primals\): "),
        (lambda f: jacrev(f)(X), r"vjp\(f, \*primals\): "),
        (lambda f: jvp(f, (X,), (X,)), r"jvp\(f, primals, tangents\): "),
        (lambda f: jacfwd(f)(X), r"jvp\(f, primals, tangents\): "),
    ],
)
def test_outputs_are_tensors(call, text):
    nothing = "Expected f to be a function that has non-empty output"
    for result in (None, ()):
        with pytest.raises(RuntimeError, match=text + nothing):
            call(lambda x, result=result: result)
    with pytest.raises(RuntimeError, match=text + "expected .* got unsupported type <class 'int'>"):
        call(lambda x: (x, 3))


@pytest.mark.parametrize("transform", [grad, grad_and_value, jacrev, jacfwd])
def test_aux_holds_tensors(transform):
    for aux in (3, None, (X, "a")):
        with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type"):
            transform(lambda x, aux=aux: (x.sum(), aux), has_aux=True)(X)
    with pytest.raises(RuntimeError, match="should be a tuple: .output, aux. if has_aux is True"):
        transform(lambda x: x.sum(), has_aux=True)(X)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians_are_of_real_functions(transform):
    with pytest.raises(RuntimeError, match="Expected all inputs to be real .* input idx: 0"):
        transform(lambda x: x)(torch.tensor([1 + 2j]))
    with pytest.raises(RuntimeError, match="Expected all outputs to be real .* input idx: 0"):
        transform(lambda x: x * (1 + 1j))(X)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians_of_nested_arguments(transform):
    def f(d, z):
        return {"o": d["a"] * d["b"][0] * z}

    first, second = transform(f, argnums=(0, 1))({"a": X, "b": [2 * X]}, X)["o"]
    assert first["a"].tolist() == [[2.0, 0.0, 0.0], [0.0, 8.0, 0.0], [0.0, 0.0, 18.0]]
    assert first["b"][0].tolist() == [[1.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 9.0]]
    assert second.tolist() == first["a"].tolist()
    one = transform(lambda d: (d["a"] * d["b"], d["a"].sum()))({"a": X, "b": 2 * X})
    assert one[0]["b"].tolist() == [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    assert one[1]["a"].tolist() == [1.0, 1.0, 1.0]
    assert one[1]["b"].tolist() == [0.0, 0.0, 0.0]


def test_hessians_of_nested_arguments():
    found = hessian(lambda d: (d["a"] * d["b"] * d["b"]).sum())({"a": X, "b": 2 * X})
    assert found["a"]["a"].tolist() == [[0.0] * 3] * 3
    assert found["a"]["b"].tolist() == [[4.0, 0.0, 0.0], [0.0, 8.0, 0.0], [0.0, 0.0, 12.0]]
    assert found["b"]["b"].tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


def test_positions_from_the_back_in_forward_mode():
    assert jacfwd(lambda x, y: (x * y * y).sum(), -1)(X, X).tolist() == [2.0, 8.0, 18.0]


def test_jacobians_without_columns():
    nothing = torch.zeros(0)
    assert jacfwd(lambda x: x.sum())(nothing).shape == (0,)
    assert jacfwd(lambda x: (x.sum(), X), argnums=0)(nothing)[1].shape == (3, 0)
    assert hessian(lambda x: x.sum())(nothing).shape == (0, 0)
    value, aux = jacfwd(lambda x: (x.sum(), X), has_aux=True)(nothing)
    assert value.shape == (0,) and aux.tolist() == X.tolist()


def test_aux_of_jacobians():
    jacobian, aux = jacfwd(lambda x, y: (x * y, (x, y.sum())), argnums=(0, 1), has_aux=True)(X, X)
    assert [part.tolist() for part in jacobian] == [torch.diag(X).tolist()] * 2
    assert aux[0].tolist() == X.tolist() and aux[1].item() == 6.0


def test_randomness_of_jacobians():
    f = lambda x: x * torch.rand(3)  # noqa: E731
    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(f)(X)
    torch.manual_seed(0)
    drawn = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(jacfwd(f, randomness="same")(X), torch.diag(drawn))
    different = jacfwd(f, randomness="different")(torch.ones(3)).diagonal()
    assert torch.equal(different > 0, torch.ones(3, dtype=torch.bool))
    assert different.unique().numel() == 3
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        jacfwd(f, randomness="bad")(X)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_jacobians_in_chunks(size):
    f = lambda x: (x.outer(x), x.sum())  # noqa: E731
    whole = jacrev(f)(X)
    for kwargs in ({}, {"_preallocate_and_copy": True}):
        found = jacrev(f, chunk_size=size, **kwargs)(X)
        assert [part.tolist() for part in found] == [part.tolist() for part in whole]
    with pytest.raises(ValueError, match="`chunk_size` should be greater than 0"):
        jacrev(f, chunk_size=0)


class Counted(torch.autograd.Function):
    """The identity, whose backward has a result that no batch can have."""

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        assert len(gradient.nonzero()) == 1
        return gradient


def test_a_jacobian_in_single_rows_needs_no_batch():
    assert torch.equal(jacrev(Counted.apply, chunk_size=1)(X), torch.eye(3))
    with pytest.raises(RuntimeError, match="operators that can output dynamic shape"):
        jacrev(Counted.apply, chunk_size=2)(X)


def test_nodes_inside_of_grad_say_so():
    names = []

    def f(x):
        names.append(Counted.apply(x).grad_fn.name())
        return x.sum()

    grad(f)(X)
    assert names == ["CountedGeneratedBackward"]
    assert Counted.apply(X.clone().requires_grad_()).grad_fn.name() == "CountedBackward"


@pytest.mark.parametrize(
    "primals, tangents, kind, text",
    [
        (X, X, RuntimeError, "Expected primals to be a tuple. E.g. it should be valid to call"),
        ([X], [X], RuntimeError, "Expected primals to be a tuple. E.g. it should be valid to call"),
        ((X,), (X, X), RuntimeError, "For example, if primals is a tuple of 3 tensors"),
        ((), (), RuntimeError, "Expected primals to contain at least one Tensor"),
        ((3.0,), (3.0,), RuntimeError, "primals to only contain Tensors, got <class 'float'>"),
        ((X,), (3.0,), RuntimeError, "tangents to only contain Tensors, got <class 'float'>"),
        ((X,), (X[:2],), RuntimeError, r"is of size \[3\] while the given forward gradient"),
        ((X.long(),), (X,), ValueError, "Expected primal to be floating point or complex"),
        ((X,), (X.long(),), ValueError, "Expected tangent to be floating point or complex"),
    ],
)
def test_refused_pushes(primals, tangents, kind, text):
    with pytest.raises(kind, match=text):
        jvp(torch.sin, primals, tangents)


def test_strict_pushes():
    assert jvp(lambda x: X, (X,), (X,))[1].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="The output of f is independent of the inputs"):
        jvp(lambda x: (x, X), (X,), (X,), strict=True)


def test_refused_pullbacks():
    with pytest.raises(RuntimeError, match=r"cotangents: \*, primal output: \(\*, \*\)"):
        vjp(lambda x: (x, x), X)[1](X)
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\]"):
        vjp(lambda x: x, X)[1](torch.ones(2))
    with pytest.raises(RuntimeError, match="must be floating-point or complex .* torch.int64"):
        vjp(lambda x: x.long(), X)


def test_what_is_inside_of_wrappers():
    seen = []

    def f(x):
        seen.append((torch.func.debug_unwrap(x), torch.func.debug_unwrap(x, recurse=False)))
        return (x * x).sum()

    batch = torch.ones(2, 3)
    vmap(grad(f))(batch)
    assert seen[0][0] is batch
    assert repr(seen[0][1]).startswith("BatchedTensor(lvl=1, bdim=0, value=")
    assert torch.func.debug_unwrap(X) is X


def test_jacobians_of_nested_arguments_of_several_sizes():
    def f(pair, scale):
        return {"product": pair["a"] * scale, "total": pair["b"].sum()}

    pair = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([3.0, 4.0, 5.0])}
    scale = torch.tensor([2.0, 3.0])
    for transform in (jacfwd, jacrev):
        found = transform(f, argnums=(0, 1))(pair, scale)
        assert found["product"][0]["a"].tolist() == [[2.0, 0.0], [0.0, 3.0]]
        assert found["product"][0]["b"].tolist() == [[0.0] * 3] * 2
        assert found["product"][1].tolist() == [[1.0, 0.0], [0.0, 2.0]]
        assert found["total"][0]["b"].tolist() == [1.0] * 3
        assert found["total"][1].tolist() == [0.0, 0.0]
    second = hessian(lambda p: (p["a"] ** 2).sum() * p["b"][0])(pair)
    assert second["a"]["a"].tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert second["b"]["a"].tolist() == [[2.0, 4.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.filterwarnings("ignore")
def test_anomaly_mode_looks_through_levels():
    def f(x):
        return torch.sqrt(x * 0).sum()

    with torch.autograd.detect_anomaly():
        for transform in (vmap(grad(f)), lambda x: jacrev(f)(x[0]), lambda x: grad(f)(x[0])):
            with pytest.raises(RuntimeError, match="'MulBackward0' returned nan values in its 0th"):
                transform(torch.ones(2, 2))
        assert vmap(grad(lambda x: (x * x).sum()))(torch.ones(2, 2)).tolist() == [[2.0, 2.0]] * 2


def test_functions_that_write_to_their_tangents():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(2)

        @staticmethod
        def vmap(info, in_dims, x):
            Double.apply(x)
            return x, in_dims[0]

    def f(x):
        return Double.apply(x.clone())

    value, tangent = jvp(f, (X,), (X,))
    assert (value.tolist(), tangent.tolist()) == ([2.0, 4.0, 6.0], [2.0, 4.0, 6.0])
    assert grad(lambda x: f(x).sum())(X).tolist() == [2.0, 2.0, 2.0]
    rows = torch.stack([X, X])
    for axis, batch in ((0, rows), (1, rows.t())):
        assert vmap(f, axis)(batch).tolist() == [[2.0, 4.0, 6.0]] * 2
        found = vmap(grad(lambda x: f(x).sum()), axis)(batch)
        assert found.tolist() == [[2.0, 2.0, 2.0]] * 2


def test_functions_that_return_views_have_tangents():
    class First(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x[0]

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, tangent):
            return tangent[0]

    value, tangent = jvp(lambda x: First.apply(x) * x, (X,), (X,))
    assert value.tolist() == [1.0, 2.0, 3.0]
    assert tangent.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("transform", ["grad", "jvp", "grad of grad"])
def test_running_statistics_are_kept_inside_of_derivatives(transform):
    x = torch.arange(24.0).reshape(2, 3, 4)
    mean, var = torch.zeros(3), torch.ones(3)

    def f(x):
        return torch.nn.functional.instance_norm(x, mean, var).square().sum()

    if transform == "grad":
        grad(f)(x)
    elif transform == "jvp":
        jvp(f, (x,), (x,))
    else:
        grad(lambda x: grad(f)(x).sum())(x)
    assert torch.allclose(mean, torch.tensor([0.75, 1.15, 1.55]))
    assert torch.allclose(var, torch.full((3,), 1.0667), atol=1e-4)
    assert not mean.requires_grad
