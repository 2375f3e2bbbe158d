"""`map`, `scan`, `associative_scan` and `while_loop` through every layer, against plain loops."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.tracing import make_fx
from rushlight.core.fake import FakeTensorMode
from rushlight.core.functional import FunctionalMode, from_functional, to_functional
from rushlight.func import functionalize, grad, hessian, jvp, vmap
from rushlight.higher_order.mapping import map as map_slices
from rushlight.higher_order.scans import associative_scan, scan


def mapped(x, w):
    return map_slices(lambda row, w: row.sin().add_(1) * w, x, w)


def mapped_plainly(x, w):
    return torch.stack([(row.sin() + 1) * w for row in x])


def combine(carry, row):
    following = carry * 0.5 + row.cos()
    return following, following * carry


def scanned(x, w):
    last, ys = scan(combine, w, x)
    return ys * 2 + last


def scanned_plainly(x, w):
    rows = []
    for row in x:
        w, y = combine(w, row)
        rows.append(y)
    return torch.stack(rows) * 2 + w


def affine(one, other):
    return other[0] * one[0], other[0] * one[1] + other[1]


def accumulated(x, w):
    slopes, offsets = associative_scan(affine, (x, x * w), 0, combine_mode="generic")
    return slopes + offsets


def accumulated_plainly(x, w):
    pair, rows = (x[0], x[0] * w), [x[0] + x[0] * w]
    for row in x[1:]:
        pair = affine(pair, (row, row * w))
        rows.append(pair[0] + pair[1])
    return torch.stack(rows)


def looped(x, w):
    def body(count, x, w):
        return count + 1, x.sin() + w, w.clone()

    _, x, _ = torch.while_loop(lambda count, x, w: count < 3, body, (torch.tensor(0), x, w))
    return x


def looped_plainly(x, w):
    for _ in range(3):
        x = x.sin() + w
    return x


PAIRS = {
    "map": (mapped, mapped_plainly),
    "scan": (scanned, scanned_plainly),
    "associative_scan": (accumulated, accumulated_plainly),
    "while_loop": (looped, looped_plainly),
}
both = pytest.mark.parametrize("name", PAIRS)


def operands(seed=0):
    x = (torch.arange(10, dtype=torch.float64).reshape(5, 2) * 0.3 + seed).sin() + 1
    return x, torch.tensor([0.7, -0.4], dtype=torch.float64) + seed


def transforms(w):
    return (
        lambda f: f(operands()[0], w),
        lambda f: functionalize(lambda x: f(x, w))(operands()[0]),
        lambda f: grad(lambda x: f(x, w).square().sum())(operands()[0]),
        lambda f: grad(lambda w: f(operands()[0], w).square().sum())(w),
        lambda f: jvp(lambda x: f(x, w), (operands()[0],), (operands(1)[0],))[1],
        lambda f: hessian(lambda w: f(operands()[0], w).sum())(w),
        lambda f: vmap(f, in_dims=(1, None))(torch.stack([operands()[0], operands(1)[0]], 1), w),
        lambda f: vmap(f, in_dims=(None, 0))(operands()[0], torch.stack([w, w + 1])),
        lambda f: vmap(grad(lambda w: f(operands()[0], w).sum()))(torch.stack([w, w + 1])),
    )


@both
@pytest.mark.parametrize("number", range(len(transforms(None))))
def test_an_op_agrees_with_its_loop_at_every_level(name, number):
    ours, theirs = PAIRS[name]
    transform = transforms(operands()[1])[number]
    assert torch.allclose(transform(ours), transform(theirs))


@both
@pytest.mark.parametrize("number", range(len(transforms(None))))
def test_a_traced_op_agrees_with_its_loop_at_every_level(name, number):
    ours, theirs = PAIRS[name]

    def run(f, w):
        return transforms(w)[number](f)

    w = operands()[1]
    graph = make_fx(lambda w: run(ours, w))(w)
    assert torch.allclose(graph(w + 0.5), run(theirs, w + 0.5))


def test_samples_of_a_vmap_leave_a_loop_at_their_own_time():
    def f(x):
        return torch.while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,))[0]

    rows = torch.tensor([[1.0, 2.0], [70.0, 1.0]])
    expected = torch.stack([f(row) for row in rows])
    assert torch.equal(vmap(f)(rows), expected)
    assert torch.equal(make_fx(vmap(f))(rows)(rows), expected)


NODES = {
    "map": ["body_graph_0", "map_impl"],
    "scan": ["scan_combine_graph_0", "scan"],
    "associative_scan": ["associative_scan_combine_graph_0", "associative_scan"],
    "while_loop": ["while_loop_cond_graph_0", "while_loop_body_graph_0", "while_loop"],
}


@both
@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_a_graph_serves_other_sizes(name, pre_dispatch):
    ours, theirs = PAIRS[name]
    x, w = operands()
    graph = make_fx(ours, tracing_mode="symbolic", pre_dispatch=pre_dispatch)(x, w)
    names = [node.name for node in graph.graph.nodes]
    assert [known for known in names if known in NODES[name]] == NODES[name]
    longer = torch.cat([x, x])
    assert torch.allclose(graph(longer, w), theirs(longer, w))


@both
def test_a_compiled_gradient_is_the_loops(name):
    ours, theirs = PAIRS[name]
    compiled = aot_function(ours, nop)
    results = []
    for f in (compiled, theirs):
        given = [value.requires_grad_() for value in operands()]
        f(*given).square().sum().backward()
        results.append([value.grad for value in given])
    for got, expected in zip(*results, strict=True):
        assert torch.allclose(got, expected)


def test_a_compiled_loop_has_as_many_steps_backward():
    def f(x, w):
        def body(count, x):
            return count + 1, x.sin() * w

        return torch.while_loop(lambda count, x: x.sum() > 0.2, body, (torch.tensor(0), x))

    def with_operand(x, w):
        def body(x, w):
            return x.sin() * w, w.clone()

        return torch.while_loop(lambda x, w: x.sum() > 0.2, body, (x, w))[0]

    compiled = aot_function(with_operand, nop)
    for size in (1.0, 0.05, 3.0):
        results = []
        for run in (compiled, with_operand):
            x = torch.full((2,), size, dtype=torch.float64, requires_grad=True)
            w = torch.tensor([0.5, 0.7], dtype=torch.float64, requires_grad=True)
            result = run(x, w)
            result.square().sum().backward()
            # Eagerly a loop without steps does not lead to `w`.
            results.append([result, x.grad, torch.zeros_like(w) if w.grad is None else w.grad])
        for got, expected in zip(*results, strict=True):
            assert torch.allclose(got, expected)
    with pytest.raises(RuntimeError, match="closes over a tensor"):
        aot_function(f, nop)(x.detach(), w)


@both
def test_fakes_have_the_geometry_of_results(name):
    ours, _ = PAIRS[name]
    expected = ours(*operands())
    with FakeTensorMode() as mode:
        got = ours(*[mode.from_tensor(value) for value in operands()])
    assert (got.shape, got.stride(), got.dtype) == (
        expected.shape,
        expected.stride(),
        expected.dtype,
    )


def test_what_functions_close_over_is_an_operand_of_the_graph():
    def f(x):
        z = x * 2
        return map_slices(lambda row: row + z, x)

    x = torch.ones(2, 2)
    graph = make_fx(f)(x)
    call = next(n for n in graph.graph.nodes if n.target is torch.ops.higher_order.map_impl)
    assert [node.name for node in call.args[2]] == ["mul"]
    assert torch.equal(graph(x + 1), f(x + 1))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans_go_along_any_dim_from_either_end(dim, reverse):
    x = operands()[0]
    sums = torch.cumsum(x.flip([dim]) if reverse else x, dim)
    sums = sums.flip([dim]) if reverse else sums
    start = torch.zeros(x.select(dim, 0).shape)
    last, ys = scan(lambda c, x: (c + x, c + x), start, x, dim=dim, reverse=reverse)
    assert torch.allclose(ys, sums)
    assert torch.allclose(last, x.sum(dim))
    for mode in ("pointwise", "generic"):
        ys = associative_scan(lambda a, b: a + b, x, dim, reverse=reverse, combine_mode=mode)
        assert torch.allclose(ys, sums)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_an_associative_scan_has_any_length(count):
    x = torch.arange(1.0, count + 1, requires_grad=True)
    y = associative_scan(lambda a, b: a * b, x, 0)
    assert torch.equal(y, torch.cumprod(x, 0))
    compiled = aot_function(lambda x: associative_scan(lambda a, b: a * b, x, 0), nop)
    compiled(x).sum().backward()
    assert torch.allclose(x.grad, torch.autograd.grad(torch.cumprod(x, 0).sum(), x)[0])


WRONG = (
    (lambda x: map_slices(torch.sin, 3), RuntimeError, "Mapped xs can only consist of tensors"),
    (lambda x: map_slices(torch.sin, x[:0]), RuntimeError, "cannot be 0"),
    (lambda x: map_slices(torch.sin, (x, x[:1])), RuntimeError, "must be consistent"),
    (lambda x: map_slices(None, x), RuntimeError, "callable"),
    (lambda x: scan(combine, [], x), RuntimeError, "requires init leaves"),
    (lambda x: scan(combine, 3, x), RuntimeError, "All init leaves must be a Tensor"),
    (lambda x: scan(combine, x[0], x[:0]), RuntimeError, "scan dimension > 0"),
    (lambda x: scan(combine, x[0], x, dim=5), IndexError, "out of range"),
    (lambda x: scan(lambda c, x: ((c, c), x), x[0], x), RuntimeError, "same structure"),
    (lambda x: associative_scan(3, x, 0), ValueError, "must be a callable"),
    (lambda x: associative_scan(combine, x, 0, combine_mode="foo"), ValueError, "Combine_mode"),
    (lambda x: torch.while_loop(3, torch.sin, (x,)), RuntimeError, "to be callable"),
    (lambda x: torch.while_loop(lambda x: x < 1, torch.sin, (x,)), RuntimeError, "boolean scalar"),
    (
        lambda x: make_fx(
            lambda x: torch.while_loop(lambda x: x.sum() < 9, lambda x: (x[0] + 1,), (x,))
        )(x),
        RuntimeError,
        "return the same",
    ),
)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_calls_are_named(number):
    call, kind, words = WRONG[number]
    with pytest.raises(kind, match=words):
        call(operands()[0])


@both
def test_functionalization_alone_runs_on_values(name):
    ours, theirs = PAIRS[name]
    mode = FunctionalMode()
    given = [to_functional(value, mode) for value in operands()]
    with torch.no_grad():
        with mode:
            result = ours(*given)
        assert torch.allclose(from_functional(result), theirs(*operands()))


def test_sizes_that_functions_close_over_are_operands_of_the_graph():
    def f(x, y):
        rows, columns = x.shape[0], y.shape[0] * 2
        mapped = map_slices(lambda row: row * columns + rows, x)
        return torch.cond(x.sum() > 0, lambda x: x * columns, lambda x: x - rows, (mapped,))

    graph = make_fx(f, tracing_mode="symbolic")(torch.ones(3, 2), torch.ones(5))
    for x in (torch.ones(4, 2), -torch.ones(4, 2)):
        y = torch.ones(7)
        assert torch.equal(graph(x, y), f(x, y))
