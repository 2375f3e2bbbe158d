"""What `torch.func` refuses, in torch's class and words."""

import pytest

import rushlight as torch
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = torch.tensor([1.0, 2.0])
Z = torch.tensor([1.0 + 1j, 2.0])
VJP = "vjp(f, *primals)"
JVP = "jvp(f, primals, tangents)"
UNIQUE = "argnums elements must be unique, got (0, 0)"


def refusal(function, *args, **kwargs):
    with pytest.raises(Exception) as caught:
        function(*args, **kwargs)
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd])
def test_argnums(transform):
    def answer(argnums):
        return refusal(transform(lambda a: a.sum(), argnums=argnums), X)

    assert answer((0, 0)) == (RuntimeError, UNIQUE)
    assert answer((0, -1)) == (RuntimeError, UNIQUE)
    assert answer(3) == (RuntimeError, "Got argnum=3, but only 1 positional inputs")
    assert answer(()) == (RuntimeError, "argnums must be non-empty")
    assert answer((0, "a")) == (RuntimeError, "argnum must be int, got: <class 'str'>")
    assert answer("a") == (
        RuntimeError,
        "argnums must be int or Tuple[int, ...], got: <class 'str'>",
    )


def test_inputs():
    wanted = "Thing passed to transform API must be Tensor, got <class 'float'>"
    assert refusal(grad(torch.sin), 1.0) == (ValueError, wanted)
    assert refusal(vjp, lambda a, b: a, X, 1.0) == (ValueError, wanted)
    assert refusal(grad(lambda a: a.sum()), X.long()) == (
        RuntimeError,
        "only Tensors of floating point dtype can require gradients",
    )


def test_inputs_of_jvp():
    assert refusal(jvp, torch.sin, X, X) == (
        RuntimeError,
        f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).",
    )
    assert refusal(jvp, torch.sin, (), ()) == (
        RuntimeError,
        f"{JVP}: Expected primals to contain at least one Tensor.",
    )
    assert refusal(jvp, torch.sin, (1.0,), (X,)) == (
        RuntimeError,
        f"{JVP}: Expected primals to only contain Tensors, got <class 'float'>",
    )
    assert refusal(jvp, torch.sin, (X,), (1.0,)) == (
        RuntimeError,
        f"{JVP}: Expected tangents to only contain Tensors, got <class 'float'>",
    )
    assert refusal(jvp, torch.sin, (X.long(),), (X.long(),)) == (
        ValueError,
        "Expected primal to be floating point or complex, but got: torch.int64",
    )
    kind, words = refusal(jvp, torch.sin, (X,), (torch.ones(3),))
    assert kind is RuntimeError
    assert words.startswith("Trying to set a forward gradient that has a different size than")
    kind, words = refusal(jvp, torch.sin, (X,), (X, X))
    assert kind is RuntimeError
    assert "Expected primals and tangents to have the same python structure. For example" in words


@pytest.mark.parametrize(
    ("transform", "api"),
    [
        (lambda f: vjp(f, X), VJP),
        (lambda f: jacrev(f)(X), VJP),
        (lambda f: jvp(f, (X,), (X,)), JVP),
        (lambda f: jacfwd(f)(X), JVP),
    ],
)
def test_outputs(transform, api):
    assert refusal(transform, lambda x: ()) == (
        RuntimeError,
        f"{api}: Expected f to be a function that has non-empty output (got output = [])",
    )
    for output, name in (((X, None), "NoneType"), (1.0, "float"), ({"a": "q"}, "str")):
        assert refusal(transform, lambda x, output=output: output) == (
            RuntimeError,
            f"{api}: expected f(*primals) to return only tensors, got unsupported type <class "
            f"'{name}'>",
        )


def test_integer_outputs():
    wanted = (
        "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with "
        "dtype torch.int64"
    )
    assert refusal(vjp, lambda x: x.long(), X) == (RuntimeError, wanted)
    assert refusal(jacrev(lambda x: x.long()), X) == (RuntimeError, wanted)
    value, tangent = jvp(lambda x: x.long(), (X,), (X,))
    assert value.tolist() == [1, 2]
    assert tangent.tolist() == [0, 0]
    assert tangent.dtype is torch.int64


def test_cotangents():
    pull = vjp(torch.sin, X)[1]
    assert refusal(pull, (X, X)) == (
        RuntimeError,
        "Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
        "the function. cotangents: (*, *), primal output: *",
    )
    assert refusal(pull, torch.ones(3)) == (
        RuntimeError,
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a "
        "shape of torch.Size([2]).",
    )
    assert refusal(pull, 1.0) == (
        TypeError,
        "gradients can be either Tensors or None, but got float",
    )


