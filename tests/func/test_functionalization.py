"""functionalize: what is left of writes and views, and what the caller sees."""

import pytest

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.func import functionalize, grad, jacfwd, jvp, linearize, vmap


def targets(f, remove):
    graph = make_fx(functionalize(f, remove=remove))(torch.ones(2, 2)).graph
    return [str(n.target) for n in graph.nodes if n.op == "call_function"]


def viewed(x):
    y = x.clone()
    v = y.view(-1)
    v.add_(1)
    return y.t()


def written(x):
    x.add_(1)
    return x[0]


# As torch 2.13 traces them.
GRAPHS = [
    (viewed, "mutations", "clone.default view.default add.Tensor view.default view.default "
     "t.default t.default"),
    (viewed, "mutations_and_views", "clone.default view_copy.default add.Tensor view_copy.default "
     "view_copy.default t_copy.default t_copy.default"),
    (written, "mutations", "add.Tensor select.int select.int copy_.default"),
    (written, "mutations_and_views", "add.Tensor select_copy.int select_copy.int copy_.default"),
    (lambda x: x.view(4) + 1, "mutations_and_views", "view_copy.default add.Tensor"),
]  # fmt: skip


@pytest.mark.parametrize("f, remove, expected", GRAPHS)
def test_graphs(f, remove, expected):
    assert targets(f, remove) == [f"aten.{name}" for name in expected.split()]


def test_every_kind_of_view_is_copied():
    def f(x):
        a, b = x.unbind(0)
        return (
            a.squeeze().unsqueeze(0), b, x.diagonal(), x.expand(2, 2, 2), x.permute(1, 0),
            x.transpose(0, 1), x[:, 1:], x.split(1), x.narrow(0, 0, 1), x.unfold(0, 1, 1),
            x.as_strided((2,), (1,)), x.split([1, 1]), x.view_as(x), torch.view_as_real(x + 0j),
        )  # fmt: skip

    left = [name for name in targets(f, "mutations_and_views") if "getitem" not in name]
    assert [name for name in left if "_copy." not in name] == ["aten.add.Tensor"]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_calls(remove):
    x = torch.ones(2, 2)
    found = functionalize(written, remove=remove)(x)
    assert x.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert found.tolist() == [2.0, 2.0]
    assert (found._base is None) == (remove == "mutations_and_views")
    y = torch.arange(3.0)
    assert vmap(functionalize(lambda a: a.clone().add_(1), remove=remove))(y).tolist() == [1, 2, 3]
    f = functionalize(lambda a: a.clone().view(3).mul_(a).sum(), remove=remove)
    assert grad(f)(y).tolist() == [0, 2, 4]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_tangents_of_expanded_tensors(remove):
    def f(x):
        wide = vmap(lambda _: x.mean(0, keepdim=True))(torch.ones(2))
        return jvp(lambda a: a * a, (wide,), (torch.tensor([[1.0], [2.0]]),))[1]

    assert functionalize(f, remove=remove)(torch.tensor([1.0, 2.0])).tolist() == [[3.0], [6.0]]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_a_level_leaves_tensors_of_the_one_around_it_alone(remove):
    def f(x):
        kept = x * 2
        same = functionalize(lambda y: kept, remove=remove)(x)
        same.add_(1)
        return kept * functionalize(lambda y: (y * kept).add_(kept), remove=remove)(x)

    x = torch.tensor([1.0, 2.0])
    assert functionalize(f, remove=remove)(x).tolist() == f(x).tolist() == [18.0, 75.0]

    def refused(x):
        kept = x * 2
        return functionalize(lambda y: kept.add_(y), remove=remove)(x)

    with pytest.raises(RuntimeError, match="mutating a non-functional tensor"):
        functionalize(refused, remove=remove)(x)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_linear_functions_of_views(remove):
    def f(x):
        every_second = x[::2]
        value, push = linearize(lambda y: y, every_second)
        return value * push(every_second)

    x = torch.tensor([1.0, 2.0, 3.0])
    assert grad(lambda x: functionalize(f, remove=remove)(x).sum())(x).tolist() == [2.0, 0.0, 6.0]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_writes_to_copies_leave_tangents_alone(remove):
    def f(a, b):
        both = torch.cat([b, b]).copy_(a)
        both.mul_(1.5)
        return a * b

    x = torch.ones(1)
    found = functionalize(lambda x: jacfwd(f)(x, x), remove=remove)(x)
    assert found.tolist() == [[1.0]]


def test_no_elements():
    def f(angle):
        return torch.polar(torch.ones(0, 3), angle).real

    assert functionalize(jacfwd(f))(torch.ones(3)).shape == (0, 3, 3)


def test_other_words_are_refused():
    with pytest.raises(RuntimeError, match="received invalid argument for remove=views"):
        functionalize(viewed, remove="views")


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t_(),
        lambda x: x.t_().mul_(2),
        lambda x: x.mul_(2).unsqueeze_(1),
        lambda x: x.as_strided_((2, 2), (2, 1), 1).sin_(),
        lambda x: x.resize_(2).add_(1),
        lambda x: x.resize_(9).fill_(1),
        lambda x: torch.sin(torch.ones(4, 2), out=x.mul_(0)),
        lambda x: x.set_(torch.ones(2)),
        lambda x: x.t_().mul_(2).t_(),
    ],
)
@pytest.mark.parametrize("mode", [None, "real", "fake", "symbolic"])
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_arguments_are_left_with_the_geometry_that_they_were_given(change, mode):
    def changed(x):
        change(x)
        return x * 1

    expected = torch.arange(6.0).view(2, 3)
    wanted = changed(expected)
    x = torch.arange(6.0).view(2, 3)
    function = torch.func.functionalize(changed)
    if mode is not None:
        function = make_fx(function, tracing_mode=mode)(torch.arange(6.0).view(2, 3))
    assert function(x).tolist() == wanted.tolist()
    assert (x.tolist(), x.stride()) == (expected.tolist(), expected.stride())
