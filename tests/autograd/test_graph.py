"""Nodes seen from outside, saved tensors and their hooks, multi-tensor hooks, versions."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import Variable
from rushlight.autograd.engine import current_autograd_node
from rushlight.autograd.function import UndefinedGrad
from rushlight.autograd.graph import (
    Node,
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    force_original_view_tracking,
    increment_version,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
    saved_tensors_hooks_enabled,
    unsafe_preserve_version_counter,
    unsafe_set_version_counter,
)
from rushlight.core.node import AccumulateGrad, SavedTensor


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


# -- nodes ----------------------------------------------------------------------------------------


def test_next_functions():
    x, y = leaf(1.0), leaf(2.0)
    a = x + y
    (first, i), (second, j) = a.grad_fn.next_functions
    assert type(first) is type(second) is AccumulateGrad and (i, j) == (0, 0)
    assert first.variable is x and second.variable is y
    assert (x + 1).grad_fn.next_functions[0][0] is first
    b = a + 5
    assert b.grad_fn.next_functions == ((a.grad_fn, 0), (None, 0))
    assert a.grad_fn is a.grad_fn


def test_node_is_a_virtual_base_class():
    x = leaf(1.0)
    y = x.exp()
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0], UndefinedGrad()):
        assert isinstance(node, Node) and issubclass(type(node), Node)
        assert Node not in type(node).__mro__
    for other in (None, 1, Node, type(y.grad_fn)):
        assert not isinstance(other, Node)


def test_calling_a_node():
    x = leaf(2.0)
    node = (x * 3).grad_fn
    with pytest.raises(TypeError, match="expected 1 arguments, got 0 instead"):
        node()
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        node(torch.ones(1), torch.ones(1))
    assert node(torch.ones(1))[0].item() == 3.0


def test_metadata_lives_with_the_node():
    class Payload:
        pass

    y = leaf(1.0).exp()
    payload = Payload()
    alive = weakref.ref(payload)
    y.grad_fn.metadata["payload"] = payload
    del payload
    assert alive() is not None
    del y
    assert alive() is None


def test_variable_is_every_tensor():
    data = torch.ones(2)
    made = Variable(data, requires_grad=True)
    assert type(made) is torch.Tensor and made.requires_grad and not data.requires_grad
    assert made.data_ptr() == data.data_ptr()
    assert isinstance(data, Variable) and not isinstance(3, Variable)


# -- saved tensors --------------------------------------------------------------------------------


def test_inputs_come_back_as_themselves_and_outputs_as_equals():
    x, y = leaf(1.0), leaf(2.0)
    product = x * y
    assert product.grad_fn._saved_self is x and product.grad_fn._saved_other is y
    e = x.exp()
    saved = e.grad_fn._saved_result
    assert saved is not e and saved.grad_fn is e.grad_fn and saved.item() == e.item()
    e.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        e.grad_fn._saved_result


def test_saved_tensor_cannot_be_made():
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python"):
        SavedTensor()


def test_only_what_is_needed_is_saved():
    packed = []
    x, y = leaf(1.0), torch.ones(1)
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        x * y
        x + y
        x * 3
        x.clone()
        x.sum()
    assert len(packed) == 1 and packed[0] is y


def test_detaching_a_saved_input_in_place_is_noticed():
    x = leaf(1.0)
    a = x * 1
    sine, exponential = a.sin(), a.exp()
    a.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        sine.backward()
    exponential.backward()
    assert x.grad is not None


@pytest.mark.parametrize("write", ["plain", "no_grad", "detached", "view"])
def test_every_kind_of_write_is_noticed(write):
    x = leaf(1.0)
    a = x * 1
    y = a.sin()
    if write == "plain":
        a.add_(1)
    elif write == "no_grad":
        with torch.no_grad():
            a.add_(1)
    elif write == "detached":
        a.detach().zero_()
    else:
        a[:].zero_()
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor"
    ):
        y.backward()


def test_write_through_data_is_not_noticed():
    x = leaf(1.0)
    a = x * 1
    y = a * a
    a.data.mul_(3)
    y.backward()
    assert x.grad.item() == 6.0


@pytest.mark.parametrize(
    ("around_forward", "around_backward", "expected"),
    [(False, False, 6.0), (True, False, 12.0), (False, True, 24.0), (True, True, 48.0)],
)
def test_default_hooks_in_a_double_backward(around_forward, around_backward, expected):
    """The hooks double what is saved. Second derivative of a**3 is 6a."""
    a = torch.tensor([3.0], requires_grad=True, dtype=torch.float64)

    def doubling(active):
        return saved_tensors_hooks((lambda t: 2 * t) if active else (lambda t: t), lambda t: t)

    with doubling(around_forward):
        y = a**3
    with doubling(around_backward):
        (g,) = torch.autograd.grad(y, a, create_graph=True)
    assert torch.autograd.grad(g, a)[0].item() == expected * 3.0


def test_innermost_hooks_win_and_end_with_their_context():
    a = leaf(5.0)
    with saved_tensors_hooks(lambda t: 2 * t, lambda t: t):
        with saved_tensors_hooks(lambda t: 5 * t, lambda t: t):
            y = a * a
        z = a * a
    y.sum().backward()
    assert a.grad.item() == 5 * 2 * 5.0
    a.grad = None
    z.backward()
    assert a.grad.item() == 2 * 2 * 5.0


def test_hooks_with_errors_of_their_own():
    class Custom(Exception):
        pass

    def fail(value):
        raise Custom("mine")

    a = leaf(1.0)
    with pytest.raises(Custom), saved_tensors_hooks(fail, lambda t: t):
        a * a
    with saved_tensors_hooks(lambda t: t, fail):
        y = a * a
    with pytest.raises(Custom):
        y.backward()
    with saved_tensors_hooks(lambda t: 0, lambda t: t):
        y = a * a
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
        y.backward()


def test_pack_hook_may_not_write():
    a = torch.ones(1)
    text = "A saved tensor pack hook is modifying its input in place."
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=text), saved_tensors_hooks(lambda t: t.add_(1), None):
        x * a
    y = x * a
    with pytest.raises(RuntimeError, match=text):
        y.grad_fn._raw_saved_other.register_hooks(lambda t: t.add_(1), lambda t: t)


def test_unpacked_value_has_its_own_version():
    a = torch.ones(1)
    with saved_tensors_hooks(lambda t: a, lambda t: t):
        y = leaf(1.0) * torch.ones(1)
    version = a._version
    y.grad_fn._saved_other.add_(1)
    assert a._version == version


def test_disabling_hooks_nests():
    assert saved_tensors_hooks_enabled()
    with disable_saved_tensors_hooks("outer"):
        assert not saved_tensors_hooks_enabled()
        with disable_saved_tensors_hooks("inner"), pytest.raises(RuntimeError, match="inner"):
            saved_tensors_hooks(None, None).__enter__()
        with pytest.raises(RuntimeError, match="outer"):
            saved_tensors_hooks(None, None).__enter__()
    assert saved_tensors_hooks_enabled()
    active = saved_tensors_hooks(lambda t: t, lambda t: t)
    with active, pytest.raises(RuntimeError, match="late"):
        disable_saved_tensors_hooks("late").__enter__()


@pytest.mark.parametrize("pin", [False, True])
def test_save_on_cpu(pin):
    a = torch.tensor([1.0, 2.0], requires_grad=True, dtype=torch.float64)
    with save_on_cpu(pin_memory=pin):
        y = (a * a).sum()
    y.backward()
    assert a.grad.tolist() == [2.0, 4.0] and a.grad.dtype is torch.float64


# -- mutation of saved tensors --------------------------------------------------------------------


def square_then_overwrite(x, overwrite):
    a = x.clone()
    y = (a**2).sum()
    overwrite(a)
    y.backward()
    return x.grad.tolist()


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda a: a.sin_(),
        lambda a: a.view_as(a).sin_(),
        lambda a: a[:1].mul_(10),
        lambda a: a[1:].zero_(),
    ],
)
def test_mutation_is_allowed_inside(overwrite):
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        square_then_overwrite(leaf(1.0, 2.0), overwrite)
    with allow_mutation_on_saved_tensors() as books:
        assert square_then_overwrite(leaf(1.0, 2.0), overwrite) == [2.0, 4.0]
        assert len(books.cloned) == 0
    assert len(books.tid_to_weakhandle) == 0


def test_books_follow_the_graphs():
    with allow_mutation_on_saved_tensors() as books:
        a = leaf(1.0).clone()
        first = a**2
        again = a**2
        assert len(books.tid_to_weakhandle) == 1
        a.add_(1)
        second = a**2
        a.add_(1)
        assert len(books.cloned) == 2
        del second
        assert len(books.cloned) == 1
        del first, again
        assert len(books.cloned) == 0


def test_backward_outside_and_nesting_are_refused():
    with allow_mutation_on_saved_tensors():
        y = (leaf(1.0) ** 2).sum()
        with pytest.raises(RuntimeError, match="cannot be nested"):
            allow_mutation_on_saved_tensors().__enter__()
    with pytest.raises(AssertionError, match="Trying to backward outside of the"):
        y.backward()


# -- hooks on several tensors ---------------------------------------------------------------------


def test_multi_hook_waits_for_all_that_will_come():
    calls = []
    t1, t2, t3, t4 = (leaf(float(i)) for i in range(1, 5))
    handle = register_multi_grad_hook((t1, t2, t3, t4), calls.append)
    out = (t1 * t2 + t3).sum()
    out.backward(retain_graph=True)
    assert [None if g is None else g.item() for g in calls[0]] == [2.0, 1.0, 1.0, None]
    out.backward(inputs=(t1, t3), retain_graph=True)
    assert [g is None for g in calls[1]] == [False, True, False, True]
    (t4 * 1).backward(inputs=(t4,))
    assert len(calls) == 3
    handle.remove()
    out.backward()
    assert len(calls) == 3


def test_multi_hook_forgets_a_failed_task():
    calls = []
    a, b = leaf(1.0), leaf(2.0)
    mid = a * 2
    register_multi_grad_hook((mid, b), calls.append)
    fails = [True]

    def boom(grad):
        if fails[0]:
            raise ValueError

    out = mid * b.clone()
    out.grad_fn.next_functions[1][0].register_prehook(boom)
    with pytest.raises(ValueError):
        out.backward(retain_graph=True)
    fails[0] = False
    out.backward()
    assert len(calls) == 1


def test_multi_hook_any():
    calls = []
    a = leaf(1.0)
    b = a * 2
    c = b * 3
    handle = register_multi_grad_hook((a, b, c), calls.append, mode="any")
    c.backward(retain_graph=True)
    assert [g.item() for g in calls] == [1.0]
    c.backward(retain_graph=True)
    assert len(calls) == 2
    handle.remove()
    c.backward()
    assert len(calls) == 2
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got foo"):
        register_multi_grad_hook((a,), calls.append, mode="foo")


def test_multi_hook_counts_concurrent_tasks_apart():
    a, b = leaf(1.0), leaf(2.0)
    calls = []
    register_multi_grad_hook((a, b), lambda grads: calls.append([g.item() for g in grads]))
    out = a * b
    threads = [threading.Thread(target=lambda: out.backward(retain_graph=True)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [[2.0, 1.0]] * 5


# -- versions, view replay ------------------------------------------------------------------------


def test_versions_by_hand():
    a = torch.ones(2, dtype=torch.int64)
    view = a[:1]
    increment_version(a)
    assert a._version == view._version == 1
    with unsafe_preserve_version_counter(a):
        a.add_(1)
        assert a._version == 2
    assert a._version == 1
    unsafe_set_version_counter(a, 7)
    assert view._version == 7
    with pytest.raises(RuntimeError, match="Cannot set"):
        unsafe_set_version_counter(a, -1)
    with torch.inference_mode():
        frozen = torch.ones(1)
    with pytest.raises(RuntimeError, match="update to inference tensor outside InferenceMode"):
        increment_version(frozen)


def stale_view_name():
    base = leaf(1.0, 2.0).clone()
    view = base.view(2)
    base.add_(1)
    return type(view.grad_fn).__name__


def test_view_replay():
    enabled = torch.autograd.is_view_replay_enabled
    assert not enabled() and stale_view_name() == "AsStridedBackward0"
    with force_original_view_tracking(True):
        assert enabled() and stale_view_name() == "ViewBackward0"
        force_original_view_tracking(False)
        assert not enabled()
    assert not enabled()
    force_original_view_tracking(True)
    assert enabled()
    with force_original_view_tracking(False):
        assert not enabled()
    assert enabled()
    force_original_view_tracking(False)


def test_saved_output_and_view_write_leave_no_cycle():
    gc.collect()
    gc.disable()
    try:
        x = leaf(-1.0, 1.0)
        base = x * 1
        old = weakref.ref(base.grad_fn)
        view = base.narrow(0, 0, 1)
        view.relu_()
        assert type(base.grad_fn).__name__ == "CopySlices"
        base.sum().backward()
        assert x.grad.tolist() == [0.0, 1.0]
        del base, view
        assert old() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["sin", "exp"])
def test_hooks_that_unpacking_puts_on_a_node_run(name):
    told = []

    def unpack(tensor):
        def halve(results, given):
            told.append(given)
            return tuple([value / 2 for value in results])

        current_autograd_node().register_hook(halve)
        return tensor

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        getattr(x, name)().sum().backward()
    (plain,) = torch.autograd.grad(getattr(x, name)().sum(), x)
    assert torch.equal(x.grad, plain / 2)
    assert told == [()]


def test_nodes_tell_of_the_gradients_that_they_take():
    x = torch.ones(2, 3, requires_grad=True)
    variance, _ = torch.var_mean(x, dim=0)
    assert [meta.shape for meta in variance.grad_fn._input_metadata] == [(3,), (3,)]
    assert (x * 2).grad_fn._input_metadata[0].dtype is torch.float32


@pytest.mark.parametrize(
    "name, call",
    [
        (
            "native_batch_norm",
            lambda x: torch.nn.functional.batch_norm(x, None, None, None, None, True),
        ),
        ("native_layer_norm", lambda x: torch.nn.functional.layer_norm(x, (4,))),
        ("max", lambda x: x.max(1).values),
        ("lu_factor", lambda x: torch.linalg.lu_factor(x)[0]),
        ("max_pool2d", lambda x: torch.nn.functional.max_pool2d(x, 2)),
        ("native_dropout", lambda x: torch.native_dropout(x, 0.5, True)[0]),
    ],
)
def test_hooks_are_told_of_outputs_that_have_gradients(name, call):
    x = torch.randn(2, 3, 4, 4, requires_grad=True)
    out = call(x)
    seen = []
    out.grad_fn.register_prehook(lambda grads: seen.append(len(grads)) or (grads[0] * 2,))
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(outputs)))
    out.sum().backward()
    assert seen == [1, 1]
    doubled, x.grad = x.grad, None
    if name != "native_dropout":
        call(x).sum().backward()
        assert torch.allclose(doubled, 2 * x.grad)


def test_hooks_are_told_of_outputs_that_were_not_asked_for():
    x, weight = (torch.randn(2, 3, requires_grad=True) for _ in range(2))
    plain = torch.randn(2, 3), [3], torch.zeros(2, 1), torch.ones(2, 1), None, None
    found = torch.ops.aten.native_layer_norm_backward(x * weight, *plain, [True, False, False])
    seen = []
    found[0].grad_fn.register_prehook(lambda grads: seen.append(len(grads)))
    found[0].sum().backward()
    assert seen == [3] and found[1:] == (None, None)


def test_hooks_are_told_of_every_output_of_a_function():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.long()

        @staticmethod
        def backward(ctx, grad, other):
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    out, _ = Two.apply(x)
    seen = []
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(outputs)))
    out.sum().backward()
    assert seen == [2]