def test_complex_jacobians():
    def words(name, which, index=0):
        return RuntimeError, (
            f"{name}: Expected all {which} to be real but received complex tensor at flattened "
            f"input idx: {index}"
        )

    assert refusal(jacrev(torch.sin), Z) == words("jacrev", "inputs")
    assert refusal(jacfwd(torch.sin), Z) == words("jacfwd", "inputs")
    assert refusal(hessian(lambda z: z.sum()), Z) == words("jacfwd", "inputs")
    assert refusal(jacrev(lambda x, z: x), X, Z) == words("jacrev", "inputs", 1)
    assert refusal(jacrev(lambda x: torch.complex(x, x)), X) == words("jacrev", "outputs")
    assert refusal(jacfwd(lambda x: torch.complex(x, x)), X) == words("jacfwd", "outputs")
    assert refusal(grad(lambda x: torch.complex(x, x).sum()), X) == (
        RuntimeError,
        "grad can be implicitly created only for real scalar outputs but got torch.complex64",
    )


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: grad(f, has_aux=True)(X),
        lambda f: grad_and_value(f, has_aux=True)(X),
        lambda f: vjp(f, X, has_aux=True),
        lambda f: jvp(f, (X,), (X,), has_aux=True),
        lambda f: jacrev(f, has_aux=True)(X),
        lambda f: jacfwd(f, has_aux=True)(X),
    ],
)
def test_aux(transform):
    assert refusal(transform, lambda x: (x.sum(), [x, 3])) == (
        RuntimeError,
        "Expected tensors, got unsupported type <class 'int'>",
    )
    kind, words = refusal(transform, lambda x: x.sum())
    assert kind is RuntimeError
    assert words.endswith(
        "output of function f should be a tuple: (output, aux) if has_aux is True"
    )


def test_strict_jvp():
    assert refusal(jvp, lambda x: torch.ones(2), (X,), (X,), strict=True) == (
        RuntimeError,
        "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
        "This is not allowed with strict=True.",
    )


# -- inside of a transformed function --------------------------------------------------------------


def captured(name):
    return RuntimeError, (
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
        f"in-place operation ({name}) that would mutate a captured Tensor. This is not supported; "
        "please rewrite the function being transformed to explicitly accept the mutated Tensor(s) "
        "as inputs."
    )


@pytest.mark.parametrize("transform", [lambda f: grad(f)(X), lambda f: jvp(f, (X,), (X,))])
def test_writes_to_captured_tensors(transform):
    c = torch.ones(2)
    writes = [
        (lambda x: c.zero_(), "aten::zero_"),
        (lambda x: c.copy_(x), "aten::copy_"),
        (lambda x: c[:1].fill_(3.0), "aten::fill_.Scalar"),
        (lambda x: c.data.fill_(3.0), "aten::fill_.Scalar"),
        (lambda x: c.normal_(), "aten::normal_"),
        (lambda x: c.resize_(1), "aten::resize_"),
        (lambda x: c.transpose_(0, 0), "aten::transpose_"),
    ]
    for write, name in writes:
        assert refusal(transform, lambda x, write=write: (write(x), x.sum())[1]) == captured(name)
    assert c.tolist() == [1.0, 1.0]


def test_statistics_of_a_captured_module():
    module = torch.nn.BatchNorm1d(2)
    assert refusal(grad(lambda x: module(x).sum()), torch.ones(3, 2)) == captured(
        "aten::add_.Tensor"
    )


def test_arguments_and_own_tensors_may_be_written():
    c = torch.ones(2)

    def given(x, y):
        y.copy_(x)
        return (x * y).sum()

    assert grad(given)(X, c).tolist() == [2.0, 4.0]
    assert c.tolist() == [1.0, 2.0]
    assert grad(lambda x, y: given(x, y["y"]))(X, {"y": torch.zeros(2)}).tolist() == [2.0, 4.0]
    assert grad(lambda x, y=None: given(x, y))(X, y=torch.zeros(2)).tolist() == [2.0, 4.0]
    assert jacrev(given)(X, torch.zeros(2)).tolist() == [2.0, 4.0]
    assert jacfwd(given)(X, torch.zeros(2)).tolist() == [2.0, 4.0]
    for fresh in (lambda: torch.tensor([0.0, 0.0]), lambda: torch.from_numpy(c.numpy().copy())):
        assert grad(lambda x, fresh=fresh: given(x, fresh()))(X).tolist() == [2.0, 4.0]


def test_out_arguments():
    c = torch.zeros(2)

    def computed(x):
        torch.add(torch.ones(2), torch.ones(2), out=c)
        return (x * c).sum()

    assert grad(computed)(X).tolist() == [2.0, 2.0]
    assert c.tolist() == [2.0, 2.0]
    assert refusal(grad(lambda x: torch.mul(x, 2, out=c).sum()), X) == (
        RuntimeError,
        "mul(): functions with out=... arguments don't support automatic differentiation, but one "
        "of the arguments requires grad.",
    )


