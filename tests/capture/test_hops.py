"""Higher-order ops in compiled functions: the public functions over them, and what comes of their
functions' graphs."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.capture.exc import Unsupported
from rushlight.compiler import compiling
from rushlight.compiler.counting import EagerAndRecordGraphs
from rushlight.higher_order.mapping import map as map_slices
from rushlight.higher_order.regions import strict_mode, wrap
from rushlight.higher_order.scans import associative_scan, scan
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from rushlight.utils.checkpoint import checkpoint

W = torch.linspace(-1, 1, 3).requires_grad_()
TABLE = torch.tensor([0.5, -0.5])
MASK = create_block_mask(lambda b, h, i, j: i >= j, None, None, 4, 4)


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def chosen(x):
    return torch.cond(x.sum() > 0, lambda y: {"a": y + W}, lambda y: {"a": y.cos() * x}, (x,))


def chosen_in_a_branch(x):
    def inner(y):
        return torch.cond(y.sum() > 1, torch.sin, torch.cos, (y,)) * W

    return torch.cond(x.sum() > 0, inner, torch.neg, (x,))


def repeated(x):
    def step(count, y):
        return count + 1, y * 0.5 + W

    return torch.while_loop(lambda count, y: count < 3, step, (torch.tensor(0), x))


def sliced(x):
    return map_slices(lambda row, other: (row * W + other, row.sum()), x, x[0])


def scanned(x):
    return scan(lambda c, row: (c + row, c * row * W), W * 0, x)


def scanned_from_the_end(x):
    return scan(lambda c, row: (c + row, c * 2), x[0] * 0, x, reverse=True)


def scanned_in_pairs(x):
    return associative_scan(lambda a, b: a * b + 1, x.detach(), 0, combine_mode="generic")


def wrapped(x):
    return wrap(lambda y, k: {"a": (y + W).sin(), "b": [x * k, 3]}, x, 2)


def wrapped_twice(x):
    return wrap(lambda y: wrap(lambda z: z * W + x, y) * 2, x)


def strict(x):
    return strict_mode(lambda y: (y * W, y + 1), (x,))


def checkpointed(x):
    return checkpoint(lambda y: (y * W).sin() * x, x, use_reentrant=False)


def attended(x):
    q = x.reshape(1, 2, -1, 3)
    return flex_attention(q, q, q, lambda score, b, h, i, j: score + TABLE[h] * (i - j))


def attended_to_blocks(x):
    q = torch.cat([x, x]).reshape(1, 2, 4, 3)
    return flex_attention(q, q, q, block_mask=MASK)


PROGRAMS = [
    chosen, chosen_in_a_branch, repeated, sliced, scanned, scanned_from_the_end, scanned_in_pairs,
    wrapped, wrapped_twice, strict, checkpointed, attended, attended_to_blocks,
]  # fmt: skip


def results_and_gradients(f, x):
    x = x.clone().requires_grad_()
    W.grad = None
    found = [leaf for leaf in pytree.tree_leaves(f(x)) if isinstance(leaf, torch.Tensor)]
    moving = [leaf.sum() for leaf in found if leaf.requires_grad]
    if moving:
        sum(moving).backward()
    return [*[leaf.detach() for leaf in found], x.grad, W.grad]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph_with_values_and_gradients(program, backend):
    compiled = torch.compile(program, backend=backend, fullgraph=True)
    for x in (torch.arange(12.0).reshape(4, 3) / 8, -torch.ones(4, 3)):
        expected, found = results_and_gradients(program, x), results_and_gradients(compiled, x)
        for a, b in zip(expected, found, strict=True):
            # A graph gives zeros for what only the other branch uses.
            shape = (a if b is None else b).shape if not (a is None and b is None) else ()
            a, b = (torch.zeros(shape) if v is None else v for v in (a, b))
            torch.testing.assert_close(a, b)


def test_graphs_of_functions_have_names_and_take_what_is_used():
    backend = EagerAndRecordGraphs()
    torch.compile(lambda x, y: chosen(x)["a"] + wrap(torch.sin, y), backend=backend)(W, W + 1)
    (gm,) = backend.graphs
    targets = [str(node.target) for node in gm.graph.nodes]
    assert [n for n in targets if n[-2:] == "_0"] == ["cond_true_0", "cond_false_0", "wrap_body_0"]
    (call,) = [node for node in gm.graph.nodes if str(node.target) == "wrap"]
    assert len(call.args) == 2
    assert len(gm.wrap_body_0.graph.find_nodes(op="placeholder")) == 1


def test_a_known_choice_leaves_no_call():
    backend = EagerAndRecordGraphs()
    f = torch.compile(lambda x, flag: torch.cond(flag, torch.sin, torch.cos, (x,)), backend=backend)
    x = torch.ones(2)
    assert f(x, True).equal(x.sin())
    assert f(x, False).equal(x.cos())
    calls = [[n.target for n in gm.graph.nodes if "call" in n.op] for gm in backend.graphs]
    assert [len(names) for names in calls] == [1, 1]


def test_another_op_under_a_name_is_noticed():
    def f(x):
        return OP(lambda y: (y * 2,), (x,))

    global OP
    OP = strict_mode
    compiled = torch.compile(f, backend="eager")
    x = torch.ones(2)
    assert compiled(x)[0].equal(x * 2)
    OP = lambda function, operands: (function(*operands)[0] + 1,)  # noqa: E731
    assert compiled(x)[0].equal(x * 2 + 1)


@pytest.mark.parametrize("transform", [torch.func.grad, lambda f: lambda x: wrap(f, x)])
def test_tensors_that_leave_a_function(transform):
    def f(x):
        kept = []

        def inner(y):
            kept.append(y.sin())
            return kept[0].sum()

        return transform(inner)(x), kept[0].detach() + 1

    x = torch.linspace(0, 1, 3)
    expected, found = f(x), torch.compile(f, backend="eager")(x)
    torch.testing.assert_close(expected, found)
    with pytest.raises(Unsupported, match="leaves the transformed function"):
        torch.compile(f, backend="eager", fullgraph=True)(x)


def test_writes_to_the_outside_are_no_part_of_a_graph():
    seen = []

    def f(x):
        return wrap(lambda y: seen.append(1) or y.sin(), x)

    x = torch.ones(2)
    with pytest.raises(Unsupported, match="not in the current scope"):
        torch.compile(f, backend="eager", fullgraph=True)(x)
    assert torch.compile(f, backend="eager")(x).equal(x.sin())
    assert seen == [1]


def test_lists_of_objects_are_compared_item_by_item():
    a, b = object(), object()

    @torch.compile(backend="eager", fullgraph=True)
    def f(x, first, second):
        return x + 1 if [first, (1, 2)] == [second, (1, 2)] else x - 1

    x = torch.zeros(2)
    assert f(x, a, a).equal(x + 1)
    assert f(x, a, b).equal(x - 1)


def test_another_operator_in_a_place_is_noticed():
    class Holder:
        op = torch.ops.aten.sin

    @torch.compile(backend="eager", fullgraph=True)
    def f(x):
        return Holder.op(x), Holder.op.default(x)

    x = torch.ones(2)
    assert f(x)[0].equal(x.sin())
    Holder.op = torch.ops.aten.cos
    assert f(x)[0].equal(x.cos())
    assert f(x)[1].equal(x.cos())
