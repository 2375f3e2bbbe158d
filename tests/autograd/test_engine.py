"""The engine: order, ownership of gradients, hooks, re-entrancy, threads, lifetime."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import Function, Variable
from rushlight.autograd.engine import (
    current_autograd_node,
    current_graph_task_execution_order,
    current_graph_task_id,
    will_engine_execute_node,
)
from rushlight.autograd.graph import get_gradient_edge


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# -- order, questions -----------------------------------------------------------------------------


def order_of(output, *args):
    found = []
    with torch.autograd.set_multithreading_enabled(False):
        output.grad_fn.register_prehook(
            lambda grads: found.extend(n.name() for n in current_graph_task_execution_order())
        )
        torch.autograd.backward(output, *args)
    return found


def test_execution_order_is_reverse_creation_with_accumulators_first():
    leaf_name = "torch::autograd::AccumulateGrad"
    x = leaf(1.0)
    assert order_of(x.clone().sin().exp()) == [
        "ExpBackward0",
        "SinBackward0",
        "CloneBackward0",
        leaf_name,
    ]
    a, b = leaf(1.0), leaf(1.0)
    assert order_of(b.sin() * a.cos()) == [
        "MulBackward0",
        "CosBackward0",
        leaf_name,
        "SinBackward0",
        leaf_name,
    ]
    assert order_of(a.sin() * a.cos()) == [
        "MulBackward0",
        "CosBackward0",
        "SinBackward0",
        leaf_name,
    ]


def test_execution_order_is_refused_elsewhere():
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        current_graph_task_execution_order()
    y = leaf(1.0).clone()
    y.register_hook(lambda g: current_graph_task_execution_order())
    with pytest.raises(RuntimeError, match="multithreading disabled"):
        y.backward()


def test_sequence_numbers_decide_between_siblings():
    log = []
    x = leaf(1.0)
    a, b = x.exp(), x.exp()
    c = a * b
    assert a.grad_fn._sequence_nr() < b.grad_fn._sequence_nr()
    a.grad_fn._set_sequence_nr(100)
    b.grad_fn._set_sequence_nr(99)
    for name, tensor in (("a", a), ("b", b), ("c", c)):
        tensor.grad_fn.register_hook(lambda gi, go, name=name: log.append(name))
    c.backward()
    assert log == ["c", "a", "b"]


def test_task_ids_rise_by_one():
    assert current_graph_task_id() == -1
    ids = []
    x = leaf(1.0)
    for _ in range(3):
        y = x.clone()
        y.register_hook(lambda g: ids.append(current_graph_task_id()))
        y.backward()
    assert ids[1] - ids[0] == ids[2] - ids[1] == 1 and ids[0] >= 0


def test_current_node():
    seen = []
    x = leaf(1.0)
    y = x.exp()
    y.grad_fn.register_hook(lambda gi, go: seen.append(current_autograd_node()))
    assert current_autograd_node() is None
    y.backward()
    assert seen == [y.grad_fn]


def test_will_execute():
    x, z = leaf(1.0), leaf(2.0)
    mid = x * 2
    y = mid * z
    accumulators = [get_gradient_edge(t).node for t in (x, z)]
    answers = []

    def ask(grad):
        answers.append([will_engine_execute_node(n) for n in (mid.grad_fn, *accumulators)])

    y.register_hook(ask)
    y.backward(retain_graph=True)
    y.backward(inputs=[z], retain_graph=True)
    assert answers == [[True, True, True], [False, False, True]]
    with pytest.raises(RuntimeError, match="are currently running autograd.grad()"):
        torch.autograd.grad(y, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="during the backward pass"):
        will_engine_execute_node(mid.grad_fn)
    with pytest.raises(RuntimeError, match="expects an grad_fn"):
        will_engine_execute_node(3)


def test_unneeded_nodes_do_not_run():
    class Forbidden(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError("must not run")

    x, y = leaf(1.0), leaf(2.0)
    out = x * Forbidden.apply(y)
    assert torch.autograd.grad(out, x, retain_graph=True)[0].item() == 2.0
    out.backward(inputs=[x])
    assert x.grad.item() == 2.0 and y.grad is None
    other = leaf(1.0)
    assert torch.autograd.grad(Forbidden.apply(y), other, allow_unused=True) == (None,)


# -- leaf accumulation ----------------------------------------------------------------------------


class Add(Function):
    pointer = 0

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, grad):
        Add.pointer = grad.data_ptr()
        return grad, grad


def test_exactly_one_of_two_leaves_takes_a_shared_gradient():
    a, b = torch.ones(5, requires_grad=True), torch.ones(5, requires_grad=True)
    # sum() expands its gradient, mul makes a fresh contiguous one
    (Add.apply(a, b) * torch.ones(5)).sum().backward()
    pointers = {a.grad.data_ptr(), b.grad.data_ptr()}
    assert len(pointers) == 2 and Add.pointer in pointers


def test_expanded_gradient_is_copied():
    a, b = torch.ones(5, requires_grad=True), torch.ones(5, requires_grad=True)
    Add.apply(a, b).sum().backward()
    assert Add.pointer not in (a.grad.data_ptr(), b.grad.data_ptr())
    assert a.grad.stride() == b.grad.stride() == (1,)


def test_gradient_given_by_the_user_is_never_aliased():
    x = torch.ones(3, requires_grad=True)
    given = torch.ones(3)
    for output in (x, x + 0, x.view(3), Add.apply(x, torch.ones(3))):
        x.grad = None
        output.backward(given)
        x.grad.add_(1)
        assert given.tolist() == [1.0, 1.0, 1.0]


def test_stolen_gradient_is_what_a_post_hook_sees():
    x = torch.ones(3, requires_grad=True)
    seen = []
    node = get_gradient_edge(x).node
    node.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    (x * torch.ones(3)).sum().backward()
    inputs, outputs = seen[0]
    assert inputs == () and len(outputs) == 1
    assert outputs[0].data_ptr() == x.grad.data_ptr()


def test_layout_of_grad_follows_the_leaf():
    dense = torch.ones(2, 3).t().requires_grad_()
    (dense * dense).sum().backward()
    assert dense.grad.stride() == dense.stride() == (1, 3)
    gappy = torch.ones(4, 4)[:, ::2].requires_grad_()
    (gappy * gappy).sum().backward()
    assert gappy.grad.stride() == (2, 1)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_accumulation_in_place_and_out_of_place():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first and first.tolist() == [4.0, 8.0]
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first and first.tolist() == [4.0, 8.0]
    assert x.grad.tolist() == [6.0, 12.0]
    x.grad = None
    (x * x).sum().backward(create_graph=True)
    assert type(x.grad.grad_fn).__name__ == "CopyBackwards"
    x.grad = None


def test_backward_from_a_leaf_and_duplicate_roots():
    x = leaf(1.0)
    x.backward(torch.tensor([5.0]))
    assert x.grad.item() == 5.0
    y = x * 3
    torch.autograd.backward([y, y], [torch.ones(1), torch.ones(1)])
    assert x.grad.item() == 11.0


# -- hooks ----------------------------------------------------------------------------------------


def test_hook_order_around_a_node_and_a_leaf():
    log = []
    a = leaf(1.0)
    b = a.clone()
    leaf_node = b.grad_fn.next_functions[0][0]

    def note(name, result=None):
        return lambda *args: log.append(name) or result

    b.grad_fn.register_prehook(note("pre"))
    b.register_hook(note("tensor"))
    b.retain_grad()
    b.register_hook(lambda g: log.append("late tensor") or g * 2)
    b.grad_fn.register_hook(note("post"))
    leaf_node.register_hook(note("leaf post"))
    leaf_node.register_prehook(note("leaf pre"))
    a.register_post_accumulate_grad_hook(note("accumulated"))
    a.register_hook(note("leaf tensor"))
    b.backward()
    assert log == [
        "tensor",
        "late tensor",
        "pre",
        "post",
        "leaf tensor",
        "leaf pre",
        "accumulated",
        "leaf post",
    ]
    assert b.grad.item() == 2.0 and a.grad.item() == 2.0


def test_captures_include_tensor_hooks_but_not_node_hooks():
    a = leaf(1.0)
    b = a.clone()
    log = []
    b.register_hook(lambda g: g * 3)
    b.grad_fn.register_prehook(lambda gs: log.append("pre") or (gs[0] * 100,))
    c = b * 1
    assert torch.autograd.grad(c, b, retain_graph=True)[0].item() == 3.0 and log == []
    assert [g.item() for g in torch.autograd.grad(c, (a, b), retain_graph=True)] == [300.0, 3.0]
    c.backward(inputs=(b,))
    assert b.grad.item() == 3.0 and a.grad is None and log == ["pre", "pre"]


def test_hook_removed_during_a_run_still_fires_once():
    x = leaf(1.0)
    y = x.clone()
    log = []
    handles = []
    y.register_hook(lambda g: handles[0].remove())
    handles.append(y.register_hook(lambda g: log.append("second")))
    y.backward(retain_graph=True)
    y.backward()
    assert log == ["second"]
    handles[0].remove()


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (lambda g: "x", TypeError, "expected Variable, but hook returned 'str'"),
        (lambda g: torch.ones(3), RuntimeError, "has changed the size of value"),
        (lambda g: g.double(), RuntimeError, "has changed the type of value"),
    ],
)
def test_wrong_results_of_tensor_hooks(returned, error, text):
    y = leaf(1.0).clone()
    y.register_hook(returned)
    with pytest.raises(error, match=text):
        y.backward()


def test_hook_follows_the_value_and_retain_grad_the_tensor():
    x = leaf(1.0)
    a = x * 2
    seen = []
    a.register_hook(lambda g: seen.append(g.item()))
    a.retain_grad()
    a.mul_(4)
    a.register_hook(lambda g: seen.append(g.item()))
    a.backward()
    assert seen == [1.0, 4.0] and a.grad.item() == 1.0 and x.grad.item() == 8.0


def test_missing_gradient_reaches_a_hook_as_none():
    x = leaf(1.0, 2.0)
    first, second = x.unbind(0)
    seen = []
    first.register_hook(seen.append)
    second.backward(retain_graph=True)
    assert seen == [None]
    first.backward()
    assert seen[1].item() == 1.0


def test_post_accumulate_hooks():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf"):
        x.clone().register_post_accumulate_grad_hook(lambda p: None)

    def step(parameter):
        parameter.sub_(parameter.grad)
        parameter.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 3).backward()
    assert x.item() == -2.0 and x.grad is None
    handle.remove()
    x.register_post_accumulate_grad_hook(lambda p: p)
    with pytest.raises(RuntimeError, match="hooks should return None."):
        (x * 3).backward()


# -- re-entrancy, callbacks, errors ---------------------------------------------------------------


class Nested(Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.depth:
            with torch.enable_grad():
                inner = torch.ones(1, requires_grad=True)
                Nested.apply(inner, ctx.depth - 1).backward()
            grad = grad + inner.grad
        return grad, None


@pytest.mark.parametrize("depth", [5, 200, 2000])
def test_nested_backward(depth):
    x = torch.ones(1, requires_grad=True)
    for _ in range(2 if depth < 1000 else 1):
        x.grad = None
        Nested.apply(x, depth).backward()
        assert x.grad.item() == depth + 1
    assert torch.is_grad_enabled()


def test_error_of_a_nested_backward_surfaces():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                y = torch.ones(1, requires_grad=True).clone()
                y.register_hook(lambda g: 1 / 0)
                y.backward()

    with pytest.raises(ZeroDivisionError):
        Fails.apply(leaf(1.0)).backward()
    assert torch.is_grad_enabled() and current_graph_task_id() == -1


def test_callbacks_run_once_at_the_end_of_the_innermost_task():
    log = []
    x = leaf(1.0)
    queue = Variable._execution_engine.queue_callback
    y = x.clone()

    def hook(grad):
        queue(lambda: (log.append("outer"), queue(lambda: log.append("added"))))
        with torch.enable_grad():
            z = leaf(1.0).clone()
            z.register_hook(lambda g: queue(lambda: log.append("inner")))
            z.backward()
        log.append("hook")

    y.register_hook(hook)
    y.backward()
    assert log == ["inner", "hook", "outer", "added"] and x.grad.item() == 1.0
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward"):
        queue(lambda: None)


def test_grad_mode_inside_backward_is_create_graph():
    seen = []
    x = leaf(1.0)
    y = x * x
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    y.backward(retain_graph=True)
    torch.autograd.grad(y, x, create_graph=True)
    with torch.no_grad():
        torch.autograd.grad(y, x, create_graph=True)
        assert not torch.is_grad_enabled()
    assert seen == [False, True, True]


# -- threads --------------------------------------------------------------------------------------


def run_threads(count, function):
    errors = []

    def target():
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=target) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_concurrent_backwards_add_up_on_a_shared_leaf():
    x = torch.ones(5, 5, requires_grad=True)

    def work():
        for _ in range(20):
            ((x + 3) * (x + 4) * 0.5).sum().backward()

    assert run_threads(8, work) == []
    assert x.grad.tolist() == [[4.5 * 160] * 5] * 5


def test_concurrent_backwards_through_one_graph():
    x = torch.ones(3, requires_grad=True)
    shared = (x * x).sum()
    assert run_threads(6, lambda: shared.backward(retain_graph=True)) == []
    assert x.grad.tolist() == [12.0] * 3
    shared = (x * x).sum()
    errors = run_threads(6, lambda: shared.backward())
    assert len(errors) < 6
    assert all("Specify retain_graph=True" in str(error) for error in errors)


def test_modes_belong_to_their_thread():
    seen = []
    with torch.no_grad():
        run_threads(1, lambda: seen.append(torch.is_grad_enabled()))
    assert seen == [True]


# -- lifetime -------------------------------------------------------------------------------------


def test_deep_graphs_are_built_run_and_freed(no_gc):
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(150_000):
        y = y * 1.0 + 0.0
    alive = weakref.ref(y.grad_fn)
    y.backward()
    assert x.grad.item() == 1.0
    del y
    assert alive() is None


def test_deep_graph_of_python_functions_is_freed(no_gc):
    class Combine(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    y = torch.zeros(1, requires_grad=True)
    for _ in range(50_000):
        y = Combine.apply(y, y)
    alive = weakref.ref(y.grad_fn)
    del y
    assert alive() is None


def test_nothing_in_a_plain_backward_needs_the_collector(no_gc):
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).exp()
    z = (y.sin() * y).sum()
    y.retain_grad()
    refs = [weakref.ref(t) for t in (y, z, y.grad_fn, z.grad_fn)]
    z.backward()
    assert y.grad is not None
    del y, z
    assert [ref() for ref in refs] == [None] * 4


def test_failed_backward_leaves_no_cycle(no_gc):
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    node = weakref.ref(y.grad_fn)

    def boom(grad):
        raise ValueError("boom")

    y.register_hook(boom)
    with pytest.raises(ValueError, match="boom"):
        y.sum().backward()
    del y
    gc.collect()
    assert node() is None


def test_retained_grad_does_not_keep_the_tensor(no_gc):
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.retain_grad()
    z = y.sum()
    alive = weakref.ref(y)
    del y
    assert alive() is None
    z.backward()
    assert x.grad is not None


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_sparse_and_dense_gradients_of_a_leaf_are_added(first, second):
    class Counts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, sparse):
            ctx.sparse = sparse
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            ones = torch.ones(3, 2)
            return ones.to_sparse(1) if ctx.sparse else ones, None

    x = torch.zeros(3, 2, requires_grad=True)
    for step in range(1, 9):
        (Counts.apply(x, first) + Counts.apply(x, second)).backward()
        assert x.grad.is_sparse == (first and second)
        assert x.grad.to_dense().tolist() == [[2.0 * step] * 2] * 3


def test_a_leaf_that_requires_no_gradient_any_more_gets_none():
    for stop in (lambda x: x.requires_grad_(False), lambda x: x.detach_()):
        for is_last in (False, True):
            for _ in range(8):
                x = torch.ones(2, 3, requires_grad=True)
                loss = (x.t() * 3).sum()
                if is_last:
                    stop(x)
                loss.backward()
                assert (x.grad is None) is is_last


def test_a_view_made_without_grad_mode_receives_no_gradient():
    x = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        row = x[0]
    assert row.requires_grad and row.is_leaf
    for _ in range(8):
        ((row * 2).sum() + (x * 3).sum()).backward()
        assert row.grad is None and x.grad.unique().tolist() == [3.0]
        x.grad = None
    row.requires_grad_()
    (row * 2).sum().backward()
    assert row.grad.tolist() == [2.0, 2.0, 2.0]


def test_memory_taken_from_a_tensor_with_a_gradient_has_no_formula():
    source, target = torch.ones(2, requires_grad=True), torch.zeros(2)
    target.set_(source)
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        (target * 2).sum().backward()