TRANSFORMS = [
    lambda f: grad(f)(X),
    lambda f: jvp(f, (X,), (X,)),
    lambda f: vmap(f)(X),
    lambda f: torch.func.functionalize(f)(X),
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_requires_grad_(transform):
    wanted = (
        "You are attempting to call Tensor.requires_grad_() (or perhaps using "
        "torch.autograd.functional.* APIs) inside of a function being transformed by a functorch "
        "transform. This is unsupported, please attempt to use the functorch transforms (e.g. "
        "grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
        "transformed instead."
    )
    c = torch.ones(2)
    for tensor in (
        lambda x: x,
        lambda x: c,
        lambda x: torch.ones(2),
        lambda x: grad(torch.sin)(c[0]),
    ):
        assert refusal(
            transform, lambda x, tensor=tensor: (tensor(x).requires_grad_(), x.sum())[1]
        ) == (RuntimeError, wanted)
    assert not c.requires_grad


def test_factories_that_require_grad():
    def f(x):
        made = torch.ones(2, requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)
        assert all(tensor.requires_grad for tensor in made)
        return (x * made[0] * made[1] * torch.nn.Linear(2, 2).weight.sum() * 0 + x * made[1]).sum()

    found = grad(f)(X)
    assert found.tolist() == [1.0, 2.0]
    assert not found.requires_grad


def test_retain_grad():
    wanted = (
        "You are attempting to call Tensor.retain_grad() inside of a function being transformed by "
        "a functorch transform. This is unsupported, please attempt to use the functorch "
        "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call retain_grad() outside of a "
        "function being transformed instead."
    )
    outside = torch.ones(2, requires_grad=True) * 2
    for tensor in (lambda x: x, lambda x: x.sin(), lambda x: outside):
        assert refusal(grad(lambda x, tensor=tensor: (tensor(x).retain_grad(), x.sum())[1]), X) == (
            RuntimeError,
            wanted,
        )
    assert refusal(vmap(lambda x: x.retain_grad()), X) == (
        RuntimeError,
        "can't retain_grad on Tensor that has requires_grad=False",
    )


def test_memory():
    def data(x):
        x.data = torch.ones(2)

    def lent(x):
        torch.ones(2).data = x

    for write in (data, lent):
        assert refusal(grad(lambda x, write=write: (write(x), x.sum())[1]), X) == (
            RuntimeError,
            "mutating directly with `.data` inside functorch transform is not allowed.",
        )
    assert grad(lambda x: (x * x.data).sum())(X).tolist() == [1.0, 2.0]
    assert jvp(lambda x: x * x.data, (X,), (X,))[1].tolist() == [1.0, 4.0]
    assert torch.func.functionalize(lambda x: x * x.data)(X).tolist() == [1.0, 4.0]


def test_resize_and_set():
    assert refusal(grad(lambda x: x.clone().resize_(1).sum()), X) == (
        RuntimeError,
        "cannot resize variables that require grad",
    )
    assert grad(lambda x: (x * torch.ones(4).resize_(2)).sum())(X).tolist() == [1.0, 1.0]
    for write in (lambda x: x.clone().set_(torch.ones(2)), lambda x: torch.zeros(2).set_(x)):
        kind, words = refusal(grad(lambda x, write=write: (x * write(x)).sum()), X)
        assert kind is RuntimeError
        assert words.startswith("derivative for set_ is not implemented")
    kind, words = refusal(jvp, lambda x: x.clone().resize_(1), (X,), (X,))
    assert kind is NotImplementedError
    assert "forward AD with resize_" in words
    assert vmap(lambda x: x.clone().resize_(1))(X.expand(3, 2)).tolist() == [[1.0]] * 3
    kind, words = refusal(vmap(lambda x: x.resize_(1), in_dims=1), torch.ones(2, 3))
    assert kind is RuntimeError
    assert "the samples do not lie one after another" in words


NO_HOOKS = (
    RuntimeError,
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an "
    "issue with your use case.",
)


def same(value):
    return value


@pytest.mark.parametrize(
    "transform", [lambda f: grad(f)(X), lambda f: vjp(f, X), lambda f: jacrev(f)(X)]
)
def test_saved_tensor_hooks(transform):
    def around():
        with saved_tensors_hooks(same, same):
            return transform(lambda x: x.sin().sum())

    def inside(x):
        with saved_tensors_hooks(same, same):
            return x.sin().sum()

    assert refusal(around) == NO_HOOKS
    assert refusal(transform, inside) == NO_HOOKS
    x = X.clone().requires_grad_()
    with saved_tensors_hooks(same, same):
        assert x.sin().sum().requires_grad


def test_saved_tensor_hooks_around_forward_mode():
    seen = []
    with saved_tensors_hooks(lambda t: (seen.append(t), t)[1], same):
        jvp(lambda x: torch.softmax(x, 0), (X,), (X,))
        vmap(torch.sin)(X)
    assert not seen


def test_checkpoint_inside_grad():
    from rushlight.utils.checkpoint import checkpoint

    def f(x):
        return checkpoint(torch.sin, x, use_reentrant=False).sum()

    # torch refuses this: its checkpoint hooks have no level of their own.
    assert torch.equal(grad(f)(X), X.cos())
    batch = torch.ones(2, 3, requires_grad=True)
    vmap(f)(batch).sum().backward()
    assert torch.equal(batch.grad, batch.detach().cos())
